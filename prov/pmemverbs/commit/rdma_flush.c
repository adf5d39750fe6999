/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_flush.c -- commits by RDMA FLUSH; rdma_flush.h has the argument */
#include "commit/rdma_flush.h"

#include <rdma/fi_errno.h>

#include "commit/ordering.h"
#include "commit/post.h"

/* So much may be flushed needlessly, or as much as was written. */
#define MOST_GAPS 4096

/*
 * The longest range.  Soft-RoCE keeps 32 bits of a length, and in Linux 6.2 a sign among them: of a
 * region of 4 GiB it flushes nothing, and says that it did.  So none is flushed whole.
 */
#define MOST_LEN INT32_MAX

/* join -- the range, so that it spans the other one, too; returns how much of it is in neither */
static uint64_t join(struct pmv_engine_range *range, const struct pmv_range *other)
{
	uint64_t end = range->addr + range->len, other_end = other->addr + other->len;
	uint64_t gap = 0;

	if (other->addr > end)
		gap = other->addr - end;
	if (range->addr > other_end)
		gap = range->addr - other_end;
	if (other->addr < range->addr)
		range->addr = other->addr;
	range->len = (other_end > end ? other_end : end) - range->addr;
	return gap;
}

/* is_told -- it knows of all that is not durable.  Broken: not of what requests took in vain. */
static bool is_told(const struct pmv_initiator *ini)
{
	return !ini->dirty.lost && !atomic_load(&ini->broken) &&
	       !atomic_load(&ini->mailbox->sender.unacked);
}

/* is_worth -- may such a range be flushed, and is that not rather the agent's to do? */
static bool is_worth(const struct pmv_initiator *ini, uint64_t len, uint64_t gaps)
{
	return len <= MOST_LEN &&
	       (gaps <= MOST_GAPS || gaps <= len - gaps || !ini->mailbox->link.peer.agent);
}

static struct pmv_engine_range range_of(const struct fi_rma_iov *at)
{
	return (struct pmv_engine_range){
		.addr = at->addr, .len = at->len, .key = pmv_key_core(at->key)};
}

/*
 * find_range -- what has to be flushed behind a write there; false: that is the agent's to do.
 * *covers: it spans dirty ranges of the region.  Holds the lock.
 */
static bool find_range(struct pmv_initiator *ini, const struct fi_rma_iov *at,
		       struct pmv_engine_range *range, bool *covers)
{
	struct pmv_range span;
	uint64_t gaps;

	*range = range_of(at);
	*covers = false;
	if (!is_told(ini))
		return false;
	if (!pmv_dirty_span(&ini->dirty, (uint32_t) range->key, &span, &gaps))
		return true;
	*covers = true;
	gaps += join(range, &span);
	return is_worth(ini, range->len, gaps);
}

/*
 * find_before -- the same of what has to be flushed in front of an ATOMIC WRITE there: all that is
 * dirty, wherever it is
 */
static bool find_before(struct pmv_initiator *ini, const struct fi_rma_iov *at,
			struct pmv_engine_range *range, bool *covers)
{
	uint32_t key = (uint32_t) pmv_key_core(at->key);
	struct pmv_range span;
	uint64_t gaps;

	*covers = pmv_dirty_span(&ini->dirty, key, &span, &gaps);
	if (!is_told(ini) || pmv_dirty_count(&ini->dirty, key, false) != ini->dirty.ranges)
		return false;
	if (!*covers)
		return true;
	*range = (struct pmv_engine_range){.addr = span.addr, .len = span.len, .key = key};
	return is_worth(ini, span.len, gaps);
}

/* is_alone -- a write to one place, and nothing besides */
static bool is_alone(const struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	return ini->flushes && submission->what == (FI_RMA | FI_WRITE) && !submission->inject &&
	       !submission->changed && submission->num_to == 1 && submission->to->len &&
	       submission->to->len <= MOST_LEN && submission->rma->iov_count &&
	       !pmv_submission_notifies(submission) && !(submission->flags & FI_DELIVERY_COMPLETE);
}

bool pmv_rdma_flush_may_be(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_engine_range range;
	bool covers;

	return is_alone(ini, submission) && find_range(ini, submission->to, &range, &covers);
}

bool pmv_rdma_flush_may_be_tail(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	const struct fi_rma_iov *at = submission->to;
	struct pmv_attr attr;

	return (submission->flags & FI_FENCE) && is_alone(ini, submission) &&
	       at->len == sizeof(uint64_t) && at->addr % sizeof(uint64_t) == 0 &&
	       submission->rma->iov_count == 1 &&
	       submission->rma->msg_iov->iov_len == sizeof(uint64_t) &&
	       pmv_ordering_attr(ini, at->key, &attr) && attr.atomic_write && !attr.events &&
	       pmv_method_may_flush(&attr);
}

bool pmv_rdma_flush_covers_all(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_engine_range range;
	bool covers;

	return find_before(ini, submission->to, &range, &covers);
}

bool pmv_rdma_flush_meets_tail(struct pmv_initiator *ini, const struct fi_rma_iov *to)
{
	const struct pmv_range *tail = &ini->tail;

	return atomic_load(&ini->tails) && (!tail->key || (tail->key == pmv_key_core(to->key) &&
							   tail->addr < to->addr + to->len &&
							   to->addr < tail->addr + tail->len));
}

