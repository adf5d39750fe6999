/* SPDX-License-Identifier: BSD-2-Clause */
/* work.h -- a request that the agent has taken, and the parts of regions that it names */
#ifndef PMV_WORK_H
#define PMV_WORK_H

#include "agent/flush_message.h"
#include "agent/region.h"

struct pmv_large_results;
struct pmv_receiver;

/* A part of a region that is to become durable. */
struct pmv_extent {
	uint32_t key;
	enum pmv_persist persist;
	bool direct; /* memory of a file: direct.h */
	uint64_t serial;
	uint64_t disk; /* disk.h */
	uint64_t offset;
	uint64_t len;
};

/* A request on its way from the mailbox to its acknowledgement. */
struct pmv_work {
	struct pmv_receiver *receiver; /* under the agent's lock; NULL: its endpoint is closed */
	uint64_t source;               /* the mailbox's number, also when that is closed */
	uint64_t faulted; /* the last message with a fault that was concluded before this round */
	size_t room;      /* of more */
	/* 0 when it begins: */
	bool malformed;
	bool ended;          /* all its ranges are flushed, or noted for a sync */
	atomic_bool dropped; /* its endpoint was closed meanwhile: it stores nothing any more */
	enum pmv_fault fault;
	struct pmv_region *held; /* the target's, from when it is named; or NULL */
	uint64_t syncs;          /* bit for each sync of the batch with pages of this request */
	uint64_t disk;           /* of all its pages: disk.h */
	/* The ranges to make durable, and how far that has come. */
	size_t count;
	size_t num_left; /* the last ones are not: a chain has stored them and commits them not */
	size_t at;
	uint64_t done;           /* bytes of that one */
	struct pmv_extent *more; /* malloc'ed, where there are too many for ... */
	struct pmv_extent named[PMV_MAX_RANGES];
	/* The range to store data in, after all that. */
	struct pmv_extent target;
	/* Of a chain: it has them instead. */
	struct pmv_reply *reply;         /* malloc'ed */
	struct pmv_large_results *large; /* or NULL */
	bool chain_commits;
	uint64_t chain_cost; /* of a slice */
	bool chain_leaves;   /* it may store what it does not commit */
	union {
		struct pmv_message message;
		struct pmv_flush_message request;
	};
};

/* What is left of a connection's slice of a round (writeback.h). */
struct pmv_slice {
	uint64_t lines;
	uint64_t pages;
};

static inline void pmv_slice_charge(struct pmv_slice *slice, enum pmv_persist persist,
				    uint64_t cost)
{
	uint64_t *left = persist == PMV_PAGE ? &slice->pages : &slice->lines;

	/* Caches that persist need no flush. */
	if (persist == PMV_PAGE || persist == PMV_DMP)
		*left -= cost < *left ? cost : *left;
}

static inline struct pmv_extent pmv_extent_of(const struct pmv_region *region, uint64_t offset,
					      uint64_t len)
{
	return (struct pmv_extent){
		.key = region->attr.key,
		.persist = region->attr.persist,
		.direct = region->attr.direct,
		.serial = region->serial,
		.disk = region->disk,
		.offset = offset,
		.len = len,
	};
}

/* pmv_work_begin -- the request is there; it names nothing yet */
void pmv_work_begin(struct pmv_work *work, struct pmv_receiver *receiver);
void pmv_work_free(struct pmv_work *work);

/* pmv_work_name -- add a part of a region, which the caller holds; false: no memory */
bool pmv_work_name(struct pmv_work *work, struct pmv_region *region, uint64_t offset, uint64_t len);

/* pmv_work_aim -- at the range to store data in; the caller holds the region */
void pmv_work_aim(struct pmv_work *work, struct pmv_region *region, uint64_t offset, uint64_t len);

/*
 * pmv_work_name_ranges -- the first ones of its request: those that it flushes, and the one that it
 * stores to, whose region is held from here on.  The request fails if peers may not write to one.
 * pmv_work_let_go -- of what is held, if it is
 */
void pmv_work_name_ranges(struct pmv_regions *regions, struct pmv_work *work, unsigned int count);

static inline void pmv_work_let_go(struct pmv_regions *regions, struct pmv_work *work)
{
	if (work->held)
		pmv_region_put(regions, work->held);
	work->held = NULL;
}

/* pmv_work_named -- all; pmv_work_left -- those that a chain has stored and not committed */
static inline const struct pmv_extent *pmv_work_named(const struct pmv_work *work)
{
	return work->more ? work->more : work->named;
}

static inline const struct pmv_extent *pmv_work_left(const struct pmv_work *work)
{
	return pmv_work_named(work) + work->count - work->num_left;
}

/* pmv_work_join -- after all were added: join ranges that overlap or touch */
void pmv_work_join_several(struct pmv_work *work);

static inline void pmv_work_join(struct pmv_work *work)
{
	if (work->count > 1)
		pmv_work_join_several(work);
}

/* pmv_work_charge -- take from a slice what the request will take, at most */
void pmv_work_charge(const struct pmv_work *work, struct pmv_slice *slice);

static inline void pmv_work_fail_if_lost(struct pmv_work *work, struct pmv_region *region)
{
	if (!work->fault && pmv_region_is_lost(region))
		work->fault = PMV_FAULT_IO;
}

#endif /* PMV_WORK_H */
