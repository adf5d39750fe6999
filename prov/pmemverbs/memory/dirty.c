/* SPDX-License-Identifier: BSD-2-Clause */
/* dirty.c -- ranges that were written and are not durable yet; dirty.h has the rules */
#include "memory/dirty.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "memory/key.h"

#define CACHE_LINE 64

/* Sorted, disjoint, and with at least a clean cache line between any two. */
struct pmv_dirty_region {
	uint32_t key; /* first: what the tree is searched for */
	unsigned int count;
	struct pmv_dirty_region *next, **at; /* on one of the two lists; what points to it */
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

static void link_region(struct pmv_dirty_region **list, struct pmv_dirty_region *region)
{
	region->next = *list;
	region->at = list;
	if (region->next)
		region->next->at = &region->next;
	*list = region;
}

static void unlink_region(struct pmv_dirty_region *region)
{
	*region->at = region->next;
	if (region->next)
		region->next->at = region->at;
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
	link_region(&dirty->clean, region);
	dirty->num_clean++;
	dirty->last = region;
	return region;
}

/* becomes_dirty -- a clean region is about to get its first range */
static void becomes_dirty(struct pmv_dirty *dirty, struct pmv_dirty_region *region)
{
	unlink_region(region);
	dirty->num_clean--;
	link_region(&dirty->regions, region);
	dirty->num_regions++;
}

/* forget_clean -- if there are too many, the one whose last write is oldest */
static void forget_clean(struct pmv_dirty *dirty)
{
	struct pmv_dirty_region *region = dirty->clean;

	if (dirty->num_clean <= PMV_DIRTY_CLEAN)
		return;
	while (region->next)
		region = region->next;
	unlink_region(region);
	dirty->num_clean--;
	tdelete(region, &dirty->tree, pmv_key_compare);
	if (dirty->last == region)
		dirty->last = NULL;
	free(region);
}

static void becomes_clean(struct pmv_dirty *dirty, struct pmv_dirty_region *region)
{
	unlink_region(region);
	dirty->num_regions--;
	link_region(&dirty->clean, region);
	dirty->num_clean++;
	forget_clean(dirty);
}

static void ignore(void *node)
{
	(void) node;
}

void pmv_dirty_free(struct pmv_dirty *dirty)
{
	struct pmv_dirty_region *lists[] = {dirty->regions, dirty->clean};

	tdestroy(dirty->tree, ignore);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		for (struct pmv_dirty_region *next, *region = lists[i]; region; region = next) {
			next = region->next;
			free(region);
		}
	}
	*dirty = (struct pmv_dirty){0};
}

static uint64_t line(uint64_t addr)
{
	return addr / CACHE_LINE;
}

/* touch -- are two ranges in the same or in adjacent cache lines?  The first starts first. */
static bool touch(uint64_t end, uint64_t start)
{
	return start <= end || line(start) <= line(end - 1) + 1;
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
		dirty->lost = true;
		return;
	}
	before = region->count;
	if (!before)
		becomes_dirty(dirty, region);
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
	if (count)
		becomes_clean(dirty, region);
	return count;
}

void pmv_dirty_take(struct pmv_dirty *dirty, uint32_t key, bool all, struct pmv_range *ranges)
{
	struct pmv_dirty_region *region;

	if (!all) {
		region = find(dirty, key);
		if (region)
			take(dirty, region, ranges);
		return;
	}
	while (dirty->regions)
		ranges += take(dirty, dirty->regions, ranges);
}
