/* SPDX-License-Identifier: BSD-2-Clause */
/* work.c -- what a request of the agent names; work.h has what it is */
#include "agent/work.h"

#include <stdlib.h>
#include <string.h>

#include "agent/large_results.h"
#include "agent/pages.h"
#include "agent/receiver.h"

void pmv_work_begin(struct pmv_work *work, struct pmv_receiver *receiver)
{
	memset(&work->malformed, 0,
	       offsetof(struct pmv_work, named) - offsetof(struct pmv_work, malformed));
	work->receiver = receiver;
	work->source = receiver->number;
	work->room = PMV_MAX_RANGES;
}

void pmv_work_free(struct pmv_work *work)
{
	free(work->more);
	work->more = NULL;
	if (work->request.chain) {
		free(work->reply);
		pmv_large_results_put(work->large);
	}
	work->request.chain = false;
}

static bool make_room(struct pmv_work *work)
{
	struct pmv_extent *more;

	if (work->count < work->room)
		return true;
	more = realloc(work->more, 2 * work->room * sizeof(*more));
	if (!more)
		return false;
	if (!work->more)
		memcpy(more, work->named, sizeof(work->named));
	work->more = more;
	work->room *= 2;
	return true;
}

static inline bool name(struct pmv_work *work, struct pmv_region *region, uint64_t offset,
			uint64_t len)
{
	/* Also without a byte: a commit fails whose region is lost, or is lost in this batch. */
	pmv_work_fail_if_lost(work, region);
	if (!make_room(work))
		return false;
	work->disk = pmv_disk_both(work->disk, region->disk);
	(work->more ? work->more : work->named)[work->count++] = pmv_extent_of(region, offset, len);
	return true;
}

static inline void aim(struct pmv_work *work, struct pmv_region *region, uint64_t offset,
		       uint64_t len)
{
	work->disk = pmv_disk_both(work->disk, region->disk);
	work->target = pmv_extent_of(region, offset, len);
}

bool pmv_work_name(struct pmv_work *work, struct pmv_region *region, uint64_t offset, uint64_t len)
{
	return name(work, region, offset, len);
}

void pmv_work_aim(struct pmv_work *work, struct pmv_region *region, uint64_t offset, uint64_t len)
{
	aim(work, region, offset, len);
}

void pmv_work_name_ranges(struct pmv_regions *regions, struct pmv_work *work, unsigned int count)
{
	const struct pmv_flush_message *request = &work->request;

	for (unsigned int i = 0; i < count; i++) {
		const struct pmv_range *range = &request->ranges[i];
		uint64_t offset;
		struct pmv_region *region = pmv_region_get(regions, (uint32_t) range->key,
							   range->addr, range->len, &offset);

		if (!region) {
			work->fault = PMV_FAULT_ACCESS;
			continue;
		}
		if (request->store && i + 1U == request->count) {
			aim(work, region, offset, range->len);
			work->held = region;
			continue;
		}
		/* Places of an event are named only for that. */
		if (!(range->key & PMV_RANGE_EVENT) && !name(work, region, offset, range->len))
			work->fault = PMV_FAULT_MEMORY;
		pmv_region_put(regions, region);
	}
}

static int by_place(const void *one, const void *other)
{
	const struct pmv_extent *a = one, *b = other;

	if (a->serial != b->serial)
		return a->serial < b->serial ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

void pmv_work_join_several(struct pmv_work *work)
{
	struct pmv_extent *all = work->more ? work->more : work->named;
	size_t last = 0;

	qsort(all, work->count, sizeof(*all), by_place);
	for (size_t i = 1; i < work->count; i++) {
		if (all[i].serial != all[last].serial ||
		    all[i].offset > all[last].offset + all[last].len)
			all[++last] = all[i];
		else
			all[last] = pmv_extent_joined(&all[last], &all[i]);
	}
	work->count = last + 1;
}

static void charge_most(struct pmv_slice *slice, const struct pmv_extent *extent)
{
	bool syncs = extent->len && extent->persist == PMV_PAGE;

	pmv_slice_charge(slice, extent->persist, extent->len + syncs * pmv_sync_cost(extent));
}

void pmv_work_charge(const struct pmv_work *work, struct pmv_slice *slice)
{
	for (size_t i = 0; i < work->count; i++)
		charge_most(slice, &pmv_work_named(work)[i]);
	if (!work->request.store)
		return;
	/* Each commit of a chain may flush, or sync, whatever it stores: 16 are a slice. */
	if (work->request.chain)
		pmv_slice_charge(slice, PMV_DMP, work->chain_cost);
	else
		charge_most(slice, &work->target);
}