/* note_tail -- before it is posted; returns what is to be put back if it was not */
static struct pmv_range note_tail(struct pmv_run *run, const struct pmv_engine_range *at)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_range before = ini->tail;
	struct pmv_engine_range all = *at;

	if (atomic_fetch_add(&ini->tails, 1)) {
		join(&all, &before);
		if (before.key != all.key)
			all.key = 0;
	}
	ini->tail = (struct pmv_range){.addr = all.addr, .len = all.len, .key = all.key};
	run->tail = true;
	run->op.told.ordinary = false;
	return before;
}

/* take -- it is dirty no longer.  Before the FLUSH is posted: ordering.c relies on that. */
static void take(struct pmv_initiator *ini, uint64_t key)
{
	struct pmv_range ranges[PMV_DIRTY_RANGES];

	atomic_fetch_add(&ini->ordering.dirty_epoch, 1);
	pmv_ordering_take_dirty(ini, (uint32_t) key, false, ranges);
}

/* posted -- only now: who finds nothing dirty without the lock posts behind that FLUSH */
static ssize_t posted(struct pmv_initiator *ini, bool covers)
{
	if (covers)
		atomic_store(&ini->ordering.wrote_agent, ini->dirty.ranges > 0);
	return PMV_POSTED_ALL;
}

/* give_back -- no FLUSH of it was posted */
static void give_back(struct pmv_initiator *ini, const struct pmv_engine_range *range, bool locked)
{
	const struct fi_rma_iov at = {range->addr, range->len, range->key};

	if (!locked)
		pthread_mutex_lock(&ini->lock);
	pmv_ordering_dirty(ini, PMV_NOTE_AGENT, &at);
	if (!locked)
		pthread_mutex_unlock(&ini->lock);
}

/*
 * post_list -- in front of the data before, if it is not NULL, and range behind them.  Returns how
 * many were posted, of a tail 0 for all, or a negative fi_errno; then the run may be gone.
 */
static ssize_t post_list(struct pmv_run *run, bool tail, const struct pmv_engine_range *before,
			 const struct pmv_engine_range *range)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct fi_rma_iov *at = run->submission->to;
	const struct fi_rma_iov to = {at->addr, at->len, pmv_key_core(at->key)};
	atomic_bool *quiet = tail ? &run->op.quiet_list : &run->op.quiet_write;
	bool fenced = run->plan.steps[run->plan.data].fence;
	uint64_t flags = run->submission->flags & FI_INJECT;
	uint64_t fence = fenced ? pmv_ordering_take_fence(ini) : 0;
	struct fi_msg_rma msg = *run->submission->rma;
	ssize_t ret;

	msg.rma_iov = &to;
	msg.context = run;
	atomic_store_explicit(quiet, true, memory_order_relaxed);
	ret = tail ? pmv_engine_tail(ini->engine, before, &msg, flags | fence, range)
		   : pmv_engine_write_flush(ini->engine, &msg, flags | fence, range);
	if (ret < 0) {
		atomic_store_explicit(quiet, false, memory_order_relaxed);
		pmv_ordering_return_fence(ini, fence);
		return ret;
	}
	if (fenced)
		atomic_fetch_and(&ini->slow, ~PMV_SLOW_FENCE_NEXT);
	return ret;
}

static ssize_t post_tail(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct fi_rma_iov *at = run->submission->to;
	const struct pmv_engine_range behind = range_of(at);
	struct pmv_engine_range before = behind;
	struct pmv_range was;
	bool covers;
	ssize_t ret;

	find_before(ini, at, &before, &covers);
	if (covers)
		take(ini, before.key);
	was = note_tail(run, &behind);
	ret = post_list(run, true, covers ? &before : NULL, &behind);
	if (!ret) {
		/* It may have completed already; whoever is refused looks again. */
		atomic_fetch_or(&ini->slow, PMV_SLOW_CLOSED);
		return posted(ini, covers);
	}
	ini->tail = was;
	run->tail = false;
	atomic_fetch_sub(&ini->tails, 1);
	if (covers)
		give_back(ini, &before, true);
	return ret;
}

ssize_t pmv_rdma_flush_post(struct pmv_run *run, bool locked)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct fi_rma_iov *at = run->submission->to;
	struct pmv_engine_range range = range_of(at);
	bool covers = false;
	ssize_t ret;

	if (run->plan.steps[0].kind == PMV_STEP_PERSIST_BEFORE)
		return post_tail(run);
	if (locked)
		find_range(ini, at, &range, &covers);
	if (covers)
		take(ini, range.key);
	ret = post_list(run, false, NULL, &range);
	if (ret == 2)
		return posted(ini, covers);
	if (covers || ret == 1)
		give_back(ini, &range, locked);
	if (ret != 1)
		return ret;
	run->place_addr = range.addr;
	run->place_len = range.len;
	run->place_key = range.key;
	run->bare = false;
	run->at++;
	return -FI_EAGAIN;
}

/* The same range: whoever has been asked for it meanwhile, it spans all that was dirty. */
ssize_t pmv_rdma_flush_post_late(struct pmv_run *run)
{
	const struct pmv_engine_range range = {run->place_addr, run->place_len, run->place_key};
	ssize_t ret = pmv_engine_flush(pmv_run_initiator(run)->engine, &range, run);

	return ret ? ret : PMV_POSTED_ALL;
}
