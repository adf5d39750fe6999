/* SPDX-License-Identifier: BSD-2-Clause */
/* atomic.c -- sizes of operands; and the calls, which all become one */
#include "engine/atomic.h"

#include <rdma/fi_errno.h>

#include "base/container.h"
#include "engine/length.h"

size_t pmv_operand_size(enum fi_datatype datatype)
{
	static const size_t sizes[] = {
		[FI_INT8] = 1,
		[FI_UINT8] = 1,
		[FI_INT16] = 2,
		[FI_UINT16] = 2,
		[FI_INT32] = 4,
		[FI_UINT32] = 4,
		[FI_INT64] = 8,
		[FI_UINT64] = 8,
		[FI_FLOAT] = sizeof(float),
		[FI_DOUBLE] = sizeof(double),
		[FI_FLOAT_COMPLEX] = 2 * sizeof(float),
		[FI_DOUBLE_COMPLEX] = 2 * sizeof(double),
		[FI_LONG_DOUBLE] = sizeof(long double),
	};
	bool known = (size_t) datatype < sizeof(sizes) / sizeof(sizes[0]);

	return known ? sizes[datatype] : 2 * sizeof(long double);
}

static size_t total(const struct fi_ioc *ioc, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += ioc[i].count;
	return count;
}

static const struct pmv_atomic_calls *calls_of(const struct fid_ep *fid)
{
	return pmv_container_of((const char *) fid->atomic, struct pmv_atomic_calls, ops);
}

static ssize_t post(struct fid_ep *fid, struct pmv_atomic atomic, uint64_t flags)
{
	const struct fi_msg_atomic *msg = atomic.msg;
	/* What only reads has no operands. */
	size_t count = msg->op == FI_ATOMIC_READ ? total(atomic.result, atomic.result_count)
						 : total(msg->msg_iov, msg->iov_count);
	struct pmv_atomic_msg copy;

	atomic.msg = pmv_atomic_lengths(msg, count, &copy);
	return atomic.msg ? calls_of(fid)->post(fid, &atomic, flags) : -FI_EINVAL;
}

/* The arguments that all calls without flags have, as a message. */
#define ATOMIC_MSG(ioc, descs, n)                                                                  \
	struct fi_rma_ioc rma_ioc = {addr, total(ioc, n), key};                                    \
	struct fi_msg_atomic msg = {ioc, descs, n, dest_addr, &rma_ioc, 1, datatype, op, context, 0}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return post(fid, (struct pmv_atomic){.msg = msg}, flags);
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			     size_t count, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	ATOMIC_MSG(iov, desc, count);

	return atomic_writemsg(fid, &msg, calls_of(fid)->op_flags);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			    fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			    enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = {(void *) buf, count};

	return atomic_writev(fid, &ioc, &desc, 1, dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest_addr,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc ioc = {(void *) buf, count};
	void *context = NULL;
	ATOMIC_MSG(&ioc, NULL, 1);

	return post(fid, (struct pmv_atomic){.msg = &msg, .inject = true}, FI_INJECT);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *result, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	struct pmv_atomic atomic = {
		.msg = msg,
		.fetch = true,
		.result = result,
		.result_desc = result_desc,
		.result_count = result_count,
	};

	return post(fid, atomic, flags);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *result, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	ATOMIC_MSG(iov, desc, count);

	return atomic_readwritemsg(fid, &msg, result, result_desc, result_count,
				   calls_of(fid)->op_flags);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	struct fi_ioc ioc = {(void *) buf, count}, result_ioc = {result, count};

	return atomic_readwritev(fid, &ioc, &desc, 1, &result_ioc, &result_desc, 1, dest_addr, addr,
				 key, datatype, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *compare, void **compare_desc,
				   size_t compare_count, struct fi_ioc *result, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	struct pmv_atomic atomic = {
		.msg = msg,
		.fetch = true,
		.compare = true,
		.result = result,
		.result_desc = result_desc,
		.result_count = result_count,
		.operand = compare,
		.operand_desc = compare_desc,
		.operand_count = compare_count,
	};

	return post(fid, atomic, flags);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *compare, void **compare_desc,
				 size_t compare_count, struct fi_ioc *result, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	ATOMIC_MSG(iov, desc, count);

	return atomic_compwritemsg(fid, &msg, compare, compare_desc, compare_count, result,
				   result_desc, result_count, calls_of(fid)->op_flags);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				const void *compare, void *compare_desc, void *result,
				void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = {(void *) buf, count}, result_ioc = {result, count};
	struct fi_ioc compare_ioc = {(void *) compare, count};

	return atomic_compwritev(fid, &ioc, &desc, 1, &compare_ioc, &compare_desc, 1, &result_ioc,
				 &result_desc, 1, dest_addr, addr, key, datatype, op, context);
}

void pmv_atomic_fill(struct fi_ops_atomic *ops)
{
	ops->write = atomic_write;
	ops->writev = atomic_writev;
	ops->writemsg = atomic_writemsg;
	ops->inject = atomic_inject;
	ops->readwrite = atomic_readwrite;
	ops->readwritev = atomic_readwritev;
	ops->readwritemsg = atomic_readwritemsg;
	ops->compwrite = atomic_compwrite;
	ops->compwritev = atomic_compwritev;
	ops->compwritemsg = atomic_compwritemsg;
}
