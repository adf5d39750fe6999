/* SPDX-License-Identifier: BSD-2-Clause */
/* events.c -- the target's counters of what initiators write (FI_RMA_EVENT) */
#include "world.h"

#include "objects/cntr.h"

static struct fid_cntr *open_counter(void)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr;

	sure(fi_cntr_open(world.target.domain, &attr, &cntr, NULL), "a counter of events");
	return cntr;
}

void events_open(void)
{
	if (!world.events)
		return;
	world.eps_events = open_counter();
	world.mrs_events = open_counter();
	for (int i = 0; i < MEMORIES; i++) {
		if (world.mr[i])
			sure(fi_mr_bind(world.mr[i], &world.mrs_events->fid, FI_REMOTE_WRITE),
			     "a region's counter");
	}
}

void events_bind(struct fid_ep *ep)
{
	if (world.events)
		sure(fi_ep_bind(ep, &world.eps_events->fid, FI_REMOTE_WRITE),
		     "a counter of events");
}

/* count -- as it is now: nobody has to look for it to be right */
static uint64_t count(struct fid_cntr *cntr)
{
	return atomic_load(&pmv_to_cntr(cntr)->count.value);
}

void events_add(enum op_kind kind)
{
	bool fetches = kind == OP_FETCH || kind == OP_COMPARE;

	if (!world.events || kind == OP_READ || kind == OP_SEND || kind == OP_CHAIN)
		return;
	/* For an endpoint one that fetches is a read. */
	world.writes += !fetches;
	world.atomics += fetches;
	if (count(world.eps_events) < world.writes ||
	    count(world.mrs_events) < world.writes + world.atomics)
		sched_fail("a write has ended, and was not counted at the target");
}

void events_close(void)
{
	if (!world.events)
		return;
	if (count(world.eps_events) > world.writes + world.ops_failed ||
	    count(world.mrs_events) > world.writes + world.atomics + world.ops_failed)
		sched_fail("more writes were counted at the target than there were");
	sure(fi_close(&world.eps_events->fid), "to close a counter");
	sure(fi_close(&world.mrs_events->fid), "to close a counter");
}
