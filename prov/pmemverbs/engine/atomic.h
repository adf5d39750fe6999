/* SPDX-License-Identifier: BSD-2-Clause */
/* atomic.h -- sizes of operands, and the calls with one operand, which all endpoints share */
#ifndef PMV_ATOMIC_H
#define PMV_ATOMIC_H

#include <stddef.h>

#include <rdma/fi_atomic.h>

/* pmv_operand_size -- in bytes; the largest there is for types that a later libfabric has */
size_t pmv_operand_size(enum fi_datatype datatype);

static inline size_t pmv_ioc_count(const struct fi_ioc *ioc, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += ioc[i].count;
	return count;
}

/* pmv_atomic_count -- so many are operated on; what only reads has no operands */
static inline size_t pmv_atomic_count(const struct fi_msg_atomic *msg, const struct fi_ioc *result,
				      size_t result_count)
{
	return msg->op == FI_ATOMIC_READ ? pmv_ioc_count(result, result_count)
					 : pmv_ioc_count(msg->msg_iov, msg->iov_count);
}

/* Calls with one operand: of all kinds of endpoints, whose calls with lists they make. */
ssize_t pmv_atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			 enum fi_datatype datatype, enum fi_op op, void *context);
ssize_t pmv_atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			     void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
			     uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context);
ssize_t pmv_atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			     const void *compare, void *compare_desc, void *result,
			     void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context);

/* The arguments that all calls without flags have, as a message. */
#define PMV_ATOMIC_MSG(ioc, descs, n)                                                              \
	struct fi_rma_ioc rma_ioc = {addr, pmv_ioc_count(ioc, n), key};                            \
	struct fi_msg_atomic msg = {ioc, descs, n, dest_addr, &rma_ioc, 1, datatype, op, context, 0}

#endif /* PMV_ATOMIC_H */
