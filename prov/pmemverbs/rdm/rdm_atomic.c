/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_atomic.c -- atomics of FI_EP_RDM; rdm_atomic.h says when they are durable */
#include "rdm/rdm_atomic.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "base/log.h"
#include "base/setting.h"
#include "memory/guard.h"
#include "memory/key.h"
#include "rdm/rdm_cq.h"
#include "rdm/rdm_posting.h"
#include "rdm/rdm_track.h"

enum pmv_rdm_atomic_way pmv_rdm_atomic_way(uint64_t key, uint64_t flags, const char **why)
{
	struct pmv_attr attr;
	bool known = pmv_key_unpack(key, &attr), all = pmv_setting.commit_all && known && attr.pmem;

	if (!(flags & FI_COMMIT) && !all)
		return PMV_RDM_ATOMIC_PLAIN;
	if (!known)
		*why = "the key does not describe the memory behind it";
	else if (flags & FI_FENCE)
		*why = "RxM executes atomics without a fence";
	else if (attr.relaxed || pmv_setting.relaxed)
		*why = "the path may reorder writes (FI_PMEMVERBS_ORDERING=relaxed)";
	else if (attr.persist != PMV_DMP && attr.persist != PMV_PAGE)
		return PMV_RDM_ATOMIC_COMMITS;
	else if (all)
		return PMV_RDM_ATOMIC_DEFERRED;
	else
		*why = "the target's processor executes it, and its caches do not persist";
	return PMV_RDM_ATOMIC_REFUSED;
}

/* is_deferred -- must its completion wait for the agent, and can it? */
static bool is_deferred(const struct pmv_rdm_ep *rdm, const struct fi_msg_atomic *msg,
			uint64_t flags)
{
	const char *why;

	return rdm->tracked.pool && !rdm->counts && msg->rma_iov_count == 1 &&
	       pmv_rdm_atomic_way(msg->rma_iov->key, flags, &why) == PMV_RDM_ATOMIC_DEFERRED;
}

/* check_atomic -- 0: pass it to RxM */
static ssize_t check_atomic(struct pmv_rdm_ep *rdm, const struct fi_msg_atomic *msg, uint64_t flags)
{
	ssize_t ret = 0;

	for (size_t i = 0; !ret && i < msg->rma_iov_count; i++) {
		uint64_t key = msg->rma_iov[i].key;
		const char *why = "this needs a single region, a completion queue and no counter";
		enum pmv_rdm_atomic_way way = pmv_rdm_atomic_way(key, flags, &why);

		if (way >= PMV_RDM_ATOMIC_DEFERRED) {
			PMV_WARN(EP_DATA, "an atomic of FI_EP_RDM can't be committed: %s\n", why);
			return -FI_EOPNOTSUPP;
		}
		if (way == PMV_RDM_ATOMIC_COMMITS)
			ret = pmv_rdm_posting_commit(rdm, msg->addr, (uint32_t) pmv_key_core(key));
	}
	return ret;
}

/*
 * check_lives -- of the keys.  With a counter of writes RxM would write what was injected, so there
 * it is left to the target's RxM, which knows none but its own keys.
 */
static ssize_t check_lives(struct fid_ep *fid, const struct fi_msg_atomic *msg)
{
	ssize_t ret = 0;

	for (size_t i = 0; !ret && i < msg->rma_iov_count; i++) {
		const struct fi_rma_ioc *ioc = &msg->rma_iov[i];

		if (pmv_key_is_ours(ioc->key))
			ret = pmv_rdm_posting_find(fid, msg->addr, ioc->addr, ioc->key);
	}
	return ret;
}

/* commit -- of an atomic that was executed: see rdm_cq.h */
static ssize_t commit(struct pmv_rdm_op *deferred)
{
	const struct fi_rma_iov to = {.addr = deferred->addr, .len = 0, .key = deferred->key};
	const struct fi_msg_rma msg = {
		.addr = deferred->dest,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = pmv_rdm_op_context(deferred),
	};
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(deferred->ep, rma);
	ssize_t ret;

	pmv_rdm_posting_begin(rdm, deferred->dest, &to, NULL, 0);
	pmv_rdm_posting.changed = deferred->len;
	pmv_rdm_posting.losses = deferred->losses;
	/* If the peer can't be reached any more, fail at once instead of waiting for it. */
	ret = pmv_rdm_posting_is_connected();
	if (!ret)
		ret = rdm->rxm_rma->writemsg(deferred->ep, &msg, FI_COMMIT | FI_COMPLETION);
	pmv_rdm_posting.changed = 0;
	return pmv_rdm_posting_end(ret);
}

/* defer -- it is to be durable before it is told */
static void defer(struct pmv_rdm_op *op, struct fid_ep *fid, const struct fi_msg_atomic *msg,
		  uint64_t losses)
{
	op->commit = commit;
	op->ep = fid;
	op->dest = msg->addr;
	op->addr = msg->rma_iov->addr;
	op->key = msg->rma_iov->key;
	op->len = msg->rma_iov->count * pmv_operand_size(msg->datatype);
	op->losses = losses;
}

#define MOST_OPERANDS 4 /* RxM refuses more */

/* add_sent -- the operands, for the guard */
static size_t add_sent(struct iovec *sent, size_t count, const struct fi_ioc *ioc, size_t num,
		       size_t size)
{
	for (size_t i = 0; ioc && i < num && i < MOST_OPERANDS; i++)
		sent[count++] = (struct iovec){ioc[i].addr, ioc[i].count * size};
	return count;
}

