/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * commit.c -- one durable write, from the call to its completion
 *
 * pmv_commit posts, without waiting for anything in between:
 *
 *   [READ]             fenced commit after writes that only a flush orders (DMP)
 *   write or atomic    fenced behind that READ and the application's own reads
 *   [READ]             of a byte that was just written: the flush
 *   [write of 0 bytes] with the immediate, fenced behind the flush
 *
 * or, where only the target's processor can do it:
 *
 *   write or atomic
 *   [READs]            of all that the letter names, if nothing else keeps the order
 *                      (FI_PMEMVERBS_ORDERING)
 *   letter             to the agent, who flushes and acknowledges: letter.h
 *
 * A fenced commit after writes that the agent has not acknowledged: if it is
 * small, its data ride in the letter, and the agent stores them when the rest is
 * durable.  Else a letter is sent about what was written before, and the
 * operation is deferred until that is acknowledged.  Until data that ride are
 * acknowledged, or what was deferred is posted, the endpoint takes nothing else:
 * a later write must not land before them.
 *
 * A message is committed in the same way: the message, a letter.  It says how
 * many messages were posted on the connection, itself among them; receives.h has
 * what the agent makes of that.  They are counted and posted under one lock, so
 * that the number is one that has been posted before the letter.  Where the peer
 * receives in memory of one kind only, messages are as writes to it: what is
 * flushed behind one of them, by a READ of the peer's flush page, is where it was
 * received, since a SEND waits for a receive and what is behind it waits, too.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "commit/group.h"
#include "engine/length.h"
#include "commit/flush_request.h"
#include "commit/lost_writes.h"
#include "base/log.h"
#include "base/setting.h"

/* Before anything is posted */

bool pmv_ep_is_open(struct pmv_ep *ep)
{
	if (!pmv_ep_direct(ep, PMV_SLOW_CLOSED))
		pmv_ep_push(ep, false);
	return pmv_ep_direct(ep, PMV_SLOW_CLOSED);
}

/* is_riding -- is it closed only because data that ride are not acknowledged? */
static bool is_riding(struct pmv_ep *ep)
{
	bool riding;

	pthread_mutex_lock(&ep->lock);
	riding = !ep->stalled && !ep->deferred;
	pthread_mutex_unlock(&ep->lock);
	return riding;
}

/* await_agent -- a fence waits for the completion of commits, too, which the agent decides on */
static ssize_t await_agent(struct pmv_ep *ep)
{
	if (atomic_load(&ep->mailbox.unacked))
		pmv_queue_progress(ep->owner.tx_queue);
	return atomic_load(&ep->mailbox.unacked) ? -FI_EAGAIN : 0;
}

/* await_covered -- and for that of what is held back */
static ssize_t await_covered(struct pmv_ep *ep)
{
	if (!pmv_cover_is_idle(ep))
		pmv_queue_look(ep->owner.tx_queue);
	return pmv_cover_is_idle(ep) ? 0 : -FI_EAGAIN;
}

/*
 * await_reads -- on a core without a fence a fenced request is posted once no
 * read is under way, which the reader of its CQ finds out; the application
 * retries, as after any -FI_EAGAIN
 */
static ssize_t await_reads(struct pmv_ep *ep)
{
	if (ep->domain->engine.core->caps & PMV_ENGINE_FENCE)
		return 0;
	if (atomic_load(&ep->reads))
		pmv_queue_progress(ep->owner.tx_queue);
	return atomic_load(&ep->reads) ? -FI_EAGAIN : 0;
}

/* take_fence -- the flag that a fenced request is posted with; holds order_lock */
static uint64_t take_fence(struct pmv_ep *ep)
{
	if (!(ep->domain->engine.core->caps & PMV_ENGINE_FENCE))
		return 0;
	return atomic_exchange(&ep->fence_due, false) ? FI_FENCE : 0;
}

static void return_fence(struct pmv_ep *ep, uint64_t flags)
{
	if (flags & FI_FENCE)
		atomic_store(&ep->fence_due, true);
}

/* is_unheard -- nobody reads a CQ that is ours alone */
static bool is_unheard(const struct pmv_ep *ep, uint64_t what)
{
	return (what & FI_RECV ? ep->owner.rx_queue : ep->owner.tx_queue) == ep->unread;
}

