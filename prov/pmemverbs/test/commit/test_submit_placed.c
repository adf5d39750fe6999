/* SPDX-License-Identifier: BSD-2-Clause */
/* test_submit_placed.c -- commits over a core that says when data are in place, as tcp does */
#include "test_submit.h"

#include "base/setting.h"
#include "test/support/pair.h"

#define DELIVER FI_DELIVERY_COMPLETE

static const struct rig_options tcp = {.no_fence = true, .delivers = true, .local = true};

/* delivers -- has the core to say when the n-th of all posts is in place? */
static bool delivers(struct rig *rig, size_t n)
{
	return rig_post(rig, n)->op.flags & DELIVER;
}

/* is_known: not at first; a plan that is known is posted another way. */
Test(placed, commit_is_a_write_that_the_core_acknowledges)
{
	const uint64_t keys[] = {KEY_MHP, KEY_WSP, KEY_NONE};

	for (size_t i = 0; i < 3; i++) {
		struct rig *rig = rig_open(&tcp);

		for (size_t n = 0; n < 3; n++) {
			accepted(rig_commit(rig, keys[i], CONTEXT(n), 0));
			expect_posted(rig, "W");
			cr_expect_eq(rig_post(rig, n)->op.flags, FI_COMPLETION | DELIVER);
			cr_expect_eq(rig_post(rig, n)->op.len, LEN);
			cr_expect_eq(rig_post(rig, n)->op.addr, ADDR);
			rig_expect_parts(rig, 1, CONTEXT(n), RIG_WRITTEN);
		}
		rig_close(rig);
	}
}

Test(placed, fenced_commit_is_one_too)
{
	struct rig *rig = rig_open(&tcp);

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_FENCE));
	expect_posted(rig, "W W");
	cr_expect(!delivers(rig, 0));
	cr_expect(delivers(rig, 1));
	rig_close(rig);
}

/* The core tells the target when the data are in place. */
Test(placed, immediate_data_go_along_with_them)
{
	struct rig *rig = rig_open(&tcp);

	for (size_t n = 0; n < 3; n++) {
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(n), FI_IMMED | (n == 2 ? FI_FENCE : 0)));
		expect_posted(rig, "Wi");
		cr_expect(delivers(rig, n));
		rig_expect_parts(rig, 1, CONTEXT(n), RIG_WRITTEN);
	}
	accepted(rig_commit(rig, KEY_DMP, CONTEXT(3), FI_IMMED));
	expect_posted(rig, "W R W0i");
	rig_close(rig);
}

/* What is in place there may be on its way to the memory controller. */
Test(placed, is_no_proof_where_only_the_memory_controller_persists)
{
	struct rig *rig = rig_open(&tcp);

	for (size_t n = 0; n < 3; n++) {
		accepted(rig_commit(rig, KEY_DMP, CONTEXT(n), 0));
		expect_posted(rig, "W R");
		cr_expect(!delivers(rig, 2 * n));
		rig_expect_parts(rig, 2, CONTEXT(n), RIG_WRITTEN);
	}
	rig_close(rig);
}

/* The fence covers them, and they are not durable in place. */
Test(placed, is_no_proof_behind_writes_to_such_memory)
{
	struct rig *rig = rig_open(&tcp);

	accepted(rig_write(rig, KEY_DMP, CONTEXT(1)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_FENCE));
	expect_posted(rig, "W R W R");
	cr_expect(!delivers(rig, 2));
	rig_close(rig);
}

/* A commit of other memory leaves them to the fence that follows. */
Test(placed, commit_makes_no_other_memory_durable)
{
	struct rig *rig = rig_open(&tcp);

	accepted(rig_write(rig, KEY_DMP, CONTEXT(1)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_posted(rig, "W W");
	rig_end_part(rig, 0);
	rig_end_part(rig, 0);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(3), FI_FENCE));
	expect_posted(rig, "R W R");
	rig_close(rig);
}

Test(placed, is_no_word_for_what_the_core_does_not_carry_so)
{
	static char buf[LEN];
	struct iovec iov = {buf, LEN};
	struct fi_rma_iov two[] = {{ADDR, LEN / 2, KEY_MHP}, {ADDR + LEN, LEN / 2, KEY_MHP}};
	struct fi_rma_iov none = {ADDR, 0, KEY_MHP};
	struct rig *rig = rig_open(&tcp);

	accepted(commit_ranges(rig, NULL, 0, &none, 1, CONTEXT(1), 0));
	expect_posted(rig, "W0 R");
	accepted(rig_fetch(rig, KEY_MHP, CONTEXT(3), FI_COMMIT));
	expect_posted(rig, "A R");
	pmv_to_ep(rig->ep)->initiator.max_places = 2;
	accepted(commit_ranges(rig, &iov, 1, two, 2, CONTEXT(4), 0));
	expect_posted(rig, "W R");
	for (size_t n = 0; n < 6; n++)
		cr_expect(!delivers(rig, n), "%zu", n);
	rig_close(rig);
}

Test(placed, core_that_does_not_say_so_gets_a_read)
{
	struct rig_options options = tcp;
	struct rig *rig;

	options.delivers = false;
	rig = rig_open(&options);
	for (size_t n = 0; n < 2; n++) {
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(n), 0));
		expect_posted(rig, "W R");
		rig_expect_parts(rig, 2, CONTEXT(n), RIG_WRITTEN);
	}
	rig_close(rig);
}

Test(placed, message_and_group_are_flushed)
{
	struct pair *pair =
		pair_open(&(struct pair_options){.home = tcp, .one_kind = true, .received = MHP});

	pair_receive(pair, MHP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "S R");
	pair_close(pair);

	pmv_setting.commit_all = true;
	pair = pair_open(&(struct pair_options){.home = tcp});
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W");
	cr_expect(pair_post(pair, 0)->op.flags & DELIVER);
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(2), 0));
	expect_sent(pair, "W");
	cr_expect(!(pair_post(pair, 0)->op.flags & DELIVER));
	pair_inject(pair, MHP, 64, 8);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "W R");
	pmv_setting.commit_all = false;
	pair_close(pair);
}

/* Before the write nothing was posted: the call fails, and may be repeated. */
Test(placed, commit_that_fails_is_told_once)
{
	for (size_t known = 0; known < 2; known++) {
		struct rig *rig = rig_open(&tcp);

		if (known) {
			accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
			rig_expect_parts(rig, 1, CONTEXT(0), RIG_WRITTEN);
		}
		rig->fake.room = 0;
		refused(rig_commit(rig, KEY_MHP, CONTEXT(1), 0), FI_EAGAIN);
		rig->fake.room = -1;
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
		rig_end_part(rig, FI_EIO);
		rig_expect_one_error(rig, FI_EIO);
		rig_close(rig);
	}
}
