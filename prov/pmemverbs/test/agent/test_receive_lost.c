/* SPDX-License-Identifier: BSD-2-Clause */
/* test_receive_lost.c -- more received messages than the agent has room to remember */
#include <criterion/criterion.h>

#include "agent/receive_tracker.h"
#include "agent/receiver.h"
#include "agent/writeback.h"

#define MESSAGES 1200
#define DEPTH 16

static char memory[MESSAGES][64];

/* receive_all -- each in a region of its own, so that no two are one range */
static void receive_all(struct pmv_receive_tracker *receives, struct pmv_regions *regions)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct iovec iov = {memory[i], sizeof(memory[i])};
		const struct pmv_region_attr attr = {.key = i + 1,
						     .persist = PMV_DMP,
						     .use = PMV_REGION_REMOTE | PMV_REGION_PMEM,
						     .iov = &iov,
						     .iov_count = 1};

		cr_assert(pmv_region_add(regions, &attr));
		pmv_receive_tracker_add(receives, regions, &iov, 1);
	}
}

/* A commit is for all messages before it. */
Test(receives, that_were_not_named_fail_all_commits_from_then_on)
{
	static struct pmv_receiver receiver = {.number = 1};
	struct pmv_receive_tracker receives;
	struct pmv_regions regions;

	pmv_regions_init(&regions);
	pmv_receive_tracker_init(&receives, DEPTH, true);
	receive_all(&receives, &regions);
	for (int i = 0; i < 3; i++) {
		struct pmv_work work = {0};

		pmv_writeback_begin(&work, &receiver);
		cr_expect_eq(pmv_receive_tracker_serve(&receives, &regions, MESSAGES, &work),
			     PMV_FAULT_MEMORY, "commit %d", i);
		pmv_writeback_free(&work);
	}
}
