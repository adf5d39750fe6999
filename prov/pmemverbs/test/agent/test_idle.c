/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_idle.c -- the agent's thread beside an application that polls, over a core that moves data
 * in calls.  This thread plays both.  The clock stands still, but for the sleeps of the agent's: in
 * these the application reads its queues.
 */
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/idle.h"
#include "objects/cq.h"
#include "objects/ep.h"
#include "test/support/pair.h"

#define US INT64_C(1000)
#define MS (1000 * US)
#define STEP (10 * US)
#define QUEUES 2

static struct {
	struct pair *pair;
	struct pmv_agent *agent;
	struct pmv_idle_plan plan;
	int64_t now, expires;
	struct fid_cq *cqs[QUEUES];
	int64_t until[QUEUES]; /* they are read so long */
	bool finds;            /* each read does */
	int64_t found;         /* the first one that did came then */
	void (*at_each_step)(void);
	void (*at_a_look)(void); /* at a queue's descriptor, before a sleep */
	unsigned int sleeps, settings;
} scene;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time,
		 const sigset_t *set);
int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *old);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time,
		 const sigset_t *set);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *old);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	if (!scene.pair)
		return __real_clock_gettime(id, now);
	*now = (struct timespec){scene.now / 1000000000, scene.now % 1000000000};
	return 0;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	if (!scene.pair || fd != scene.agent->rest_fd)
		return __real_timerfd_settime(fd, flags, when, old);
	scene.settings++;
	scene.expires = when->it_value.tv_nsec ? scene.now + when->it_value.tv_nsec : INT64_MAX;
	return 0;
}

/* read_once -- the application; if it is to find an entry, one that has come before */
static void read_once(struct fid_cq *cq)
{
	struct pmv_queue *queue = &pmv_to_cq(cq)->queue;
	struct fi_cq_tagged_entry entry;

	if (scene.finds)
		cr_assert(pmv_queue_add(queue, pmv_comp_success(queue, NULL)));
	cr_assert_eq(fi_cq_read(cq, &entry, 1), scene.finds ? 1 : -FI_EAGAIN);
}

/* live -- a step of the application's */
static void live(void)
{
	scene.now += STEP;
	for (int i = 0; i < QUEUES; i++) {
		if (scene.now < scene.until[i])
			read_once(scene.cqs[i]);
	}
	if (scene.at_each_step)
		scene.at_each_step();
}

static bool has_expired(void)
{
	if (scene.now < scene.expires)
		return false;
	scene.expires = INT64_MAX;
	return true;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (scene.pair && scene.at_a_look)
		scene.at_a_look();
	return __real_poll(fds, count, timeout_ms);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *set)
{
	const struct timespec none = {0};
	int64_t end;

	if (!scene.pair)
		return __real_ppoll(fds, count, time, set);
	scene.sleeps++;
	end = scene.now + time->tv_sec * 1000 * MS + time->tv_nsec;
	while (scene.now < end) {
		int ready = __real_ppoll(fds, count, &none, set);

		if (ready)
			return ready;
		live();
	}
	return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	int64_t end = scene.now + timeout_ms * MS;

	if (!scene.pair)
		return __real_epoll_wait(fd, events, max, timeout_ms);
	scene.sleeps += timeout_ms != 0;
	while (scene.now < end) {
		int ready = __real_epoll_wait(fd, events, max, 0);

		if (ready || has_expired())
			return ready ? ready : 1;
		live();
	}
	return __real_epoll_wait(fd, events, max, 0);
}

/* begin -- the application reads so many queues for so long */
static void begin(int queues, int64_t ns)
{
	struct pair *pair = pair_open(
		&(struct pair_options){.away = {.wait_obj = FI_WAIT_FD, .own_rx_cq = queues > 1}});

	/* As if there were a thread. */
	pmv_setting.agent = PMV_AGENT_THREAD;
	pair->away->core.manual_progress = true;
	memset(&scene, 0, sizeof(scene));
	scene.agent = pair_agent(pair);
	atomic_store(&scene.agent->running, true);
	scene.now = 1000 * MS;
	scene.expires = INT64_MAX;
	scene.cqs[0] = pair->away->cq;
	scene.cqs[1] = pair->away->rx_cq;
	for (int i = 0; i < queues; i++)
		scene.until[i] = scene.now + ns;
	pmv_idle_plan_init(&scene.plan);
	scene.pair = pair;
}

