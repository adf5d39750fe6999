/* SPDX-License-Identifier: BSD-2-Clause */
/* test_agent.c -- commits by the target's agent, from both ends */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "commit.h"
#include "pair.h"

static void commit_some(struct pair *pair, int count)
{
	for (int i = 0; i < count; i++)
		accepted(pair_put(pair, DMP, (size_t) i * 512, 64, CONTEXT(i), FI_COMMIT));
}

/* The simplest commit */

static void commit_one(enum pair_memory memory, const char *done, bool offsets)
{
	struct pair *pair = pair_open(&(struct pair_options){.offsets = offsets});
	struct pmv_message message;

	accepted(pair_put(pair, memory, 100, 50, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W M");
	cr_expect_not(pair_post(pair, 0)->flags & FI_FENCE);
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.number, 1);
	cr_expect_eq(message.count, 1);
	cr_expect(pair_names(pair, &message, memory, 100, 50));
	cr_expect_not(message.store);
	cr_expect_not(message.notify);
	rig_expect_nothing(pair->home);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	cr_expect_not(pair_survives(pair, memory, 100, 50));
	pair_serve(pair);
	expect_done(pair, done);
	cr_expect(pair_survives(pair, memory, 100, 50));
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	rig_expect_nothing(pair->away);
	expect_sent(pair, "");
	pair_close(pair);
}

Test(commit_by_agent, is_a_write_and_a_message)
{
	commit_one(DMP, "F D K", false);
	commit_one(PAGE, "Y D K", false);
}

Test(commit_by_agent, addresses_by_offsets_where_the_core_does)
{
	commit_one(DMP, "F D K", true);
	commit_one(PAGE, "Y D K", true);
}

Test(commit_by_agent, needs_the_write_the_message_and_the_acknowledgement)
{
	struct pair *pair = pair_open(NULL);

	/* The acknowledgement is last. */
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);

	/* The acknowledgement is first. */
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(2), FI_COMMIT));
	cr_expect_eq(fake_deliver(&pair->home->fake, SIZE_MAX), 2);
	pair_serve(pair);
	rig_expect_nothing(pair->home);
	fake_complete(&pair->home->fake, 1);
	rig_expect_nothing(pair->home);
	fake_complete(&pair->home->fake, 1);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, of_nothing_names_its_region)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_message message;

	accepted(pair_put(pair, DMP, 0, 0, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W0 M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 1);
	cr_expect_eq(message.ranges[0].len, 0);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, names_all_that_was_written_there_before)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_message message;

	accepted(pair_put(pair, DMP, 1000, 10, CONTEXT(1), 0));
	pair_inject(pair, DMP, 3000, 30);
	accepted(pair_put(pair, PAGE, 5000, 50, CONTEXT(2), 0));
	accepted(pair_put(pair, DMP, 7000, 70, CONTEXT(3), FI_COMMIT));
	expect_sent(pair, "W W W W M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 3, "and nothing of another region");
	cr_expect(pair_names(pair, &message, DMP, 1000, 10));
	cr_expect(pair_names(pair, &message, DMP, 3000, 30));
	cr_expect(pair_names(pair, &message, DMP, 7000, 70));
	pair_round(pair);
	expect_done(pair, "F F F D K");
	for (int i = 1; i <= 3; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	cr_expect_not(pair_survives(pair, PAGE, 5000, 50));

	/* Once it is told, it is told. */
	accepted(pair_put(pair, PAGE, 9000, 90, CONTEXT(4), FI_COMMIT));
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 2);
	cr_expect(pair_names(pair, &message, PAGE, 5000, 50));
	cr_expect(pair_names(pair, &message, PAGE, 9000, 90));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(4), RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, several_are_served_and_acknowledged_together_and_complete_in_order)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, 5);
	expect_sent(pair, "W M W M W M W M W M");
	pair_round(pair);
	expect_done(pair, "F F F F F D K");
	for (int i = 0; i < 5; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(commit_by_agent, acknowledgements_of_some_complete_these)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, 5);
	pair_deliver(pair);
	pair_answer(pair, 1, 2, PMV_FAULT_NONE);
	rig_expect(pair->home, CONTEXT(0), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	pair_answer(pair, 2, 3, PMV_FAULT_NONE);
	pair_answer(pair, 3, 5, PMV_FAULT_NONE);
	for (int i = 2; i < 5; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, goes_on_for_many_rounds_of_the_mailbox)
{
	struct pair *pair = pair_open(NULL);

	for (int i = 0; i < 1000; i++) {
		pair->num_events = pair->shown_events = 0;
		pair->source[i] = (char) i;
		accepted(pair_put(pair, DMP, (size_t) i, 1, CONTEXT(i), FI_COMMIT));
		pair_round(pair);
		cr_assert(pair_survives(pair, DMP, (size_t) i, 1));
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	}
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(commit_by_agent, without_room_in_the_mailbox_waits_for_it)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, PMV_SLOTS);
	pair_posted(pair);
	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(64), FI_COMMIT));
	expect_sent(pair, "W");
	pair_expect_stalled(pair);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "");
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(0), RIG_WRITTEN);
	expect_sent(pair, "M");
	for (int i = 0; i < 8; i++)
		pair_round(pair);
	for (int i = 1; i <= PMV_SLOTS; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(65), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(65), RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, without_room_in_the_send_queue_waits_for_it)
{
	struct pair *pair = pair_open(NULL);

	pair->home->fake.room = 1;
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W");
	pair_expect_stalled(pair);
	pair->home->fake.room = -1;
	rig_expect_nothing(pair->home);
	expect_sent(pair, "M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, of_many_ranges_is_several_messages)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_message message;
	unsigned int found = 0;

	for (size_t i = 0; i < 45; i++)
		accepted(pair_put(pair, DMP, i * 1000, 8, CONTEXT(i), 0));
	pair_posted(pair);
	accepted(pair_put(pair, DMP, 50000, 8, CONTEXT(45), FI_COMMIT | FI_IMMED));
	expect_sent(pair, "W M M M");
	for (size_t n = 3; n--;) {
		pair_expect_message(pair, n, &message);
		cr_expect_eq(message.count, n ? PMV_MAX_RANGES : 6);
		cr_expect_eq(message.notify, n == 0);
		for (size_t i = 0; i < 45; i++)
			found += pair_names(pair, &message, DMP, i * 1000, 8);
		found += pair_names(pair, &message, DMP, 50000, 8);
	}
	cr_expect_eq(found, 46);
	pair_deliver(pair);
	for (int i = 0; i < 45; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	pair_answer(pair, 1, 1, PMV_FAULT_NONE);
	rig_expect_nothing(pair->home);
	pair_answer(pair, 2, 2, PMV_FAULT_NONE);
	rig_expect_nothing(pair->home);
	pair_answer(pair, 3, 3, PMV_FAULT_NONE);
	rig_expect(pair->home, CONTEXT(45), RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, of_many_ranges_is_sent_on_from_where_there_was_no_room)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_message message;

	for (size_t i = 0; i < 45; i++)
		accepted(pair_put(pair, DMP, i * 1000, 8, CONTEXT(i), 0));
	pair_posted(pair);
	pair->home->fake.room = 2;
	accepted(pair_put(pair, DMP, 50000, 8, CONTEXT(45), FI_COMMIT));
	expect_sent(pair, "W M");
	fake_complete(&pair->home->fake, SIZE_MAX);
	for (int i = 0; i < 45; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	/* Acknowledged before the rest is sent. */
	pair_serve(pair);
	rig_expect_nothing(pair->home);
	pair->home->fake.room = 1;
	rig_expect_nothing(pair->home);
	expect_sent(pair, "M");
	pair->home->fake.room = -1;
	rig_expect_nothing(pair->home);
	expect_sent(pair, "M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.number, 3);
	cr_expect_eq(message.count, 6);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(45), RIG_WRITTEN);
	for (size_t i = 0; i < 45; i++)
		cr_expect(pair_survives(pair, DMP, i * 1000, 8));
	pair_close(pair);
}

Test(commit_by_agent, is_refused_without_one)
{
	struct pair *pair = pair_open(&(struct pair_options){.no_agent = true});

	refused(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT), FI_EOPNOTSUPP);
	refused(pair_put(pair, PAGE, 0, 8, CONTEXT(1), FI_COMMIT), FI_EOPNOTSUPP);
	expect_sent(pair, "");
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(2), 0));
	refused(pair_put(pair, MHP, 0, 8, CONTEXT(1), FI_COMMIT | FI_FENCE), FI_EOPNOTSUPP);
	accepted(pair_put(pair, MHP, 0, 8, CONTEXT(3), FI_COMMIT));
	expect_sent(pair, "W W R");
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, of_an_atomic_names_its_operands)
{
	struct pair *pair = pair_open(NULL);
	uint64_t one = 1, old = 77;
	struct fi_ioc ioc = {&one, 1}, result = {&old, 1};
	struct fi_rma_ioc rma_ioc = {pair_addr(pair, DMP, 800), 1, pair_key(pair, DMP)};
	struct fi_msg_atomic msg = {&ioc, NULL,      1,      0,          &rma_ioc,
				    1,    FI_UINT64, FI_SUM, CONTEXT(1), 0};
	struct pmv_message message;

	accepted(fi_fetch_atomicmsg(pair->home->ep, &msg, &result, NULL, 1, FI_COMMIT));
	/* Fenced, since an atomic may be executed later than what follows it. */
	expect_sent(pair, "A fM");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 1);
	cr_expect(pair_names(pair, &message, DMP, 800, 8));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), FI_ATOMIC | FI_READ);
	cr_expect_eq(old, 0);
	cr_expect_eq(pair->durable[DMP][800], 1);
	pair_close(pair);
}

