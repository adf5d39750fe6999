/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c -- what goes to the core; post.h says when */
#include "commit/post.h"

#include "base/inline.h"
#include "commit/ordering.h"
#include "engine/length.h"

/*
 * The application's operation, on its way to the core.  All that handles one is inlined: where
 * `what` and `num_to` are constants, most of it is gone.
 */
struct data {
	struct pmv_initiator *ini;
	const struct pmv_submission *submission;
	uint64_t what; /* the submission's */
	size_t num_to;
	struct pmv_recorded *recorded; /* of its places */
	uint64_t fence;                /* the flag that it has taken, or 0 */
	bool locked;                   /* the caller holds the initiator's lock */
	bool posted;
	bool flushed; /* a flush was posted behind it */
	bool ordered; /* it is a message that only a flush makes durable */
};

/* The application's message, with the core's keys and the context, to the core */

PMV_ALWAYS_INLINE ssize_t post_rma(const struct data *data, void *context, uint64_t flags,
				   bool inject)
{
	const struct pmv_submission *submission = data->submission;
	const struct pmv_engine_ep *ep = data->ini->engine;
	struct fi_msg_rma msg = *submission->rma;
	struct fi_rma_iov to[PMV_MAX_RMA];
	struct iovec nothing;

	for (size_t i = 0; i < data->num_to; i++) {
		to[i].addr = submission->to[i].addr;
		to[i].len = submission->to[i].len;
		to[i].key = pmv_initiator_core_key(submission->to[i].key);
	}
	msg.rma_iov = to;
	msg.context = context;
	if (data->what & FI_READ)
		return ep->ops->read(ep, &msg, flags);
	/* verbs can't post a request without any local buffer. */
	if (!msg.iov_count) {
		nothing = (struct iovec){.iov_base = ep->engine->scratch};
		msg.msg_iov = &nothing;
		msg.desc = ep->engine->scratch_desc ? &ep->engine->scratch_desc : NULL;
		msg.iov_count = 1;
	}
	return inject ? ep->ops->inject_write(ep, &msg, flags) : ep->ops->write(ep, &msg, flags);
}

PMV_ALWAYS_INLINE ssize_t post_msg(const struct data *data, void *context, uint64_t flags,
				   bool inject)
{
	const struct fi_msg *msg = data->submission->msg;
	const struct pmv_engine_ep *ep = data->ini->engine;
	struct fi_msg copy;

	if (msg->context != context) {
		copy = *msg;
		copy.context = context;
		msg = &copy;
	}
	if (data->what & FI_RECV)
		return ep->ops->recv(ep, msg, flags);
	return inject ? ep->ops->inject_send(ep, msg, flags) : ep->ops->send(ep, msg, flags);
}

static ssize_t post_atomic(const struct pmv_engine_ep *ep, const struct pmv_atomic *atomic,
			   void *context, uint64_t flags, bool inject)
{
	struct fi_msg_atomic msg = *atomic->msg;
	struct fi_rma_ioc to[PMV_MAX_RMA];
	struct pmv_atomic op = *atomic;

	for (size_t i = 0; i < msg.rma_iov_count; i++) {
		to[i] = msg.rma_iov[i];
		to[i].key = pmv_initiator_core_key(to[i].key);
	}
	msg.rma_iov = to;
	msg.context = context;
	op.msg = &msg;
	return inject ? ep->ops->inject_atomic(ep, &op) : ep->ops->atomic(ep, &op, flags);
}

PMV_ALWAYS_INLINE ssize_t post(const struct data *data, void *context, uint64_t flags, bool inject)
{
	if (data->what & FI_RMA)
		return post_rma(data, context, flags, inject);
	if (data->what & FI_MSG)
		return post_msg(data, context, flags, inject);
	return post_atomic(data->ini->engine, data->submission->atomic, context, flags, inject);
}

/* What is remembered around that */

/* begin, end -- own_request: it tells the agent itself */
PMV_ALWAYS_INLINE void begin(struct data *data, bool own_request)
{
	const struct pmv_submission *submission = data->submission;
	bool writes = data->what & (FI_WRITE | FI_ATOMIC);

	data->posted = data->flushed = false;
	for (size_t i = 0; writes && i < data->num_to; i++) {
		struct pmv_recorded *recorded = &data->recorded[i];

		recorded->notes = pmv_ordering_note_key(data->ini, submission->to[i].key);
		recorded->own_request = own_request;
		pmv_ordering_begin(data->ini, recorded, &submission->to[i], data->locked);
	}
	data->ordered =
		(data->what & FI_SEND) && !pmv_initiator_is_fast(data->ini, PMV_SLOW_ORDERED_SENDS);
	if (data->ordered)
		pmv_ordering_begin_message(data->ini);
}