static ssize_t post_atomic(struct fid_ep *fid, const struct pmv_atomic *atomic,
			   const struct fi_msg_atomic *msg, uint64_t flags)
{
	const struct fi_ops_atomic *rxm = PMV_RDM_OF(fid, atomic)->rxm_atomic;
	size_t size = pmv_operand_size(msg->datatype);
	struct iovec sent[2 * MOST_OPERANDS];
	size_t count = add_sent(sent, 0, msg->msg_iov, msg->iov_count, size);
	ssize_t ret;

	if (atomic->compare)
		count = add_sent(sent, count, atomic->operand, atomic->operand_count, size);
	pmv_rdm_posting_enter(sent, count);
	if (atomic->compare)
		ret = rxm->compwritemsg(fid, msg, atomic->operand, atomic->operand_desc,
					atomic->operand_count, atomic->result, atomic->result_desc,
					atomic->result_count, flags);
	else if (atomic->fetch)
		ret = rxm->readwritemsg(fid, msg, atomic->result, atomic->result_desc,
					atomic->result_count, flags);
	else
		ret = rxm->writemsg(fid, msg, flags);
	pmv_rdm_posting_leave();
	return pmv_rdm_posting_reached(PMV_RDM_OF(fid, atomic), msg->addr, ret);
}

/*
 * post_tracked -- RxM forgets it if its connection is lost before the answer has come: so note
 * which connection that is, before anybody can see it end
 */
static ssize_t post_tracked(struct fid_ep *fid, const struct pmv_atomic *atomic,
			    const struct fi_msg_atomic *msg, uint64_t flags, struct pmv_rdm_op *op)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, atomic);
	struct pmv_rdm_posting *posting = &pmv_rdm_posting;
	const struct pmv_lost_writes *peer = pmv_rdm_posting_tracker(rdm, msg->addr);
	ssize_t ret;

	posting->answerer = peer;
	posting->sent = false;
	pmv_rdm_cq_lock(rdm->tx_cq);
	ret = post_atomic(fid, atomic, msg, flags);
	if (!ret && posting->sent) {
		op->peer = peer;
		op->losses = posting->sent_losses;
	}
	pmv_rdm_cq_unlock(rdm->tx_cq);
	posting->answerer = NULL;
	return ret;
}

/* is_awaited -- the application is told of its end: RxM might forget it */
static bool is_awaited(const struct pmv_rdm_ep *rdm, uint64_t flags)
{
	return rdm->tracked.pool && !(flags & FI_INJECT) &&
	       (!rdm->selective || (flags & FI_COMPLETION));
}

/* own_flags -- without the fence that is made before it is posted: here nothing is left of it */
static uint64_t own_flags(const struct pmv_rdm_ep *rdm, uint64_t flags)
{
	return rdm->fences && !(flags & FI_COMMIT) ? flags & ~FI_FENCE : flags;
}

static ssize_t do_atomic(struct fid_ep *fid, const struct pmv_atomic *atomic, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, atomic);
	struct fi_msg_atomic msg = *atomic->msg;
	bool only_reads = msg.op == FI_ATOMIC_READ && !(flags & FI_COMMIT), deferred;
	struct pmv_rdm_op *op = NULL;
	uint64_t losses;
	ssize_t ret;

	if (flags & FI_IMMED)
		return -FI_EINVAL;
	ret = pmv_rdm_posting_reach(rdm, msg.addr);
	/* Of a connection that is not known to be the peer's the loss is not counted. */
	if (!ret)
		ret = rdm->counts ? pmv_rdm_posting_find(fid, msg.addr, 0, 0)
				  : check_lives(fid, &msg);
	if (ret)
		return ret;
	/* The connection was found just now. */
	losses = pmv_rdm_posting.losses;
	deferred = !only_reads && is_deferred(rdm, &msg, own_flags(rdm, flags));
	if (!only_reads && !deferred)
		ret = check_atomic(rdm, &msg, own_flags(rdm, flags));
	/* RxM does not report injected ones. */
	if (!ret && (rdm->fences || deferred || is_awaited(rdm, flags)))
		ret = pmv_rdm_track(fid, msg.addr, PMV_RDM_OTHER, flags, msg.context,
				    !(flags & FI_INJECT), &op);
	if (op) {
		msg.context = pmv_rdm_op_context(op);
		flags = (own_flags(rdm, flags) & ~FI_INJECT) | FI_COMPLETION;
	}
	if (deferred && op)
		defer(op, fid, &msg, losses);
	if (!ret)
		ret = op ? post_tracked(fid, atomic, &msg, flags & ~FI_COMMIT, op)
			 : post_atomic(fid, atomic, &msg, flags & ~FI_COMMIT);
	pmv_rdm_posting_end_atomic(ret);
	if (ret && op)
		pmv_rdm_untrack(op);
	return ret;
}

void pmv_rdm_atomic_replace(struct fid_ep *ep, struct pmv_rdm_ep *rdm)
{
	PMV_TABLE_REPLACE(ep->atomic, rdm->rxm_atomic, rdm->atomic.ops);
	pmv_atomic_fill(&rdm->atomic.ops.fn);
	rdm->atomic.post = do_atomic;
	rdm->atomic.op_flags = rdm->tx_op_flags;
}
