/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * receive_tracker.h -- where the messages of a connection were received
 *
 * Messages use up an endpoint's receives in the order in which these were
 * posted.  So a peer that says how many messages it has sent says which buffers
 * hold them; nobody has to look at completions.  Receives are numbered from 0,
 * under the lock under which they are posted, and those parts of their buffers
 * are kept that lie in persistent memory.
 *
 * A receive that was cancelled is used up by no message.  Nobody can tell which
 * one that was, nor whether it came too late: with d of them message n (from 0)
 * may have used up any of the receives n to n + d.  So d more are made durable
 * than are forgotten.
 *
 * An application may promise that all receives are in memory of one kind, which the
 * peer is then told of, so that it has no need of an agent where writes to such
 * memory have none.  It is not taken at its word.
 *
 * Memory is bounded: what does not fit is joined into ranges, as in dirty.h, which
 * are made durable as a whole until messages have used up all receives in there.
 */
#ifndef PMV_RECEIVE_TRACKER_H
#define PMV_RECEIVE_TRACKER_H

#include "agent/region.h"
#include "agent/wire.h"
#include "memory/dirty.h"

/* A part of the buffer of one receive. */
struct pmv_extent {
	uint64_t number; /* of the receive */
	uintptr_t start;
	uint64_t len;
	uint32_t id; /* see pmv_span */
};

struct pmv_receive_tracker {
	atomic_bool on; /* a peer may commit messages that are received here */
	pthread_mutex_t lock;
	uint64_t posted;
	uint64_t served; /* as many messages were made durable, once */
	uint64_t cancelled;
	bool one_kind; /* all are in memory of this kind: */
	struct pmv_attr kind;
	/* A ring: count of them from head on, in the order of their numbers. */
	struct pmv_extent *ring;
	size_t size; /* a power of two */
	size_t max_size;
	size_t head;
	size_t count;
	/* What fitted no more, and the number behind the last receive of them. */
	struct pmv_dirty old;
	unsigned int old_pieces;
	uint64_t old_end;
};

/* pmv_receive_tracker_init -- depth: of the receive queue; on: it is used */
void pmv_receive_tracker_init(struct pmv_receive_tracker *receives, size_t depth, bool on);
void pmv_receive_tracker_destroy(struct pmv_receive_tracker *receives);

/*
 * pmv_receive_tracker_fit -- are these buffers in memory of the one kind, all of them?  The
 * regions are of one domain, so that they differ in what persists and nothing else.
 */
bool pmv_receive_tracker_fit(const struct pmv_receive_tracker *receives,
			     struct pmv_regions *regions, const struct iovec *iov, size_t count);

/* pmv_receive_tracker_add -- the one that was just posted; holds the lock */
void pmv_receive_tracker_add(struct pmv_receive_tracker *receives, struct pmv_regions *regions,
			     const struct iovec *iov, size_t count);

/* Takes over a part, and the reference to its region. */
typedef void (*pmv_span_fn)(void *arg, const struct pmv_span *part);

/*
 * pmv_receive_tracker_serve -- hand over all that may hold one of the peer's first
 * `messages` messages and was not handed over for good
 *
 * PMV_FAULT_MESSAGE: there can't be so many, or were more already; nothing was
 * handed over.  PMV_FAULT_ACCESS: some of it is persistent memory no longer.
 * PMV_FAULT_MEMORY: it could not be kept where they are.
 */
enum pmv_fault pmv_receive_tracker_serve(struct pmv_receive_tracker *receives,
					 struct pmv_regions *regions, uint64_t messages,
					 pmv_span_fn take, void *arg);

#endif /* PMV_RECEIVE_TRACKER_H */