PMV_ALWAYS_INLINE void end(const struct data *data)
{
	bool writes = data->what & (FI_WRITE | FI_ATOMIC);

	for (size_t i = 0; writes && i < data->num_to; i++)
		pmv_ordering_end(data->ini, &data->recorded[i], &data->submission->to[i],
				 data->locked, data->posted, data->flushed);
	if (data->ordered)
		pmv_ordering_end_message(data->ini, data->posted, data->flushed);
}

/* begin_receive -- true: one of the peer's receives is used up, and that is counted */
PMV_ALWAYS_INLINE bool begin_receive(const struct data *data, uint64_t flags)
{
	if (data->what & FI_SEND)
		return pmv_ordering_begin_receive(data->ini, PMV_SLOW_SENDS);
	return (data->what & FI_RMA) && (flags & FI_REMOTE_CQ_DATA) &&
	       pmv_ordering_begin_receive(data->ini, PMV_SLOW_IMMEDIATES);
}

/* note_fence -- right after it was posted, or not: before the ordering lock is given back */
PMV_ALWAYS_INLINE void note_fence(const struct data *data, bool fenced)
{
	struct pmv_initiator *ini = data->ini;

	if (!data->posted) {
		pmv_ordering_return_fence(ini, data->fence);
		return;
	}
	if (data->what & (FI_READ | FI_ATOMIC))
		pmv_ordering_read(ini);
	/* The core does not fence reads: the next request carries the fence. */
	if ((data->what & FI_READ) && !(data->what & FI_ATOMIC)) {
		if (data->fence)
			atomic_fetch_or(&ini->slow, PMV_SLOW_FENCE_NEXT);
	} else if (fenced) {
		atomic_fetch_and(&ini->slow, ~PMV_SLOW_FENCE_NEXT);
	}
}

/* Requests without a run */

PMV_ALWAYS_INLINE ssize_t post_alone(struct pmv_initiator *ini,
				     const struct pmv_submission *submission, uint64_t what,
				     size_t num_to, bool fenced)
{
	struct pmv_recorded recorded[PMV_MAX_RMA];
	struct data data = {
		.ini = ini,
		.submission = submission,
		.what = what,
		.num_to = num_to,
		.recorded = recorded,
	};
	uint64_t flags;
	bool counted;
	ssize_t ret;

	begin(&data, false);
	if (fenced)
		pthread_mutex_lock(&ini->ordering.lock);
	data.fence = fenced ? pmv_ordering_take_fence(ini) : 0;
	flags = (submission->flags & ~FI_FENCE) | data.fence |
		(what & FI_RECV ? 0 : ini->tx_always);
	counted = begin_receive(&data, flags);
	ret = post(&data, submission->context, flags, submission->no_completion);
	data.posted = !ret;
	if (counted)
		pmv_ordering_end_receive(ini, !ret);
	note_fence(&data, fenced);
	if (fenced)
		pthread_mutex_unlock(&ini->ordering.lock);
	end(&data);
	return ret && !(what & FI_RECV) ? pmv_initiator_lack_room(ini, ret) : ret;
}

ssize_t pmv_post_alone(struct pmv_initiator *ini, const struct pmv_submission *submission,
		       bool fenced)
{
	return post_alone(ini, submission, submission->what, submission->num_to, fenced);
}

ssize_t pmv_post_write(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	return post_alone(ini, submission, FI_RMA | FI_WRITE, 1, false);
}

ssize_t pmv_post_send(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	return post_alone(ini, submission, FI_MSG | FI_SEND, 0, false);
}

/* Requests of our own: at this end is the scratch page */

struct own {
	struct fi_msg_rma msg;
	struct fi_rma_iov to;
};

static inline void fill_own(struct own *own, struct pmv_engine *engine, struct pmv_run *run,
			    const struct iovec *iov, uint64_t addr, size_t len, uint64_t core_key)
{
	own->to.addr = addr;
	own->to.len = len;
	own->to.key = core_key;
	own->msg = (struct fi_msg_rma){
		.msg_iov = iov,
		.desc = &engine->scratch_desc,
		.iov_count = 1,
		.rma_iov = &own->to,
		.rma_iov_count = 1,
		.context = run,
	};
}

/* read_byte -- a flush */
static inline ssize_t read_byte(const struct pmv_engine_ep *ep, struct pmv_run *run, uint64_t addr,
				uint64_t core_key)
{
	struct own own;

	fill_own(&own, ep->engine, run, &ep->engine->scratch_byte, addr, 1, core_key);
	return ep->ops->read(ep, &own.msg, FI_COMPLETION);
}

