/* SPDX-License-Identifier: BSD-2-Clause */
/* idle.c -- the agent's thread between its rounds; idle_plan.h decides what it does */
#include "agent/idle.h"

#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/descriptors.h"
#include "agent/listen.h"
#include "agent/service.h"
#include "agent/wake.h"
#include "base/clock.h"

/* sleep_for -- until it is kicked or, if it listens, a hint comes; false: the time is over */
static bool sleep_for(struct pmv_agent *agent, int64_t ns, bool listens)
{
	const struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	struct pollfd fds[] = {
		{.fd = agent->kick_fd, .events = POLLIN},
		{.fd = listens ? agent->hints.fd : -1, .events = POLLIN},
	};

	return ppoll(fds, 2, &ts, NULL) > 0;
}

/* time_sleep -- how long the shortest sleep takes */
static int64_t time_sleep(struct pmv_agent *agent)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < PMV_IDLE_TIMED_SLEEPS; i++) {
		int64_t start = pmv_clock_ns(), took;

		sleep_for(agent, 1, false);
		took = pmv_clock_ns() - start;
		least = took < least ? took : least;
	}
	return least;
}

void pmv_idle_begin(struct pmv_agent *agent, struct pmv_idle_plan *plan)
{
	/* Short sleeps are not to be lengthened by the default slack of 50 us. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	pmv_idle_plan_init(plan);
	/* Where every call moves data, looking for requests disturbs who moves them. */
	if (!agent->engine->core->manual_progress)
		agent->looks.bound_ns = pmv_idle_plan_bound(time_sleep(agent));
}

/* Awake */

/* search -- find requests whose hints were lost, and ask for hints */
static void search(struct pmv_agent *agent, int64_t now)
{
	pthread_mutex_lock(&agent->lock);
	pmv_wake_sleepers(agent);
	pmv_look_everywhere(&agent->looks, now);
	pmv_look_park(&agent->looks, now);
	pmv_listen_ask(agent);
	pthread_mutex_unlock(&agent->lock);
}

static void wake_sleepers(struct pmv_agent *agent)
{
	if (!atomic_load(&agent->watched))
		return;
	pthread_mutex_lock(&agent->lock);
	pmv_wake_sleepers(agent);
	pthread_mutex_unlock(&agent->lock);
}

/* Asleep */

/*
 * prepare -- from here on a kick ends the sleep.  Then look for requests that came without a
 * kick: other threads move data, and preparing the sleep may do so, too.
 */
static void prepare(struct pmv_agent *agent, struct pmv_idle_facts *facts, int64_t *now)
{
	struct pmv_looks *looks = &agent->looks;

	atomic_store(&agent->asleep, true);
	facts->descriptors = pmv_descriptors_find(agent);
	*now = pmv_clock_ns();
	pthread_mutex_lock(&agent->lock);
	facts->watching = pmv_wake_sleepers(agent);
	facts->waits = pmv_service_waits(agent);
	facts->until_ns = atomic_load(&looks->until_ns);
	pmv_look_park(looks, *now);
	facts->unfinished = looks->unfinished;
	facts->expecting = looks->expecting;
	facts->unhinted = looks->unhinted;
	pthread_mutex_unlock(&agent->lock);
	facts->waits |= atomic_load(&agent->stop);
	facts->needed = atomic_load(&agent->needed);
	facts->prepared = true;
}

static void sleep_now(struct pmv_agent *agent, struct pmv_idle_plan *plan, enum pmv_idle_action how,
		      int64_t ns)
{
	bool woken = how == PMV_IDLE_SLEEP_DESCRIPTORS
			     ? pmv_descriptors_wait(agent, ns)
			     : sleep_for(agent, ns, how == PMV_IDLE_SLEEP_SOCKET);
	uint64_t kicks;

	atomic_store(&agent->asleep, false);
	atomic_fetch_add(&agent->sleeps, 1);
	if (woken)
		atomic_fetch_add(&agent->wakes, 1);
	pmv_idle_plan_tell(plan, woken ? PMV_IDLE_WOKEN : PMV_IDLE_SLEPT, 0);
	if (woken && read(agent->kick_fd, &kicks, sizeof(kicks)) < 0)
		return;
}

/* carry_out -- true: and then ask again */
static bool carry_out(struct pmv_agent *agent, struct pmv_idle_plan *plan,
		      enum pmv_idle_action action, struct pmv_idle_facts *facts, int64_t *now,
		      int64_t ns)
{
	switch (action) {
	case PMV_IDLE_LOOK:
		if (facts->prepared)
			atomic_store(&agent->asleep, false);
		return false;
	case PMV_IDLE_LISTEN:
		if (!pmv_listen(agent, *now))
			pmv_idle_plan_tell(plan, PMV_IDLE_FORGED, *now);
		return true;
	case PMV_IDLE_SEARCH:
		search(agent, *now);
		return true;
	case PMV_IDLE_PREPARE:
		prepare(agent, facts, now);
		return true;
	default:
		sleep_now(agent, plan, action, ns);
		return false;
	}
}

void pmv_idle(struct pmv_agent *agent, struct pmv_idle_plan *plan, bool busy)
{
	struct pmv_idle_facts facts = {
		.never_sleeps = pmv_setting.agent == PMV_AGENT_BUSY,
		.in_calls = agent->engine->core->manual_progress,
	};
	int64_t now = pmv_clock_ns(), ns = 0;
	enum pmv_idle_action action;

	pmv_idle_plan_tell(plan, busy ? PMV_IDLE_BUSY : PMV_IDLE_NOTHING, now);
	wake_sleepers(agent);
	do {
		if (!facts.prepared) {
			/* Only this thread changes `expecting`. */
			facts.expecting = agent->looks.expecting;
			facts.unhinted = atomic_load(&agent->looks.unhinted);
			facts.until_ns = atomic_load(&agent->looks.until_ns);
			facts.calls =
				atomic_load_explicit(&agent->help.calls, memory_order_relaxed);
		}
		action = pmv_idle_plan_next(plan, &facts, now, &ns);
		atomic_store_explicit(&agent->help.wanted, plan->wants_help, memory_order_relaxed);
	} while (carry_out(agent, plan, action, &facts, &now, ns));
}
