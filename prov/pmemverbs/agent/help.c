/* SPDX-License-Identifier: BSD-2-Clause */
/* help.c -- an application that polls looks for requests; help.h says why */
#include "agent/help.h"

#include "agent/agent.h"
#include "agent/service.h"
#include "agent/writeback.h"

/* A call does no more than that for a connection, and syncs nothing. */
#define SMALL_SLICE ((struct pmv_slice){16 << 10, 1})

void pmv_help(struct pmv_agent *agent)
{
	struct pmv_help *help = &agent->help;
	unsigned long calls = atomic_load_explicit(&help->calls, memory_order_relaxed);
	bool files = atomic_load(&agent->kinds[PMV_PAGE]), waits = false;

	atomic_store_explicit(&help->calls, calls + 1, memory_order_relaxed);
	if (pthread_mutex_trylock(&agent->serving))
		return;
	if (!pthread_mutex_trylock(&agent->lock)) {
		waits = files ? pmv_service_waits(agent) : pmv_service_glance(agent);
		pthread_mutex_unlock(&agent->lock);
	}
	if (waits && !files)
		pmv_service_round(agent, SMALL_SLICE);
	/* The thread may have fallen asleep meanwhile: it goes on with what is left. */
	if (waits && (files || !atomic_load(&help->wanted)))
		pmv_agent_kick(agent);
	pthread_mutex_unlock(&agent->serving);
}
