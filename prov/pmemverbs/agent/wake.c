/* SPDX-License-Identifier: BSD-2-Clause */
/* wake.c -- the agent's thread sleeps, and is woken up; wake.h says when */
#include "agent/wake.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/mailbox.h"
#include "agent/service.h"
#include "base/clock.h"
#include "progress/op.h"
#include "progress/queue.h"

/* After the last request the thread looks for more this long without sleeping ... */
#define SPIN_NS 50000
/* ... then it sleeps longer and longer, but no commit may take a millisecond. */
#define LEAST_SLEEP_NS 20000
#define LONGEST_SLEEP_NS 700000
/*
 * Where peers can flush all memory with READs, they may still ask for received messages,
 * or because their path reorders writes.  That is rare.  Only the first request waits this
 * long, and processes without such requests keep their processor.
 */
#define DOZE_NS 20000000
/* How often threads that wait for acknowledgements check that the peer is still there. */
#define LOSS_WAKE_NS 200000000
/* With descriptors: a thread of the core may move data without any event. */
#define LEAST_EVENT_MS 10
#define LONGEST_EVENT_MS 160
/* Where one of them is always ready, and may hide events of others. */
#define STUCK_EVENT_MS 2
/* A call may move as little as one message; this many fit into a socket's buffer. */
#define MOST_PATIENCE 2048
#define LEAST_PATIENCE 8
/* After this many reads during one sleep of the thread, the application is polling. */
#define POLLING_READS 16

/* Waking */

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

bool pmv_agent_watch(struct pmv_agent *agent, struct pmv_queue *queue)
{
	if (pmv_setting.agent != PMV_AGENT_THREAD)
		return false;
	atomic_store(&queue->watched, true);
	atomic_store(&agent->watched, true);
	if (!atomic_load(&agent->running)) {
		pthread_mutex_lock(&agent->lock);
		pmv_agent_start(agent);
		pthread_mutex_unlock(&agent->lock);
	}
	pmv_agent_kick(agent);
	return atomic_load(&agent->running);
}

/*
 * wake_sleepers -- wake those whose acknowledgements have arrived; and now and then all,
 * so that they check the connection.  Holds the lock.
 */
static bool wake_sleepers(struct pmv_agent *agent)
{
	bool watching = false, watched = false;
	struct pmv_mailbox *mailbox;
	int64_t now;
	bool all;

	/* Most targets wait for no acknowledgement, and may have many mailboxes. */
	if (!atomic_exchange(&agent->watched, false))
		return false;
	now = pmv_clock_ns();
	all = now - agent->woke_ns > LOSS_WAKE_NS;
	if (all)
		agent->woke_ns = now;

	TAILQ_FOREACH(mailbox, &agent->mailboxes, next)
	{
		struct pmv_queue *queue = mailbox->owner->tx_queue;

		if (!queue || !atomic_load(&queue->watched))
			continue;
		watched = true;
		if (!atomic_load(&mailbox->unacked))
			continue;
		watching = true;
		if ((all || pmv_mailbox_has_ack(mailbox)) &&
		    atomic_exchange(&queue->watched, false))
			pmv_queue_wake(queue);
	}
	if (watched)
		atomic_store(&agent->watched, true);
	return watching;
}

/* Descriptors */

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

enum readiness {
	QUIET,
	READY,
	UNKNOWN, /* a queue can't be waited for, or need not be: the application polls it */
};

/*
 * is_polled -- the application reads the queue all the time, and moves the data that way.
 * If no memory needs the agent the thread would only be in its way.
 */
static bool is_polled(struct pmv_agent *agent, struct pmv_queue *queue)
{
	unsigned reads = atomic_load_explicit(&queue->reads, memory_order_relaxed);
	bool polled = reads - queue->seen_reads >= POLLING_READS;

	queue->seen_reads = reads;
	return polled && !atomic_load(&agent->needed);
}

static enum readiness look_at(struct pmv_agent *agent, struct pmv_queue *queue)
{
	int ret;

	if (is_polled(agent, queue) || queue->core_fd < 0 || !add_edges(agent, queue))
		return UNKNOWN;
	if (pmv_queue_is_full(queue))
		return QUIET;
	ret = pmv_queue_trywait(queue);
	if (ret)
		return ret == -FI_EAGAIN ? READY : UNKNOWN;
	return add_fd(agent, queue->core_fd) ? QUIET : UNKNOWN;
}

/* find_events -- must a core be called again before the thread can sleep on descriptors? */
static enum readiness find_events(struct pmv_agent *agent)
{
	enum readiness most = QUIET;
	struct pmv_queue *queue;

