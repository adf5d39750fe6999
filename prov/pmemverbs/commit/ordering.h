/* SPDX-License-Identifier: BSD-2-Clause */
/* ordering.h -- what is remembered of writes, for the commits and fences after them */
#ifndef PMV_ORDERING_H
#define PMV_ORDERING_H

#include "commit/initiator.h"

/* What has to be remembered of an operation: see struct pmv_ordering. */
enum pmv_note {
	PMV_NOTE_EVENT = 1 << 0, /* the target's application is to be told of it */
	PMV_NOTE_AGENT = 1 << 1, /* the agent is to be told of it, at the latest by a fence */
	PMV_NOTE_FLUSH = 1 << 2,
	PMV_NOTE_ORDERED = 1 << 3,
	PMV_NOTE_UNORDERED = 1 << 4,
	PMV_NOTE_UNREADABLE = 1 << 5,
};

/* pmv_ordering_attr -- what a key says, with what is known here of the path; false: nothing */
bool pmv_ordering_attr(const struct pmv_initiator *ini, uint64_t key, struct pmv_attr *attr);

/* pmv_ordering_note -- what has to be remembered of a write there: enum pmv_note, or 0 */
unsigned pmv_ordering_note(const struct pmv_initiator *ini, const struct pmv_attr *attr);
unsigned pmv_ordering_note_new_key(struct pmv_initiator *ini, uint64_t key);

/* pmv_ordering_note_key -- the same by key, of which only the high half matters */
static inline unsigned pmv_ordering_note_key(struct pmv_initiator *ini, uint64_t key)
{
	uint64_t noted = atomic_load_explicit(&ini->ordering.noted, memory_order_relaxed);

	return noted >> 32 == key >> 32 ? (uint32_t) noted : pmv_ordering_note_new_key(ini, key);
}

/* pmv_ordering_dirty -- the agent is to be told of this range; holds the initiator's lock */
void pmv_ordering_dirty(struct pmv_initiator *ini, unsigned notes, const struct fi_rma_iov *at);

/* An operation that is being posted */
struct pmv_noted {
	unsigned notes; /* enum pmv_note */
	unsigned takes; /* the count when its range was noted, if it was: */
	bool dirty;
};

/*
 * pmv_ordering_begin, pmv_ordering_end -- around posting an operation with these notes.
 * at: where it writes, if it does not commit: the agent may have to be told of that.  flushed:
 * a flush was posted with it.  pmv_ordering_begin_write: the same, and finds out the notes.
 */
void pmv_ordering_begin(struct pmv_initiator *ini, struct pmv_noted *noted,
			const struct fi_rma_iov *at);
struct pmv_noted pmv_ordering_begin_write(struct pmv_initiator *ini, const struct fi_rma_iov *at);
void pmv_ordering_end(struct pmv_initiator *ini, const struct pmv_noted *noted,
		      const struct fi_rma_iov *at, bool posted, bool flushed);

/*
 * pmv_ordering_begin_writes, pmv_ordering_end_writes -- around posting an operation that writes to
 * several places and does not commit: noted has room for each
 */
void pmv_ordering_begin_writes(struct pmv_initiator *ini, const struct fi_rma_iov *to, size_t count,
			       struct pmv_noted *noted);
void pmv_ordering_end_writes(struct pmv_initiator *ini, const struct fi_rma_iov *to, size_t count,
			     const struct pmv_noted *noted, bool posted);

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

/* pmv_ordering_past -- what a fenced operation has to wait for */
struct pmv_past pmv_ordering_past(struct pmv_initiator *ini, bool message);

/*
 * pmv_ordering_set_place, pmv_ordering_place -- a place in the region that can be read.
 * quiet: a write to this region need not be remembered, now and later.
 */
void pmv_ordering_set_place(struct pmv_initiator *ini, uint64_t key, uint64_t addr, bool quiet);
uint64_t pmv_ordering_place(struct pmv_initiator *ini, uint64_t key, uint64_t addr);

/* pmv_ordering_is_quiet -- is it the last key, and is there nothing to do but to write? */
static inline bool pmv_ordering_is_quiet(const struct pmv_initiator *ini, uint64_t key)
{
	return key && atomic_load_explicit(&ini->ordering.quiet_key, memory_order_relaxed) == key;
}

/* pmv_ordering_set_ordered -- where a flush was posted behind it a fence waits for that */
static inline void pmv_ordering_set_ordered(struct pmv_ordering *ordering, bool flushed)
{
	atomic_store(flushed ? &ordering->fence_due : &ordering->wrote_ordered, true);
}

/*
 * pmv_ordering_send_begin -- around posting what uses up one of the peer's receives, if that
 * is of interest (slow: PMV_SLOW_SENDS, PMV_SLOW_IMMEDIATES or 0)
 * pmv_ordering_send_end -- counted: what the former returned; flushed: a flush was posted behind
 */
static inline bool pmv_ordering_send_begin(struct pmv_initiator *ini, unsigned slow)
{
	if (pmv_initiator_is_fast(ini, slow))
		return false;
	pthread_mutex_lock(&ini->send_lock);
	if (ini->message_method != PMV_METHOD_AGENT)
		atomic_fetch_add(&ini->ordering.posting_ordered, 1);
	return true;
}

static inline void pmv_ordering_send_end(struct pmv_initiator *ini, bool counted, bool posted,
					 bool flushed)
{
	if (!counted)
		return;
	if (ini->message_method != PMV_METHOD_AGENT) {
		if (posted)
			pmv_ordering_set_ordered(&ini->ordering, flushed);
		atomic_fetch_sub(&ini->ordering.posting_ordered, 1);
	} else if (posted) {
		atomic_fetch_add(&ini->sends, 1);
	}
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
