/* SPDX-License-Identifier: BSD-2-Clause */
/* descriptors.c -- the descriptors that an agent's thread sleeps on; descriptors.h has the rules */
#include "agent/descriptors.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include <rdma/fi_errno.h>

#include "agent/agent.h"
#include "agent/service.h"
#include "progress/queue.h"

static bool add_fd(struct pmv_agent *agent, int fd)
{
	if (agent->num_fds == agent->max_fds) {
		size_t max = agent->max_fds ? 2 * agent->max_fds : 16;
		struct pollfd *fds = realloc(agent->fds, max * sizeof(*fds));

		if (!fds)
			return false;
		agent->fds = fds;
		agent->max_fds = max;
	}
	agent->fds[agent->num_fds++] = (struct pollfd){.fd = fd, .events = POLLIN};
	return true;
}

/* add_edges -- of a queue, once; the kernel removes a descriptor when it is closed */
static bool add_edges(struct pmv_agent *agent, struct pmv_queue *queue)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	if (!queue->edges && !epoll_ctl(agent->edges_fd, EPOLL_CTL_ADD, queue->core_fd, &event))
		queue->edges = true;
	return queue->edges;
}

/*
 * is_polled -- the application reads the queue all the time, and moves the data that way.
 * If no memory needs the agent the thread would only be in its way.
 */
static bool is_polled(struct pmv_agent *agent, struct pmv_queue *queue)
{
	unsigned reads = atomic_load_explicit(&queue->reads, memory_order_relaxed);
	bool polled = reads - queue->seen_reads >= PMV_IDLE_POLLING_READS;

	queue->seen_reads = reads;
	return polled && !atomic_load(&agent->needed);
}

static enum pmv_descriptors look_at(struct pmv_agent *agent, struct pmv_queue *queue)
{
	int ret;

	if (is_polled(agent, queue) || queue->core_fd < 0 || !add_edges(agent, queue))
		return PMV_DESCRIPTORS_UNKNOWN;
	if (pmv_queue_is_full(queue))
		return PMV_DESCRIPTORS_QUIET;
	ret = pmv_queue_trywait(queue);
	if (ret)
		return ret == -FI_EAGAIN ? PMV_DESCRIPTORS_READY : PMV_DESCRIPTORS_UNKNOWN;
	return add_fd(agent, queue->core_fd) ? PMV_DESCRIPTORS_QUIET : PMV_DESCRIPTORS_UNKNOWN;
}

enum pmv_descriptors pmv_descriptors_find(struct pmv_agent *agent)
{
	enum pmv_descriptors most = PMV_DESCRIPTORS_QUIET;
	struct pmv_queue *queue;

	if (!agent->engine->core->manual_progress)
		return PMV_DESCRIPTORS_UNKNOWN;
	agent->num_fds = 0;
	pmv_service_pin(agent, true);
	TAILQ_FOREACH(queue, &agent->pinned, next_pinned)
	{
		enum pmv_descriptors one = look_at(agent, queue);

		if (one > most)
			most = one;
	}
	if (most == PMV_DESCRIPTORS_QUIET && poll(agent->fds, agent->num_fds, 0) > 0)
		most = PMV_DESCRIPTORS_READY;
	pmv_service_unpin(agent);
	return most;
}

bool pmv_descriptors_wait(struct pmv_agent *agent, int64_t ns)
{
	struct epoll_event events[16];

	return epoll_wait(agent->edges_fd, events, 16, (int) (ns / 1000000)) > 0;
}
