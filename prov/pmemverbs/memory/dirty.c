/* SPDX-License-Identifier: BSD-2-Clause */
/* dirty.c -- ranges that were written and are not durable yet; dirty.h has the rules */
#include "memory/dirty.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

#define CACHE_LINE 64

/* Sorted, disjoint, and with at least a clean cache line between any two. */
struct pmv_dirty_region {
	uint32_t key; /* first: what the tree is searched for */
	unsigned int count;
	LIST_ENTRY(pmv_dirty_region) entry; /* on one of the two lists */
	struct {
		uint64_t start;
		uint64_t end;
	} range[PMV_DIRTY_RANGES + 1];
};

static struct pmv_dirty_region *find(struct pmv_dirty *dirty, uint32_t key)
{
	struct pmv_dirty_region **node;

	if (!dirty->last || dirty->last->key != key) {
		node = tfind(&key, &dirty->tree, pmv_key_compare);
		dirty->last = node ? *node : NULL;
	}
	return dirty->last;
}

static struct pmv_dirty_region *add_region(struct pmv_dirty *dirty, uint32_t key)
{
	struct pmv_dirty_region *region = NULL;

	if (dirty->num_regions < PMV_DIRTY_REGIONS)
		region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	region->key = key;
	if (!tsearch(region, &dirty->tree, pmv_key_compare)) {
		free(region);
		return NULL;
	}
	LIST_INSERT_HEAD(&dirty->clean, region, entry);
	dirty->num_clean++;
	dirty->last = region;
	return region;
}

/* becomes_clean -- if there are too many, the one whose last write is oldest is forgotten */
static void becomes_clean(struct pmv_dirty *dirty, struct pmv_dirty_region *region)
{
	struct pmv_dirty_region *next;

	LIST_REMOVE(region, entry);
	dirty->num_regions--;
	LIST_INSERT_HEAD(&dirty->clean, region, entry);
	if (dirty->num_clean++ < PMV_DIRTY_CLEAN)
		return;
	while ((next = LIST_NEXT(region, entry)))
		region = next;
	LIST_REMOVE(region, entry);
	dirty->num_clean--;
	tdelete(region, &dirty->tree, pmv_key_compare);
	if (dirty->last == region)
		dirty->last = NULL;
	free(region);
}

void pmv_dirty_free(struct pmv_dirty *dirty)
{
	tdestroy(dirty->tree, free);
	*dirty = (struct pmv_dirty){0};
}

/* touch -- are two ranges in the same or in adjacent cache lines?  The first starts first. */
static bool touch(uint64_t end, uint64_t start)
{
	return start <= end || start / CACHE_LINE <= (end - 1) / CACHE_LINE + 1;
}

static void remove_at(struct pmv_dirty_region *region, unsigned int at, unsigned int count)
{
	memmove(&region->range[at], &region->range[at + count],
		(region->count - at - count) * sizeof(region->range[0]));
	region->count -= count;
}

/* join_closest -- join the two ranges with the smallest gap */
static void join_closest(struct pmv_dirty_region *region)
{
	unsigned int closest = 0;
	uint64_t smallest = UINT64_MAX;

	for (unsigned int i = 0; i + 1 < region->count; i++) {
		uint64_t gap = region->range[i + 1].start - region->range[i].end;

		if (gap < smallest) {
			smallest = gap;
			closest = i;
		}
	}
	region->range[closest].end = region->range[closest + 1].end;
	remove_at(region, closest + 1, 1);
}

/* first_touched -- index of the first range that ends where start is, or behind it */
static unsigned int first_touched(const struct pmv_dirty_region *region, uint64_t start)
{
	unsigned int low = 0, high = region->count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (touch(region->range[middle].end, start))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void add_range(struct pmv_dirty_region *region, uint64_t start, uint64_t end)
{
	unsigned int at = first_touched(region, start);
	unsigned int joined = 0;

	/* Often the same bytes are written again. */
	if (at < region->count && region->range[at].start <= start && region->range[at].end >= end)
		return;
	while (at + joined < region->count && touch(end, region->range[at + joined].start)) {
		if (region->range[at + joined].start < start)
			start = region->range[at + joined].start;
		if (region->range[at + joined].end > end)
			end = region->range[at + joined].end;
		joined++;
	}
	if (joined) {
		remove_at(region, at, joined - 1);
	} else {
		memmove(&region->range[at + 1], &region->range[at],
			(region->count - at) * sizeof(region->range[0]));
		region->count++;
	}
	region->range[at].start = start;
	region->range[at].end = end;
	if (region->count > PMV_DIRTY_RANGES)
		join_closest(region);
}

void pmv_dirty_add(struct pmv_dirty *dirty, uint32_t key, uint64_t addr, uint64_t len)
{
	struct pmv_dirty_region *region = find(dirty, key);
	unsigned int before;

	if (!len)
		return;
	if (!region)
		region = add_region(dirty, key);
	if (!region) {
		if (!dirty->lost)
			PMV_WARN(EP_DATA, "no memory to keep what was written: commits by the "
					  "target's agent fail from here on; connect again\n");
		dirty->lost = -FI_ENOMEM;
		return;
	}
	before = region->count;
	if (!before) {
		LIST_REMOVE(region, entry);
		dirty->num_clean--;
		LIST_INSERT_HEAD(&dirty->regions, region, entry);
		dirty->num_regions++;
	}
	add_range(region, addr, addr + len < addr ? UINT64_MAX : addr + len);
	dirty->ranges += region->count - before;
}

unsigned int pmv_dirty_count(struct pmv_dirty *dirty, uint32_t key, bool all)
{
	struct pmv_dirty_region *region;

	if (all || !dirty->ranges)
		return dirty->ranges;
	region = find(dirty, key);
	return region ? region->count : 0;
}

/* take -- of a region that has some */
static unsigned int take(struct pmv_dirty *dirty, struct pmv_dirty_region *region,
			 struct pmv_range *ranges)
{
	unsigned int count = region->count;

	for (unsigned int i = 0; i < count; i++) {
		ranges[i] = (struct pmv_range){
			.addr = region->range[i].start,
			.len = region->range[i].end - region->range[i].start,
			.key = region->key,
		};
	}
	region->count = 0;
	dirty->ranges -= count;
	becomes_clean(dirty, region);
	return count;
}

unsigned int pmv_dirty_take(struct pmv_dirty *dirty, uint32_t key, bool all,
			    struct pmv_range *ranges)
{
	struct pmv_dirty_region *region = all || !dirty->ranges ? NULL : find(dirty, key);
	unsigned int count = region && region->count ? take(dirty, region, ranges) : 0;

	while (all && (region = LIST_FIRST(&dirty->regions)))
		count += take(dirty, region, ranges + count);
	return count;
}

bool pmv_dirty_span(struct pmv_dirty *dirty, uint32_t key, struct pmv_range *span, uint64_t *gaps)
{
	struct pmv_dirty_region *region = dirty->ranges ? find(dirty, key) : NULL;

	if (!region || !region->count)
		return false;
	span->addr = region->range[0].start;
	span->len = region->range[region->count - 1].end - span->addr;
	span->key = key;
	*gaps = 0;
	for (unsigned int i = 1; i < region->count; i++)
		*gaps += region->range[i].start - region->range[i - 1].end;
	return true;
}