Test(commit_by_agent, names_all_bytes_of_an_injected_atomic)
{
	struct pair *pair = pair_open(NULL);
	static uint64_t operands[20];
	struct pmv_message message;

	accepted(fi_inject_atomic(pair->home->ep, operands, 20, 0, pair_addr(pair, DMP, 0),
				  pair_key(pair, DMP), FI_UINT64, FI_SUM));
	accepted(pair_put(pair, DMP, 4096, 8, CONTEXT(1), FI_COMMIT));
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 2);
	cr_expect(pair_names(pair, &message, DMP, 4096, 8));
	cr_expect(pair_names(pair, &message, DMP, 0, sizeof(operands)));
	pair_close(pair);
}

/* What goes wrong at the target */

Test(commit_by_agent, beyond_the_end_is_an_access_error_once)
{
	struct pair *pair = pair_open(NULL);

	/* The data are lost on the way. */
	accepted(pair_put(pair, DMP, PAIR_SIZE - 10, 20, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EACCES);
	rig_expect_nothing(pair->home);
	/* It is this commit's error alone. */
	accepted(pair_put(pair, DMP, 0, 20, CONTEXT(2), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, on_a_medium_that_fails_is_an_io_error_once)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 20, CONTEXT(1), FI_COMMIT | FI_IMMED));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_nothing(pair->home);
	rig_expect_nothing(pair->away);
	pair_close(pair);
}

Test(commit_by_agent, that_the_agent_does_not_understand_is_invalid)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, 2);
	pair_deliver(pair);
	pair_answer(pair, 1, 1, PMV_FAULT_MESSAGE);
	pair_answer(pair, 2, 2, (enum pmv_fault) 77);
	rig_expect_error(pair->home, CONTEXT(0), RIG_WRITTEN, FI_EINVAL);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EINVAL);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(commit_by_agent, with_a_fault_fails_alone)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 20, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, DMP, PAIR_SIZE, 20, CONTEXT(2), FI_COMMIT));
	accepted(pair_put(pair, DMP, 100, 20, CONTEXT(3), FI_COMMIT));
	pair_round(pair);
	expect_done(pair, "F F D K K K");
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EACCES);
	rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(commit_by_agent, of_several_messages_fails_once_if_one_of_them_does)
{
	for (uint64_t bad = 1; bad <= 3; bad++) {
		struct pair *pair = pair_open(NULL);

		for (size_t i = 0; i < 45; i++)
			pair_inject(pair, DMP, i * 1000, 8);
		accepted(pair_put(pair, DMP, 50000, 8, CONTEXT(1), FI_COMMIT));
		pair_deliver(pair);
		for (uint64_t n = 1; n <= 3; n++) {
			rig_expect_nothing(pair->home);
			pair_answer(pair, n, n, n == bad ? PMV_FAULT_IO : PMV_FAULT_NONE);
		}
		rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
		rig_expect_nothing(pair->home);
		pair_close(pair);
	}
}

