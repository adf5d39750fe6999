/* SPDX-License-Identifier: BSD-2-Clause */
/* wake.c -- those that wait for acknowledgements are woken up */
#include "agent/agent.h"

#include "agent/receiver.h"
#include "agent/sender.h"
#include "base/clock.h"
#include "progress/op.h"
#include "progress/queue.h"

static void wake(struct pmv_queue *queue)
{
	if (queue && atomic_exchange(&queue->watched, false))
		pmv_queue_wake(queue);
}

bool pmv_agent_wake_sleepers(struct pmv_agent *agent)
{
	const struct pmv_receiver_list *const lists[] = {&agent->looks.active,
							 &agent->looks.parked};
	struct pmv_receiver *receiver;
	bool all, waits = false;
	int64_t now;

	/* Most targets wait for no acknowledgement, and may have many mailboxes. */
	if (!atomic_exchange(&agent->watched, false))
		return false;
	now = pmv_clock_ns();
	all = now - agent->woke_ns > PMV_IDLE_LOSS_NS;
	if (all)
		agent->woke_ns = now;
	for (int i = 0; i < 2; i++) {
		TAILQ_FOREACH(receiver, lists[i], next)
		{
			const struct pmv_op_owner *owner = receiver->link->owner;

			if (!pmv_queue_is_watched(owner->tx_queue) &&
			    !pmv_queue_is_watched(owner->rx_queue))
				continue;
			atomic_store(&agent->watched, true);
			if (!atomic_load(&receiver->sender->unacked))
				continue;
			waits = true;
			pmv_sender_hint_again(receiver->sender, now);
			if (!all && !pmv_sender_has_ack(receiver->sender))
				continue;
			/* Whoever reads either of them posts what waits for the acknowledgement. */
			wake(owner->tx_queue);
			wake(owner->rx_queue);
		}
	}
	return waits;
}
