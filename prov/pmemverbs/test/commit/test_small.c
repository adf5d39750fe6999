/* SPDX-License-Identifier: BSD-2-Clause */
/* test_small.c -- small commits whose data travel in the request, for the agent to store */
#include "test_flush_request.h"

#include "commit/submit.h"
#include "objects/ep.h"

static struct pair *open_pair(void)
{
	return pair_open(&(struct pair_options){.stores = true});
}

static void store_one(enum pair_memory memory, const char *done)
{
	struct pair *pair = open_pair();
	struct pmv_flush_message message;

	accepted(pair_put(pair, memory, 100, 50, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 1);
	cr_expect(pair_names(pair, &message, memory, 100, 50));
	cr_expect(message.store);
	cr_expect_not(message.ordered);
	cr_expect_arr_eq(message_data(&message), pair->source + 100, 50);
	expect_commit(pair, memory, done);
	pair_close(pair);
}

Test(store, takes_one_message)
{
	store_one(DMP, "S F D K");
	store_one(PAGE, "Y D K");
}

Test(store, is_for_small_data_that_need_the_agent)
{
	struct pair *pair = open_pair();

	accepted(pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W M");
	accepted(pair_put(pair, DMP, 0, 0, CONTEXT(2), FI_COMMIT));
	expect_sent(pair, "W0 M");
	accepted(pair_put(pair, MHP, 0, 8, CONTEXT(3), FI_COMMIT));
	expect_sent(pair, "W R");
	accepted(pair_put(pair, READ_DMP, 0, 8, CONTEXT(4), FI_COMMIT));
	expect_sent(pair, "W R");
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(5), 0));
	expect_sent(pair, "W");
	pair_round(pair);
	pair_close(pair);
}

Test(store, names_what_was_written_there_before)
{
	struct pair *pair = open_pair();
	struct pmv_flush_message message;

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(2), 0));
	accepted(pair_put(pair, DMP, 1024, 8, CONTEXT(3), FI_COMMIT));
	expect_sent(pair, "W W M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 2);
	cr_expect(pair_names(pair, &message, DMP, 0, 64));
	cr_expect(pair_names(pair, &message, DMP, 1024, 8));
	pair_round(pair);
	cr_expect(pair_survives(pair, DMP, 0, 64));
	cr_expect(pair_survives(pair, DMP, 1024, 8));
	cr_expect_not(pair_survives(pair, PAGE, 0, 64));
	pair_close(pair);
}

/* They may be stored where that reads. */
Test(store, waits_behind_a_read_for_its_end)
{
	struct pair *pair = open_pair();

	accepted(rig_read(pair->home, pair_key(pair, MHP), CONTEXT(1)));
	accepted(pair_put(pair, DMP, 100, 50, CONTEXT(2), FI_COMMIT));
	expect_sent(pair, "R fM");
	pair_round(pair);
	pair_close(pair);
}

/* The data are not there yet, and nothing else may come to their place before them. */
Test(store, closes_the_endpoint_to_all_but_others)
{
	struct pair *pair = open_pair();

	for (int i = 0; i < 3; i++)
		accepted(pair_put(pair, DMP, 512 * (size_t) i, 8, CONTEXT(i), FI_COMMIT));
	expect_sent(pair, "M M M");
	accepted(pair_put(pair, PAGE, 0, 8, CONTEXT(3), FI_COMMIT));
	accepted(pair_put(pair, DMP, 4096, 8, CONTEXT(4), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "M M");
	pair_expect_stalled(pair);
	refused(pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(5), FI_COMMIT), FI_EAGAIN);
	refused(pair_put(pair, MHP, 0, 8, CONTEXT(5), FI_COMMIT), FI_EAGAIN);
	pair_round(pair);
	for (int i = 0; i < 5; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	accepted(pair_put(pair, MHP, 0, 8, CONTEXT(5), FI_COMMIT));
	expect_sent(pair, "W R");
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(5), RIG_WRITTEN);
	pair_close(pair);
}

