/* SPDX-License-Identifier: BSD-2-Clause */
/* test_submit_delivery.c -- FI_DELIVERY_COMPLETE: an operation completes when its data are in place
 */
#include "test/support/pair.h"

#include "base/setting.h"

#define DELIVER FI_DELIVERY_COMPLETE

/* expect_flush -- the n-th post from the end reads the peer's flush page */
static void expect_flush(struct pair *pair, size_t n)
{
	const struct pmv_handshake *peer = &pair->from->mailbox.link.peer;
	const struct fake_post *read = pair_post(pair, n);

	cr_expect_eq(read->op.what, FI_RMA | FI_READ);
	cr_expect_eq(read->op.len, 1);
	cr_expect_eq(read->op.key, peer->flush_key);
	cr_expect_eq(read->op.addr, pmv_handshake_flush_addr(peer));
}

Test(delivery, of_a_write_is_what_a_read_behind_it_proves)
{
	static const enum pair_memory all[] = {DMP, PAGE, READ_DMP, MHP};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct pair *pair = pair_open(NULL);

		accepted(pair_put(pair, all[i], 0, 64, CONTEXT(1), DELIVER));
		expect_sent(pair, "W R");
		cr_expect(!(pair_post(pair, 1)->op.flags & DELIVER));
		expect_flush(pair, 0);
		rig_expect_parts(pair->home, 2, CONTEXT(1), RIG_WRITTEN);
		pair_close(pair);
	}
}

Test(delivery, where_peers_may_not_read_and_by_a_key_that_says_nothing)
{
	const struct pmv_attr attr = {.persist = PMV_NONE, .writable = true};
	struct pair *pair = pair_open(NULL);

	accepted(rig_writemsg(pair->home, pmv_key_pack(CORE_KEY_NONE, &attr), CONTEXT(1), DELIVER));
	expect_sent(pair, "W R");
	expect_flush(pair, 0);
	rig_expect_parts(pair->home, 2, CONTEXT(1), RIG_WRITTEN);
	accepted(rig_writemsg(pair->home, KEY_PLAIN, CONTEXT(2), DELIVER));
	expect_sent(pair, "W R");
	rig_expect_parts(pair->home, 2, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(delivery, of_an_atomic_and_of_a_message)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_fetch(pair, MHP, 0, CONTEXT(1), DELIVER));
	expect_sent(pair, "A R");
	rig_expect_parts(pair->home, 2, CONTEXT(1), FI_ATOMIC | FI_READ);
	pair_receive(pair, MHP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(2), DELIVER));
	expect_sent(pair, "S R");
	expect_flush(pair, 0);
	pair_close(pair);
}

Test(delivery, that_fails_is_told_once)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(1), DELIVER));
	rig_end_part(pair->home, 0);
	rig_end_part(pair->home, FI_EIO);
	rig_expect_one_error(pair->home, FI_EIO);
	pair_close(pair);
}

Test(delivery, takes_immediate_data_along)
{
	struct pair *pair = pair_open(NULL);

	accepted(rig_writemsg(pair->home, KEY_NONE, CONTEXT(1), DELIVER | FI_REMOTE_CQ_DATA));
	expect_sent(pair, "Wi R");
	cr_expect_eq(pair_post(pair, 1)->op.data, DATA);
	rig_expect_parts(pair->home, 2, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

Test(delivery, with_a_fence_comes_behind_what_was_read)
{
	struct pair *pair = pair_open(NULL);

	accepted(rig_read(pair->home, KEY_MHP, CONTEXT(1)));
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(2), DELIVER | FI_FENCE));
	expect_sent(pair, "R fW R");
	pair_close(pair);
}

Test(delivery, with_a_fence_waits_for_commits_by_the_agent)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W M");
	refused(pair_put(pair, MHP, 0, 64, CONTEXT(2), DELIVER | FI_FENCE), FI_EAGAIN);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(2), DELIVER | FI_FENCE));
	expect_sent(pair, "W R");
	pair_close(pair);
}

