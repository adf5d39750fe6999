/* SPDX-License-Identifier: BSD-2-Clause */
/* writeback.c -- flushes and syncs slices of requests; writeback.h has the rules */
#include "agent/writeback.h"

#include <stdlib.h>
#include <string.h>

#include "agent/flush.h"

/* What is left of a connection's slice of a round. */
struct slice {
	uint64_t lines;
	uint64_t pages;
};

/* What a request names */

static struct pmv_stretch *named(struct pmv_work *work)
{
	return work->more ? work->more : work->named;
}

void pmv_work_begin(struct pmv_work *work, struct pmv_mailbox *mailbox, uint64_t number)
{
	work->mailbox = mailbox;
	work->source = mailbox;
	work->number = number;
	work->notify = work->store = work->messages = work->malformed = false;
	work->fault = PMV_FAULT_NONE;
	work->state = PMV_WORK_WAITS;
	work->more = NULL;
	work->count = work->at = 0;
	work->room = PMV_MAX_RANGES;
	work->done = 0;
	work->syncs = 0;
}

void pmv_work_free(struct pmv_work *work)
{
	free(work->more);
	work->more = NULL;
}

static void fail_if_lost(struct pmv_work *work, struct pmv_region *region)
{
	if (!work->fault && pmv_region_is_lost(region))
		work->fault = PMV_FAULT_IO;
}

