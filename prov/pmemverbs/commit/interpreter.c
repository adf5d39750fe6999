/* SPDX-License-Identifier: BSD-2-Clause */
/* interpreter.c -- takes the steps of a run's plan; interpreter.h has the rules */
#include "commit/interpreter.h"

#include <assert.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "base/container.h"
#include "base/log.h"
#include "commit/flush_request.h"
#include "commit/ordering.h"
#include "commit/prepare.h"
#include "commit/rdma_flush.h"

/* The end */

static void free_request(struct pmv_run *run)
{
	pmv_flush_request_free(run->request);
	run->request = NULL;
}

void pmv_interpreter_release(struct pmv_run *run)
{
	free_request(run);
	free(run->kept);
	run->kept = NULL;
}

void pmv_interpreter_ended(struct pmv_op_owner *owner, struct pmv_op *op)
{
	struct pmv_initiator *ini = pmv_container_of(owner, struct pmv_initiator, owner);
	struct pmv_run *run = pmv_to_run(op);
	bool ok = !pmv_run_has_failed(run);
	struct pmv_count *count = run->counted ? ini->counts[pmv_count_kind(op->flags)] : NULL;

	if (run->under_way == &ini->group.flushing) {
		pmv_run_end_all(&run->members, atomic_load(&op->error), op->prov_errno);
		ini->group.flush = NULL;
	}
	if (run->under_way)
		atomic_store(run->under_way, false);
	for (unsigned int i = 0; ok && i < run->num_regions; i++)
		pmv_lost_writes_committed(ini->tracker, run->regions[i], run->writes);
	pmv_run_set_fetches(run, false);
	pmv_run_set_flushes(run, false);
	if (run->tail)
		atomic_fetch_sub(&ini->tails, 1);
	if (run->sample.weight && ok)
		pmv_sample_end(&run->sample);
	else if (run->sample.weight)
		pmv_sample_drop(&ini->commits.sampling, &run->sample);
	if (count)
		pmv_count_add(count, ok);
	if (run->request || run->kept)
		pmv_interpreter_release(run);
}

/*
 * Requests to the agent.  All that follows holds the initiator's lock, but
 * pmv_interpreter_accept_part.
 */

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
 * Until the request is answered or given up it counts as not acknowledged: from before what it
 * takes is dirty no longer.
 */
ssize_t pmv_interpreter_take_ranges(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	ssize_t ret;

	pmv_run_set_unacked(run, true);
	if (ini->dirty.lost)
		ret = atomic_load(&ini->broken) ? -FI_ENOTCONN : ini->dirty.lost;
	else
		ret = pmv_flush_request_take(run);
	if (ret)
		pmv_run_set_unacked(run, false);
	return ret;
}

/* take_written -- with what was just posted; the commit fails without memory */
static void take_written(struct pmv_run *run)
{
	const struct pmv_submission *submission = run->submission;
	struct pmv_initiator *ini = pmv_run_initiator(run);
	size_t changed = submission->changed;
	ssize_t ret;

	for (size_t i = 0; i < submission->num_to && run->commits; i++) {
		struct fi_rma_iov to = submission->to[i];
		unsigned notes = pmv_ordering_note_key(ini, to.key);

		if (changed)
			to.len = changed;
		if (changed || (notes & PMV_NOTE_AGENT))
			pmv_ordering_dirty(ini, notes, &to);
	}
	ret = pmv_interpreter_take_ranges(run);
	if (!ret)
		return;
	pmv_op_fail(&run->op, (int) -ret, 0);
	run->at = run->plan.count;
}

/* needs_read -- data that only a READ makes durable, and no thread has posted that */
static bool needs_read(struct pmv_initiator *ini)
{
	bool needs;

	pthread_mutex_lock(&ini->ordering.lock);
	needs = atomic_load(&ini->ordering.wrote_ordered);
	pthread_mutex_unlock(&ini->ordering.lock);
	return needs;
}

/*
 * read_back -- if writes keep no order, a READ pushes only the bytes that it reads.  So all
 * bytes that the request names are read.
 */
static ssize_t read_back(struct pmv_run *run)
{
	ssize_t ret = pmv_flush_request_read_back(run);

	if (ret)
		return ret == -FI_EAGAIN ? ret : give_up(run, ret);
	/* Writes that only a flush makes durable need one more READ. */
	if (needs_read(pmv_run_initiator(run))) {
		run->plan.steps[run->at].kind = PMV_STEP_FLUSH;
		return pmv_post_steps(run, PMV_POST_LOCKED);
	}
	run->at++;
	return 0;
}

/* send_request -- behind a fence if one is due */
static ssize_t send_request(struct pmv_run *run, bool fence)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	ssize_t ret;

	pthread_mutex_lock(&ini->ordering.lock);
	ret = pmv_flush_request_send(run, fence ? pmv_engine_fence(ini->engine->engine)
						: pmv_ordering_fence_due(ini));
	pthread_mutex_unlock(&ini->ordering.lock);
	return ret;
}

/* ask -- also after an error, as later requests rely on this one: interpreter.h */
static ssize_t ask(struct pmv_run *run, const struct pmv_step *step)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_flush_request *request = run->request;
	ssize_t ret = -FI_ECANCELED;

	if (!atomic_load(&ini->broken))
		ret = send_request(run, step->fence);
	if (ret)
		return ret == -FI_EAGAIN ? ret : give_up(run, ret);
	if (request->payload || request->dropped)
		ini->payload_message = run->asked.last;
	if (request->dropped)
		ini->dropped_message = run->asked.last;
	if (run->kept)
		ini->deferred++;
	STAILQ_INSERT_TAIL(&ini->awaiting, &run->op, next);
	run->at++;
	return 0;
}

