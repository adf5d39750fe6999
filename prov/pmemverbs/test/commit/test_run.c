/* SPDX-License-Identifier: BSD-2-Clause */
/* test_run.c -- commits for all of whose parts the core has no room */
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "commit/ordering.h"
#include "objects/cq.h"
#include "test/support/rig.h"

static char data[8];

static void expect_all_refused(struct rig *rig)
{
	struct iovec iov = {data, 8};
	void *desc = NULL;

	refused(rig_write(rig, KEY_MHP, CONTEXT(9)), FI_EAGAIN);
	refused(fi_writev(rig->ep, &iov, &desc, 1, 0, ADDR, KEY_MHP, CONTEXT(9)), FI_EAGAIN);
	refused(fi_writedata(rig->ep, data, 8, NULL, DATA, 0, ADDR, KEY_MHP, CONTEXT(9)),
		FI_EAGAIN);
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(9), 0), FI_EAGAIN);
	refused(rig_commit(rig, KEY_MHP, CONTEXT(9), 0), FI_EAGAIN);
	refused(fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_MHP), FI_EAGAIN);
	refused(fi_inject_writedata(rig->ep, data, 8, DATA, 0, ADDR, KEY_MHP), FI_EAGAIN);
	refused(rig_read(rig, KEY_MHP, CONTEXT(9)), FI_EAGAIN);
	refused(fi_readv(rig->ep, &iov, &desc, 1, 0, ADDR, KEY_MHP, CONTEXT(9)), FI_EAGAIN);
	refused(rig_readmsg(rig, KEY_MHP, CONTEXT(9), 0), FI_EAGAIN);
	refused(rig_send(rig, CONTEXT(9)), FI_EAGAIN);
	refused(fi_sendv(rig->ep, &iov, &desc, 1, 0, CONTEXT(9)), FI_EAGAIN);
	refused(rig_sendmsg(rig, CONTEXT(9), 0), FI_EAGAIN);
	refused(fi_senddata(rig->ep, data, 8, NULL, DATA, 0, CONTEXT(9)), FI_EAGAIN);
	refused(fi_inject(rig->ep, data, 8, 0), FI_EAGAIN);
	refused(fi_injectdata(rig->ep, data, 8, DATA, 0), FI_EAGAIN);
	refused(rig_fetch(rig, KEY_MHP, CONTEXT(9), 0), FI_EAGAIN);
	refused(rig_fetch(rig, KEY_MHP, CONTEXT(9), FI_COMMIT), FI_EAGAIN);
}

Test(stall, without_room_for_the_write_is_no_commit)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 0;
	refused(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED), FI_EAGAIN);
	expect_posted(rig, "");
	rig_expect_nothing(rig);
	rig->fake.room = -1;
	rig_expect_nothing(rig);
	expect_posted(rig, "");
	rig_close(rig);
}

/* As often as a busy application may try; requests are a finite resource. */
Test(stall, refusals_use_nothing_up)
{
	for (int known = 0; known < 2; known++) {
		struct rig *rig = rig_open(NULL);

		/* Then its plan is the key's, and nothing has to be remembered of it. */
		for (int i = 0; known && i < 2; i++) {
			accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
			cr_assert_eq(fake_complete(&rig->fake, 2), 2);
			rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
		}
		rig->fake.room = 0;
		for (int i = 0; i < 600000; i++)
			refused(rig_commit(rig, KEY_MHP, CONTEXT(1), 0), FI_EAGAIN);
		rig->fake.room = -1;
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
		rig_close(rig);
	}
}

Test(stall, parts_without_room_are_posted_by_whoever_reads_the_cq)
{
	static const struct {
		int room;
		const char *at_once;
		const char *later;
	} cases[] = {
		{1, "W", "R fW0i"},
		{2, "W R", "fW0i"},
		{3, "W R fW0i", ""},
	};

	for (size_t i = 0; i < 3; i++) {
		struct rig *rig = rig_open(NULL);

		rig->fake.room = cases[i].room;
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
		expect_posted(rig, cases[i].at_once);
		/* No room: nothing happens, however often it is read. */
		for (int n = 0; n < 3; n++)
			rig_expect_nothing(rig);
		expect_posted(rig, "");
		fake_complete(&rig->fake, SIZE_MAX);
		if (cases[i].room == 3)
			rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
		rig_expect_nothing(rig);
		rig->fake.room = -1;
		rig_expect_nothing(rig);
		expect_posted(rig, cases[i].later);
		fake_complete(&rig->fake, SIZE_MAX);
		if (cases[i].room < 3)
			rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
		rig_expect_nothing(rig);
		rig_close(rig);
	}
}

