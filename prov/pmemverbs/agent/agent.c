/* SPDX-License-Identifier: BSD-2-Clause */
/* agent.c -- the endpoints and regions that the agent works for; agent.h has the rules */
#include "agent/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "agent/receiver.h"
#include "agent/service.h"
#include "progress/queue.h"

/* Opening and closing */

static void release(struct pmv_agent *agent)
{
	if (agent->kick_fd >= 0)
		close(agent->kick_fd);
	if (agent->edges_fd >= 0)
		close(agent->edges_fd);
	if (agent->rest_fd >= 0)
		close(agent->rest_fd);
	free(agent->batch);
}

int pmv_agent_init(struct pmv_agent *agent, const struct pmv_engine *engine)
{
	struct epoll_event event = {.events = EPOLLIN}, edge = {.events = EPOLLIN | EPOLLET};

	agent->engine = engine;
	agent->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	agent->edges_fd = epoll_create1(EPOLL_CLOEXEC);
	agent->rest_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	agent->batch = calloc(1, sizeof(*agent->batch));
	event.data.fd = agent->kick_fd;
	edge.data.fd = agent->rest_fd;
	if (agent->kick_fd < 0 || agent->edges_fd < 0 || agent->rest_fd < 0 || !agent->batch ||
	    epoll_ctl(agent->edges_fd, EPOLL_CTL_ADD, agent->kick_fd, &event) ||
	    epoll_ctl(agent->edges_fd, EPOLL_CTL_ADD, agent->rest_fd, &edge)) {
		int ret = -errno;

		release(agent);
		return ret;
	}
	pmv_look_init(&agent->looks);
	pmv_syncing_init(&agent->syncing);
	agent->hints.fd = -1;
	TAILQ_INIT(&agent->queues);
	TAILQ_INIT(&agent->pinned);
	/* Where software moves the data the kernel sees it. */
	agent->batch->touch = !engine->core->cpu_placed;
	atomic_init(&agent->node, -1);
	pthread_mutex_init(&agent->serving, NULL);
	pthread_mutex_init(&agent->stand_in.acting, NULL);
	pthread_mutex_init(&agent->lock, NULL);
	pthread_cond_init(&agent->unpinned, NULL);
	pmv_regions_init(&agent->regions);
	return 0;
}

void pmv_agent_destroy(struct pmv_agent *agent)
{
	pmv_agent_stop(agent);
	pmv_regions_destroy(&agent->regions);
	pthread_cond_destroy(&agent->unpinned);
	pthread_mutex_destroy(&agent->lock);
	pthread_mutex_destroy(&agent->stand_in.acting);
	pthread_mutex_destroy(&agent->serving);
	pmv_hint_close(&agent->hints);
	release(agent);
}

/* Endpoints */

/*
 * start_if_wanted -- may the peer ask for anything?  It may name regions that are closed by
 * now; and any region where the path reorders writes.  Holds the lock.
 */
static int start_if_wanted(struct pmv_agent *agent, const struct pmv_receiver *receiver)
{
	if (!atomic_load(&agent->was_wanted) && !pmv_setting.relaxed &&
	    !receiver->link->peer.relaxed)
		return 0;
	return pmv_agent_start(agent);
}

int pmv_agent_promise(struct pmv_agent *agent, struct pmv_receiver *receiver)
{
	int ret = 0;

	pthread_mutex_lock(&agent->lock);
	if (!agent->engine->core->manual_progress)
		pmv_hint_open(&agent->hints);
	if (pmv_setting_has_thread())
		ret = start_if_wanted(agent, receiver);
	agent->promises |= !ret;
	pthread_mutex_unlock(&agent->lock);
	return ret;
}

void pmv_agent_expect(struct pmv_agent *agent, const struct pmv_receiver *receiver)
{
	if (!agent->engine->core->manual_progress || !pmv_setting_has_thread())
		return;
	pthread_mutex_lock(&agent->lock);
	/* Without a thread the application drives the core, as it does without pmemverbs. */
	start_if_wanted(agent, receiver);
	agent->promises = true;
	pthread_mutex_unlock(&agent->lock);
}

int pmv_agent_attach(struct pmv_agent *agent, struct pmv_receiver *receiver)
{
	int ret = 0;

	pthread_mutex_lock(&agent->lock);
	if (!receiver->attached && !receiver->closing && receiver->link->opened &&
	    receiver->link->connected) {
		if (!receiver->work)
			receiver->work = malloc(sizeof(*receiver->work));
		if (!receiver->events.unread)
			receiver->events.unread = pmv_unread_open();
		ret = receiver->work && receiver->events.unread ? start_if_wanted(agent, receiver)
								: -FI_ENOMEM;
		if (!ret) {
			receiver->attached = agent->promises = true;
			if (!receiver->number)
				receiver->number = ++agent->last_receiver;
			pmv_look_add(&agent->looks, receiver);
			/* The peer answers with a hint, if hints arrive. */
			pmv_link_hint(receiver->link, true);
		}
	}
	pthread_mutex_unlock(&agent->lock);
	pmv_agent_kick(agent);
	return ret;
}

