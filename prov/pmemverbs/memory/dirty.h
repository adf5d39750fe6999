/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dirty.h -- what an endpoint has written and nothing has made durable yet
 *
 * Kept for each region that only an agent makes durable.  Ranges in the same or adjacent
 * cache lines are joined.  When a region has too many, the two with the smallest gap are
 * joined: the gap is flushed needlessly, but no write is left out.  Memory: about a KiB for
 * each dirty region, and for the PMV_DIRTY_CLEAN clean ones that were written last, which
 * saves allocations.  With more than PMV_DIRTY_REGIONS dirty ones no commit can be proven.
 *
 * The caller's lock protects it.
 */
#ifndef PMV_DIRTY_H
#define PMV_DIRTY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "memory/key.h"

#define PMV_DIRTY_RANGES 64
#define PMV_DIRTY_CLEAN 16
#define PMV_DIRTY_REGIONS 65536

struct pmv_dirty_region;

struct pmv_dirty {
	void *tree; /* of regions, by key */
	struct pmv_dirty_region *last;
	LIST_HEAD(, pmv_dirty_region) regions; /* the dirty ones, in any order */
	LIST_HEAD(, pmv_dirty_region) clean;   /* the clean ones, the last written one first */
	unsigned int num_regions;
	unsigned int num_clean;
	unsigned int ranges; /* in all of them */
	int lost; /* a negative fi_errno: not all writes are known; no commit can be proven */
};

void pmv_dirty_free(struct pmv_dirty *dirty);

/* pmv_dirty_add -- keep a write; without memory `lost` is set, and stays set */
void pmv_dirty_add(struct pmv_dirty *dirty, uint32_t key, uint64_t addr, uint64_t len);

/*
 * pmv_dirty_count -- the number of ranges of a region; with `all`, of all regions
 * pmv_dirty_take -- hand these ranges over, in any order; then they are clean.  How many they are
 */
unsigned int pmv_dirty_count(struct pmv_dirty *dirty, uint32_t key, bool all);
unsigned int pmv_dirty_take(struct pmv_dirty *dirty, uint32_t key, bool all,
			    struct pmv_range *ranges);

/*
 * pmv_dirty_span -- from the first byte to the last one that is dirty in a region, and how many of
 * those between are not; false: none is dirty
 */
bool pmv_dirty_span(struct pmv_dirty *dirty, uint32_t key, struct pmv_range *span, uint64_t *gaps);

#endif /* PMV_DIRTY_H */
