/* SPDX-License-Identifier: BSD-2-Clause */
/* test_queues.c -- the agent reads the queues of applications that sleep (agent/queues.h) */
#include "test/support/pair.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/queues.h"
#include "agent/service.h"
#include "objects/cq.h"

/* Calls of the kernel that fail. */

static atomic_bool listening_fails;

int __real_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
	if (atomic_load(&listening_fails) && op == EPOLL_CTL_MOD && event->events) {
		errno = EINVAL;
		return -1;
	}
	return __real_epoll_ctl(epoll_fd, op, fd, event);
}

/* An application, whose agent does what the test says */

struct scene {
	struct pair *pair;
	struct rig *rig; /* the application's */
	struct pmv_agent *agent;
	struct pmv_queue *queue;
	int64_t now;
	int written;
};

static struct scene begin(void)
{
	struct scene scene = {
		.pair = pair_open(&(struct pair_options){.away = {.wait_obj = FI_WAIT_FD}}),
	};

	scene.rig = scene.pair->away;
	scene.agent = pair_agent(scene.pair);
	scene.queue = &pmv_to_cq(scene.rig->cq)->queue;
	/* As if there were a thread: the test plays it, and none is started beside it. */
	pmv_setting.agent = PMV_AGENT_THREAD;
	atomic_store(&scene.agent->running, true);
	return scene;
}

/* fall_asleep -- the application is about to; the descriptor may be waited on */
static void fall_asleep(struct scene *scene)
{
	accepted(pmv_cq_trywait(pmv_to_cq(scene->rig->cq)));
}

