/* SPDX-License-Identifier: BSD-2-Clause */
/* receive_tracker.c -- where messages were received; receive_tracker.h has the rules */
#include "agent/receive_tracker.h"

#include <stdlib.h>

/* The ring has room for twice as many as a queue is deep, within these limits; a power of 2. */
#define LEAST_PARTS 64
#define MOST_PARTS 8192

/* About a KiB each.  Nobody receives in more pieces of memory. */
#define MOST_OLD_PIECES 1024

void pmv_receive_tracker_init(struct pmv_receive_tracker *receives, size_t depth, bool on)
{
	size_t size = LEAST_PARTS;

	/* A queue may be deeper than was asked for. */
	while (size < 2 * depth && size < MOST_PARTS)
		size *= 2;
	*receives = (struct pmv_receive_tracker){.on = on, .size = size};
	pthread_mutex_init(&receives->lock, NULL);
}

static void forget_old(struct pmv_receive_tracker *receives)
{
	pmv_dirty_free(&receives->old);
	receives->old_pieces = 0;
	receives->old_end = 0;
}

void pmv_receive_tracker_destroy(struct pmv_receive_tracker *receives)
{
	forget_old(receives);
	free(receives->ring);
	pthread_mutex_destroy(&receives->lock);
}

/* Posting */

bool pmv_receive_tracker_fit(const struct pmv_receive_tracker *receives,
			     struct pmv_regions *regions, const struct iovec *iov, size_t count)
{
	struct pmv_span part;

	for (size_t i = 0; i < count; i++) {
		struct iovec rest = iov[i];
		uint64_t len = 0;

		/* Regions of one domain differ only in their persistence domain. */
		for (; pmv_regions_find(regions, &rest, false, &part); len += part.len) {
			if (part.persist != receives->kind.persist)
				return false;
		}
		if (len < iov[i].iov_len)
			return false;
	}
	return true;
}

static struct pmv_received_part *part_at(struct pmv_receive_tracker *receives, size_t i)
{
	return &receives->ring[(receives->head + i) & (receives->size - 1)];
}

static void make_old(struct pmv_receive_tracker *receives, const struct pmv_received_part *part)
{
	/* analyse clang-analyzer-core.UndefinedBinaryOperatorResult: the ring is full. */
	receives->old_end = part->number + 1;
	receives->old_pieces += !pmv_dirty_count(&receives->old, part->id, false);
	if (receives->old_pieces > MOST_OLD_PIECES)
		receives->old.lost = true;
	if (!receives->old.lost)
		pmv_dirty_add(&receives->old, part->id, part->start, part->len);
}

static void add_part(struct pmv_receive_tracker *receives, const struct pmv_received_part *part)
{
	if (!receives->ring)
		receives->ring = malloc(receives->size * sizeof(*receives->ring));
	if (!receives->ring) {
		make_old(receives, part);
		return;
	}
	if (receives->count == receives->size) {
		make_old(receives, part_at(receives, 0));
		receives->head++;
		receives->count--;
	}
	*part_at(receives, receives->count++) = *part;
}

void pmv_receive_tracker_add(struct pmv_receive_tracker *receives, struct pmv_regions *regions,
			     const struct iovec *iov, size_t count)
{
	struct pmv_span span;

	for (size_t i = 0; i < count; i++) {
		struct iovec rest = iov[i];

		while (pmv_regions_find(regions, &rest, false, &span))
			add_part(receives, &(struct pmv_received_part){receives->posted, span.start,
								       span.len, span.id});
	}
	receives->posted++;
}

/* Serving */

/* name_range -- what is persistent; PMV_FAULT_ACCESS: a byte of the range is not any more */
static enum pmv_fault name_range(struct pmv_receive_tracker *receives, struct pmv_regions *regions,
				 uint64_t start, uint64_t len, struct pmv_work *work)
{
	struct iovec rest = {.iov_base = (void *) (uintptr_t) start, .iov_len = len};
	struct pmv_span part;

	while (pmv_regions_find(regions, &rest, true, &part)) {
		if (!pmv_work_name(work, part.region, part.offset, part.len))
			receives->lost = true;
		pmv_region_put(regions, part.region);
		len -= part.len;
	}
	return len ? PMV_FAULT_ACCESS : PMV_FAULT_NONE;
}

static enum pmv_fault name_old(struct pmv_receive_tracker *receives, struct pmv_regions *regions,
			       struct pmv_work *work)
{
	struct pmv_dirty *old = &receives->old;
	unsigned int count = pmv_dirty_count(old, 0, true);
	enum pmv_fault fault = PMV_FAULT_NONE;
	struct pmv_range *ranges;

	if (!count && !old->lost)
		return PMV_FAULT_NONE;
	ranges = old->lost ? NULL : malloc(count * sizeof(*ranges));
	if (!ranges) {
		/* They are not named again, and later commits promise them, too. */
		receives->lost = true;
		return PMV_FAULT_MEMORY;
	}
	pmv_dirty_take(old, 0, true, ranges);
	for (unsigned int i = 0; i < count; i++) {
		fault |= name_range(receives, regions, ranges[i].addr, ranges[i].len, work);
		pmv_dirty_add(old, (uint32_t) ranges[i].key, ranges[i].addr, ranges[i].len);
	}
	free(ranges);
	return fault;
}

/* forget -- the receives that messages have certainly used up */
static void forget(struct pmv_receive_tracker *receives, uint64_t messages)
{
	for (; receives->count && part_at(receives, 0)->number < messages; receives->count--)
		receives->head++;
	if (receives->old_end <= messages)
		forget_old(receives);
}

enum pmv_fault pmv_receive_tracker_serve(struct pmv_receive_tracker *receives,
					 struct pmv_regions *regions, uint64_t messages,
					 struct pmv_work *work)
{
	enum pmv_fault fault = PMV_FAULT_MESSAGE;

	pthread_mutex_lock(&receives->lock);
	if (atomic_load(&receives->on) && messages <= receives->posted &&
	    messages >= receives->served) {
		receives->served = messages;
		fault = name_old(receives, regions, work);
		for (size_t i = 0; i < receives->count; i++) {
			const struct pmv_received_part *part = part_at(receives, i);
			enum pmv_fault other;

			if (part->number >= messages + receives->cancelled)
				break;
			other = name_range(receives, regions, part->start, part->len, work);
			if (!fault)
				fault = other;
		}
		forget(receives, messages);
	}
	if (receives->lost)
		fault = PMV_FAULT_MEMORY;
	pthread_mutex_unlock(&receives->lock);
	return fault;
}
