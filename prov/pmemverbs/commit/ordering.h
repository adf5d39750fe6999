/* SPDX-License-Identifier: BSD-2-Clause */
/* ordering.h -- what is remembered of writes, for the commits and fences after them */
#ifndef PMV_ORDERING_H
#define PMV_ORDERING_H

#include "commit/initiator.h"

/* What has to be remembered of an operation, and what is known besides: struct pmv_ordering. */
enum pmv_note {
	PMV_NOTE_EVENT = 1 << 0, /* the target's application is to be told of it */
	PMV_NOTE_AGENT = 1 << 1, /* the agent is to be told of it, at the latest by a fence */
	PMV_NOTE_FLUSH = 1 << 2,
	PMV_NOTE_ORDERED = 1 << 3,
	PMV_NOTE_UNORDERED = 1 << 4,
	PMV_NOTE_UNREADABLE = 1 << 5,
	PMV_NOTES = (1 << 6) - 1,
	/* What is known besides: the key is of another life than the peer's. */
	PMV_NOTE_MISFIT = 1 << 6,
	/* ... the core says when such a commit is in place, and that is the proof */
	PMV_NOTE_DELIVERED = 1 << 7,
	/* ... it was registered for commits, so the agent knows it and can store data there */
	PMV_NOTE_PMEM = 1 << 8,
	/* An unfenced commit there has the plan of this method, or 0. */
	PMV_NOTE_METHOD = 1 << 9, /* times enum pmv_method */
};

/* pmv_ordering_attr -- what a key says, with what is known here of the path; false: nothing */
bool pmv_ordering_attr(const struct pmv_initiator *ini, uint64_t key, struct pmv_attr *attr);

/* pmv_ordering_check_keys -- 0; -FI_EKEYREJECTED, after a warning: one is of another life */
ssize_t pmv_ordering_check_keys(const struct pmv_initiator *ini, const struct fi_rma_iov *to,
				size_t count);

/* pmv_ordering_note -- what has to be remembered of a write there: enum pmv_note, or 0 */
unsigned pmv_ordering_note(const struct pmv_initiator *ini, const struct pmv_attr *attr);
unsigned pmv_ordering_learn_key(struct pmv_initiator *ini, uint64_t key);

/* pmv_ordering_known -- the same by key, of which only the high half matters; and the method */
static inline unsigned pmv_ordering_known(struct pmv_initiator *ini, uint64_t key)
{
	uint64_t known = atomic_load_explicit(&ini->ordering.known, memory_order_relaxed);

	return known >> 32 == key >> 32 ? (uint32_t) known : pmv_ordering_learn_key(ini, key);
}

static inline unsigned pmv_ordering_note_key(struct pmv_initiator *ini, uint64_t key)
{
	return pmv_ordering_known(ini, key) & PMV_NOTES;
}

/* pmv_ordering_dirty -- the agent is to be told of this range; holds the initiator's lock */
void pmv_ordering_dirty(struct pmv_initiator *ini, unsigned notes, const struct fi_rma_iov *at);

/*
 * pmv_ordering_take_dirty -- the ranges of a region, or of all, that are to be made durable now;
 * how many.  While writes are being posted, ranges stay dirty: one of these writes may be posted
 * behind what makes its range durable, and complete before its call returns.  Holds the initiator's
 * lock.
 */
unsigned int pmv_ordering_take_dirty(struct pmv_initiator *ini, uint32_t key, bool all,
				     struct pmv_range *ranges);

/* A place at the target that an operation writes to, while it is being posted. */
struct pmv_recorded {
	unsigned notes;       /* enum pmv_note */
	bool own_request;     /* the operation's own request tells the agent of it */
	bool dirty;           /* its range was recorded ... */
	unsigned dirty_epoch; /* ... in this epoch */
};

/* pmv_ordering_read -- a READ or an atomic was posted */
static inline void pmv_ordering_read(struct pmv_initiator *ini)
{
	atomic_store(&ini->ordering.fence_due, true);
}

/*
 * pmv_ordering_take_fence -- the flag that a fenced request is posted with; holds ordering.lock
 * pmv_ordering_return_fence -- it was not posted
 */
uint64_t pmv_ordering_take_fence(struct pmv_initiator *ini);
void pmv_ordering_return_fence(struct pmv_initiator *ini, uint64_t flags);

/*
 * pmv_ordering_fence_due -- the flag that a request to the agent is posted with.  Another thread
 * may have taken the fence, for a request that it is about to post: so this holds ordering.lock
 */
static inline uint64_t pmv_ordering_fence_due(const struct pmv_initiator *ini)
{
	return atomic_load(&ini->ordering.fence_due) ? pmv_engine_fence(ini->engine->engine) : 0;
}