/* Another thread has closed it between the look at it and this call. */
Test(store, does_not_enter_what_was_closed_meanwhile)
{
	struct pair *pair = open_pair();
	struct iovec iov = {pair->source, 8};
	const struct fi_rma_iov to = {pair_addr(pair, DMP, 0), 8, pair_key(pair, DMP)};
	const struct fi_msg_rma msg = {.msg_iov = &iov, .iov_count = 1, .rma_iov = &to};
	const struct pmv_submission submission = {
		.what = FI_RMA | FI_WRITE, .to = &to, .num_to = 1, .rma = &msg};
	struct pmv_initiator *ini = &pmv_to_ep(pair->home->ep)->initiator;

	accepted(pair_put(pair, DMP, 100, 50, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "M");
	refused(pmv_submit_assisted(ini, &submission, pmv_ordering_known(ini, to.key)), FI_EAGAIN);
	expect_sent(pair, "");
	expect_commit(pair, DMP, "S F D K");
	pair_close(pair);
}

/* Also those that need the core's fence, and so are not stored. */
Test(store, is_not_passed_by_what_tells_the_target)
{
	static const struct {
		enum pair_memory memory;
		size_t len;
	} cases[] = {{DMP, 8}, {MHP, 8}, {DMP, PAIR_LARGE}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *pair = open_pair();

		accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
		expect_sent(pair, "M");
		accepted(pair_put(pair, DMP, 0, 8, CONTEXT(3),
				  FI_COMMIT | FI_FENCE | FI_REMOTE_CQ_DATA));
		expect_sent(pair, "M");
		refused(pair_put(pair, cases[i].memory, 0, cases[i].len, CONTEXT(2),
				 FI_COMMIT | FI_REMOTE_CQ_DATA),
			FI_EAGAIN);
		expect_sent(pair, "");
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
		pair_close(pair);
	}
}

/* With FI_PMEMVERBS_COMMIT=all a plain write is a commit, too, that waits for a common flush. */
Test(store, pauses_for_members_of_a_group)
{
	struct pair *pair = open_pair();

	atomic_fetch_or(&pair->from->initiator.slow, PMV_SLOW_ALL);
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	refused(pair_put(pair, DMP, 64, 8, CONTEXT(2), 0), FI_EAGAIN);
	cr_expect_eq(pair->from->initiator.stores_from, 65);
	/* Another thread goes on with commits, and does not keep it waiting. */
	refused(pair_put(pair, DMP, 0, 8, CONTEXT(3), FI_COMMIT), FI_EAGAIN);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	accepted(pair_put(pair, DMP, 64, 8, CONTEXT(2), 0));
	pair_round(pair);
	pair_close(pair);
}

/* A thread that goes on with fenced commits does not keep others waiting for ever. */
Test(store, lets_others_in_between_fenced_ones)
{
	struct pair *pair = open_pair();

	for (int i = 0; i < 2; i++) {
		accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
		accepted(pair_put(pair, DMP, 64, 8, CONTEXT(2), FI_COMMIT | FI_FENCE));
		refused(rig_write(pair->home, KEY_MHP, CONTEXT(3)), FI_EAGAIN);
		refused(pair_put(pair, DMP, 64, 8, CONTEXT(4), FI_COMMIT | FI_FENCE), FI_EAGAIN);
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
		accepted(rig_write(pair->home, KEY_MHP, CONTEXT(3)));
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
		pair->from->initiator.stores_from = 0;
	}
	pair_close(pair);
}

static void commit(struct pair *pair, const char *sent)
{
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, sent);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
}

