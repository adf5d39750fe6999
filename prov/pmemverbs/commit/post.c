/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c -- what goes to the core; post.h says in which lists */
#include "commit/post.h"

#include "commit/ordering.h"
#include "engine/length.h"

/* What a work request of our own points to. */
struct room {
	struct fi_msg_rma msg;
	struct iovec iov;
	struct fi_rma_iov to;
};

/* The application's operation, on its way to the core. */
struct data {
	struct pmv_initiator *ini;
	const struct pmv_submission *submission;
	uint64_t fence;
	bool locked;
	struct pmv_recorded recorded[PMV_MAX_RMA];
	/* The core's message, with the core's keys. */
	union {
		struct fi_msg_rma rma;
		struct fi_msg msg;
		struct {
			struct pmv_atomic atomic;
			struct fi_msg_atomic atomic_msg;
		};
	};
	union {
		struct fi_rma_iov to[PMV_MAX_RMA];
		struct fi_rma_ioc to_ioc[PMV_MAX_RMA];
	};
	struct iovec nothing;
};

/* Making the core's message of the application's */

static inline void translate_rma(struct data *data, void *context)
{
	const struct pmv_submission *submission = data->submission;
	const struct fi_msg_rma *msg = submission->rma;
	struct pmv_engine *engine = data->ini->engine->engine;

	for (size_t i = 0; i < submission->num_to; i++) {
		data->to[i].addr = submission->to[i].addr;
		data->to[i].len = submission->to[i].len;
		data->to[i].key = pmv_initiator_core_key(submission->to[i].key);
	}
	data->rma = (struct fi_msg_rma){
		.msg_iov = msg->msg_iov,
		.desc = msg->desc,
		.iov_count = msg->iov_count,
		.addr = msg->addr,
		.rma_iov = data->to,
		.rma_iov_count = submission->num_to,
		.context = context,
		.data = msg->data,
	};
	/* verbs can't post a request without any local buffer. */
	if (!msg->iov_count && (submission->what & FI_WRITE)) {
		data->nothing = (struct iovec){.iov_base = engine->scratch};
		data->rma.msg_iov = &data->nothing;
		data->rma.desc = engine->scratch_desc ? &engine->scratch_desc : NULL;
		data->rma.iov_count = 1;
	}
}

static void translate_atomic(struct data *data)
{
	const struct pmv_atomic *op = data->submission->atomic;

	data->atomic = *op;
	data->atomic_msg = *op->msg;
	for (size_t i = 0; i < op->msg->rma_iov_count; i++) {
		data->to_ioc[i] = op->msg->rma_iov[i];
		data->to_ioc[i].key = pmv_initiator_core_key(op->msg->rma_iov[i].key);
	}
	data->atomic_msg.rma_iov = data->to_ioc;
	data->atomic.msg = &data->atomic_msg;
}

static inline void translate(struct data *data, void *context, uint64_t flags, bool inject,
			     struct pmv_wr *wr)
{
	const struct pmv_submission *submission = data->submission;

	wr->context = context;
	wr->flags = flags;
	wr->inject = inject;
	if (submission->what & FI_RMA) {
		translate_rma(data, context);
		wr->kind = submission->what & FI_READ ? PMV_WR_READ : PMV_WR_WRITE;
		wr->rma = &data->rma;
	} else if (submission->what & FI_MSG) {
		data->msg = *submission->msg;
		wr->kind = submission->what & FI_RECV ? PMV_WR_RECV : PMV_WR_SEND;
		wr->msg = &data->msg;
	} else {
		translate_atomic(data);
		wr->kind = PMV_WR_ATOMIC;
		wr->atomic = &data->atomic;
	}
}

/* begin_data, end_data -- around posting it: what it writes is remembered */
static inline void begin_data(struct data *data, bool own_request)
{
	const struct pmv_submission *submission = data->submission;
	bool writes = submission->what & (FI_WRITE | FI_ATOMIC);

	for (size_t i = 0; writes && i < submission->num_to; i++) {
		data->recorded[i].notes = pmv_ordering_note_key(data->ini, submission->to[i].key);
		data->recorded[i].own_request = own_request;
		pmv_ordering_begin(data->ini, &data->recorded[i], &submission->to[i], data->locked);
	}
}

/* uses_receive -- what counts the receives of the peer's that it uses up, or 0 */
static inline unsigned uses_receive(const struct pmv_submission *submission, bool immediate)
{
	if (submission->what & FI_SEND)
		return PMV_SLOW_SENDS;
	return (submission->what & FI_RMA) && immediate ? PMV_SLOW_IMMEDIATES : 0;
}

