/* SPDX-License-Identifier: BSD-2-Clause */
/* submit.c -- an application's call, on its way to the core */
#include "commit/submit.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "commit/event.h"
#include "commit/group.h"
#include "commit/ordering.h"
#include "commit/run.h"
#include "commit/start.h"
#include "engine/length.h"

bool pmv_submit_is_open(struct pmv_initiator *ini)
{
	if (pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED))
		return true;
	pmv_run_push(ini, false);
	return pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED);
}

/*
 * may_follow_payload -- is a payload that the agent has not stored yet the only reason to be
 * closed?  Commits may follow it, unless they would keep others waiting for ever, or it was
 * never sent: then its failure is told first.
 */
static bool may_follow_payload(struct pmv_initiator *ini)
{
	bool may;

	pthread_mutex_lock(&ini->lock);
	may = STAILQ_EMPTY(&ini->stalled) && !ini->deferred && !ini->others_wait &&
	      ini->mailbox->sender.acked >= ini->dropped_message;
	pthread_mutex_unlock(&ini->lock);
	return may;
}

static bool has_to_wait(struct pmv_initiator *ini, bool agent, bool reads)
{
	return (agent && atomic_load(&ini->mailbox->sender.unacked)) ||
	       (reads && atomic_load(&ini->ordering.reads));
}

/*
 * is_ready -- a fenced operation waits for commits by the agent, for operations that a
 * group's flush covers, and, if the core has no fence, for reads.  Their ends are found in
 * the completion queue, so look there.  Then the application tries again; what it waits for is
 * told of, for prolongs_wait.
 */
static bool is_ready(struct pmv_initiator *ini, bool agent, bool group, bool reads)
{
	reads = reads && !pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE);
	if (has_to_wait(ini, agent, reads))
		pmv_queue_progress(ini->owner.tx_queue, false);
	if (group && !pmv_group_is_idle(ini))
		pmv_queue_progress(ini->owner.tx_queue, true);
	if (has_to_wait(ini, agent, reads)) {
		if (agent)
			atomic_store(&ini->fence_awaits_agent, true);
		if (reads)
			atomic_store(&ini->fence_awaits_reads, true);
		return false;
	}
	return !(group && !pmv_group_is_idle(ini));
}

static bool is_awaited(atomic_bool *awaits, bool under_way)
{
	if (!atomic_load_explicit(awaits, memory_order_relaxed))
		return false;
	if (!under_way)
		atomic_store(awaits, false);
	return under_way;
}

/*
 * prolongs_wait -- would one more of these keep a fenced operation waiting?  A stream of them, by
 * another thread, would do so for ever.  When all have ended the wait is over, also if nobody
 * tries the fenced operation again.
 */
static bool prolongs_wait(struct pmv_initiator *ini, bool agent, bool reads)
{
	return (agent &&
		is_awaited(&ini->fence_awaits_agent, atomic_load(&ini->mailbox->sender.unacked))) ||
	       (reads && is_awaited(&ini->fence_awaits_reads, atomic_load(&ini->ordering.reads)));
}

/* is_held_up -- its end is found in the completion queue */
static bool is_held_up(struct pmv_initiator *ini, bool agent, bool reads)
{
	if (!prolongs_wait(ini, agent, reads))
		return false;
	pmv_queue_progress(ini->owner.tx_queue, false);
	return prolongs_wait(ini, agent, reads);
}

/* Operations that do not commit */

/* post_plain -- under the ordering lock, if it is fenced */
static ssize_t post_plain(struct pmv_initiator *ini, const struct pmv_submission *submission,
			  struct pmv_wr *wr, bool fenced)
{
	uint64_t what = submission->what;
	uint64_t fence = fenced ? pmv_ordering_take_fence(ini) : 0;
	bool immediate = (what & FI_RMA) && (submission->flags & FI_REMOTE_CQ_DATA);
	bool counted = pmv_ordering_send_begin(ini, what & FI_SEND ? PMV_SLOW_SENDS
						    : immediate    ? PMV_SLOW_IMMEDIATES
								   : 0);
	ssize_t ret;

	wr->flags |= fence;
	ret = pmv_engine_post_one(ini->engine, wr);
	pmv_ordering_send_end(ini, counted, !ret, false);
	if (ret)
		pmv_ordering_return_fence(ini, fence);
	else if ((what & FI_READ) && !(what & FI_ATOMIC) && fence)
		/* The core does not fence reads: the next request carries the fence. */
		atomic_fetch_or(&ini->slow, PMV_SLOW_FENCE_NEXT);
	else if (fenced && !(what & FI_READ))
		atomic_fetch_and(&ini->slow, ~PMV_SLOW_FENCE_NEXT);
	if (!ret && (what & (FI_READ | FI_ATOMIC)))
		pmv_ordering_read(ini);
	return ret;
}

