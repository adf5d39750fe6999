/* SPDX-License-Identifier: BSD-2-Clause */
/* run.c -- the interpreter; run.h has the rules */
#include "commit/run.h"

#include <assert.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "commit/batch.h"
#include "commit/flush_request.h"
#include "commit/group.h"
#include "commit/ordering.h"
#include "commit/start.h"

/* Beginning and end */

void pmv_run_free_request(struct pmv_run *run)
{
	pmv_flush_request_free(run->request);
	run->request = NULL;
}

void pmv_run_release(struct pmv_run *run)
{
	pmv_run_free_request(run);
	free(run->kept);
	run->kept = NULL;
}

/* audience_of -- who is told of it */
static enum pmv_audience audience_of(const struct pmv_initiator *ini,
				     const struct pmv_submission *submission)
{
	bool receive = submission->what & FI_RECV;
	bool selective = receive ? ini->rx_selective : ini->tx_selective;

	if (submission->no_completion ||
	    (receive ? ini->owner.rx_queue : ini->owner.tx_queue) == ini->unread)
		return PMV_TELL_NOBODY;
	if ((submission->flags & FI_COMPLETION) || !selective)
		return PMV_TELL_ALL;
	/*
	 * Where immediate data may use it up, every receive is reported, as immediate data always
	 * are.
	 */
	if (receive && ini->engine->engine->core->imm_receives)
		return PMV_TELL_ALL;
	return PMV_TELL_ERROR;
}

struct pmv_run *pmv_run_get(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_run *run = pmv_to_run(pmv_op_get(&ini->owner, PMV_OP_APPLICATION));

	if (!run)
		return NULL;
	run->op.context = submission->context;
	run->op.flags = submission->what;
	run->op.audience = audience_of(ini, submission);
	run->counted = true;
	run->data = submission->data;
	return run;
}

struct pmv_run *pmv_run_get_own(struct pmv_initiator *ini, atomic_bool *under_way)
{
	struct pmv_run *run = pmv_to_run(pmv_op_get(&ini->owner, PMV_OP_OWN));

	if (!run)
		return NULL;
	run->op.audience = PMV_TELL_NOBODY;
	run->under_way = under_way;
	if (under_way)
		atomic_store(under_way, true);
	return run;
}

void pmv_run_ended(struct pmv_op_owner *owner, struct pmv_op *op)
{
	struct pmv_initiator *ini = pmv_container_of(owner, struct pmv_initiator, owner);
	struct pmv_run *run = pmv_to_run(op);
	bool ok = !pmv_run_has_failed(run);
	struct pmv_count *count = run->counted ? ini->counts[pmv_count_kind(op->flags)] : NULL;

	if (run->under_way == &ini->group.flushing) {
		pmv_group_end(&run->members, atomic_load(&op->error), op->prov_errno);
		ini->group.flush = NULL;
	}
	if (run->under_way)
		atomic_store(run->under_way, false);
	for (unsigned int i = 0; ok && i < run->num_regions; i++)
		pmv_lost_writes_committed(ini->tracker, run->regions[i], run->writes);
	pmv_run_set_fetches(run, false);
	if (count)
		pmv_count_add(count, ok);
	if (run->request || run->kept)
		pmv_run_release(run);
}

void pmv_run_end(struct pmv_run *run, int err)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);

	if (pmv_op_done(ini->owner.pool, &run->op, err, 0))
		pmv_queue_add(ini->owner.tx_queue, &run->op.comp);
}

/* Steps of several work requests.  All hold the initiator's lock. */

/*
 * give_up -- nobody will make the ranges durable that the request took: no later commit succeeds.
 * They are dirty no longer, so fenced commits have to be told that they need the agent.
 */
static ssize_t give_up(struct pmv_run *run, ssize_t err)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);

	/* No warning: so it is, too, when the connection has just been lost. */
	PMV_INFO(EP_DATA,
		 "the core does not take a request to the target's agent: %s; commits by it fail "
		 "from here on\n",
		 fi_strerror((int) -err));
	ini->dirty.lost = (int) err;
	atomic_store(&ini->ordering.wrote_agent, true);
	pmv_run_set_unacked(run, false);
	run->at = run->plan.count;
	return err;
}

/*
 * read_back -- if writes keep no order, a READ pushes only the bytes that it reads.  So all
 * bytes that the request names are read.
 */
static ssize_t read_back(struct pmv_run *run)
{
	ssize_t ret = pmv_flush_request_read_back(run->request, run);

	if (ret)
		return ret == -FI_EAGAIN ? ret : give_up(run, ret);
	/* Writes that only a flush makes durable need one more READ. */
	if (atomic_load(&pmv_run_initiator(run)->ordering.wrote_ordered)) {
		run->plan.steps[run->at].kind = PMV_STEP_FLUSH;
		return pmv_batch_post(run, NULL, 0, false);
	}
	run->at++;
	return 0;
}

/* ask -- also after an error, as later requests rely on this one: run.h */
static ssize_t ask(struct pmv_run *run, const struct pmv_step *step)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	bool fence = step->fence || atomic_load(&ini->ordering.fence_due);
	ssize_t ret = -FI_ECANCELED;

	if (!atomic_load(&ini->broken))
		ret = pmv_flush_request_send(run->request, run,
					     fence ? pmv_engine_fence(ini->engine->engine) : 0);
	if (ret)
		return ret == -FI_EAGAIN ? ret : give_up(run, ret);
	if (run->request->payload || run->request->dropped)
		ini->payload_message = run->request->last;
	if (run->request->dropped)
		ini->dropped_message = run->request->last;
	if (run->kept)
		ini->deferred++;
	if (STAILQ_EMPTY(&ini->awaiting))
		ini->heard_ns = pmv_clock_ns();
	STAILQ_INSERT_TAIL(&ini->awaiting, &run->op, next);
	run->at++;
	return 0;
}

