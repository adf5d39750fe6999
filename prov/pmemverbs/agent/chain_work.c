/* SPDX-License-Identifier: BSD-2-Clause */
/* chain_work.c -- what a chain needs before it is executed, and after; chain_work.h has the rules
 */
#include "agent/chain_work.h"

#include <stdlib.h>

#include "agent/chain.h"
#include "agent/large_results.h"
#include "agent/pages.h"
#include "agent/receiver.h"
#include "engine/engine.h"

/* So many parts of what a connection has not committed are kept apart, a power of 2. */
#define APART 16

static void decode(const struct pmv_work *work, struct pmv_chain *chain)
{
	const struct pmv_flush_message *request = &work->request;

	/* It was checked when the message was. */
	pmv_chain_decode(pmv_flush_message_data(request), pmv_flush_message_data_len(request),
			 chain);
}

/* name -- a region that is not there is found missing by the step */
static bool name(struct pmv_regions *regions, struct pmv_work *work, uint32_t key)
{
	struct pmv_region *region = pmv_region_find(regions, key);
	bool named = true;

	if (!region)
		return true;
	if (work->chain_commits)
		named = pmv_work_name(work, region, 0, 0);
	else
		pmv_work_aim(work, region, 0, 0); /* It waits for pages of the disk, too. */
	pmv_region_put(regions, region);
	return named;
}

static bool name_all(struct pmv_regions *regions, struct pmv_work *work,
		     const struct pmv_chain *chain)
{
	bool named = true;

	for (unsigned int i = 0; i < chain->count && named; i++) {
		const struct pmv_chain_step *step = &chain->steps[i];
		uint16_t flags = step->head.flags;

		named = name(regions, work, step->head.key) &&
			(!(flags & PMV_CHAIN_INDIRECT) || name(regions, work, step->head.to_key)) &&
			(!(flags & PMV_CHAIN_FROM_MEMORY) || name(regions, work, step->from_key));
	}
	return named;
}

/* leaves -- may it store what it does not commit? */
static bool leaves(const struct pmv_chain *chain)
{
	for (unsigned int i = 0; i < chain->count; i++) {
		uint8_t kind = chain->steps[i].head.kind;

		if (kind != PMV_CHAIN_READ && kind != PMV_CHAIN_FREE &&
		    !pmv_chain_commits_behind(chain, i))
			return true;
	}
	return false;
}

bool pmv_chain_work_waits(const struct pmv_writeback_batch *batch,
			  const struct pmv_receiver *receiver, const struct pmv_work *work)
{
	bool any = false;
	struct pmv_chain chain;

	for (unsigned int i = batch->count; i-- && batch->works[i].receiver == receiver && !any;)
		any = batch->works[i].request.chain && batch->works[i].chain_leaves;
	if (!any)
		return false;
	decode(work, &chain);
	return chain.commits;
}

/*
 * name_left -- what the connection has not committed; if its region is gone it can't be.  With a
 * fault this chain is not executed, and the rest is left to the next one.
 */
static enum pmv_fault name_left(struct pmv_regions *regions, struct pmv_work *work)
{
	struct pmv_receiver *receiver = work->receiver;
	enum pmv_fault fault = PMV_FAULT_NONE;
	size_t kept = 0;

	for (size_t i = 0; i < receiver->num_left; i++) {
		const struct pmv_extent left = receiver->left[i];
		struct pmv_region *region = pmv_region_hold(regions, left.key, left.serial);

		if (!region) {
			fault = PMV_FAULT_ACCESS;
			continue;
		}
		receiver->left[kept++] = left;
		if (!pmv_work_name(work, region, left.offset, left.len))
			fault = PMV_FAULT_MEMORY;
		pmv_region_put(regions, region);
	}
	receiver->num_left = fault ? kept : 0;
	return fault;
}

/* leave -- a part is not committed; false: no memory */
static bool leave(struct pmv_receiver *receiver, const struct pmv_extent *part)
{
	size_t count = receiver->num_left;
	struct pmv_extent *near = NULL, *more;
	bool touches = false;

	for (size_t i = 0; i < count && !touches; i++) {
		struct pmv_extent *left = &receiver->left[i];

		if (left->serial != part->serial)
			continue;
		near = left;
		touches = part->offset <= left->offset + left->len &&
			  left->offset <= part->offset + part->len;
	}
	if (touches || (near && count >= APART)) {
		*near = pmv_extent_joined(near, part);
		return true;
	}
	if (!(count & (count - 1)) && (!count || count >= APART)) {
		more = realloc(receiver->left, (count ? 2 * count : APART) * sizeof(*more));
		if (!more)
			return false;
		receiver->left = more;
	}
	receiver->left[receiver->num_left++] = *part;
	return true;
}

/* has_large -- for any slot */
static bool has_large(const struct pmv_receiver *receiver)
{
	for (unsigned int i = 0; i < PMV_REPLIES; i++) {
		if (receiver->large[i])
			return true;
	}
	return false;
}

/* take_large -- the memory for large results that a slot has from now on; NULL: none */
static struct pmv_large_results *take_large(struct pmv_regions *regions,
					    struct pmv_receiver *receiver, unsigned int slot)
{
	struct pmv_large_results **large = &receiver->large[slot];

	if (!*large)
		*large = pmv_large_results_open(receiver->link->engine->engine,
						has_large(receiver) ? &regions->large_results
								    : NULL);
	if (*large)
		atomic_fetch_add(&(*large)->users, 1);
	return *large;
}

enum pmv_fault pmv_chain_work_begin(struct pmv_regions *regions, struct pmv_work *work)
{
	struct pmv_chain chain;

	decode(work, &chain);
	work->chain_commits = chain.commits;
	work->chain_cost = chain.commits * PMV_CHAIN_COST + chain.large_len;
	work->chain_leaves = leaves(&chain);
	work->large = NULL;
	work->reply = malloc(offsetof(struct pmv_reply, results) + chain.results_len);
	if (!work->reply) {
		work->request.chain = work->request.store = false;
		return PMV_FAULT_MEMORY;
	}
	pmv_chain_reply_init(work->reply, &chain);
	if (chain.large_len && !(work->large = take_large(regions, work->receiver, chain.reply)))
		return PMV_FAULT_MEMORY;
	if (!name_all(regions, work, &chain))
		return PMV_FAULT_MEMORY;
	return chain.commits ? name_left(regions, work) : PMV_FAULT_NONE;
}

void pmv_chain_work_end(struct pmv_receiver *receiver, struct pmv_work *work)
{
	struct pmv_chain chain;

	decode(work, &chain);
	if (receiver->attached) {
		if (work->large)
			pmv_large_results_queue(work->large, &chain, work->reply);
		pmv_receiver_queue_reply(receiver, work->request.envelope.number, chain.reply,
					 work->reply, pmv_chain_reply_size(&chain));
	}
	for (size_t i = 0; i < work->num_left; i++) {
		if (!leave(receiver, &pmv_work_left(work)[i]) && !work->fault)
			work->fault = PMV_FAULT_MEMORY;
	}
	pmv_work_free(work);
}
