/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_track.c -- operations of RxM's that complete to one of ours, and the calls of an endpoint
 * that has FI_FENCE: each is posted when its turn has come, and is counted until it has ended
 *
 * All these become calls with flags, which can ask for a completion.  Nobody would hear of the end
 * of what is injected without one.
 */
#include "rdm/rdm_track.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "engine/length.h"
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

/* Calls */

/* The arguments that calls begin with. */
#define INTO struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t peer
#define FROM struct fid_ep *fid, const void *buf, size_t len, void *desc
#define VECTOR struct fid_ep *fid, const struct iovec *iov, void **desc, size_t n, fi_addr_t peer
#define INJECTED struct fid_ep *fid, const void *buf, size_t len

/* All of it, if that is one piece. */
#define PIECE (&(const struct iovec){(void *) buf, len})

/* The flags of a call that has none. */
#define OP_FLAGS(table) (PMV_RDM_OF(fid, table)->tx_op_flags)

/* is_too_long -- RxM does not look */
static bool is_too_long(const struct pmv_rdm_ep *rdm, const struct iovec *iov, size_t count,
			uint64_t flags)
{
	return (flags & FI_INJECT) && pmv_iov_len(iov, count) > rdm->inject_size;
}

static ssize_t posted(struct pmv_rdm_op *op, ssize_t ret)
{
	if (ret)
		pmv_rdm_untrack(op);
	return ret;
}

/* Messages */

static ssize_t send(struct fid_ep *fid, struct fi_msg msg, uint64_t flags, bool reports)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, msg);
	struct pmv_rdm_op *op;
	ssize_t ret;

	if (is_too_long(rdm, msg.msg_iov, msg.iov_count, flags))
		return -FI_EINVAL;
	ret = pmv_rdm_track(fid, msg.addr, PMV_RDM_OTHER, flags, msg.context, reports, &op);
	if (ret)
		return ret;
	msg.context = pmv_rdm_op_context(op);
	return posted(op, rdm->plain_msg.sendmsg(fid, &msg, flags | FI_COMPLETION));
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return send(fid, *msg, flags, true);
}

static ssize_t msg_sendv(VECTOR, void *context)
{
	return send(fid, (struct fi_msg){iov, desc, n, peer, context, 0}, OP_FLAGS(msg), true);
}

static ssize_t msg_send(FROM, fi_addr_t peer, void *context)
{
	return msg_sendv(fid, PIECE, &desc, 1, peer, context);
}

static ssize_t msg_senddata(FROM, uint64_t data, fi_addr_t peer, void *context)
{
	return send(fid, (struct fi_msg){PIECE, &desc, 1, peer, context, data},
		    OP_FLAGS(msg) | FI_REMOTE_CQ_DATA, true);
}

static ssize_t msg_inject(INJECTED, fi_addr_t peer)
{
	return send(fid, (struct fi_msg){PIECE, NULL, 1, peer, NULL, 0}, FI_INJECT, false);
}

static ssize_t msg_injectdata(INJECTED, uint64_t data, fi_addr_t peer)
{
	return send(fid, (struct fi_msg){PIECE, NULL, 1, peer, NULL, data},
		    FI_INJECT | FI_REMOTE_CQ_DATA, false);
}

/* Tagged messages */

static ssize_t tsend(struct fid_ep *fid, struct fi_msg_tagged msg, uint64_t flags, bool reports)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, tagged);
	struct pmv_rdm_op *op;
	ssize_t ret;

	if (is_too_long(rdm, msg.msg_iov, msg.iov_count, flags))
		return -FI_EINVAL;
	ret = pmv_rdm_track(fid, msg.addr, PMV_RDM_OTHER, flags, msg.context, reports, &op);
	if (ret)
		return ret;
	msg.context = pmv_rdm_op_context(op);
	return posted(op, rdm->plain_tagged.sendmsg(fid, &msg, flags | FI_COMPLETION));
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return tsend(fid, *msg, flags, true);
}

static ssize_t tagged_sendv(VECTOR, uint64_t tag, void *context)
{
	return tsend(fid, (struct fi_msg_tagged){iov, desc, n, peer, tag, 0, context, 0},
		     OP_FLAGS(tagged), true);
}

static ssize_t tagged_send(FROM, fi_addr_t peer, uint64_t tag, void *context)
{
	return tagged_sendv(fid, PIECE, &desc, 1, peer, tag, context);
}

static ssize_t tagged_senddata(FROM, uint64_t data, fi_addr_t peer, uint64_t tag, void *context)
{
	return tsend(fid, (struct fi_msg_tagged){PIECE, &desc, 1, peer, tag, 0, context, data},
		     OP_FLAGS(tagged) | FI_REMOTE_CQ_DATA, true);
}