static bool is_reported(const struct pmv_ep *ep, uint64_t what, uint64_t flags)
{
	bool selective = what & FI_RECV ? ep->rx_selective : ep->tx_selective;

	return !is_unheard(ep, what) && ((flags & FI_COMPLETION) || !selective);
}

ssize_t pmv_post_begin(struct pmv_ep *ep, struct pmv_post *post, uint64_t what, void *context,
		       uint64_t flags, bool quiet)
{
	bool fenced = !(what & FI_RECV) &&
		      ((flags & FI_FENCE) ||
		       (!(what & FI_READ) && !pmv_ep_direct(ep, PMV_SLOW_FENCE_NEXT)));
	bool counted = ep->counts[pmv_count_kind(what)] != NULL;
	bool is_read = (what & FI_READ) && !(ep->domain->engine.core->caps & PMV_ENGINE_FENCE);
	struct pmv_commit_op *req = NULL;

	*post = (struct pmv_post){.what = what, .context = context, .flags = flags & ~FI_FENCE};
	if (!(what & FI_RECV) && !pmv_ep_is_open(ep))
		return -FI_EAGAIN;
	if (fenced && await_reads(ep))
		return -FI_EAGAIN;
	if ((flags & FI_FENCE) && (await_agent(ep) || await_covered(ep)))
		return -FI_EAGAIN;
	if (counted || is_read || quiet) {
		req = pmv_commit_op(pmv_op_get(&ep->owner));
		if (!req)
			return -FI_EAGAIN;
		req->op.context = context;
		req->op.flags = what;
		req->op.single = true;
		req->counted = counted;
		/*
		 * verbs reports every receive; one may be used up by remote CQ
		 * data, which is reported always.
		 */
		req->op.audience =
			quiet || is_unheard(ep, what) ? PMV_TELL_NOBODY
			: is_reported(ep, what, flags) ||
					((what & FI_RECV) &&
					 pmv_engine_can(ep->engine.engine, PMV_ENGINE_FENCE))
				? PMV_TELL_ALL
				: PMV_TELL_ERROR;
		req->is_read = is_read;
		if (is_read)
			atomic_fetch_add(&ep->reads, 1);
		/* The only reference becomes the core's when it takes the operation. */
		post->req = req;
		post->context = &req->op;
		post->flags |= FI_COMPLETION;
	}
	if (fenced) {
		pthread_mutex_lock(&ep->order_lock);
		post->flags |= take_fence(ep);
		post->fenced = true;
	}
	return 0;
}

ssize_t pmv_post_end(struct pmv_ep *ep, struct pmv_post *post, ssize_t ret)
{
	struct pmv_commit_op *req = post->req;

	if (ret)
		return_fence(ep, post->flags);
	else if ((post->what & FI_READ) && !(post->what & FI_ATOMIC) && (post->flags & FI_FENCE))
		/* The core does not fence reads: the next request does it for this one. */
		atomic_fetch_or(&ep->slow, PMV_SLOW_FENCE_NEXT);
	else if (post->fenced && !(post->what & FI_READ))
		atomic_fetch_and(&ep->slow, ~PMV_SLOW_FENCE_NEXT);
	if (!ret && (post->what & (FI_READ | FI_ATOMIC)))
		pmv_note_read(ep);
	if (post->fenced)
		pthread_mutex_unlock(&ep->order_lock);
	if (ret && req) {
		if (req->is_read)
			atomic_fetch_sub(&ep->reads, 1);
		pmv_op_put(&ep->domain->ops, &req->op);
	}
	return ret;
}

/* Commits */

static ssize_t refuse(const char *why)
{
	PMV_WARN(EP_DATA, "commit refused: %s\n", why);
	return -FI_EOPNOTSUPP;
}

/* refuse_agent -- the only way is the agent's, and there is none */
static ssize_t refuse_agent(struct pmv_ep *ep, const char *why)
{
	PMV_WARN(EP_DATA, "commit refused: %s; and %s\n", why,
		 ep->mailbox.connected ? "the target's agent is switched off (FI_PMEMVERBS_AGENT)"
				       : "the target has no agent: it does not use pmemverbs");
	return -FI_EOPNOTSUPP;
}

/* In this order: what leaves the first is in the second by then, and so on. */
static bool has_agent_past(struct pmv_ep *ep)
{
	return atomic_load(&ep->posting_agent) || atomic_load(&ep->wrote_agent) ||
	       atomic_load(&ep->mailbox.unacked);
}

