/* SPDX-License-Identifier: BSD-2-Clause */
/* lost_writes.c -- what was written and not committed; peer.h has the argument */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "memory/key.h"
#include "commit/lost_writes.h"

struct pmv_lost_writes_region {
	uint32_t key; /* first: what the tree is searched for */
	bool lost;
	uint64_t wrote;     /* the number of the last write */
	uint64_t committed; /* this one and all before it */
	struct pmv_lost_writes_region *next;
};

#define FIRST_SWEEP 1024

static void init(struct pmv_lost_writes *peer)
{
	*peer = (struct pmv_lost_writes){.sweep_at = FIRST_SWEEP};
	pthread_mutex_init(&peer->lock, NULL);
}

static void ignore(void *node)
{
	(void) node;
}

static void destroy(struct pmv_lost_writes *peer)
{
	struct pmv_lost_writes_region *region;

	tdestroy(peer->tree, ignore);
	while ((region = peer->regions)) {
		peer->regions = region->next;
		free(region);
	}
	pthread_mutex_destroy(&peer->lock);
}

void pmv_lost_writes_list_init(struct pmv_lost_writes_list *peers)
{
	peers->list = NULL;
	pthread_mutex_init(&peers->lock, NULL);
	init(&peers->nobody);
	peers->nobody.forgetful = true;
}

void pmv_lost_writes_list_destroy(struct pmv_lost_writes_list *peers)
{
	struct pmv_lost_writes *peer;

	while ((peer = peers->list)) {
		peers->list = peer->next;
		destroy(peer);
		free(peer);
	}
	destroy(&peers->nobody);
	pthread_mutex_destroy(&peers->lock);
}

static struct pmv_lost_writes *add_peer(struct pmv_lost_writes_list *peers, const void *addr,
					size_t addrlen)
{
	struct pmv_lost_writes *peer = addrlen <= sizeof(peer->addr) ? malloc(sizeof(*peer)) : NULL;

	/* Not to be mistaken later for one that nothing was written to. */
	if (!peer || peers->nobody.addrlen) {
		peers->nobody.addrlen = 1;
		free(peer);
		return &peers->nobody;
	}
	init(peer);
	peer->addrlen = addrlen;
	memcpy(peer->addr, addr, addrlen);
	peer->next = peers->list;
	peers->list = peer;
	return peer;
}

struct pmv_lost_writes *pmv_lost_writes_list_get(struct pmv_lost_writes_list *peers,
						 const void *addr, size_t addrlen)
{
	struct pmv_lost_writes *peer;

	pthread_mutex_lock(&peers->lock);
	for (peer = peers->list; peer; peer = peer->next) {
		if (peer->addrlen == addrlen && !memcmp(peer->addr, addr, addrlen))
			break;
	}
	if (!peer)
		peer = add_peer(peers, addr, addrlen);
	pthread_mutex_unlock(&peers->lock);
	return peer;
}

static struct pmv_lost_writes_region *find(struct pmv_lost_writes *peer, uint32_t key)
{
	struct pmv_lost_writes_region **node;

	if (!peer->last || peer->last->key != key) {
		node = tfind(&key, &peer->tree, pmv_key_compare);
		peer->last = node ? *node : NULL;
	}
	return peer->last;
}

/* sweep -- forget regions that there is nothing to tell of */
static void sweep(struct pmv_lost_writes *peer)
{
	struct pmv_lost_writes_region **at = &peer->regions, *region;

	peer->last = NULL;
	while ((region = *at)) {
		if (region->lost || region->committed < region->wrote) {
			at = &region->next;
			continue;
		}
		*at = region->next;
		tdelete(region, &peer->tree, pmv_key_compare);
		free(region);
		peer->num_regions--;
	}
	peer->sweep_at = 2 * peer->num_regions > FIRST_SWEEP ? 2 * peer->num_regions : FIRST_SWEEP;
}

/* add_region -- NULL: there is no room for it */
static struct pmv_lost_writes_region *add_region(struct pmv_lost_writes *peer, uint32_t key)
{
	struct pmv_lost_writes_region *region;

	if (peer->num_regions >= peer->sweep_at)
		sweep(peer);
	if (peer->num_regions >= PMV_LOST_WRITES_REGIONS)
		return NULL;
	region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	region->key = key;
	if (!tsearch(region, &peer->tree, pmv_key_compare)) {
		free(region);
		return NULL;
	}
	region->next = peer->regions;
	peer->regions = region;
	peer->num_regions++;
	peer->last = region;
	return region;
}

void pmv_lost_writes_wrote(struct pmv_lost_writes *peer, uint32_t key)
{
	struct pmv_lost_writes_region *region;

	pthread_mutex_lock(&peer->lock);
	region = find(peer, key);
	if (!region)
		region = add_region(peer, key);
	if (region)
		region->wrote = ++peer->writes;
	else
		peer->overflown = true;
	pthread_mutex_unlock(&peer->lock);
}

static uint64_t read_locked(struct pmv_lost_writes *peer, const uint64_t *number)
{
	uint64_t value;

	pthread_mutex_lock(&peer->lock);
	value = *number;
	pthread_mutex_unlock(&peer->lock);
	return value;
}

uint64_t pmv_lost_writes_writes(struct pmv_lost_writes *peer)
{
	return read_locked(peer, &peer->writes);
}

void pmv_lost_writes_committed(struct pmv_lost_writes *peer, uint32_t key, uint64_t writes)
{
	struct pmv_lost_writes_region *region;

	pthread_mutex_lock(&peer->lock);
	region = find(peer, key);
	if (region && region->committed < writes)
		region->committed = writes;
	pthread_mutex_unlock(&peer->lock);
}

void pmv_lost_writes_lost(struct pmv_lost_writes *peer)
{
	pthread_mutex_lock(&peer->lock);
	peer->losses++;
	peer->forgetful |= peer->overflown;
	for (struct pmv_lost_writes_region *region = peer->regions; region; region = region->next) {
		region->lost |= region->committed < region->wrote;
		region->committed = region->wrote;
	}
	pthread_mutex_unlock(&peer->lock);
}

uint64_t pmv_lost_writes_losses(struct pmv_lost_writes *peer)
{
	return read_locked(peer, &peer->losses);
}

/* is_lost -- told: it will not be once more */
static bool is_lost(struct pmv_lost_writes_region *region, bool told)
{
	bool lost = region && region->lost;

	if (lost && told)
		region->lost = false;
	return lost;
}

bool pmv_lost_writes_has_lost(struct pmv_lost_writes *peer, const uint32_t *keys, size_t count)
{
	bool lost;

	pthread_mutex_lock(&peer->lock);
	lost = peer->forgetful;
	for (size_t i = 0; i < count; i++)
		lost |= is_lost(find(peer, keys[i]), false);
	pthread_mutex_unlock(&peer->lock);
	return lost;
}

bool pmv_lost_writes_may_commit(struct pmv_lost_writes *peer, const uint32_t *keys, size_t count,
				bool all)
{
	bool lost;

	pthread_mutex_lock(&peer->lock);
	lost = peer->forgetful;
	for (size_t i = 0; i < count; i++)
		lost |= is_lost(find(peer, keys[i]), true);
	for (struct pmv_lost_writes_region *region = all ? peer->regions : NULL; region;
	     region = region->next)
		lost |= is_lost(region, true);
	pthread_mutex_unlock(&peer->lock);
	return !lost;
}
