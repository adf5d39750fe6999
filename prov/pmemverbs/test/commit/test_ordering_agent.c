/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ordering_agent.c -- fenced commits by the target's agent, from both ends; those over
 * a path that keeps no order are in test_ordering_relaxed.c
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/support/pair.h"

Test(fence, without_anything_before_it_is_a_plain_commit)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

Test(fence, small_data_ride_in_the_message)
{
	static const struct {
		enum pair_memory before, after;
		const char *done;
	} cases[] = {
		{DMP, DMP, "F D S F D K"}, {PAGE, DMP, "Y D S F D K"},    {DMP, PAGE, "F D Y D K"},
		{PAGE, PAGE, "Y D Y D K"}, {PAGE, PAGE_TOO, "Y D Y D K"}, {DMP, MHP, "F D S D K"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *pair = pair_open(NULL);
		struct pmv_flush_message message;

		accepted(pair_put(pair, cases[i].before, 100, 64, CONTEXT(1), 0));
		accepted(
			pair_put(pair, cases[i].after, 5000, 40, CONTEXT(2), FI_COMMIT | FI_FENCE));
		expect_sent(pair, "W M");
		pair_expect_message(pair, 0, &message);
		cr_expect_eq(message.count, 2);
		cr_expect(message.store);
		cr_expect(pair_names(pair, &message, cases[i].before, 100, 64));
		cr_expect_eq(message.ranges[1].key, (uint32_t) pair_key(pair, cases[i].after));
		cr_expect_eq(message.ranges[1].addr, pair_addr(pair, cases[i].after, 5000));
		cr_expect_eq(message.ranges[1].len, 40);
		cr_expect_arr_eq(message_data(&message), pair->source + 5000, 40);
		/* What was handed over may be changed only after the completion. */
		pair_deliver(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect_nothing(pair->home);
		pair_serve(pair);
		expect_done(pair, cases[i].done);
		cr_expect(pair_survives(pair, cases[i].before, 100, 64));
		cr_expect_arr_eq(pair->memory[cases[i].after] + 5000, pair->source + 5000, 40);
		if (cases[i].after != MHP)
			cr_expect(pair_survives(pair, cases[i].after, 5000, 40));
		rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
		rig_expect_nothing(pair->home);
		pair_close(pair);
	}
}

Test(fence, while_data_ride_nothing_else_is_taken)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, DMP, 4096, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W M M");
	pair_expect_stalled(pair);
	pair_deliver(pair);
	pair_expect_stalled(pair);
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	accepted(rig_write(pair->home, KEY_MHP, CONTEXT(3)));
	expect_sent(pair, "W");
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
	pair_close(pair);
}

/* Or a stream of commits, by another thread, would keep it waiting for ever. */
Test(fence, that_is_refused_lets_no_commit_pass)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	refused(pair_put(pair, MHP, 0, 64, CONTEXT(2), FI_FENCE), FI_EAGAIN);
	refused(pair_put(pair, DMP, 64, 64, CONTEXT(3), FI_COMMIT), FI_EAGAIN);
	expect_sent(pair, "W M");
	pair_round(pair);
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(2), FI_FENCE));
	accepted(pair_put(pair, DMP, 64, 64, CONTEXT(3), FI_COMMIT));
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* Nor one whose plan is known, and whose data are too large for a request. */
Test(fence, that_is_refused_lets_no_ordinary_commit_pass)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(1), FI_COMMIT));
	refused(pair_put(pair, MHP, 0, 64, CONTEXT(2), FI_FENCE), FI_EAGAIN);
	refused(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(3), FI_COMMIT), FI_EAGAIN);
	pair_round(pair);
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(2), FI_FENCE));
	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(3), FI_COMMIT));
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* Whoever was refused may have changed its mind. */
Test(fence, that_is_given_up_keeps_nobody_waiting)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(pair_put(pair, MHP, 0, 64, CONTEXT(2), FI_FENCE), -FI_EAGAIN);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	accepted(pair_put(pair, DMP, 64, 64, CONTEXT(3), FI_COMMIT));
	accepted(pair_put(pair, DMP, 128, 64, CONTEXT(4), FI_COMMIT));
	pair_close(pair);
}

