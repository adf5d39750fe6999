/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * atomic.c -- atomics; those that need care go to commit/submit.h
 *
 * All of them end up as one call with a message, operands and results, where
 * the number of operands tells which of the core's three calls it is.
 */
#include "objects/ep.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "base/log.h"
#include "commit/submit.h"
#include "engine/atomic.h"
#include "engine/length.h"

static uint64_t what_is(const struct pmv_atomic *op)
{
	return FI_ATOMIC | (op->fetch ? FI_READ : FI_WRITE);
}

static ssize_t submit(struct pmv_ep *ep, const struct pmv_atomic *op, uint64_t flags)
{
	const struct fi_msg_atomic *msg = op->msg;
	size_t size = pmv_operand_size(msg->datatype), count = msg->rma_iov_count;
	struct fi_rma_iov to[PMV_MAX_RMA];
	struct fi_rma_ioc core_to[PMV_MAX_RMA];
	struct fi_msg_atomic core_msg = *msg;
	struct pmv_atomic core = *op;
	struct pmv_submission submission = {
		.what = what_is(op),
		.to = to,
		.num_to = count,
		.context = msg->context,
		.data = msg->data,
		.flags = flags,
		.unheard = op->inject,
		.wr = {.kind = PMV_WR_ATOMIC, .inject = op->inject, .atomic = &core},
	};

	if (count > ep->initiator.max_places) {
		PMV_WARN(EP_DATA,
			 "an atomic on %zu places of the target is refused: %zu is all that the "
			 "core can do (rma_iov_limit)\n",
			 count, ep->initiator.max_places);
		return -FI_EINVAL;
	}
	if ((flags & FI_IMMED) && !(flags & FI_COMMIT)) {
		PMV_WARN(EP_DATA, "FI_IMMED needs FI_COMMIT\n");
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < count; i++) {
		const struct fi_rma_ioc *ioc = &msg->rma_iov[i];

		to[i] = (struct fi_rma_iov){
			.addr = ioc->addr, .len = ioc->count * size, .key = ioc->key};
		core_to[i] = *ioc;
		core_to[i].key = pmv_initiator_core_key(ioc->key);
	}
	core_msg.rma_iov = core_to;
	core.msg = &core_msg;
	return pmv_submit(&ep->initiator, &submission);
}

static ssize_t do_atomic(struct pmv_ep *ep, const struct pmv_atomic *op, uint64_t flags)
{
	struct pmv_atomic_msg copy;
	struct pmv_atomic atomic = *op;

	atomic.msg = pmv_atomic_lengths(
		op->msg, pmv_atomic_count(op->msg, op->result, op->result_count), &copy);
	return atomic.msg ? submit(ep, &atomic, flags) : -FI_EINVAL;
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
	struct fi_ioc ioc = {(void *) buf, count};
	void *context = NULL;
	PMV_ATOMIC_MSG(&ioc, NULL, 1);
	struct pmv_atomic atomic = {.msg = &msg, .inject = true};

	return submit(pmv_to_ep(fid), &atomic, FI_INJECT);
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
