/* SPDX-License-Identifier: BSD-2-Clause */
/* idle.c -- the agent's thread between its rounds; idle.h has the rules */
#include "agent/idle.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "agent/agent.h"
#include "agent/queues.h"
#include "agent/receiver.h"
#include "agent/service.h"
#include "base/clock.h"
#include "base/relax.h"
#include "progress/queue.h"

/* likely_until -- a request is; over a NIC peers rely on the windows that they were told */
static int64_t likely_until(const struct pmv_agent *agent, const struct pmv_idle_plan *plan,
			    int64_t now)
{
	int64_t until = atomic_load(&agent->looks.until_ns);

	if (agent->engine->core->manual_progress && pmv_syncing_lets_sleep(&agent->syncing, now))
		return 0;
	return plan->traffic_until_ns > until ? plan->traffic_until_ns : until;
}

/* sleep_for -- until what ends such a sleep comes; false: nothing did in this time */
static bool sleep_for(struct pmv_agent *agent, enum pmv_idle_action how, int64_t ns)
{
	const struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	bool listens = how == PMV_IDLE_SLEEP_SOCKET;
	struct pollfd fds[] = {
		{.fd = how == PMV_IDLE_REST ? agent->edges_fd : agent->kick_fd, .events = POLLIN},
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

		sleep_for(agent, PMV_IDLE_SLEEP_KICK, 1);
		took = pmv_clock_ns() - start;
		least = took < least ? took : least;
	}
	return least;
}

void pmv_idle_prepare_thread(void)
{
	/* Short sleeps are not to be lengthened by the default slack of 50 us. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
}

void pmv_idle_begin(struct pmv_agent *agent, struct pmv_idle_plan *plan)
{
	pmv_idle_prepare_thread();
	pmv_idle_plan_init(plan);
	/* Where every call moves data, looking for requests disturbs who moves them. */
	if (!agent->engine->core->manual_progress)
		agent->looks.bound_ns = pmv_idle_plan_bound(time_sleep(agent));
}

/* Hints */

/* heed -- look into the mailbox that a hint names; false: it is forged, or late, or repeated */
static bool heed(struct pmv_agent *agent, const struct pmv_hint *hint, int64_t now)
{
	struct pmv_receiver *receiver = pmv_look_find(&agent->looks, hint->key);

	if (!receiver || !pmv_hint_is_genuine(hint, &receiver->hint_in) ||
	    !pmv_look_hinted(&agent->looks, receiver, hint->ask, now))
		return false;
	if (hint->ask)
		pmv_link_hint(receiver->link, false);
	return true;
}

bool pmv_idle_listen(struct pmv_agent *agent, int64_t now)
{
	struct {
		struct pmv_hint hint;
		char more; /* a datagram that is too long does not pass for a hint */
	} buf;
	unsigned int count = 0, heeded = 0;
	ssize_t len;

	while (count < PMV_IDLE_LISTEN_MOST &&
	       (len = pmv_hint_receive(&agent->hints, &buf, sizeof(buf))) >= 0) {
		count++;
		pthread_mutex_lock(&agent->lock);
		heeded += len == sizeof(buf.hint) && heed(agent, &buf.hint, now);
		pthread_mutex_unlock(&agent->lock);
	}
	return heeded || !count;
}

void pmv_idle_ask_for_hints(struct pmv_agent *agent)
{
	struct pmv_receiver *receiver;

	/* Their mailboxes are active. */
	TAILQ_FOREACH(receiver, &agent->looks.active, next)
	{
		if (receiver->look.hinted)
			continue;
		pmv_link_hint(receiver->link, true);
		pmv_look_asked(&agent->looks, receiver);
	}
}

/* Descriptors */

/* add_edges -- of a queue, once; the kernel removes a descriptor when it is closed */
static bool add_edges(struct pmv_agent *agent, struct pmv_queue *queue)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = queue->core_fd};

	if (!queue->edges && !epoll_ctl(agent->edges_fd, EPOLL_CTL_ADD, queue->core_fd, &event))
		queue->edges = true;
	return queue->edges && !pmv_queue_hold(queue);
}

