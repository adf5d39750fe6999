/* SPDX-License-Identifier: BSD-2-Clause */
/* batch.c -- steps that are one work request each, posted together */
#include "commit/batch.h"

#include "commit/ordering.h"

struct batch {
	struct pmv_initiator *ini;
	struct pmv_run *run;
	const struct pmv_submission *submission; /* NULL: DATA is not among them */
	unsigned notes;                          /* of DATA */
	bool locked;                             /* we hold the ordering lock */
	bool took_ordered;                       /* the flag is the FLUSH's */
	bool due;                                /* ... and the next one has to be waited for */
	bool counted;                            /* a receive of the peer's is used up ... */
	size_t counted_at;                       /* ... by this one */
	uint64_t fence;                          /* DATA's */
	size_t count;
	struct pmv_wr wrs[PMV_MAX_STEPS];
	struct pmv_batch_room room[PMV_MAX_STEPS];
};

struct pmv_wr pmv_batch_read(struct pmv_initiator *ini, struct pmv_run *run,
			     struct pmv_batch_room *room, uint64_t addr, size_t len, uint64_t key)
{
	struct pmv_engine *engine = ini->engine->engine;

	room->iov = (struct iovec){.iov_base = engine->scratch, .iov_len = len};
	room->to = (struct fi_rma_iov){.addr = addr, .len = len, .key = key};
	room->msg = (struct fi_msg_rma){
		.msg_iov = &room->iov,
		.desc = &engine->scratch_desc,
		.iov_count = 1,
		.rma_iov = &room->to,
		.rma_iov_count = 1,
		.context = run,
	};
	return (struct pmv_wr){
		.kind = PMV_WR_READ, .context = run, .flags = FI_COMPLETION, .rma = &room->msg};
}

static struct pmv_wr flush_wr(struct batch *batch)
{
	struct pmv_run *run = batch->run;

	return pmv_batch_read(batch->ini, run, &batch->room[batch->count], run->place_addr, 1,
			      pmv_core_key(run->place_key));
}

/* count_receive -- of one batch no more than one request uses up a receive of the peer's */
static void count_receive(struct batch *batch, unsigned slow)
{
	batch->counted = pmv_ordering_send_begin(batch->ini, slow);
	batch->counted_at = batch->count;
}

/* immediate_wr -- where a request was sent the flush page is the run's place: nobody may write it
 */
static struct pmv_wr immediate_wr(struct batch *batch)
{
	struct pmv_engine *engine = batch->ini->engine->engine;
	const struct pmv_handshake *peer = &batch->ini->mailbox->peer;
	struct pmv_batch_room *room = &batch->room[batch->count];
	struct pmv_run *run = batch->run;
	bool asked = run->request != NULL;

	count_receive(batch, PMV_SLOW_IMMEDIATES);
	room->iov = (struct iovec){.iov_base = engine->scratch};
	room->to = (struct fi_rma_iov){
		.addr = asked ? peer->addr : run->place_addr,
		.key = asked ? peer->key : pmv_core_key(run->place_key),
	};
	room->msg = (struct fi_msg_rma){
		.msg_iov = &room->iov,
		.desc = engine->scratch_desc ? &engine->scratch_desc : NULL,
		.iov_count = 1,
		.rma_iov = &room->to,
		.rma_iov_count = 1,
		.context = run,
		.data = run->data,
	};
	return (struct pmv_wr){
		.kind = PMV_WR_WRITE,
		.context = run,
		.flags = FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_FENCE,
		.rma = &room->msg,
	};
}

static struct pmv_wr data_wr(struct batch *batch, const struct pmv_step *step)
{
	const struct pmv_submission *submission = batch->submission;
	bool message = submission->what & FI_MSG;
	struct pmv_initiator *ini = batch->ini;
	struct pmv_run *run = batch->run;
	struct pmv_wr wr = submission->wr;

	if (pmv_run_is_grouped(run))
		batch->notes = pmv_ordering_begin_write(ini, submission->to->key,
							submission->to->addr, submission->to->len);
	else
		pmv_ordering_begin(ini, batch->notes);
	wr.context = run;
	wr.flags = FI_COMPLETION | (submission->flags & FI_INJECT) |
		   (message ? submission->flags & FI_REMOTE_CQ_DATA : 0) |
		   (step->immediate ? FI_REMOTE_CQ_DATA : 0);
	if (step->fence)
		batch->fence = pmv_ordering_take_fence(ini);
	wr.flags |= batch->fence;
	if ((submission->what & FI_READ) &&
	    !pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE)) {
		run->fetches = true;
		atomic_fetch_add(&ini->ordering.reads, 1);
	}
	if (message || step->immediate)
		count_receive(batch, message ? PMV_SLOW_SENDS : PMV_SLOW_IMMEDIATES);
	return wr;
}

