/* SPDX-License-Identifier: BSD-2-Clause */
/* stand_in.c -- the second thread of an agent; stand_in.h has the rules */
#include "agent/stand_in.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/idle.h"
#include "agent/service.h"
#include "agent/syncing.h"
#include "base/log.h"
#include "base/spawn.h"

/* set_timer -- 0: it does not expire */
static void set_timer(struct pmv_stand_in *stand_in, long ns)
{
	const struct itimerspec when = {.it_value = {.tv_nsec = ns}};

	timerfd_settime(stand_in->timer_fd, 0, &when, NULL);
}

bool pmv_stand_in_round(struct pmv_agent *agent)
{
	bool busy;

	pthread_mutex_lock(&agent->serving);
	busy = pmv_service_round(agent, PMV_WHOLE_SLICE);
	pthread_mutex_unlock(&agent->serving);
	return busy;
}

/* act -- until the agent's thread is back */
static void act(struct pmv_agent *agent)
{
	struct pmv_idle_plan plan;

	pmv_idle_plan_init(&plan);
	pmv_syncing_all_beside(agent, true);
	while (atomic_load(&agent->stand_in.away) && !atomic_load(&agent->stop))
		pmv_idle(agent, &plan, pmv_stand_in_round(agent));
	pmv_syncing_all_beside(agent, false);
}

static void *run(void *arg)
{
	struct pmv_agent *agent = arg;
	struct pmv_stand_in *stand_in = &agent->stand_in;
	uint64_t expired;

	pmv_idle_prepare_thread();
	while (!atomic_load(&agent->stop)) {
		if (read(stand_in->timer_fd, &expired, sizeof(expired)) < 0) {
			if (errno == EINTR)
				continue;
			break;
		}
		if (pthread_mutex_trylock(&stand_in->acting))
			continue;
		if (atomic_load(&stand_in->away))
			act(agent);
		pthread_mutex_unlock(&stand_in->acting);
	}
	return NULL;
}

bool pmv_stand_in_begin(struct pmv_agent *agent)
{
	struct pmv_stand_in *stand_in = &agent->stand_in;
	int ret;

	if (stand_in->failed)
		return false;
	stand_in->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	ret = stand_in->timer_fd < 0 ? errno : 0;
	/* It runs where this thread does. */
	if (!ret)
		ret = pmv_spawn(&stand_in->thread, "pmv-stand-in", run, agent, SIGBUS);
	if (!ret)
		return stand_in->started = true;
	if (stand_in->timer_fd >= 0)
		close(stand_in->timer_fd);
	PMV_WARN(DOMAIN,
		 "no second thread of the agent can be started (%s): commits to other memory wait "
		 "for syncs of files; see the limits on threads (ulimit -u, pids.max of the "
		 "cgroup) and on descriptors (ulimit -n)\n",
		 strerror(ret));
	stand_in->failed = true;
	return false;
}

void pmv_stand_in_end(struct pmv_agent *agent)
{
	struct pmv_stand_in *stand_in = &agent->stand_in;

	if (!stand_in->started)
		return;
	set_timer(stand_in, 1);
	pthread_join(stand_in->thread, NULL);
	close(stand_in->timer_fd);
	stand_in->started = false;
}

void pmv_stand_in_leave(struct pmv_agent *agent)
{
	struct pmv_stand_in *stand_in = &agent->stand_in;

	/* The timer last: it expires once, and finds nobody acting. */
	atomic_store(&stand_in->away, true);
	pthread_mutex_unlock(&stand_in->acting);
	set_timer(stand_in, PMV_SYNC_QUICK_NS);
}

void pmv_stand_in_return(struct pmv_agent *agent)
{
	struct pmv_stand_in *stand_in = &agent->stand_in;

	atomic_store(&stand_in->away, false);
	set_timer(stand_in, 0);
	if (!pthread_mutex_trylock(&stand_in->acting))
		return;
	atomic_store(&stand_in->returns, true);
	pmv_agent_kick(agent);
	pthread_mutex_lock(&stand_in->acting);
	atomic_store(&stand_in->returns, false);
}