#define PARKED 2 /* it waits in one of the lists */

static ssize_t join(struct pmv_run *run)
{
	STAILQ_INSERT_TAIL(&pmv_run_initiator(run)->group.members, &run->op, next);
	return PARKED;
}

/* plan_again -- the kept operation itself, now that everything before it is durable */
static ssize_t plan_again(struct pmv_run *run)
{
	const struct pmv_terms terms = {.fenced = true, .again = true};
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_plan plan = run->plan;
	unsigned int at = run->at;
	enum pmv_method method;
	ssize_t ret;

	if (!pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE) &&
	    atomic_load(&ini->ordering.reads))
		return -FI_EAGAIN;
	free_request(run);
	pthread_mutex_lock(&ini->ordering.lock);
	ret = pmv_prepare(run, terms, &method);
	/* The run is not gone behind this: what it keeps is needed until it ends. */
	if (!ret)
		ret = pmv_interpreter_accept(run, PMV_POST_FENCED);
	pthread_mutex_unlock(&ini->ordering.lock);
	if (ret) {
		free_request(run);
		run->plan = plan;
		run->at = at;
		return ret;
	}
	if (run->request)
		take_written(run);
	free(run->kept);
	run->kept = NULL;
	run->submission = NULL;
	return 0;
}

static ssize_t take_step(struct pmv_run *run, const struct pmv_step *step)
{
	/* The compiler finds a kind that is missing here. */
	switch ((enum pmv_step_kind) step->kind) {
	case PMV_STEP_FLUSH_BEFORE:
	case PMV_STEP_PERSIST_BEFORE:
	case PMV_STEP_DATA:
	case PMV_STEP_FLUSH:
	case PMV_STEP_IMMEDIATE:
		return pmv_post_steps(run, PMV_POST_LOCKED);
	case PMV_STEP_PERSIST:
		return pmv_rdma_flush_post_late(run);
	case PMV_STEP_READ_BACK:
		return read_back(run);
	case PMV_STEP_ASK:
		return ask(run, step);
	case PMV_STEP_JOIN:
		return join(run);
	case PMV_STEP_PLAN:
		return plan_again(run);
	case PMV_STEP_AWAIT:
		break;
	}
	return PARKED;
}

/* is_needed -- also after an error: interpreter.h */
static bool is_needed(const struct pmv_run *run, const struct pmv_step *step)
{
	return run->request && (step->kind == PMV_STEP_READ_BACK || step->kind == PMV_STEP_ASK ||
				step->kind == PMV_STEP_AWAIT || step->kind == PMV_STEP_FLUSH);
}

/* carry_on -- until the run is parked, or has ended; -FI_EAGAIN: there is no room for a step */
static ssize_t carry_on(struct pmv_run *run)
{
	while (run->at < run->plan.count) {
		const struct pmv_step *step = &run->plan.steps[run->at];
		ssize_t ret;

		if (pmv_run_has_failed(run) && !is_needed(run, step)) {
			run->at++;
			continue;
		}
		ret = take_step(run, step);
		if (ret == PMV_POSTED_ALL)
			return 0;
		if (ret == -FI_EAGAIN || ret == PARKED)
			return ret;
		if (!ret)
			continue;
		pmv_op_fail(&run->op, (int) -ret, 0);
		run->at++;
	}
	pmv_run_end(run, 0);
	return 0;
}

ssize_t pmv_interpreter_accept_part(struct pmv_run *run, ssize_t err)
{
	if (run->at <= run->plan.data)
		return err;
	if (err != -FI_EAGAIN) {
		pmv_op_fail(&run->op, (int) -err, 0);
		run->at++;
	}
	return 0;
}

bool pmv_interpreter_go_on(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	ssize_t ret = -FI_EAGAIN;

	if (run->request && run->plan.data != PMV_MAX_STEPS && run->submission)
		take_written(run);
	if (!run->kept)
		run->submission = NULL;
	if (STAILQ_EMPTY(&ini->stalled))
		ret = carry_on(run);
	if (ret == -FI_EAGAIN)
		STAILQ_INSERT_TAIL(&ini->stalled, &run->op, next);
	pmv_interpreter_gate(ini);
	return ret;
}

void pmv_interpreter_push(struct pmv_initiator *ini)
{
	struct pmv_op *op;

	while ((op = STAILQ_FIRST(&ini->stalled))) {
		STAILQ_REMOVE_HEAD(&ini->stalled, next);
		if (carry_on(pmv_to_run(op)) != -FI_EAGAIN)
			continue;
		STAILQ_INSERT_HEAD(&ini->stalled, op, next);
		break;
	}
}

bool pmv_interpreter_lacks_slot(struct pmv_initiator *ini)
{
	struct pmv_op *first = STAILQ_FIRST(&ini->stalled);
	const struct pmv_run *run = first ? pmv_to_run(first) : NULL;

	return run && run->at < run->plan.count && run->plan.steps[run->at].kind == PMV_STEP_ASK &&
	       !pmv_sender_slot(&ini->mailbox->sender);
}

void pmv_interpreter_answered(struct pmv_run *run, int err)
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

void pmv_interpreter_gate(struct pmv_initiator *ini)
{
	if (!STAILQ_EMPTY(&ini->stalled) || ini->deferred || atomic_load(&ini->tails) ||
	    ini->mailbox->sender.acked < ini->payload_message) {
		atomic_fetch_or(&ini->slow, PMV_SLOW_CLOSED);
	} else {
		ini->others_wait = false;
		atomic_fetch_and(&ini->slow, ~PMV_SLOW_CLOSED);
	}
}
