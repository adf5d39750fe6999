/* SPDX-License-Identifier: BSD-2-Clause */
/* writeback.c -- flushes and syncs slices of requests; writeback.h has the rules */
#include "agent/writeback.h"

#include "agent/chain.h"
#include "agent/pages.h"
#include "agent/receiver.h"

/* So many bytes, aligned, are written as a unit. */
#define WORD 8

/* hold -- a region that the request has named; if it is gone, the request fails */
static struct pmv_region *hold(struct pmv_regions *regions, struct pmv_work *work,
			       const struct pmv_extent *extent)
{
	struct pmv_region *region = pmv_region_hold(regions, extent->key, extent->serial);

	if (!region && !work->fault)
		work->fault = PMV_FAULT_ACCESS;
	return region;
}

/* Batches */

uint64_t pmv_writeback_disk(const struct pmv_writeback_batch *batch, unsigned int first)
{
	uint64_t disk = PMV_DISK_NONE;

	for (unsigned int i = first; i < batch->count; i++)
		disk = pmv_disk_both(disk, batch->works[i].disk);
	return disk;
}

void pmv_writeback_move(struct pmv_writeback_batch *batch, unsigned int first,
			struct pmv_writeback_batch *to, struct pmv_regions *regions)
{
	for (unsigned int i = first; i < batch->count; i++) {
		pmv_work_let_go(regions, &batch->works[i]);
		to->works[to->count++] = batch->works[i];
	}
	batch->count = first;
}

void pmv_writeback_drop(struct pmv_writeback_batch *batch, const struct pmv_receiver *receiver)
{
	for (unsigned int i = 0; i < batch->count; i++) {
		if (batch->works[i].receiver != receiver)
			continue;
		batch->works[i].receiver = NULL;
		atomic_store(&batch->works[i].dropped, true);
	}
}

void pmv_writeback_remove(struct pmv_writeback_batch *batch, const struct pmv_receiver *receiver)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < batch->count; i++) {
		if (batch->works[i].receiver == receiver)
			pmv_work_free(&batch->works[i]);
		else
			batch->works[kept++] = batch->works[i];
	}
	batch->count = kept;
}

void pmv_writeback_add_counts(struct pmv_writeback_counts *sum,
			      const struct pmv_writeback_counts *more)
{
	pmv_writeback_count(&sum->flushes, more->flushes);
	pmv_writeback_count(&sum->flushed_bytes, more->flushed_bytes);
	pmv_writeback_count(&sum->syncs, more->syncs);
	pmv_writeback_count(&sum->synced_bytes, more->synced_bytes);
	pmv_writeback_count(&sum->stores, more->stores);
	pmv_writeback_count(&sum->stored_bytes, more->stored_bytes);
}

/* sync_pages -- which may take long, so no other region is held meanwhile */
__attribute__((noinline)) static void sync_pages(struct pmv_writeback_batch *batch,
						 struct pmv_regions *regions)
{
	for (unsigned int i = 0; i < batch->count; i++)
		pmv_work_let_go(regions, &batch->works[i]);
	pmv_pages_sync(batch, regions);
}

/* end_flushes -- make durable all that was flushed so far */
static void end_flushes(struct pmv_writeback_batch *batch, struct pmv_regions *regions)
{
	if (batch->num_syncs)
		sync_pages(batch, regions);
	if (batch->undrained)
		pmv_flush->drain();
	batch->undrained = batch->flushed = batch->scattered = false;
	batch->stored.len = 0;
}

/* Lines */

static void flush_lines(struct pmv_region *region, uint64_t offset, uint64_t len)
{
	for (uint64_t piece = len; len; offset += piece, len -= piece, piece = len) {
		void *at = pmv_region_piece(region, offset, &piece);

		pmv_flush->flush(at, piece);
	}
}

/* What a slice affords */

