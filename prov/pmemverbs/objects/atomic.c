/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * atomic.c -- atomics; those that commit go to commit.c
 *
 * All of them end up as one call with a message, operands and results, where
 * the number of operands tells which of the core's three calls it is.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "engine/atomic.h"
#include "commit/group.h"
#include "engine/length.h"
#include "base/log.h"

static uint64_t what_is(const struct pmv_atomic *op)
{
	return FI_ATOMIC | (op->fetch ? FI_READ : FI_WRITE);
}

static ssize_t post_atomic(struct pmv_ep *ep, const void *arg, void *context, uint64_t flags)
{
	struct pmv_atomic op = *(const struct pmv_atomic *) arg;
	struct pmv_wr wr = {
		.kind = PMV_WR_ATOMIC, .context = context, .flags = flags, .atomic = &op};
	struct fi_msg_atomic msg = *op.msg;
	struct fi_rma_ioc rma_iov[PMV_MAX_RMA];

	for (size_t i = 0; i < msg.rma_iov_count; i++) {
		rma_iov[i] = msg.rma_iov[i];
		rma_iov[i].key = pmv_ep_key(rma_iov[i].key);
	}
	msg.rma_iov = rma_iov;
	op.msg = &msg;
	return pmv_engine_post_one(&ep->engine, &wr);
}

static ssize_t post_inject(struct pmv_ep *ep, const void *arg, void *context, uint64_t flags)
{
	const struct fi_msg_atomic *msg = ((const struct pmv_atomic *) arg)->msg;

	(void) context, (void) flags;
	return fi_inject_atomic(ep->engine.fid, msg->msg_iov->addr, msg->msg_iov->count, msg->addr,
				msg->rma_iov->addr, pmv_ep_key(msg->rma_iov->key), msg->datatype,
				msg->op);
}

/* A block that is filled from its start; without one, only what it would take is counted. */
struct block {
	char *base;
	size_t used;
};