Test(fence, data_ride_one_after_the_other)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	for (int i = 0; i < 3; i++)
		accepted(pair_put(pair, DMP, 4096 + (size_t) i * 512, 64, CONTEXT(2 + i),
				  FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W M M M M");
	pair_deliver(pair);
	cr_expect_eq(pair->memory[DMP][4096], 0, "it is not written");
	pair_serve(pair);
	expect_done(pair, "F D S F D S F D S F D K");
	for (int i = 0; i < 4; i++)
		rig_expect(pair->home, CONTEXT(1 + i), RIG_WRITTEN);
	pair_close(pair);
}

/*
 * What others do while a write is being posted: one commits, so that nothing is left
 * to be told to the agent, and another one posts a fence.
 */
static void commit_behind(struct fake *fake, const struct fake_post *post, void *arg)
{
	struct pair *pair = arg;

	(void) post;
	fake->on_post = NULL;
	accepted(pair_put(pair, DMP, 1024, 8, CONTEXT(8), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(8), RIG_WRITTEN);
	expect_sent(pair, "W M");
	accepted(pair_put(pair, MHP, 512, 8, CONTEXT(9), FI_COMMIT | FI_FENCE));
}

Test(fence, sees_a_write_that_is_being_posted)
{
	struct pair *pair = pair_open(NULL);

	pair->home->fake.on_post = commit_behind;
	pair->home->fake.on_post_arg = pair;
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), 0));
	/* What a READ makes durable must not pass what only the agent does. */
	expect_sent(pair, "M W");
	pair_close(pair);
}

/* commit_twice -- the first request may have been posted in front of the write */
static void commit_twice(struct fake *fake, const struct fake_post *post, void *arg)
{
	struct pair *pair = arg;
	struct pmv_flush_message message;

	(void) post;
	fake->on_post = NULL;
	for (int i = 8; i < 10; i++) {
		accepted(pair_put(pair, DMP, 1024, 8, CONTEXT(i), FI_COMMIT));
		pair_expect_message(pair, 0, &message);
		cr_expect(pair_names(pair, &message, DMP, 0, 8));
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	}
	expect_sent(pair, "W M W M");
}

/* ... and another thread knows that the write has completed before its call returns. */
Test(commit, names_a_write_again_that_was_being_posted)
{
	struct pair *pair = pair_open(NULL);

	pair->home->fake.on_post = commit_twice;
	pair->home->fake.on_post_arg = pair;
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), 0));
	pair_close(pair);
}

Test(fence, as_much_rides_as_fits)
{
	for (size_t ranges = 1; ranges <= PMV_MAX_RANGES; ranges++) {
		for (size_t more = 0; more < 2; more++) {
			struct pair *pair = pair_open(NULL);
			struct pmv_flush_message message;
			size_t len = PMV_STORE_ROOM(ranges) + more;

			/* One of them is for the data. */
			for (size_t i = 0; i + 1 < ranges; i++)
				pair_inject(pair, DMP, i * 512, 8);
			if (ranges == 1)
				accepted(pair_put(pair, DMP, 0, 0, CONTEXT(1), FI_COMMIT));
			accepted(pair_put(pair, PAGE, 0, len, CONTEXT(2), FI_COMMIT | FI_FENCE));
			pair_expect_message(pair, 0, &message);
			cr_expect_eq(message.store, !more, "%zu ranges, %zu bytes", ranges, len);
			for (int i = 0; i < 2; i++) {
				pair_round(pair);
				if (ranges == 1 && !i)
					rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
				if (i != (int) more)
					rig_expect_nothing(pair->home);
				else
					rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
				if (!more)
					break;
			}
			cr_expect(pair_survives(pair, PAGE, 0, len));
			pair_close(pair);
		}
	}
}

Test(fence, data_from_several_places_ride_in_order)
{
	struct pair *pair = pair_open(NULL);
	char abc[] = "abc", defgh[] = "defgh";
	struct iovec iov[] = {{abc, 3}, {NULL, 0}, {defgh, 5}};
	struct fi_rma_iov rma_iov = {pair_addr(pair, DMP, 4096), 8, pair_key(pair, DMP)};
	struct fi_msg_rma msg = {iov, NULL, 3, 0, &rma_iov, 1, CONTEXT(2), 0};

	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	accepted(fi_writemsg(pair->home->ep, &msg, FI_COMMIT | FI_FENCE));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	cr_expect_arr_eq(pair->durable[DMP] + 4096, "abcdefgh", 8);
	pair_close(pair);
}

Test(fence, large_data_are_written_when_the_rest_is_acknowledged)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message;

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(2), 0));
	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W W M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 2);
	cr_expect_not(message.store);
	cr_expect(pair_names(pair, &message, DMP, 0, 64));
	cr_expect(pair_names(pair, &message, PAGE, 0, 64));
	pair_expect_stalled(pair);
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_expect_stalled(pair);
	pair_serve(pair);
	expect_done(pair, "F Y D K");
	rig_expect_nothing(pair->home);
	expect_sent(pair, "W M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 1);
	cr_expect(pair_names(pair, &message, DMP, 4096, PAIR_LARGE));
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pair_serve(pair);
	expect_done(pair, "F D K");
	rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
	cr_expect(pair_survives(pair, DMP, 4096, PAIR_LARGE));
	accepted(rig_write(pair->home, KEY_MHP, CONTEXT(4)));
	pair_close(pair);
}

