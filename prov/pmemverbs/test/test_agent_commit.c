/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_agent_commit.c -- commits by the target's agent, from both ends, and their
 * notices; fenced ones are in test_agent_fence.c
 */
#include "objects/ep.h"
#include "objects/cq.h"
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
	cr_expect_not(pair_post(pair, 0)->op.flags & FI_FENCE);
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
	rig_expect_parts(pair->home, 2, CONTEXT(2), RIG_WRITTEN);
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
	rig_expect_each(pair->home, 0, 4, RIG_WRITTEN);
	pair_close(pair);
}

Test(commit_by_agent, acknowledgements_of_some_complete_these)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, 5);
	pair_deliver(pair);
	pair_answer(pair, 1, 2, PMV_FAULT_NONE);
	rig_expect_each(pair->home, 0, 1, RIG_WRITTEN);
	pair_answer(pair, 2, 3, PMV_FAULT_NONE);
	pair_answer(pair, 3, 5, PMV_FAULT_NONE);
	rig_expect_each(pair->home, 2, 4, RIG_WRITTEN);
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

	commit_some(pair, PMV_WINDOW);
	pair_posted(pair);
	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(PMV_WINDOW), FI_COMMIT));
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
	rig_expect_each(pair->home, 1, PMV_WINDOW, RIG_WRITTEN);
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
	rig_expect_each(pair->home, 2, 3, RIG_WRITTEN);
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
	pmv_initiator_break(&pair->from->initiator);
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
	pmv_initiator_break(&pair->from->initiator);
	rig_expect_error(pair->home, CONTEXT(0), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* Of the first commit; the second one goes with the connection. */
static void fail_part(size_t part)
{
	struct pair *pair = pair_open(NULL);

	commit_some(pair, 2);
	fake_complete(&pair->home->fake, part);
	fake_fail_all(&pair->home->fake, FI_EIO, 5);
	rig_expect_error(pair->home, CONTEXT(0), RIG_WRITTEN, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(commit_by_agent, fails_when_its_message_does)
{
	fail_part(1);
}

Test(commit_by_agent, fails_when_its_write_does)
{
	fail_part(0);
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
	pmv_initiator_break(&pair->from->initiator);
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
		cr_expect_not(pair_post(pair, 1)->op.flags & FI_REMOTE_CQ_DATA);
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
	rig_expect_each(pair->home, 1, 2, RIG_WRITTEN);
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
	cr_expect_eq(pair_post(pair, 0)->op.data, DATA);
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
	cr_expect_leq(atomic_load(&pmv_to_cq(pair->away->rx_cq)->queue.num_ready), 3 + 16);
	for (int i = 0; i < 20; i++) {
		expect_notice(pair);
		pair_round(pair);
	}
	rig_expect_nothing(pair->away);
	rig_expect_each(pair->home, 0, 19, RIG_WRITTEN);
	pair_close(pair);
}
