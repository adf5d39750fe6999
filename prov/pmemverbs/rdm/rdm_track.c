/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_track.c -- operations of RxM's that complete to one of ours */
#include "rdm/rdm_track.h"

#include <rdma/fi_errno.h>

#include "rdm/rdm_posting.h"

/* pass -- may a fenced one be posted?  Whoever tries again need not have read the queue. */
static ssize_t pass(struct pmv_rdm_ep *rdm, struct pmv_lost_writes *peer, enum pmv_rdm_kind kind)
{
	ssize_t ret = pmv_rdm_fence_pass(&rdm->fence, peer, kind);

	if (ret != -FI_EAGAIN)
		return ret;
	pmv_rdm_cq_pull(rdm->tx_cq);
	return pmv_rdm_fence_pass(&rdm->fence, peer, kind);
}

/* get_to_know -- the peer's connection */
static ssize_t get_to_know(struct fid_ep *fid, fi_addr_t dest, struct pmv_lost_writes *peer)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	ssize_t ret;

	if (pmv_rdm_fence_knows(&rdm->fence, peer))
		return 0;
	ret = pmv_rdm_posting_reach(rdm, dest);
	if (!ret)
		ret = pmv_rdm_posting_find(fid, dest, 0, 0);
	if (!ret)
		pmv_rdm_fence_found(&rdm->fence, peer);
	return ret;
}

/* begin -- with FI_FENCE: count it, in its turn */
static ssize_t begin(struct fid_ep *fid, fi_addr_t dest, enum pmv_rdm_kind kind, bool fenced,
		     struct pmv_rdm_ticket *ticket)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	struct pmv_lost_writes *peer = pmv_rdm_posting_tracker(rdm, dest);
	ssize_t ret = fenced ? pass(rdm, peer, kind) : 0;

	/* What is lost with a connection that nobody knows would be waited for without end. */
	if (!ret || ret == -FI_EAGAIN) {
		ssize_t known = get_to_know(fid, dest, peer);

		ret = ret ? ret : known;
	}
	if (!ret) {
		ret = pmv_rdm_fence_begin(&rdm->fence, peer, kind, fenced, ticket);
		if (ret == -FI_EAGAIN)
			pmv_rdm_cq_pull(rdm->tx_cq);
	}
	return ret;
}

ssize_t pmv_rdm_track(struct fid_ep *fid, fi_addr_t dest, enum pmv_rdm_kind kind, uint64_t flags,
		      void *context, bool reports, struct pmv_rdm_op **op)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	bool report = reports && ((flags & FI_COMPLETION) || !rdm->selective);
	struct pmv_rdm_ticket ticket = {0};
	ssize_t ret = rdm->fences ? begin(fid, dest, kind, flags & FI_FENCE, &ticket) : 0;

	if (ret)
		return ret;
	*op = (struct pmv_rdm_op *) pmv_op_get(&rdm->tracked, PMV_OP_APPLICATION);
	if (!*op) {
		pmv_rdm_fence_end(&ticket);
		pmv_rdm_cq_pull(rdm->tx_cq);
		return -FI_EAGAIN;
	}
	(*op)->ticket = ticket;
	(*op)->op.context = context;
	(*op)->op.told.audience = report ? PMV_TELL_ALL : PMV_TELL_ERROR;
	return 0;
}

void pmv_rdm_untrack(struct pmv_rdm_op *op)
{
	struct pmv_op_owner *owner = op->op.owner;
	struct fid_cq *cq = pmv_container_of(owner, struct pmv_rdm_ep, tracked)->tx_cq;

	pmv_rdm_fence_end(&op->ticket);
	pmv_rdm_cq_lock(cq);
	pmv_op_put(owner->pool, &op->op);
	pmv_rdm_cq_unlock(cq);
}
