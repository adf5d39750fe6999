/* SPDX-License-Identifier: BSD-2-Clause */
/* submit.c -- an application's call, on its way to the core; submit.h says which way */
#include "commit/submit.h"

#include <rdma/fi_errno.h>

#include "agent/agent.h"
#include "base/log.h"
#include "commit/flush_request.h"
#include "commit/group.h"
#include "commit/interpreter.h"
#include "commit/push.h"
#include "commit/small.h"
#include "commit/target_event.h"

/* What has to come first */

bool pmv_submit_is_open(struct pmv_initiator *ini)
{
	if (pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED))
		return true;
	pmv_push(ini, false);
	return pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED);
}

/*
 * A payload that the agent has not stored yet closes the endpoint.  Until it is stored nothing else
 * of this endpoint may come to the target: data that are newer would be overwritten, and a read or
 * a message would come before the data that it follows.  Only requests to the agent may follow,
 * since it serves them in order: those of fenced commits, and those with a payload of their own.
 * An ATOMIC WRITE that is under way does the same as such a payload (rdma_flush.h).
 *
 * wait_for_payload -- something else was refused.  In a stream of small commits and other calls
 * that happens each time.  Measured over tcp (fi_pmem_bw -C 2 -W 16): such a stream made 8,500
 * writes a second, and 22,000 with data that travel apart.  So they do that for as many messages as
 * the mailbox has slots.
 *
 * may_pass -- plain writes may come to the target before the payload where the application allows
 * that (FI_OPT_PMEMVERBS_WRITES_PASS), but not to its place.
 *
 * may_enter -- follows: it is such a request, if it does not turn out otherwise (passes_payload),
 * or such a write.  They must not keep others waiting for ever; and if the payload was never sent,
 * its failure is told first.
 *
 * passes_payload -- its data do not travel in the request after all; holds the lock
 */
#define APART PMV_SLOTS

static void wait_for_payload(struct pmv_initiator *ini)
{
	uint64_t from = ini->mailbox->sender.sent + APART;

	ini->others_wait |= atomic_load(&ini->tails) > 0;
	if (ini->mailbox->sender.acked >= ini->payload_message)
		return;
	ini->others_wait = true;
	if (ini->stores_from < from)
		ini->stores_from = from;
}

static bool meets(const struct pmv_run *run, const struct fi_rma_iov *to)
{
	const struct pmv_flush_request *request = run->request;
	const struct pmv_range small = {run->place_addr, run->place_len, run->place_key};
	const struct pmv_range *store = request ? &request->store : &small;

	/* Nobody here knows where a chain reads and writes. */
	if (request && (request->is_chain || !request->payload))
		return request->is_chain;
	return (uint32_t) store->key == (uint32_t) to->key && store->addr < to->addr + to->len &&
	       to->addr < store->addr + store->len;
}

static bool may_pass(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	bool may = atomic_load_explicit(&ini->passes, memory_order_relaxed) &&
		   submission->what == (FI_RMA | FI_WRITE) && submission->num_to == 1 &&
		   !(submission->flags & FI_REMOTE_CQ_DATA);
	struct pmv_op *op;

	if (!may || pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED))
		return false;
	pthread_mutex_lock(&ini->lock);
	may = !pmv_rdma_flush_meets_tail(ini, submission->to);
	STAILQ_FOREACH(op, &ini->awaiting, next)
		may &= !meets(pmv_to_run(op), submission->to);
	pthread_mutex_unlock(&ini->lock);
	return may;
}

static bool may_follow(struct pmv_initiator *ini)
{
	bool may;

	pthread_mutex_lock(&ini->lock);
	may = STAILQ_EMPTY(&ini->stalled) && !ini->deferred && !ini->others_wait &&
	      ini->mailbox->sender.acked >= ini->dropped_message;
	pthread_mutex_unlock(&ini->lock);
	return may;
}

/*
 * look -- into the queue, for what a refused call waits for.  A core that moves data in calls has
 * moved what others wait for as well, and nobody else hears of that.
 */
static void look(struct pmv_initiator *ini, bool looking)
{
	pmv_queue_progress(ini->owner.tx_queue, looking);
	pmv_agent_nudge(ini->mailbox->link.agent);
}

static bool may_enter(struct pmv_initiator *ini, bool follows)
{
	if (pmv_submit_is_open(ini) || (follows && may_follow(ini)))
		return true;
	/* The application may read nothing until it has posted this. */
	if (ini->engine->engine->core->manual_progress || atomic_load(&ini->tails)) {
		look(ini, false);
		if (pmv_submit_is_open(ini))
			return true;
	}
	if (follows)
		return false;
	pthread_mutex_lock(&ini->lock);
	wait_for_payload(ini);
	pthread_mutex_unlock(&ini->lock);
	return false;
}

