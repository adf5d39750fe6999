/* SPDX-License-Identifier: BSD-2-Clause */
/* pages.c -- the pages that a batch has to sync; pages.h says when */
#include "agent/pages.h"

#include "base/clock.h"
#include "base/setting.h"

struct pmv_histogram pmv_pages_sync_ns;

/* Memory of files */

_Static_assert(PMV_MAX_SYNCS <= PMV_DIRECT_RANGES, "they are written at a time");

static struct pmv_direct *file_of(const struct pmv_sync_range *range)
{
	return range->region->attr.direct;
}

/* is_first -- has no range before it the same file? */
static bool is_first(const struct pmv_sync_range *ranges, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (file_of(&ranges[i]) == file_of(&ranges[at]))
			return false;
	}
	return true;
}

/* write_file -- all ranges of the file that the first one has */
static void write_file(const struct pmv_sync_range *ranges, size_t count)
{
	struct iovec parts[PMV_MAX_SYNCS];
	size_t num_parts = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t len = ranges[i].len;

		if (file_of(&ranges[i]) != file_of(ranges))
			continue;
		parts[num_parts].iov_base =
			pmv_region_piece(ranges[i].region, ranges[i].offset, &len);
		parts[num_parts++].iov_len = len;
	}
	pmv_direct_write(file_of(ranges), parts, num_parts);
}

/*
 * write_files -- takes the ranges in memory of files (memory/direct.h) out of the array, and
 * returns how many are left.  pmv_region_is_bad says which are not durable.
 */
static size_t write_files(struct pmv_sync_range *ranges, size_t count)
{
	size_t left = 0;

	for (size_t i = 0; i < count; i++) {
		if (file_of(&ranges[i]) && is_first(ranges, i))
			write_file(&ranges[i], count - i);
	}
	for (size_t i = 0; i < count; i++) {
		if (!file_of(&ranges[i]))
			ranges[left++] = ranges[i];
	}
	return left;
}

/* Syncs */

/* fail_sync -- the requests with pages in it */
static void fail_sync(struct pmv_writeback_batch *batch, unsigned int sync, enum pmv_fault fault)
{
	for (unsigned int i = 0; i < batch->count; i++) {
		if ((batch->works[i].syncs & UINT64_C(1) << sync) && !batch->works[i].fault)
			batch->works[i].fault = fault;
	}
}

static void sync_ranges(struct pmv_sync_range *ranges, size_t count)
{
	count = write_files(ranges, count);
	if (count)
		pmv_regions_sync(ranges, count);
}

static void sync_timed(struct pmv_sync_range *ranges, size_t count)
{
	int64_t begin = pmv_setting.metrics ? pmv_clock_ns() : 0;

	sync_ranges(ranges, count);
	if (begin && count)
		pmv_histogram_add(&pmv_pages_sync_ns, (uint64_t) (pmv_clock_ns() - begin), 1);
}

/* sync_device -- what is on one.  No region is held longer, so none waits for another device. */
static void sync_device(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
			uint64_t device)
{
	struct pmv_region *held[PMV_MAX_SYNCS] = {0};
	struct pmv_sync_range ranges[PMV_MAX_SYNCS];
	size_t count = 0;

	for (unsigned int i = 0; i < batch->num_syncs; i++) {
		const struct pmv_extent *sync = &batch->syncs[i];

		if (pmv_disk_device(sync->disk) != device)
			continue;
		held[i] = pmv_region_hold(regions, sync->key, sync->serial);
		if (!held[i]) {
			fail_sync(batch, i, PMV_FAULT_ACCESS);
			continue;
		}
		ranges[count++] = (struct pmv_sync_range){held[i], sync->offset, sync->len};
		pmv_writeback_count(&batch->counts.syncs, 1);
		pmv_writeback_count(&batch->counts.synced_bytes, sync->len);
	}
	sync_timed(ranges, count);
	for (unsigned int i = 0; i < batch->num_syncs; i++) {
		if (!held[i])
			continue;
		if (pmv_region_is_lost(held[i]) || pmv_region_is_bad(held[i]))
			fail_sync(batch, i, PMV_FAULT_IO);
		pmv_region_put(regions, held[i]);
	}
}

static bool is_first_of_device(const struct pmv_writeback_batch *batch, unsigned int sync)
{
	for (unsigned int i = 0; i < sync; i++) {
		if (pmv_disk_device(batch->syncs[i].disk) ==
		    pmv_disk_device(batch->syncs[sync].disk))
			return false;
	}
	return true;
}

void pmv_pages_sync(struct pmv_writeback_batch *batch, struct pmv_regions *regions)
{
	for (unsigned int i = 0; i < batch->num_syncs; i++) {
		if (is_first_of_device(batch, i))
			sync_device(batch, regions, pmv_disk_device(batch->syncs[i].disk));
	}
	for (unsigned int j = 0; j < batch->count; j++)
		batch->works[j].syncs = 0;
	batch->num_syncs = 0;
}

struct pmv_extent *pmv_pages_find(struct pmv_writeback_batch *batch, const struct pmv_extent *pages,
				  uint64_t *cost)
{
	struct pmv_extent *best = NULL;

	*cost = pmv_sync_cost(pages) + pages->len;
	for (unsigned int i = 0; i < batch->num_syncs; i++) {
		struct pmv_extent *sync = &batch->syncs[i];
		uint64_t grown = pmv_extent_joined(sync, pages).len;

		if (sync->serial != pages->serial || grown > PMV_PAGE_SLICE ||
		    grown - sync->len > *cost)
			continue;
		*cost = grown - sync->len;
		best = sync;
	}
	return best;
}

uint64_t pmv_pages_note(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
			struct pmv_work *work, struct pmv_region *region,
			const struct pmv_extent *pages)
{
	uint64_t cost;
	struct pmv_extent *sync;

	/* Only these pages: the gaps between them may be gigabytes. */
	if (batch->touch)
		pmv_region_touch(region, pages->offset, pages->len);
	sync = pmv_pages_find(batch, pages, &cost);
	if (sync) {
		*sync = pmv_extent_joined(sync, pages);
	} else {
		if (batch->num_syncs == PMV_MAX_SYNCS)
			pmv_pages_sync(batch, regions);
		sync = &batch->syncs[batch->num_syncs++];
		*sync = *pages;
	}
	work->syncs |= UINT64_C(1) << (sync - batch->syncs);
	batch->undrained = true;
	return cost;
}