/* refuse_message -- the target can't commit it */
static ssize_t refuse_message(struct pmv_ep *ep, const char *why)
{
	if (!ep->mailbox.peer.agent)
		return refuse_agent(ep, why);
	return refuse("the target can't commit messages: it uses an older pmemverbs, a domain "
		      "without FI_RMA_PMEM or a shared receive context");
}

static ssize_t plan_message(struct pmv_ep *ep, const struct pmv_past *past, struct pmv_plan *plan)
{
	const struct pmv_handshake *peer = &ep->mailbox.peer;

	*plan = pmv_plan_message(peer->one_kind ? &peer->received : NULL,
				 ep->domain->engine.transport, pmv_setting.relaxed || peer->relaxed,
				 past);
	if (plan->method == PMV_METHOD_REFUSED)
		return refuse(plan->why);
	if (plan->method == PMV_METHOD_AGENT && !peer->messages)
		return refuse_message(ep, plan->why);
	return plan->after_agent && !peer->agent ? refuse_agent(ep, plan->why) : 0;
}

/*
 * has_past -- is there something that the agent has to do before this commit, if it
 * is fenced?  Messages that are its to see to are made durable for messages only.
 */
static bool has_past(struct pmv_ep *ep, const struct pmv_commit *commit)
{
	return ((commit->what & FI_MSG) &&
		atomic_load(&ep->sends) != atomic_load(&ep->told_sends)) ||
	       has_agent_past(ep);
}

/*
 * Of several plans of one operation the one that counts: the agent's word covers
 * all of them, a READ those of lower value.
 */
static int strength(const struct pmv_plan *plan)
{
	return plan->method == PMV_METHOD_AGENT ? 2 : plan->method == PMV_METHOD_READ;
}

/*
 * plan_commit -- one plan for all regions of the operation: the strongest that
 * one of them needs; at is where a flush reads
 */
static ssize_t plan_commit(struct pmv_ep *ep, const struct pmv_commit *commit, bool fenced,
			   struct pmv_plan *plan, const struct fi_rma_iov **at)
{
	struct pmv_past past = {
		.agent = has_past(ep, commit),
		.flush = atomic_load(&ep->posting_flush) || atomic_load(&ep->wrote_flush),
		.ordered = atomic_load(&ep->posting_ordered) || atomic_load(&ep->wrote_ordered),
	};

	*plan = (struct pmv_plan){.method = PMV_METHOD_WRITE};
	*at = commit->rma_iov;
	if (commit->what & FI_MSG)
		return plan_message(ep, fenced ? &past : NULL, plan);
	if (!commit->rma_iov_count) {
		PMV_WARN(EP_DATA, "a commit needs an address and a key, also without data\n");
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < commit->rma_iov_count; i++) {
		const struct fi_rma_iov *rma_iov = &commit->rma_iov[i];
		struct pmv_attr attr;
		struct pmv_plan one;

		if (!pmv_attr_of(ep, rma_iov->key, &attr))
			return refuse("the key says nothing of the memory behind it; its owner has "
				      "to register it through pmemverbs, in a domain whose mr_mode "
				      "has FI_MR_PROV_KEY, and hand over all 64 bits of the key");
		if (!attr.writable) {
			PMV_WARN(EP_DATA, "the target's region lacks FI_REMOTE_WRITE\n");
			return -FI_EACCES;
		}
		/* It is in caches there, as if it had come that way. */
		attr.ddio |= commit->changed != 0;
		one = pmv_plan_commit(&attr, ep->domain->engine.transport, fenced ? &past : NULL);
		if (one.method == PMV_METHOD_REFUSED)
			return refuse(one.why);
		if ((one.method == PMV_METHOD_AGENT || one.after_agent) && !ep->mailbox.peer.agent)
			return refuse_agent(ep, one.why);
		if (fenced && attr.relaxed && atomic_load(&ep->wrote_unreadable))
			return refuse("an earlier write of this endpoint, which the fence covers, "
				      "went where peers can't read, over a path that may reorder "
				      "writes (FI_PMEMVERBS_ORDERING=relaxed)");
		one.flush_agent |= plan->flush_agent;
		if (!i || strength(&one) > strength(plan) ||
		    (strength(&one) == strength(plan) && !(*at)->len)) {
			*plan = one;
			*at = rma_iov;
		}
	}
	return 0;
}

static bool wants_notice(const struct pmv_commit *commit)
{
	/* A message takes its data along. */
	return !(commit->what & FI_MSG) && (commit->flags & (FI_REMOTE_CQ_DATA | FI_IMMED));
}