static bool passes_payload(const struct pmv_run *run, struct pmv_initiator *ini)
{
	if (run->plan.data == PMV_MAX_STEPS || pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED))
		return false;
	ini->others_wait = true;
	return true;
}

static bool has_to_wait(struct pmv_initiator *ini, bool agent, bool reads, bool flushes)
{
	return (agent && atomic_load(&ini->mailbox->sender.unacked)) ||
	       (reads && atomic_load(&ini->ordering.reads)) ||
	       (flushes && atomic_load(&ini->ordering.flushes));
}

/*
 * is_ready -- a fenced operation waits for commits by the agent and, unless it is a tail, by RDMA
 * FLUSH, for operations that a group's flush covers, and, if the core has no fence, for reads.
 * Their ends are found in the completion queue, so look there.  Then the application tries again;
 * what it waits for is told of, for prolongs_wait.
 */
static bool is_ready(struct pmv_initiator *ini, bool agent, bool group, bool reads, bool tail)
{
	bool flushes = reads && !tail;

	reads = reads && !pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE);
	if (has_to_wait(ini, agent, reads, flushes))
		look(ini, false);
	if (group && !pmv_group_is_idle(ini))
		look(ini, true);
	if (has_to_wait(ini, agent, reads, flushes)) {
		if (flushes)
			atomic_store(&ini->awaits_flushes, true);
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
		(is_awaited(&ini->fence_awaits_agent, atomic_load(&ini->mailbox->sender.unacked)) ||
		 is_awaited(&ini->awaits_flushes, atomic_load(&ini->ordering.flushes)))) ||
	       (reads && is_awaited(&ini->fence_awaits_reads, atomic_load(&ini->ordering.reads)));
}

/* is_held_up -- its end is found in the completion queue */
static bool is_held_up(struct pmv_initiator *ini, bool agent, bool reads)
{
	if (!prolongs_wait(ini, agent, reads))
		return false;
	look(ini, false);
	return prolongs_wait(ini, agent, reads);
}

/* Commits over connections that may be replaced (hooks.h) */

/* check_losses -- 0, or the commit would cover writes that an earlier connection has lost */
static ssize_t check_losses(struct pmv_initiator *ini, const struct pmv_submission *submission,
			    bool grouped)
{
	const struct pmv_hooks *hooks = ini->hooks;
	uint32_t regions[PMV_HOOKS_REGIONS];
	struct pmv_lost_writes *peer;
	ssize_t ret;

	if (!hooks || !submission->num_to)
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
	run->op.told.ordinary = false;
	for (size_t i = 0; i < submission->num_to && i < PMV_HOOKS_REGIONS; i++)
		run->regions[run->num_regions++] = (uint32_t) pmv_key_core(submission->to[i].key);
}

/* Runs */

/* begin_sample -- the commit is timed, so its owner is to hear of its end */
__attribute__((noinline, cold)) static void begin_sample(struct pmv_initiator *ini,
							 struct pmv_run *run,
							 enum pmv_method method)
{
	struct pmv_commit_counts *commits = &ini->commits;

	run->op.told.ordinary = false;
	pmv_sample_begin(&commits->sampling, &run->sample, method,
			 atomic_load(&commits->by_method[method]),
			 pmv_submission_len(run->submission));
}

/* refuse -- it is gone; counted: as one by this method */
static ssize_t refuse(struct pmv_initiator *ini, struct pmv_run *run, bool counted,
		      enum pmv_method method, ssize_t err)
{
	if (counted)
		pmv_initiator_uncount(ini, method);
	if (run->sample.weight)
		pmv_sample_drop(&ini->commits.sampling, &run->sample);
	pmv_run_refuse(run);
	return err;
}

/* wait_on_both -- what is waited for now, at the endpoint's queues */
static inline void wait_on_both(struct pmv_initiator *ini, enum pmv_pending pending)
{
	struct pmv_queue *tx = ini->owner.tx_queue, *rx = ini->owner.rx_queue;

	pmv_initiator_wait(ini, pending);
	if (!rx || rx == tx)
		return;
	/* Whoever has read the first one in between could tell the other one nothing. */
	pthread_mutex_lock(&ini->lock);
	pending = pmv_push_pending(ini);
	pthread_mutex_unlock(&ini->lock);
	pmv_queue_raise_pending(tx, pending);
	pmv_queue_raise_pending(rx, pending);
}