static void *put(struct block *block, const void *from, size_t size)
{
	void *to = block->base ? block->base + block->used : NULL;

	if (to && size && from)
		memcpy(to, from, size);
	block->used += (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
	return from ? to : NULL;
}

/* put_iocs -- with the operands themselves, if data_too */
static struct fi_ioc *put_iocs(struct block *block, const struct fi_ioc *ioc, size_t count,
			       size_t size, bool data_too)
{
	struct fi_ioc *copy = put(block, ioc, count * sizeof(*ioc));

	for (size_t i = 0; data_too && i < count; i++) {
		void *data = put(block, ioc[i].addr, ioc[i].count * size);

		if (copy)
			copy[i].addr = data;
	}
	return copy;
}

static struct pmv_atomic *put_atomic(struct block *block, const struct pmv_atomic *op,
				     bool data_too)
{
	const struct fi_msg_atomic *msg = op->msg;
	size_t size = pmv_operand_size(msg->datatype);
	struct pmv_atomic *copy = put(block, op, sizeof(*op));
	struct fi_msg_atomic *msg_copy = put(block, msg, sizeof(*msg));
	void *iov = put_iocs(block, msg->msg_iov, msg->iov_count, size, data_too);
	void *desc = put(block, msg->desc, msg->iov_count * sizeof(void *));
	void *rma_iov = put(block, msg->rma_iov, msg->rma_iov_count * sizeof(*msg->rma_iov));
	void *result = put_iocs(block, op->result, op->result_count, size, false);
	void *result_desc = put(block, op->result_desc, op->result_count * sizeof(void *));
	void *operand = put_iocs(block, op->operand, op->operand_count, size, data_too);
	void *operand_desc = put(block, op->operand_desc, op->operand_count * sizeof(void *));

	if (!block->base)
		return NULL;
	copy->msg = msg_copy;
	msg_copy->msg_iov = iov;
	msg_copy->desc = desc;
	msg_copy->rma_iov = rma_iov;
	copy->result = result;
	copy->result_desc = result_desc;
	copy->operand = operand;
	copy->operand_desc = operand_desc;
	return copy;
}

static void *copy_atomic(const void *op, bool data_too)
{
	struct block block = {0};

	put_atomic(&block, op, data_too);
	block.base = malloc(block.used);
	block.used = 0;
	return block.base ? put_atomic(&block, op, data_too) : NULL;
}

static ssize_t commit_atomic(struct pmv_ep *ep, const struct pmv_atomic *op, uint64_t flags)
{
	const struct fi_msg_atomic *msg = op->msg;
	struct fi_rma_iov rma_iov[PMV_MAX_RMA];
	struct pmv_commit commit;

	for (size_t i = 0; i < msg->rma_iov_count; i++) {
		rma_iov[i] = (struct fi_rma_iov){
			.addr = msg->rma_iov[i].addr,
			.len = msg->rma_iov[i].count * pmv_operand_size(msg->datatype),
			.key = msg->rma_iov[i].key,
		};
	}
	commit = (struct pmv_commit){
		.rma_iov = rma_iov,
		.rma_iov_count = msg->rma_iov_count,
		.what = what_is(op),
		.context = msg->context,
		.data = msg->data,
		.flags = flags,
		.post = op->inject ? post_inject : post_atomic,
		.op = op,
		.copy = copy_atomic,
		.quiet = op->inject,
		.unheard = op->inject,
	};
	return flags & FI_COMMIT ? pmv_commit(ep, &commit) : pmv_cover(ep, &commit);
}

/* is_covered -- is it to be durable though the call does not say so? */
static bool is_covered(struct pmv_ep *ep, const struct fi_msg_atomic *msg)
{
	if (pmv_ep_direct(ep, PMV_SLOW_ALL) || msg->op == FI_ATOMIC_READ)
		return false;
	for (size_t i = 0; i < msg->rma_iov_count; i++) {
		if (pmv_covers(ep, msg->rma_iov[i].key))
			return true;
	}
	return false;
}

static size_t ioc_len(const struct fi_msg_atomic *msg, size_t i)
{
	return msg->rma_iov[i].count * pmv_operand_size(msg->datatype);
}

static void note_begin(struct pmv_ep *ep, const struct fi_msg_atomic *msg)
{
	for (size_t i = 0; i < msg->rma_iov_count; i++)
		pmv_note_begin(ep, msg->rma_iov[i].key, msg->rma_iov[i].addr, ioc_len(msg, i));
}

static void note_end(struct pmv_ep *ep, const struct fi_msg_atomic *msg, bool posted)
{
	for (size_t i = 0; i < msg->rma_iov_count; i++)
		pmv_note_end(ep, msg->rma_iov[i].key, msg->rma_iov[i].addr, ioc_len(msg, i),
			     posted);
}

static ssize_t post_or_commit(struct pmv_ep *ep, const struct pmv_atomic *op, uint64_t flags)
{
	uint64_t what = what_is(op);
	struct pmv_post post;
	ssize_t ret;

	if (flags & FI_COMMIT)
		return commit_atomic(ep, op, flags);
	if (flags & FI_IMMED) {
		PMV_WARN(EP_DATA, "FI_IMMED needs FI_COMMIT\n");
		return -FI_EINVAL;
	}
	if (is_covered(ep, op->msg))
		return commit_atomic(ep, op, flags);
	note_begin(ep, op->msg);
	ret = pmv_post_begin(ep, &post, what, op->msg->context, flags, false);
	if (!ret)
		ret = pmv_post_end(ep, &post, post_atomic(ep, op, post.context, post.flags));
	note_end(ep, op->msg, !ret);
	return ret;
}

static ssize_t do_atomic(struct pmv_ep *ep, const struct pmv_atomic *op, uint64_t flags)
{
	struct pmv_atomic_msg copy;
	struct pmv_atomic atomic = *op;

	atomic.msg = pmv_atomic_lengths(
		op->msg, pmv_atomic_count(op->msg, op->result, op->result_count), &copy);
	return atomic.msg ? post_or_commit(ep, &atomic, flags) : -FI_EINVAL;
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct pmv_atomic atomic = {.msg = msg};

	return do_atomic(pmv_to_ep(fid), &atomic, flags);
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			     size_t count, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	PMV_ATOMIC_MSG(iov, desc, count);

	return atomic_writemsg(fid, &msg, pmv_to_ep(fid)->tx_op_flags);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest_addr,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	size_t len = count * pmv_operand_size(datatype);
	struct fi_ioc ioc = {(void *) buf, count};
	void *context = NULL;
	PMV_ATOMIC_MSG(&ioc, NULL, 1);
	struct pmv_atomic atomic = {.msg = &msg, .inject = true};
	ssize_t ret;

	if (count && is_covered(ep, &msg))
		return commit_atomic(ep, &atomic, FI_INJECT);
	if (!pmv_ep_is_open(ep))
		return -FI_EAGAIN;
	pmv_note_begin(ep, key, addr, len);
	ret = fi_inject_atomic(ep->engine.fid, buf, count, dest_addr, addr, pmv_ep_key(key),
			       datatype, op);
	if (!ret)
		pmv_note_read(ep);
	pmv_note_end(ep, key, addr, len, !ret);
	return ret;
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	struct pmv_atomic atomic = {
		.msg = msg,
		.fetch = true,
		.result = resultv,
		.result_desc = result_desc,
		.result_count = result_count,
	};

	return do_atomic(pmv_to_ep(fid), &atomic, flags);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	PMV_ATOMIC_MSG(iov, desc, count);

	return atomic_readwritemsg(fid, &msg, resultv, result_desc, result_count,
				   pmv_to_ep(fid)->tx_op_flags);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *comparev, void **compare_desc,
				   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	struct pmv_atomic atomic = {
		.msg = msg,
		.fetch = true,
		.compare = true,
		.result = resultv,
		.result_desc = result_desc,
		.result_count = result_count,
		.operand = comparev,
		.operand_desc = compare_desc,
		.operand_count = compare_count,
	};

	return do_atomic(pmv_to_ep(fid), &atomic, flags);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *comparev, void **compare_desc,
				 size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	PMV_ATOMIC_MSG(iov, desc, count);

	return atomic_compwritemsg(fid, &msg, comparev, compare_desc, compare_count, resultv,
				   result_desc, result_count, pmv_to_ep(fid)->tx_op_flags);
}

static int atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
			     size_t *count)
{
	return fi_atomicvalid(pmv_to_ep(fid)->engine.fid, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	return fi_fetch_atomicvalid(pmv_to_ep(fid)->engine.fid, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	return fi_compare_atomicvalid(pmv_to_ep(fid)->engine.fid, datatype, op, count);
}

struct fi_ops_atomic pmv_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = pmv_atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = pmv_atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = pmv_atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};
