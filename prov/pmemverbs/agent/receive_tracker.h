/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * receive_tracker.h -- where the messages of a connection were received
 *
 * Messages use up an endpoint's receives in the order in which they were posted.  So the number of
 * messages that a peer has sent says which buffers contain them.  Nobody has to look at
 * completions.  Receives are numbered from 0.  The tracker keeps those parts of their buffers that
 * are in persistent memory.
 *
 * A receive may be cancelled.  No message uses it up then.  But nobody knows which receive it was,
 * or whether the call came too late.  So after d calls message n (from 0) may be in any of the
 * receives n to n + d.  All of these are made durable, and the d newest ones are not forgotten.
 *
 * An application may promise that it receives in memory of one kind only.  That is checked.  The
 * peer is told, and needs no agent for messages if writes to such memory need none.
 *
 * Memory is bounded.  The oldest receives that do not fit are joined into ranges, as in dirty.h.
 * A range is made durable as a whole, until messages have used up all receives in all ranges.
 */
#ifndef PMV_RECEIVE_TRACKER_H
#define PMV_RECEIVE_TRACKER_H

#include "agent/writeback.h"
#include "memory/dirty.h"

/* A part of the buffer of one receive. */
struct pmv_received_part {
	uint64_t number; /* of the receive */
	uintptr_t start;
	uint64_t len;
	uint32_t id; /* see pmv_span */
};

struct pmv_receive_tracker {
	atomic_bool on; /* a peer may commit messages that are received here */
	pthread_mutex_t lock;
	uint64_t posted;
	uint64_t served; /* this many messages were made durable */
	uint64_t cancelled;
	bool lost;     /* the places of some messages, for want of memory */
	bool one_kind; /* all are in memory of this kind: */
	struct pmv_attr kind;
	/* A ring, or NULL: count of them from head on, in the order of their numbers. */
	struct pmv_received_part *ring;
	size_t size; /* a power of two */
	size_t head;
	size_t count;
	/* Receives that did not fit, and the number behind the last one of them. */
	struct pmv_dirty old;
	unsigned int old_pieces;
	uint64_t old_end;
};

/* pmv_receive_tracker_init -- depth: of the receive queue; on: it is used */
void pmv_receive_tracker_init(struct pmv_receive_tracker *receives, size_t depth, bool on);
void pmv_receive_tracker_destroy(struct pmv_receive_tracker *receives);

/* pmv_receive_tracker_fit -- are all of these buffers in memory of the one kind? */
bool pmv_receive_tracker_fit(const struct pmv_receive_tracker *receives,
			     struct pmv_regions *regions, const struct iovec *iov, size_t count);

/* pmv_receive_tracker_add -- the one that was just posted; holds the lock */
void pmv_receive_tracker_add(struct pmv_receive_tracker *receives, struct pmv_regions *regions,
			     const struct iovec *iov, size_t count);

/*
 * pmv_receive_tracker_serve -- the peer commits its first `messages` messages.  Name every part
 * that may contain one of them, if it was not named before.
 *
 * PMV_FAULT_MESSAGE: nothing was named.  The number is too high, or lower than before, or the peer
 * was never told that it may commit messages.
 * PMV_FAULT_ACCESS: a part is no longer persistent memory.
 * PMV_FAULT_MEMORY: there was no memory to keep the places of messages.
 */
enum pmv_fault pmv_receive_tracker_serve(struct pmv_receive_tracker *receives,
					 struct pmv_regions *regions, uint64_t messages,
					 struct pmv_work *work);

#endif /* PMV_RECEIVE_TRACKER_H */
