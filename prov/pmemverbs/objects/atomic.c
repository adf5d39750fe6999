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
#include "objects/atomic.h"
#include "commit/group.h"
#include "engine/length.h"
#include "base/setting.h"

struct atomic {
	const struct fi_msg_atomic *msg;
	bool fetch;
	bool compare;
	bool inject; /* by fi_inject_atomic */
	struct fi_ioc *result;
	void **result_desc;
	size_t result_count;
	const struct fi_ioc *operand;
	void **operand_desc;
	size_t operand_count;
};

static uint64_t what_is(const struct atomic *op)
{
	return FI_ATOMIC | (op->fetch ? FI_READ : FI_WRITE);
}

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

/* operand_value -- the 64 bits that stand for an operand where it is passed by value */
static uint64_t operand_value(enum fi_datatype datatype, const struct fi_ioc *ioc)
{
	uint64_t value = 0;

	/* verbs has none that is longer. */
	memcpy(&value, ioc->addr,
	       pmv_operand_size(datatype) < sizeof(value) ? pmv_operand_size(datatype)
							  : sizeof(value));
	return value;
}

static ssize_t post_atomic(struct pmv_ep *ep, const void *arg, void *context, uint64_t flags)
{
	bool by_value = pmv_core_takes_values(ep->domain->fabric->core);
	const struct atomic *op = arg;
	struct fi_msg_atomic msg = *op->msg;
	struct fi_rma_ioc rma_iov[PMV_MAX_RMA];
	struct fi_ioc operand;

	for (size_t i = 0; i < msg.rma_iov_count; i++) {
		rma_iov[i] = msg.rma_iov[i];
		rma_iov[i].key = pmv_ep_key(rma_iov[i].key);
	}
	msg.rma_iov = rma_iov;
	msg.context = context;
	if (!op->fetch)
		return fi_atomicmsg(ep->core_fid, &msg, flags);

	if (by_value && msg.iov_count && msg.msg_iov->addr)
		msg.addr = operand_value(msg.datatype, msg.msg_iov);
	if (!op->compare)
		return fi_fetch_atomicmsg(ep->core_fid, &msg, op->result, op->result_desc,
					  op->result_count, flags);

	if (!op->operand_count)
		return -FI_EINVAL;
	operand = op->operand[0];
	if (by_value)
		operand.addr = (void *) operand_value(msg.datatype, &operand);
	return fi_compare_atomicmsg(ep->core_fid, &msg, by_value ? &operand : op->operand,
				    op->operand_desc, op->operand_count, op->result,
				    op->result_desc, op->result_count, flags);
}

static ssize_t post_inject(struct pmv_ep *ep, const void *arg, void *context, uint64_t flags)
{
	const struct fi_msg_atomic *msg = ((const struct atomic *) arg)->msg;

	(void) context, (void) flags;
	return fi_inject_atomic(ep->core_fid, msg->msg_iov->addr, msg->msg_iov->count, msg->addr,
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

static struct atomic *put_atomic(struct block *block, const struct atomic *op, bool data_too)
{
	const struct fi_msg_atomic *msg = op->msg;
	size_t size = pmv_operand_size(msg->datatype);
	struct atomic *copy = put(block, op, sizeof(*op));
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

static ssize_t commit_atomic(struct pmv_ep *ep, const struct atomic *op, uint64_t flags)
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

static ssize_t post_or_commit(struct pmv_ep *ep, const struct atomic *op, uint64_t flags)
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

static ssize_t do_atomic(struct pmv_ep *ep, const struct atomic *op, uint64_t flags)
{
	struct pmv_atomic_msg copy;
	struct atomic atomic = *op;

	atomic.msg = pmv_atomic_lengths(
		op->msg, pmv_atomic_count(op->msg, op->result, op->result_count), &copy);
	return atomic.msg ? post_or_commit(ep, &atomic, flags) : -FI_EINVAL;
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct atomic atomic = {.msg = msg};

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
	struct atomic atomic = {.msg = &msg, .inject = true};
	ssize_t ret;

	if (count && is_covered(ep, &msg))
		return commit_atomic(ep, &atomic, FI_INJECT);
	if (!pmv_ep_is_open(ep))
		return -FI_EAGAIN;
	pmv_note_begin(ep, key, addr, len);
	ret = fi_inject_atomic(ep->core_fid, buf, count, dest_addr, addr, pmv_ep_key(key), datatype,
			       op);
	if (!ret)
		pmv_note_read(ep);
	pmv_note_end(ep, key, addr, len, !ret);
	return ret;
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	struct atomic atomic = {
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
	struct atomic atomic = {
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

/* Those of one operand are those of a list of one, whatever the endpoint. */

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

static int atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
			     size_t *count)
{
	return fi_atomicvalid(pmv_to_ep(fid)->core_fid, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	return fi_fetch_atomicvalid(pmv_to_ep(fid)->core_fid, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	return fi_compare_atomicvalid(pmv_to_ep(fid)->core_fid, datatype, op, count);
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
