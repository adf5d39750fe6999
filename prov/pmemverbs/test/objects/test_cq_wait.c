/* SPDX-License-Identifier: BSD-2-Clause */
/* test_cq_wait.c -- who waits for an entry looks before it sleeps, if that pays */
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "objects/cq.h"
#include "test/support/pair.h"

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

/* Time, while somebody waits: it is what the test says, and so is when the target answers. */
static struct {
	struct pair *pair; /* NULL: time is real */
	bool serving;
	int64_t now;
	int64_t step; /* each look at the clock takes so long */
	int calls;
	int serve_at; /* this call; sleeps are told apart */
	int sleeps;   /* the target answers in each */
	bool others;  /* or something else comes, which nobody had asked for */
	bool signals; /* or a signal does, which another call has heard of before */
} fake_time;

/* A descriptor that stays ready, though there is nothing to read */
#define NAPS 1000

static struct {
	bool on;
	bool quiet;     /* it is not ready now */
	int waits;      /* for it */
	int count;      /* naps, ... */
	int naps[NAPS]; /* ... and their ms */
	int entry_in;   /* it comes in that nap; 0: in none */
	int core_in;    /* an entry of the core's does */
	int ends_in;    /* the thread is cancelled in it */
} stuck;

static int poll_stuck(nfds_t count, int timeout)
{
	if (count == 1) {
		stuck.waits += timeout != 0;
		return !stuck.quiet;
	}
	cr_assert_lt(stuck.count, NAPS);
	stuck.naps[stuck.count++] = timeout;
	if (stuck.count == stuck.ends_in)
		pthread_exit(NULL);
	if (stuck.count == stuck.core_in)
		fake_complete(&fake_time.pair->home->fake, 1);
	if (stuck.count == stuck.entry_in) {
		struct pmv_queue *queue = &pmv_to_cq(fake_time.pair->home->cq)->queue;
		struct fi_cq_tagged_entry entry = {.op_context = CONTEXT(1)};

		cr_assert(pmv_queue_add(queue, pmv_comp_success(queue, &entry)));
		return 1;
	}
	fake_time.now += timeout * INT64_C(1000000);
	return 0;
}

static void serve(void)
{
	struct pmv_queue *queue = &pmv_to_cq(fake_time.pair->home->cq)->queue;
	struct fi_cq_tagged_entry entry = {.op_context = CONTEXT(1)};

	fake_time.serving = true;
	if (fake_time.signals) {
		struct pmv_cq *cq = pmv_to_cq(fake_time.pair->home->cq);

		accepted(fi_cq_signal(&cq->cq_fid));
		atomic_store(&cq->heeded, atomic_load(&cq->signals));
	} else if (fake_time.others)
		cr_assert(pmv_queue_add(queue, pmv_comp_success(queue, &entry)));
	else
		pair_round(fake_time.pair);
	fake_time.serving = false;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!fake_time.pair || fake_time.serving || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, time);
	if (++fake_time.calls == fake_time.serve_at)
		serve();
	fake_time.now += fake_time.step;
	*time = (struct timespec){.tv_sec = fake_time.now / 1000000000,
				  .tv_nsec = fake_time.now % 1000000000};
	return 0;
}

/* Without a thread of the agent this is how fi_cq_sread waits. */
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	if (!fake_time.pair)
		return __real_nanosleep(time, left);
	fake_time.sleeps++;
	serve();
	return 0;
}

/* With one it is this.  The first sleep ends by something that is no entry. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	if (!fake_time.pair || fake_time.serving)
		return __real_poll(fds, count, timeout);
	if (stuck.on)
		return poll_stuck(count, timeout);
	if (fake_time.sleeps++)
		serve();
	fake_time.calls = 0;
	return 1;
}

/* waits -- its sleeps until an entry comes, in the first one, or before */
static int waits(struct pair *pair, int64_t step, int serve_at)
{
	struct fi_cq_tagged_entry entry;

	fake_time.now = pmv_clock_ns();
	fake_time.step = step;
	fake_time.calls = fake_time.sleeps = 0;
	fake_time.serve_at = serve_at;
	fake_time.pair = pair;
	cr_assert_eq(fi_cq_sread(pair->home->cq, &entry, 1, NULL, -1), 1);
	fake_time.pair = NULL;
	cr_expect_eq(entry.op_context, CONTEXT(1));
	return fake_time.sleeps;
}