/* pmv_ordering_past -- what a fenced operation has to wait for */
struct pmv_past pmv_ordering_past(struct pmv_initiator *ini, bool message);

/* pmv_ordering_is_quiet -- is it the last key, and is there nothing to do but to write? */
static inline bool pmv_ordering_is_quiet(const struct pmv_initiator *ini, uint64_t key)
{
	return key && atomic_load_explicit(&ini->ordering.quiet_key, memory_order_relaxed) == key;
}

/*
 * pmv_ordering_set_place, pmv_ordering_place -- a place in the region that can be read.
 * quiet: a write to this region need not be remembered, now and later.
 */
void pmv_ordering_change_place(struct pmv_initiator *ini, uint64_t key, uint64_t addr, bool quiet);
uint64_t pmv_ordering_place(struct pmv_initiator *ini, uint64_t key, uint64_t addr);

static inline void pmv_ordering_set_place(struct pmv_initiator *ini, uint64_t key, uint64_t addr,
					  bool quiet)
{
	if (atomic_load_explicit(&ini->ordering.place_key, memory_order_relaxed) != key ||
	    (quiet && !pmv_ordering_is_quiet(ini, key)))
		pmv_ordering_change_place(ini, key, addr, quiet);
}

/*
 * pmv_ordering_begin, pmv_ordering_end -- around posting an operation that writes to a place with
 * these notes.  locked: the caller holds the initiator's lock.  flushed: a flush was posted with
 * it.
 */
void pmv_ordering_begin_recording(struct pmv_initiator *ini, struct pmv_recorded *recorded,
				  const struct fi_rma_iov *at, bool locked);
void pmv_ordering_end_recording(struct pmv_initiator *ini, const struct pmv_recorded *recorded,
				const struct fi_rma_iov *at, bool locked, bool posted,
				bool flushed);

static inline void pmv_ordering_begin(struct pmv_initiator *ini, struct pmv_recorded *recorded,
				      const struct fi_rma_iov *at, bool locked)
{
	if (recorded->notes)
		pmv_ordering_begin_recording(ini, recorded, at, locked);
}

static inline void pmv_ordering_end(struct pmv_initiator *ini, const struct pmv_recorded *recorded,
				    const struct fi_rma_iov *at, bool locked, bool posted,
				    bool flushed)
{
	if (recorded->notes || !pmv_ordering_is_quiet(ini, at->key))
		pmv_ordering_end_recording(ini, recorded, at, locked, posted, flushed);
}

/* pmv_ordering_set_ordered -- where a flush was posted behind it a fence waits for that */
static inline void pmv_ordering_set_ordered(struct pmv_ordering *ordering, bool flushed)
{
	atomic_store(flushed ? &ordering->fence_due : &ordering->wrote_ordered, true);
}

/* pmv_ordering_begin_message, pmv_ordering_end_message -- around posting a message that only a
 * flush makes durable: the same as for a write */
static inline void pmv_ordering_begin_message(struct pmv_initiator *ini)
{
	atomic_fetch_add(&ini->ordering.posting_ordered, 1);
}

static inline void pmv_ordering_end_message(struct pmv_initiator *ini, bool posted, bool flushed)
{
	if (posted)
		pmv_ordering_set_ordered(&ini->ordering, flushed);
	atomic_fetch_sub(&ini->ordering.posting_ordered, 1);
}

/*
 * pmv_ordering_begin_receive -- around posting what uses up one of the peer's receives, if they
 * are counted (slow: PMV_SLOW_SENDS or PMV_SLOW_IMMEDIATES)
 * pmv_ordering_end_receive -- if the former returned true
 */
static inline bool pmv_ordering_begin_receive(struct pmv_initiator *ini, unsigned slow)
{
	if (pmv_initiator_is_fast(ini, slow))
		return false;
	pthread_mutex_lock(&ini->send_lock);
	return true;
}

static inline void pmv_ordering_end_receive(struct pmv_initiator *ini, bool posted)
{
	if (posted)
		atomic_fetch_add(&ini->sends, 1);
	pthread_mutex_unlock(&ini->send_lock);
}

/* pmv_ordering_tracker -- of the peer, with hooks; NULL: the write is not the application's */
struct pmv_lost_writes *pmv_ordering_tracker(struct pmv_initiator *ini,
					     const struct fi_rma_iov *to);

/* pmv_ordering_lost_write -- a write may get lost; no_completion: nobody is told of its error
 * either */
void pmv_ordering_lost_write(struct pmv_initiator *ini, const struct fi_rma_iov *to, size_t count,
			     bool no_completion);

#endif /* PMV_ORDERING_H */