/* post_noted -- and remember what it writes */
static ssize_t post_noted(struct pmv_initiator *ini, const struct pmv_submission *submission,
			  struct pmv_wr *wr, bool fenced)
{
	bool writes = submission->what & (FI_WRITE | FI_ATOMIC);
	struct pmv_noted noted[PMV_MAX_RMA];
	ssize_t ret;

	if (writes)
		pmv_ordering_begin_writes(ini, submission->to, submission->num_to, noted);
	if (fenced)
		pthread_mutex_lock(&ini->ordering.lock);
	ret = post_plain(ini, submission, wr, fenced);
	if (fenced)
		pthread_mutex_unlock(&ini->ordering.lock);
	if (writes)
		pmv_ordering_end_writes(ini, submission->to, submission->num_to, noted, !ret);
	if (!ret && ini->hooks && writes && submission->num_to)
		pmv_ordering_lost_write(ini, submission->to, submission->num_to,
					submission->no_completion);
	return ret;
}

static ssize_t submit_plain(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	uint64_t what = submission->what, flags = submission->flags;
	bool is_receive = what & FI_RECV;
	bool fetches = (what & FI_READ) && !pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE);
	struct pmv_wr wr = submission->wr;
	bool fence = (flags & FI_FENCE) && !is_receive;
	/* An injected operation takes no flags. */
	bool fenced = fence || (!is_receive && !wr.inject && !(what & FI_READ) &&
				!pmv_initiator_is_fast(ini, PMV_SLOW_FENCE_NEXT));
	struct pmv_run *run = NULL;
	ssize_t ret;

	if (!is_receive && !pmv_submit_is_open(ini)) {
		pmv_start_pause_stores(ini);
		return -FI_EAGAIN;
	}
	if (is_held_up(ini, false, fetches) || !is_ready(ini, fence, fence, fenced))
		return -FI_EAGAIN;
	wr.context = submission->context;
	wr.flags = flags & ~FI_FENCE;
	if (!wr.inject &&
	    (ini->counts[pmv_count_kind(what)] || fetches || submission->no_completion)) {
		run = pmv_run_get(ini, submission);
		if (!run)
			return -FI_EAGAIN;
		/* It is made with one pending, which stands for this work request. */
		run->op.single = true;
		pmv_run_set_fetches(run, fetches);
		wr.context = run;
		wr.flags |= FI_COMPLETION;
	}
	ret = post_noted(ini, submission, &wr, fenced);
	if (ret && run) {
		pmv_run_set_fetches(run, false);
		pmv_op_put(ini->owner.pool, &run->op);
	}
	return ret;
}

/* Commits */

/* start_noted -- what it writes is remembered for later commits, as post_noted does */
static ssize_t start_noted(struct pmv_run *run, const struct pmv_submission *submission,
			   bool fenced)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_noted noted[PMV_MAX_RMA];
	ssize_t ret;

	pmv_ordering_begin_writes(ini, submission->to, submission->num_to, noted);
	ret = pmv_start(run, submission, fenced, false);
	pmv_ordering_end_writes(ini, submission->to, submission->num_to, noted, !ret);
	return ret;
}

/* check_losses -- 0, or the commit would cover writes that an earlier connection has lost */
static ssize_t check_losses(struct pmv_initiator *ini, const struct pmv_submission *submission,
			    bool grouped)
{
	const struct pmv_hooks *hooks = ini->hooks;
	uint32_t regions[PMV_HOOKS_REGIONS];
	struct pmv_lost_writes *peer;
	ssize_t ret;

	if (!hooks || !submission->num_to || submission->event_only)
		return 0;
	peer = pmv_ordering_tracker(ini, submission->to);
	ret = peer && submission->changed ? hooks->may_commit_changed(peer) : 0;
	if (ret || (!peer && grouped))
		return ret;
	if (!peer || submission->num_to > PMV_HOOKS_REGIONS) {
		PMV_WARN(EP_DATA, "commit refused: this libfabric hands on a write in a form that "
				  "is not known here\n");
		return -FI_EOPNOTSUPP;
	}
	for (size_t i = 0; i < submission->num_to; i++)
		regions[i] = (uint32_t) pmv_key_core(submission->to[i].key);
	return hooks->may_commit(peer, regions, submission->num_to, submission->flags & FI_FENCE);
}