/* regions_of -- the regions that a commit for FI_EP_RDM covers; returns how many */
static size_t regions_of(const struct pmv_commit *commit, uint32_t regions[PMV_OP_REGIONS])
{
	size_t n = 0;

	for (; n < commit->rma_iov_count && n < PMV_OP_REGIONS; n++)
		regions[n] = (uint32_t) pmv_key_core(commit->rma_iov[n].key);
	return n;
}

ssize_t pmv_commit_check(struct pmv_ep *ep, const struct pmv_commit *commit)
{
	uint32_t regions[PMV_OP_REGIONS];
	struct pmv_lost_writes *peer;
	size_t count;
	ssize_t ret;

	if (!ep->domain->hooks || !commit->rma_iov_count)
		return 0;
	peer = pmv_note_peer(ep, commit->rma_iov);
	ret = peer && commit->changed ? ep->domain->hooks->may_commit_changed(peer) : 0;
	if (ret)
		return ret;
	if (!peer && !(commit->flags & FI_COMMIT))
		return 0;
	if (!peer || commit->rma_iov_count > PMV_OP_REGIONS)
		return refuse(
			"the layer for FI_EP_RDM has turned the write into something unknown");
	count = regions_of(commit, regions);
	return ep->domain->hooks->may_commit(peer, regions, count, commit->flags & FI_FENCE);
}

struct pmv_commit_op *pmv_commit_request(struct pmv_ep *ep, const struct pmv_commit *commit)
{
	struct pmv_commit_op *req = pmv_commit_op(pmv_op_get(&ep->owner));

	if (!req)
		return NULL;
	req->op.context = commit->context;
	req->op.flags = commit->what;
	req->data = commit->data;
	req->counted = true;
	req->op.audience = commit->quiet || is_unheard(ep, commit->what)  ? PMV_TELL_NOBODY
			   : is_reported(ep, commit->what, commit->flags) ? PMV_TELL_ALL
									  : PMV_TELL_ERROR;
	if (ep->peer) {
		req->writes = pmv_lost_writes_number(ep->peer);
		req->num_regions = (unsigned int) regions_of(commit, req->regions);
	}
	return req;
}

/* add_part -- a part that is to be posted has a reference */
static void add_part(struct pmv_commit_op *req, enum pmv_part part)
{
	req->unposted |= part;
	atomic_fetch_add(&req->op.pending, 1);
}

/* drop_parts -- all but those that were there before; other references keep the request */
static void drop_parts(struct pmv_commit_op *req, unsigned before)
{
	atomic_fetch_sub(&req->op.pending, __builtin_popcount(req->unposted & ~before));
	req->unposted = before;
}

/* write_letter -- its parts; what it says is taken later.  -FI_ENOMEM: there is no letter. */
static ssize_t write_letter(struct pmv_ep *ep, struct pmv_commit_op *req,
			    const struct pmv_commit *commit, const struct pmv_plan *plan,
			    enum pmv_flush_request_kind kind)
{
	bool reads = plan->flush_agent || ep->wrote_relaxed;
	bool flush = reads || (kind == PMV_FLUSH_REQUEST_CARRIES && plan->flush_first);

	pmv_flush_request_free(req->letter);
	req->letter = pmv_flush_request_new(ep, commit, kind, flush);
	if (!req->letter)
		return -FI_ENOMEM;
	pmv_flush_at_page(ep, req);
	if (reads)
		pmv_flush_request_read_back(req->letter);
	if (flush)
		add_part(req, PMV_PART_FLUSH);
	add_part(req, PMV_PART_LETTER);
	if (!wants_notice(commit) || kind == PMV_FLUSH_REQUEST_FIRST)
		return 0;
	if (ep->mailbox.peer.notices)
		pmv_flush_request_notify(req->letter, commit->data);
	else
		req->notice_later = true;
	return 0;
}

/* place_in -- an address inside the written range, if there is one, or of the region */
static uint64_t place_in(struct pmv_ep *ep, const struct fi_rma_iov *at)
{
	return at->len ? at->addr : pmv_mark_or(ep, at->key, at->addr);
}