static void end(void)
{
	struct pair *pair = scene.pair;

	scene.pair = NULL;
	atomic_store(&scene.agent->running, false);
	pair->away->core.manual_progress = false;
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pair_close(pair);
}

/* rounds_until -- how many rounds the thread makes until then */
static unsigned int rounds_until(int64_t ns)
{
	unsigned int rounds = 0;

	for (; scene.now < ns; rounds++)
		pmv_idle(scene.agent, &scene.plan, false);
	return rounds;
}

static bool awaits(struct fid_cq *cq)
{
	return pmv_to_cq(cq)->queue.edges;
}

Test(idle, thread_rests_until_the_reads_of_a_queue_have_stopped)
{
	unsigned int rounds;

	begin(1, 1000 * MS);
	rounds = rounds_until(scene.until[0]);
	/* Before it has seen any reads, behind short rests, and each 160 ms. */
	cr_expect_leq(rounds, 20, "%u", rounds);
	cr_expect_leq(scene.sleeps, 20, "%u", scene.sleeps);
	cr_expect_leq(scene.settings, 1200, "%u", scene.settings);
	cr_expect_leq(scene.now - scene.until[0], MS + STEP);
	/* From here on its events wake the thread. */
	rounds_until(scene.now + MS);
	cr_expect(awaits(scene.cqs[0]));
	end();
}

static void raise_other_queue(void)
{
	/* The longest rest, which ends when the reads stop. */
	if (scene.expires == INT64_MAX)
		return;
	scene.at_each_step = NULL;
	scene.found = scene.now;
	cr_assert(fake_receive(&scene.pair->away->fake, FI_ECANCELED));
	scene.until[0] = 0;
}

/* Who reads one queue moves nothing of another one. */
Test(idle, thread_is_woken_by_queues_that_nobody_reads)
{
	char buf[8];

	begin(2, 1000 * MS);
	accepted(fi_recv(&scene.pair->to->ep_fid, buf, sizeof(buf), NULL, 0, CONTEXT(3)));
	scene.until[1] = 0;
	scene.at_each_step = raise_other_queue;
	while (scene.at_each_step)
		pmv_idle(scene.agent, &scene.plan, false);
	cr_expect_eq(scene.now, scene.found);
	end();
}

static void read_the_other_queue(void)
{
	if (scene.now >= scene.until[0])
		read_once(scene.cqs[1]);
}

Test(idle, reads_of_one_queue_do_not_prolong_the_rest_beside_another_one)
{
	begin(2, 500 * MS);
	scene.until[1] = 0;
	scene.at_each_step = read_the_other_queue;
	rounds_until(scene.until[0]);
	cr_expect_leq(scene.now - scene.until[0], MS + STEP);
	end();
}

Test(idle, thread_sees_that_the_reads_of_one_of_two_queues_have_stopped)
{
	begin(2, 200 * MS);
	scene.until[1] -= 100 * MS;
	rounds_until(scene.until[1]);
	cr_expect_leq(scene.now - scene.until[1], MS);
	rounds_until(scene.until[1] + 2 * MS);
	cr_expect(awaits(scene.cqs[1]));
	rounds_until(scene.until[0]);
	cr_expect_not(awaits(scene.cqs[0]));
	end();
}

static void see_other_queue(void)
{
	if (!awaits(scene.cqs[1]))
		return;
	scene.at_each_step = NULL;
	cr_expect_leq(scene.now - scene.found, MS);
}

static void join_other_queue(void)
{
	if (awaits(scene.cqs[0]) || scene.expires == INT64_MAX)
		return;
	scene.at_each_step = see_other_queue;
	scene.found = scene.now;
	pmv_agent_join(scene.agent, &pmv_to_cq(scene.cqs[1])->queue);
}

