/* SPDX-License-Identifier: BSD-2-Clause */
/* help.c -- an application that polls looks for requests; help.h says why */
#include "agent/help.h"

#include "agent/agent.h"
#include "agent/service.h"
#include "agent/writeback.h"

/* Who calls less often does not look as well as the thread would. */
#define MOST_BETWEEN_CALLS_NS 50000
/* How often the thread checks that: when it is awake, and when it naps. */
#define CHECK_NS 50000
#define LONGEST_NAP_NS 1000000
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

int64_t pmv_help_nap(struct pmv_help *help, int64_t now)
{
	unsigned long calls = atomic_load_explicit(&help->calls, memory_order_relaxed);
	int64_t time = now - help->checked_ns;
	bool starts = !atomic_load_explicit(&help->wanted, memory_order_relaxed);

	if (!starts && time < CHECK_NS)
		return 0;
	atomic_store_explicit(&help->wanted, true, memory_order_relaxed);
	if (starts || (int64_t) (calls - help->checked_calls) < time / MOST_BETWEEN_CALLS_NS)
		help->nap_ns = 0;
	else if (!help->nap_ns)
		help->nap_ns = CHECK_NS;
	else if (help->nap_ns < LONGEST_NAP_NS)
		help->nap_ns *= 2;
	help->checked_calls = calls;
	help->checked_ns = now;
	return help->nap_ns;
}

void pmv_help_end(struct pmv_help *help)
{
	atomic_store_explicit(&help->wanted, false, memory_order_relaxed);
}
