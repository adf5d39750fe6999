/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * atomic.c -- what a device can do of 64 bits: fetch and add, compare and swap
 *
 * To read and to write 8 aligned bytes are an ordinary READ and WRITE, as in libfabric's verbs.
 */
#include "post.h"

#include <rdma/fi_atomic.h>

/* What a call is, whatever its arguments look like. */
struct atomic {
	const struct fi_msg_atomic *msg;
	void *result;
	void *result_desc;
	uint64_t compare;
	uint64_t flags;
	bool wanted;
};

static bool is_64_bits(enum fi_datatype datatype)
{
	return datatype == FI_INT64 || datatype == FI_UINT64;
}

static int valid_write(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	(void) ep;
	*count = 1;
	return is_64_bits(datatype) && op == FI_ATOMIC_WRITE ? 0 : -FI_EOPNOTSUPP;
}

static int valid_fetch(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	(void) ep;
	*count = 1;
	return is_64_bits(datatype) && (op == FI_ATOMIC_READ || op == FI_SUM) ? 0 : -FI_EOPNOTSUPP;
}

static int valid_compare(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	(void) ep;
	*count = 1;
	return is_64_bits(datatype) && op == FI_CSWAP ? 0 : -FI_EOPNOTSUPP;
}

int pmr_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
		     struct fi_atomic_attr *attr, uint64_t flags)
{
	int ret;

	(void) domain;
	if (flags & FI_COMPARE_ATOMIC)
		ret = valid_compare(NULL, datatype, op, &attr->count);
	else if (flags & FI_FETCH_ATOMIC)
		ret = valid_fetch(NULL, datatype, op, &attr->count);
	else
		ret = valid_write(NULL, datatype, op, &attr->count);
	if (!ret)
		attr->size = sizeof(uint64_t);
	return ret;
}

static bool is_single(const struct fi_msg_atomic *msg)
{
	return msg->rma_iov_count == 1 && msg->rma_iov->count == 1;
}

static ssize_t post_write(struct pmr_ep *ep, const struct atomic *atomic)
{
	const struct fi_msg_atomic *msg = atomic->msg;
	struct pmr_request request = {
		.context = msg->context,
		.flags = FI_ATOMIC | FI_WRITE,
		.wanted = atomic->wanted,
	};
	struct iovec iov;
	size_t count;
	int ret = valid_write(NULL, msg->datatype, msg->op, &count);

	if (ret)
		return ret;
	if (!is_single(msg) || msg->iov_count != 1 || msg->msg_iov->count != 1)
		return -FI_EINVAL;
	iov = (struct iovec){.iov_base = msg->msg_iov->addr, .iov_len = sizeof(uint64_t)};
	ret = pmr_fill(ep, &request, IBV_WR_RDMA_WRITE, &iov, msg->desc, 1, atomic->flags);
	if (ret)
		return ret;
	pmr_fill_place(&request, msg->rma_iov->addr, msg->rma_iov->key);
	return pmr_post_one(ep, &request);
}

static void fill_atomic(struct pmr_request *request, const struct atomic *atomic, uint64_t operand)
{
	const struct fi_rma_ioc *to = atomic->msg->rma_iov;
	struct ibv_send_wr *wr = &request->wr;
	bool compares = atomic->msg->op == FI_CSWAP;

	wr->opcode = compares ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr->wr.atomic.remote_addr = to->addr;
	wr->wr.atomic.rkey = (uint32_t) to->key;
	wr->wr.atomic.compare_add = compares ? atomic->compare : operand;
	wr->wr.atomic.swap = compares ? operand : 0;
}

/* post_fetch -- all that brings a value back */
static ssize_t post_fetch(struct pmr_ep *ep, const struct atomic *atomic)
{
	const struct fi_msg_atomic *msg = atomic->msg;
	struct pmr_request request = {
		.context = msg->context,
		.flags = FI_ATOMIC | FI_READ,
		.wanted = atomic->wanted,
	};
	struct iovec iov = {.iov_base = atomic->result, .iov_len = sizeof(uint64_t)};
	void *desc = atomic->result_desc;
	uint64_t operand = 0;
	int ret;

	if (!is_single(msg) || !atomic->result)
		return -FI_EINVAL;
	/* The buffer is written, so nothing of it travels in the request. */
	ret = pmr_fill(ep, &request, IBV_WR_RDMA_READ, &iov, &desc, 1, atomic->flags);
	if (ret)
		return ret;
	if (msg->op == FI_ATOMIC_READ) {
		pmr_fill_place(&request, msg->rma_iov->addr, msg->rma_iov->key);
		return pmr_post_one(ep, &request);
	}
	if (msg->iov_count != 1 || msg->msg_iov->count != 1 || !msg->msg_iov->addr)
		return -FI_EINVAL;
	memcpy(&operand, msg->msg_iov->addr, sizeof(operand));
	fill_atomic(&request, atomic, operand);
	return pmr_post_one(ep, &request);
}