/* affordable -- how many bytes of a extent may be flushed now; 0: none */
static uint64_t affordable(struct pmv_writeback_batch *batch, const struct pmv_slice *slice,
			   const struct pmv_extent *rest)
{
	uint64_t cost, most = slice->lines;

	if (rest->persist == PMV_PAGE) {
		/* Pages that are synced anyway may cost nothing. */
		pmv_pages_find(batch, rest, &cost);
		if (cost <= slice->pages)
			return rest->len;
		cost = pmv_sync_cost(rest);
		most = slice->pages > cost ? slice->pages - cost : 0;
	} else if (rest->persist != PMV_DMP) {
		return rest->len;
	}
	return rest->len < most ? rest->len : most;
}

static uint64_t flush_slice(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
			    struct pmv_work *work, struct pmv_region *region,
			    const struct pmv_extent *part)
{
	if (part->persist == PMV_PAGE)
		return pmv_pages_note(batch, regions, work, region, part);
	if (part->persist == PMV_DMP) {
		flush_lines(region, part->offset, part->len);
		pmv_writeback_count(&batch->counts.flushes, 1);
		pmv_writeback_count(&batch->counts.flushed_bytes, part->len);
	}
	/* Caches that persist need no flush, but the stores have to be in them. */
	batch->undrained = true;
	return part->len;
}

/*
 * repair -- a commit that names no byte of a file promises what was written before: if that could
 * not be written, it is tried again, and the file is looked at
 */
static void repair(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
		   struct pmv_work *work, const struct pmv_extent *part)
{
	struct pmv_region *region = hold(regions, work, part);

	if (region)
		pmv_pages_note(batch, regions, work, region, part);
	if (region)
		pmv_region_put(regions, region);
}

/*
 * flush_on -- from where the request has come to, as far as the slice reaches; true: to the
 * end.  Also if a part is gone: a later commit relies on that the others were flushed.
 */
static bool flush_on(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
		     struct pmv_work *work, struct pmv_slice *slice)
{
	while (work->at < work->count) {
		struct pmv_extent part = pmv_work_named(work)[work->at];
		struct pmv_region *region;

		part.offset += work->done;
		part.len -= work->done;
		if (!part.len) {
			if (part.direct)
				repair(batch, regions, work, &part);
			work->at++;
			continue;
		}
		part.len = affordable(batch, slice, &part);
		if (!part.len)
			return false;
		region = hold(regions, work, &part);
		if (region) {
			pmv_slice_charge(slice, part.persist,
					 flush_slice(batch, regions, work, region, &part));
			/* There may have been no memory behind it. */
			pmv_work_fail_if_lost(work, region);
			pmv_region_put(regions, region);
			work->done += part.len;
		}
		if (!region || work->done == pmv_work_named(work)[work->at].len) {
			work->at++;
			work->done = 0;
		}
	}
	return true;
}

/*
 * earlier_are_durable -- are all writes durable that the data must follow?  The sender knows that
 * of requests whose acknowledgements it had, but not of requests in this batch.
 */
static bool earlier_are_durable(const struct pmv_writeback_batch *batch,
				const struct pmv_work *work)
{
	const struct pmv_envelope *envelope = &work->request.envelope;

	if (work->faulted && work->faulted + envelope->unacked >= envelope->number)
		return false;
	for (const struct pmv_work *before = batch->works; before <= work; before++) {
		if (before->source == work->source && before->fault)
			return false;
	}
	return true;
}

/*
 * replaces -- do the data of a request take the place of all that the connection has stored since
 * the last drain, and in one store?  Such a word is written as a unit.  So if the data are found
 * after a power failure, nothing is missing: nobody could see any more what they replace.
 */
static bool replaces(const struct pmv_writeback_batch *batch, const struct pmv_region *region,
		     const struct pmv_extent *data)
{
	const struct pmv_extent *old = &batch->stored;
	uint64_t piece = data->len;
	uintptr_t at;

	if (batch->scattered || old->serial != data->serial || old->offset < data->offset ||
	    old->offset + old->len > data->offset + data->len)
		return false;
	at = (uintptr_t) pmv_region_piece(region, data->offset, &piece);
	return piece == data->len && piece <= WORD && !(piece & (piece - 1)) && !(at % piece);
}

