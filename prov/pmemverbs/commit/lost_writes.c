/* SPDX-License-Identifier: BSD-2-Clause */
/* lost_writes.c -- what was written and not committed; lost_writes.h has the argument */
#include "commit/lost_writes.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "memory/key.h"

struct pmv_lost_writes_region {
	uint32_t key; /* first: the tree is searched for it */
	bool lost;
	uint64_t wrote;     /* the number of the last write */
	uint64_t committed; /* the number of the last write that a commit has covered */
	LIST_ENTRY(pmv_lost_writes_region) next;
};

/*
 * Behind so many regions, and then behind twice as many as were left, sweep forgets some: each new
 * region costs a look at two.
 */
#define FIRST_SWEEP 1024

atomic_uint_fast64_t pmv_lost_writes_all_losses;

static void init(struct pmv_lost_writes *tracker)
{
	*tracker = (struct pmv_lost_writes){.sweep_at = FIRST_SWEEP};
	pthread_mutex_init(&tracker->lock, NULL);
}

static void destroy(struct pmv_lost_writes *tracker)
{
	tdestroy(tracker->tree, free);
	pthread_mutex_destroy(&tracker->lock);
}

void pmv_lost_writes_list_init(struct pmv_lost_writes_list *list)
{
	SLIST_INIT(&list->trackers);
	pthread_mutex_init(&list->lock, NULL);
	init(&list->nobody);
	list->nobody.forgetful = true;
}

void pmv_lost_writes_list_destroy(struct pmv_lost_writes_list *list)
{
	struct pmv_lost_writes *tracker;

	while ((tracker = SLIST_FIRST(&list->trackers))) {
		SLIST_REMOVE_HEAD(&list->trackers, next);
		destroy(tracker);
		free(tracker);
	}
	destroy(&list->nobody);
	pthread_mutex_destroy(&list->lock);
}

static struct pmv_lost_writes *add_tracker(struct pmv_lost_writes_list *list, const void *addr,
					   size_t addrlen)
{
	struct pmv_lost_writes *tracker =
		addrlen <= sizeof(tracker->addr) ? malloc(sizeof(*tracker)) : NULL;

	/* A peer that once had no tracker must not get a new one, which knows no writes. */
	if (!tracker || list->nobody.addrlen) {
		list->nobody.addrlen = 1;
		free(tracker);
		return &list->nobody;
	}
	init(tracker);
	tracker->addrlen = addrlen;
	memcpy(tracker->addr, addr, addrlen);
	SLIST_INSERT_HEAD(&list->trackers, tracker, next);
	return tracker;
}

struct pmv_lost_writes *pmv_lost_writes_list_get(struct pmv_lost_writes_list *list,
						 const void *addr, size_t addrlen)
{
	struct pmv_lost_writes *tracker;

	pthread_mutex_lock(&list->lock);
	SLIST_FOREACH(tracker, &list->trackers, next) {
		if (tracker->addrlen == addrlen && !memcmp(tracker->addr, addr, addrlen))
			break;
	}
	if (!tracker)
		tracker = add_tracker(list, addr, addrlen);
	pthread_mutex_unlock(&list->lock);
	return tracker;
}

static struct pmv_lost_writes_region *find(struct pmv_lost_writes *tracker, uint32_t key)
{
	struct pmv_lost_writes_region **node;

	if (!tracker->last || tracker->last->key != key) {
		node = tfind(&key, &tracker->tree, pmv_key_compare);
		tracker->last = node ? *node : NULL;
	}
	return tracker->last;
}

/* sweep -- forget regions whose writes are all committed */
static void sweep(struct pmv_lost_writes *tracker)
{
	struct pmv_lost_writes_region *region, *next;

	tracker->last = NULL;
	for (region = LIST_FIRST(&tracker->regions); region; region = next) {
		next = LIST_NEXT(region, next);
		if (region->lost || region->committed < region->wrote)
			continue;
		LIST_REMOVE(region, next);
		tdelete(region, &tracker->tree, pmv_key_compare);
		free(region);
		tracker->num_regions--;
	}
	tracker->sweep_at =
		2 * tracker->num_regions > FIRST_SWEEP ? 2 * tracker->num_regions : FIRST_SWEEP;
}

/* add_region -- NULL: there is no room for it */
static struct pmv_lost_writes_region *add_region(struct pmv_lost_writes *tracker, uint32_t key)
{
	struct pmv_lost_writes_region *region;

	if (tracker->num_regions >= tracker->sweep_at)
		sweep(tracker);
	if (tracker->num_regions >= PMV_LOST_WRITES_REGIONS)
		return NULL;
	region = calloc(1, sizeof(*region));
	if (region)
		region->key = key;
	if (!region || !tsearch(region, &tracker->tree, pmv_key_compare)) {
		free(region);
		return NULL;
	}
	LIST_INSERT_HEAD(&tracker->regions, region, next);
	tracker->num_regions++;
	tracker->last = region;
	return region;
}

void pmv_lost_writes_add(struct pmv_lost_writes *tracker, uint32_t key)
{
	struct pmv_lost_writes_region *region;

	pthread_mutex_lock(&tracker->lock);
	region = find(tracker, key);
	if (!region)
		region = add_region(tracker, key);
	if (region)
		region->wrote = ++tracker->number;
	else
		tracker->overflown = true;
	pthread_mutex_unlock(&tracker->lock);
}

void pmv_lost_writes_committed(struct pmv_lost_writes *tracker, uint32_t key, uint64_t number)
{
	struct pmv_lost_writes_region *region;

	pthread_mutex_lock(&tracker->lock);
	region = find(tracker, key);
	if (region && region->committed < number)
		region->committed = number;
	pthread_mutex_unlock(&tracker->lock);
}

void pmv_lost_writes_given_up(struct pmv_lost_writes *tracker)
{
	pthread_mutex_lock(&tracker->lock);
	tracker->silent = tracker->losses + 1;
	pthread_mutex_unlock(&tracker->lock);
}

void pmv_lost_writes_disconnected(struct pmv_lost_writes *tracker)
{
	struct pmv_lost_writes_region *region;

	pthread_mutex_lock(&tracker->lock);
	tracker->losses++;
	pmv_lost_writes_all_losses++;
	tracker->forgetful |= tracker->overflown;
	LIST_FOREACH(region, &tracker->regions, next)
	{
		region->lost |= region->committed < region->wrote;
		region->committed = region->wrote;
	}
	pthread_mutex_unlock(&tracker->lock);
}

/* look -- for lost writes to these regions, or to all; what it finds is forgotten if `take` */
static bool look(struct pmv_lost_writes *tracker, const uint32_t *keys, size_t count, bool all,
		 bool take)
{
	struct pmv_lost_writes_region *region;
	bool lost;

	pthread_mutex_lock(&tracker->lock);
	lost = tracker->forgetful;
	for (size_t i = 0; i < count; i++) {
		region = find(tracker, keys[i]);
		lost |= region && region->lost;
		if (region && take)
			region->lost = false;
	}
	for (region = all ? LIST_FIRST(&tracker->regions) : NULL; region;
	     region = LIST_NEXT(region, next)) {
		lost |= region->lost;
		region->lost = false;
	}
	pthread_mutex_unlock(&tracker->lock);
	return lost;
}

bool pmv_lost_writes_has_lost(struct pmv_lost_writes *tracker, const uint32_t *keys, size_t count)
{
	return look(tracker, keys, count, false, false);
}

bool pmv_lost_writes_may_commit(struct pmv_lost_writes *tracker, const uint32_t *keys, size_t count,
				bool all)
{
	return !look(tracker, keys, count, all, true);
}
