/* SPDX-License-Identifier: BSD-2-Clause */
/* calls.c -- the application's calls look for requests, or wake the agent's thread for them */
#include "agent/agent.h"

#include <sys/timerfd.h>

#include "agent/idle_plan.h"
#include "agent/receiver.h"
#include "agent/sender.h"
#include "agent/service.h"
#include "base/clock.h"
#include "progress/op.h"
#include "progress/queue.h"

/*
 * What one call does for a connection, at most: a sixteenth of what the thread does in a round, as
 * the application waits for it.  It syncs nothing.
 */
#define SMALL_SLICE ((struct pmv_slice){16 << 10, 1})

/* goes_on -- a call has done a part of a request: it would take many calls to end it */
static bool goes_on(struct pmv_agent *agent)
{
	const struct pmv_receiver *receiver;
	bool any = false;

	pthread_mutex_lock(&agent->lock);
	TAILQ_FOREACH(receiver, &agent->looks.active, next)
	any |= receiver->working;
	pthread_mutex_unlock(&agent->lock);
	return any;
}

bool pmv_agent_look_in_call(struct pmv_agent *agent)
{
	unsigned long calls = atomic_load_explicit(&agent->looking_calls, memory_order_relaxed);
	bool files, waits = false, looked;

	atomic_store_explicit(&agent->looking_calls, calls + 1, memory_order_relaxed);
	if (pthread_mutex_trylock(&agent->serving))
		return false;
	/* Either it sees them, or the thread, which is kicked for them, sees what it does. */
	files = atomic_load(&agent->kinds[PMV_PAGE]);
	looked = !pthread_mutex_trylock(&agent->lock);
	if (looked) {
		waits = files ? pmv_service_waits(agent) : pmv_service_glance(agent);
		pthread_mutex_unlock(&agent->lock);
	}
	if (waits && !files)
		pmv_service_round(agent, SMALL_SLICE);
	/* The thread goes on with what is left; it may have fallen asleep meanwhile. */
	if (waits && (files || !atomic_load(&agent->calls_look) || goes_on(agent)))
		pmv_agent_kick(agent);
	pthread_mutex_unlock(&agent->serving);
	return looked;
}

void pmv_agent_serve(struct pmv_agent *agent)
{
	if (pthread_mutex_trylock(&agent->serving))
		return;
	pmv_service_round(agent, PMV_WHOLE_SLICE);
	pthread_mutex_unlock(&agent->serving);
}

/* set_timer -- 0: it does not expire, and what it has to tell is forgotten */
static void set_timer(struct pmv_agent *agent, int64_t ns)
{
	const struct itimerspec when = {.it_value = {.tv_nsec = ns}};

	timerfd_settime(agent->rest_fd, 0, &when, NULL);
}

static void prolong(struct pmv_agent *agent, unsigned int reads, int64_t now, int64_t ns)
{
	atomic_store_explicit(&agent->followed_reads, reads, memory_order_relaxed);
	atomic_store_explicit(&agent->followed_ns, now, memory_order_relaxed);
	set_timer(agent, ns);
}

void pmv_agent_follow(struct pmv_agent *agent, const struct pmv_queue *queue)
{
	atomic_store_explicit(&agent->followed_ns, 0, memory_order_relaxed);
	/* A call that ends from here on sees who follows it. */
	atomic_store(&agent->followed, queue);
	/*
	 * It may have ended, or the queue been closed, since it was looked at.  Whoever waits for
	 * the descriptor may be elsewhere at any time.
	 */
	if (!queue || !queue->slept_on || !atomic_load(&queue->sleepers))
		prolong(agent, queue ? atomic_load(&queue->reads) : 0, pmv_clock_ns(),
			queue && queue->slept_on ? PMV_IDLE_LONGEST_AWAY_NS
						 : PMV_IDLE_LONGEST_NAP_NS);
}

void pmv_agent_unfollow(struct pmv_agent *agent)
{
	atomic_store(&agent->followed, NULL);
	/* A read that is about to set it still ends one sleep early, and no more. */
	set_timer(agent, 0);
}

void pmv_agent_prolong_rest(struct pmv_agent *agent, const struct pmv_queue *queue)
{
	int64_t now = pmv_clock_ns();
	int64_t ns = now - atomic_load_explicit(&agent->followed_ns, memory_order_relaxed);
	unsigned int before = atomic_load_explicit(&agent->followed_reads, memory_order_relaxed);
	unsigned int reads = atomic_load_explicit(&queue->reads, memory_order_relaxed);

	/* Not each time: it takes as long as some reads. */
	if (ns > PMV_IDLE_LONGEST_NAP_NS - 2 * PMV_IDLE_MOST_BETWEEN_CALLS_NS &&
	    pmv_idle_plan_is_polled(false, reads - before, ns))
		prolong(agent, reads, now, PMV_IDLE_LONGEST_NAP_NS);
}

void pmv_agent_await_next_call(struct pmv_agent *agent, const struct pmv_queue *queue)
{
	int64_t now = pmv_clock_ns();

	if (now - atomic_load_explicit(&agent->followed_ns, memory_order_relaxed) >
	    PMV_IDLE_LONGEST_AWAY_NS / 2)
		prolong(agent, atomic_load_explicit(&queue->reads, memory_order_relaxed), now,
			PMV_IDLE_LONGEST_AWAY_NS);
}

/* Those that wait for acknowledgements are woken up */

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

/* has_work -- for the thread, which sleeps; and wake who waits for acknowledgements */
static bool has_work(struct pmv_agent *agent)
{
	bool found;

	/* It may be falling asleep, and have looked already. */
	if (pthread_mutex_trylock(&agent->lock))
		return true;
	found = pmv_service_waits(agent);
	/* Whoever waits for one sleeps, or is about to. */
	pmv_agent_wake_sleepers(agent);
	pthread_mutex_unlock(&agent->lock);
	return found;
}

void pmv_agent_wake_for_requests(struct pmv_agent *agent)
{
	unsigned int looks = 0;
	bool kicks = false;

	if (atomic_load(&agent->calls_look) && pmv_agent_look_in_call(agent) &&
	    !atomic_load(&agent->watched))
		return;
	/* Order the data that were moved into a mailbox before the check of `asleep`. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&agent->asleep))
		return;
	/*
	 * Of many calls at a time one looks for all: again, if it is nudged meanwhile.  Whoever
	 * leaves it to that one has set `nudged` before it found `nudging` set; and the kick comes
	 * behind that, so the thread looks for it as well.
	 */
	atomic_store(&agent->nudged, true);
	while (!kicks && atomic_load(&agent->nudged) && !atomic_exchange(&agent->nudging, true)) {
		atomic_exchange(&agent->nudged, false);
		kicks = ++looks > PMV_IDLE_MOST_LOOKS || has_work(agent);
		atomic_store(&agent->nudging, false);
	}
	if (kicks)
		pmv_agent_kick(agent);
}