Test(fence, large_data_for_memory_that_a_read_flushes_wait_too)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, READ_DMP, 4096, PAIR_LARGE, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "W R");
	fake_complete(&pair->home->fake, 1);
	rig_expect_nothing(pair->home);
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

/* The core may be full at any moment. */
Test(fence, large_data_wait_for_room_as_well)
{
	static const struct {
		int room;
		const char *first, *then;
	} cases[] = {{0, "", "W M"}, {1, "W", "M"}};

	for (size_t i = 0; i < 2; i++) {
		struct pair *pair = pair_open(NULL);

		accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
		accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(2), FI_COMMIT | FI_FENCE));
		pair_round(pair);
		pair_posted(pair);
		pair->home->fake.room = cases[i].room;
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect_nothing(pair->home);
		rig_expect_nothing(pair->home);
		expect_sent(pair, cases[i].first);
		pair_expect_stalled(pair);
		pair->home->fake.room = -1;
		rig_expect_nothing(pair->home);
		expect_sent(pair, cases[i].then);
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
		cr_expect(pair_survives(pair, DMP, 4096, PAIR_LARGE));
		pair_close(pair);
	}
}

Test(fence, large_data_that_can_not_be_posted_fail_once)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(2), FI_COMMIT | FI_FENCE));
	pair_round(pair);
	pair->home->fake.fail_in = 1;
	pair->home->fake.fail_err = FI_EOPBADSTATE;
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EOPBADSTATE);
	rig_expect_nothing(pair->home);
	accepted(rig_write(pair->home, KEY_MHP, CONTEXT(3)));
	pair_close(pair);
}

static void commit_after_a_fault(size_t len)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, PAIR_SIZE, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 4096, len, CONTEXT(2), FI_COMMIT | FI_FENCE));
	pair_round(pair);
	pair_posted(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EACCES);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "");
	cr_expect_eq(pair->memory[DMP][4096], 0);
	accepted(rig_write(pair->home, KEY_MHP, CONTEXT(3)));
	pair_close(pair);
}

Test(fence, large_data_are_not_written_after_a_fault)
{
	commit_after_a_fault(PAIR_LARGE);
}

Test(fence, small_data_are_not_stored_after_a_fault)
{
	commit_after_a_fault(64);
}

/* What is posted behind a failure that waits to be read would survive without what it follows. */
static void fence_behind_an_unread_failure(enum pair_memory memory, size_t len, uint64_t flags)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	pair_posted(pair);
	/* The provider looks, for whatever reason. */
	pmv_queue_progress(pair->from->initiator.owner.tx_queue, false);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(pair_put(pair, memory, 4096, len, CONTEXT(2), flags), -FI_ECANCELED);
	expect_sent(pair, "");
	/* Another order was not asked for. */
	accepted(pair_put(pair, DMP, 8192, 64, CONTEXT(3), FI_COMMIT));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
	accepted(pair_put(pair, memory, 4096, len, CONTEXT(2), flags));
	pair_round(pair);
	pair_close(pair);
}

Test(fence, is_refused_behind_a_failure_that_is_not_read)
{
	fence_behind_an_unread_failure(DMP, 64, FI_COMMIT | FI_FENCE);
	fence_behind_an_unread_failure(DMP, PAIR_LARGE, FI_COMMIT | FI_FENCE);
	fence_behind_an_unread_failure(READ_DMP, 64, FI_COMMIT | FI_FENCE);
	fence_behind_an_unread_failure(DMP, 64, FI_FENCE);
}

/* b must not survive without a, also where a's failure was another commit's. */
static void commit_behind_one_that_fails(size_t len)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, DMP, 4096, len, CONTEXT(2), FI_COMMIT | FI_FENCE));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EIO);
	rig_expect_nothing(pair->home);
	pair_round(pair);
	rig_expect_nothing(pair->home);
	cr_expect_not(pair_survives(pair, DMP, 4096, len));
	pair_close(pair);
}

Test(fence, small_data_are_not_stored_after_a_commit_that_fails)
{
	commit_behind_one_that_fails(64);
}

Test(fence, large_data_are_not_written_after_a_commit_that_fails)
{
	commit_behind_one_that_fails(PAIR_LARGE);
}

