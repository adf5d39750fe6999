/* SPDX-License-Identifier: BSD-2-Clause */
/* test_flush_request_faults.c -- commits by the target's agent: faults, and notices */
#include "test_flush_request.h"

#include "commit/push.h"
#include "commit/run.h"
#include "objects/ep.h"
#include "objects/cq.h"

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

static void expect_both_failed(struct pair *pair)
{
	rig_expect_nothing(pair->away);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EIO);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* The first one has told the agent of all that the second one covers, too. */
Test(commit_by_agent, without_a_byte_fails_with_the_one_before_it_in_the_same_round)
{
	static const uint64_t flags[] = {0, FI_IMMED, FI_REMOTE_CQ_DATA, FI_FENCE,
					 FI_FENCE | FI_IMMED};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct pair *pair = pair_open(NULL);

		pair->sync_fails = true;
		accepted(pair_put(pair, PAGE, 0, 20, CONTEXT(1), FI_COMMIT));
		accepted(pair_put(pair, PAGE, 0, 0, CONTEXT(2), FI_COMMIT | flags[i]));
		pair_round(pair);
		expect_both_failed(pair);
	}
}

Test(commit_by_agent, that_is_fenced_fails_with_one_to_another_region_and_nobody_is_told)
{
	for (size_t len = 0; len <= 20; len += 20) {
		struct pair *pair = pair_open(NULL);

		pair->sync_fails = true;
		accepted(pair_put(pair, PAGE, 0, 20, CONTEXT(1), FI_COMMIT));
		accepted(pair_put(pair, DMP, 0, len, CONTEXT(2), FI_COMMIT | FI_FENCE | FI_IMMED));
		pair_round(pair);
		expect_both_failed(pair);
	}
}

/* Whoever commits hears that the data before are not there.  The target's application does not. */
Test(commit_by_agent, behind_data_that_were_not_stored_is_not_told_of)
{
	struct pair *pair =
		pair_open(&(struct pair_options){.stores = true, .home = {.no_fence = true}});

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 20, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, DMP, 0, 20, CONTEXT(2), FI_COMMIT | FI_FENCE));
	accepted(pair_put(pair, DMP, 64, 20, CONTEXT(3), FI_COMMIT | FI_IMMED));
	pair_round(pair);
	cr_expect_neq(memcmp(pair->memory[DMP], pair->source, 20), 0);
	rig_expect_nothing(pair->away);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(3), RIG_WRITTEN, FI_EIO);
	pair_close(pair);
}

/* A later acknowledgement would cover it, and tell of no fault. */
Test(commit_by_agent, whose_fault_can_not_be_acknowledged_does_not_succeed)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	pair->away->fake.fail_in = 1;
	pair->away->fake.fail_err = FI_ENOMEM;
	accepted(pair_put(pair, PAGE, 0, 20, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	pair->sync_fails = false;
	accepted(pair_put(pair, DMP, 0, 20, CONTEXT(2), FI_COMMIT));
	for (int i = 0; i < 3; i++)
		pair_round(pair);
	cr_expect_eq(pair->away->fake.shutdowns, 1);
	rig_expect_nothing(pair->home);
	pmv_initiator_break(&pair->from->initiator);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_ECANCELED);
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
	/* The rest is sent all the same: later requests rely on that. */
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

/* What the request took is dirty no longer, and not under way: a fence has to know of it. */
Test(commit_by_agent, that_was_given_up_lets_no_fence_pass)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	pair->home->fake.fail_in = 2;
	pair->home->fake.fail_err = FI_EOPBADSTATE;
	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(2), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EOPBADSTATE);
	cr_expect_eq(pair_put(pair, MHP, 0, 64, CONTEXT(3), FI_COMMIT | FI_FENCE), -FI_EOPBADSTATE);
	pair_round(pair);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* The core may know of no loss: a peer's malformed answer ends requests, too. */
Test(commit_by_agent, that_was_dropped_lets_no_fence_pass)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(2), FI_COMMIT));
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pmv_initiator_break(&pair->from->initiator);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_ECANCELED);
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(3), FI_COMMIT | FI_FENCE));
	pair_deliver(pair);
	rig_expect_error(pair->home, CONTEXT(3), RIG_WRITTEN, FI_ECANCELED);
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

/* Without a fence it does not tell of the other region. */
Test(notice, comes_behind_a_commit_that_failed)
{
	struct pair *pair = pair_open(&(struct pair_options){.home = {.no_fence = true}});

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 20, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, DMP, 64, 20, CONTEXT(2), FI_COMMIT | FI_IMMED));
	pair_round(pair);
	expect_notice(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(notice, is_given_by_the_agent_once_the_data_are_durable)
{
	for (int memory = DMP; memory <= PAGE; memory++) {
		struct pair *pair = pair_open(NULL);
		struct pmv_flush_message message;

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
	struct pmv_flush_message message;

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
	struct pmv_flush_message message;

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

/* Operations that a closed endpoint leaves are the next one's, whose messages begin at 1. */
Test(commit_by_agent, that_was_not_sent_yet_does_not_fail_with_another)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_op_owner *owner = &pair->from->initiator.owner;
	struct pmv_op *ops[3 * PMV_WINDOW];

	for (int i = 0; i < 3 * PMV_WINDOW; i++) {
		ops[i] = pmv_op_get(owner, PMV_OP_OWN);
		pmv_to_run(ops[i])->asked.last = 100000;
	}
	for (int i = 0; i < 3 * PMV_WINDOW; i++)
		pmv_op_put(owner->pool, ops[i]);
	accepted(pair_put(pair, DMP, PAIR_SIZE, 20, CONTEXT(0), FI_COMMIT));
	for (int i = 1; i <= PMV_WINDOW; i++)
		accepted(pair_put(pair, DMP, (size_t) i * 512, 64, CONTEXT(i), FI_COMMIT));
	cr_assert_not(STAILQ_EMPTY(&pair->from->initiator.stalled));
	for (int i = 0; i < 8; i++)
		pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(0), RIG_WRITTEN, FI_EACCES);
	rig_expect_each(pair->home, 1, PMV_WINDOW - 1, RIG_WRITTEN);
	for (int i = 0; i < 8; i++) {
		pmv_push(&pair->from->initiator, false);
		pair_round(pair);
	}
	rig_expect(pair->home, CONTEXT(PMV_WINDOW), RIG_WRITTEN);
	pair_close(pair);
}