Test(commit_by_agent, fault_of_a_part_counts_although_the_rest_is_not_sent_yet)
{
	struct pair *pair = pair_open(NULL);

	for (size_t i = 0; i < 25; i++)
		pair_inject(pair, DMP, i * 1000, 8);
	pair->home->fake.room = 2;
	accepted(pair_put(pair, DMP, 50000, 8, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	pair_answer(pair, 1, 1, PMV_FAULT_IO);
	rig_expect_nothing(pair->home);
	/* The rest is sent all the same: later letters rely on that. */
	pair->home->fake.room = -1;
	rig_expect_nothing(pair->home);
	pair_deliver(pair);
	pair_answer(pair, 2, 2, PMV_FAULT_NONE);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

static void expect_lost(struct pair *pair, int count)
{
	for (int i = 0; i < count; i++)
		rig_expect_error(pair->home, CONTEXT(i), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(pair->home);
}

Test(commit_by_agent, fails_when_the_agent_acknowledges_what_it_was_not_told_of)
{
	static const uint64_t done[] = {4, UINT64_MAX, 0};

	for (int i = 0; i < 3; i++) {
		struct pair *pair = pair_open(NULL);

		commit_some(pair, 3);
		pair_deliver(pair);
		pair_answer(pair, 1, done[i], PMV_FAULT_NONE);
		expect_lost(pair, 3);
		pair_close(pair);
	}
}

Test(commit_by_agent, fails_when_the_connection_is_lost)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, 3);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pmv_ep_break(pair->from);
	expect_lost(pair, 3);
	/* What comes too late changes nothing. */
	pair_serve(pair);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(commit_by_agent, fails_when_the_connection_is_lost_while_it_waits_for_room)
{
	struct pair *pair = pair_open(NULL);

	pair->home->fake.room = 1;
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(0), FI_COMMIT));
	pair_deliver(pair);
	pmv_ep_break(pair->from);
	rig_expect_error(pair->home, CONTEXT(0), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(commit_by_agent, fails_when_its_message_does)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, 2);
	fake_complete(&pair->home->fake, 1);
	fake_fail_all(&pair->home->fake, FI_EIO, 5);
	rig_expect_error(pair->home, CONTEXT(0), RIG_WRITTEN, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(commit_by_agent, fails_when_its_write_does)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, 2);
	fake_fail_all(&pair->home->fake, FI_EIO, 5);
	rig_expect_error(pair->home, CONTEXT(0), RIG_WRITTEN, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* Those behind the one that fails have been delivered and wait for the agent alone. */
Test(commit_by_agent, fails_when_anything_else_of_the_connection_does)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, 2);
	pair_deliver(pair);
	accepted(rig_commit(pair->home, KEY_MHP, CONTEXT(2), 0));
	fake_fail_all(&pair->home->fake, FI_EIO, 5);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EIO);
	expect_lost(pair, 2);
	pair_close(pair);
}

Test(commit_by_agent, fails_when_its_message_can_not_be_posted)
{
	struct pair *pair = pair_open(NULL);

	pair->home->fake.fail_in = 2;
	pair->home->fake.fail_err = FI_EOPBADSTATE;
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EOPBADSTATE);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* Nobody was told of what that message named. */
Test(commit_by_agent, behind_a_message_that_could_not_be_posted_does_not_succeed_without_it)
{
	struct pair *pair = pair_open(NULL);
	struct fi_cq_tagged_entry entry;

	pair_inject(pair, DMP, 0, 64);
	pair->home->fake.fail_in = 2;
	pair->home->fake.fail_err = FI_ENOMEM;
	accepted(pair_put(pair, DMP, 4096, 64, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ENOMEM);
	if (!pair_put(pair, DMP, 8192, 64, CONTEXT(2), FI_COMMIT)) {
		pair_round(pair);
		if (fi_cq_read(pair->home->cq, &entry, 1) == 1)
			cr_expect(pair_survives(pair, DMP, 0, 64));
	}
	pair_close(pair);
}

Test(commit_by_agent, never_succeeds_after_the_connection_was_lost)
{
	struct pair *pair = pair_open(NULL);
	struct fi_cq_tagged_entry entry;

	commit_some(pair, 1);
	pmv_ep_break(pair->from);
	pair_deliver(pair);
	expect_lost(pair, 1);
	if (!pair_put(pair, DMP, 0, 64, CONTEXT(2), FI_COMMIT)) {
		pair_deliver(pair);
		cr_expect_eq(fi_cq_read(pair->home->cq, &entry, 1), -FI_EAVAIL);
	}
	pair_close(pair);
}

Test(commit_by_agent, that_waits_is_told_of_when_the_endpoint_is_closed)
{
	for (int late = 0; late < 2; late++) {
		struct pair *pair = pair_open(NULL);

		pair->home->fake.on_close = late ? FAKE_CLOSE_FORGETS : FAKE_CLOSE_CANCELS;
		accepted(pair_put(pair, DMP, 0, 8, CONTEXT(0), FI_COMMIT));
		pair_deliver(pair);
		/* One waits for the agent, one for the core, one for room. */
		accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
		pair->home->fake.room = 1;
		accepted(pair_put(pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT | FI_IMMED));
		rig_close_ep(pair->home);
		for (int i = 0; i < 3; i++) {
			struct fi_cq_err_entry error = {0};
			struct fi_cq_tagged_entry entry;

			cr_assert_eq(fi_cq_read(pair->home->cq, &entry, 1), -FI_EAVAIL);
			cr_assert_eq(fi_cq_readerr(pair->home->cq, &error, 0), 1);
			cr_expect_eq(error.err, FI_ECANCELED);
		}
		rig_expect_nothing(pair->home);
		if (late)
			fake_report(&pair->home->fake, 2, 0);
		rig_expect_nothing(pair->home);
		pair_close(pair);
	}
}

Test(commit_by_agent, large_and_fenced_is_told_of_when_the_endpoint_is_closed)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(0), FI_COMMIT));
	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(1),
			  FI_COMMIT | FI_FENCE | FI_INJECT));
	rig_close_ep(pair->home);
	expect_lost(pair, 2);
	pair_close(pair);
}

/* Notices */