/* fetch -- into the first of these */
static ssize_t fetch(struct fid_ep *fid, struct atomic atomic, const struct fi_ioc *result,
		     void **result_desc, size_t count)
{
	if (count != 1 || result->count != 1)
		return -FI_EINVAL;
	atomic.result = result->addr;
	atomic.result_desc = result_desc ? *result_desc : NULL;
	return post_fetch(pmr_to_ep(&fid->fid), &atomic);
}

static struct atomic with_flags(const struct fid_ep *fid, const struct fi_msg_atomic *msg,
				uint64_t flags)
{
	const struct pmr_ep *ep = pmr_to_ep((struct fid *) &fid->fid);

	return (struct atomic){
		.msg = msg, .flags = flags, .wanted = ep->always || (flags & FI_COMPLETION)};
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct atomic atomic = with_flags(fid, msg, flags);

	return post_write(pmr_to_ep(&fid->fid), &atomic);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *result, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	size_t count;
	int ret = valid_fetch(NULL, msg->datatype, msg->op, &count);

	if (ret)
		return ret;
	return fetch(fid, with_flags(fid, msg, flags), result, result_desc, result_count);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *compare, void **compare_desc,
				   size_t compare_count, struct fi_ioc *result, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	struct atomic atomic = with_flags(fid, msg, flags);
	size_t count;
	int ret = valid_compare(NULL, msg->datatype, msg->op, &count);

	(void) compare_desc;
	if (ret)
		return ret;
	if (compare_count != 1 || compare->count != 1)
		return -FI_EINVAL;
	memcpy(&atomic.compare, compare->addr, sizeof(atomic.compare));
	return fetch(fid, atomic, result, result_desc, result_count);
}

/* The arguments that all calls without flags have, as a message. */
#define ATOMIC_MSG(ioc, descs, n)                                                                  \
	const struct fi_rma_ioc to_ = {addr, (n) == 1 ? (ioc)->count : 0, key};                    \
	const struct fi_msg_atomic msg = {ioc, descs, n, dest, &to_, 1, datatype, op, context, 0}; \
	uint64_t flags = pmr_to_ep(&fid->fid)->plain_flags

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			     size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	ATOMIC_MSG(iov, desc, count);

	return atomic_writemsg(fid, &msg, flags);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			    fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
			    enum fi_op op, void *context)
{
	const struct fi_ioc ioc = {(void *) buf, count};

	return atomic_writev(fid, &ioc, &desc, 1, dest, addr, key, datatype, op, context);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	const struct fi_ioc ioc = {(void *) buf, count};
	void *context = NULL;
	struct atomic atomic;
	ATOMIC_MSG(&ioc, NULL, 1);

	atomic = (struct atomic){.msg = &msg, .flags = flags | FI_INJECT};
	return post_write(pmr_to_ep(&fid->fid), &atomic);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *result, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
				 enum fi_datatype datatype, enum fi_op op, void *context)
{
	ATOMIC_MSG(iov, desc, count);

	return atomic_readwritemsg(fid, &msg, result, result_desc, result_count, flags);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	const struct fi_ioc ioc = {(void *) buf, count};
	struct fi_ioc result_ioc = {result, count};

	return atomic_readwritev(fid, &ioc, &desc, 1, &result_ioc, &result_desc, 1, dest, addr, key,
				 datatype, op, context);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *compare, void **compare_desc,
				 size_t compare_count, struct fi_ioc *result, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
				 enum fi_datatype datatype, enum fi_op op, void *context)
{
	ATOMIC_MSG(iov, desc, count);

	return atomic_compwritemsg(fid, &msg, compare, compare_desc, compare_count, result,
				   result_desc, result_count, flags);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				const void *compare, void *compare_desc, void *result,
				void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	const struct fi_ioc ioc = {(void *) buf, count};
	const struct fi_ioc compare_ioc = {(void *) compare, count};
	struct fi_ioc result_ioc = {result, count};

	return atomic_compwritev(fid, &ioc, &desc, 1, &compare_ioc, &compare_desc, 1, &result_ioc,
				 &result_desc, 1, dest, addr, key, datatype, op, context);
}

struct fi_ops_atomic pmr_atomic_ops = {
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
	.writevalid = valid_write,
	.readwritevalid = valid_fetch,
	.compwritevalid = valid_compare,
};