/* Nobody reads it yet, and its events come only when the thread has looked at it. */
Test(idle, thread_awaits_a_queue_that_was_opened_while_it_rested)
{
	begin(2, 1000 * MS);
	scene.until[1] = 0;
	pmv_agent_leave(scene.agent, &pmv_to_cq(scene.cqs[1])->queue);
	scene.at_each_step = join_other_queue;
	while (scene.at_each_step)
		pmv_idle(scene.agent, &scene.plan, false);
	end();
}

/* It is closed when the thread is about to rest. */
Test(idle, thread_rests_for_a_moment_if_no_queue_is_left)
{
	begin(1, 0);
	pmv_agent_follow(scene.agent, NULL);
	cr_expect_eq(scene.expires, scene.now + MS);
	end();
}

static void read_rarely(void)
{
	if (scene.now >= scene.until[0] && scene.now / STEP % 9 == 0)
		read_once(scene.cqs[0]);
}

/* A read may move one message, and a request may come behind many. */
Test(idle, reads_that_have_become_rare_do_not_prolong_the_rest)
{
	begin(1, 500 * MS);
	scene.at_each_step = read_rarely;
	rounds_until(scene.until[0]);
	cr_expect_leq(scene.now - scene.until[0], 2 * MS);
	rounds_until(scene.now + MS);
	cr_expect(awaits(scene.cqs[0]));
	end();
}

static void find_entries(void)
{
	if (!scene.finds)
		scene.found = scene.now;
	scene.finds = true;
}

static void expect_awaited(void)
{
	cr_assert(awaits(scene.cqs[0]));
}

/* Whoever takes what has come already need not have the core move more. */
Test(idle, thread_does_not_rest_beside_reads_that_find_entries)
{
	begin(1, 1000 * MS);
	scene.finds = true;
	scene.at_each_step = expect_awaited;
	rounds_until(scene.now + 100 * MS);
	scene.at_each_step = NULL;
	scene.finds = false;
	/* Nothing wakes it, so its sleep has to end. */
	rounds_until(scene.now + 400 * MS);
	cr_expect_not(awaits(scene.cqs[0]));
	scene.at_each_step = find_entries;
	pmv_idle(scene.agent, &scene.plan, false);
	cr_expect_leq(scene.now - scene.found, MS);
	rounds_until(scene.now + 1);
	cr_expect(awaits(scene.cqs[0]));
	end();
}

/* sleep_now_and_then -- the application, for a moment */
static void sleep_now_and_then(void)
{
	cr_assert(awaits(scene.cqs[0]));
	if (scene.now / STEP % 10 == 0)
		cr_assert_eq(pmv_cq_trywait(pmv_to_cq(scene.cqs[0])), 0);
}

/* It would be woken for each message, and the thread would begin a rest behind it. */
Test(idle, thread_does_not_rest_beside_who_sleeps_now_and_then)
{
	begin(1, 1000 * MS);
	scene.at_each_step = sleep_now_and_then;
	rounds_until(scene.until[0]);
	end();
}

static void kick_while_it_rests(void)
{
	if (scene.expires == INT64_MAX)
		return;
	scene.at_each_step = NULL;
	pmv_agent_kick(scene.agent);
}

/* It would end a sleep behind that for nothing. */
Test(idle, timer_of_a_rest_that_was_ended_by_a_kick_does_not_expire)
{
	begin(1, 1000 * MS);
	scene.at_each_step = kick_while_it_rests;
	while (scene.at_each_step)
		pmv_idle(scene.agent, &scene.plan, false);
	cr_expect_eq(scene.expires, INT64_MAX);
	end();
}

static bool is_kicked(void)
{
	uint64_t kicks;

	return read(scene.agent->kick_fd, &kicks, sizeof(kicks)) == sizeof(kicks);
}

/* serve_beside -- a request comes while the thread rests, and the next read moves it */
static unsigned int served_beside(void)
{
	uint64_t before = scene.pair->to->mailbox.receiver.served;

	pair_tell_of(scene.pair, DMP, 0, 8);
	live();
	return (unsigned int) (scene.pair->to->mailbox.receiver.served - before);
}

static void call_beside(void)
{
	scene.at_a_look = NULL;
	atomic_store(&scene.agent->calls_look, true);
	cr_expect_eq(served_beside(), 0);
	cr_expect(is_kicked());
}

