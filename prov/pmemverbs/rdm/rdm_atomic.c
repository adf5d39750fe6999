/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_atomic.c -- atomics of FI_EP_RDM
 *
 * RxM sends a message; the target's processor executes the atomic and answers.  Then the
 * result is in the target's caches, and so is everything that came before on the
 * connection.  If caches persist, all of it is durable.  If they do not, the agent makes
 * it durable with FI_PMEMVERBS_COMMIT=all (see rdm_cq.h); else such commits are refused.
 */
#include "rdm/rdm_ep.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "base/log.h"
#include "base/setting.h"
#include "memory/guard.h"
#include "memory/key.h"
#include "rdm/rdm_cq.h"

/* Which atomics commit */

/* caches_lose -- does a power failure lose what the target's processor has written? */
static bool caches_lose(const struct pmv_attr *attr)
{
	return attr->persist == PMV_DMP || attr->persist == PMV_PAGE;
}

/* why_unordered -- why it may pass what came before it; NULL: it may not */
static const char *why_unordered(const struct pmv_attr *attr, uint64_t flags)
{
	if (flags & FI_FENCE)
		return "RxM executes atomics without a fence";
	if (attr->relaxed || pmv_setting.relaxed)
		return "the path may reorder writes (FI_PMEMVERBS_ORDERING=relaxed)";
	return NULL;
}

/* is_committed -- by its flags, or by FI_PMEMVERBS_COMMIT=all */
static bool is_committed(uint64_t key, uint64_t flags)
{
	struct pmv_attr attr;

	return (flags & FI_COMMIT) ||
	       (pmv_setting.commit_all && pmv_key_unpack(key, &attr) && attr.pmem);
}

const char *pmv_rdm_atomic_check(uint64_t key, uint64_t flags)
{
	struct pmv_attr attr;
	const char *why;

	if (!is_committed(key, flags))
		return NULL;
	if (!pmv_key_unpack(key, &attr))
		return "the key does not describe the memory behind it";
	why = why_unordered(&attr, flags);
	if (!why && caches_lose(&attr))
		why = "the target's processor executes it, and its caches do not persist";
	return why;
}

bool pmv_rdm_atomic_is_deferred(uint64_t key, uint64_t flags)
{
	struct pmv_attr attr;

	return pmv_setting.commit_all && pmv_key_unpack(key, &attr) && attr.pmem &&
	       caches_lose(&attr) && !why_unordered(&attr, flags);
}

/* What the atomic that is being posted commits.  RxM calls back and can't say for whom. */
static _Thread_local struct {
	struct pmv_lost_writes *tracker; /* NULL: nothing */
	uint32_t regions[PMV_HOOKS_REGIONS];
	size_t count;
} committing;

/* begin_commit -- an atomic commits also what was written before it, on its connection */
static ssize_t begin_commit(struct pmv_rdm_ep *rdm, fi_addr_t dest, uint64_t key)
{
	if (!committing.tracker) {
		committing.tracker = pmv_rdm_ep_tracker(rdm, dest);
		committing.count = 0;
	}
	if (committing.count == PMV_HOOKS_REGIONS)
		return -FI_EINVAL;
	committing.regions[committing.count] = (uint32_t) pmv_key_core(key);
	return pmv_rdm_ep_may_commit(committing.tracker, &committing.regions[committing.count++], 1,
				     false);
}

ssize_t pmv_rdm_atomic_may_send(const struct pmv_lost_writes *tracker)
{
	/* A new connection has no peer yet. */
	if (!committing.tracker || (tracker && tracker != committing.tracker))
		return 0;
	/* RxM may send another message in between; the atomic's caller has to be told. */
	return pmv_lost_writes_has_lost(committing.tracker, committing.regions, committing.count)
		       ? -FI_ECONNRESET
		       : 0;
}

/* Posting */

/* is_deferred -- must its completion wait for the agent, and can it? */
static bool is_deferred(const struct pmv_rdm_ep *rdm, const struct fi_msg_atomic *msg,
			uint64_t flags)
{
	return rdm->deferred.pool && !rdm->counts && msg->rma_iov_count == 1 &&
	       pmv_rdm_atomic_is_deferred(msg->rma_iov->key, flags);
}