/* An application that goes on with something else is made to wait now and then only. */
Test(store, pauses_after_a_collision)
{
	struct pair *pair = open_pair();

	for (int i = 0; i < 3; i++) {
		accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
		expect_sent(pair, "M");
		refused(i == 0   ? rig_write(pair->home, KEY_MHP, CONTEXT(2))
			: i == 1 ? pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(2), FI_COMMIT)
				 : pair_fetch(pair, DMP, 0, CONTEXT(2), FI_COMMIT),
			FI_EAGAIN);
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		for (int j = 0; j < 64; j++)
			commit(pair, "W M");
	}
	commit(pair, "M");
	pair_close(pair);
}

/* The endpoint was closed for another reason. */
Test(store, does_not_pause_without_a_collision)
{
	struct pair *pair = open_pair();

	pair->home->fake.room = 1;
	accepted(pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(1), FI_COMMIT));
	refused(rig_write(pair->home, KEY_MHP, CONTEXT(2)), FI_EAGAIN);
	pair->home->fake.room = -1;
	rig_expect_nothing(pair->home);
	expect_sent(pair, "W M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	commit(pair, "M");
	pair_close(pair);
}

/* Only what is fenced depends on earlier commits. */
Test(store, does_not_fail_with_earlier_ones)
{
	struct pair *pair = open_pair();

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 8, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT));
	accepted(pair_put(pair, DMP, 64, 8, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "M M M");
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	rig_expect_error(pair->home, CONTEXT(3), RIG_WRITTEN, FI_EIO);
	cr_expect(pair_survives(pair, DMP, 0, 8));
	cr_expect_eq(pair->memory[DMP][64], 0);
	pair_close(pair);
}

/* The writes before it have to be read back first, which the agent does not wait for. */
Test(store, does_not_pass_writes_that_kept_no_order)
{
	struct pair *pair = open_pair();

	pmv_setting.relaxed = true;
	accepted(pair_put(pair, PAGE, 0, 8, CONTEXT(0), FI_COMMIT));
	expect_sent(pair, "W R fM");
	accepted(pair_put(pair, PAGE, 0, 8, CONTEXT(1), 0));
	accepted(pair_put(pair, PAGE, 64, 8, CONTEXT(2), FI_COMMIT));
	expect_sent(pair, "W W R fM");
	pmv_setting.relaxed = false;
	accepted(pair_put(pair, DMP, 64, 8, CONTEXT(3), FI_COMMIT));
	expect_sent(pair, "W R fM");
	pair_round(pair);
	pair_close(pair);
}

Test(store, is_not_waited_for_when_the_connection_is_lost)
{
	struct pair *pair = open_pair();

	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	pmv_initiator_break(&pair->from->initiator);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	accepted(rig_write(pair->home, KEY_MHP, CONTEXT(2)));
	pair_close(pair);
}

/* Nothing is kept of it, and what it would have named is named by the next one. */
Test(store, is_refused_where_the_core_has_no_room)
{
	struct pair *pair = open_pair();
	struct pmv_flush_message message;

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(0), 0));
	expect_sent(pair, "W");
	pair->home->fake.room = 0;
	refused(pair_put(pair, DMP, 1024, 8, CONTEXT(1), FI_COMMIT), FI_EAGAIN);
	cr_expect_not(atomic_load(&pair->from->mailbox.sender.unacked));
	pair->home->fake.room = -1;
	accepted(pair_put(pair, DMP, 1024, 8, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.envelope.number, 1);
	cr_expect_eq(message.count, 2);
	cr_expect(pair_names(pair, &message, DMP, 0, 64));
	pair_round(pair);
	rig_expect_each(pair->home, 0, 1, RIG_WRITTEN);
	pair_close(pair);
}