static ssize_t tagged_inject(INJECTED, fi_addr_t peer, uint64_t tag)
{
	return tsend(fid, (struct fi_msg_tagged){PIECE, NULL, 1, peer, tag, 0, NULL, 0}, FI_INJECT,
		     false);
}

static ssize_t tagged_injectdata(INJECTED, uint64_t data, fi_addr_t peer, uint64_t tag)
{
	return tsend(fid, (struct fi_msg_tagged){PIECE, NULL, 1, peer, tag, 0, NULL, data},
		     FI_INJECT | FI_REMOTE_CQ_DATA, false);
}

/*
 * Reads and writes: the connection gets the fence, too, for those before it.  The other writes
 * become rma_writemsg by themselves (rdm_ep.c).
 */

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *read, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	struct fi_msg_rma msg = *read;
	struct pmv_rdm_op *op;
	ssize_t ret;

	ret = pmv_rdm_track(fid, msg.addr, PMV_RDM_RMA, flags, msg.context, true, &op);
	if (ret)
		return ret;
	msg.context = pmv_rdm_op_context(op);
	return posted(op, rdm->plain_rma.readmsg(fid, &msg, flags | FI_COMPLETION));
}

static ssize_t rma_readv(VECTOR, uint64_t addr, uint64_t key, void *context)
{
	const struct fi_rma_iov from = {addr, pmv_iov_len(iov, n), key};
	const struct fi_msg_rma msg = {iov, desc, n, peer, &from, 1, context, 0};

	return rma_readmsg(fid, &msg, OP_FLAGS(rma) & ~(FI_COMMIT | FI_DELIVERY_COMPLETE));
}

static ssize_t rma_read(INTO, uint64_t addr, uint64_t key, void *context)
{
	return rma_readv(fid, PIECE, &desc, 1, peer, addr, key, context);
}

static ssize_t write(struct fid_ep *fid, struct fi_msg_rma msg, uint64_t flags, bool reports)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	struct pmv_rdm_op *op;
	ssize_t ret;

	if (is_too_long(rdm, msg.msg_iov, msg.iov_count, flags))
		return -FI_EINVAL;
	ret = pmv_rdm_track(fid, msg.addr, PMV_RDM_RMA, flags, msg.context, reports, &op);
	if (ret)
		return ret;
	msg.context = pmv_rdm_op_context(op);
	return posted(op, rdm->plain_rma.writemsg(fid, &msg, flags | FI_COMPLETION));
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return write(fid, *msg, flags, true);
}

static ssize_t rma_inject(INJECTED, fi_addr_t peer, uint64_t addr, uint64_t key)
{
	const struct fi_rma_iov to = {addr, len, key};

	return write(fid, (struct fi_msg_rma){PIECE, NULL, 1, peer, &to, 1, NULL, 0}, FI_INJECT,
		     false);
}

static ssize_t rma_injectdata(INJECTED, uint64_t data, fi_addr_t peer, uint64_t addr, uint64_t key)
{
	const struct fi_rma_iov to = {addr, len, key};

	return write(fid, (struct fi_msg_rma){PIECE, NULL, 1, peer, &to, 1, NULL, data},
		     FI_INJECT | FI_REMOTE_CQ_DATA, false);
}

void pmv_rdm_track_calls(struct pmv_rdm_ep *rdm)
{
	struct fi_ops_msg *msg = &rdm->msg.fn;
	struct fi_ops_tagged *tagged = &rdm->tagged.fn;
	struct fi_ops_rma *rma = &rdm->rma.fn;

	rdm->plain_msg = *msg;
	rdm->plain_tagged = *tagged;
	rdm->plain_rma = *rma;
	msg->send = msg_send;
	msg->sendv = msg_sendv;
	msg->sendmsg = msg_sendmsg;
	msg->inject = msg_inject;
	msg->senddata = msg_senddata;
	msg->injectdata = msg_injectdata;
	tagged->send = tagged_send;
	tagged->sendv = tagged_sendv;
	tagged->sendmsg = tagged_sendmsg;
	tagged->inject = tagged_inject;
	tagged->senddata = tagged_senddata;
	tagged->injectdata = tagged_injectdata;
	rma->read = rma_read;
	rma->readv = rma_readv;
	rma->readmsg = rma_readmsg;
	rma->writemsg = rma_writemsg;
	rma->inject = rma_inject;
	rma->injectdata = rma_injectdata;
}