/* Both would pin queues, and let them go. */
Test(idle, calls_serve_nothing_while_the_thread_looks_at_queues)
{
	begin(1, 1000 * MS);
	atomic_store(&scene.agent->kinds[PMV_PAGE], 0);
	scene.at_a_look = call_beside;
	pmv_idle(scene.agent, &scene.plan, false);
	cr_expect_null(scene.at_a_look);
	end();
}

static void ask_when_reads_stop(void)
{
	if (scene.now < scene.until[0])
		return;
	scene.at_each_step = NULL;
	pair_tell_of(scene.pair, DMP, 0, 8);
}

/* Not even the longest rest keeps a request waiting for longer than a call may be late. */
Test(idle, thread_serves_what_comes_when_the_reads_have_stopped)
{
	const struct pmv_receiver *receiver;

	begin(1, 900 * MS);
	receiver = &scene.pair->to->mailbox.receiver;
	scene.at_each_step = ask_when_reads_stop;
	while (!receiver->served) {
		pmv_idle(scene.agent, &scene.plan, false);
		pmv_agent_serve(scene.agent);
	}
	cr_expect_null(scene.at_each_step);
	cr_expect_leq(scene.now - scene.until[0], MS + STEP);
	expect_done(scene.pair, "F D K");
	end();
}

Test(idle, calls_serve_what_they_have_moved_while_the_thread_rests)
{
	begin(1, 1000 * MS);
	atomic_store(&scene.agent->kinds[PMV_PAGE], 0);
	atomic_store(&scene.agent->asleep, true);
	cr_expect_eq(served_beside(), 0);
	cr_expect(is_kicked(), "the thread does not rest: no call was to look");
	atomic_store(&scene.agent->calls_look, true);
	live();
	cr_expect_eq(served_beside(), 1);
	expect_done(scene.pair, "F D K F D K");
	cr_expect_not(is_kicked());

	/* Somebody holds the lock: it may have looked, and be about to rest. */
	pthread_mutex_lock(&scene.agent->lock);
	cr_expect_eq(served_beside(), 0);
	cr_expect(is_kicked());
	pthread_mutex_unlock(&scene.agent->lock);
	live();

	/* A call ends what is small.  The thread ends the rest. */
	pair_tell_of(scene.pair, DMP, 0, 20000);
	live();
	cr_expect(is_kicked());

	/* No call waits for a disk. */
	atomic_store(&scene.agent->kinds[PMV_PAGE], 2);
	cr_expect_eq(served_beside(), 0);
	cr_expect(is_kicked());
	atomic_store(&scene.agent->asleep, false);
	atomic_store(&scene.agent->calls_look, false);
	end();
}

static const char file[8];
static struct pmv_region *first_of_files;

static void register_file(void)
{
	const struct iovec iov = {(void *) file, sizeof(file)};
	const struct pmv_region_attr attr = {
		.key = 4711, .persist = PMV_PAGE, .iov = &iov, .iov_count = 1};
	struct fake *fake = &scene.pair->away->fake;

	if (scene.expires == INT64_MAX)
		return;
	scene.at_each_step = NULL;
	/* A call has served a request, and there was no room for the acknowledgement. */
	fake->room = 0;
	cr_expect_eq(served_beside(), 1);
	cr_assert_eq(scene.pair->to->mailbox.receiver.num_queued, 1);
	accepted(pmv_agent_add_region(scene.agent, &attr, -1, &first_of_files));
	fake->room = -1;
	scene.found = scene.now;
}

/* From then on calls serve nothing: what one has begun is the thread's. */
Test(idle, thread_acknowledges_what_calls_have_served_when_there_are_files)
{
	begin(1, 1000 * MS);
	atomic_store(&scene.agent->kinds[PMV_PAGE], 0);
	scene.at_each_step = register_file;
	do {
		pmv_idle(scene.agent, &scene.plan, false);
	} while (scene.at_each_step);
	pmv_agent_serve(scene.agent);
	cr_expect_eq(scene.pair->to->mailbox.receiver.num_queued, 0);
	cr_expect_leq(scene.now - scene.found, STEP);
	pmv_agent_remove_region(scene.agent, first_of_files);
	atomic_store(&scene.agent->kinds[PMV_PAGE], 2);
	end();
}