/* prepare -- the parts that follow the operation */
static ssize_t prepare(struct pmv_ep *ep, struct pmv_commit_op *req,
		       const struct pmv_commit *commit, const struct pmv_plan *plan,
		       const struct fi_rma_iov *at, uint64_t *core_flags)
{
	if (plan->method == PMV_METHOD_AGENT)
		return write_letter(ep, req, commit, plan, PMV_FLUSH_REQUEST_BEHIND);
	if (commit->what & FI_MSG) {
		pmv_flush_at_page(ep, req);
	} else {
		req->addr = place_in(ep, at);
		req->key = pmv_key_core(at->key);
	}
	if (plan->method == PMV_METHOD_READ)
		add_part(req, PMV_PART_FLUSH);
	if (!wants_notice(commit))
		return 0;
	/* An atomic carries no immediate. */
	if (plan->notice == PMV_NOTICE_WITH_WRITE && !(commit->what & FI_ATOMIC))
		*core_flags |= FI_REMOTE_CQ_DATA;
	else
		add_part(req, PMV_PART_NOTICE);
	return 0;
}

/*
 * post_operation -- everything up to the write or atomic itself; the parts
 * behind it are then in req->unposted.  A fenced one is called with order_lock.
 * After an error the request is what it was, but for a flush in front of the
 * operation, which may have been posted.
 */
static ssize_t post_operation(struct pmv_ep *ep, struct pmv_commit_op *req,
			      const struct pmv_commit *commit, const struct pmv_plan *plan,
			      const struct fi_rma_iov *at, bool fenced)
{
	bool is_message = commit->what & FI_MSG;
	uint64_t core_flags = FI_COMPLETION |
			      (commit->flags & (FI_INJECT | (is_message ? FI_REMOTE_CQ_DATA : 0)));
	bool is_read =
		(commit->what & FI_READ) && !(ep->domain->engine.core->caps & PMV_ENGINE_FENCE);
	unsigned before = req->unposted;
	bool counted;
	ssize_t ret;

	ret = prepare(ep, req, commit, plan, at, &core_flags);
	if (!ret && plan->flush_first) {
		atomic_fetch_add(&req->op.pending, 1);
		ret = pmv_flush_ordered(ep, req);
		if (ret)
			atomic_fetch_sub(&req->op.pending, 1);
	}
	if (ret) {
		drop_parts(req, before);
		return ret;
	}
	pmv_note_commit(ep, commit->rma_iov, commit->rma_iov_count, false, 1);
	if (fenced)
		core_flags |= take_fence(ep);
	req->is_read = is_read;
	if (is_read)
		atomic_fetch_add(&ep->reads, 1);
	atomic_fetch_add(&req->op.pending, 1);
	counted = pmv_count_begin(ep, is_message                       ? PMV_SLOW_SENDS
				      : core_flags & FI_REMOTE_CQ_DATA ? PMV_SLOW_IMMEDIATES
								       : 0);
	ret = pmv_count_end(ep, counted, commit->post(ep, commit->op, &req->op, core_flags));
	pmv_note_commit(ep, commit->rma_iov, commit->rma_iov_count, !ret, -1);
	if (ret) {
		return_fence(ep, core_flags);
		if (is_read)
			atomic_fetch_sub(&ep->reads, 1);
		req->is_read = false;
		atomic_fetch_sub(&req->op.pending, 1);
		drop_parts(req, before);
		return ret;
	}

	/* The connection is lost if nothing can be read there. */
	if (!is_message)
		pmv_mark_set(ep, at->key, place_in(ep, at));
	if (commit->what & FI_ATOMIC)
		pmv_note_read(ep);
	if (fenced)
		atomic_fetch_and(&ep->slow, ~PMV_SLOW_FENCE_NEXT);
	return 0;
}

void pmv_commit_give_up(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	req->counted = false;
	req->op.audience = PMV_TELL_NOBODY;
	pmv_op_drop(ep, req, 0);
}

/* Commits that the agent has a part in.  All hold the endpoint's lock. */

/*
 * take_letter -- what it is to say.  Until it is answered, or given up, it counts
 * as not acknowledged: before what it took is dirty no longer.
 */
static ssize_t take_letter(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	ssize_t ret;

	atomic_fetch_add(&ep->mailbox.unacked, 1);
	if (ep->dirty.lost)
		ret = atomic_load(&ep->broken) ? -FI_ENOTCONN : -FI_ENOMEM;
	else
		ret = pmv_flush_request_take(ep, req->letter);
	if (ret)
		atomic_fetch_sub(&ep->mailbox.unacked, 1);
	return ret;
}

