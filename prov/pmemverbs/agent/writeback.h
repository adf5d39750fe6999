/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writeback.h -- what requests name is written back: a slice of each at a time
 *
 * A batch is what is worked on in one round: requests of many connections, in the
 * order in which each connection sent them.  What they name is joined first, so that
 * no byte is flushed twice for one request.  Then every connection gets a slice of
 * the round; a request that needs more remembers how far it has come.  One drain
 * ends the round, and one sync for all pages of a region that lie together: many
 * small commits cost little more than one.
 *
 * No region is held from one slice to the next, so whoever closes one waits for a
 * slice at the most.  A region is found again by its key and its serial number:
 * another one that has got the same key since is not what the request was about.
 */
#ifndef PMV_WRITEBACK_H
#define PMV_WRITEBACK_H

#include "agent/region.h"
#include "agent/wire.h"

struct pmv_mailbox;

/* So much of each connection is flushed in one round: bytes of cache lines, ... */
#define PMV_LINE_SLICE ((uint64_t) 256 << 10)
/* ... and of pages, and of what lies between those that one sync writes. */
#define PMV_PAGE_SLICE ((uint64_t) 64 << 20)
/* What a sync costs, however little it writes, in bytes of that slice. */
#define PMV_SYNC_COST ((uint64_t) 4 << 20)

#define PMV_BATCH_WORKS 64
#define PMV_BATCH_SYNCS 64

/* A part of a region that is to become durable. */
struct pmv_stretch {
	uint32_t key;
	enum pmv_persist persist;
	uint64_t serial;
	uint64_t offset;
	uint64_t len;
};

enum pmv_work_state {
	PMV_WORK_WAITS, /* for its turn */
	PMV_WORK_BEGUN,
	PMV_WORK_DONE,
};

/* One request on its way from the mailbox to its acknowledgement. */
struct pmv_work {
	struct pmv_mailbox *mailbox; /* under the agent's lock; NULL: its endpoint is closed */
	const void *source;          /* the same, only ever compared */
	uint64_t number;
	uint64_t data;
	uint64_t faulted; /* the last request of the connection with a fault, before this one */
	uint32_t seen;
	bool notify;
	bool store;
	bool messages;
	bool malformed;
	enum pmv_fault fault;
	enum pmv_work_state state;
	/* What is to become durable, and how far that has come. */
	struct pmv_stretch *more; /* malloc'ed, where there are too many for ... */
	struct pmv_stretch named[PMV_MAX_RANGES];
	size_t count;
	size_t room; /* of more */
	size_t at;
	uint64_t done;  /* bytes of that one */
	uint64_t syncs; /* bit per sync of the batch that has pages of it */
	/* Behind all that: data to store there. */
	struct pmv_stretch target;
	size_t payload; /* in copy */
	uint8_t copy[PMV_MESSAGE_SIZE];
};

/* Pages of a region that one sync writes. */
struct pmv_sync {
	uint32_t key;
	uint64_t serial;
	uint64_t start;
	uint64_t end;
};

struct pmv_batch {
	struct pmv_work works[PMV_BATCH_WORKS];
	unsigned int count;
	unsigned int num_syncs;
	bool undrained;
	bool touch; /* pages that a device wrote */
	struct pmv_sync syncs[PMV_BATCH_SYNCS];
};

/* pmv_work_begin -- nothing is named yet */
void pmv_work_begin(struct pmv_work *work, struct pmv_mailbox *mailbox, uint64_t number);
void pmv_work_free(struct pmv_work *work);

/*
 * pmv_work_name -- a part of a region, which the caller holds.  False: no memory
 * for it.
 */
bool pmv_work_name(struct pmv_work *work, struct pmv_region *region, uint64_t offset, uint64_t len);

/* pmv_work_join -- all is named: what overlaps or adjoins becomes one */
void pmv_work_join(struct pmv_work *work);

/*
 * pmv_batch_carry_out -- a slice of each connection; what was flushed of it is
 * durable when this returns, or its request has a fault
 */
void pmv_batch_carry_out(struct pmv_batch *batch, struct pmv_regions *regions);

#endif /* PMV_WRITEBACK_H */