Test(stall, room_for_one_part_at_a_time_will_do)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	expect_posted(rig, "W");
	rig->fake.room = 1;
	rig_expect_nothing(rig);
	expect_posted(rig, "R");
	fake_complete(&rig->fake, 1);
	rig->fake.room = 1;
	rig_expect_nothing(rig);
	expect_posted(rig, "fW0i");
	rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

Test(stall, nothing_new_passes_what_waits)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	expect_posted(rig, "W");
	expect_all_refused(rig);
	expect_posted(rig, "");
	/* The queue of receives is another one. */
	accepted(fi_recv(rig->ep, data, 8, NULL, 0, CONTEXT(2)));
	expect_posted(rig, "X");
	/* Room for what waits, and no more. */
	rig->fake.room = 1;
	refused(rig_send(rig, CONTEXT(9)), FI_EAGAIN);
	expect_posted(rig, "R");
	rig->fake.room = -1;
	accepted(rig_send(rig, CONTEXT(3)));
	expect_posted(rig, "S");
	fake_complete(&rig->fake, 3);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect(rig, CONTEXT(3), RIG_SENT);
	rig_close(rig);
}

Test(stall, atomics_that_are_injected_do_not_pass_either)
{
	struct rig *rig = rig_open(NULL);
	uint64_t operand = 1;

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	expect_posted(rig, "W");
	rig->fake.room = -1;
	if (!fi_inject_atomic(rig->ep, &operand, 1, 0, ADDR, KEY_MHP, FI_UINT64, FI_SUM))
		expect_posted(rig, "R A");
	rig_close(rig);
}

Test(stall, whoever_posts_next_posts_first_what_waits)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	rig->fake.room = -1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_posted(rig, "W R fW0i W R");
	fake_complete(&rig->fake, 5);
	rig_expect_each(rig, 1, 2, RIG_WRITTEN);
	rig_close(rig);
}

Test(stall, of_one_endpoint_does_not_hold_up_another)
{
	struct rig *rig = rig_open(NULL);
	struct fid_ep *first = rig->ep, *second = rig_ep(rig, rig->cq);

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	rig->ep = second;
	refused(rig_commit(rig, KEY_MHP, CONTEXT(2), 0), FI_EAGAIN);
	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_posted(rig, "W W");
	rig->fake.room = -1;
	rig_expect_nothing(rig);
	expect_posted(rig, "R R");
	fake_complete(&rig->fake, 4);
	for (int i = 0; i < 2; i++) {
		struct fi_cq_tagged_entry entry;

		cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), 1);
		cr_expect(entry.op_context == CONTEXT(1) || entry.op_context == CONTEXT(2));
	}
	rig_expect_nothing(rig);
	accepted(fi_close(&first->fid));
	rig_close(rig);
}

Test(stall, endpoint_is_open_again_once_nothing_waits)
{
	struct rig *rig = rig_open(NULL);

	for (int i = 0; i < 100; i++) {
		rig->fake.room = 1;
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(i), 0));
		refused(rig_commit(rig, KEY_MHP, CONTEXT(i), 0), FI_EAGAIN);
		rig->fake.room = 1;
		rig_expect_nothing(rig);
		expect_posted(rig, "W R");
		fake_complete(&rig->fake, 2);
		rig_expect(rig, CONTEXT(i), RIG_WRITTEN);
		rig_expect_nothing(rig);
	}
	rig_close(rig);
}

/* Waiting */

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

/* Room appears as it does with real queues: nothing announces it. */
static void *make_room(void *arg)
{
	struct fake *fake = arg;

	usleep(50000);
	pthread_mutex_lock(&fake->lock);
	fake->room = -1;
	fake->automatic = true;
	pthread_mutex_unlock(&fake->lock);
	return NULL;
}

Test(stall, does_not_let_sread_sleep_for_ever, .timeout = 20)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	struct fi_cq_tagged_entry entry;
	pthread_t thread;

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	fake_complete(&rig->fake, 1);
	pthread_create(&thread, NULL, make_room, &rig->fake);
	cr_assert_eq(fi_cq_sread(rig->cq, &entry, 1, NULL, -1), 1);
	cr_expect_eq(entry.op_context, CONTEXT(1));
	pthread_join(thread, NULL);
	rig_close(rig);
}

Test(stall, does_not_keep_sread_longer_than_asked, .timeout = 20)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	struct fi_cq_tagged_entry entry;
	int64_t start = now_ms();

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	cr_expect_eq(fi_cq_sread(rig->cq, &entry, 1, NULL, 50), -FI_EAGAIN);
	cr_expect_geq(now_ms() - start, 49);
	cr_expect_lt(now_ms() - start, 5000);
	rig_close(rig);
}