/* go_on -- with a run that was accepted, under the lock; then give the lock back */
static void go_on(struct pmv_initiator *ini, struct pmv_run *run)
{
	enum pmv_pending pending =
		pmv_interpreter_go_on(run) ? pmv_push_pending(ini) : PMV_PENDING_NONE;

	pthread_mutex_unlock(&ini->lock);
	if (pending)
		wait_on_both(ini, pending);
}

/*
 * carry_out -- a run that was prepared, if err is 0.  locks: what the caller holds, which is given
 * back.  A negative fi_errno: it was not accepted, and the run is gone.
 */
PMV_ALWAYS_INLINE ssize_t carry_out(struct pmv_initiator *ini, struct pmv_run *run, bool commits,
				    enum pmv_post_locks locks, enum pmv_method method, ssize_t err)
{
	ssize_t ret = err;

	/* Before it can complete. */
	if (!err && commits && pmv_initiator_count(ini, method))
		begin_sample(ini, run, method);
	if (!err)
		ret = pmv_interpreter_accept(run, locks);
	if (locks == PMV_POST_FENCED)
		pthread_mutex_unlock(&ini->ordering.lock);
	if (!ret && locks == PMV_POST_UNLOCKED)
		pthread_mutex_lock(&ini->lock);
	if (!ret)
		go_on(ini, run);
	else if (locks != PMV_POST_UNLOCKED)
		pthread_mutex_unlock(&ini->lock);
	return ret >= 0 ? 0 : refuse(ini, run, !err && commits, method, ret);
}

/* submit_run -- what has a run; terms: before the locks for them are taken */
static ssize_t submit_run(struct pmv_initiator *ini, const struct pmv_submission *submission,
			  bool commits, struct pmv_terms terms)
{
	/* What an RDMA FLUSH is to cover, and what the agent is asked for: all in one go. */
	enum pmv_post_locks locks = terms.fenced                    ? PMV_POST_FENCED
				    : terms.stored || terms.flushes ? PMV_POST_LOCKED
								    : PMV_POST_UNLOCKED;
	struct pmv_run *run =
		pmv_run_get(ini, submission, submission->what, !submission->no_completion, commits);
	enum pmv_method method;
	ssize_t err;

	if (!run)
		return -FI_EAGAIN;
	run->op.told.single = !commits && !submission->event_only && !submission->delivers;
	if (commits)
		note_writes(run, submission);
	if (locks != PMV_POST_UNLOCKED)
		pthread_mutex_lock(&ini->lock);
	if (locks == PMV_POST_FENCED)
		pthread_mutex_lock(&ini->ordering.lock);
	/* Under the lock: acknowledgements are taken under it, and tell of failures. */
	if (terms.fenced && (submission->flags & FI_FENCE) && !pmv_initiator_may_fence(ini))
		err = -FI_ECANCELED;
	else
		err = pmv_prepare(run, terms, &method);
	if (!err && terms.stored && passes_payload(run, ini))
		err = -FI_EAGAIN;
	return carry_out(ini, run, commits, locks, method, err);
}

/* submit_small -- its data travel in the request to the agent, if there is room */
static ssize_t submit_small(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_run *run = pmv_run_get(ini, submission, FI_RMA | FI_WRITE, true, true);
	ssize_t ret;

	if (!run)
		return -FI_EAGAIN;
	pthread_mutex_lock(&ini->lock);
	if (pmv_initiator_count(ini, PMV_METHOD_AGENT))
		begin_sample(ini, run, PMV_METHOD_AGENT);
	ret = pmv_small_post(ini, run);
	pthread_mutex_unlock(&ini->lock);
	if (ret)
		return refuse(ini, run, true, PMV_METHOD_AGENT, ret);
	wait_on_both(ini, PMV_PENDING_ACKS);
	return 0;
}

ssize_t pmv_submit_one_sided(struct pmv_initiator *ini, const struct pmv_submission *submission,
			     unsigned known)
{
	struct pmv_run *run = pmv_run_get(ini, submission, FI_RMA | FI_WRITE, true, true);
	enum pmv_method method = known / PMV_NOTE_METHOD;

	if (!run)
		return -FI_EAGAIN;
	pmv_prepare_one_sided(ini, run, submission, known);
	return pmv_initiator_note_refused(ini,
					  carry_out(ini, run, true, PMV_POST_UNLOCKED, method, 0));
}

