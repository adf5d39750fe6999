/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ordering.h -- what is remembered of writes, for the commits and fences after them
 *
 * What earlier operations mean for a later fence is kept in four flags of the
 * endpoint:
 *   wrote_agent    data that the agent has to be told of: see dirty.h
 *   wrote_flush    data whose completion proves nothing (never taken)
 *   wrote_ordered  data that the next flush READ makes durable, and only that
 *   fence_due      a READ or atomic may be under way that a fence must wait for
 * A flag is set after the operation was posted that it speaks of.  Until then the
 * operation is counted (posting_*), as another thread may have seen it completed
 * and post a commit meanwhile; and dirty ranges are noted before and after it, as
 * another thread may have taken them meanwhile.  A flag that is taken is taken,
 * and the operation posted that makes it moot, under order_lock, which every
 * fenced operation holds from looking at the flags until it is posted: no thread
 * sees a flag gone before what replaces it is in the send queue.  A flag left
 * standing needlessly costs a flush.
 *
 * The flush of a commit to MHP memory sets none of them: data there persists in
 * the order in which it arrives, and nothing has to wait for the READ.
 */
#ifndef PMV_NOTE_H
#define PMV_NOTE_H

#include "objects/ep.h"

/* pmv_attr_of -- what a key says, with what is known here of the path; false: nothing */
bool pmv_attr_of(const struct pmv_ep *ep, uint64_t key, struct pmv_attr *attr);

/* pmv_is_for_agent -- does only the agent make writes there durable? */
bool pmv_is_for_agent(const struct pmv_ep *ep, uint64_t key);

/*
 * pmv_note_begin, pmv_note_end -- remember a write, from before it is posted until
 * after it was or was not; with no lock held
 */
void pmv_note_begin(struct pmv_ep *ep, uint64_t key, uint64_t addr, size_t len);
void pmv_note_end(struct pmv_ep *ep, uint64_t key, uint64_t addr, size_t len, bool posted);
void pmv_note_read(struct pmv_ep *ep);

/*
 * pmv_note_commit -- of a commit's operation, with change 1 before and -1 after it; the
 * letter sees to what is dirty.
 * pmv_note_changed -- that for the letter: what is dirty there now, all that is written
 * or so many bytes; holds the endpoint's lock
 */
void pmv_note_commit(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov, size_t count, bool posted,
		     int change);
void pmv_note_changed(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov, size_t changed);

/*
 * The mark: one address that lies inside the region of the key that was used
 * last.  A commit without data has none of its own that is sure to; the flush
 * may read anywhere.
 */
void pmv_mark_set(struct pmv_ep *ep, uint64_t key, uint64_t addr);
uint64_t pmv_mark_or(struct pmv_ep *ep, uint64_t key, uint64_t addr);

/*
 * pmv_note_peer -- the tracker for the peer that an endpoint of the RDM layer writes to;
 * NULL: the write is not the application's, but part of a message
 */
struct pmv_lost_writes *pmv_note_peer(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov);

/*
 * pmv_note_for_peer -- track a write that does not commit, in case FI_EP_RDM loses the
 * connection; silent: nobody hears even of its error
 */
void pmv_note_lost_writes(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov, size_t count,
			  bool silent);

static inline void pmv_note_for_peer(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov,
				     size_t count, bool silent)
{
	if (ep->domain->hooks && count)
		pmv_note_lost_writes(ep, rma_iov, count, silent);
}

/* pmv_note_probe -- true: the write only finds out which endpoint is the peer's: see hooks.h */
bool pmv_note_probe(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov);

#endif /* PMV_NOTE_H */
