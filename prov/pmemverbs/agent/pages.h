/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pages.h -- the pages that a batch has to sync
 *
 * They are noted as requests name them, and synced when the batch is drained.  Pages of a region
 * that are close together share a sync, with the pages between them.
 */
#ifndef PMV_PAGES_H
#define PMV_PAGES_H

#include "agent/writeback.h"
#include "base/histogram.h"

/* How long this process has waited for disks, in nanoseconds; with FI_PMEMVERBS_METRICS. */
extern struct pmv_histogram pmv_pages_sync_ns;

/* pmv_extent_joined -- two extents of a region, and what is between them */
static inline struct pmv_extent pmv_extent_joined(const struct pmv_extent *a,
						  const struct pmv_extent *b)
{
	uint64_t a_end = a->offset + a->len, b_end = b->offset + b->len;
	struct pmv_extent both = *a;

	both.offset = a->offset < b->offset ? a->offset : b->offset;
	both.len = (a_end > b_end ? a_end : b_end) - both.offset;
	return both;
}

/* pmv_sync_cost -- of a sync, besides its bytes */
static inline uint64_t pmv_sync_cost(const struct pmv_extent *extent)
{
	return extent->direct ? PMV_DIRECT_COST : PMV_SYNC_COST;
}

/* pmv_writeback_count -- add to one of struct pmv_writeback_counts */
static inline void pmv_writeback_count(atomic_uint_fast64_t *count, uint64_t more)
{
	uint64_t sum = atomic_load_explicit(count, memory_order_relaxed) + more;

	atomic_store_explicit(count, sum, memory_order_relaxed);
}

/*
 * pmv_pages_find -- the sync in which these pages cost less than in a new one, or NULL.  *cost: of
 * a slice.
 */
struct pmv_extent *pmv_pages_find(struct pmv_writeback_batch *batch, const struct pmv_extent *pages,
				  uint64_t *cost);

/* pmv_pages_note -- sync them when the batch is drained; returns their cost */
uint64_t pmv_pages_note(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
			struct pmv_work *work, struct pmv_region *region,
			const struct pmv_extent *pages);

/* pmv_pages_sync -- all so far; a sync that fails fails the requests with pages in it */
void pmv_pages_sync(struct pmv_writeback_batch *batch, struct pmv_regions *regions);

#endif /* PMV_PAGES_H */
