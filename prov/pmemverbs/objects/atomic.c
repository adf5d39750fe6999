/* SPDX-License-Identifier: BSD-2-Clause */
/* atomic.c -- atomics: what engine/atomic.h makes of the calls is submitted */
#include "objects/ep.h"

#include <rdma/fi_errno.h>

#include "commit/submit.h"
#include "engine/length.h"

static ssize_t post_atomic(struct fid_ep *fid, const struct pmv_atomic *op, uint64_t flags)
{
	const struct fi_msg_atomic *msg = op->msg;
	size_t size = pmv_operand_size(msg->datatype), count = msg->rma_iov_count;
	struct fi_rma_iov to[PMV_MAX_RMA];
	struct pmv_submission submission = {
		.what = FI_ATOMIC | (op->fetch ? FI_READ : FI_WRITE),
		.to = to,
		.num_to = count,
		.context = msg->context,
		.data = msg->data,
		.flags = flags,
		.atomic = op,
		.no_completion = op->inject,
		.inject = op->inject,
	};

	/* tcp has none, and no table of calls either. */
	if (!pmv_to_ep(fid)->engine.fid->atomic)
		return -FI_ENOSYS;
	for (size_t i = 0; i < count; i++) {
		const struct fi_rma_ioc *ioc = &msg->rma_iov[i];

		to[i] = (struct fi_rma_iov){
			.addr = ioc->addr, .len = ioc->count * size, .key = ioc->key};
	}
	return pmv_submit(&pmv_to_ep(fid)->initiator, &submission);
}

static int atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
			     size_t *count)
{
	struct fid_ep *core_fid = pmv_to_ep(fid)->engine.fid;

	return core_fid->atomic ? fi_atomicvalid(core_fid, datatype, op, count) : -FI_ENOSYS;
}

static int atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	struct fid_ep *core_fid = pmv_to_ep(fid)->engine.fid;

	return core_fid->atomic ? fi_fetch_atomicvalid(core_fid, datatype, op, count) : -FI_ENOSYS;
}

static int atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	struct fid_ep *core_fid = pmv_to_ep(fid)->engine.fid;

	return core_fid->atomic ? fi_compare_atomicvalid(core_fid, datatype, op, count)
				: -FI_ENOSYS;
}

struct fi_ops_atomic *pmv_ep_atomic(struct pmv_ep *ep)
{
	ep->atomic = (struct pmv_atomic_calls){
		.ops.fn = {.size = sizeof(struct fi_ops_atomic),
			   .writevalid = atomic_writevalid,
			   .readwritevalid = atomic_readwritevalid,
			   .compwritevalid = atomic_compwritevalid},
		.post = post_atomic,
		.op_flags = ep->tx_op_flags,
	};
	pmv_atomic_fill(&ep->atomic.ops.fn);
	return &ep->atomic.ops.fn;
}