/* sent_data -- right after it was posted, or not: before the ordering lock is given back */
static inline void sent_data(struct data *data, bool fenced, bool posted)
{
	uint64_t what = data->submission->what;
	struct pmv_initiator *ini = data->ini;

	if (!posted) {
		pmv_ordering_return_fence(ini, data->fence);
		return;
	}
	if (what & (FI_READ | FI_ATOMIC))
		pmv_ordering_read(ini);
	/* The core does not fence reads: the next request carries the fence. */
	if ((what & FI_READ) && !(what & FI_ATOMIC)) {
		if (data->fence)
			atomic_fetch_or(&ini->slow, PMV_SLOW_FENCE_NEXT);
	} else if (fenced) {
		atomic_fetch_and(&ini->slow, ~PMV_SLOW_FENCE_NEXT);
	}
}

static inline void end_data(struct data *data, bool posted, bool flushed)
{
	const struct pmv_submission *submission = data->submission;
	bool writes = submission->what & (FI_WRITE | FI_ATOMIC);

	for (size_t i = 0; writes && i < submission->num_to; i++)
		pmv_ordering_end(data->ini, &data->recorded[i], &submission->to[i], data->locked,
				 posted, flushed);
}

/* Requests without a run */

/* post_alone -- the caller knows whether it is fenced, and of what kind it is */
__attribute__((always_inline)) static inline ssize_t post_alone(
	struct pmv_initiator *ini, const struct pmv_submission *submission, bool fenced,
	bool message)
{
	unsigned slow = uses_receive(submission, submission->flags & FI_REMOTE_CQ_DATA);
	struct data data;
	struct pmv_wr wr;
	bool counted;
	ssize_t ret;

	data.ini = ini;
	data.submission = submission;
	data.locked = false;
	if (!message)
		begin_data(&data, false);
	if (fenced)
		pthread_mutex_lock(&ini->ordering.lock);
	data.fence = fenced ? pmv_ordering_take_fence(ini) : 0;
	counted = slow && pmv_ordering_send_begin(ini, slow);
	if (message)
		wr = (struct pmv_wr){
			.kind = submission->what & FI_RECV ? PMV_WR_RECV : PMV_WR_SEND,
			.inject = submission->no_completion,
			.context = submission->context,
			.flags = (submission->flags & ~FI_FENCE) | data.fence,
			.msg = (struct fi_msg *) submission->msg, /* has the context */
		};
	else
		translate(&data, submission->context, (submission->flags & ~FI_FENCE) | data.fence,
			  submission->no_completion, &wr);
	ret = pmv_engine_post_one(ini->engine, &wr);
	pmv_ordering_send_end(ini, counted, !ret, false);
	if (fenced || !message)
		sent_data(&data, fenced, !ret);
	if (fenced)
		pthread_mutex_unlock(&ini->ordering.lock);
	if (!message)
		end_data(&data, !ret, false);
	return ret;
}

ssize_t pmv_post_alone(struct pmv_initiator *ini, const struct pmv_submission *submission,
		       bool fenced)
{
	if (fenced)
		return post_alone(ini, submission, true, false);
	return submission->what & FI_MSG ? post_alone(ini, submission, false, true)
					 : post_alone(ini, submission, false, false);
}

/* Steps */

#define NONE SIZE_MAX

struct batch {
	struct pmv_initiator *ini;
	struct pmv_run *run;
	const struct pmv_step *steps;
	size_t count;
	size_t at_data;    /* the index of DATA, or NONE */
	size_t at_flush;   /* that of the first flush, or NONE */
	bool took_ordered; /* it has taken the flag: ordering.wrote_ordered */
	bool counted;      /* a receive of the peer's is used up ... */
	size_t counted_at; /* ... by this one; no more than one of a batch does so */
	struct data data;  /* of DATA */
	struct pmv_wr wrs[PMV_MAX_STEPS];
	struct room room[PMV_MAX_STEPS];
};

/* fill_own -- a request of our own; at this end is the scratch page */
static inline void fill_own(struct pmv_run *run, struct pmv_wr *wr, struct room *room,
			    uint64_t addr, size_t len, uint64_t core_key)
{
	struct pmv_engine *engine = pmv_run_initiator(run)->engine->engine;

	room->iov.iov_base = engine->scratch;
	room->iov.iov_len = len;
	room->to.addr = addr;
	room->to.len = len;
	room->to.key = core_key;
	room->msg = (struct fi_msg_rma){
		.msg_iov = &room->iov,
		.desc = &engine->scratch_desc,
		.iov_count = 1,
		.rma_iov = &room->to,
		.rma_iov_count = 1,
		.context = run,
	};
	*wr = (struct pmv_wr){
		.kind = PMV_WR_READ, .context = run, .flags = FI_COMPLETION, .rma = &room->msg};
}