/* drop_edges -- its events end no sleep any more: who reads it moves the data */
static void drop_edges(struct pmv_agent *agent, struct pmv_queue *queue)
{
	if (!queue->edges || epoll_ctl(agent->edges_fd, EPOLL_CTL_DEL, queue->core_fd, NULL))
		return;
	queue->edges = false;
	pmv_queue_let_go(queue);
}

/* note_arms -- was the application about to sleep since the last look: does it come back? */
static void note_arms(struct pmv_queue *queue, bool armed, int64_t now)
{
	queue->comes_back = armed && now - queue->armed_ns < PMV_IDLE_LONGEST_AWAY_NS;
	if (armed)
		queue->armed_ns = now;
}

/* is_polled -- the application reads it without pause, and does not sleep in between */
static bool is_polled(struct pmv_queue *queue, int64_t now)
{
	unsigned reads = atomic_load_explicit(&queue->reads, memory_order_relaxed);
	unsigned arms = atomic_load_explicit(&queue->arms, memory_order_relaxed);
	bool sleeps = arms != queue->polled_arms;
	int64_t ns = now - queue->seen_ns;

	note_arms(queue, sleeps, now);
	queue->polled =
		!sleeps && pmv_idle_plan_is_polled(queue->polled, reads - queue->seen_reads, ns);
	if (sleeps || ns >= PMV_IDLE_FIRST_NAP_NS) {
		queue->seen_reads = reads;
		queue->seen_ns = now;
		queue->polled_arms = arms;
	}
	return queue->polled;
}

static enum pmv_descriptors look_at(struct pmv_agent *agent, struct pmv_queue *queue)
{
	struct pollfd fd = {.fd = queue->core_fd, .events = POLLIN};
	int ret;

	if (queue->core_fd < 0 || !add_edges(agent, queue))
		return PMV_DESCRIPTORS_UNKNOWN;
	ret = pmv_queue_trywait(queue);
	if (ret && ret != -FI_EAGAIN)
		return PMV_DESCRIPTORS_UNKNOWN;
	return ret || poll(&fd, 1, 0) > 0 ? PMV_DESCRIPTORS_READY : PMV_DESCRIPTORS_QUIET;
}

/*
 * is_slept_on -- in a call, which all that comes ends, or on its descriptor, to which the
 * application comes back soon each time; who serves requests is not to wait for it
 */
static bool is_slept_on(const struct pmv_agent *agent, const struct pmv_queue *queue)
{
	return (atomic_load(&queue->sleepers) || queue->comes_back) &&
	       !atomic_load(&agent->looks.until_ns);
}

/* count_calls -- of the application, that move data, or are about to sleep */
static unsigned int count_calls(struct pmv_agent *agent)
{
	struct pmv_queue *queue;
	unsigned int calls = 0;

	pthread_mutex_lock(&agent->lock);
	TAILQ_FOREACH(queue, &agent->queues, next_of_agent)
	calls += atomic_load_explicit(&queue->reads, memory_order_relaxed) +
		 atomic_load_explicit(&queue->arms, memory_order_relaxed);
	pthread_mutex_unlock(&agent->lock);
	return calls;
}

/* find_readers -- whose calls move the data: queues that are polled, or one that is slept on */
static void find_readers(struct pmv_agent *agent, struct pmv_idle_facts *facts, int64_t now)
{
	struct pmv_queue *queue, *slept_on = NULL;
	unsigned int sleeping = 0, calls = count_calls(agent);

	facts->polled = 0;
	TAILQ_FOREACH(queue, &agent->pinned, next_pinned)
	{
		queue->slept_on = false;
		facts->polled += is_polled(queue, now);
		if (is_slept_on(agent, queue)) {
			slept_on = queue;
			sleeping++;
		}
	}
	if (calls != agent->seen_calls)
		agent->called_ns = now;
	agent->seen_calls = calls;
	/* There is one timer, which tells that somebody has left. */
	facts->slept_on = !facts->polled && sleeping == 1;
	if (facts->slept_on)
		slept_on->slept_on = true;
}

