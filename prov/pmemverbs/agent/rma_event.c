/* SPDX-License-Identifier: BSD-2-Clause */
/* rma_event.c -- events of what peers write here; rma_event.h has the rules */
#include "agent/rma_event.h"

#include <rdma/fi_errno.h>

#include "agent/region.h"
#include "progress/count.h"
#include "progress/op.h"
#include "progress/queue.h"

/* Counters */

/* is_first -- an operation counts once in a region, in however many places it writes there */
static bool is_first(const struct pmv_flush_message *request, unsigned int at)
{
	for (unsigned int i = 0; i < at; i++) {
		if (request->ranges[i].key == request->ranges[at].key)
			return false;
	}
	return true;
}

/* count_regions -- those that were closed meanwhile have no counters any more */
static void count_regions(struct pmv_regions *regions, const struct pmv_flush_message *request,
			  bool ok)
{
	for (unsigned int i = 0; i < request->count; i++) {
		const struct pmv_range *range = &request->ranges[i];
		struct pmv_region *region;
		struct pmv_count *count;
		uint64_t offset;

		if (!(range->key & PMV_RANGE_EVENT) || !is_first(request, i))
			continue;
		region = pmv_region_get(regions, (uint32_t) range->key, range->addr, range->len,
					&offset);
		if (!region)
			continue;
		count = atomic_load(&region->remote_writes);
		if (count)
			pmv_count_add(count, ok);
		pmv_region_put(regions, region);
	}
}

/* Entries */

static struct pmv_comp *new_entry(const struct pmv_queue *queue, int entry)
{
	const struct fi_cq_tagged_entry ok = {
		.flags =
			(entry % PMV_RMA_EVENT_FAILED == PMV_RMA_EVENT_WRITE ? FI_RMA : FI_ATOMIC) |
			FI_REMOTE_WRITE,
	};

	return entry < PMV_RMA_EVENT_FAILED ? pmv_comp_success(queue, &ok)
					    : pmv_comp_error(NULL, ok.flags, FI_EIO);
}

bool pmv_rma_event_post(struct pmv_rma_events *events)
{
	bool had_room = pmv_queue_has_room(events->queue, events->unread, 0);
	int entry = 0;

	while (entry < PMV_RMA_EVENT_ENTRIES) {
		struct pmv_comp *comp = NULL;

		if (!events->pending[entry]) {
			entry++;
			continue;
		}
		/* Without memory the next round tries again. */
		if (pmv_queue_has_room(events->queue, events->unread, 0))
			comp = new_entry(events->queue, entry);
		if (!comp)
			break;
		pmv_queue_add_for(events->queue, events->unread, comp);
		events->pending[entry]--;
	}
	events->has_pending = entry < PMV_RMA_EVENT_ENTRIES;
	return had_room;
}

bool pmv_rma_event_may_post(const struct pmv_rma_events *events)
{
	return events->has_pending && pmv_queue_has_room(events->queue, events->unread, 0);
}

/* add_entry -- immediate data tell of their operation by themselves, but not of its failure */
static void add_entry(struct pmv_rma_events *events, enum pmv_rma_event event, bool ok)
{
	int entry = event == PMV_EVENT_ATOMIC ? PMV_RMA_EVENT_ATOMIC : PMV_RMA_EVENT_WRITE;

	if (!events->queue || (ok && event == PMV_EVENT_DATA))
		return;
	events->pending[ok ? entry : entry + PMV_RMA_EVENT_FAILED]++;
	pmv_rma_event_post(events);
}

void pmv_rma_event_tell(struct pmv_rma_events *events, struct pmv_regions *regions,
			const struct pmv_flush_message *request, enum pmv_fault fault)
{
	bool ok = !fault;

	/* With any other fault than the medium's the peer has asked for what can't be. */
	if (!events->wanted || (fault && fault != PMV_FAULT_IO))
		return;
	count_regions(regions, request, ok);
	/* For endpoints one that also reads is a remote read, of which nobody is told. */
	if (request->event == PMV_EVENT_FETCH)
		return;
	if (events->count)
		pmv_count_add(events->count, ok);
	add_entry(events, (enum pmv_rma_event) request->event, ok);
}
