/* SPDX-License-Identifier: BSD-2-Clause */
/* thread.c -- starts and stops the agents' threads */
#include "agent/agent.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <numa.h>

#include <rdma/fi_errno.h>

#include "agent/idle.h"
#include "agent/queues.h"
#include "base/clock.h"
#include "base/fork_lock.h"
#include "base/log.h"
#include "base/spawn.h"

/* The process waits this long for all of its threads together when it ends. */
#define LAST_WAIT_NS 500000000

static bool move_to_node(int node)
{
	if (numa_available() >= 0 && node <= numa_max_node())
		numa_run_on_node(node);
	return true;
}

/* watch_disks -- as soon as there are files, a second thread is to be there */
static void watch_disks(struct pmv_agent *agent)
{
	if (!agent->stand_in.started && atomic_load(&agent->kinds[PMV_PAGE]) &&
	    pmv_stand_in_begin(agent))
		pmv_syncing_begin(agent);
}

/* sync_group -- one of a quick disk; true: there was one, which the next round concludes */
static bool sync_group(struct pmv_agent *agent)
{
	struct pmv_sync_disk *disk = agent->stand_in.started ? pmv_syncing_take_group(agent) : NULL;

	if (!disk)
		return false;
	pthread_mutex_lock(&agent->serving);
	pmv_queues_hand_over(agent);
	pthread_mutex_unlock(&agent->serving);
	pmv_stand_in_leave(agent);
	pmv_syncing_carry_out(agent, disk);
	pmv_stand_in_return(agent);
	/* Acknowledgements are to wake nobody. */
	pthread_mutex_lock(&agent->serving);
	pmv_queues_attend(agent, pmv_clock_ns());
	pthread_mutex_unlock(&agent->serving);
	return true;
}

static void *run(void *arg)
{
	struct pmv_agent *agent = arg;
	struct pmv_idle_plan plan;
	bool placed = false;

	pthread_mutex_lock(&agent->stand_in.acting);
	pmv_idle_begin(agent, &plan);
	while (!atomic_load(&agent->stop)) {
		bool busy;

		if (!placed && atomic_load(&agent->node) >= 0)
			placed = move_to_node(atomic_load(&agent->node));
		watch_disks(agent);
		busy = pmv_stand_in_round(agent);
		busy |= sync_group(agent);
		pmv_idle(agent, &plan, busy);
	}
	pthread_mutex_unlock(&agent->stand_in.acting);
	pmv_stand_in_end(agent);
	/* The next one may wait for a disk. */
	pthread_mutex_lock(&agent->serving);
	pmv_queues_hand_over(agent);
	pthread_mutex_unlock(&agent->serving);
	pmv_syncing_end(agent);
	return NULL;
}

/* All that run. */
static LIST_HEAD(, pmv_agent) threads = LIST_HEAD_INITIALIZER(threads);
static struct pmv_fork_lock threads_lock = PMV_FORK_LOCK_INITIALIZER;

/* take_out -- of the list: whoever does that may join the thread.  Holds threads_lock. */
static void take_out(struct pmv_agent *agent)
{
	LIST_REMOVE(agent, next_running);
	agent->listed = 0;
}

static void hold(void)
{
	pmv_fork_lock(&threads_lock);
}

static void let_go(void)
{
	pmv_fork_unlock(&threads_lock);
}

/*
 * forget -- in a child: the threads are the parent's, and a thread of the child's may get the
 * memory, and so the pthread_t, of one of them
 */
static void forget(void)
{
	pmv_fork_child(&threads_lock);
	LIST_INIT(&threads);
}

static void forget_in_children(void)
{
	pthread_atfork(hold, let_go, forget);
}

int pmv_agent_start(struct pmv_agent *agent)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int ret;

	if (atomic_load(&agent->running) || !pmv_setting_has_thread())
		return 0;
	/* Of signals it takes its own faults alone (guard.h). */
	ret = pmv_spawn(&agent->thread, "pmemverbs", run, agent, SIGBUS);
	if (ret) {
		if (!agent->start_failed)
			PMV_WARN(DOMAIN,
				 "the agent's thread can't be started (%s): see the limits on "
				 "threads (ulimit -u, pids.max of the cgroup), or set "
				 "FI_PMEMVERBS_AGENT=progress\n",
				 strerror(ret));
		agent->start_failed = true;
		/* Whoever gets -FI_EAGAIN, of fi_recv too, tries again for ever. */
		return ret == EAGAIN ? -FI_ENOMEM : -ret;
	}
	agent->start_failed = false;
	atomic_store(&agent->running, true);
	pthread_once(&once, forget_in_children);
	pmv_fork_lock(&threads_lock);
	LIST_INSERT_HEAD(&threads, agent, next_running);
	agent->listed = threads_lock.process;
	pmv_fork_unlock(&threads_lock);
	return 0;
}

static void tell_to_stop(struct pmv_agent *agent)
{
	atomic_store(&agent->stop, true);
	pmv_agent_kick(agent);
}

void pmv_agent_stop(struct pmv_agent *agent)
{
	bool listed;

	/* Only one may join it: the process may be ending meanwhile. */
	pmv_fork_lock(&threads_lock);
	listed = agent->listed == threads_lock.process;
	if (listed)
		take_out(agent);
	pmv_fork_unlock(&threads_lock);
	if (!listed)
		return;
	tell_to_stop(agent);
	pthread_join(agent->thread, NULL);
	atomic_store(&agent->running, false);
}

/*
 * A thread in a sync that takes minutes, or that waits for a lock of this thread's, is left
 * running: the provider's code stays mapped, and the process ends anyway
 */
void pmv_agent_stop_all(void)
{
	struct pmv_agent *agent;
	struct timespec end;

	if (!pmv_fork_trylock(&threads_lock))
		return;
	LIST_FOREACH(agent, &threads, next_running)
	tell_to_stop(agent);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += LAST_WAIT_NS;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	while ((agent = LIST_FIRST(&threads))) {
		take_out(agent);
		if (!pthread_timedjoin_np(agent->thread, NULL, &end))
			atomic_store(&agent->running, false);
	}
	pmv_fork_unlock(&threads_lock);
}