/* A fenced commit behind one that was refused still finds what was written before both. */
Test(store, that_is_refused_leaves_to_a_fence_what_was_written)
{
	struct pair *pair = open_pair();
	struct pmv_flush_message message;

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(0), 0));
	pair->home->fake.room = 0;
	refused(pair_put(pair, DMP, 1024, 8, CONTEXT(1), FI_COMMIT), FI_EAGAIN);
	pair->home->fake.room = -1;
	expect_sent(pair, "W");
	accepted(pair_put(pair, MHP, 0, 8, CONTEXT(1), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "M");
	pair_expect_message(pair, 0, &message);
	cr_expect(pair_names(pair, &message, DMP, 0, 64));
	pair_round(pair);
	rig_expect_each(pair->home, 0, 1, RIG_WRITTEN);
	cr_expect(pair_survives(pair, DMP, 0, 64));
	pair_close(pair);
}

/* What has not been sent yet could still fail, and what is kept has data to post. */
Test(store, follows_nothing_but_a_payload_that_was_sent)
{
	struct pair *pair = open_pair();

	accepted(pair_put(pair, DMP, 512, 8, CONTEXT(0), 0));
	expect_sent(pair, "W");
	pair->home->fake.room = 0;
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT | FI_FENCE));
	refused(pair_put(pair, DMP, 64, 8, CONTEXT(2), FI_COMMIT), FI_EAGAIN);
	pair->home->fake.room = -1;
	accepted(pair_put(pair, DMP, 64, 8, CONTEXT(2), FI_COMMIT));
	expect_sent(pair, "M M");
	accepted(pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "M");
	refused(pair_put(pair, DMP, 64, 8, CONTEXT(4), FI_COMMIT), FI_EAGAIN);
	refused(pair_put(pair, DMP, 64, 8, CONTEXT(4), FI_COMMIT | FI_FENCE), FI_EAGAIN);
	pair_round(pair);
	rig_expect_each(pair->home, 0, 2, RIG_WRITTEN);
	expect_sent(pair, "W M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
	pair_close(pair);
}

/* Nothing at the target shows that data are missing that were never sent. */
Test(store, does_not_follow_data_that_were_dropped)
{
	struct pair *pair =
		pair_open(&(struct pair_options){.stores = true, .home = {.no_fence = true}});

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 8, CONTEXT(1), FI_COMMIT));
	pair->home->fake.room = 0;
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT | FI_IMMED));
	pair_round(pair);
	/* It is tried, and dropped, without success. */
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	pair->home->fake.room = -1;
	refused(pair_put(pair, DMP, 64, 8, CONTEXT(3), FI_COMMIT | FI_IMMED), FI_EAGAIN);
	expect_sent(pair, "M M");
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EIO);
	rig_expect_nothing(pair->home);
	rig_expect_nothing(pair->away);
	cr_expect_eq(pair->memory[DMP][0], 0);
	pair_close(pair);
}

/* As for all others, the completion tells of it. */
Test(store, is_not_for_commits_that_can_not_succeed)
{
	struct pair *pair = open_pair();

	pair->from->initiator.dirty.lost = -FI_ENOMEM;
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W");
	pair_deliver(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ENOMEM);
	pair_close(pair);
}

/* There is room for it in a message, but not behind the ranges of this one. */
Test(store, is_not_passed_by_data_that_found_no_room)
{
	struct pair *pair = open_pair();

	for (size_t i = 0; i < 3; i++)
		accepted(pair_put(pair, PAGE, i * 512, 8, CONTEXT(i), 0));
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(3), FI_COMMIT));
	expect_sent(pair, "W W W M");
	refused(pair_put(pair, DMP, 0, 400, CONTEXT(4), FI_COMMIT), FI_EAGAIN);
	expect_sent(pair, "");
	/* Others do not keep it waiting for ever. */
	refused(pair_put(pair, DMP, 0, 8, CONTEXT(5), FI_COMMIT), FI_EAGAIN);
	pair_round(pair);
	rig_expect_each(pair->home, 0, 3, RIG_WRITTEN);
	accepted(pair_put(pair, DMP, 0, 400, CONTEXT(4), FI_COMMIT));
	expect_sent(pair, "W M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(4), RIG_WRITTEN);
	pair_close(pair);
}