/* make_earlier_durable -- all of its connection that the data must follow */
static void make_earlier_durable(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
				 const struct pmv_extent *data)
{
	bool asks = !batch->flushed && batch->stored.len;
	struct pmv_region *region = asks ? pmv_region_hold(regions, data->key, data->serial) : NULL;
	bool follows = region && replaces(batch, region, data);

	/* It is not held while others are synced. */
	if (region)
		pmv_region_put(regions, region);
	if (batch->flushed || (asks && !follows))
		end_flushes(batch, regions);
}

/* note_stored -- the data are in their place, but not durable */
static void note_stored(struct pmv_writeback_batch *batch, const struct pmv_region *region,
			const struct pmv_work *work)
{
	batch->scattered = batch->stored.len && !replaces(batch, region, &work->target);
	batch->stored = work->target;
}

/*
 * store_apart -- from other threads' steps of chains, and from who closes the endpoint.  False: it
 * is closed, and its peer may have written newer data since, on another connection.
 */
static bool store_apart(struct pmv_regions *regions, const struct pmv_work *work,
			struct pmv_region *region)
{
	const struct pmv_extent *target = &work->target;
	const uint8_t *data = pmv_flush_message_data(&work->request);
	bool dropped;

	pmv_region_fault_in(region, target->offset, target->len, true);
	pthread_mutex_lock(&regions->chains.lock);
	dropped = atomic_load(&work->dropped);
	if (!dropped)
		pmv_region_store(region, target->offset, target->len, data);
	pthread_mutex_unlock(&regions->chains.lock);
	return !dropped;
}

/* store -- ordered: no data after a fault, as earlier writes are not durable then */
static void store(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
		  struct pmv_work *work)
{
	const struct pmv_extent *target = &work->target;
	struct pmv_region *region;

	if (work->fault)
		return;
	if (work->request.ordered) {
		make_earlier_durable(batch, regions, target);
		if (!earlier_are_durable(batch, work))
			work->fault = PMV_FAULT_IO;
	}
	if (!work->fault && !work->held)
		work->held = hold(regions, work, target);
	region = work->held;
	if (work->fault || !store_apart(regions, work, region))
		return;
	pmv_writeback_count(&batch->counts.stores, 1);
	pmv_writeback_count(&batch->counts.stored_bytes, target->len);
	if (target->len) {
		flush_slice(batch, regions, work, region, target);
		note_stored(batch, region, work);
	} else if (target->direct) {
		pmv_pages_note(batch, regions, work, region, target);
	}
	pmv_work_fail_if_lost(work, region);
}

/* look_again -- at the regions that the request names, with bytes or without */
static void look_again(struct pmv_regions *regions, struct pmv_work *work)
{
	bool stores = work->request.store && !work->request.chain;
	size_t count = work->count - work->num_left;

	for (size_t i = 0; i < count + stores; i++) {
		const struct pmv_extent *extent =
			i < count ? &pmv_work_named(work)[i] : &work->target;
		struct pmv_region *region = hold(regions, work, extent);

		if (!region)
			continue;
		pmv_work_fail_if_lost(work, region);
		if (!work->fault && pmv_region_is_bad(region))
			work->fault = PMV_FAULT_IO;
		pmv_region_put(regions, region);
	}
}

/* Chains */

struct carried {
	struct pmv_writeback_batch *batch;
	struct pmv_regions *regions;
	struct pmv_work *work;
};

/* commit_chain -- all that the chain must follow, and what it has stored so far */
static enum pmv_fault commit_chain(void *arg)
{
	struct carried *carried = arg;
	struct pmv_work *work = carried->work;

