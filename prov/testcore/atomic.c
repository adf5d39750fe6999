/* SPDX-License-Identifier: BSD-2-Clause */
/* atomic.c -- the calls of atomics, each made one request; what request.c says holds here, too */
#include "testcore/request.h"

#include <rdma/fi_errno.h>

#include "testcore/fid.h"

static size_t size_of(enum fi_datatype datatype)
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
		[FI_LONG_DOUBLE_COMPLEX] = 2 * sizeof(long double),
	};

	return (size_t) datatype < sizeof(sizes) / sizeof(sizes[0]) ? sizes[datatype] : 0;
}

static ssize_t post_atomic(struct fid_ep *fid, enum testcore_call call,
			   const struct fi_msg_atomic *msg, const struct fi_ioc *compare,
			   const struct fi_ioc *result, uint64_t flags)
{
	size_t size = size_of(msg->datatype);
	struct iovec iov[TESTCORE_MAX_IOV];
	struct testcore_request request = {
		.call = call,
		.what = FI_ATOMIC | (call >= TESTCORE_FETCH_ATOMIC ? FI_READ : FI_WRITE),
		.flags = flags,
		.context = msg->context,
		.iov_count = msg->iov_count,
		.rma_count = msg->rma_iov_count,
		.data = msg->data,
		.dest = msg->addr,
		.datatype = msg->datatype,
		.op = msg->op,
		.compare = compare ? compare->addr : NULL,
		.result = result ? result->addr : NULL,
	};

	if (!size || msg->iov_count > TESTCORE_MAX_IOV)
		return -FI_EINVAL;
	for (size_t i = 0; i < msg->iov_count; i++)
		iov[i] = (struct iovec){msg->msg_iov[i].addr, msg->msg_iov[i].count * size};
	if (msg->rma_iov_count) {
		request.addr = msg->rma_iov[0].addr;
		request.key = msg->rma_iov[0].key;
	}
	for (size_t i = 0; i < msg->rma_iov_count; i++)
		request.rma_len += msg->rma_iov[i].count * size;
	return testcore_ep_post(fid, &request, iov, msg->desc);
}

/* What the shorter forms have in common. */
struct vector {
	const struct fi_ioc *iov;
	void **desc;
	size_t count;
	const struct fi_ioc *compare;
	const struct fi_ioc *result;
	enum fi_datatype datatype;
	enum fi_op op;
};

static ssize_t post_vector(struct fid_ep *fid, enum testcore_call call, const struct vector *vector,
			   fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	struct fi_rma_ioc rma_ioc = {addr, 0, key};
	struct fi_msg_atomic msg = {
		.msg_iov = vector->iov,
		.desc = vector->desc,
		.iov_count = vector->count,
		.addr = dest,
		.rma_iov = &rma_ioc,
		.rma_iov_count = 1,
		.datatype = vector->datatype,
		.op = vector->op,
		.context = context,
	};

	for (size_t i = 0; i < vector->count; i++)
		rma_ioc.count += vector->iov[i].count;
	return post_atomic(fid, call, &msg, vector->compare, vector->result,
			   call == TESTCORE_INJECT_ATOMIC
				   ? 0
				   : testcore_of(fid, struct testcore_ep, fid)->op_flags);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			    fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
			    enum fi_op op, void *context)
{
	struct fi_ioc ioc = {(void *) buf, count};

	return post_vector(fid, TESTCORE_ATOMIC,
			   &(struct vector){&ioc, &desc, 1, NULL, NULL, datatype, op}, dest, addr,
			   key, context);
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			     size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	return post_vector(fid, TESTCORE_ATOMICV,
			   &(struct vector){iov, desc, count, NULL, NULL, datatype, op}, dest, addr,
			   key, context);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return post_atomic(fid, TESTCORE_ATOMICMSG, msg, NULL, NULL, flags);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc ioc = {(void *) buf, count};

	return post_vector(fid, TESTCORE_INJECT_ATOMIC,
			   &(struct vector){&ioc, NULL, 1, NULL, NULL, datatype, op}, dest, addr,
			   key, NULL);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	struct fi_ioc ioc = {(void *) buf, count}, result_ioc = {result, count};

	(void) result_desc;
	return post_vector(fid, TESTCORE_FETCH_ATOMIC,
			   &(struct vector){&ioc, &desc, 1, NULL, &result_ioc, datatype, op}, dest,
			   addr, key, context);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *result, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
				 enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void) result_desc, (void) result_count;
	return post_vector(fid, TESTCORE_FETCH_ATOMICV,
			   &(struct vector){iov, desc, count, NULL, result, datatype, op}, dest,
			   addr, key, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *result, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	(void) result_desc;
	return post_atomic(fid, TESTCORE_FETCH_ATOMICMSG, msg, NULL, result_count ? result : NULL,
			   flags);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				const void *compare, void *compare_desc, void *result,
				void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = {(void *) buf, count}, result_ioc = {result, count};
	struct fi_ioc compare_ioc = {(void *) compare, count};

	(void) compare_desc, (void) result_desc;
	return post_vector(
		fid, TESTCORE_COMPARE_ATOMIC,
		&(struct vector){&ioc, &desc, 1, &compare_ioc, &result_ioc, datatype, op}, dest,
		addr, key, context);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *compare, void **compare_desc,
				 size_t compare_count, struct fi_ioc *result, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
				 enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void) compare_desc, (void) compare_count, (void) result_desc, (void) result_count;
	return post_vector(fid, TESTCORE_COMPARE_ATOMICV,
			   &(struct vector){iov, desc, count, compare, result, datatype, op}, dest,
			   addr, key, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *compare, void **compare_desc,
				   size_t compare_count, struct fi_ioc *result, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	(void) compare_desc, (void) result_desc;
	return post_atomic(fid, TESTCORE_COMPARE_ATOMICMSG, msg, compare_count ? compare : NULL,
			   result_count ? result : NULL, flags);
}

struct fi_ops_atomic testcore_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
};
