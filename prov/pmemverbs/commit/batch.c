/* SPDX-License-Identifier: BSD-2-Clause */
/* batch.c -- steps that are one work request each, posted together */
#include "commit/batch.h"

#include <stdint.h>

#include "commit/ordering.h"

#define NONE SIZE_MAX

/* What a work request of our own points to. */
struct room {
	struct fi_msg_rma msg;
	struct iovec iov;
	struct fi_rma_iov to;
};

struct batch {
	struct pmv_initiator *ini;
	struct pmv_run *run;
	const struct pmv_submission *submission; /* NULL: DATA is not among them */
	const struct fi_rma_iov *group_at;       /* where a member of a group writes */
	struct pmv_noted noted;                  /* of DATA */
	bool locked;                             /* we hold the ordering lock */
	bool took_ordered;                       /* the first flush has taken the flag */
	bool counted;                            /* a receive of the peer's is used up ... */
	size_t counted_at;                       /* ... by this one */
	uint64_t fence;                          /* DATA's */
	size_t data;                             /* its index, or NONE */
	size_t flush;                            /* that of the first flush, or NONE */
	struct pmv_wr wrs[PMV_MAX_STEPS];
	struct room room[PMV_MAX_STEPS];
};

/* fill_own -- a request of our own; at this end is the scratch page */
static void fill_own(struct pmv_run *run, struct pmv_wr *wr, struct room *room, uint64_t addr,
		     size_t len, uint64_t core_key)
{
	struct pmv_engine *engine = pmv_run_initiator(run)->engine->engine;

	room->iov = (struct iovec){.iov_base = engine->scratch, .iov_len = len};
	room->to = (struct fi_rma_iov){.addr = addr, .len = len, .key = core_key};
	room->msg = (struct fi_msg_rma){
		.msg_iov = &room->iov,
		.desc = &engine->scratch_desc,
		.iov_count = 1,
		.rma_iov = &room->to,
		.rma_iov_count = 1,
		.context = run,
		.data = run->data,
	};
	*wr = (struct pmv_wr){
		.kind = PMV_WR_READ, .context = run, .flags = FI_COMPLETION, .rma = &room->msg};
}

ssize_t pmv_batch_read(struct pmv_run *run, uint64_t addr, size_t len, uint64_t core_key)
{
	struct pmv_wr wr;
	struct room room;

	fill_own(run, &wr, &room, addr, len, core_key);
	return pmv_engine_post_one(pmv_run_initiator(run)->engine, &wr);
}

/* count_receive -- no more than one request of a batch uses up a receive of the peer's */
static void count_receive(struct batch *batch, size_t at, unsigned slow)
{
	batch->counted = pmv_ordering_send_begin(batch->ini, slow);
	batch->counted_at = at;
}

/*
 * fill_immediate -- at the run's place.  Where the agent was asked that is the flush page,
 * which nobody may write: at the peer's block, then.
 */
static void fill_immediate(struct batch *batch, size_t at)
{
	const struct pmv_handshake *peer = &batch->ini->mailbox->link.peer;
	struct pmv_run *run = batch->run;
	struct pmv_wr *wr = &batch->wrs[at];

	count_receive(batch, at, PMV_SLOW_IMMEDIATES);
	fill_own(run, wr, &batch->room[at], run->request ? peer->addr : run->place_addr, 0,
		 run->request ? peer->key : pmv_initiator_core_key(run->place_key));
	wr->kind = PMV_WR_WRITE;
	wr->flags |= FI_REMOTE_CQ_DATA | pmv_engine_fence(batch->ini->engine->engine);
	if (!*wr->rma->desc)
		wr->rma->desc = NULL;
}

static void fill_data(struct batch *batch, const struct pmv_step *step, size_t at)
{
	const struct pmv_submission *submission = batch->submission;
	/* analyse -Wanalyzer-null-dereference, clang-analyzer-core.NullDereference: only the plan
	 * of a submission has the step DATA. */
	bool message = submission->what & FI_MSG;
	struct pmv_initiator *ini = batch->ini;
	struct pmv_wr *wr = &batch->wrs[at];

	pmv_ordering_begin(ini, &batch->noted, batch->group_at);
	if (step->fence)
		batch->fence = pmv_ordering_take_fence(ini);
	*wr = submission->wr;
	wr->context = batch->run;
	wr->flags = FI_COMPLETION | (submission->flags & FI_INJECT) |
		    (message ? submission->flags & FI_REMOTE_CQ_DATA : 0) |
		    (step->immediate ? FI_REMOTE_CQ_DATA : 0) | batch->fence;
	if ((submission->what & FI_READ) && !pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE))
		pmv_run_set_fetches(batch->run, true);
	if (message || step->immediate)
		count_receive(batch, at, message ? PMV_SLOW_SENDS : PMV_SLOW_IMMEDIATES);
}