/* sleeps -- of a thread that waits for a commit */
static int sleeps(struct pair *pair, int64_t step, int serve_at)
{
	accepted(pair_put(pair, DMP, 100, 50, CONTEXT(1), FI_COMMIT));
	return waits(pair, step, serve_at);
}

#define SOON 20
#define AT_LAST 100000 /* what must not be waited for ends the test then */
#define LONG 100000    /* ns */

static struct pair *open_pair(void)
{
	return pair_open(&(struct pair_options){.home = {.wait_obj = FI_WAIT_FD}});
}

Test(cq_wait, finds_what_comes_soon)
{
	struct pair *pair = open_pair();

	for (int i = 0; i < 3; i++)
		cr_expect_eq(sleeps(pair, 0, SOON), 0);
	pair_close(pair);
}

Test(cq_wait, finds_what_others_send)
{
	struct pair *pair = open_pair();

	fake_time.others = true;
	for (int i = 0; i < 3; i++)
		cr_expect_eq(waits(pair, 0, SOON), 0);
	fake_time.others = false;
	pair_close(pair);
}

/* Whoever moves a peer's data in this call, asleep or not, looks for more of them. */
Test(cq_wait, goes_on_after_what_was_no_entry)
{
	struct pair *pair = open_pair();
	struct pmv_cq *cq = pmv_to_cq(pair->home->cq);
	struct pmv_looked *looked = &cq->looked[0];

	fake_time.others = true;
	for (int in_calls = 0; in_calls < 2; in_calls++) {
		pair->home->core.manual_progress = in_calls;
		atomic_store(&looked->skips_left, 10);
		atomic_store(&looked->skips, 7);
		cr_expect_eq(waits(pair, 0, SOON), in_calls ? 1 : 2);
		/* It was not this that the wait began with. */
		cr_expect_eq(atomic_load(&looked->skips), 7);
		atomic_store(&looked->skips_left, 10);
		cr_expect_eq(waits(pair, LONG, AT_LAST), 2);
		cr_expect_eq(atomic_load(&looked->skips), 7);
	}
	/* Nor if others sleep there, too: one event may wake them all. */
	atomic_store(&looked->skips_left, 10);
	atomic_store(&cq->queue.sleepers, 1);
	cr_expect_eq(waits(pair, 0, SOON), 2);
	atomic_store(&cq->queue.sleepers, 0);
	pair->home->core.manual_progress = false;
	fake_time.others = false;
	pair_close(pair);
}

/*
 * trywaits -- fi_trywait lets it sleep on the descriptor for so long, something ends that which is
 * no entry, and it asks again
 */
static int trywaits(struct pair *pair, int64_t slept, int64_t step, int serve_at)
{
	struct pmv_cq *cq = pmv_to_cq(pair->home->cq);
	struct fi_cq_tagged_entry entry;
	int ret;

	/* Nothing is to come soon. */
	atomic_store(&cq->looked[0].skips_left, 2);
	fake_time.now = pmv_clock_ns();
	fake_time.step = fake_time.sleeps = fake_time.serve_at = 0;
	fake_time.pair = pair;
	accepted(pmv_cq_trywait(cq));
	fake_time.now += slept;
	cr_expect_eq(fi_cq_read(&cq->cq_fid, &entry, 1), -FI_EAGAIN);
	fake_time.step = step;
	fake_time.calls = 0;
	fake_time.serve_at = serve_at;
	ret = pmv_cq_trywait(cq);
	fake_time.pair = NULL;
	cr_expect_eq(fi_cq_read(&cq->cq_fid, &entry, 1), ret ? 1 : -FI_EAGAIN);
	return ret;
}

#define SHORT (PMV_IDLE_SHORT_NS - 1)

