/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_idle_beside.c -- the agent's thread beside an application that sleeps in fi_cq_sread or on
 * the descriptor, and where only peers do something
 */
#include <unistd.h>

#include "test/agent/idle_scene.h"

static atomic_uint *sleepers_of(int i)
{
	return &pmv_to_cq(scene.cqs[i])->queue.sleepers;
}

/* begin_beside -- the application sleeps in fi_cq_sread, on so many of the queues */
static void begin_beside(int queues, int sleepers)
{
	scene_begin(queues, 0);
	for (int i = 0; i < sleepers; i++)
		atomic_store(sleepers_of(i), 1);
}

/* call -- fi_cq_sread that finds nothing */
static void call(void)
{
	struct fi_cq_tagged_entry entry;

	cr_assert_eq(fi_cq_sread(scene.cqs[0], &entry, 1, NULL, 0), -FI_EAGAIN);
}

/* leave -- the call that slept has ended */
static void leave(void)
{
	atomic_store(sleepers_of(0), 0);
	call();
}

/* end_when_back -- so long after the call the thread has taken the queue over */
static void end_when_back(int64_t most)
{
	cr_expect_leq(scene.now - scene.found, most + STEP);
	rounds_until(scene.now + 1);
	cr_expect(awaits(scene.cqs[0]));
	scene_end();
}

static void expect_left_to_it(void)
{
	cr_assert_not(awaits(scene.cqs[0]));
}

/* What comes there ends the call's sleep: to wake both takes time from the one that waits. */
Test(idle, thread_is_not_woken_by_a_queue_that_is_slept_on)
{
	begin_beside(2, 1);
	scene.at_each_step = expect_left_to_it;
	rounds_until(scene.now + 1000 * MS);
	cr_expect(awaits(scene.cqs[1]));
	/* It sleeps for 10 ms, for 20, and so on up to 200. */
	cr_expect_leq(scene.sleeps, 10, "%u", scene.sleeps);
	cr_expect_eq(scene.expires, INT64_MAX);
	scene_end();
}

static void leave_soon(void)
{
	/* In the longest sleep. */
	if (scene.sleeps < 8)
		return;
	scene.at_each_step = NULL;
	scene.found = scene.now;
	leave();
}

Test(idle, thread_is_back_soon_after_the_call_has_ended)
{
	begin_beside(1, 1);
	scene.at_each_step = leave_soon;
	while (scene.at_each_step)
		pmv_idle(scene.agent, &scene.plan, false);
	end_when_back(PMV_IDLE_LONGEST_AWAY_NS);
}

static void leave_at_a_look(void)
{
	scene.at_a_look = NULL;
	scene.found = scene.now;
	leave();
}

/* Then nothing tells of the end any more. */
Test(idle, thread_sees_a_call_that_ends_while_it_prepares_its_sleep)
{
	begin_beside(2, 1);
	/* At the other queue's descriptor. */
	scene.at_a_look = leave_at_a_look;
	while (!scene.sleeps)
		pmv_idle(scene.agent, &scene.plan, false);
	end_when_back(MS);
}

static void call_again(void)
{
	if (scene.now >= scene.until[0])
		return;
	atomic_fetch_xor(sleepers_of(0), 1);
	if (!atomic_load(sleepers_of(0)))
		call();
}

/* Each call prolongs the rest, and a system call each 200 us is enough for that. */
Test(idle, thread_is_not_woken_beside_calls_that_follow_each_other)
{
	begin_beside(1, 1);
	scene.until[0] = scene.now;
	rounds_until(scene.now + 1);
	scene.until[0] = scene.now + 200 * MS;
	scene.at_each_step = call_again;
	scene.sleeps = scene.settings = 0;
	rounds_until(scene.until[0]);
	cr_expect_leq(scene.sleeps, 8, "%u", scene.sleeps);
	cr_expect_leq(scene.settings, 1100, "%u", scene.settings);
	scene_end();
}