	end_flushes(carried->batch, carried->regions);
	look_again(carried->regions, work);
	if (!work->fault && !earlier_are_durable(carried->batch, work))
		work->fault = PMV_FAULT_IO;
	return work->fault;
}

static void chain_stored(void *arg, struct pmv_region *region, uint64_t offset, uint64_t len,
			 bool commits)
{
	struct carried *carried = arg;
	const struct pmv_extent part = pmv_extent_of(region, offset, len);

	/* Without memory to remember it by, it is flushed now. */
	if (!commits && pmv_work_name(carried->work, region, offset, len)) {
		carried->work->num_left++;
		return;
	}
	flush_slice(carried->batch, carried->regions, carried->work, region, &part);
	/* There may have been no memory behind it. */
	pmv_work_fail_if_lost(carried->work, region);
	pmv_writeback_count(&carried->batch->counts.stores, 1);
	pmv_writeback_count(&carried->batch->counts.stored_bytes, len);
}

/* execute_chain -- not after a fault, as its commits would promise too much */
static void execute_chain(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
			  struct pmv_work *work)
{
	const struct pmv_flush_message *request = &work->request;
	struct carried carried = {batch, regions, work};
	const struct pmv_chain_carrier carrier = {regions,      work->disk != PMV_DISK_NONE,
						  work->large,  commit_chain,
						  chain_stored, &work->dropped,
						  &carried};
	struct pmv_chain chain;
	enum pmv_fault fault;

	if (work->fault || !pmv_chain_decode(pmv_flush_message_data(request),
					     pmv_flush_message_data_len(request), &chain))
		return;
	fault = pmv_chain_execute(&carrier, &chain, work->reply);
	if (!work->fault)
		work->fault = fault;
	/* What it has stored without a commit comes before what follows it, as a range does. */
	batch->flushed = batch->undrained;
}

/*
 * spread_faults -- to requests that promise what others name: a commit does not name again
 * what an earlier one to its region has named, and one with `ordered` relies on all
 */
static void spread_faults(struct pmv_writeback_batch *batch, struct pmv_regions *regions)
{
	bool any = false;

	for (unsigned int i = 0; i < batch->count; i++)
		any |= batch->works[i].fault;
	for (unsigned int i = 0; i < batch->count; i++) {
		struct pmv_work *work = &batch->works[i];

		/* Also of one that goes on: in later rounds nothing tells of this. */
		if (any)
			look_again(regions, work);
		if (!work->fault && work->ended && work->request.ordered &&
		    !earlier_are_durable(batch, work))
			work->fault = PMV_FAULT_IO;
	}
}

/* flush_all -- what the requests name, as far as slices reach */
static void flush_all(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
		      struct pmv_slice whole)
{
	uint64_t source = 0;
	struct pmv_slice slice = {0};

	/* Those of a connection are side by side. */
	for (unsigned int i = 0; i < batch->count; i++) {
		struct pmv_work *work = &batch->works[i];

		if (work->source != source)
			slice = whole;
		source = work->source;
		work->ended = flush_on(batch, regions, work, &slice);
	}
}

/* store_all -- their data: in the order of each connection, and nothing holds up other ones */
static void store_all(struct pmv_writeback_batch *batch, struct pmv_regions *regions)
{
	uint64_t source = 0;

	for (unsigned int i = 0; i < batch->count; i++) {
		struct pmv_work *work = &batch->works[i];

		if (work->source != source)
			batch->stored.len = batch->scattered = 0;
		source = work->source;
		if (work->ended && work->request.chain)
			execute_chain(batch, regions, work);
		else if (work->ended && work->request.store)
			store(batch, regions, work);
		pmv_work_let_go(regions, work);
	}
}

void pmv_writeback_carry_out(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
			     struct pmv_slice whole)
{
	flush_all(batch, regions, whole);
	batch->flushed = batch->undrained;
	store_all(batch, regions);
	end_flushes(batch, regions);
	spread_faults(batch, regions);
}