void pmv_agent_detach(struct pmv_agent *agent, struct pmv_receiver *receiver, bool closing)
{
	pthread_mutex_lock(&agent->lock);
	if (receiver->attached)
		pmv_look_remove(&agent->looks, receiver);
	receiver->attached = false;
	receiver->closing = closing;
	pthread_mutex_unlock(&agent->lock);
}

void pmv_agent_forget(struct pmv_agent *agent, struct pmv_receiver *receiver)
{
	pthread_mutex_lock(&agent->lock);
	/* Whoever stores data holds it: nothing of this endpoint is stored from here on. */
	pthread_mutex_lock(&agent->regions.chains.lock);
	pmv_writeback_drop(agent->batch, receiver);
	pmv_syncing_forget(agent, receiver);
	pthread_mutex_unlock(&agent->regions.chains.lock);
	receiver->syncing = false;
	if (receiver->working)
		pmv_work_free(receiver->work);
	receiver->working = false;
	free(receiver->work);
	receiver->work = NULL;
	free(receiver->left);
	receiver->left = NULL;
	receiver->num_left = 0;
	if (receiver->events.unread)
		pmv_unread_close(receiver->events.unread);
	receiver->events.unread = NULL;
	pthread_mutex_unlock(&agent->lock);
}

void pmv_agent_join(struct pmv_agent *agent, struct pmv_queue *queue)
{
	pthread_mutex_lock(&agent->lock);
	TAILQ_INSERT_TAIL(&agent->queues, queue, next_of_agent);
	pthread_mutex_unlock(&agent->lock);
	/* Its events wake the thread from the next sleep on. */
	pmv_agent_kick(agent);
}

void pmv_agent_leave(struct pmv_agent *agent, struct pmv_queue *queue)
{
	pthread_mutex_lock(&agent->lock);
	TAILQ_REMOVE(&agent->queues, queue, next_of_agent);
	while (queue->pinned)
		pthread_cond_wait(&agent->unpinned, &agent->lock);
	/* If it can't be closed it is used on. */
	if (atomic_exchange(&queue->attended, false)) {
		pmv_queue_listen(queue);
		pmv_queue_wake(queue);
	}
	pthread_mutex_unlock(&agent->lock);
}

/* Memory */

int pmv_agent_want(struct pmv_agent *agent)
{
	int ret = 0;

	pthread_mutex_lock(&agent->lock);
	if (agent->promises)
		ret = pmv_agent_start(agent);
	if (!ret)
		atomic_fetch_add(&agent->wanted, 1);
	atomic_store(&agent->was_wanted, true);
	pthread_mutex_unlock(&agent->lock);
	return ret;
}

void pmv_agent_unwant(struct pmv_agent *agent)
{
	atomic_fetch_sub(&agent->wanted, 1);
}

int pmv_agent_add_region(struct pmv_agent *agent, const struct pmv_region_attr *attr, int node,
			 struct pmv_region **region)
{
	int ret = pmv_agent_want(agent);
	bool kick;

	if (ret)
		return ret;
	*region = pmv_region_add(&agent->regions, attr);
	if (!*region) {
		pmv_agent_unwant(agent);
		return -FI_ENOMEM;
	}
	if (node >= 0)
		atomic_store(&agent->node, node);
	/* As soon as there are files, calls leave to the thread what they have begun. */
	kick = !atomic_fetch_add(&agent->kinds[attr->persist], 1);
	if (attr->needs_agent)
		kick |= !atomic_fetch_add(&agent->needed, 1);
	if (kick)
		pmv_agent_kick(agent);
	return 0;
}

void pmv_agent_remove_region(struct pmv_agent *agent, struct pmv_region *region)
{
	atomic_fetch_sub(&agent->kinds[region->attr.persist], 1);
	if (region->attr.needs_agent)
		atomic_fetch_sub(&agent->needed, 1);
	pmv_region_remove(&agent->regions, region);
	pmv_agent_unwant(agent);
}

bool pmv_agent_watch(struct pmv_agent *agent, struct pmv_queue *queue)
{
	if (!pmv_setting_has_thread())
		return false;
	atomic_store(&queue->watched, true);
	atomic_store(&agent->watched, true);
	if (!atomic_load(&agent->running)) {
		pthread_mutex_lock(&agent->lock);
		pmv_agent_start(agent);
		pthread_mutex_unlock(&agent->lock);
	}
	/* Where calls move them, whoever moves one wakes who sleeps (pmv_agent_nudge). */
	if (!agent->engine->core->manual_progress)
		pmv_agent_kick(agent);
	return atomic_load(&agent->running);
}