static bool make_room(struct pmv_work *work)
{
	struct pmv_stretch *more;

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

bool pmv_work_name(struct pmv_work *work, struct pmv_region *region, uint64_t offset, uint64_t len)
{
	/* Also without a byte: a commit to a lost region fails. */
	fail_if_lost(work, region);
	if (!len)
		return true;
	if (!make_room(work))
		return false;
	named(work)[work->count++] = (struct pmv_stretch){
		.key = region->key,
		.persist = region->persist,
		.serial = region->serial,
		.offset = offset,
		.len = len,
	};
	return true;
}

static int by_place(const void *one, const void *other)
{
	const struct pmv_stretch *a = one, *b = other;

	if (a->serial != b->serial)
		return a->serial < b->serial ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

void pmv_work_join(struct pmv_work *work)
{
	struct pmv_stretch *all = named(work);
	size_t left = 0;

	if (work->count < 2)
		return;
	qsort(all, work->count, sizeof(*all), by_place);
	for (size_t i = 1; i < work->count; i++) {
		struct pmv_stretch *last = &all[left];
		uint64_t end = all[i].offset + all[i].len;

		if (all[i].serial != last->serial || all[i].offset > last->offset + last->len)
			all[++left] = all[i];
		else if (end > last->offset + last->len)
			last->len = end - last->offset;
	}
	work->count = left + 1;
}

/* Pages */

/*
 * sync_pages -- all pages of the batch so far.  If a sync fails, so do the requests with
 * pages in it.
 */
static void sync_pages(struct pmv_batch *batch, struct pmv_regions *regions)
{
	for (unsigned int i = 0; i < batch->num_syncs; i++) {
		const struct pmv_sync *sync = &batch->syncs[i];
		struct pmv_region *region = pmv_region_hold(regions, sync->key, sync->serial);
		enum pmv_fault fault = region ? PMV_FAULT_NONE : PMV_FAULT_ACCESS;

		if (region) {
			pmv_region_sync(region, sync->start, sync->end - sync->start);
			if (pmv_region_is_lost(region))
				fault = PMV_FAULT_IO;
			pmv_region_put(regions, region);
		}
		for (unsigned int j = 0; fault && j < batch->count; j++) {
			if ((batch->works[j].syncs & UINT64_C(1) << i) && !batch->works[j].fault)
				batch->works[j].fault = fault;
		}
	}
	for (unsigned int j = 0; batch->num_syncs && j < batch->count; j++)
		batch->works[j].syncs = 0;
	batch->num_syncs = 0;
}

/*
 * find_sync -- the sync in which these pages cost least, if that is less than a new one
 * costs; else NULL.  *cost: what they cost, in bytes of a slice.
 */
static struct pmv_sync *find_sync(struct pmv_batch *batch, const struct pmv_stretch *pages,
				  uint64_t *cost)
{
	struct pmv_sync *best = NULL;

	*cost = PMV_SYNC_COST + pages->len;
	for (unsigned int i = 0; i < batch->num_syncs; i++) {
		struct pmv_sync *sync = &batch->syncs[i];
		uint64_t end = pages->offset + pages->len;
		uint64_t start = pages->offset < sync->start ? pages->offset : sync->start;
		uint64_t grown;

		if (sync->serial != pages->serial)
			continue;
		grown = (end > sync->end ? end : sync->end) - start;
		if (grown > PMV_PAGE_SLICE || grown - (sync->end - sync->start) > *cost)
			continue;
		*cost = grown - (sync->end - sync->start);
		best = sync;
	}
	return best;
}

static struct pmv_sync *add_sync(struct pmv_batch *batch, struct pmv_regions *regions,
				 const struct pmv_stretch *pages)
{
	struct pmv_sync *sync;

	if (batch->num_syncs == PMV_BATCH_SYNCS)
		sync_pages(batch, regions);
	sync = &batch->syncs[batch->num_syncs++];
	*sync = (struct pmv_sync){
		.key = pages->key,
		.serial = pages->serial,
		.start = pages->offset,
		.end = pages->offset + pages->len,
	};
	return sync;
}

/* note_pages -- sync them at the end of the round; returns their cost */
static uint64_t note_pages(struct pmv_batch *batch, struct pmv_regions *regions,
			   struct pmv_work *work, struct pmv_region *region,
			   const struct pmv_stretch *pages)
{
	uint64_t cost;
	struct pmv_sync *sync;

	/* Only these pages: the gaps between them may be gigabytes. */
	if (batch->touch)
		pmv_region_touch(region, pages->offset, pages->len);
	sync = find_sync(batch, pages, &cost);
	if (!sync) {
		sync = add_sync(batch, regions, pages);
	} else {
		if (pages->offset < sync->start)
			sync->start = pages->offset;
		if (pages->offset + pages->len > sync->end)
			sync->end = pages->offset + pages->len;
	}
	work->syncs |= UINT64_C(1) << (sync - batch->syncs);
	batch->undrained = true;
	return cost;
}

/* settle -- make durable all that was flushed so far */
static void settle(struct pmv_batch *batch, struct pmv_regions *regions)
{
	sync_pages(batch, regions);
	if (batch->undrained)
		pmv_flush->drain();
	batch->undrained = false;
}

/* Lines */

static void flush_lines(struct pmv_region *region, uint64_t offset, uint64_t len)
{
	while (len) {
		uint64_t piece = len;
		void *at = pmv_region_piece(region, offset, &piece);

		pmv_flush->flush(at, piece);
		offset += piece;
		len -= piece;
	}
}

static void store_data(struct pmv_region *region, uint64_t offset, uint64_t len,
		       const uint8_t *data)
{
	while (len) {
		uint64_t piece = len;
		void *at = pmv_region_piece(region, offset, &piece);

		if (region->persist == PMV_PAGE)
			memcpy(at, data, piece);
		else
			pmv_flush->store(at, data, piece);
		data += piece;
		offset += piece;
		len -= piece;
	}
}

/* Slices */

/* affordable -- how many bytes of a stretch may be flushed now; 0: none */
static uint64_t affordable(struct pmv_batch *batch, const struct slice *slice,
			   const struct pmv_stretch *rest)
{
	uint64_t cost, most = slice->lines;

	if (rest->persist == PMV_PAGE) {
		struct pmv_stretch first = *rest;

		most = slice->pages > PMV_SYNC_COST ? slice->pages - PMV_SYNC_COST : 0;
		if (first.len <= most)
			return first.len;
		/* Pages that are synced anyway may cost nothing. */
		find_sync(batch, &first, &cost);
		return cost <= slice->pages ? first.len : most;
	}
	/* Caches that persist need no flush. */
	if (rest->persist != PMV_DMP)
		return rest->len;
	return rest->len < most ? rest->len : most;
}

static uint64_t flush_slice(struct pmv_batch *batch, struct pmv_regions *regions,
			    struct pmv_work *work, struct pmv_region *region,
			    const struct pmv_stretch *part)
{
	if (part->persist == PMV_PAGE)
		return note_pages(batch, regions, work, region, part);
	if (part->persist == PMV_DMP)
		flush_lines(region, part->offset, part->len);
	/* Caches that persist need no flush, but the stores have to be in them. */
	batch->undrained = true;
	return part->len;
}

static void charge(struct slice *slice, enum pmv_persist persist, uint64_t cost)
{
	uint64_t *left = persist == PMV_PAGE ? &slice->pages : &slice->lines;

	if (persist == PMV_PAGE || persist == PMV_DMP)
		*left -= cost < *left ? cost : *left;
}

/*
 * flush_on -- from where the request has come to, as far as the slice reaches; true:
 * to the end.  A part that is gone does not keep the others from being flushed: a
 * later commit relies on that they were.
 */
static bool flush_on(struct pmv_batch *batch, struct pmv_regions *regions, struct pmv_work *work,
		     struct slice *slice)
{
	while (work->at < work->count) {
		struct pmv_stretch part = named(work)[work->at];
		struct pmv_region *region;

		part.offset += work->done;
		part.len -= work->done;
		part.len = affordable(batch, slice, &part);
		if (!part.len)
			return false;
		region = pmv_region_hold(regions, part.key, part.serial);
		if (region) {
			charge(slice, part.persist,
			       flush_slice(batch, regions, work, region, &part));
			/* There may have been no memory behind it. */
			fail_if_lost(work, region);
			pmv_region_put(regions, region);
			work->done += part.len;
		} else if (!work->fault) {
			work->fault = PMV_FAULT_ACCESS;
		}
		if (!region || work->done == named(work)[work->at].len) {
			work->at++;
			work->done = 0;
		}
	}
	return true;
}

/*
 * may_store -- are all writes durable that the data must follow?  The sender knows that of
 * requests whose acknowledgements it had, but not of requests in this batch.
 */
static bool may_store(const struct pmv_batch *batch, const struct pmv_work *work)
{
	if (work->faulted && (int32_t) (work->seen - (uint32_t) work->faulted) < 0)
		return false;
	for (const struct pmv_work *before = batch->works; before <= work; before++) {
		if (before->source == work->source && before->fault)
			return false;
	}
	return true;
}

/* store -- no data after a fault: earlier writes are not durable then */
static void store(struct pmv_batch *batch, struct pmv_regions *regions, struct pmv_work *work,
		  struct slice *slice)
{
	const struct pmv_stretch *target = &work->target;
	struct pmv_region *region;

	if (work->fault)
		return;
	settle(batch, regions);
	if (!may_store(batch, work)) {
		work->fault = PMV_FAULT_IO;
		return;
	}
	region = pmv_region_hold(regions, target->key, target->serial);
	if (!region) {
		work->fault = PMV_FAULT_ACCESS;
		return;
	}
	store_data(region, target->offset, target->len, work->copy + work->payload);
	if (target->len)
		charge(slice, target->persist, flush_slice(batch, regions, work, region, target));
	fail_if_lost(work, region);
	pmv_region_put(regions, region);
}

void pmv_batch_carry_out(struct pmv_batch *batch, struct pmv_regions *regions)
{
	const void *source = NULL;
	struct slice slice = {0};
	bool used_up = false;

	/* Those of a connection are side by side. */
	for (unsigned int i = 0; i < batch->count; i++) {
		struct pmv_work *work = &batch->works[i];

		if (work->source != source) {
			source = work->source;
			slice = (struct slice){.lines = PMV_LINE_SLICE, .pages = PMV_PAGE_SLICE};
			used_up = false;
		}
		/* In their order: what waits comes behind what has begun. */
		if (used_up)
			continue;
		work->state = PMV_WORK_BEGUN;
		if (flush_on(batch, regions, work, &slice)) {
			if (work->store)
				store(batch, regions, work, &slice);
			work->state = PMV_WORK_DONE;
		} else {
			used_up = true;
		}
	}
	settle(batch, regions);
}