ssize_t pmv_post_read(struct pmv_run *run, uint64_t addr, size_t len, uint64_t core_key)
{
	const struct pmv_engine_ep *ep = pmv_run_initiator(run)->engine;
	const struct iovec iov = {.iov_base = ep->engine->scratch, .iov_len = len};
	struct own own;

	fill_own(&own, ep->engine, run, &iov, addr, len, core_key);
	return ep->ops->read(ep, &own.msg, FI_COMPLETION);
}

/* Steps.  Behind the last one the run may be gone, as soon as it was posted. */

/* data_flags -- as the core is to have them; what does not commit keeps its own */
static inline uint64_t data_flags(const struct pmv_run *run, const struct pmv_step *step,
				  uint64_t fence)
{
	const struct pmv_submission *submission = run->submission;
	uint64_t kept = FI_INJECT;

	if (run->op.told.single)
		kept = ~FI_FENCE;
	else if (submission->what & FI_MSG)
		kept |= FI_REMOTE_CQ_DATA;
	return (submission->flags & kept) | (step->immediate ? FI_REMOTE_CQ_DATA : 0) |
	       (step->delivered ? FI_DELIVERY_COMPLETE : 0) | (step->more ? FI_MORE : 0) |
	       FI_COMPLETION | fence;
}

PMV_ALWAYS_INLINE ssize_t post_data(struct pmv_run *run, const struct pmv_step *step,
				    struct data *data)
{
	const struct pmv_submission *submission = data->submission;
	struct pmv_initiator *ini = data->ini;
	bool fenced = step->fence, counted;
	uint64_t flags;
	ssize_t ret;

	begin(data, run->request && run->commits);
	data->fence = fenced ? pmv_ordering_take_fence(ini) : 0;
	flags = data_flags(run, step, data->fence);
	if ((data->what & FI_READ) && !pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE))
		pmv_run_set_fetches(run, true);
	counted = begin_receive(data, flags);
	ret = post(data, run, flags, submission->inject);
	data->posted = !ret;
	if (counted)
		pmv_ordering_end_receive(ini, !ret);
	note_fence(data, fenced);
	if (ret)
		pmv_run_set_fetches(run, false);
	else if (submission->inject)
		pmv_run_not_posting(run, 1);
	return ret;
}

/* take_ordered -- true: it is posted under the ordering lock, which the caller has not taken */
static bool take_ordered(struct pmv_initiator *ini, enum pmv_post_locks locks, bool *took)
{
	if (locks != PMV_POST_FENCED)
		pthread_mutex_lock(&ini->ordering.lock);
	*took = atomic_exchange(&ini->ordering.wrote_ordered, false);
	return locks != PMV_POST_FENCED;
}

/*
 * post_flush -- it makes durable what only a flush does, so the flag is taken before it is posted.
 * Then it counts as a READ under way, as FLUSH_BEFORE does: a fence waits for it.
 */
static inline ssize_t post_flush(struct pmv_run *run, const struct pmv_step *step,
				 enum pmv_post_locks locks)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	bool unlocks = false, took = false;
	ssize_t ret;

	if (atomic_load(&ini->ordering.wrote_ordered))
		unlocks = take_ordered(ini, locks, &took);
	if (took || step->kind == PMV_STEP_FLUSH_BEFORE)
		pmv_ordering_read(ini);
	ret = read_byte(ini->engine, run, run->place_addr, pmv_initiator_core_key(run->place_key));
	if (ret && took)
		atomic_store(&ini->ordering.wrote_ordered, true);
	if (unlocks)
		pthread_mutex_unlock(&ini->ordering.lock);
	return ret;
}

/*
 * post_immediate -- at the run's place.  Where the agent was asked that is the flush page,
 * which nobody may write: at the peer's block, then.
 */
static ssize_t post_immediate(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_handshake *peer = &ini->mailbox->link.peer;
	const struct pmv_engine_ep *ep = ini->engine;
	const struct iovec nothing = {.iov_base = ep->engine->scratch};
	bool counted = pmv_ordering_begin_receive(ini, PMV_SLOW_IMMEDIATES);
	struct own own;
	ssize_t ret;

	fill_own(&own, ep->engine, run, &nothing, run->request ? peer->addr : run->place_addr, 0,
		 run->request ? peer->key : pmv_initiator_core_key(run->place_key));
	own.msg.data = run->immediate;
	if (!*own.msg.desc)
		own.msg.desc = NULL;
	ret = ep->ops->write(ep, &own.msg,
			     FI_COMPLETION | FI_REMOTE_CQ_DATA | pmv_engine_fence(ep->engine));
	if (counted)
		pmv_ordering_end_receive(ini, !ret);
	return ret;
}