ssize_t pmv_post_read(struct pmv_run *run, uint64_t addr, size_t len, uint64_t core_key)
{
	struct pmv_wr wr;
	struct room room;

	fill_own(run, &wr, &room, addr, len, core_key);
	return pmv_engine_post_one(pmv_run_initiator(run)->engine, &wr);
}

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
	struct room *room = &batch->room[at];

	count_receive(batch, at, PMV_SLOW_IMMEDIATES);
	fill_own(run, &batch->wrs[at], room, run->request ? peer->addr : run->place_addr, 0,
		 run->request ? peer->key : pmv_initiator_core_key(run->place_key));
	batch->wrs[at].kind = PMV_WR_WRITE;
	batch->wrs[at].flags |= FI_REMOTE_CQ_DATA | pmv_engine_fence(batch->ini->engine->engine);
	room->msg.data = run->immediate;
	if (!*room->msg.desc)
		room->msg.desc = NULL;
}

/* data_flags -- as the core is to have them; what does not commit keeps its own */
static inline uint64_t data_flags(const struct batch *batch, const struct pmv_step *step)
{
	const struct pmv_submission *submission = batch->data.submission;
	uint64_t kept = FI_INJECT;

	if (batch->run->op.single)
		kept = ~FI_FENCE;
	else if (submission->what & FI_MSG)
		kept |= FI_REMOTE_CQ_DATA;
	return (submission->flags & kept) | (step->immediate ? FI_REMOTE_CQ_DATA : 0) |
	       FI_COMPLETION | batch->data.fence;
}

static inline void fill_data(struct batch *batch, size_t at)
{
	const struct pmv_submission *submission = batch->data.submission;
	const struct pmv_step *step = &batch->steps[at];
	struct pmv_initiator *ini = batch->ini;
	uint64_t flags;
	unsigned slow;

	batch->data.fence = step->fence ? pmv_ordering_take_fence(ini) : 0;
	flags = data_flags(batch, step);
	translate(&batch->data, batch->run, flags, submission->inject, &batch->wrs[at]);
	if ((submission->what & FI_READ) && !pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE))
		pmv_run_set_fetches(batch->run, true);
	slow = uses_receive(submission, flags & FI_REMOTE_CQ_DATA);
	if (slow)
		count_receive(batch, at, slow);
}

static inline void fill(struct batch *batch, size_t at)
{
	const struct pmv_step *step = &batch->steps[at];
	struct pmv_run *run = batch->run;

	if (step->kind == PMV_STEP_DATA) {
		fill_data(batch, at);
		return;
	}
	if (step->kind == PMV_STEP_IMMEDIATE) {
		fill_immediate(batch, at);
		return;
	}
	/* It counts as a READ under way: a fence, that of DATA behind it too, waits for it. */
	if (step->kind == PMV_STEP_FLUSH_BEFORE || (batch->took_ordered && at == batch->at_flush))
		pmv_ordering_read(batch->ini);
	fill_own(run, &batch->wrs[at], &batch->room[at], run->place_addr, 1,
		 pmv_initiator_core_key(run->place_key));
}

/* find -- how many of the steps go together, and which are what */
static inline void find(struct batch *batch, size_t most)
{
	size_t count = 0;

	batch->at_data = batch->at_flush = NONE;
	for (; count < most && batch->steps[count].kind <= PMV_STEP_IMMEDIATE; count++) {
		if (batch->steps[count].kind == PMV_STEP_DATA)
			batch->at_data = count;
		else if (batch->steps[count].kind != PMV_STEP_IMMEDIATE && batch->at_flush == NONE)
			batch->at_flush = count;
	}
	batch->count = count;
}

/*
 * take_ordered -- a flush makes durable what only a flush does, so the flag is taken before it is
 * posted, under the ordering lock.  True: the caller gives that back.
 */
static inline bool take_ordered(struct batch *batch, bool fenced)
{
	struct pmv_ordering *ordering = &batch->ini->ordering;
	bool locks = !fenced && batch->at_flush != NONE && atomic_load(&ordering->wrote_ordered);

	batch->took_ordered = false;
	if (batch->at_flush == NONE || (!fenced && !locks))
		return false;
	if (locks)
		pthread_mutex_lock(&ordering->lock);
	batch->took_ordered = atomic_exchange(&ordering->wrote_ordered, false);
	return locks;
}

/*
 * hand_over -- the filled requests, to the core; returns how many it has taken.  Each holds one of
 * op.pending, from before it is posted.  The last one of a plan has the run's own.
 */