	if (!agent->engine->core->driven)
		return UNKNOWN;
	agent->num_fds = 0;
	pmv_service_pin(agent, true);
	TAILQ_FOREACH(queue, &agent->pinned, next_pinned)
	{
		enum readiness one = look_at(agent, queue);

		if (one > most)
			most = one;
	}
	if (most == QUIET && poll(agent->fds, agent->num_fds, 0) > 0)
		most = READY;
	pmv_service_unpin(agent);
	return most;
}

/* Sleeping */

static void wake_up(struct pmv_agent *agent)
{
	uint64_t kicks;

	atomic_store(&agent->asleep, false);
	atomic_fetch_add(&agent->sleeps, 1);
	if (read(agent->kick_fd, &kicks, sizeof(kicks)) < 0)
		return;
}

static void sleep_blind(struct pmv_agent *agent, struct pmv_rest *rest, bool watching)
{
	bool driven = agent->engine->core->driven;
	/* The application may stop calling the core at any time. */
	bool needed = driven || rest->asked || atomic_load(&agent->needed);
	int64_t longest = needed ? LONGEST_SLEEP_NS : DOZE_NS;
	struct pollfd fd = {.fd = agent->kick_fd, .events = POLLIN};
	struct timespec ts;

	if (watching)
		rest->sleep_ns = LEAST_SLEEP_NS;
	else if (rest->sleep_ns > longest)
		rest->sleep_ns = longest;
	ts = (struct timespec){.tv_nsec = rest->sleep_ns};
	ppoll(&fd, 1, &ts, NULL);
	wake_up(agent);
	rest->sleep_ns *= 2;
}

static void sleep_on_events(struct pmv_agent *agent, struct pmv_rest *rest, bool stuck)
{
	struct epoll_event events[16];
	int ms = stuck ? STUCK_EVENT_MS : rest->sleep_ms;
	bool woken = epoll_wait(agent->edges_fd, events, 16, ms) > 0;

	wake_up(agent);
	rest->calls = 0;
	rest->sleep_ms *= 2;
	if (woken)
		rest->sleep_ms = LEAST_EVENT_MS;
	else if (rest->sleep_ms > LONGEST_EVENT_MS)
		rest->sleep_ms = LONGEST_EVENT_MS;
}

void pmv_rest_begin(struct pmv_rest *rest)
{
	/* Short sleeps are not to be lengthened by the default slack of 50 us. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	rest->sleep_ns = LEAST_SLEEP_NS;
	rest->sleep_ms = LEAST_EVENT_MS;
	rest->patience = MOST_PATIENCE;
}

/*
 * fall_asleep -- from here on a kick ends the sleep.  Then look for requests that came
 * without a kick: other threads move data, and preparing the sleep may do so, too.  False:
 * there is something to do.
 */
static bool fall_asleep(struct pmv_agent *agent, enum readiness *events, bool *watching)
{
	bool waits;

	atomic_store(&agent->asleep, true);
	*events = find_events(agent);
	pthread_mutex_lock(&agent->lock);
	*watching = wake_sleepers(agent);
	waits = pmv_service_waits(agent);
	pthread_mutex_unlock(&agent->lock);
	if (waits || atomic_load(&agent->stop))
		atomic_store(&agent->asleep, false);
	return atomic_load(&agent->asleep);
}

void pmv_rest(struct pmv_agent *agent, struct pmv_rest *rest, bool busy)
{
	enum readiness events;
	bool watching;

	if (busy) {
		rest->asked = true;
		rest->spin_until_ns = pmv_clock_ns() + SPIN_NS;
		rest->sleep_ns = LEAST_SLEEP_NS;
		rest->sleep_ms = LEAST_EVENT_MS;
		rest->calls = 0;
	}
	if (busy || pmv_clock_ns() < rest->spin_until_ns) {
		pthread_mutex_lock(&agent->lock);
		wake_sleepers(agent);
		pthread_mutex_unlock(&agent->lock);
		return;
	}
	if (!fall_asleep(agent, &events, &watching))
		return;
	if (events == QUIET) {
		rest->patience = MOST_PATIENCE;
		sleep_on_events(agent, rest, false);
	} else if (events == UNKNOWN) {
		sleep_blind(agent, rest, watching);
	} else if (++rest->calls < rest->patience) {
		atomic_store(&agent->asleep, false);
	} else {
		rest->patience =
			rest->patience / 2 > LEAST_PATIENCE ? rest->patience / 2 : LEAST_PATIENCE;
		sleep_on_events(agent, rest, true);
	}
}
