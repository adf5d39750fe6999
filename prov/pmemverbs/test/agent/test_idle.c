/* SPDX-License-Identifier: BSD-2-Clause */
/* test_idle.c -- the agent's thread beside an application that polls */
#include <unistd.h>

#include "test/agent/idle_scene.h"
#include "test/support/signal_pair.h"

Test(idle, thread_rests_until_the_reads_of_a_queue_have_stopped)
{
	unsigned int rounds;

	scene_begin(1, 1000 * MS);
	rounds = rounds_until(scene.until[0]);
	/* Before it has seen any reads, behind short rests, and each 160 ms. */
	cr_expect_leq(rounds, 20, "%u", rounds);
	cr_expect_leq(scene.sleeps, 20, "%u", scene.sleeps);
	cr_expect_leq(scene.settings, 1200, "%u", scene.settings);
	cr_expect_leq(scene.now - scene.until[0], MS + STEP);
	/* From here on its events wake the thread. */
	rounds_until(scene.now + MS);
	cr_expect(awaits(scene.cqs[0]));
	scene_end();
}

/* What wakes sleepers is masked while they read. */
Test(idle, thread_has_a_queue_wake_it_before_it_awaits_its_events)
{
	struct pmv_signal *mask;
	struct signal_pair pair;

	scene_begin(1, 100 * MS);
	mask = &pmv_to_cq(scene.cqs[0])->queue.signal;
	signal_pair_open(&pair);
	signal_pair_raise(&pair);
	pmv_signal_find(mask, pair.epoll_fd);
	/* It awaits them at first, and then not any more. */
	rounds_until(scene.until[0] - MS);
	cr_assert_not(awaits(scene.cqs[0]));
	for (unsigned int i = 0; i < PMV_SIGNAL_FINDS; i++)
		pmv_signal_found(mask);
	cr_expect_not(signal_pair_wakes(&pair));
	rounds_until(scene.until[0] + 3 * MS);
	cr_assert(awaits(scene.cqs[0]));
	cr_expect(signal_pair_wakes(&pair));
	scene_end();
	signal_pair_close(&pair);
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

/* Whoever reads one queue moves nothing of another one. */
Test(idle, thread_is_woken_by_queues_that_nobody_reads)
{
	char buf[8];

	scene_begin(2, 1000 * MS);
	accepted(fi_recv(&scene.pair->to->ep_fid, buf, sizeof(buf), NULL, 0, CONTEXT(3)));
	scene.until[1] = 0;
	scene.at_each_step = raise_other_queue;
	while (scene.at_each_step)
		pmv_idle(scene.agent, &scene.plan, false);
	cr_expect_eq(scene.now, scene.found);
	scene_end();
}

static void read_the_other_queue(void)
{
	if (scene.now >= scene.until[0])
		scene_read(scene.cqs[1]);
}

Test(idle, reads_of_one_queue_do_not_prolong_the_rest_beside_another_one)
{
	scene_begin(2, 500 * MS);
	scene.until[1] = 0;
	scene.at_each_step = read_the_other_queue;
	rounds_until(scene.until[0]);
	cr_expect_leq(scene.now - scene.until[0], MS + STEP);
	scene_end();
}

Test(idle, thread_sees_that_the_reads_of_one_of_two_queues_have_stopped)
{
	scene_begin(2, 200 * MS);
	scene.until[1] -= 100 * MS;
	rounds_until(scene.until[1]);
	cr_expect_leq(scene.now - scene.until[1], MS);
	rounds_until(scene.until[1] + 2 * MS);
	cr_expect(awaits(scene.cqs[1]));
	rounds_until(scene.until[0]);
	cr_expect_not(awaits(scene.cqs[0]));
	scene_end();
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
	scene_begin(2, 1000 * MS);
	scene.until[1] = 0;
	pmv_agent_leave(scene.agent, &pmv_to_cq(scene.cqs[1])->queue);
	scene.at_each_step = join_other_queue;
	while (scene.at_each_step)
		pmv_idle(scene.agent, &scene.plan, false);
	scene_end();
}

/* It is closed when the thread is about to rest. */
Test(idle, thread_rests_for_a_moment_if_no_queue_is_left)
{
	scene_begin(1, 0);
	pmv_agent_follow(scene.agent, NULL);
	cr_expect_eq(scene.expires, scene.now + MS);
	scene_end();
}

static void read_rarely(void)
{
	if (scene.now >= scene.until[0] && scene.now / STEP % 9 == 0)
		scene_read(scene.cqs[0]);
}

/* A read may move one message, and a request may come behind many. */
Test(idle, reads_that_have_become_rare_do_not_prolong_the_rest)
{
	scene_begin(1, 500 * MS);
	scene.at_each_step = read_rarely;
	rounds_until(scene.until[0]);
	cr_expect_leq(scene.now - scene.until[0], 2 * MS);
	rounds_until(scene.now + MS);
	cr_expect(awaits(scene.cqs[0]));
	scene_end();
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
	scene_begin(1, 1000 * MS);
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
	scene_end();
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
	scene_begin(1, 1000 * MS);
	scene.at_each_step = sleep_now_and_then;
	rounds_until(scene.until[0]);
	scene_end();
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
	scene_begin(1, 1000 * MS);
	scene.at_each_step = kick_while_it_rests;
	while (scene.at_each_step)
		pmv_idle(scene.agent, &scene.plan, false);
	cr_expect_eq(scene.expires, INT64_MAX);
	scene_end();
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
	scene_live();
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
	scene_begin(1, 1000 * MS);
	atomic_store(&scene.agent->kinds[PMV_PAGE], 0);
	scene.at_a_look = call_beside;
	pmv_idle(scene.agent, &scene.plan, false);
	cr_expect_null(scene.at_a_look);
	scene_end();
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

	scene_begin(1, 900 * MS);
	receiver = &scene.pair->to->mailbox.receiver;
	scene.at_each_step = ask_when_reads_stop;
	while (!receiver->served) {
		pmv_idle(scene.agent, &scene.plan, false);
		pmv_agent_serve(scene.agent);
	}
	cr_expect_null(scene.at_each_step);
	cr_expect_leq(scene.now - scene.until[0], MS + STEP);
	expect_done(scene.pair, "F D K");
	scene_end();
}

Test(idle, calls_serve_what_they_have_moved_while_the_thread_rests)
{
	scene_begin(1, 1000 * MS);
	atomic_store(&scene.agent->kinds[PMV_PAGE], 0);
	atomic_store(&scene.agent->asleep, true);
	cr_expect_eq(served_beside(), 0);
	cr_expect(is_kicked(), "the thread does not rest: no call was to look");
	atomic_store(&scene.agent->calls_look, true);
	scene_live();
	cr_expect_eq(served_beside(), 1);
	expect_done(scene.pair, "F D K F D K");
	cr_expect_not(is_kicked());

	/* Somebody holds the lock: it may have looked, and be about to rest. */
	pthread_mutex_lock(&scene.agent->lock);
	cr_expect_eq(served_beside(), 0);
	cr_expect(is_kicked());
	pthread_mutex_unlock(&scene.agent->lock);
	scene_live();

	/* A call ends what is small.  The thread ends the rest. */
	pair_tell_of(scene.pair, DMP, 0, 20000);
	scene_live();
	cr_expect(is_kicked());

	/* No call waits for a disk. */
	atomic_store(&scene.agent->kinds[PMV_PAGE], 2);
	cr_expect_eq(served_beside(), 0);
	cr_expect(is_kicked());
	atomic_store(&scene.agent->asleep, false);
	atomic_store(&scene.agent->calls_look, false);
	scene_end();
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
	scene_begin(1, 1000 * MS);
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
	scene_end();
}
