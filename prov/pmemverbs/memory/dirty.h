/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dirty.h -- what an endpoint has written and nothing has made durable yet
 *
 * Kept for each region that only an agent makes durable.  Ranges that share or
 * adjoin cache lines are joined.  When a region has too many, the two with the
 * smallest gap between them are: what lies between is flushed needlessly, but
 * nothing that was written is left out.  Memory: PMV_DIRTY_RANGES ranges, about
 * a KiB, for each region with something dirty, and for the PMV_DIRTY_CLEAN others
 * that were written last.  Of the latter nothing is lost when they are forgotten;
 * they only spare an allocation.  When there are more than PMV_DIRTY_REGIONS of the
 * former, which nobody commits, no commit can be proven any more.
 *
 * Not locked: the endpoint's lock is.
 */
#ifndef PMV_DIRTY_H
#define PMV_DIRTY_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/range.h"

#define PMV_DIRTY_RANGES 64
#define PMV_DIRTY_CLEAN 16
#define PMV_DIRTY_REGIONS 65536

struct pmv_dirty_region;

struct pmv_dirty {
	void *tree; /* of regions, by key */
	struct pmv_dirty_region *last;
	struct pmv_dirty_region *regions; /* with something dirty, in any order */
	struct pmv_dirty_region *clean;   /* the others, the one that was written last first */
	unsigned int num_regions;
	unsigned int num_clean;
	unsigned int ranges; /* in all of them */
	bool lost;           /* no memory to note a write: no commit can be proven any more */
};

void pmv_dirty_free(struct pmv_dirty *dirty);

/* pmv_dirty_add -- note a write; without memory `lost` is set, for good */
void pmv_dirty_add(struct pmv_dirty *dirty, uint32_t key, uint64_t addr, uint64_t len);

/*
 * pmv_dirty_count -- ranges of a region, of all regions with all set
 * pmv_dirty_take -- hand these ranges over, in any order; they are clean then
 */
unsigned int pmv_dirty_count(struct pmv_dirty *dirty, uint32_t key, bool all);
void pmv_dirty_take(struct pmv_dirty *dirty, uint32_t key, bool all, struct pmv_range *ranges);

#endif /* PMV_DIRTY_H */