Test(delivery, makes_nothing_durable_so_a_later_commit_names_it)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message;

	accepted(pair_put(pair, DMP, 100, 64, CONTEXT(1), DELIVER));
	expect_sent(pair, "W R");
	accepted(pair_put(pair, DMP, 5000, PAIR_LARGE, CONTEXT(2), FI_COMMIT));
	expect_sent(pair, "W M");
	pair_expect_message(pair, 0, &message);
	cr_expect(pair_names(pair, &message, DMP, 100, 64));
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	cr_expect(!pair_survives(pair, DMP, 100, 64));
	pair_serve(pair);
	cr_expect(pair_survives(pair, DMP, 100, 64));
	pair_close(pair);
}

Test(delivery, of_a_commit_is_the_commit)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, PAIR_LARGE, CONTEXT(1), FI_COMMIT | DELIVER));
	expect_sent(pair, "W M");
	pair_close(pair);
}

Test(delivery, in_op_flags_concerns_calls_that_complete)
{
	static char data[8];
	struct pair *pair = pair_open(&(struct pair_options){.home.tx_op_flags = DELIVER});
	struct rig *home = pair->home;

	cr_expect(!(home->fake.ep_info->tx_attr->op_flags & DELIVER));
	accepted(rig_write(home, KEY_MHP, CONTEXT(1)));
	expect_sent(pair, "W R");
	accepted(rig_send(home, CONTEXT(2)));
	expect_sent(pair, "S R");
	accepted(rig_read(home, KEY_MHP, CONTEXT(3)));
	accepted(fi_inject_write(home->ep, data, 8, 0, ADDR, KEY_MHP));
	accepted(rig_writemsg(home, KEY_MHP, CONTEXT(4), 0));
	expect_sent(pair, "R W W");
	pair_close(pair);
}

Test(delivery, is_left_to_a_core_that_sees_to_it)
{
	struct pair *pair = pair_open(&(struct pair_options){.home.delivers = true});

	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(1), DELIVER));
	expect_sent(pair, "W");
	cr_expect(pair_post(pair, 0)->op.flags & DELIVER);
	pair_close(pair);
}

Test(delivery, is_refused_where_nothing_proves_it)
{
	struct rig *rig = rig_open(NULL);
	struct pair *pair;

	/* Its peer has no flush page. */
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(1), DELIVER), FI_EOPNOTSUPP);
	refused(rig_sendmsg(rig, CONTEXT(1), DELIVER), FI_EOPNOTSUPP);
	expect_posted(rig, "");
	accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(1), DELIVER));
	expect_posted(rig, "R");
	rig_close(rig);

	pair = pair_open(NULL);
	pmv_setting.relaxed = true;
	refused(pair_put(pair, MHP, 0, 64, CONTEXT(1), DELIVER), FI_EOPNOTSUPP);
	expect_sent(pair, "");
	pmv_setting.relaxed = false;
	pair_close(pair);
}

/* Its completion proves durability, but the NIC may not have placed it yet. */
Test(delivery, of_a_commit_whose_proof_is_the_completion)
{
	struct pair *pair = pair_open(NULL);

	accepted(rig_writemsg(pair->home, KEY_WSP, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "W");
	accepted(rig_writemsg(pair->home, KEY_WSP, CONTEXT(2), FI_COMMIT | DELIVER));
	expect_sent(pair, "W R");
	expect_flush(pair, 0);
	pair_close(pair);
	pmv_setting.commit_all = true;
	pair = pair_open(NULL);
	accepted(rig_writemsg(pair->home, KEY_WSP, CONTEXT(1), DELIVER));
	expect_sent(pair, "W R");
	pmv_setting.commit_all = false;
	pair_close(pair);
}

Test(delivery, of_a_committed_message_whose_proof_is_the_completion)
{
	struct pair *pair = pair_open(&(struct pair_options){.one_kind = true, .received = MHP});

	pair->from->mailbox.link.peer.received.persist = PMV_WSP;
	pair_receive(pair, MHP, 0, 64);
	pair_receive(pair, MHP, 64, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "S");
	accepted(pair_send(pair, 64, 64, CONTEXT(2), FI_COMMIT | DELIVER));
	expect_sent(pair, "S R");
	expect_flush(pair, 0);
	pair_close(pair);
}