static void expect_notice(struct pair *pair)
{
	struct fi_cq_tagged_entry entry = {0};

	cr_assert_eq(fi_cq_read(pair->away->rx_cq, &entry, 1), 1);
	cr_expect_eq(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	cr_expect_eq(entry.data, DATA);
}

Test(notice, is_given_by_the_agent_once_the_data_are_durable)
{
	for (int memory = DMP; memory <= PAGE; memory++) {
		struct pair *pair = pair_open(NULL);
		struct pmv_message message;

		pair->expects_notice = true;
		accepted(pair_put(pair, (enum pair_memory) memory, 0, 64, CONTEXT(1),
				  FI_COMMIT | FI_REMOTE_CQ_DATA));
		expect_sent(pair, "W M");
		cr_expect_not(pair_post(pair, 1)->flags & FI_REMOTE_CQ_DATA);
		pair_expect_message(pair, 0, &message);
		cr_expect(message.notify);
		cr_expect_eq(message.data, DATA);
		pair_deliver(pair);
		pair_serve(pair);
		expect_notice(pair);
		cr_expect(pair_survives(pair, (enum pair_memory) memory, 0, 64));
		rig_expect_nothing(pair->away);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		pair_close(pair);
	}
}

Test(notice, of_a_small_fenced_commit_comes_once_it_is_stored_and_durable)
{
	struct pair *pair = pair_open(NULL);

	pair->expects_notice = true;
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 4096, 8, CONTEXT(2), FI_COMMIT | FI_FENCE | FI_IMMED));
	pair_round(pair);
	expect_done(pair, "F D S F D K");
	expect_notice(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(notice, of_a_large_fenced_commit_comes_with_its_second_message)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_message message;

	pair->expects_notice = true;
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(
		pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(2), FI_COMMIT | FI_FENCE | FI_IMMED));
	pair_expect_message(pair, 0, &message);
	cr_expect_not(message.notify);
	pair_round(pair);
	rig_expect_nothing(pair->away);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	pair_expect_message(pair, 0, &message);
	cr_expect(message.notify);
	pair_round(pair);
	expect_notice(pair);
	rig_expect_nothing(pair->away);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(notice, comes_from_the_initiator_where_the_agent_can_not_give_it)
{
	struct pair *pair = pair_open(&(struct pair_options){.no_notices = true});
	struct pmv_message message;

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT | FI_IMMED));
	expect_sent(pair, "W M");
	pair_expect_message(pair, 0, &message);
	cr_expect_not(message.notify);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "");
	pair_serve(pair);
	rig_expect_nothing(pair->away);
	/* The acknowledgement is what it waits for. */
	rig_expect_nothing(pair->home);
	expect_sent(pair, "fW0i");
	cr_expect_eq(pair_post(pair, 0)->data, DATA);
	pair_deliver(pair);
	expect_notice(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(notice, is_not_given_of_a_commit_that_failed)
{
	for (int later = 0; later < 2; later++) {
		struct pair *pair = pair_open(&(struct pair_options){.no_notices = later});

		accepted(pair_put(pair, DMP, PAIR_SIZE, 64, CONTEXT(1), FI_COMMIT | FI_IMMED));
		pair_round(pair);
		rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EACCES);
		pair_round(pair);
		rig_expect_nothing(pair->home);
		rig_expect_nothing(pair->away);
		pair_close(pair);
	}
}

Test(notice, waits_for_room_at_the_target)
{
	struct pair *pair = pair_open(&(struct pair_options){.away = {.cq_size = 3}});

	for (int i = 0; i < 20; i++)
		accepted(pair_put(pair, DMP, 0, 8, CONTEXT(i), FI_COMMIT | FI_IMMED));
	for (int i = 0; i < 20; i++)
		pair_round(pair);
	cr_expect_leq(atomic_load(&pmv_to_cq(pair->away->rx_cq)->num_ready), 3 + 16);
	for (int i = 0; i < 20; i++) {
		expect_notice(pair);
		pair_round(pair);
	}
	rig_expect_nothing(pair->away);
	for (int i = 0; i < 20; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	pair_close(pair);
}

/* Fenced commits */

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
		struct pmv_message message;

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
		cr_expect_arr_eq(message.payload, pair->source + 5000, 40);
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

Test(fence, as_much_rides_as_fits)
{
	for (size_t ranges = 1; ranges <= PMV_MAX_RANGES; ranges++) {
		for (size_t more = 0; more < 2; more++) {
			struct pair *pair = pair_open(NULL);
			struct pmv_message message;
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
	struct pmv_message message;

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

Test(fence, large_data_are_not_written_after_a_fault)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, PAIR_SIZE, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(2), FI_COMMIT | FI_FENCE));
	pair_round(pair);
	pair_posted(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EACCES);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "");
	accepted(rig_write(pair->home, KEY_MHP, CONTEXT(3)));
	pair_close(pair);
}

Test(fence, small_data_are_not_stored_after_a_fault)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, PAIR_SIZE, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 4096, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EACCES);
	cr_expect_eq(pair->memory[DMP][4096], 0);
	rig_expect_nothing(pair->home);
	accepted(rig_write(pair->home, KEY_MHP, CONTEXT(3)));
	pair_close(pair);
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
		cr_expect_eq(pair_post(pair, 1)->flags & FI_INJECT, inject ? FI_INJECT : 0);
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
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "R fW M");
	pair_close(pair);
}

/* A path that keeps no order */

