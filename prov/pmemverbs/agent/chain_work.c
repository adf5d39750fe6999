/* SPDX-License-Identifier: BSD-2-Clause */
/* chain_work.c -- what a chain needs before it is executed, and after; chain_work.h has the rules
 */
#include "agent/chain_work.h"

#include <stdlib.h>

#include "agent/chain.h"
#include "agent/receiver.h"

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
		named = pmv_writeback_name(work, region, 0, 0);
	else
		pmv_writeback_aim(work, region, 0, 0); /* It waits for pages of the disk, too. */
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

enum pmv_fault pmv_chain_work_begin(struct pmv_regions *regions, struct pmv_work *work)
{
	struct pmv_chain chain;

	decode(work, &chain);
	work->chain_commits = chain.commits;
	work->reply = malloc(pmv_reply_len(chain.results_len));
	if (!work->reply) {
		work->request.chain = work->request.store = false;
		return PMV_FAULT_MEMORY;
	}
	pmv_chain_reply_init(work->reply, &chain);
	return name_all(regions, work, &chain) ? PMV_FAULT_NONE : PMV_FAULT_MEMORY;
}

void pmv_chain_work_end(struct pmv_receiver *receiver, struct pmv_work *work)
{
	struct pmv_chain chain;

	decode(work, &chain);
	work->reply->number = work->request.envelope.number;
	if (receiver->attached)
		pmv_receiver_queue_reply(receiver, chain.reply, work->reply,
					 pmv_reply_len(chain.results_len));
	pmv_writeback_free(work);
}
