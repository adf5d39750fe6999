/* SPDX-License-Identifier: BSD-2-Clause */
/* region.c -- the memory that an agent may be asked for; region.h has the rules */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "region.h"

void pmv_regions_init(struct pmv_regions *regions)
{
	regions->tree = NULL;
	pthread_mutex_init(&regions->lock, NULL);
	pthread_cond_init(&regions->unused, NULL);
}

void pmv_regions_destroy(struct pmv_regions *regions)
{
	tdestroy(regions->tree, free);
	pthread_cond_destroy(&regions->unused);
	pthread_mutex_destroy(&regions->lock);
}

struct pmv_region *pmv_region_add(struct pmv_regions *regions, uint32_t key,
				  enum pmv_persist persist, uint64_t start, const struct iovec *iov,
				  size_t iov_count)
{
	struct pmv_region *region = calloc(1, sizeof(*region) + iov_count * sizeof(*iov));
	struct pmv_region **node;

	if (!region)
		return NULL;
	region->key = key;
	region->persist = persist;
	region->start = start;
	region->iov_count = iov_count;
	memcpy(region->iov, iov, iov_count * sizeof(*iov));
	for (size_t i = 0; i < iov_count; i++)
		region->len += iov[i].iov_len;

	pthread_mutex_lock(&regions->lock);
	node = tsearch(region, &regions->tree, pmv_key_compare);
	pthread_mutex_unlock(&regions->lock);
	if (node && *node == region)
		return region;
	free(region);
	return NULL;
}

void pmv_region_remove(struct pmv_regions *regions, struct pmv_region *region)
{
	pthread_mutex_lock(&regions->lock);
	tdelete(region, &regions->tree, pmv_key_compare);
	while (region->users)
		pthread_cond_wait(&regions->unused, &regions->lock);
	pthread_mutex_unlock(&regions->lock);
	free(region);
}

struct pmv_region *pmv_region_get(struct pmv_regions *regions, uint32_t key, uint64_t addr,
				  uint64_t len, uint64_t *offset)
{
	struct pmv_region **node, *region = NULL;

	pthread_mutex_lock(&regions->lock);
	node = tfind(&key, &regions->tree, pmv_key_compare);
	if (node) {
		*offset = addr - (*node)->start;
		/* An address in front of it makes an offset beyond its end. */
		if (*offset <= (*node)->len && len <= (*node)->len - *offset)
			region = *node;
	}
	if (region)
		region->users++;
	pthread_mutex_unlock(&regions->lock);
	return region;
}

void pmv_region_put(struct pmv_regions *regions, struct pmv_region *region)
{
	pthread_mutex_lock(&regions->lock);
	if (!--region->users)
		pthread_cond_broadcast(&regions->unused);
	pthread_mutex_unlock(&regions->lock);
}

void *pmv_region_piece(const struct pmv_region *region, uint64_t offset, uint64_t *len)
{
	size_t i = 0;

	while (i + 1 < region->iov_count && offset >= region->iov[i].iov_len)
		offset -= region->iov[i++].iov_len;
	if (*len > region->iov[i].iov_len - offset)
		*len = region->iov[i].iov_len - offset;
	return (char *) region->iov[i].iov_base + offset;
}
