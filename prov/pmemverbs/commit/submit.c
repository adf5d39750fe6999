/* SPDX-License-Identifier: BSD-2-Clause */
/* submit.c -- an application's call, on its way to the core */
#include "commit/submit.h"

#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "base/log.h"
#include "commit/group.h"
#include "commit/ordering.h"
#include "commit/run.h"
#include "commit/start.h"
#include "engine/length.h"

bool pmv_submit_is_open(struct pmv_initiator *ini)
{
	if (!pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED))
		pmv_run_push(ini, false);
	return pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED);
}

/* awaits_payload -- is a payload that the agent has not stored yet the only reason to be closed? */
static bool awaits_payload(struct pmv_initiator *ini)
{
	bool only;

	pthread_mutex_lock(&ini->lock);
	only = STAILQ_EMPTY(&ini->stalled) && !ini->deferred;
	pthread_mutex_unlock(&ini->lock);
	return only;
}

/*
 * is_ready -- a fenced operation waits for commits by the agent, for operations that a
 * group's flush covers, and, if the core has no fence, for reads.  Their ends are found in
 * the completion queue, so look there.  Then the application tries again.
 */
static bool is_ready(struct pmv_initiator *ini, bool agent, bool group, bool reads)
{
	const atomic_int *under_way = &ini->ordering.reads;

	reads = reads && !pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE);
	if ((agent && atomic_load(&ini->mailbox->unacked)) || (reads && atomic_load(under_way)))
		pmv_queue_progress(ini->owner.tx_queue, false);
	if (group && !pmv_group_is_idle(ini))
		pmv_queue_progress(ini->owner.tx_queue, true);
	return !(agent && atomic_load(&ini->mailbox->unacked)) &&
	       !(reads && atomic_load(under_way)) && !(group && !pmv_group_is_idle(ini));
}

/* Operations that do not commit */

/* plain_op -- an operation is needed to count it, or to know its end; NULL: none is left */
static struct pmv_op *plain_op(struct pmv_initiator *ini, const struct pmv_submission *submission,
			       bool fetches)
{
	struct pmv_run *run = pmv_run_get(ini, submission);

	if (!run)
		return NULL;
	run->op.single = true;
	run->fetches = fetches;
	if (fetches)
		atomic_fetch_add(&ini->ordering.reads, 1);
	return &run->op;
}

static void drop_plain_op(struct pmv_initiator *ini, struct pmv_op *op)
{
	if (op && pmv_to_run(op)->fetches)
		atomic_fetch_sub(&ini->ordering.reads, 1);
	if (op)
		pmv_op_put(ini->owner.pool, op);
}

/* slow_of -- does it use up one of the peer's receives? */
static unsigned slow_of(const struct pmv_submission *submission)
{
	if (submission->what & FI_SEND)
		return PMV_SLOW_SENDS;
	return (submission->what & FI_RMA) && (submission->flags & FI_REMOTE_CQ_DATA)
		       ? PMV_SLOW_IMMEDIATES
		       : 0;
}

/* post_plain -- under the ordering lock, if it is fenced */
static ssize_t post_plain(struct pmv_initiator *ini, const struct pmv_submission *submission,
			  struct pmv_wr *wr, bool fenced)
{
	uint64_t what = submission->what;
	uint64_t fence = fenced ? pmv_ordering_take_fence(ini) : 0;
	bool counted = pmv_ordering_send_begin(ini, slow_of(submission));
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
	const struct fi_rma_iov *to = submission->to;
	bool writes = submission->what & (FI_WRITE | FI_ATOMIC);
	size_t count = writes ? submission->num_to : 0;
	unsigned notes[PMV_MAX_RMA];
	ssize_t ret;

	for (size_t i = 0; i < count; i++)
		notes[i] = pmv_ordering_begin_write(ini, to[i].key, to[i].addr, to[i].len);
	if (fenced)
		pthread_mutex_lock(&ini->ordering.lock);
	ret = post_plain(ini, submission, wr, fenced);
	if (fenced)
		pthread_mutex_unlock(&ini->ordering.lock);
	for (size_t i = 0; i < count; i++)
		pmv_ordering_end_write(ini, notes[i], to[i].key, to[i].addr, to[i].len, !ret);
	if (!ret && ini->hooks && count)
		pmv_ordering_lost_write(ini, to, count, submission->unheard);
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
	struct pmv_op *op = NULL;
	ssize_t ret;