/* end_data -- flushed: the READ behind it was posted, too */
static void end_data(struct batch *batch, const struct pmv_step *step, bool posted, bool flushed)
{
	const struct pmv_submission *submission = batch->submission;
	struct pmv_initiator *ini = batch->ini;
	struct pmv_run *run = batch->run;

	if (pmv_run_is_grouped(run))
		pmv_ordering_end_write(ini, batch->notes, submission->to->key, submission->to->addr,
				       submission->to->len, posted);
	else
		pmv_ordering_end(ini, batch->notes, posted, flushed);
	if (!posted) {
		pmv_ordering_return_fence(ini, batch->fence);
		if (run->fetches)
			atomic_fetch_sub(&ini->ordering.reads, 1);
		run->fetches = false;
		return;
	}
	if (submission->what & FI_ATOMIC)
		pmv_ordering_read(ini);
	if (step->fence)
		atomic_fetch_and(&ini->slow, ~PMV_SLOW_FENCE_NEXT);
}

static bool is_flush(const struct pmv_step *step)
{
	return step->kind == PMV_STEP_FLUSH_BEFORE || step->kind == PMV_STEP_FLUSH;
}

static bool is_single(const struct pmv_step *step)
{
	return is_flush(step) || step->kind == PMV_STEP_DATA || step->kind == PMV_STEP_IMMEDIATE;
}

/*
 * take_ordered -- a flush makes durable what only a flush does, so its flag is taken before
 * it is posted.  held: the caller has the ordering lock.
 */
static void take_ordered(struct batch *batch, bool held)
{
	struct pmv_ordering *ordering = &batch->ini->ordering;

	if (!held && !atomic_load(&ordering->wrote_ordered))
		return;
	if (!held && !batch->locked) {
		pthread_mutex_lock(&ordering->lock);
		batch->locked = true;
	}
	batch->took_ordered |= atomic_exchange(&ordering->wrote_ordered, false);
	batch->due = batch->took_ordered;
}

static struct pmv_wr make_wr(struct batch *batch, const struct pmv_step *step)
{
	if (step->kind == PMV_STEP_DATA)
		return data_wr(batch, step);
	if (step->kind == PMV_STEP_IMMEDIATE)
		return immediate_wr(batch);
	/* A fence waits for it instead of posting one; DATA behind it takes that as its fence. */
	if (step->kind == PMV_STEP_FLUSH_BEFORE || batch->due)
		pmv_ordering_read(batch->ini);
	batch->due = false;
	return flush_wr(batch);
}

static void end_batch(struct batch *batch, const struct pmv_step *steps, size_t posted)
{
	struct pmv_ordering *ordering = &batch->ini->ordering;
	size_t at = batch->counted_at;
	bool flushed = false;

	for (size_t i = 0; i < posted; i++)
		flushed |= is_flush(&steps[i]);
	if (batch->took_ordered && !flushed)
		atomic_store(&ordering->wrote_ordered, true);
	pmv_ordering_send_end(batch->ini, batch->counted, at < posted,
			      at + 1 < posted && is_flush(&steps[at + 1]));
	for (size_t i = 0; i < batch->count; i++) {
		if (steps[i].kind == PMV_STEP_DATA)
			end_data(batch, &steps[i], i < posted,
				 i + 1 < posted && is_flush(&steps[i + 1]));
	}
	if (batch->locked)
		pthread_mutex_unlock(&ordering->lock);
}

/* count_completions -- what is injected has none */
static size_t count_completions(const struct batch *batch, size_t from)
{
	size_t completions = 0;

	for (size_t i = from; i < batch->count; i++)
		completions += !batch->wrs[i].inject;
	return completions;
}

ssize_t pmv_batch_post(struct pmv_run *run, const struct pmv_submission *submission, unsigned notes,
		       bool held)
{
	const struct pmv_step *steps = run->plan.steps + run->at;
	size_t most = run->plan.count - run->at, posted;
	struct batch batch;
	ssize_t ret;

	batch.ini = pmv_run_initiator(run);
	batch.run = run;
	batch.submission = submission;
	batch.notes = notes;
	batch.locked = false;
	batch.took_ordered = false;
	batch.due = false;
	batch.counted = false;
	batch.counted_at = 0;
	batch.fence = 0;
	batch.count = 0;
	/* Before any other lock. */
	for (size_t i = 0; i < most && is_single(&steps[i]); i++) {
		if (is_flush(&steps[i]))
			take_ordered(&batch, held);
	}
	for (; batch.count < most && is_single(&steps[batch.count]); batch.count++)
		batch.wrs[batch.count] = make_wr(&batch, &steps[batch.count]);
	pmv_run_posting(run, count_completions(&batch, 0));
	ret = pmv_engine_post(batch.ini->engine, batch.wrs, batch.count, &posted);
	pmv_run_not_posted(run, count_completions(&batch, posted));
	end_batch(&batch, steps, posted);
	run->at += (unsigned int) posted;
	return ret;
}