/* There is one timer. */
Test(idle, thread_is_woken_where_two_queues_are_slept_on)
{
	begin_beside(2, 2);
	rounds_until(scene.now + 1);
	cr_expect(awaits(scene.cqs[0]));
	cr_expect(awaits(scene.cqs[1]));
	scene_end();
}

Test(idle, thread_is_woken_by_a_queue_that_is_slept_on_beside_one_that_is_polled)
{
	begin_beside(2, 1);
	scene.until[1] = scene.now + 100 * MS;
	rounds_until(scene.now + 50 * MS);
	cr_expect(awaits(scene.cqs[0]));
	cr_expect_not(awaits(scene.cqs[1]));
	scene_end();
}

/* call_and_kick -- a call ends, and then the thread's sleep */
static void call_and_kick(void)
{
	scene.at_each_step = NULL;
	leave();
	atomic_store(sleepers_of(0), 1);
	pmv_agent_kick(scene.agent);
}

/* The timer was set a moment ago, and is not any more. */
Test(idle, thread_is_back_soon_after_a_call_also_if_it_was_kicked_just_before)
{
	begin_beside(1, 1);
	scene.at_each_step = call_and_kick;
	pmv_idle(scene.agent, &scene.plan, false);
	cr_assert_null(scene.at_each_step);
	scene.sleeps = 8;
	scene.at_each_step = leave_soon;
	while (scene.at_each_step)
		pmv_idle(scene.agent, &scene.plan, false);
	end_when_back(PMV_IDLE_LONGEST_AWAY_NS);
}

/* Whoever is to be served need not wait for a thread that wakes the other one. */
Test(idle, thread_is_woken_where_peers_have_asked_for_something)
{
	begin_beside(1, 1);
	atomic_store(&scene.agent->looks.until_ns, 1);
	rounds_until(scene.now + 1);
	cr_expect(awaits(scene.cqs[0]));
	scene_end();
}

/* Beside an application that waits for the descriptor, and may be elsewhere */

/* answer -- an event of the core */
static void answer(void)
{
	const uint64_t one = 1;

	cr_assert_eq(write(pmv_to_cq(scene.cqs[0])->queue.core_fd, &one, sizeof(one)), sizeof(one));
}

static void wait_for_descriptor(void)
{
	cr_assert_eq(pmv_cq_trywait(pmv_to_cq(scene.cqs[0])), 0);
}

/* answer_and_wait -- it is woken, and back so long after that */
static void answer_and_wait(int64_t ns)
{
	static int64_t answered_ns;

	if (!answered_ns) {
		answered_ns = scene.now;
		answer();
	} else if (scene.now - answered_ns >= ns) {
		answered_ns = 0;
		wait_for_descriptor();
	}
}

static void come_back_at_once(void)
{
	answer_and_wait(STEP);
}

/* As beside calls. */
Test(idle, thread_is_not_woken_where_the_application_comes_back_to_the_descriptor)
{
	begin_beside(2, 0);
	wait_for_descriptor();
	scene.at_each_step = come_back_at_once;
	rounds_until(scene.now + 2 * MS);
	cr_expect_not(awaits(scene.cqs[0]));
	cr_expect(awaits(scene.cqs[1]));
	scene.sleeps = scene.settings = 0;
	rounds_until(scene.now + 200 * MS);
	/* It looks after each 10 ms, and then an event or two show that nothing has changed. */
	cr_expect_leq(scene.sleeps, 80, "%u", scene.sleeps);
	cr_expect_leq(scene.settings, 1200, "%u", scene.settings);
	scene_end();
}

/* What the application does so long after the thread has left the queue to it. */
static int64_t stays_ns;
static void (*then)(void);

static void stay(void)
{
	static int64_t left_ns;

	if (awaits(scene.cqs[0]) || !left_ns)
		left_ns = scene.now;
	if (awaits(scene.cqs[0]) || scene.now - left_ns < stays_ns) {
		come_back_at_once();
		return;
	}
	scene.found = scene.now;
	scene.at_each_step = then;
}