Test(relaxed, what_was_written_is_read_back_before_the_agent_hears)
{
	struct pair *pair;

	pmv_setting.relaxed = true;
	pair = pair_open(NULL);
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W R fM");
	/* All of it: a READ pushes nothing else there. */
	cr_expect_eq(pair_post(pair, 1)->len, 64);
	cr_expect_eq(pair_post(pair, 1)->addr, pair_addr(pair, MHP, 0));
	cr_expect_eq(pair_post(pair, 1)->key, (uint32_t) pair_key(pair, MHP));
	fake_complete(&pair->home->fake, 1);
	rig_expect_nothing(pair->home);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

Test(relaxed, long_writes_are_read_back_in_parts)
{
	struct pair *pair;

	pmv_setting.relaxed = true;
	pair = pair_open(NULL);
	accepted(pair_put(pair, MHP, 100, 10000, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W R R R fM");
	for (size_t i = 0, at = 100; i < 3; at += pair_post(pair, 3 - i++)->len)
		cr_expect_eq(pair_post(pair, 3 - i)->addr, pair_addr(pair, MHP, at));
	cr_expect_eq(pair_post(pair, 3)->len + pair_post(pair, 2)->len + pair_post(pair, 1)->len,
		     10000);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* A full queue in the middle: each part is read once, and the message comes last. */
Test(relaxed, reads_that_found_no_room_are_posted_later)
{
	struct pair *pair;

	pmv_setting.relaxed = true;
	pair = pair_open(NULL);
	pair->home->fake.room = 2;
	accepted(pair_put(pair, DMP, 0, 10000, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W R");
	pair->home->fake.room = 1;
	rig_expect_nothing(pair->home);
	expect_sent(pair, "R");
	pair->home->fake.room = -1;
	rig_expect_nothing(pair->home);
	expect_sent(pair, "R fM");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(relaxed, failed_read_fails_the_commit)
{
	struct pair *pair;

	pmv_setting.relaxed = true;
	pair = pair_open(NULL);
	accepted(pair_put(pair, DMP, 0, 10000, CONTEXT(1), FI_COMMIT));
	fake_complete(&pair->home->fake, 2);
	fake_fail_all(&pair->home->fake, FI_EIO, 5);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* Later commits rely on it: what it names is dirty no more. */
Test(relaxed, failed_commits_are_read_back_all_the_same)
{
	struct pair *pair;

	pmv_setting.relaxed = true;
	pair = pair_open(NULL);
	accepted(pair_put(pair, PAGE_TOO, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(2), 0));
	pair->home->fake.room = 0;
	accepted(pair_put(pair, DMP, 8192, PAIR_LARGE, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W R fM W");
	/* The first one fails, and the one that is to follow it. */
	pair_unregister(pair, PAGE_TOO);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EACCES);
	pair->home->fake.room = -1;
	rig_expect_nothing(pair->home);
	expect_sent(pair, "R fM");
	cr_expect_eq(pair_post(pair, 1)->addr, pair_addr(pair, DMP, 0));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(3), RIG_WRITTEN, FI_EACCES);
	pair_close(pair);
}

/* What can't be read back can't be covered by a fence. */
Test(relaxed, fence_behind_what_is_unreadable_is_refused)
{
	const struct pmv_attr attr = {.persist = PMV_NONE, .relaxed = true, .writable = true};
	struct pair *pair;

	pmv_setting.relaxed = true;
	pair = pair_open(NULL);
	accepted(rig_write(pair->home, pmv_key_pack(0x77, &attr), CONTEXT(1)));
	refused(rig_commit(pair->home, pmv_key_pack(0x77, &attr), CONTEXT(2), 0), FI_EOPNOTSUPP);
	refused(pair_put(pair, DMP, 0, 64, CONTEXT(3), FI_COMMIT | FI_FENCE), FI_EOPNOTSUPP);
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(4), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(4), RIG_WRITTEN);
	pair_close(pair);
}

Test(relaxed, fenced_commits_wait_for_the_agent)
{
	struct pair *pair;

	pmv_setting.relaxed = true;
	pair = pair_open(NULL);
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, MHP, 4096, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W R fM");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(3), 0));
	accepted(pair_put(pair, MHP, 4096, PAIR_LARGE, CONTEXT(4), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W R fM");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	/* The message never passes the READ before it. */
	expect_sent(pair, "W R fM");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(4), RIG_WRITTEN);
	pair_close(pair);
}

Test(relaxed, all_messages_of_a_commit_are_fenced)
{
	struct pair *pair;

	pmv_setting.relaxed = true;
	pair = pair_open(NULL);
	for (size_t i = 0; i < 25; i++)
		pair_inject(pair, DMP, i * 1000, 8);
	pair_posted(pair);
	accepted(pair_put(pair, DMP, 50000, 8, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W R R R R R R R R R R R R R R R R R R R R R R R R R R fM fM");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* The agent, told by hand */

static struct pmv_range range_of(struct pair *pair, enum pair_memory memory, size_t offset,
				 size_t len)
{
	return (struct pmv_range){pair_addr(pair, memory, offset), len,
				  (uint32_t) pair_key(pair, memory)};
}

static void tell_one(struct pair *pair, struct pmv_range range)
{
	pair_tell(pair, &(struct pmv_message){.count = 1, .ranges = {range}});
}

Test(agent, flushes_exactly_what_is_named_then_drains_then_acknowledges)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_message message = {
		.count = 3,
		.ranges = {range_of(pair, DMP, 3, 5), range_of(pair, DMP, PAIR_SIZE - 1, 1),
			   range_of(pair, DMP, 0, PAIR_SIZE)},
	};

	pair_serve(pair);
	expect_done(pair, "");
	pair_tell(pair, &message);
	pair_serve(pair);
	expect_done(pair, "F F F D K");
	cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 3, 5));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 1), DMP, PAIR_SIZE - 1, 1));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 2), DMP, 0, PAIR_SIZE));
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pair_serve(pair);
	expect_done(pair, "");
	pair_close(pair);
}

/* Its thread looks often as long as something can't be made durable without it. */
Test(agent, is_needed_by_the_regions_that_only_it_flushes)
{
	struct pair *pair = pair_open(NULL);
	atomic_int *needed = &pmv_to_domain(pair->away->domain)->agent.needed;
	int all = atomic_load(needed);

	for (int memory = 0; memory < PAIR_MEMORIES; memory++) {
		bool needs = memory != READ_DMP && memory != MHP;

		pair_unregister(pair, memory);
		all -= needs;
		cr_expect_eq(atomic_load(needed), all, "memory %d", memory);
	}
	cr_expect_eq(all, 0);
	pair_close(pair);
}

Test(agent, flushes_a_region_of_several_pieces_piece_by_piece)
{
	struct pair *pair = pair_open(NULL);
	struct iovec iov[] = {{pair->memory[DMP], 100}, {pair->memory[MHP] + 4096, 100}};
	struct pmv_region *region;

	region = pmv_agent_add_region(pmv_to_domain(pair->away->domain), 5, PMV_DMP,
				      PMV_REGION_REMOTE, 0, iov, 2, -1, true);
	cr_assert_not_null(region);
	tell_one(pair, (struct pmv_range){90, 30, 5});
	pair_serve(pair);
	expect_done(pair, "F F D K");
	cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 90, 10));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 1), MHP, 4096, 20));
	pmv_agent_remove_region(pmv_to_domain(pair->away->domain), region);
	pair_close(pair);
}

Test(agent, syncs_each_region_once_in_a_batch)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_message first = {
		.count = 3,
		.ranges = {range_of(pair, PAGE, 5000, 10), range_of(pair, PAGE_TOO, 9000, 10),
			   range_of(pair, PAGE, 3000, 10)},
	};
	struct pmv_message second = {
		.count = 2,
		.ranges = {range_of(pair, PAGE, 20000, 7), range_of(pair, DMP, 100, 10)},
	};
	const struct pair_event *one, *other;

	pair_tell(pair, &first);
	pair_tell(pair, &second);
	pair_serve(pair);
	expect_done(pair, "F Y Y D K");
	one = pair_event(pair, 'Y', 0);
	other = pair_event(pair, 'Y', 1);
	if (pair_is(pair, one, PAGE_TOO, 9000, 10)) {
		other = one;
		one = pair_event(pair, 'Y', 1);
	}
	cr_expect(pair_is(pair, one, PAGE, 3000, 20007 - 3000));
	cr_expect(pair_is(pair, other, PAGE_TOO, 9000, 10));
	pair_expect_ack(pair, 2, PMV_FAULT_NONE);
	pair_close(pair);
}

