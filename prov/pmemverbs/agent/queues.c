/* SPDX-License-Identifier: BSD-2-Clause */
/* queues.c -- the completion queues that the agent reads; queues.h has the rules */
#include "agent/queues.h"

#include "agent/agent.h"
#include "agent/receiver.h"
#include "progress/queue.h"

/* Pinned queues */

static void pin(struct pmv_agent *agent, struct pmv_queue *queue)
{
	if (!queue || queue->pinned)
		return;
	queue->pinned = true;
	TAILQ_INSERT_HEAD(&agent->pinned, queue, next_pinned);
}

void pmv_queues_pin_both(struct pmv_agent *agent, const struct pmv_receiver *receiver)
{
	pin(agent, receiver->link->owner->tx_queue);
	pin(agent, receiver->link->owner->rx_queue);
}

/* pin_attended -- holds the lock */
static void pin_attended(struct pmv_agent *agent)
{
	struct pmv_queue *queue;

	if (!agent->attends)
		return;
	TAILQ_FOREACH(queue, &agent->queues, next_of_agent)
	{
		if (atomic_load(&queue->attended))
			pin(agent, queue);
	}
}

void pmv_queues_pin(struct pmv_agent *agent, bool all)
{
	struct pmv_receiver *receiver;
	struct pmv_queue *queue;

	if (all) {
		TAILQ_FOREACH(queue, &agent->queues, next_of_agent)
		pin(agent, queue);
	}
	pin_attended(agent);
	if (!agent->looks.held_up)
		return;
	agent->looks.held_up = false;
	TAILQ_FOREACH(receiver, &agent->looks.active, next)
	{
		if (!receiver->starved && (!receiver->refused || receiver->ended))
			continue;
		agent->looks.held_up = true;
		pmv_queues_pin_both(agent, receiver);
	}
}

void pmv_queues_unpin(struct pmv_agent *agent)
{
	struct pmv_queue *queue;

	if (TAILQ_EMPTY(&agent->pinned))
		return;
	pthread_mutex_lock(&agent->lock);
	while ((queue = TAILQ_FIRST(&agent->pinned))) {
		TAILQ_REMOVE(&agent->pinned, queue, next_pinned);
		queue->pinned = false;
	}
	pthread_cond_broadcast(&agent->unpinned);
	pthread_mutex_unlock(&agent->lock);
}

void pmv_queues_call(struct pmv_agent *agent)
{
	struct pmv_queue *queue;

	TAILQ_FOREACH(queue, &agent->pinned, next_pinned)
	pmv_queue_progress(queue, false);
	pmv_queues_unpin(agent);
}

/* Attended queues */

/* still_sleeps -- has the application gone to sleep, and not begun to poll since then? */
static bool still_sleeps(struct pmv_queue *queue)
{
	unsigned arms = atomic_load_explicit(&queue->arms, memory_order_relaxed);
	unsigned reads = atomic_load_explicit(&queue->reads, memory_order_relaxed);

	if (arms != queue->seen_arms)
		queue->app_sleeps = true;
	else if (reads - queue->attend_reads >= PMV_IDLE_POLLING_READS)
		queue->app_sleeps = false;
	queue->seen_arms = arms;
	queue->attend_reads = reads;
	return queue->app_sleeps;
}

/* hand_over -- a pinned one; false: it stays attended */
static bool hand_over(struct pmv_queue *queue)
{
	atomic_store(&queue->attended, false);
	if (pmv_queue_listen(queue)) {
		atomic_store(&queue->attended, true);
		return false;
	}
	/* Something has come already. */
	if (pmv_queue_trywait(queue))
		pmv_queue_wake(queue);
	return true;
}

void pmv_queues_attend(struct pmv_agent *agent, int64_t now)
{
	struct pmv_queue *queue;

	if (now < agent->attend_ns)
		return;
	agent->attend_ns = now + PMV_IDLE_ATTEND_NS;
	pthread_mutex_lock(&agent->lock);
	TAILQ_FOREACH(queue, &agent->queues, next_of_agent)
	{
		bool sleeps = still_sleeps(queue);

		if (sleeps && !atomic_load(&queue->attended) && !pmv_queue_ignore(queue)) {
			atomic_store(&queue->attended, true);
			agent->attends = true;
		} else if (!sleeps && atomic_load(&queue->attended)) {
			pin(agent, queue);
		}
	}
	pthread_mutex_unlock(&agent->lock);
	TAILQ_FOREACH(queue, &agent->pinned, next_pinned)
	hand_over(queue);
	pmv_queues_unpin(agent);
}

bool pmv_queues_hand_over(struct pmv_agent *agent)
{
	struct pmv_queue *queue;
	bool all = true;

	if (!agent->attends)
		return true;
	pthread_mutex_lock(&agent->lock);
	pin_attended(agent);
	pthread_mutex_unlock(&agent->lock);
	TAILQ_FOREACH(queue, &agent->pinned, next_pinned)
	all &= hand_over(queue);
	agent->attends = !all;
	pmv_queues_unpin(agent);
	return all;
}