/* take_dirty -- of the operation that was just posted, too, for the letter about it */
static void take_dirty(struct pmv_ep *ep, struct pmv_commit_op *req,
		       const struct pmv_commit *commit)
{
	ssize_t ret;

	for (size_t i = 0; i < commit->rma_iov_count; i++)
		pmv_note_changed(ep, &commit->rma_iov[i], commit->changed);
	ret = take_letter(ep, req);
	if (ret) {
		req->unposted &= ~PMV_PART_LETTER;
		pmv_op_done(&ep->domain->ops, &req->op, (int) -ret, 0);
	}
}

void *pmv_copy_buffers(size_t head, const struct iovec **iov, void ***desc, size_t count,
		       bool data_too)
{
	size_t data = data_too ? pmv_iov_len(*iov, count) : 0;
	char *copy = malloc(head + count * (sizeof(**iov) + sizeof(**desc)) + data);
	struct iovec *iov_copy = (struct iovec *) (copy + head);
	void **desc_copy = (void **) (iov_copy + count);
	char *to = (char *) (desc_copy + count);

	if (!copy || !count)
		return copy;
	memcpy(iov_copy, *iov, count * sizeof(*iov_copy));
	if (*desc)
		*desc = memcpy(desc_copy, *desc, count * sizeof(*desc_copy));
	*iov = iov_copy;
	for (size_t i = 0; data_too && i < count; i++) {
		if (iov_copy[i].iov_len)
			memcpy(to, iov_copy[i].iov_base, iov_copy[i].iov_len);
		iov_copy[i].iov_base = to;
		to += iov_copy[i].iov_len;
	}
	return copy;
}

void pmv_postponed_free(struct pmv_postponed *deferred)
{
	if (deferred)
		free((void *) deferred->commit.op);
	free(deferred);
}

/* defer -- keep a copy of the operation */
static ssize_t defer(struct pmv_commit_op *req, const struct pmv_commit *commit)
{
	size_t count = commit->rma_iov_count;
	struct pmv_postponed *deferred =
		calloc(1, sizeof(*deferred) + count * sizeof(deferred->rma_iov[0]));

	req->deferred = deferred;
	if (!deferred)
		return -FI_ENOMEM;
	deferred->commit = *commit;
	if (count)
		memcpy(deferred->rma_iov, commit->rma_iov, count * sizeof(deferred->rma_iov[0]));
	deferred->commit.rma_iov = deferred->rma_iov;
	deferred->commit.iov = NULL;
	deferred->commit.op = commit->copy(commit->op, commit->flags & FI_INJECT);
	return deferred->commit.op ? 0 : -FI_ENOMEM;
}

ssize_t pmv_commit_deferred(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	struct pmv_postponed *deferred = req->deferred;
	const struct pmv_commit *commit = &deferred->commit;
	const struct fi_rma_iov *at;
	struct pmv_plan plan;
	ssize_t ret;

	if (!(ep->domain->engine.core->caps & PMV_ENGINE_FENCE) && atomic_load(&ep->reads))
		return -FI_EAGAIN;
	pmv_flush_request_free(req->letter);
	req->letter = NULL;
	pthread_mutex_lock(&ep->order_lock);
	ret = plan_commit(ep, commit, true, &plan, &at);
	if (!ret)
		ret = post_operation(ep, req, commit, &plan, at, true);
	pthread_mutex_unlock(&ep->order_lock);
	if (ret)
		return ret;
	if (req->letter)
		take_dirty(ep, req, commit);
	/* The core has a reference of its own. */
	atomic_fetch_sub(&req->op.pending, 1);
	req->deferred = NULL;
	pmv_postponed_free(deferred);
	return 0;
}

/* may_carry -- may the agent store the data, so that one round trip does it all? */
static bool may_carry(struct pmv_ep *ep, const struct pmv_commit *commit)
{
	struct pmv_attr attr;

	/* An agent knows the regions that were registered for commits. */
	return pmv_flush_request_may_carry(ep, commit) &&
	       pmv_attr_of(ep, commit->rma_iov->key, &attr) && attr.pmem;
}