Test(agent, has_no_need_to_flush_caches_that_persist)
{
	struct pair *pair = pair_open(NULL);

	tell_one(pair, range_of(pair, MHP, 0, 100));
	pair_serve(pair);
	expect_done(pair, "D K");
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pair_close(pair);
}

/* The kernel reports a failure once, to whoever syncs first, whatever region lost its data. */
Test(agent, never_trusts_files_again_that_were_there_when_one_could_not_be_synced)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	tell_one(pair, range_of(pair, PAGE, 0, 10));
	tell_one(pair, range_of(pair, DMP, 0, 10));
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	pair_expect_ack(pair, 2, PMV_FAULT_NONE);
	pair->sync_fails = false;
	tell_one(pair, range_of(pair, PAGE, 4096, 10));
	tell_one(pair, range_of(pair, PAGE_TOO, 4096, 10));
	tell_one(pair, range_of(pair, DMP, 4096, 10));
	pair_serve(pair);
	pair_expect_ack(pair, 3, PMV_FAULT_IO);
	pair_expect_ack(pair, 4, PMV_FAULT_IO);
	pair_expect_ack(pair, 5, PMV_FAULT_NONE);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	pair_close(pair);
}

Test(agent, fails_all_messages_of_a_batch_whose_sync_failed)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	tell_one(pair, range_of(pair, PAGE, 0, 10));
	tell_one(pair, range_of(pair, PAGE, 8192, 10));
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	pair_expect_ack(pair, 2, PMV_FAULT_IO);
	pair_close(pair);
}

Test(agent, stores_data_only_after_a_sync_that_succeeded)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_message message = {
		.count = 2,
		.ranges = {range_of(pair, PAGE, 0, 10), range_of(pair, DMP, 0, 5)},
		.store = true,
		.payload = "hello",
	};

	pair->sync_fails = true;
	pair_tell(pair, &message);
	pair_serve(pair);
	expect_done(pair, "Y D K");
	cr_expect_eq(pair->memory[DMP][0], 0);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	pair_close(pair);
}

Test(agent, flushes_what_there_is_of_a_message_with_a_fault)
{
	struct pair *pair = pair_open(NULL);
	const struct pmv_range bad[] = {
		{pair_addr(pair, DMP, 0), 10, 0xdead},
		range_of(pair, DMP, PAIR_SIZE - 5, 6),
		range_of(pair, DMP, PAIR_SIZE + 1, 0),
		range_of(pair, DMP, (size_t) -1, 1),
		range_of(pair, DMP, 0, SIZE_MAX),
		{UINT64_MAX, 1, (uint32_t) pair_key(pair, DMP)},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pmv_message message = {
			.count = 3,
			.ranges = {range_of(pair, DMP, 64, 8), bad[i], range_of(pair, DMP, 256, 9)},
		};

		pair->num_events = pair->shown_events = 0;
		pair_tell(pair, &message);
		pair_serve(pair);
		expect_done(pair, "F F D K");
		cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 64, 8));
		cr_expect(pair_is(pair, pair_event(pair, 'F', 1), DMP, 256, 9));
		pair_expect_ack(pair, i + 1, PMV_FAULT_ACCESS);
	}
	pair_close(pair);
}

Test(agent, stores_nothing_where_nobody_may)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_message message = {
		.count = 2,
		.ranges = {range_of(pair, DMP, 64, 8), range_of(pair, DMP, PAIR_SIZE - 4, 5)},
		.store = true,
		.payload = "hello",
	};

	pair_tell(pair, &message);
	pair_serve(pair);
	expect_done(pair, "F D K");
	pair_expect_ack(pair, 1, PMV_FAULT_ACCESS);
	cr_expect_eq(pair->memory[DMP][PAIR_SIZE - 4], 0);
	pair_close(pair);
}

/* Whole, but with a flag that nobody knows. */
static void spoil(struct pair *pair, uint64_t number)
{
	struct pmv_link *link = &pair->to->link;
	uint8_t *slot = link->block + number % PMV_SLOTS * PMV_MESSAGE_SIZE;
	size_t len = slot[24] + 256U * slot[25];
	uint64_t check;

	slot[27] |= 0x80;
	memset(slot + 8, 0, 8);
	check = XXH3_64bits_withSeed(slot, len, number << 32 ^ link->nonce);
	memcpy(slot + 8, &check, 8);
}

Test(agent, refuses_a_message_that_makes_no_sense_and_goes_on)
{
	struct pair *pair = pair_open(NULL);

	tell_one(pair, range_of(pair, DMP, 0, 8));
	tell_one(pair, range_of(pair, DMP, 64, 8));
	tell_one(pair, range_of(pair, DMP, 128, 8));
	spoil(pair, 2);
	pair_serve(pair);
	expect_done(pair, "F F D K K K");
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pair_expect_ack(pair, 2, PMV_FAULT_MESSAGE);
	pair_expect_ack(pair, 3, PMV_FAULT_NONE);
	pair_close(pair);
}

Test(agent, takes_messages_in_their_order_only)
{
	struct pair *pair = pair_open(NULL);

	pair->told = 1;
	tell_one(pair, range_of(pair, DMP, 0, 8));
	pair_serve(pair);
	expect_done(pair, "");
	pair->told = 0;
	tell_one(pair, range_of(pair, DMP, 64, 8));
	pair_serve(pair);
	expect_done(pair, "F F D K");
	cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 64, 8));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 1), DMP, 0, 8));
	/* Once more the same one. */
	pair->told = 1;
	tell_one(pair, range_of(pair, DMP, 0, 8));
	pair_serve(pair);
	expect_done(pair, "");
	pair_close(pair);
}

Test(agent, takes_a_message_when_all_of_it_has_arrived)
{
	struct pair *pair = pair_open(NULL);
	uint8_t *slot = pair->to->link.block + PMV_MESSAGE_SIZE;

	tell_one(pair, range_of(pair, DMP, 0, 8));
	slot[40] ^= 1;
	pair_serve(pair);
	expect_done(pair, "");
	slot[40] ^= 1;
	pair_serve(pair);
	expect_done(pair, "F D K");
	pair_close(pair);
}