/* Nor does fi_trywait let anybody sleep at once who has moved a peer's data. */
Test(cq_wait, looks_for_more_before_it_lets_sleep_on_the_descriptor)
{
	struct pair *pair = open_pair();
	struct pmv_queue *queue = &pmv_to_cq(pair->home->cq)->queue;

	fake_time.others = pair->home->core.manual_progress = true;
	cr_expect_eq(trywaits(pair, SHORT, 0, SOON), -FI_EAGAIN);
	cr_expect_eq(trywaits(pair, SHORT, LONG, AT_LAST), 0);
	/* If others sleep there, too, one event may wake them all. */
	atomic_store(&queue->sleepers, 1);
	cr_expect_eq(trywaits(pair, SHORT, 0, AT_LAST), 0);
	atomic_store(&queue->sleepers, 0);
	fake_time.others = pair->home->core.manual_progress = false;
	pair_close(pair);
}

/* The agent's thread leaves a queue to who sleeps there, and sets a timer when nobody does any
 * more. */
Test(cq_wait, tells_the_agent_when_a_look_is_over)
{
	struct pair *pair = open_pair();
	struct pmv_cq *cq = pmv_to_cq(pair->home->cq);
	struct pmv_agent *agent = &cq->domain->agent;

	fake_time.others = pair->home->core.manual_progress = true;
	atomic_store(&cq->moved, true);
	atomic_store(&agent->followed, &cq->queue);
	cr_expect_eq(atomic_load(&agent->followed_ns), 0);
	fake_time.now = pmv_clock_ns();
	fake_time.step = fake_time.calls = 0;
	fake_time.serve_at = SOON;
	fake_time.pair = pair;
	cr_expect_eq(pmv_cq_trywait(cq), -FI_EAGAIN);
	fake_time.pair = NULL;
	cr_expect_gt(atomic_load(&agent->followed_ns), 0);
	atomic_store(&agent->followed, NULL);
	fake_time.others = pair->home->core.manual_progress = false;
	pair_close(pair);
}

/* asks -- fi_trywait does; whether it may sleep */
static int asks(struct pair *pair, int64_t step, int serve_at)
{
	struct fi_cq_tagged_entry entry;
	int ret;

	fake_time.now = pmv_clock_ns();
	fake_time.step = step;
	fake_time.calls = 0;
	fake_time.serve_at = serve_at;
	fake_time.pair = pair;
	ret = pmv_cq_trywait(pmv_to_cq(pair->home->cq));
	fake_time.pair = NULL;
	cr_expect_eq(fi_cq_read(pair->home->cq, &entry, 1), ret ? 1 : -FI_EAGAIN);
	return ret;
}

/* As fi_cq_sread does: 1 wait is without a look behind one in vain. */
Test(cq_wait, looks_for_what_comes_soon_before_it_lets_sleep_on_the_descriptor)
{
	struct pair *pair = open_pair();
	struct pmv_queue *queue = &pmv_to_cq(pair->home->cq)->queue;

	fake_time.others = true;
	for (int i = 0; i < 3; i++)
		cr_expect_eq(asks(pair, 0, SOON), -FI_EAGAIN);
	/* The second time as well: one that finds something makes up for those before. */
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(asks(pair, LONG, AT_LAST), 0);
		cr_expect_eq(asks(pair, 0, SOON), 0);
		cr_expect_eq(asks(pair, 0, SOON), -FI_EAGAIN);
	}
	/* The agent's thread looks for acknowledgements. */
	atomic_store(&queue->pending, PMV_PENDING_ACKS);
	fake_time.calls = 0;
	fake_time.serve_at = 1;
	fake_time.pair = pair;
	pmv_cq_trywait(pmv_to_cq(pair->home->cq));
	fake_time.pair = NULL;
	cr_expect_eq(fake_time.calls, 0);
	fake_time.others = false;
	pair_close(pair);
}