static void fill(struct batch *batch, const struct pmv_step *step, size_t at)
{
	struct pmv_run *run = batch->run;

	if (step->kind == PMV_STEP_DATA) {
		fill_data(batch, step, at);
		return;
	}
	if (step->kind == PMV_STEP_IMMEDIATE) {
		fill_immediate(batch, at);
		return;
	}
	/* It counts as a READ under way: a fence, that of DATA behind it too, waits for it. */
	if (step->kind == PMV_STEP_FLUSH_BEFORE || (batch->took_ordered && at == batch->flush))
		pmv_ordering_read(batch->ini);
	fill_own(run, &batch->wrs[at], &batch->room[at], run->place_addr, 1,
		 pmv_initiator_core_key(run->place_key));
}

/* end_data -- flushed: the READ behind it was posted, too */
static void end_data(struct batch *batch, const struct pmv_step *step, bool posted, bool flushed)
{
	struct pmv_initiator *ini = batch->ini;

	pmv_ordering_end(ini, &batch->noted, batch->group_at, posted, flushed);
	if (!posted) {
		pmv_ordering_return_fence(ini, batch->fence);
		pmv_run_set_fetches(batch->run, false);
		return;
	}
	if (batch->submission->what & FI_ATOMIC)
		pmv_ordering_read(ini);
	if (step->fence)
		atomic_fetch_and(&ini->slow, ~PMV_SLOW_FENCE_NEXT);
}

/*
 * take_ordered -- a flush makes durable what only a flush does, so the flag is taken before
 * it is posted.  held: the caller has the ordering lock, which comes before all other locks
 * here.
 */
static void take_ordered(struct batch *batch, bool held)
{
	struct pmv_ordering *ordering = &batch->ini->ordering;

	if (!held && !atomic_load(&ordering->wrote_ordered))
		return;
	if (!held)
		pthread_mutex_lock(&ordering->lock);
	batch->locked = !held;
	batch->took_ordered = atomic_exchange(&ordering->wrote_ordered, false);
}

/* find -- how many of the steps go together, and which are what */
static size_t find(struct batch *batch, const struct pmv_step *steps, size_t most)
{
	size_t count = 0;

	for (; count < most && steps[count].kind <= PMV_STEP_IMMEDIATE; count++) {
		if (steps[count].kind == PMV_STEP_DATA)
			batch->data = count;
		else if (steps[count].kind != PMV_STEP_IMMEDIATE && batch->flush == NONE)
			batch->flush = count;
	}
	return count;
}

/* is_flushed -- was a flush posted behind this one? */
static bool is_flushed(const struct pmv_step *steps, size_t at, size_t posted)
{
	return at + 1 < posted && steps[at + 1].kind == PMV_STEP_FLUSH;
}

static void end_batch(struct batch *batch, const struct pmv_step *steps, size_t posted)
{
	size_t data = batch->data, sent = batch->counted_at;
	struct pmv_ordering *ordering = &batch->ini->ordering;

	if (batch->took_ordered && batch->flush >= posted)
		atomic_store(&ordering->wrote_ordered, true);
	pmv_ordering_send_end(batch->ini, batch->counted, sent < posted,
			      is_flushed(steps, sent, posted));
	if (data != NONE)
		end_data(batch, &steps[data], data < posted, is_flushed(steps, data, posted));
	if (batch->locked)
		pthread_mutex_unlock(&ordering->lock);
}

ssize_t pmv_batch_post(struct pmv_run *run, const struct pmv_submission *submission, unsigned notes,
		       bool held)
{
	const struct pmv_step *steps = run->plan.steps + run->at;
	bool injected = submission && submission->wr.inject;
	struct batch batch;
	size_t count, posted;
	ssize_t ret;

	/* Not all of it: most of the room is never used. */
	batch.ini = pmv_run_initiator(run);
	batch.run = run;
	batch.submission = submission;
	batch.group_at = submission && pmv_run_is_grouped(run) ? submission->to : NULL;
	batch.noted = (struct pmv_noted){.notes = notes};
	batch.locked = batch.took_ordered = batch.counted = false;
	batch.counted_at = 0;
	batch.data = batch.flush = NONE;
	batch.fence = 0;
	count = find(&batch, steps, run->plan.count - run->at);
	if (batch.flush != NONE)
		take_ordered(&batch, held);
	for (size_t i = 0; i < count; i++)
		fill(&batch, &steps[i], i);
	/* What is injected has no completion. */
	pmv_run_posting(run, (int) (count - injected));
	ret = pmv_engine_post(batch.ini->engine, batch.wrs, count, &posted);
	if (posted < count)
		pmv_run_posting(run, -(int) (count - posted - (injected && batch.data >= posted)));
	end_batch(&batch, steps, posted);
	run->at += (unsigned int) posted;
	return ret;
}