/* find_descriptors -- must a core be called again before the thread can sleep on descriptors? */
static void find_descriptors(struct pmv_agent *agent, struct pmv_idle_facts *facts, int64_t now)
{
	struct pmv_queue *queue;

	facts->descriptors = PMV_DESCRIPTORS_UNKNOWN;
	if (!agent->engine->core->manual_progress)
		return;
	facts->descriptors = PMV_DESCRIPTORS_QUIET;
	/* Calls of the application that serve pin queues, too. */
	pthread_mutex_lock(&agent->serving);
	pthread_mutex_lock(&agent->lock);
	pmv_queues_pin(agent, true);
	pthread_mutex_unlock(&agent->lock);
	find_readers(agent, facts, now);
	TAILQ_FOREACH(queue, &agent->pinned, next_pinned)
	{
		enum pmv_descriptors one = PMV_DESCRIPTORS_QUIET;

		if (queue->polled || queue->slept_on)
			drop_edges(agent, queue);
		else
			one = look_at(agent, queue);
		if (one > facts->descriptors)
			facts->descriptors = one;
	}
	pmv_queues_unpin(agent);
	pthread_mutex_unlock(&agent->serving);
}

/* Awake */

/* search -- find requests whose hints were lost, or dropped here, and ask for hints */
static void search(struct pmv_agent *agent, bool dropped, int64_t now)
{
	pthread_mutex_lock(&agent->lock);
	pmv_agent_wake_sleepers(agent);
	pmv_look_everywhere(&agent->looks, dropped, now);
	pmv_look_park(&agent->looks, now);
	pmv_idle_ask_for_hints(agent);
	pthread_mutex_unlock(&agent->lock);
}

/* Asleep */

/* attend -- the queues of applications that sleep */
static void attend(struct pmv_agent *agent, int64_t now)
{
	if (now < agent->attend_ns)
		return;
	pthread_mutex_lock(&agent->serving);
	pmv_queues_attend(agent, now);
	pthread_mutex_unlock(&agent->serving);
}

/* hand_over -- the queues of applications that sleep; false: the thread must stay awake */
static bool hand_over(struct pmv_agent *agent)
{
	bool all;

	if (!agent->attends)
		return true;
	pthread_mutex_lock(&agent->serving);
	all = pmv_queues_hand_over(agent);
	pthread_mutex_unlock(&agent->serving);
	return all;
}

/*
 * prepare -- from here on a kick ends the sleep.  Then look for requests that came without a
 * kick: other threads move data, and preparing the sleep may do so, too.
 */
static void prepare(struct pmv_agent *agent, const struct pmv_idle_plan *plan,
		    struct pmv_idle_facts *facts, int64_t *now)
{
	struct pmv_looks *looks = &agent->looks;
	bool handed_over;

	atomic_store(&agent->asleep, true);
	handed_over = hand_over(agent);
	find_descriptors(agent, facts, *now);
	*now = pmv_clock_ns();
	pthread_mutex_lock(&agent->lock);
	facts->watching = pmv_agent_wake_sleepers(agent);
	facts->waits = pmv_service_waits(agent);
	facts->until_ns = likely_until(agent, plan, *now);
	pmv_look_park(looks, *now);
	facts->unfinished = looks->unfinished;
	facts->expecting = looks->expecting;
	facts->unhinted = looks->unhinted;
	pthread_mutex_unlock(&agent->lock);
	facts->waits |=
		atomic_load(&agent->stop) || !handed_over || atomic_load(&agent->stand_in.returns);
	facts->needed = atomic_load(&agent->needed);
	facts->prepared = true;
}

/* follow -- the rest begins; calls of the one queue that is polled, or slept on, prolong it */
static void follow(struct pmv_agent *agent)
{
	struct pmv_queue *queue, *followed = NULL;

	pthread_mutex_lock(&agent->lock);
	TAILQ_FOREACH(queue, &agent->queues, next_of_agent)
	followed = queue->polled || queue->slept_on ? queue : followed;
	pmv_agent_follow(agent, followed);
	pthread_mutex_unlock(&agent->lock);
}

/* unfollow -- it has ended.  If the reads have stopped, they have to be seen again. */
static void unfollow(struct pmv_agent *agent, bool woken)
{
	struct pmv_queue *queue;

	pmv_agent_unfollow(agent);
	if (!woken)
		return;
	pthread_mutex_lock(&agent->lock);
	TAILQ_FOREACH(queue, &agent->queues, next_of_agent)
	{
		queue->polled = false;
		queue->seen_reads = atomic_load_explicit(&queue->reads, memory_order_relaxed);
		queue->seen_ns = pmv_clock_ns();
	}
	pthread_mutex_unlock(&agent->lock);
}