Test(fence, injected_data_may_be_changed_at_once)
{
	for (int inject = 0; inject < 2; inject++) {
		struct pair *pair = pair_open(NULL);
		char *expected = malloc(PAIR_LARGE);

		memcpy(expected, pair->source + 4096, PAIR_LARGE);
		accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
		accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(2),
				  FI_COMMIT | FI_FENCE | (inject ? FI_INJECT : 0)));
		if (inject)
			memset(pair->source + 4096, 0, PAIR_LARGE);
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect_nothing(pair->home);
		cr_expect_eq(pair_post(pair, 1)->op.flags & FI_INJECT, inject ? FI_INJECT : 0);
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
		cr_expect_arr_eq(pair->durable[DMP] + 4096, expected, PAIR_LARGE);
		free(expected);
		pair_close(pair);
	}
}

Test(fence, atomics_wait_for_the_agent)
{
	struct pair *pair = pair_open(NULL);
	uint64_t three = 3, old = 77;
	struct fi_ioc ioc = {&three, 1}, result = {&old, 1};
	struct fi_rma_ioc rma_ioc = {pair_addr(pair, DMP, 800), 1, pair_key(pair, DMP)};
	struct fi_msg_atomic msg = {&ioc, NULL,      1,      0,          &rma_ioc,
				    1,    FI_UINT64, FI_SUM, CONTEXT(2), 0};

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(fi_fetch_atomicmsg(pair->home->ep, &msg, &result, NULL, 1,
				    FI_COMMIT | FI_FENCE | FI_INJECT));
	/* None of the arguments is looked at any more. */
	three = 1000;
	memset(&ioc, 0, sizeof(ioc));
	memset(&result, 0, sizeof(result));
	memset(&rma_ioc, 0, sizeof(rma_ioc));
	memset(&msg, 0, sizeof(msg));
	expect_sent(pair, "W M M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "A fM");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), FI_ATOMIC | FI_READ);
	cr_expect_eq(old, 0);
	cr_expect_eq(pair->durable[DMP][800], 3);
	pair_close(pair);
}

Test(fence, of_what_is_not_committed_waits_for_the_agent)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	refused(rig_writemsg(pair->home, KEY_MHP, CONTEXT(2), FI_FENCE), FI_EAGAIN);
	refused(rig_sendmsg(pair->home, CONTEXT(2), FI_FENCE), FI_EAGAIN);
	accepted(rig_send(pair->home, CONTEXT(2)));
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_SENT);
	refused(rig_sendmsg(pair->home, CONTEXT(3), FI_FENCE), FI_EAGAIN);
	refused(rig_fetch(pair->home, KEY_MHP, CONTEXT(3), FI_FENCE), FI_EAGAIN);
	pair_serve(pair);
	/* Without anybody reading the CQ. */
	accepted(rig_sendmsg(pair->home, CONTEXT(3), FI_FENCE));
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(3), RIG_SENT);
	pair_close(pair);
}

Test(fence, of_what_is_not_committed_does_not_wait_for_what_is_not)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	accepted(rig_sendmsg(pair->home, CONTEXT(2), FI_FENCE));
	pair_close(pair);
}

/* What only a READ makes durable has to be, before data that ride are. */
Test(fence, small_data_do_not_pass_writes_that_a_read_makes_durable)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, READ_DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(2), 0));
	accepted(pair_put(pair, DMP, 4096, 8, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W W R fM");
	pair_close(pair);
}

Test(fence, large_data_do_not_pass_writes_that_a_read_makes_durable)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, READ_DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(2), 0));
	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W W M");
	pair_round(pair);
	rig_expect_each(pair->home, 1, 2, RIG_WRITTEN);
	expect_sent(pair, "R fW M");
	pair_close(pair);
}

/* Two threads */

static struct pmv_initiator *racing;

static void *commit_atomic(void *arg)
{
	accepted(pair_fetch(arg, DMP, 0, CONTEXT(1), FI_COMMIT));
	return NULL;
}

/* let_go -- the other thread comes to its request while this one is about to post with the fence */
static void let_go(struct fake *fake, const struct fake_post *post, void *arg)
{
	size_t before = fake->num_posts;

	(void) arg;
	if (!racing || !(post->op.flags & FI_FENCE))
		return;
	pthread_mutex_unlock(&racing->lock);
	racing = NULL;
	for (int i = 0; i < 50 && fake->num_posts == before; i++)
		usleep(1000);
}

/* Else the agent might write back what the atomic is still to change. */
Test(fence, of_an_atomic_taken_by_another_thread_is_before_the_request)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_initiator *ini = &pair->from->initiator;
	pthread_t thread;

	racing = ini;
	pthread_mutex_lock(&ini->lock);
	cr_assert_eq(pthread_create(&thread, NULL, commit_atomic, pair), 0);
	while (!atomic_load(&ini->ordering.fence_due))
		sched_yield();
	pair->home->fake.on_post = let_go;
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(2), FI_FENCE));
	pthread_join(thread, NULL);
	cr_expect_null(racing);
	cr_expect_str_eq(pair_posted(pair), "A fW M");
	pair_close(pair);
}
