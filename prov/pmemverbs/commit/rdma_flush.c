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

/*
 * find_range -- what has to be flushed behind a write there; false: that is the agent's to do.
 * *covers: it spans dirty ranges of the region.  Holds the lock.
 */
static bool find_range(struct pmv_initiator *ini, const struct fi_rma_iov *at,
		       struct pmv_engine_range *range, bool *covers)
{
	struct pmv_range span;
	uint64_t gaps;

	*range = (struct pmv_engine_range){
		.addr = at->addr, .len = at->len, .key = pmv_key_core(at->key)};
	*covers = false;
	if (ini->dirty.lost || atomic_load(&ini->mailbox->sender.unacked))
		return false;
	if (!pmv_dirty_span(&ini->dirty, (uint32_t) range->key, &span, &gaps))
		return true;
	*covers = true;
	gaps += join(range, &span);
	if (range->len > MOST_LEN)
		return false;
	return gaps <= MOST_GAPS || gaps <= range->len - gaps || !ini->mailbox->link.peer.agent;
}

bool pmv_rdma_flush_may_be(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_engine_range range;
	bool covers;

	return ini->flushes && submission->what == (FI_RMA | FI_WRITE) && !submission->inject &&
	       !submission->changed && submission->num_to == 1 && submission->to->len &&
	       submission->to->len <= MOST_LEN && submission->rma->iov_count &&
	       !pmv_submission_notifies(submission) &&
	       !(submission->flags & FI_DELIVERY_COMPLETE) &&
	       find_range(ini, submission->to, &range, &covers);
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

/* post_list -- returns how many were posted, or a negative fi_errno; then the run may be gone */
static ssize_t post_list(struct pmv_run *run, const struct pmv_engine_range *range, bool fenced)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct fi_rma_iov *at = run->submission->to;
	const struct fi_rma_iov to = {at->addr, at->len, pmv_key_core(at->key)};
	uint64_t flags = run->submission->flags & FI_INJECT;
	uint64_t fence = fenced ? pmv_ordering_take_fence(ini) : 0;
	struct fi_msg_rma msg = *run->submission->rma;
	ssize_t ret;

	msg.rma_iov = &to;
	msg.context = run;
	atomic_store_explicit(&run->op.quiet_write, true, memory_order_relaxed);
	ret = pmv_engine_write_flush(ini->engine, &msg, flags | fence, range);
	if (ret != 1 && ret != 2) {
		atomic_store_explicit(&run->op.quiet_write, false, memory_order_relaxed);
		pmv_ordering_return_fence(ini, fence);
		return ret < 0 ? ret : -FI_EIO;
	}
	if (fenced)
		atomic_fetch_and(&ini->slow, ~PMV_SLOW_FENCE_NEXT);
	return ret;
}

ssize_t pmv_rdma_flush_post(struct pmv_run *run, bool locked)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct fi_rma_iov *at = run->submission->to;
	struct pmv_engine_range range = {at->addr, at->len, pmv_key_core(at->key)};
	bool covers = false;
	ssize_t ret;

	if (locked)
		find_range(ini, at, &range, &covers);
	if (covers)
		take(ini, range.key);
	ret = post_list(run, &range, run->plan.steps[0].fence);
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
