/* SPDX-License-Identifier: BSD-2-Clause */
/* wake.c -- who is woken up: the agent's thread, and those that wait for acknowledgements */
#include "agent/agent.h"

#include <unistd.h>

#include "agent/receiver.h"
#include "agent/sender.h"
#include "agent/service.h"
#include "base/clock.h"
#include "progress/op.h"
#include "progress/queue.h"

void pmv_agent_kick(struct pmv_agent *agent)
{
	const uint64_t one = 1;

	if (atomic_load(&agent->asleep) && write(agent->kick_fd, &one, sizeof(one)) < 0)
		return;
}

void pmv_agent_wake_for_requests(struct pmv_agent *agent)
{
	bool found = true;

	/* Order the data that were moved into a mailbox before the check of `asleep`. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&agent->asleep))
		return;
	/* It may be falling asleep, and have looked already. */
	if (!pthread_mutex_trylock(&agent->lock)) {
		found = pmv_service_waits(agent);
		pthread_mutex_unlock(&agent->lock);
	}
	if (found)
		pmv_agent_kick(agent);
}

struct watch {
	bool all;      /* wake all */
	bool watched;  /* there are queues that somebody may sleep on */
	bool watching; /* ... and waits for an acknowledgement there */
	int64_t now;
};

static void watch_over(const struct pmv_receiver_list *list, struct watch *watch)
{
	struct pmv_receiver *receiver;

	TAILQ_FOREACH(receiver, list, next)
	{
		struct pmv_queue *queue = receiver->link->owner->tx_queue;

		if (!queue || !atomic_load(&queue->watched))
			continue;
		watch->watched = true;
		if (!atomic_load(&receiver->sender->unacked))
			continue;
		watch->watching = true;
		pmv_sender_hint_again(receiver->sender, watch->now);
		if ((watch->all || pmv_sender_has_ack(receiver->sender)) &&
		    atomic_exchange(&queue->watched, false))
			pmv_queue_wake(queue);
	}
}

bool pmv_agent_wake_sleepers(struct pmv_agent *agent)
{
	struct watch watch = {0};

	/* Most targets wait for no acknowledgement, and may have many mailboxes. */
	if (!atomic_exchange(&agent->watched, false))
		return false;
	watch.now = pmv_clock_ns();
	watch.all = watch.now - agent->woke_ns > PMV_IDLE_LOSS_WAKE_NS;
	if (watch.all)
		agent->woke_ns = watch.now;
	watch_over(&agent->looks.active, &watch);
	watch_over(&agent->looks.parked, &watch);
	if (watch.watched)
		atomic_store(&agent->watched, true);
	return watch.watching;
}