static inline ssize_t post_step(struct pmv_run *run, struct data *data, enum pmv_post_locks locks)
{
	const struct pmv_step *step = &run->plan.steps[run->at];
	ssize_t ret;

	if (step->kind == PMV_STEP_DATA)
		return post_data(run, step, data);
	if (step->kind == PMV_STEP_IMMEDIATE)
		return post_immediate(run);
	ret = post_flush(run, step, locks);
	data->flushed = !ret && data->posted;
	return ret;
}

ssize_t pmv_post_any(struct pmv_run *run, enum pmv_post_locks locks)
{
	const struct pmv_submission *submission = run->submission;
	struct pmv_recorded recorded[PMV_MAX_RMA];
	struct data data = {
		.ini = pmv_run_initiator(run),
		.submission = submission,
		.what = submission ? submission->what : 0,
		.num_to = submission ? submission->num_to : 0,
		.recorded = recorded,
		.locked = locks != PMV_POST_UNLOCKED,
	};
	bool last, has_data = false;
	ssize_t ret;

	do {
		has_data |= run->at == run->plan.data;
		/* What is kept is needed until this is through. */
		last = run->at + 1U == run->plan.count && !run->kept;
		/*
		 * Each holds one of op.pending, from before it is posted.  The last one of a plan
		 * has the run's own.
		 */
		if (!last)
			pmv_run_posting(run, 1);
		ret = post_step(run, &data, locks);
		if (ret || last)
			break;
		run->at++;
	} while (run->at < run->plan.count && run->plan.steps[run->at].kind <= PMV_STEP_IMMEDIATE);
	if (ret && !last)
		pmv_run_not_posting(run, 1);
	if (has_data)
		end(&data);
	return !ret && last ? PMV_POSTED_ALL : ret;
}

/* lack_flush -- the WRITE alone was posted: pmv_post_any posts the READ when there is room */
static ssize_t lack_flush(struct pmv_run *run, ssize_t err)
{
	const struct fi_rma_iov *at = run->submission->to;

	run->place_addr = at->addr;
	run->place_key = at->key;
	run->bare = false;
	run->at++;
	return err;
}

/*
 * post_list -- the WRITE and the READ behind it at once.  The WRITE completes only if it fails, and
 * then the READ does, too (quiet_write): the run's own share of op.pending is the READ's.
 */
static ssize_t post_list(struct pmv_run *run, const struct fi_msg_rma *write)
{
	const struct pmv_engine_ep *ep = pmv_run_initiator(run)->engine;
	const struct fi_rma_iov *to = write->rma_iov;
	struct own own;
	ssize_t ret;

	fill_own(&own, ep->engine, run, &ep->engine->scratch_byte, to->addr, 1, to->key);
	atomic_store_explicit(&run->op.quiet_write, true, memory_order_relaxed);
	ret = pmv_engine_write_read(ep, write, &own.msg);
	if (ret == 2)
		return PMV_POSTED_ALL;
	if (ret != 1) {
		atomic_store_explicit(&run->op.quiet_write, false, memory_order_relaxed);
		return ret < 0 ? ret : -FI_EIO;
	}
	return lack_flush(run, -FI_EAGAIN);
}

/*
 * pmv_post_bare -- DATA and perhaps FLUSH are all, and nothing has to be remembered: the requests
 * that pmv_post_any would make, without looking for what there is not
 */
ssize_t pmv_post_bare(struct pmv_run *run)
{
	const struct pmv_submission *submission = run->submission;
	const struct pmv_engine_ep *ep = pmv_run_initiator(run)->engine;
	const struct fi_rma_iov *at = submission->to;
	const struct fi_rma_iov to = {at->addr, at->len, pmv_key_core(at->key)};
	struct fi_msg_rma msg = *submission->rma;
	ssize_t ret;

	msg.rma_iov = &to;
	msg.context = run;
	if (run->plan.steps[0].delivered) {
		ret = ep->ops->write(ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
		return ret ? ret : PMV_POSTED_ALL;
	}
	if (ep->lists)
		return post_list(run, &msg);
	pmv_run_posting(run, 1);
	ret = ep->ops->write(ep, &msg, FI_COMPLETION);
	if (ret) {
		pmv_run_not_posting(run, 1);
		return ret;
	}
	ret = read_byte(ep, run, to.addr, to.key);
	return ret ? lack_flush(run, ret) : PMV_POSTED_ALL;
}

ssize_t pmv_post_gone(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_op_owner *owner = &ini->owner;
	struct pmv_comp *comp;

	if (pmv_initiator_is_fast(ini, PMV_SLOW_HOOKS))
		return -FI_ESHUTDOWN;
	if (submission->no_completion)
		return 0;
	comp = pmv_comp_error(submission->context, submission->what, FI_ECANCELED);
	if (!comp)
		return -FI_ENOMEM;
	pmv_queue_add((submission->what & FI_RECV) ? owner->rx_queue : owner->tx_queue, comp);
	return 0;
}