/* note_writes -- those that the run is to make durable: lost_writes.h */
static void note_writes(struct pmv_run *run, const struct pmv_submission *submission)
{
	struct pmv_lost_writes *tracker = pmv_run_initiator(run)->tracker;

	if (!tracker)
		return;
	run->writes = pmv_lost_writes_number(tracker);
	for (size_t i = 0; i < submission->num_to && i < PMV_HOOKS_REGIONS; i++)
		run->regions[run->num_regions++] = (uint32_t) pmv_key_core(submission->to[i].key);
}

/* submit_run -- a commit, or what is plain but told of */
static ssize_t submit_run(struct pmv_initiator *ini, const struct pmv_submission *submission,
			  bool grouped)
{
	bool fence = submission->flags & FI_FENCE, plain = submission->event_only;
	bool notifies = pmv_submission_notifies(submission);
	/* An earlier atomic may be under way, and immediate data must not pass it. */
	bool fenced =
		!grouped && (fence || !pmv_initiator_is_fast(ini, PMV_SLOW_FENCE_NEXT) ||
			     (notifies && pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE)));
	ssize_t ret = check_losses(ini, submission, grouped);
	struct pmv_run *run;

	if (ret)
		return ret;
	if (!pmv_submit_is_open(ini) &&
	    (grouped || plain || (fenced && !fence) || !may_follow_payload(ini))) {
		pmv_start_pause_stores(ini);
		return -FI_EAGAIN;
	}
	if (is_held_up(ini, !plain, submission->what & FI_READ) ||
	    (fenced && !is_ready(ini, fence && plain, fence, true)))
		return -FI_EAGAIN;
	run = pmv_run_get(ini, submission);
	if (!run)
		return -FI_EAGAIN;
	if (plain)
		return start_noted(run, submission, fenced);
	note_writes(run, submission);
	return pmv_start(run, submission, fenced, grouped);
}

/*
 * may_group -- otherwise the operation is committed alone: if the target is told of it, if
 * it is fenced, if it has several places, or if it has no byte that a flush could read
 */
static bool may_group(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	if (pmv_event_is_wanted(ini, submission))
		return false;
	return submission->wr.inject ||
	       (!(submission->flags & (FI_FENCE | FI_REMOTE_CQ_DATA)) && submission->num_to == 1 &&
		submission->to->len && pmv_initiator_is_fast(ini, PMV_SLOW_FENCE_NEXT));
}

static ssize_t check(const struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	uint64_t flags = submission->flags;

	if (!pmv_initiator_is_fast(ini, PMV_SLOW_GONE))
		return -FI_ESHUTDOWN;
	if (submission->num_to > ini->max_places) {
		PMV_WARN(EP_DATA,
			 "an operation on %zu places of the target is refused: %zu is all that "
			 "the core can do (rma_iov_limit)\n",
			 submission->num_to, ini->max_places);
		return -FI_EINVAL;
	}
	if (!(flags & FI_IMMED) || (submission->what & FI_RECV) ||
	    ((flags & FI_COMMIT) && !(submission->what & FI_SEND)))
		return 0;
	PMV_WARN(EP_DATA, "FI_IMMED needs FI_COMMIT, and is for writes: a message's completion at "
			  "the target comes with the message\n");
	return -FI_EINVAL;
}

ssize_t pmv_submit(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	bool commits = submission->flags & FI_COMMIT;
	struct pmv_submission plain;
	ssize_t ret = check(ini, submission);

	if (ret)
		return ret;
	/* A receive commits nothing: its sender does. */
	if ((submission->what & FI_RECV) || (!commits && !pmv_group_takes(ini, submission))) {
		if (!pmv_event_is_wanted(ini, submission))
			return submit_plain(ini, submission);
		plain = *submission;
		plain.event_only = true;
		submission = &plain;
	}
	/* Nobody hears of its error, so a later commit has to fail in its place. */
	if (submission->no_completion && ini->hooks && submission->num_to)
		pmv_ordering_lost_write(ini, submission->to, submission->num_to, true);
	ret = submit_run(ini, submission, !commits && may_group(ini, submission));
	if (ret && ret != -FI_EAGAIN && !submission->event_only)
		pmv_initiator_count(ini, PMV_METHOD_REFUSED);
	return ret;
}