/* The same behind a fence, where the agent has to do something first */

/* put_fenced -- a small commit behind a write that the agent has not been told of */
static void put_fenced(struct pair *pair, enum pair_memory memory, size_t len, uint64_t flags)
{
	accepted(pair_put(pair, DMP, 1024, 8, CONTEXT(1), 0));
	accepted(pair_put(pair, memory, 100, len, CONTEXT(2), FI_COMMIT | FI_FENCE | flags));
}

static void store_fenced(enum pair_memory memory, const char *done)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message;

	put_fenced(pair, memory, 50, 0);
	expect_sent(pair, "W M");
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 2);
	cr_expect(pair_names(pair, &message, memory, 100, 50));
	cr_expect(message.store);
	cr_expect(message.ordered);
	cr_expect_arr_eq(message_data(&message), pair->source + 100, 50);
	pair_deliver(pair);
	rig_expect_each(pair->home, 1, 1, RIG_WRITTEN);
	cr_expect_not(pair_survives(pair, memory, 100, 50));
	pair_serve(pair);
	expect_done(pair, done);
	cr_expect(pair_survives(pair, memory, 100, 50));
	rig_expect_each(pair->home, 2, 2, RIG_WRITTEN);
	pair_close(pair);
}

Test(store, behind_a_fence_takes_one_message)
{
	store_fenced(DMP, "F D S F D K");
	store_fenced(PAGE, "F D Y D K");
}

Test(store, behind_a_fence_is_for_small_data_that_need_the_agent)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W M");
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "M");
	accepted(pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "M");
	pair_round(pair);
	rig_expect_each(pair->home, 1, 2, RIG_WRITTEN);
	expect_sent(pair, "W M");
	pair_round(pair);
	rig_expect_each(pair->home, 3, 3, RIG_WRITTEN);
	pair_close(pair);
}

/* The data are not there yet, and nothing else may come to their place before them. */
Test(store, closes_the_endpoint_to_all_but_fenced_commits)
{
	struct pair *pair = pair_open(NULL);

	put_fenced(pair, DMP, 8, 0);
	accepted(pair_put(pair, DMP, 4096, 8, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W M M");
	refused(pair_put(pair, DMP, 0, 8, CONTEXT(5), FI_COMMIT), FI_EAGAIN);
	refused(pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(5), FI_COMMIT), FI_EAGAIN);
	refused(pair_put(pair, MHP, 0, 8, CONTEXT(5), FI_COMMIT), FI_EAGAIN);
	pair_round(pair);
	rig_expect_each(pair->home, 1, 3, RIG_WRITTEN);
	accepted(pair_put(pair, MHP, 0, 8, CONTEXT(5), FI_COMMIT));
	expect_sent(pair, "W R");
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(5), RIG_WRITTEN);
	pair_close(pair);
}

/* The agent knows no other regions. */
Test(store, behind_a_fence_is_for_memory_that_was_registered_for_commits)
{
	struct pair *pair = pair_open(NULL);
	uint64_t key = pair_key(pair, MHP);
	struct pmv_flush_message message;
	struct pmv_attr attr;
	struct iovec iov = {pair->source, 8};
	struct fi_rma_iov to = {.addr = pair_addr(pair, MHP, 0), .len = 8};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = CONTEXT(2),
	};

	cr_assert(pmv_key_unpack(key, &attr));
	attr.pmem = false;
	to.key = pmv_key_pack((uint32_t) pmv_key_core(key), &attr);
	accepted(pair_put(pair, DMP, 1024, 8, CONTEXT(1), 0));
	accepted(fi_writemsg(pair->home->ep, &msg, FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W M");
	pair_expect_message(pair, 0, &message);
	cr_expect_not(message.store);
	pair_round(pair);
	rig_expect_each(pair->home, 1, 1, RIG_WRITTEN);
	expect_sent(pair, "W R");
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}