Test(cq_wait, does_not_look_for_what_is_not_likely)
{
	struct pair *pair = open_pair();
	struct pmv_queue *queue = &pmv_to_cq(pair->home->cq)->queue;

	fake_time.others = true;
	/* The core moves data by itself. */
	cr_expect_eq(trywaits(pair, SHORT, 0, SOON), 0);
	pair->home->core.manual_progress = true;
	/* Data come rarely. */
	cr_expect_eq(trywaits(pair, SHORT + 1, 0, SOON), 0);
	/* It may be the answer to what the application has posted. */
	atomic_store(&queue->pending, PMV_PENDING_FLUSH);
	cr_expect_eq(trywaits(pair, SHORT, 0, SOON), 0);
	atomic_store(&queue->pending, PMV_PENDING_NONE);
	/* The sleep has ended without an event. */
	stuck.on = stuck.quiet = true;
	cr_expect_eq(trywaits(pair, SHORT, 0, SOON), 0);
	fake_time.others = pair->home->core.manual_progress = stuck.on = stuck.quiet = false;
	pair_close(pair);
}

/* Between two commits the application waits for something else, for long. */
Test(cq_wait, finds_an_acknowledgement_also_after_other_looks_in_vain)
{
	struct pair *pair = open_pair();

	for (int i = 0; i < 3; i++) {
		fake_time.others = true;
		waits(pair, LONG, AT_LAST);
		fake_time.others = false;
		cr_expect_eq(sleeps(pair, 0, SOON), 0);
	}
	pair_close(pair);
}

Test(cq_wait, is_left_out_after_looks_in_vain)
{
	struct pair *pair = open_pair();

	/* 1 after the first, 3 after the second, ... */
	for (int most = 1; most < 8; most = 2 * most + 1) {
		cr_expect_eq(sleeps(pair, LONG, AT_LAST), 1);
		for (int i = 0; i < most; i++)
			cr_expect_eq(sleeps(pair, 0, AT_LAST), 1, "%d of %d", i, most);
	}
	/* And as before, once it has paid. */
	cr_expect_eq(sleeps(pair, 0, SOON), 0);
	cr_expect_eq(sleeps(pair, LONG, AT_LAST), 1);
	cr_expect_eq(sleeps(pair, 0, AT_LAST), 1);
	cr_expect_eq(sleeps(pair, 0, SOON), 0);
	pair_close(pair);
}

Test(cq_wait, is_left_to_nobody_if_others_sleep)
{
	struct pair *pair = open_pair();

	atomic_store(&pmv_to_cq(pair->home->cq)->queue.sleepers, 1);
	cr_expect_eq(sleeps(pair, 0, AT_LAST), 1);
	atomic_store(&pmv_to_cq(pair->home->cq)->queue.sleepers, 0);
	cr_expect_eq(sleeps(pair, 0, SOON), 0);
	pair_close(pair);
}

/* wait_stuck -- for a second, in which each look at the clock takes time; how often it has read */
static unsigned int wait_stuck(struct pair *pair, ssize_t result)
{
	struct fi_cq_tagged_entry entry;
	struct pmv_queue *queue = &pmv_to_cq(pair->home->cq)->queue;
	unsigned int before = atomic_load(&queue->reads);

	memset(stuck.naps, 0, sizeof(stuck.naps));
	stuck.on = true;
	stuck.count = stuck.waits = 0;
	fake_time.now = pmv_clock_ns();
	fake_time.step = 2000;
	fake_time.calls = fake_time.serve_at = 0;
	fake_time.pair = pair;
	cr_expect_eq(fi_cq_sread(pair->home->cq, &entry, 1, NULL, 1000), result);
	fake_time.pair = NULL;
	stuck.on = false;
	return atomic_load(&queue->reads) - before;
}