ssize_t pmv_submit_assisted(struct pmv_initiator *ini, const struct pmv_submission *submission,
			    unsigned known)
{
	enum pmv_method method = known / PMV_NOTE_METHOD;
	struct pmv_run *run;
	ssize_t err;

	if (method == PMV_METHOD_AGENT && pmv_prepare_is_small(submission->to, known)) {
		err = submit_small(ini, submission);
		/* Another thread may have closed it since. */
		if (err != -FI_EAGAIN || !pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED))
			return pmv_initiator_note_refused(ini, err);
	}
	run = pmv_run_get(ini, submission, FI_RMA | FI_WRITE, true, true);
	if (!run)
		return -FI_EAGAIN;
	err = pmv_prepare_assisted(ini, run, method);
	return pmv_initiator_note_refused(
		ini, carry_out(ini, run, true, PMV_POST_UNLOCKED, method, err));
}

/* Gates */

/* note_uncommitted -- a later commit has to know if its connection gets lost */
static ssize_t note_uncommitted(struct pmv_initiator *ini, const struct pmv_submission *submission,
				ssize_t ret)
{
	if (!ret && ini->hooks && (submission->what & (FI_WRITE | FI_ATOMIC)) && submission->num_to)
		pmv_ordering_lost_write(ini, submission->to, submission->num_to,
					submission->no_completion);
	return ret;
}

/* submit_plain -- it does not commit, and nobody is told of it */
static ssize_t submit_plain(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	uint64_t what = submission->what;
	bool is_receive = what & FI_RECV, fence = (submission->flags & FI_FENCE) && !is_receive;
	bool fetches = (what & FI_READ) && !pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE);
	/* An injected atomic takes no flags. */
	bool fenced = fence || (!is_receive && !submission->inject && !(what & FI_READ) &&
				!pmv_initiator_is_fast(ini, PMV_SLOW_FENCE_NEXT));
	bool shares = !is_receive && !pmv_initiator_is_fast(ini, PMV_SLOW_SHARES);
	bool counted = !submission->inject && (ini->counts[pmv_count_kind(what)] || fetches ||
					       shares || submission->no_completion);
	ssize_t ret;

	if ((!is_receive && !may_enter(ini, may_pass(ini, submission))) ||
	    is_held_up(ini, false, fetches) || !is_ready(ini, fence, fence, fenced, false))
		return pmv_initiator_lack_room(ini, -FI_EAGAIN);
	if (counted)
		ret = pmv_initiator_lack_room(
			ini,
			submit_run(ini, submission, false, (struct pmv_terms){.fenced = fenced}));
	else if (fence && !pmv_initiator_may_fence(ini))
		ret = -FI_ECANCELED;
	else
		ret = pmv_post_alone(ini, submission, fenced);
	return note_uncommitted(ini, submission, ret);
}

/*
 * submit_planned -- a commit, what the target's application is told of, or what completes only when
 * it is in place
 */
static ssize_t submit_planned(struct pmv_initiator *ini, const struct pmv_submission *submission,
			      bool grouped)
{
	bool commits = !submission->event_only && !submission->delivers;
	bool fence = submission->flags & FI_FENCE;
	bool notifies = !submission->delivers && pmv_submission_notifies(submission);
	/* An earlier atomic may be under way, and immediate data must not pass it. */
	bool fenced =
		!grouped && (fence || !pmv_initiator_is_fast(ini, PMV_SLOW_FENCE_NEXT) ||
			     (notifies && pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE)));
	bool stored = commits && !fenced && !grouped && pmv_prepare_may_store(ini, submission);
	bool tail = commits && fence && pmv_rdma_flush_may_be_tail(ini, submission);
	ssize_t ret = commits ? check_losses(ini, submission, grouped) : 0;

	if (ret)
		return ret;
	if (!may_enter(ini, stored || (commits && fence)))
		return -FI_EAGAIN;
	if (is_held_up(ini, commits, submission->what & FI_READ) ||
	    (fenced && !is_ready(ini, fence && !commits, fence, true, tail)))
		return -FI_EAGAIN;
	return submit_run(
		ini, submission, commits,
		(struct pmv_terms){.fenced = fenced,
				   .stored = stored,
				   .grouped = grouped,
				   .tail = tail,
				   .flushes = commits && !grouped && atomic_load(&ini->flushes)});
}

/*
 * may_group -- otherwise the operation is committed alone: if the target is told of it, if it is
 * fenced, if it must be in place as well (a group needs no flush where a completion proves
 * durability), if it has several places, or if it has no byte that a flush could read
 */
static bool may_group(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	if (pmv_target_event_is_wanted(ini, submission))
		return false;
	return submission->inject ||
	       (!(submission->flags & (FI_FENCE | FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE)) &&
		submission->num_to == 1 && submission->to->len &&
		pmv_initiator_is_fast(ini, PMV_SLOW_FENCE_NEXT));
}