	if (!is_receive && !pmv_submit_is_open(ini))
		return -FI_EAGAIN;
	if (!is_ready(ini, fence, fence, fenced))
		return -FI_EAGAIN;
	wr.context = submission->context;
	wr.flags = flags & ~FI_FENCE;
	if (!wr.inject && (ini->counts[pmv_count_kind(what)] || fetches || submission->unheard)) {
		op = plain_op(ini, submission, fetches);
		if (!op)
			return -FI_EAGAIN;
		/* It is made with one pending, which stands for this work request. */
		wr.context = op;
		wr.flags |= FI_COMPLETION;
	}
	ret = post_noted(ini, submission, &wr, fenced);
	if (ret)
		drop_plain_op(ini, op);
	return ret;
}

/* Commits */

static ssize_t refuse(const char *why)
{
	PMV_WARN(EP_DATA, "commit refused: %s\n", why);
	return -FI_EOPNOTSUPP;
}

/* check_losses -- 0, or the commit would cover writes that an earlier connection has lost */
static ssize_t check_losses(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	const struct pmv_hooks *hooks = ini->hooks;
	uint32_t regions[PMV_HOOKS_REGIONS];
	struct pmv_lost_writes *peer;
	ssize_t ret;

	if (!hooks || !submission->num_to)
		return 0;
	peer = pmv_ordering_tracker(ini, submission->to);
	ret = peer && submission->changed ? hooks->may_commit_changed(peer) : 0;
	if (ret || (!peer && !(submission->flags & FI_COMMIT)))
		return ret;
	if (!peer || submission->num_to > PMV_HOOKS_REGIONS)
		return refuse("this libfabric hands on a write in a form that is not known here");
	for (size_t i = 0; i < submission->num_to; i++)
		regions[i] = (uint32_t) pmv_key_core(submission->to[i].key);
	return hooks->may_commit(peer, regions, submission->num_to, submission->flags & FI_FENCE);
}

static ssize_t submit_commit(struct pmv_initiator *ini, const struct pmv_submission *submission,
			     bool grouped)
{
	uint64_t flags = submission->flags;
	bool fence = flags & FI_FENCE;
	bool notifies = pmv_submission_notifies(submission);
	/* An earlier atomic may be under way, and immediate data must not pass it. */
	bool fenced =
		!grouped && (fence || !pmv_initiator_is_fast(ini, PMV_SLOW_FENCE_NEXT) ||
			     (notifies && pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE)));
	ssize_t ret = check_losses(ini, submission);
	struct pmv_run *run;

	if (ret)
		return ret;
	if (!pmv_submit_is_open(ini) && !(fence && awaits_payload(ini)))
		return -FI_EAGAIN;
	if (fenced && !is_ready(ini, false, fence, true))
		return -FI_EAGAIN;
	run = pmv_run_new(ini, submission);
	if (!run)
		return -FI_EAGAIN;
	return pmv_start(run, submission, fenced, grouped);
}

/*
 * may_group -- otherwise the operation is committed alone: if the target is told of it, if
 * it is fenced, if it has several places, or if it has no byte that a flush could read
 */
static bool may_group(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	return submission->wr.inject ||
	       (!(submission->flags & (FI_FENCE | FI_REMOTE_CQ_DATA)) && submission->num_to == 1 &&
		submission->to->len && pmv_initiator_is_fast(ini, PMV_SLOW_FENCE_NEXT));
}

ssize_t pmv_submit(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_submission commit;
	bool grouped;

	/* A receive commits nothing: its sender does. */
	if ((submission->what & FI_RECV) ||
	    (!(submission->flags & FI_COMMIT) && !pmv_group_takes(ini, submission)))
		return submit_plain(ini, submission);
	/* Nobody hears of its error, so a later commit has to fail in its place. */
	if (submission->unheard && ini->hooks && submission->num_to)
		pmv_ordering_lost_write(ini, submission->to, submission->num_to, true);
	if (submission->flags & FI_COMMIT)
		return submit_commit(ini, submission, false);
	grouped = may_group(ini, submission);
	if (grouped)
		return submit_commit(ini, submission, true);
	commit = *submission;
	commit.flags |= FI_COMMIT;
	return submit_commit(ini, &commit, false);
}
