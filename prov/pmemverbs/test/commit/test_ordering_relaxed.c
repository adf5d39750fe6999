/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ordering_relaxed.c -- commits over a path that keeps no order: what is read back before the
 * agent hears */
#include "test/support/pair.h"

static struct pair *open_relaxed(void)
{
	pmv_setting.relaxed = true;
	return pair_open(NULL);
}

Test(relaxed, what_was_written_is_read_back_before_the_agent_hears)
{
	struct pair *pair = open_relaxed();

	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W R fM");
	/* All of it: a READ pushes nothing else there. */
	cr_expect_eq(pair_post(pair, 1)->op.len, 64);
	cr_expect_eq(pair_post(pair, 1)->op.addr, pair_addr(pair, MHP, 0));
	cr_expect_eq(pair_post(pair, 1)->op.key, (uint32_t) pair_key(pair, MHP));
	fake_complete(&pair->home->fake, 1);
	rig_expect_nothing(pair->home);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

Test(relaxed, long_writes_are_read_back_in_parts)
{
	struct pair *pair = open_relaxed();

	accepted(pair_put(pair, MHP, 100, 10000, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W R R R fM");
	for (size_t i = 0, at = 100; i < 3; at += pair_post(pair, 3 - i++)->op.len)
		cr_expect_eq(pair_post(pair, 3 - i)->op.addr, pair_addr(pair, MHP, at));
	cr_expect_eq(pair_post(pair, 3)->op.len + pair_post(pair, 2)->op.len +
			     pair_post(pair, 1)->op.len,
		     10000);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* A full queue in the middle: each part is read once, and the message comes last. */
Test(relaxed, reads_that_found_no_room_are_posted_later)
{
	struct pair *pair = open_relaxed();

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
	struct pair *pair = open_relaxed();

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
	struct pair *pair = open_relaxed();

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
	cr_expect_eq(pair_post(pair, 1)->op.addr, pair_addr(pair, DMP, 0));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(3), RIG_WRITTEN, FI_EACCES);
	pair_close(pair);
}

/* WSP: the data need nobody to be durable, but are not seen where a notice could pass them. */
Test(relaxed, what_persists_by_itself_is_read_back_before_a_fence)
{
	struct pair *pair = open_relaxed();
	const uint64_t keys[] = {rig_key(0x70, PMV_WSP, true), rig_key(0x71, PMV_WSP, true)};
	struct fi_rma_iov to[] = {{0x1000, 4, keys[0]}, {0x2000, 4, keys[1]}};
	struct iovec iov = {pair->source, 8};
	const struct fi_msg_rma msg = {.msg_iov = &iov,
				       .iov_count = 1,
				       .rma_iov = to,
				       .rma_iov_count = 2,
				       .context = CONTEXT(2)};

	accepted(rig_write(pair->home, keys[0], CONTEXT(1)));
	accepted(fi_writemsg(pair->home->ep, &msg, FI_COMMIT));
	expect_sent(pair, "W W");
	accepted(rig_commit(pair->home, keys[0], CONTEXT(3), FI_FENCE | FI_REMOTE_CQ_DATA));
	expect_sent(pair, "R R R fM");
	pair_close(pair);
}

/* What can't be read back can't be covered by a fence. */
Test(relaxed, fence_behind_what_is_unreadable_is_refused)
{
	const struct pmv_attr attr = {.persist = PMV_NONE, .relaxed = true, .writable = true};
	struct pair *pair = open_relaxed();

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
	struct pair *pair = open_relaxed();

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
	struct pair *pair = open_relaxed();

	for (size_t i = 0; i < 25; i++)
		pair_inject(pair, DMP, i * 1000, 8);
	pair_posted(pair);
	accepted(pair_put(pair, DMP, 50000, 8, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W R R R R R R R R R R R R R R R R R R R R R R R R R R fM fM");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* The bytes that are read back prove nothing of those, which a later READ flushes. */
Test(fence, without_an_order_among_writes_also_flushes_what_was_written_in_order)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, READ_DMP, 0, 64, CONTEXT(1), 0));
	pmv_setting.relaxed = true;
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(2), 0));
	accepted(pair_put(pair, DMP, 1024, 64, CONTEXT(3), FI_COMMIT | FI_FENCE));
	pmv_setting.relaxed = false;
	expect_sent(pair, "W W R R fM");
	pair_round(pair);
	pair_close(pair);
}