Test(cq_wait, naps_if_the_descriptor_stays_ready)
{
	static const int naps[] = {1, 2, 4, 8, 10, 10, 10, 10, 10, 10};
	struct pair *pair = open_pair();

	pair->home->core.manual_progress = true;
	/* As many looks as messages may be in a socket, half as many, and so on; then 50 us of
	 * them. */
	cr_expect_leq(wait_stuck(pair, -FI_EAGAIN), 2 * PMV_IDLE_MOST_PATIENCE + 110 * 30);
	for (size_t i = 0; i < sizeof(naps) / sizeof(naps[0]); i++)
		cr_expect_eq(stuck.naps[i], naps[i], "nap %zu: %d ms", i, stuck.naps[i]);
	cr_expect_gt(stuck.count, 50);
	/* The next call knows that. */
	cr_expect_leq(wait_stuck(pair, -FI_EAGAIN), 110 * 30);
	cr_expect_eq(stuck.naps[0], 10);
	pair->home->core.manual_progress = false;
	pair_close(pair);
}

Test(cq_wait, naps_if_the_core_says_for_ever_that_there_is_work)
{
	struct pair *pair = open_pair();

	pair->home->core.manual_progress = pair->home->fake.holds_message = true;
	stuck.quiet = true;
	cr_expect_leq(wait_stuck(pair, -FI_EAGAIN), 2 * PMV_IDLE_MOST_PATIENCE + 110 * 10);
	cr_expect_gt(stuck.count, 50);
	cr_expect_eq(stuck.naps[0], 1);
	cr_expect_eq(stuck.naps[9], 10);
	cr_expect_eq(stuck.waits, 0);
	/* Until there is a receive. */
	pair->home->fake.holds_message = false;
	wait_stuck(pair, -FI_EAGAIN);
	cr_expect_eq(stuck.count, 0);
	pair->home->core.manual_progress = stuck.quiet = false;
	pair_close(pair);
}

/* Another thread reads an entry just before this one sleeps, and another entry is there. */
static struct pmv_cq *read_by_another;

int __real_pthread_setcancelstate(int state, int *old);
int __wrap_pthread_setcancelstate(int state, int *old);

int __wrap_pthread_setcancelstate(int state, int *old)
{
	if (read_by_another && !old)
		atomic_store(&read_by_another->useless_looks, 0);
	return __real_pthread_setcancelstate(state, old);
}

Test(cq_wait, does_not_wait_for_the_descriptor_alone_while_the_core_has_work)
{
	struct pair *pair = open_pair();

	pair->home->core.manual_progress = pair->home->fake.holds_message = true;
	stuck.quiet = true;
	read_by_another = pmv_to_cq(pair->home->cq);
	wait_stuck(pair, -FI_EAGAIN);
	read_by_another = NULL;
	cr_expect_gt(stuck.count, 0);
	cr_expect_eq(stuck.waits, 0, "it would sleep for ever");
	pair->home->fake.holds_message = false;
	pair->home->core.manual_progress = stuck.quiet = false;
	pair_close(pair);
}

/* The core has told nobody but this thread of what there is, and it takes one entry. */
Test(cq_wait, wakes_another_thread_for_what_it_leaves)
{
	struct pair *pair = open_pair();
	struct pmv_queue *queue = &pmv_to_cq(pair->home->cq)->queue;
	uint64_t wakes;

	pair->home->core.manual_progress = pair->home->fake.holds_message = true;
	stuck.quiet = true;
	stuck.core_in = 2;
	for (unsigned int others = 0; others < 2; others++) {
		accepted(pair_put(pair, MHP, 0, 8, CONTEXT(1), 0));
		atomic_store(&queue->sleepers, others);
		wait_stuck(pair, 1);
		atomic_store(&queue->sleepers, 0);
		/* One is for the entry, as the agent has no thread, and the call serves. */
		cr_assert_eq(read(queue->wake_fd, &wakes, sizeof(wakes)), sizeof(wakes));
		cr_expect_eq(wakes, 1 + others);
	}
	pair->home->fake.holds_message = false;
	pair->home->core.manual_progress = stuck.quiet = false;
	pair_close(pair);
}

