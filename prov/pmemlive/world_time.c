/* SPDX-License-Identifier: BSD-2-Clause */
/* world_time.c -- the world, and the time in which nobody had to do anything */
#include "world.h"

struct world world;

int64_t world_stopped_ns(void)
{
	int64_t since = world.stops_since_ns;

	return world.stopped_ns + (since ? sched_now_ns - since : 0);
}

int64_t world_synced_ns(void)
{
	return world.synced_ns + (world.syncs ? sched_now_ns - world.syncs_since_ns : 0);
}