/* check_atomic -- 0: pass it to RxM */
static ssize_t check_atomic(struct pmv_rdm_ep *rdm, const struct fi_msg_atomic *msg, uint64_t flags)
{
	ssize_t ret = 0;

	for (size_t i = 0; !ret && i < msg->rma_iov_count; i++) {
		uint64_t key = msg->rma_iov[i].key;
		const char *why = pmv_rdm_atomic_check(key, flags);

		if (why && pmv_rdm_atomic_is_deferred(key, flags))
			why = "this needs a single region, a completion queue and no counter";
		if (why) {
			PMV_WARN(EP_DATA, "an atomic of FI_EP_RDM can't be committed: %s\n", why);
			return -FI_EOPNOTSUPP;
		}
		if (is_committed(key, flags))
			ret = begin_commit(rdm, msg->addr, key);
	}
	return ret;
}

/* defer -- a context for it until it is durable; NULL: none is left */
static struct pmv_deferred *defer(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				  uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, atomic);
	/* RxM does not report injected ones. */
	bool report = !(flags & FI_INJECT) && ((flags & FI_COMPLETION) || !rdm->selective);
	struct pmv_deferred *deferred =
		(struct pmv_deferred *) pmv_op_get(&rdm->deferred, PMV_OP_APPLICATION);

	if (!deferred)
		return NULL;
	deferred->op.context = msg->context;
	deferred->op.audience = report ? PMV_TELL_ALL : PMV_TELL_ERROR;
	deferred->ep = fid;
	deferred->dest = msg->addr;
	deferred->addr = msg->rma_iov->addr;
	deferred->key = msg->rma_iov->key;
	deferred->len = msg->rma_iov->count * pmv_operand_size(msg->datatype);
	return deferred;
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
	pmv_guard_enter_sending(sent, count);
	if (atomic->compare)
		ret = rxm->compwritemsg(fid, msg, atomic->operand, atomic->operand_desc,
					atomic->operand_count, atomic->result, atomic->result_desc,
					atomic->result_count, flags);
	else if (atomic->fetch)
		ret = rxm->readwritemsg(fid, msg, atomic->result, atomic->result_desc,
					atomic->result_count, flags);
	else
		ret = rxm->writemsg(fid, msg, flags);
	pmv_guard_leave_sending();
	return ret;
}

static ssize_t do_atomic(struct fid_ep *fid, const struct pmv_atomic *atomic, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, atomic);
	struct fi_msg_atomic msg = *atomic->msg;
	struct pmv_deferred *deferred = NULL;
	ssize_t ret;

	if (flags & FI_IMMED)
		return -FI_EINVAL;
	if (msg.op == FI_ATOMIC_READ && !(flags & FI_COMMIT))
		return post_atomic(fid, atomic, &msg, flags);
	if (is_deferred(rdm, &msg, flags)) {
		deferred = defer(fid, &msg, flags);
		if (!deferred)
			return -FI_EAGAIN;
		msg.context = deferred;
		flags = (flags & ~FI_INJECT) | FI_COMPLETION;
		ret = pmv_rdm_ep_find_connection(fid, deferred);
	} else {
		ret = check_atomic(rdm, &msg, flags);
	}
	if (!ret) {
		ret = post_atomic(fid, atomic, &msg, flags & ~FI_COMMIT);
		/* RxM has connected again in between: the loss is reported with this. */
		if (ret == -FI_ECONNRESET && committing.tracker)
			pmv_rdm_ep_may_commit(committing.tracker, committing.regions,
					      committing.count, false);
	}
	committing.tracker = NULL;
	if (ret && deferred)
		pmv_op_put(rdm->deferred.pool, &deferred->op);
	return ret;
}

void pmv_rdm_atomic_replace(struct fid_ep *ep, struct pmv_rdm_ep *rdm)
{
	PMV_TABLE_REPLACE(ep->atomic, rdm->rxm_atomic, rdm->atomic.ops);
	pmv_atomic_fill(&rdm->atomic.ops.fn);
	rdm->atomic.post = do_atomic;
	rdm->atomic.op_flags = rdm->tx_op_flags;
}
