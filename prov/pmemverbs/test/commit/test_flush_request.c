/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_flush_request.c -- commits by the target's agent, from both ends, and their
 * notices; fenced ones are in test_ordering_agent.c
 */
#include "test_flush_request.h"

#include "objects/ep.h"
#include "objects/cq.h"

/* The simplest commit */

static void commit_one(enum pair_memory memory, const char *done, bool offsets)
{
	struct pair *pair = pair_open(&(struct pair_options){.offsets = offsets});
	struct pmv_flush_message message;

	accepted(pair_put(pair, memory, 100, 50, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W M");
	cr_expect_not(pair_post(pair, 0)->op.flags & FI_FENCE);
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.envelope.number, 1);
	cr_expect_eq(message.count, 1);
	cr_expect(pair_names(pair, &message, memory, 100, 50));
	cr_expect_not(message.store);
	cr_expect_not(message.notify);
	expect_commit(pair, memory, done);
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
	struct pmv_flush_message message;

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
	struct pmv_flush_message message;

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
	struct pmv_flush_message message;
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
	struct pmv_flush_message message;

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
	cr_expect_eq(message.envelope.number, 3);
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
	struct pmv_flush_message message;

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
	struct pmv_flush_message message;

	accepted(fi_inject_atomic(pair->home->ep, operands, 20, 0, pair_addr(pair, DMP, 0),
				  pair_key(pair, DMP), FI_UINT64, FI_SUM));
	accepted(pair_put(pair, DMP, 4096, 8, CONTEXT(1), FI_COMMIT));
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 2);
	cr_expect(pair_names(pair, &message, DMP, 4096, 8));
	cr_expect(pair_names(pair, &message, DMP, 0, sizeof(operands)));
	pair_close(pair);
}