/* The interpreter itself */

static ssize_t take_step(struct pmv_run *run, const struct pmv_step *step)
{
	/* The compiler finds a kind that is missing here. */
	switch ((enum pmv_step_kind) step->kind) {
	case PMV_STEP_FLUSH_BEFORE:
	case PMV_STEP_DATA:
	case PMV_STEP_FLUSH:
	case PMV_STEP_IMMEDIATE:
		return pmv_batch_post(run, NULL, 0, false);
	case PMV_STEP_READ_BACK:
		return read_back(run);
	case PMV_STEP_ASK:
		return ask(run, step);
	case PMV_STEP_PLAN:
		return pmv_start_kept(run);
	case PMV_STEP_AWAIT:
	case PMV_STEP_JOIN:
		break;
	}
	return PMV_RUN_PARKED;
}

/* is_needed -- also after an error: run.h */
static bool is_needed(const struct pmv_run *run, const struct pmv_step *step)
{
	return run->request && (step->kind == PMV_STEP_READ_BACK || step->kind == PMV_STEP_ASK ||
				step->kind == PMV_STEP_AWAIT || step->kind == PMV_STEP_FLUSH);
}

ssize_t pmv_run_carry_on(struct pmv_run *run)
{
	while (run->at < run->plan.count) {
		const struct pmv_step *step = &run->plan.steps[run->at];
		ssize_t ret;

		if (pmv_run_has_failed(run) && !is_needed(run, step)) {
			run->at++;
			continue;
		}
		ret = take_step(run, step);
		if (ret == -FI_EAGAIN || ret == PMV_RUN_PARKED)
			return ret;
		if (!ret)
			continue;
		pmv_op_fail(&run->op, (int) -ret, 0);
		run->at++;
	}
	return 0;
}

/* update_slow -- may the endpoint take something new?  Holds the lock. */
static void update_slow(struct pmv_initiator *ini)
{
	if (!STAILQ_EMPTY(&ini->stalled) || ini->deferred ||
	    ini->mailbox->sender.acked < ini->payload_message) {
		atomic_fetch_or(&ini->slow, PMV_SLOW_CLOSED);
	} else {
		ini->others_wait = false;
		atomic_fetch_and(&ini->slow, ~PMV_SLOW_CLOSED);
	}
}

void pmv_run_carry_on_in_order(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	ssize_t ret = STAILQ_EMPTY(&ini->stalled) ? pmv_run_carry_on(run) : -FI_EAGAIN;

	if (ret == -FI_EAGAIN)
		STAILQ_INSERT_TAIL(&ini->stalled, &run->op, next);
	else if (!ret)
		pmv_run_end(run, 0);
	update_slow(ini);
}

void pmv_run_answered(struct pmv_run *run, int err)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);

	assert(STAILQ_FIRST(&ini->awaiting) == &run->op);
	STAILQ_REMOVE_HEAD(&ini->awaiting, next);
	pmv_run_set_unacked(run, false);
	if (run->kept)
		ini->deferred--;
	run->at++;
	if (!err && !pmv_run_has_failed(run) && run->at < run->plan.count)
		STAILQ_INSERT_TAIL(&ini->stalled, &run->op, next);
	else
		pmv_run_end(run, err);
}

enum pmv_pending pmv_run_push(struct pmv_initiator *ini, bool looking)
{
	enum pmv_pending pending;
	struct pmv_op *op;

	pthread_mutex_lock(&ini->lock);
	pmv_answer_take(ini);
	while ((op = STAILQ_FIRST(&ini->stalled))) {
		ssize_t ret;

		STAILQ_REMOVE_HEAD(&ini->stalled, next);
		ret = pmv_run_carry_on(pmv_to_run(op));
		if (ret == -FI_EAGAIN) {
			STAILQ_INSERT_HEAD(&ini->stalled, op, next);
			break;
		}
		if (!ret)
			pmv_run_end(pmv_to_run(op), 0);
	}
	pmv_group_next(ini, looking);
	pmv_answer_probe(ini);
	update_slow(ini);
	pending = !STAILQ_EMPTY(&ini->stalled)    ? PMV_PENDING_POSTS
		  : !STAILQ_EMPTY(&ini->awaiting) ? PMV_PENDING_ACKS
						  : pmv_group_pending(ini);
	pthread_mutex_unlock(&ini->lock);
	return pending;
}

void pmv_run_drop_all(struct pmv_initiator *ini)
{
	struct pmv_op *op;

	pthread_mutex_lock(&ini->lock);
	while ((op = STAILQ_FIRST(&ini->stalled))) {
		STAILQ_REMOVE_HEAD(&ini->stalled, next);
		pmv_run_set_unacked(pmv_to_run(op), false);
		pmv_run_end(pmv_to_run(op), FI_ECANCELED);
	}
	while ((op = STAILQ_FIRST(&ini->awaiting)))
		pmv_run_answered(pmv_to_run(op), FI_ECANCELED);
	pmv_group_end(&ini->group.members, FI_ECANCELED, 0);
	update_slow(ini);
	pthread_mutex_unlock(&ini->lock);
}