/* Another thread sleeps there: what was to wake it has been read by whoever is about to sleep. */
Test(cq_wait, leaves_the_event_of_an_entry_to_others)
{
	struct pair *pair = open_pair();
	struct pmv_queue *queue = &pmv_to_cq(pair->home->cq)->queue;
	struct fi_cq_tagged_entry entry = {.op_context = CONTEXT(1)};
	struct pollfd fd = {.fd = queue->epoll_fd, .events = POLLIN};

	cr_assert(pmv_queue_add(queue, pmv_comp_success(queue, &entry)));
	cr_expect_eq(pmv_cq_trywait(pmv_to_cq(pair->home->cq)), -FI_EAGAIN);
	cr_expect_eq(poll(&fd, 1, 0), 1);
	cr_expect_eq(fi_cq_read(pair->home->cq, &entry, 1), 1);
	pair_close(pair);
}

static void *wait_until_cancelled(void *pair)
{
	wait_stuck(pair, 0);
	return NULL;
}

Test(cq_wait, wakes_another_thread_for_what_it_leaves_when_it_is_cancelled)
{
	struct pair *pair = open_pair();
	struct pmv_queue *queue = &pmv_to_cq(pair->home->cq)->queue;
	pthread_t thread;
	uint64_t wakes;

	pair->home->core.manual_progress = pair->home->fake.holds_message = true;
	stuck.quiet = true;
	stuck.ends_in = 2;
	atomic_store(&queue->sleepers, 1);
	cr_assert_eq(pthread_create(&thread, NULL, wait_until_cancelled, pair), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_eq(atomic_exchange(&queue->sleepers, 0), 1);
	fake_time.pair = NULL;
	cr_assert_eq(read(queue->wake_fd, &wakes, sizeof(wakes)), sizeof(wakes));
	cr_expect_eq(wakes, 1);
	pair->home->fake.holds_message = false;
	pair->home->core.manual_progress = stuck.on = stuck.quiet = false;
	pair_close(pair);
}

/* It is about to sleep, and takes what was to wake it. */
Test(cq_wait, is_ended_by_a_signal_that_another_call_has_heard_of)
{
	struct pair *pair = open_pair();
	struct pmv_cq *cq = pmv_to_cq(pair->home->cq);
	struct fi_cq_tagged_entry entry;

	fake_time.signals = true;
	fake_time.now = pmv_clock_ns();
	/* Behind the look for a signal, and before the sleep */
	atomic_store(&cq->looked[0].skips_left, 1);
	fake_time.serve_at = 2;
	fake_time.pair = pair;
	cr_expect_eq(fi_cq_sread(&cq->cq_fid, &entry, 1, NULL, -1), -FI_EAGAIN);
	fake_time.pair = NULL;
	fake_time.signals = false;
	cr_expect_eq(fake_time.sleeps, 0);
	pair_close(pair);
}

Test(cq_wait, is_not_delayed_by_naps_if_there_are_entries)
{
	struct pair *pair = open_pair();
	struct pmv_cq *cq = pmv_to_cq(pair->home->cq);

	pair->home->core.manual_progress = true;
	stuck.entry_in = 20;
	wait_stuck(pair, 1);
	cr_expect_eq(stuck.count, 20);
	cr_expect_eq(atomic_load(&cq->useless_looks), 0);
	/* It is still ready: that an entry came says nothing of that. */
	cr_expect_eq(atomic_load(&cq->patience), PMV_IDLE_LEAST_PATIENCE);
	pair->home->core.manual_progress = false;
	pair_close(pair);
}

Test(cq_wait, does_not_nap_where_the_descriptor_gets_quiet)
{
	struct pair *pair = open_pair();
	struct pmv_cq *cq = pmv_to_cq(pair->home->cq);

	pair->home->core.manual_progress = true;
	wait_stuck(pair, -FI_EAGAIN);
	stuck.quiet = true;
	wait_stuck(pair, -FI_EAGAIN);
	cr_expect_eq(stuck.count, 0);
	cr_expect_gt(stuck.waits, 0, "it slept for good");
	cr_expect_eq(atomic_load(&cq->patience), PMV_IDLE_MOST_PATIENCE);
	pair->home->core.manual_progress = false;
	stuck.quiet = false;
	/* A core that moves the data by itself has no such descriptor. */
	wait_stuck(pair, -FI_EAGAIN);
	cr_expect_eq(stuck.count, 0);
	pair_close(pair);
}