/* expect_back_soon -- in the sleep in which that happens */
static void expect_back_soon(int64_t ns, void (*then_does)(void))
{
	stays_ns = ns;
	then = then_does;
	begin_beside(1, 0);
	wait_for_descriptor();
	scene.at_each_step = stay;
	scene.found = scene.now;
	while (scene.at_each_step == stay && scene.now - scene.found < 100 * MS)
		pmv_idle(scene.agent, &scene.plan, false);
	cr_assert_neq(scene.at_each_step, stay);
	end_when_back(PMV_IDLE_LONGEST_AWAY_NS);
}

Test(idle, thread_is_back_soon_after_the_application_was_at_the_descriptor)
{
	expect_back_soon(MS, NULL);
}

/* No call since the thread has left the queue to it. */
Test(idle, thread_is_back_soon_if_the_application_is_elsewhere_already)
{
	expect_back_soon(0, NULL);
}

static void may_not_sleep(void)
{
	struct pmv_queue *queue = &pmv_to_cq(scene.cqs[0])->queue;

	if (!atomic_load(&queue->num_ready))
		cr_assert(pmv_queue_add(queue, pmv_comp_success(queue, NULL)));
	cr_assert_eq(pmv_cq_trywait(pmv_to_cq(scene.cqs[0])), -FI_EAGAIN);
}

Test(idle, thread_is_back_soon_beside_an_application_that_may_not_sleep)
{
	expect_back_soon(MS, may_not_sleep);
}

static void come_back_late(void)
{
	cr_assert(awaits(scene.cqs[0]));
	answer_and_wait(PMV_IDLE_LONGEST_AWAY_NS);
}

Test(idle, thread_is_woken_where_the_application_comes_back_late)
{
	begin_beside(1, 0);
	wait_for_descriptor();
	scene.at_each_step = come_back_late;
	rounds_until(scene.now + 50 * MS);
	scene_end();
}

Test(idle, thread_is_woken_beside_a_descriptor_where_peers_have_asked_for_something)
{
	begin_beside(1, 0);
	atomic_store(&scene.agent->looks.until_ns, 1);
	wait_for_descriptor();
	scene.at_each_step = come_back_at_once;
	rounds_until(scene.now + 2 * MS);
	cr_expect(awaits(scene.cqs[0]));
	scene_end();
}

/* While the application is away */

static void raise_core(void)
{
	/* Not in a sleep that is short. */
	if (scene.now - scene.found < 100 * US)
		return;
	scene.at_each_step = NULL;
	answer();
}

static void kick(void)
{
	scene.at_each_step = NULL;
	pmv_agent_kick(scene.agent);
}

/* sleeps_after -- the core, or a kick, ends a sleep; does the thread sleep again at once? */
static bool sleeps_after(void (*end)(void))
{
	uint64_t count;

	scene.found = scene.now;
	scene.at_each_step = end;
	pmv_idle(scene.agent, &scene.plan, false);
	cr_assert_null(scene.at_each_step);
	if (end != kick)
		cr_assert_eq(read(pmv_to_cq(scene.cqs[0])->queue.core_fd, &count, sizeof(count)),
			     sizeof(count));
	scene.sleeps = 0;
	pmv_idle(scene.agent, &scene.plan, false);
	return scene.sleeps;
}

/* Over a core that moves data in calls a peer's writes and reads need this end's. */
Test(idle, thread_looks_on_after_what_peers_do)
{
	scene_begin(1, 0);
	cr_expect_not(sleeps_after(raise_core));
	scene.now += PMV_IDLE_LEAST_TRAFFIC_NS - 1;
	pmv_idle(scene.agent, &scene.plan, false);
	cr_expect_eq(scene.sleeps, 0);
	scene.now++;
	cr_expect(sleeps_after(kick));
	scene_end();
}

static void call_and_raise(void)
{
	scene_read(scene.cqs[0]);
	raise_core();
}

/* What has come may be the answer, for which the application waits. */
Test(idle, thread_does_not_look_on_beside_calls)
{
	scene_begin(1, 0);
	cr_expect(sleeps_after(call_and_raise));
	/* Until there have been none for a while. */
	rounds_until(scene.now + MS);
	cr_expect_not(sleeps_after(raise_core));
	scene_end();
}