/* commit_after_agent -- fenced, and the agent has to do something first */
static ssize_t commit_after_agent(struct pmv_ep *ep, struct pmv_commit_op *req,
				  const struct pmv_commit *commit)
{
	const struct fi_rma_iov *at;
	struct pmv_plan plan;
	bool carries;
	ssize_t ret;

	ret = plan_commit(ep, commit, true, &plan, &at);
	if (ret)
		return ret;
	pthread_mutex_lock(&ep->lock);
	carries = may_carry(ep, commit);
	if (!carries)
		ret = defer(req, commit);
	if (!ret)
		ret = write_letter(ep, req, commit, &plan,
				   carries ? PMV_FLUSH_REQUEST_CARRIES : PMV_FLUSH_REQUEST_FIRST);
	if (!ret)
		ret = take_letter(ep, req);
	if (ret)
		drop_parts(req, 0);
	else
		pmv_post_or_queue(ep, req);
	pthread_mutex_unlock(&ep->lock);
	if (!ret)
		pmv_ep_stall(ep);
	return ret;
}

/* commit_now -- post the operation, and then what makes it durable */
static ssize_t commit_now(struct pmv_ep *ep, struct pmv_commit_op *req,
			  const struct pmv_commit *commit, bool fenced)
{
	const struct fi_rma_iov *at;
	struct pmv_plan plan;
	ssize_t ret;

	if (fenced)
		pthread_mutex_lock(&ep->order_lock);
	ret = plan_commit(ep, commit, commit->flags & FI_FENCE, &plan, &at);
	/* Another thread's letter came between. */
	if (!ret && plan.after_agent)
		ret = -FI_EAGAIN;
	if (!ret)
		ret = post_operation(ep, req, commit, &plan, at, fenced);
	if (fenced)
		pthread_mutex_unlock(&ep->order_lock);
	if (ret)
		return ret;

	/* Accepted: from here on every failure is the completion's to tell. */
	if (!req->letter && pmv_post_parts(ep, req) == 0) {
		pmv_op_drop(ep, req, 0);
		return 0;
	}
	pthread_mutex_lock(&ep->lock);
	if (req->letter)
		take_dirty(ep, req, commit);
	pmv_post_or_queue(ep, req);
	pthread_mutex_unlock(&ep->lock);
	pmv_ep_stall(ep);
	return 0;
}

ssize_t pmv_commit(struct pmv_ep *ep, const struct pmv_commit *commit)
{
	bool fence = commit->flags & FI_FENCE;
	/* Immediate data must not pass an atomic in front of it, which may be under way. */
	bool fenced = fence || !pmv_ep_direct(ep, PMV_SLOW_FENCE_NEXT) ||
		      (wants_notice(commit) && ep->domain->engine.core->caps & PMV_ENGINE_FENCE);
	struct pmv_commit_op *req;
	ssize_t ret = pmv_commit_check(ep, commit);

	if (ret)
		return ret;
	if (!pmv_ep_is_open(ep) && !(fence && is_riding(ep)))
		return -FI_EAGAIN;
	if ((fenced && await_reads(ep)) || (fence && await_covered(ep)))
		return -FI_EAGAIN;
	req = pmv_commit_request(ep, commit);
	if (!req)
		return -FI_EAGAIN;
	if (fence && has_past(ep, commit))
		ret = commit_after_agent(ep, req, commit);
	else
		ret = commit_now(ep, req, commit, fenced);
	if (ret)
		pmv_commit_give_up(ep, req);
	return ret;
}

/* What is covered */

ssize_t pmv_commit_method(struct pmv_ep *ep, const struct pmv_commit *commit,
			  enum pmv_method *method)
{
	const struct fi_rma_iov *at;
	struct pmv_plan plan;
	ssize_t ret = plan_commit(ep, commit, false, &plan, &at);

	*method = plan.method;
	return ret;
}

void pmv_commit_flush(struct pmv_ep *ep, struct pmv_commit_op *req, const struct pmv_commit *commit,
		      bool read)
{
	const struct pmv_plan plan = {.method = PMV_METHOD_AGENT};
	ssize_t ret = 0;

	if (commit->rma_iov_count) {
		ret = write_letter(ep, req, commit, &plan, PMV_FLUSH_REQUEST_BEHIND);
		if (!ret)
			ret = take_letter(ep, req);
		if (ret)
			drop_parts(req, 0);
	}
	if (ret) {
		pmv_op_drop(ep, req, (int) -ret);
		return;
	}
	/* A letter has its READ, if it needs one, at the peer's flush page: as good as any place.
	 */
	if (read && !(req->unposted & PMV_PART_FLUSH))
		add_part(req, PMV_PART_FLUSH);
	pmv_post_or_queue(ep, req);
}