Test(agent, acknowledges_when_there_is_room_and_serves_only_once)
{
	struct pair *pair = pair_open(NULL);

	pair->away->fake.room = 0;
	tell_one(pair, range_of(pair, DMP, 0, 8));
	pair_serve(pair);
	pair_serve(pair);
	cr_expect_eq(pair->away->fake.num_posts, 0);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	/* What is owed comes first. */
	tell_one(pair, range_of(pair, DMP, PAIR_SIZE, 8));
	tell_one(pair, range_of(pair, DMP, PAIR_SIZE, 8));
	pair_serve(pair);
	pair->away->fake.room = 2;
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pair_serve(pair);
	pair->away->fake.room = -1;
	pair_serve(pair);
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_ACCESS);
	pair_expect_ack(pair, 3, PMV_FAULT_ACCESS);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	cr_expect_eq(pair_event(pair, 'F', 0), pair->events, "the first thing that was done");
	for (size_t i = 1; i < pair->num_events; i++)
		cr_expect_neq(pair->events[i].what, 'F', "was done once");
	pair_close(pair);
}

Test(agent, does_not_care_for_a_peer_that_is_gone)
{
	struct pair *pair = pair_open(NULL);

	pair->away->fake.fail_in = 1;
	pair->away->fake.fail_err = FI_ENOTCONN;
	tell_one(pair, range_of(pair, DMP, 0, 8));
	pair_serve(pair);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	rig_expect_nothing(pair->away);
	pair_close(pair);
}

Test(agent, application_does_not_hear_of_acknowledgements_that_fail)
{
	struct pair *pair = pair_open(NULL);

	tell_one(pair, range_of(pair, DMP, 0, 8));
	pmv_agent_progress(pmv_to_domain(pair->away->domain));
	cr_expect_eq(fake_under_way(&pair->away->fake), 1);
	fake_fail_all(&pair->away->fake, FI_EIO, 5);
	rig_expect_nothing(pair->away);
	pair_close(pair);
}

Test(agent, serves_at_any_read_of_a_queue)
{
	struct pair *pair = pair_open(NULL);

	tell_one(pair, range_of(pair, DMP, 0, 8));
	rig_expect_nothing(pair->away);
	expect_done(pair, "F D K");
	pair_close(pair);
}

Test(agent, knows_nothing_of_a_region_that_was_closed)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_range range = range_of(pair, DMP, 0, 8);

	pair_unregister(pair, DMP);
	tell_one(pair, range);
	pair_serve(pair);
	expect_done(pair, "K");
	pair_expect_ack(pair, 1, PMV_FAULT_ACCESS);
	pair_close(pair);
}

Test(agent, never_looks_at_a_mailbox_that_was_closed)
{
	struct pair *pair = pair_open(NULL);

	tell_one(pair, range_of(pair, DMP, 0, 8));
	rig_close_ep(pair->away);
	pair_serve(pair);
	expect_done(pair, "");
	pair_close(pair);
}

/* Many connections */

static struct pmv_ep *join(struct pair *pair)
{
	struct pmv_ep *ep = pmv_to_ep(rig_ep(pair->away, pair->away->cq));

	accepted(pmv_link_open(ep));
	ep->link.connected = true;
	accepted(pmv_agent_attach(ep));
	return ep;
}

static void leave(struct pmv_ep *ep)
{
	accepted(fi_close(&ep->ep_fid.fid));
}

/* fill_mailbox -- as soon as it is served, until it is full */
static void fill_mailbox(struct pair *pair, struct pmv_ep *ep)
{
	struct pmv_link *link = &ep->link;
	struct pmv_message message = {.count = 1, .ranges = {range_of(pair, DMP, 0, 8)}};

	for (int i = 1; i <= PMV_SLOTS; i++) {
		message.number = link->served + i;
		pmv_message_encode(link->block + message.number % PMV_SLOTS * PMV_MESSAGE_SIZE,
				   &message, link->nonce);
	}
}

#define CROWD 10

/* Whoever always asks must not keep it from the others. */
static void expect_all_served(struct pair *pair, struct pmv_ep **eps, int count)
{
	uint64_t before[CROWD];

	for (int i = 0; i < count; i++)
		before[i] = eps[i]->link.served;
	for (int round = 0; round < count; round++) {
		for (int i = 0; i < count; i++)
			fill_mailbox(pair, eps[i]);
		pair_serve(pair);
	}
	for (int i = 0; i < count; i++)
		cr_expect_gt(eps[i]->link.served, before[i], "mailbox %d of %d", i, count);
}

Test(agent, serves_all_in_turn_whoever_comes_and_goes)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_ep *eps[CROWD];

	pair->forgets_events = true;
	for (int i = 0; i < CROWD; i++) {
		eps[i] = join(pair);
		expect_all_served(pair, eps, i + 1);
	}
	/* Whatever their places are by now. */
	for (int count = CROWD; count > 1; count--) {
		leave(eps[--count]);
		expect_all_served(pair, eps, count);
		eps[count++] = join(pair);
		expect_all_served(pair, eps, count);
		leave(eps[0]);
		eps[0] = eps[count - 1];
		expect_all_served(pair, eps, count - 1);
	}
	leave(eps[0]);
	pair_close(pair);
}

/* reads_of_a_pass -- of the core's CQs */
static int reads_of_a_pass(struct pair *pair)
{
	int before = pair->away->fake.cq_reads;

	pmv_agent_progress(pmv_to_domain(pair->away->domain));
	return pair->away->fake.cq_reads - before;
}

Test(agent, reads_a_queue_once_however_many_endpoints_share_it)
{
	struct pair *pair = pair_open(&(struct pair_options){.away = {.own_rx_cq = true}});
	struct pmv_ep *eps[CROWD];
	int few, served;

	/* Data move in calls only. */
	pair->away->core.driven = true;
	few = reads_of_a_pass(pair);
	cr_expect_eq(few, 2);
	tell_one(pair, range_of(pair, DMP, 0, 8));
	served = reads_of_a_pass(pair);
	cr_expect_gt(served, few, "what was posted is to be reaped");
	for (int i = 0; i < CROWD; i++)
		eps[i] = join(pair);
	cr_expect_eq(reads_of_a_pass(pair), few);
	for (int i = 0; i < 4; i++)
		fill_mailbox(pair, eps[i]);
	cr_expect_eq(reads_of_a_pass(pair), served);
	for (int i = 0; i < CROWD; i++)
		leave(eps[i]);
	pair_close(pair);
}

/* The region is about to be closed while a flush of it is under way. */

static struct pair *busy_pair;
static atomic_int closing; /* 1: about to be, 2: closed */

static void *close_region(void *arg)
{
	(void) arg;
	atomic_store(&closing, 1);
	accepted(fi_close(&busy_pair->mr[DMP]->fid));
	atomic_store(&closing, 2);
	return NULL;
}