/* wait_for_edges -- or a kick; false: neither came in this time.  *core: one of a queue has come */
static bool wait_for_edges(struct pmv_agent *agent, int64_t ns, bool *core)
{
	struct epoll_event events[16];
	int count = epoll_wait(agent->edges_fd, events, 16, (int) (ns / 1000000));

	*core = false;
	for (int i = 0; i < count; i++)
		*core |= events[i].data.fd != agent->kick_fd && events[i].data.fd != agent->rest_fd;
	return count > 0;
}

/* is_away -- the application has made no call for a while: traffic has come, and no answer */
static bool is_away(struct pmv_agent *agent, int64_t now)
{
	return count_calls(agent) == agent->seen_calls &&
	       now - agent->called_ns >= PMV_IDLE_LONGEST_NAP_NS;
}

/* how_it_ended -- a sleep; core: by an event of a queue */
static enum pmv_idle_event how_it_ended(struct pmv_agent *agent, enum pmv_idle_action how,
					bool woken, bool core, int64_t now)
{
	if (how == PMV_IDLE_SLEEP_DESCRIPTORS && core && is_away(agent, now))
		return PMV_IDLE_TRAFFIC;
	return woken ? PMV_IDLE_WOKEN : PMV_IDLE_SLEPT;
}

static void sleep_now(struct pmv_agent *agent, struct pmv_idle_plan *plan, enum pmv_idle_action how,
		      int64_t ns)
{
	bool follows = how == PMV_IDLE_FOLLOW || how == PMV_IDLE_SLEEP_BESIDE;
	bool woken, core = false;
	uint64_t kicks;
	int64_t now;

	if (follows)
		follow(agent);
	if (follows || how == PMV_IDLE_SLEEP_DESCRIPTORS)
		woken = wait_for_edges(agent, ns, &core);
	else
		woken = sleep_for(agent, how, ns) &&
			(how != PMV_IDLE_REST || wait_for_edges(agent, 0, &core));
	if (follows)
		unfollow(agent, woken);
	atomic_store(&agent->asleep, false);
	atomic_fetch_add(&agent->sleeps, 1);
	if (woken)
		atomic_fetch_add(&agent->wakes, 1);
	now = pmv_clock_ns();
	pmv_idle_plan_tell(plan, how_it_ended(agent, how, woken, core, now), now);
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
		else if (facts->never_sleeps || *now < facts->until_ns)
			attend(agent, *now);
		return false;
	case PMV_IDLE_LISTEN:
		/* Others may have had the processor for long: what is heard now is not old. */
		if (!pmv_idle_listen(agent, pmv_clock_ns()))
			pmv_idle_plan_tell(plan, PMV_IDLE_FORGED, *now);
		return true;
	case PMV_IDLE_SEARCH:
		search(agent, plan->dropped, *now);
		return true;
	case PMV_IDLE_PREPARE:
		prepare(agent, plan, facts, now);
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
	if (atomic_load(&agent->watched)) {
		pthread_mutex_lock(&agent->lock);
		pmv_agent_wake_sleepers(agent);
		pthread_mutex_unlock(&agent->lock);
	}
	do {
		if (!facts.prepared) {
			/* Only this thread changes `expecting`. */
			facts.expecting = agent->looks.expecting;
			facts.unhinted = atomic_load(&agent->looks.unhinted);
			facts.all_active =
				!facts.unhinted && !atomic_load(&agent->looks.num_parked);
			facts.until_ns = likely_until(agent, plan, now);
			facts.calls =
				atomic_load_explicit(&agent->looking_calls, memory_order_relaxed);
		}
		action = pmv_idle_plan_next(plan, &facts, now, &ns);
		atomic_store_explicit(&agent->calls_look, plan->calls_look, memory_order_relaxed);
	} while (carry_out(agent, plan, action, &facts, &now, ns));
	if (action == PMV_IDLE_LOOK && !busy)
		pmv_relax();
}