/* Also if something was there to wake up for, and has been read meanwhile. */
Test(stall, does_not_make_sread_spin, .timeout = 20)
{
	for (int raised = 0; raised < 2; raised++) {
		struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
		struct fi_cq_tagged_entry entry;
		int reads;

		if (raised) {
			accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
			fake_complete(&rig->fake, 1);
			pmv_queue_progress(&pmv_to_cq(rig->cq)->queue, false);
			rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
		}
		rig->fake.room = 1;
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
		reads = rig->fake.cq_reads;
		cr_expect_eq(fi_cq_sread(rig->cq, &entry, 1, NULL, 400), -FI_EAGAIN);
		reads = rig->fake.cq_reads - reads;
		/* Once a millisecond is often enough. */
		cr_expect_lt(reads, 800, "raised %d: %d reads in 400 ms", raised, reads);
		rig_close(rig);
	}
}

Test(stall, keeps_trywait_from_promising_a_wakeup)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});

	cr_expect_eq(pmv_cq_trywait(pmv_to_cq(rig->cq)), 0);
	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	cr_expect_eq(pmv_cq_trywait(pmv_to_cq(rig->cq)), -FI_EAGAIN);
	rig->fake.room = -1;
	rig_expect_nothing(rig);
	cr_expect_eq(pmv_cq_trywait(pmv_to_cq(rig->cq)), 0);
	rig_close(rig);
}

/* is_ready -- the descriptor: trywait has said that it may be waited for */
static bool is_ready(struct rig *rig)
{
	struct pollfd fd = {.fd = pmv_to_cq(rig->cq)->queue.epoll_fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static void *move(void *queue)
{
	pmv_queue_progress(queue, false);
	return NULL;
}

/* move_data -- as another thread does */
static void move_data(struct rig *rig)
{
	pthread_t thread;

	accepted(pthread_create(&thread, NULL, move, &pmv_to_cq(rig->cq)->queue));
	accepted(pthread_join(thread, NULL));
}

/* What is injected has no entry, and the thread that makes room is another one. */
static void expect_to_hear_of_room(struct rig *rig, ssize_t ret)
{
	struct pmv_cq *cq = pmv_to_cq(rig->cq);

	cr_assert_eq(ret, -FI_EAGAIN);
	cr_expect_eq(pmv_cq_trywait(cq), 0, "nothing has moved");
	cr_expect_not(is_ready(rig));
	pmv_queue_progress(&cq->queue, false);
	cr_expect_not(is_ready(rig), "whoever was refused has seen that");
	move_data(rig);
	cr_expect(is_ready(rig));
	cr_expect_eq(pmv_cq_trywait(cq), -FI_EAGAIN, "there may be room");
	cr_expect(is_ready(rig), "for others that were refused, too");
	cr_expect_eq(pmv_cq_trywait(cq), 0, "once");
	move_data(rig);
	cr_expect_not(is_ready(rig));
}

Test(stall, of_what_is_injected_ends_when_another_thread_has_moved_data)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});

	/* From the second commit on a write is posted at once. */
	for (int i = 0; i < 2; i++) {
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
		cr_assert_eq(fake_complete(&rig->fake, 2), 2);
		rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	}
	cr_expect(pmv_ordering_is_quiet(&pmv_to_ep(rig->ep)->initiator, KEY_MHP));
	rig->fake.room = 0;
	expect_to_hear_of_room(rig, fi_inject(rig->ep, data, 8, 0));
	expect_to_hear_of_room(rig, fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_MHP));
	expect_to_hear_of_room(rig, rig_write(rig, KEY_MHP, CONTEXT(1)));
	expect_to_hear_of_room(rig, rig_writemsg(rig, KEY_MHP, CONTEXT(1), 0));
	expect_to_hear_of_room(rig, rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	expect_to_hear_of_room(rig, rig_fetch(rig, KEY_MHP, CONTEXT(1), 0));
	rig_close(rig);
}

Test(stall, of_what_is_injected_may_end_before_the_application_sleeps)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	struct pmv_cq *cq = pmv_to_cq(rig->cq);

	rig->fake.room = 0;
	refused(fi_inject(rig->ep, data, 8, 0), FI_EAGAIN);
	move_data(rig);
	cr_expect_eq(pmv_cq_trywait(cq), -FI_EAGAIN);
	cr_expect_eq(pmv_cq_trywait(cq), 0);
	rig_close(rig);
}