static pthread_t closer;

static void slow_flush(const void *addr, size_t len)
{
	(void) addr, (void) len;
	cr_assert_eq(pthread_create(&closer, NULL, close_region, NULL), 0);
	while (!atomic_load(&closing))
		usleep(1000);
	usleep(50000);
	cr_expect_eq(atomic_load(&closing), 1, "closed while it is being flushed");
}

static void no_drain(void)
{
	cr_expect_eq(atomic_load(&closing), 1, "closed before it is durable");
}

Test(agent, region_is_not_closed_while_it_is_flushed, .timeout = 30)
{
	static const struct pmv_flush_ops slow = {.flush = slow_flush, .drain = no_drain};
	struct pair *pair = pair_open(NULL);

	busy_pair = pair;
	pmv_flush = &slow;
	tell_one(pair, range_of(pair, DMP, 0, 8));
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pthread_join(closer, NULL);
	cr_expect_eq(atomic_load(&closing), 2);
	pair->mr[DMP] = NULL;
	pair_close(pair);
}

/* With threads */

Test(agent, serves_from_its_thread, .timeout = 60)
{
	struct pair *pair = pair_open(&(struct pair_options){.thread = true, .automatic = true});
	int completed = 0;

	for (int i = 0; completed < 1000;) {
		struct fi_cq_tagged_entry entry;
		ssize_t ret = -FI_EAGAIN;

		if (i < 1000)
			ret = pair_put(pair, DMP, (size_t) i % 1000 * 64, 64, CONTEXT(i),
				       FI_COMMIT | (i % 7 ? 0 : FI_FENCE));
		cr_assert(!ret || ret == -FI_EAGAIN);
		i += !ret;
		ret = fi_cq_read(pair->home->cq, &entry, 1);
		cr_assert(ret == 1 || ret == -FI_EAGAIN);
		if (ret == 1)
			cr_assert_eq(entry.op_context, CONTEXT(completed++));
	}
	cr_expect(pair_survives(pair, DMP, 0, 64000));
	pair_close(pair);
}

Test(agent, thread_wakes_who_waits_for_an_acknowledgement, .timeout = 30)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.thread = true,
		.automatic = true,
		.home = {.wait_obj = FI_WAIT_FD},
	});
	struct fi_cq_tagged_entry entry;
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < 20; i++) {
		accepted(pair_put(pair, DMP, 0, 64, CONTEXT(i), FI_COMMIT));
		cr_assert_eq(fi_cq_sread(pair->home->cq, &entry, 1, NULL, 10000), 1);
		cr_assert_eq(entry.op_context, CONTEXT(i));
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	/* Who looks for a lost connection now and then would need 200 ms for each. */
	cr_expect_lt(now.tv_sec - start.tv_sec, 3);
	pair_close(pair);
}

/* Long after the thread has looked for the first time. */
static void *answer_late(void *arg)
{
	struct pair *pair = arg;

	usleep(20000);
	pair_deliver(pair);
	while (!fake_complete(&pair->away->fake, SIZE_MAX))
		usleep(100);
	return NULL;
}

Test(agent, thread_wakes_who_waits_for_long, .timeout = 30)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.thread = true,
		.home = {.wait_obj = FI_WAIT_FD},
	});
	struct fi_cq_tagged_entry entry;
	struct timespec start, now;
	pthread_t answering;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < 20; i++) {
		accepted(pair_put(pair, DMP, 0, 64, CONTEXT(i), FI_COMMIT));
		cr_assert_eq(pthread_create(&answering, NULL, answer_late, pair), 0);
		cr_assert_eq(fi_cq_sread(pair->home->cq, &entry, 1, NULL, 10000), 1);
		cr_assert_eq(entry.op_context, CONTEXT(i));
		pthread_join(answering, NULL);
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	/* As above. */
	cr_expect_lt(now.tv_sec - start.tv_sec, 3);
	pair_close(pair);
}

/*
 * One thread posts a fenced write, which the endpoint has to note; meanwhile
 * another one posts a deferred commit.  Both need both locks of the endpoint.
 */
static void *commit_large(void *arg)
{
	struct pair *pair = arg;
	struct fi_cq_tagged_entry entry;

	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(3), FI_COMMIT | FI_FENCE));
	pair_round(pair);
	while (fi_cq_read(pair->home->cq, &entry, 1) == 1)
		;
	return NULL;
}

static pthread_t committer;

static void commit_meanwhile(struct fake *fake, const struct fake_post *post, void *arg)
{
	if (post->context != CONTEXT(2))
		return;
	fake->on_post = NULL;
	cr_assert_eq(pthread_create(&committer, NULL, commit_large, arg), 0);
	usleep(200000);
}

Test(fence, may_be_posted_while_another_thread_posts_what_was_deferred, .timeout = 10)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), 0));
	pair->home->fake.on_post = commit_meanwhile;
	pair->home->fake.on_post_arg = pair;
	accepted(pair_put(pair, DMP, 512, 8, CONTEXT(2), FI_FENCE));
	pthread_join(committer, NULL);
	pair_close(pair);
}

static bool is_kicked(struct pmv_agent *agent)
{
	uint64_t kicks;

	return read(agent->kick_fd, &kicks, sizeof(kicks)) == sizeof(kicks);
}

/* Of what other calls move into a mailbox no descriptor tells the thread that sleeps. */
Test(agent, is_woken_for_a_message_that_others_have_moved)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_domain *domain = pmv_to_domain(pair->away->domain);

	/* As if there were a thread. */
	pmv_setting.agent = PMV_AGENT_THREAD;
	pair->away->core.driven = true;
	atomic_store(&domain->agent.asleep, true);
	rig_expect_nothing(pair->away);
	cr_expect_not(is_kicked(&domain->agent));
	tell_one(pair, range_of(pair, DMP, 0, 8));
	rig_expect_nothing(pair->away);
	cr_expect(is_kicked(&domain->agent));

	/* It holds its lock: it may have looked, and be about to sleep. */
	pthread_mutex_lock(&domain->agent.lock);
	rig_expect_nothing(pair->away);
	cr_expect(is_kicked(&domain->agent));
	pthread_mutex_unlock(&domain->agent.lock);

	atomic_store(&domain->agent.asleep, false);
	rig_expect_nothing(pair->away);
	cr_expect_not(is_kicked(&domain->agent), "it is awake");
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pair_serve(pair);
	expect_done(pair, "F D K");
	pair_close(pair);
}