static bool is_woken(struct scene *scene)
{
	struct pollfd fd = {.fd = scene->queue->epoll_fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static void attend(struct scene *scene)
{
	scene->now += PMV_IDLE_ATTEND_NS;
	pthread_mutex_lock(&scene->agent->serving);
	pmv_queues_attend(scene->agent, scene->now);
	pthread_mutex_unlock(&scene->agent->serving);
}

static bool hand_over(struct scene *scene)
{
	bool all;

	pthread_mutex_lock(&scene->agent->serving);
	all = pmv_queues_hand_over(scene->agent);
	pthread_mutex_unlock(&scene->agent->serving);
	return all;
}

/* round_of -- as the thread makes it */
static void round_of(struct scene *scene)
{
	pthread_mutex_lock(&scene->agent->serving);
	pmv_service_round(scene->agent, PMV_WHOLE_SLICE);
	pthread_mutex_unlock(&scene->agent->serving);
}

/* write_something -- a completion for the application is in the core's queue */
static void write_something(struct scene *scene)
{
	accepted(rig_write(scene->rig, KEY_PLAIN, CONTEXT(++scene->written)));
	cr_assert_eq(fake_complete(&scene->rig->fake, 1), 1);
}

static void expect_written(struct scene *scene)
{
	rig_expect(scene->rig, CONTEXT(scene->written), RIG_WRITTEN);
}

static bool is_attended(struct scene *scene)
{
	return atomic_load(&scene->queue->attended);
}

static void end(struct scene *scene)
{
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pair_close(scene->pair);
}

Test(queues, wake_nobody_for_acknowledgements_while_they_are_attended)
{
	struct scene scene = begin();

	fall_asleep(&scene);
	attend(&scene);
	cr_assert(is_attended(&scene));
	for (int i = 0; i < 3; i++) {
		pair_tell_of(scene.pair, DMP, 0, 8);
		round_of(&scene);
		cr_assert_eq(fake_complete(&scene.rig->fake, SIZE_MAX), 1);
		round_of(&scene);
		pair_expect_ack(scene.pair, i + 1, PMV_FAULT_NONE);
	}
	cr_expect_not(is_woken(&scene));
	/* Without that, they do. */
	cr_expect(hand_over(&scene));
	fall_asleep(&scene);
	pair_tell_of(scene.pair, DMP, 0, 8);
	round_of(&scene);
	cr_assert_eq(fake_complete(&scene.rig->fake, SIZE_MAX), 1);
	cr_expect(is_woken(&scene));
	end(&scene);
}

Test(queues, wake_who_sleeps_if_there_is_something_for_it)
{
	struct scene scene = begin();

	fall_asleep(&scene);
	attend(&scene);
	write_something(&scene);
	cr_expect_not(is_woken(&scene), "the core's event is ignored");
	round_of(&scene);
	cr_expect(is_woken(&scene));
	expect_written(&scene);
	end(&scene);
}

Test(queues, tell_all_who_sleep_of_all_entries)
{
	struct scene scene = begin();
	struct fi_cq_tagged_entry entry;

	/* One thread sleeps; another one has found nothing, and is about to. */
	fall_asleep(&scene);
	attend(&scene);
	write_something(&scene);
	write_something(&scene);
	round_of(&scene);
	cr_expect_eq(pmv_cq_trywait(pmv_to_cq(scene.rig->cq)), -FI_EAGAIN);
	cr_expect_eq(fi_cq_read(scene.rig->cq, &entry, 1), 1);
	cr_expect(is_woken(&scene), "the first one has an entry to read");
	expect_written(&scene);
	end(&scene);
}

static enum pmv_pending waits_for;

static enum pmv_pending push_nothing(struct pmv_waiter *waiter, bool looking)
{
	(void) waiter, (void) looking;
	return waits_for;
}

/* Whoever sleeps has looked at all that it knew of. */
Test(queues, wake_who_sleeps_if_there_is_more_to_do_than_it_knew)
{
	static const enum pmv_pending known[] = {PMV_PENDING_FLUSH, PMV_PENDING_ACKS};

	for (int i = 0; i < 4; i++) {
		struct scene scene = begin();
		struct pmv_waiter waiter = {.push = push_nothing}, other = waiter;

		waits_for = known[i / 2];
		pmv_queue_wait(scene.queue, &waiter, waits_for);
		round_of(&scene);
		fall_asleep(&scene);
		attend(&scene);
		pmv_queue_wait(scene.queue, &other, waits_for);
		round_of(&scene);
		cr_expect_not(is_woken(&scene));
		/* What was under way is followed by something else, or another thread has that. */
		waits_for++;
		if (i % 2)
			pmv_queue_wait(scene.queue, &other, waits_for);
		else
			round_of(&scene);
		cr_expect(is_woken(&scene), "case %d", i);
		pmv_queue_unwait(scene.queue, &waiter);
		pmv_queue_unwait(scene.queue, &other);
		end(&scene);
	}
}

/* is_raised -- and lowers it */
static bool is_raised(struct scene *scene)
{
	uint64_t raised;

	return read(scene->queue->wake_fd, &raised, sizeof(raised)) > 0;
}

Test(queues, are_raised_once_for_an_entry)
{
	struct scene scene = begin();

	fall_asleep(&scene);
	attend(&scene);
	write_something(&scene);
	round_of(&scene);
	cr_expect(is_raised(&scene));
	round_of(&scene);
	cr_expect_not(is_raised(&scene));
	expect_written(&scene);
	end(&scene);
}

/* Whoever polls arms nothing: no more than one system call.  Whoever does sees what has come. */
Test(queues, that_nobody_attends_to_are_raised_for_whoever_has_armed_them)
{
	struct scene scene = begin();
	struct fi_cq_tagged_entry entry;

	for (int armed = 0; armed < 2; armed++) {
		for (int i = 0; i < 2; i++) {
			write_something(&scene);
			pmv_queue_progress(scene.queue, false);
			cr_expect_eq(is_raised(&scene), !i);
		}
		cr_expect_eq(pmv_cq_trywait(pmv_to_cq(scene.rig->cq)), -FI_EAGAIN);
		rig_expect(scene.rig, CONTEXT(2 * armed + 1), RIG_WRITTEN);
		rig_expect(scene.rig, CONTEXT(2 * armed + 2), RIG_WRITTEN);
		fall_asleep(&scene);
	}
	/* A thread of the application has found an error, and another one sleeps. */
	accepted(rig_write(scene.rig, KEY_PLAIN, CONTEXT(5)));
	rig_end_part(scene.rig, FI_EIO);
	cr_expect_eq(fi_cq_read(scene.rig->cq, &entry, 1), -FI_EAVAIL);
	pmv_queue_progress(scene.queue, false);
	cr_expect(is_raised(&scene));
	pmv_queue_progress(scene.queue, false);
	cr_expect_not(is_raised(&scene));
	rig_expect_error(scene.rig, CONTEXT(5), RIG_WRITTEN, FI_EIO);
	end(&scene);
}

static ssize_t fail_poll(struct fid_cq *cq, void *buf, size_t count)
{
	(void) cq, (void) buf, (void) count;
	return -FI_EOVERRUN;
}

Test(queues, wake_who_sleeps_if_the_core_has_failed)
{
	struct scene scene = begin();
	const struct pmv_engine_ops *works = scene.queue->ops;
	struct pmv_engine_ops fails = *works;

	fails.poll = fail_poll;
	fall_asleep(&scene);
	attend(&scene);
	scene.queue->ops = &fails;
	round_of(&scene);
	cr_expect(is_woken(&scene));
	scene.queue->ops = works;
	end(&scene);
}

Test(queues, that_are_attended_may_be_slept_on_without_the_core)
{
	struct scene scene = begin();

	fall_asleep(&scene);
	attend(&scene);
	write_something(&scene);
	/* It has come after the last round; the next one finds it. */
	fall_asleep(&scene);
	round_of(&scene);
	cr_expect(is_woken(&scene));
	cr_expect_eq(pmv_cq_trywait(pmv_to_cq(scene.rig->cq)), -FI_EAGAIN);
	expect_written(&scene);
	end(&scene);
}

Test(queues, are_handed_over_with_all_that_has_come)
{
	struct scene scene = begin();

	/* Before that: the event was ignored. */
	fall_asleep(&scene);
	attend(&scene);
	write_something(&scene);
	cr_expect(hand_over(&scene));
	cr_expect_not(is_attended(&scene));
	cr_expect(is_woken(&scene));
	expect_written(&scene);
	/* After that. */
	fall_asleep(&scene);
	attend(&scene);
	cr_assert(is_attended(&scene));
	cr_expect(hand_over(&scene));
	cr_expect_not(is_woken(&scene));
	write_something(&scene);
	cr_expect(is_woken(&scene));
	expect_written(&scene);
	end(&scene);
}

Test(queues, are_attended_again_though_nobody_was_woken_meanwhile)
{
	struct scene scene = begin();

	fall_asleep(&scene);
	for (int i = 0; i < 3; i++) {
		attend(&scene);
		cr_expect(is_attended(&scene));
		cr_expect(hand_over(&scene));
	}
	end(&scene);
}

Test(queues, are_left_to_who_polls)
{
	struct scene scene = begin();

	attend(&scene);
	cr_expect_not(is_attended(&scene), "nobody has ever slept");
	fall_asleep(&scene);
	attend(&scene);
	cr_expect(is_attended(&scene));
	for (int i = 0; i < PMV_IDLE_POLLING_READS; i++)
		rig_expect_nothing(scene.rig);
	attend(&scene);
	cr_expect_not(is_attended(&scene));
	attend(&scene);
	cr_expect_not(is_attended(&scene), "it has not slept since");
	/* Another thread may have been asleep all the time. */
	cr_assert_eq(read(scene.queue->wake_fd, &(uint64_t){0}, 8) > 0, false);
	write_something(&scene);
	cr_expect(is_woken(&scene));
	expect_written(&scene);
	fall_asleep(&scene);
	attend(&scene);
	cr_expect(is_attended(&scene));
	end(&scene);
}

Test(queues, of_who_reads_between_two_sleeps_stay_attended)
{
	struct scene scene = begin();

	for (int i = 0; i < 3; i++) {
		for (int read = 0; read < PMV_IDLE_POLLING_READS; read++)
			rig_expect_nothing(scene.rig);
		fall_asleep(&scene);
		attend(&scene);
		cr_expect(is_attended(&scene));
	}
	end(&scene);
}

Test(queues, are_looked_at_now_and_then)
{
	struct scene scene = begin();

	attend(&scene);
	fall_asleep(&scene);
	scene.now -= 1;
	attend(&scene);
	cr_expect_not(is_attended(&scene));
	scene.now += 1;
	attend(&scene);
	cr_expect(is_attended(&scene));
	end(&scene);
}

static struct scene *watched;
static char seen[16]; /* for each event, whether the queue was attended */

static void look_at_queue(void *arg)
{
	(void) arg;
	strcat(seen, is_attended(watched) ? "a" : "-");
}

static void serve_one(struct scene *scene, enum pair_memory memory)
{
	seen[0] = '\0';
	pair_tell_of(scene->pair, memory, 0, 8);
	scene->pair->on_event = look_at_queue;
	round_of(scene);
	scene->pair->on_event = NULL;
	cr_assert_eq(fake_complete(&scene->rig->fake, SIZE_MAX), 1);
	round_of(scene);
}

Test(queues, are_handed_over_while_pages_are_synced)
{
	struct scene scene = begin();

	watched = &scene;
	fall_asleep(&scene);
	attend(&scene);
	serve_one(&scene, DMP);
	expect_done(scene.pair, "F D K");
	cr_expect_str_eq(seen, "aaa", "lines take no time");
	serve_one(&scene, PAGE);
	expect_done(scene.pair, "Y D K");
	cr_expect_str_eq(seen, "--a", "nor are acknowledgements to wake anybody");
	end(&scene);
}

Test(queues, that_cannot_be_handed_over_stay_attended)
{
	struct scene scene = begin();

	fall_asleep(&scene);
	attend(&scene);
	atomic_store(&listening_fails, true);
	cr_expect_not(hand_over(&scene));
	cr_expect(is_attended(&scene));
	write_something(&scene);
	round_of(&scene);
	cr_expect(is_woken(&scene));
	expect_written(&scene);
	atomic_store(&listening_fails, false);
	cr_expect(hand_over(&scene));
	cr_expect_not(is_attended(&scene));
	end(&scene);
}

Test(queues, that_leave_the_agent_are_the_cores_again)
{
	struct scene scene = begin();

	fall_asleep(&scene);
	attend(&scene);
	pmv_agent_leave(scene.agent, scene.queue);
	cr_expect_not(is_attended(&scene));
	cr_expect(is_woken(&scene), "what came before is not lost");
	fall_asleep(&scene);
	write_something(&scene);
	cr_expect(is_woken(&scene));
	expect_written(&scene);
	pmv_agent_join(scene.agent, scene.queue);
	end(&scene);
}

/* With a thread */

static struct scene begin_with_thread(bool busy)
{
	struct scene scene = {
		.pair = pair_open(&(struct pair_options){
			.thread = true, .busy = busy, .away = {.wait_obj = FI_WAIT_FD}}),
	};

	scene.rig = scene.pair->away;
	scene.agent = pair_agent(scene.pair);
	scene.queue = &pmv_to_cq(scene.rig->cq)->queue;
	return scene;
}

/* serve_by_thread -- a request: the thread looks for more for a while */
static void serve_by_thread(struct scene *scene)
{
	pair_tell_of(scene->pair, DMP, 0, 8);
	pmv_agent_kick(scene->agent);
	while (!fake_complete(&scene->rig->fake, SIZE_MAX))
		usleep(10);
}

static void await_attendance(struct scene *scene)
{
	fall_asleep(scene);
	while (!is_attended(scene)) {
		serve_by_thread(scene);
		usleep(10);
	}
}

static void await_written(struct scene *scene)
{
	struct pollfd fd = {.fd = scene->queue->epoll_fd, .events = POLLIN};

	write_something(scene);
	cr_assert_eq(poll(&fd, 1, -1), 1);
	expect_written(scene);
	while (pmv_cq_trywait(pmv_to_cq(scene->rig->cq)))
		rig_expect_nothing(scene->rig);
}

Test(queues, keep_the_thread_awake_if_they_cannot_be_handed_over, .timeout = 120)
{
	struct scene scene = begin_with_thread(false);
	unsigned long before;

	atomic_store(&listening_fails, true);
	await_attendance(&scene);
	before = atomic_load(&scene.agent->sleeps);
	for (int i = 0; i < 100; i++) {
		await_written(&scene);
		usleep(100);
	}
	cr_expect_eq(atomic_load(&scene.agent->sleeps), before);
	atomic_store(&listening_fails, false);
	while (is_attended(&scene))
		usleep(100);
	await_written(&scene);
	pair_close(scene.pair);
}

Test(queues, are_handed_over_when_the_thread_ends, .timeout = 120)
{
	struct scene scene = begin_with_thread(true);

	await_attendance(&scene);
	pmv_agent_stop(scene.agent);
	cr_expect_not(is_attended(&scene));
	write_something(&scene);
	cr_expect(is_woken(&scene));
	expect_written(&scene);
	pair_close(scene.pair);
}

#define TIMES 300

static void *sleep_and_read(void *arg)
{
	struct rig *rig = arg;
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < TIMES; i++) {
		if (fi_cq_sread(rig->cq, &entry, 1, NULL, -1) != 1)
			return arg;
	}
	return NULL;
}

Test(queues, lose_no_wakeup_while_the_thread_comes_and_goes, .timeout = 120)
{
	struct scene scene = begin_with_thread(false);
	pthread_t sleeper;
	void *failed;

	cr_assert_eq(pthread_create(&sleeper, NULL, sleep_and_read, scene.rig), 0);
	for (int i = 0; i < TIMES; i++) {
		/* The thread is busy, awake or asleep. */
		serve_by_thread(&scene);
		usleep(i % 3 * 37);
		accepted(rig_write(scene.rig, KEY_PLAIN, CONTEXT(1)));
		while (!fake_complete(&scene.rig->fake, SIZE_MAX))
			usleep(10);
	}
	/* Each sleep ends by an entry alone. */
	pthread_join(sleeper, &failed);
	cr_expect_null(failed);
	pair_close(scene.pair);
}

/* The next one is told who sleeps without the thread's help, and that an entry is there. */
Test(queues, raise_what_came_while_the_thread_attended)
{
	struct scene scene = begin();
	struct fi_cq_tagged_entry entry;

	fall_asleep(&scene);
	atomic_store(&scene.queue->attended, true);
	accepted(rig_write(scene.rig, KEY_PLAIN, CONTEXT(3)));
	rig_end_part(scene.rig, FI_EIO);
	cr_expect_eq(fi_cq_read(scene.rig->cq, &entry, 1), -FI_EAVAIL);
	pmv_queue_progress(scene.queue, false);
	atomic_store(&scene.queue->attended, false);
	pmv_queue_progress(scene.queue, false);
	cr_expect(is_raised(&scene));
	rig_expect_error(scene.rig, CONTEXT(3), RIG_WRITTEN, FI_EIO);
	end(&scene);
}
