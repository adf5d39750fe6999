/* SPDX-License-Identifier: BSD-2-Clause */
/* atomic.c -- sizes of operands, and the calls with one operand */
#include "engine/atomic.h"

#include <rdma/fi_errno.h>

size_t pmv_operand_size(enum fi_datatype datatype)
{
	switch (datatype) {
	case FI_INT8:
	case FI_UINT8:
		return 1;
	case FI_INT16:
	case FI_UINT16:
		return 2;
	case FI_INT32:
	case FI_UINT32:
	case FI_FLOAT:
		return 4;
	case FI_INT64:
	case FI_UINT64:
	case FI_DOUBLE:
	case FI_FLOAT_COMPLEX:
		return 8;
	case FI_DOUBLE_COMPLEX:
		return 16;
	case FI_LONG_DOUBLE:
		return sizeof(long double);
	default:
		return 2 * sizeof(long double);
	}
}

/* A call with one operand is a call with a list of one, for every kind of endpoint. */

ssize_t pmv_atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			 enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = {(void *) buf, count};

	return fi_atomicv(fid, &ioc, &desc, 1, dest_addr, addr, key, datatype, op, context);
}

ssize_t pmv_atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			     void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
			     uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = {(void *) buf, count}, result_ioc = {result, count};

	return fi_fetch_atomicv(fid, &ioc, &desc, 1, &result_ioc, &result_desc, 1, dest_addr, addr,
				key, datatype, op, context);
}

ssize_t pmv_atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			     const void *compare, void *compare_desc, void *result,
			     void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = {(void *) buf, count}, result_ioc = {result, count};
	struct fi_ioc compare_ioc = {(void *) compare, count};

	return fi_compare_atomicv(fid, &ioc, &desc, 1, &compare_ioc, &compare_desc, 1, &result_ioc,
				  &result_desc, 1, dest_addr, addr, key, datatype, op, context);
}