static inline size_t hand_over(struct batch *batch, bool is_last, ssize_t *ret)
{
	size_t added = batch->count - is_last, left;
	struct pmv_run *run = batch->run;
	struct pmv_posted posted;

	if (added)
		pmv_run_posting(run, added);
	*ret = pmv_engine_post(batch->ini->engine, batch->wrs, batch->count, &posted);
	if (is_last && posted.requests == batch->count)
		added++;
	left = added - posted.entries;
	if (left)
		pmv_run_not_posting(run, left);
	return posted.requests;
}

/* end_batch -- the run may be gone.  fenced: DATA was; flushed: a flush was posted behind DATA */
static inline void end_batch(struct batch *batch, size_t posted, bool fenced, bool flushed,
			     bool unlocks)
{
	struct pmv_ordering *ordering = &batch->ini->ordering;
	bool sent = batch->at_data < posted;

	if (batch->took_ordered && batch->at_flush >= posted)
		atomic_store(&ordering->wrote_ordered, true);
	pmv_ordering_send_end(batch->ini, batch->counted, batch->counted_at < posted,
			      flushed && batch->counted_at == batch->at_data);
	if (batch->at_data != NONE) {
		sent_data(&batch->data, fenced, sent);
		if (!sent)
			pmv_run_set_fetches(batch->run, false);
	}
	if (unlocks)
		pthread_mutex_unlock(&ordering->lock);
	if (batch->at_data != NONE)
		end_data(&batch->data, sent, flushed);
}

/*
 * is_bare -- is it the whole of an ordinary one-sided commit, of which nothing has to be
 * remembered? post_bare makes the two requests that post_any would make, without looking for what
 * there is not: 180 instructions less (tools/count-instructions commit).
 */
static inline bool is_bare(struct pmv_initiator *ini, const struct pmv_run *run,
			   enum pmv_post_locks locks)
{
	const struct pmv_submission *submission = run->submission;

	return run->bare && !run->at && locks == PMV_POST_UNLOCKED && submission->rma->iov_count &&
	       pmv_ordering_is_quiet(ini, submission->to->key) &&
	       !atomic_load(&ini->ordering.wrote_ordered);
}

static inline size_t post_bare(struct batch *batch, ssize_t *ret)
{
	struct pmv_run *run = batch->run;

	translate_rma(&batch->data, run);
	batch->wrs[0] = (struct pmv_wr){.kind = PMV_WR_WRITE,
					.context = run,
					.flags = FI_COMPLETION,
					.rma = &batch->data.rma};
	fill_own(run, &batch->wrs[1], &batch->room[1], run->place_addr, 1,
		 pmv_key_core(run->place_key));
	batch->count = 2;
	return hand_over(batch, true, ret);
}

static ssize_t post_any(struct batch *batch, enum pmv_post_locks locks, bool *done)
{
	struct pmv_run *run = batch->run;
	bool is_last, unlocks, fenced = false, flushed = false;
	size_t posted;
	ssize_t ret;

	batch->steps = run->plan.steps + run->at;
	batch->counted = false;
	batch->counted_at = 0;
	find(batch, run->plan.count - run->at);
	batch->data.locked = locks != PMV_POST_UNLOCKED;
	if (batch->at_data != NONE)
		begin_data(&batch->data, run->request && run->commits);
	unlocks = take_ordered(batch, locks == PMV_POST_FENCED);
	for (size_t i = 0; i < batch->count; i++)
		fill(batch, i);
	if (batch->at_data != NONE) {
		fenced = batch->steps[batch->at_data].fence;
		flushed = batch->at_data + 1 < batch->count &&
			  batch->steps[batch->at_data + 1].kind == PMV_STEP_FLUSH;
	}
	/* What is kept is needed until this is through. */
	is_last = run->at + batch->count == run->plan.count && !run->kept;
	posted = hand_over(batch, is_last, &ret);
	*done = is_last && posted == batch->count;
	if (!*done)
		run->at += (unsigned int) posted;
	end_batch(batch, posted, fenced, flushed && batch->at_data + 1 < posted, unlocks);
	return ret;
}

ssize_t pmv_post_steps(struct pmv_run *run, enum pmv_post_locks locks, bool *done)
{
	struct batch batch;
	size_t posted;
	ssize_t ret;

	/* Not all of it: most of the room is never used. */
	batch.ini = pmv_run_initiator(run);
	batch.run = run;
	batch.data.ini = batch.ini;
	batch.data.submission = run->submission;
	if (!is_bare(batch.ini, run, locks))
		return post_any(&batch, locks, done);
	posted = post_bare(&batch, &ret);
	*done = posted == batch.count;
	if (!*done)
		run->at = (unsigned int) posted;
	return ret;
}