static ssize_t check(const struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	uint64_t flags = submission->flags;

	if (!pmv_initiator_is_fast(ini, PMV_SLOW_UNKNOWN) && !(submission->what & FI_RECV))
		return -FI_ENOTCONN;
	if (submission->num_to > ini->max_places) {
		PMV_WARN(EP_DATA,
			 "an operation on %zu places of the target is refused: %zu is all that "
			 "the core can do (rma_iov_limit)\n",
			 submission->num_to, ini->max_places);
		return -FI_EINVAL;
	}
	if (!(flags & FI_IMMED) || (submission->what & FI_RECV) ||
	    ((flags & FI_COMMIT) && !(submission->what & FI_SEND)))
		return pmv_ordering_check_keys(ini, submission->to, submission->num_to);
	PMV_WARN(EP_DATA, "FI_IMMED needs FI_COMMIT, and is for writes: a message's completion at "
			  "the target comes with the message\n");
	return -FI_EINVAL;
}

/*
 * needs_delivery -- is it to complete only when its data are in place, and does the core not see
 * to that itself?  Nobody would hear of what never completes.
 */
static bool needs_delivery(const struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	return (submission->flags & FI_DELIVERY_COMPLETE) && !submission->no_completion &&
	       (submission->what & (FI_WRITE | FI_ATOMIC | FI_SEND)) &&
	       !pmv_submission_only_reads(submission) &&
	       !pmv_engine_can(ini->engine->engine, PMV_ENGINE_DELIVER);
}

ssize_t pmv_submit_any(struct pmv_initiator *ini, struct pmv_submission *submission)
{
	bool commits = submission->flags & FI_COMMIT;
	ssize_t ret;

	if (!pmv_initiator_is_fast(ini, PMV_SLOW_GONE))
		return pmv_post_gone(ini, submission);
	ret = check(ini, submission);
	if (ret)
		return ret;
	if (ini->hooks && submission->num_to && submission->what == (FI_RMA | FI_WRITE))
		submission->changed = ini->hooks->changed(submission->to);
	/* A receive commits nothing: its sender does. */
	if ((submission->what & FI_RECV) || (!commits && !pmv_group_takes(ini, submission))) {
		submission->event_only = pmv_target_event_is_wanted(ini, submission);
		submission->delivers = !submission->event_only && needs_delivery(ini, submission);
		if (submission->delivers)
			return note_uncommitted(ini, submission,
						submit_planned(ini, submission, false));
		if (!submission->event_only)
			return submit_plain(ini, submission);
	}
	/* Nobody hears of its error, so a later commit has to fail in its place. */
	if (submission->no_completion && ini->hooks && submission->num_to)
		pmv_ordering_lost_write(ini, submission->to, submission->num_to, true);
	if (submission->event_only)
		return submit_planned(ini, submission, false);
	return pmv_initiator_note_refused(
		ini, submit_planned(ini, submission, !commits && may_group(ini, submission)));
}

/* Chains */

/* is_ready_for_chain -- 0: it may stand here, where a fenced commit could */
static ssize_t is_ready_for_chain(struct pmv_initiator *ini)
{
	if (!pmv_initiator_is_fast(ini, PMV_SLOW_NOWHERE))
		return pmv_initiator_is_fast(ini, PMV_SLOW_GONE) ? -FI_ENOTCONN : -FI_ESHUTDOWN;
	if (!may_enter(ini, true) || is_held_up(ini, true, false) ||
	    !is_ready(ini, false, false, true, false))
		return -FI_EAGAIN;
	return 0;
}

ssize_t pmv_submit_chain(struct pmv_initiator *ini, const struct pmv_submission *submission,
			 struct pmv_chain_request *chain)
{
	ssize_t ret = is_ready_for_chain(ini);
	bool commits = chain->commits;
	struct pmv_run *run = NULL;

	if (!ret)
		run = pmv_run_get(ini, submission, submission->what, !submission->no_completion,
				  commits);
	if (!run) {
		pmv_chain_request_free(chain);
		return ret ? ret : -FI_EAGAIN;
	}
	pthread_mutex_lock(&ini->lock);
	pthread_mutex_lock(&ini->ordering.lock);
	/* It stands where a fenced commit could. */
	if (pmv_initiator_may_fence(ini)) {
		ret = pmv_prepare_chain(run, chain);
	} else {
		pmv_chain_request_free(chain);
		ret = -FI_ECANCELED;
	}
	ret = carry_out(ini, run, commits, PMV_POST_FENCED, PMV_METHOD_AGENT, ret);
	if (!ret)
		atomic_fetch_add_explicit(&ini->commits.chains, 1, memory_order_relaxed);
	return ret;
}
