/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdma_flush.c -- commits by RDMA FLUSH */
#include <string.h>

#include "test/support/flush_rig.h"

#include "commit/rdma_flush.h"

Test(rdma_flush, is_a_list_of_a_write_and_a_flush_of_it)
{
	struct pair *pair = flush_rig_open();
	struct fi_pmemverbs_counters counters;

	accepted(flush_rig_commit(pair, 100, 64, 1));
	cr_expect_eq(flush_rig.doorbells, 1);
	expect_sent(pair, "W R");
	flush_rig_expect(pair, 100, 64);
	/* The WRITE's success is told by nobody. */
	rig_end_part(pair->home, 0);
	rig_expect_nothing(pair->home);
	rig_end_part(pair->home, 0);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pmv_tally_read(pair->from->domain, memset(&counters, 0, sizeof(counters)));
	cr_expect_eq(counters.commits_flush, 1U);
	cr_expect_eq(counters.commits_agent, 0U);
	pair_close(pair);
}

Test(rdma_flush, many_are_under_way_at_a_time)
{
	struct pair *pair = flush_rig_open();

	for (int i = 0; i < 10; i++)
		accepted(flush_rig_commit(pair, (size_t) i * 1000, 64, i));
	for (size_t i = 0; i < 10; i++)
		flush_rig_expect(pair, i * 1000, 64);
	pair_deliver(pair);
	rig_expect_each(pair->home, 0, 9, RIG_WRITTEN);
	pair_close(pair);
}

Test(rdma_flush, spans_what_was_written_before_once)
{
	struct pair *pair = flush_rig_open();

	accepted(pair_put(pair, DMP, 1000, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 3000, 64, CONTEXT(1), 0));
	accepted(flush_rig_commit(pair, 2000, 64, 2));
	expect_sent(pair, "W W W R");
	flush_rig_expect(pair, 1000, 3064 - 1000);
	accepted(flush_rig_commit(pair, 2000, 64, 3));
	flush_rig_expect(pair, 2000, 64);
	/* Behind the range, and in front of it. */
	accepted(pair_put(pair, DMP, 500, 64, CONTEXT(1), 0));
	accepted(flush_rig_commit(pair, 700, 8, 4));
	flush_rig_expect(pair, 500, 208);
	accepted(pair_put(pair, DMP, 900, 64, CONTEXT(1), 0));
	accepted(flush_rig_commit(pair, 700, 8, 5));
	flush_rig_expect(pair, 700, 264);
	accepted(pair_put(pair, DMP, 600, 600, CONTEXT(1), 0));
	accepted(flush_rig_commit(pair, 700, 8, 6));
	flush_rig_expect(pair, 600, 600);
	pair_close(pair);
}

/* Other regions' ranges are not its business, and stay dirty. */
Test(rdma_flush, leaves_other_regions_to_their_commits)
{
	struct pair *pair = flush_rig_open();
	struct pmv_flush_message message;

	accepted(pair_put(pair, PAGE, 100, 64, CONTEXT(1), 0));
	accepted(flush_rig_commit(pair, 0, 64, 2));
	expect_sent(pair, "W W R");
	flush_rig_expect(pair, 0, 64);
	flush_rig_expect_done(pair, 2);
	accepted(pair_put(pair, PAGE, 5000, PAIR_LARGE, CONTEXT(3), FI_COMMIT));
	expect_sent(pair, "W M");
	pair_expect_message(pair, 0, &message);
	cr_expect(pair_names(pair, &message, PAGE, 100, 64));
	pair_round(pair);
	/* Neither does one that spans something take them. */
	accepted(pair_put(pair, PAGE, 200, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 200, 64, CONTEXT(1), 0));
	rig_expect_nothing(pair->home);
	accepted(flush_rig_commit(pair, 0, 64, 4));
	flush_rig_expect(pair, 0, 264);
	flush_rig_expect_done(pair, 4);
	accepted(pair_put(pair, PAGE, 5000, PAIR_LARGE, CONTEXT(5), FI_COMMIT));
	pair_expect_message(pair, 0, &message);
	cr_expect(pair_names(pair, &message, PAGE, 200, 64));
	pair_close(pair);
}

Test(rdma_flush, that_would_span_too_much_is_the_agents)
{
	struct pair *pair = flush_rig_open();
	struct pmv_flush_message message;

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	accepted(flush_rig_commit(pair, 20000, PAIR_LARGE, 2));
	expect_sent(pair, "W W M");
	pair_expect_message(pair, 0, &message);
	cr_expect(pair_names(pair, &message, DMP, 0, 64));
	cr_expect(pair_names(pair, &message, DMP, 20000, PAIR_LARGE));
	cr_expect_eq(flush_rig.count, 0U);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	/* As much as was written may be between. */
	accepted(pair_put(pair, DMP, 0, 10000, CONTEXT(3), 0));
	accepted(flush_rig_commit(pair, 20000, 64, 4));
	flush_rig_expect(pair, 0, 20064);
	pair_close(pair);
}

/* What it was asked for may be of this region, and nobody knows any more. */
Test(rdma_flush, waits_for_what_the_agent_was_asked_for)
{
	struct pair *pair = flush_rig_open();

	accepted(pair_put(pair, PAGE, 0, PAIR_LARGE, CONTEXT(1), FI_COMMIT | FI_COMPLETION));
	accepted(flush_rig_commit(pair, 0, PAIR_LARGE, 2));
	expect_sent(pair, "W M W M");
	pair_round(pair);
	rig_expect_each(pair->home, 1, 2, RIG_WRITTEN);
	accepted(flush_rig_commit(pair, 0, PAIR_LARGE, 3));
	expect_sent(pair, "W R");
	pair_close(pair);
}

/* The agent makes that durable, and stores the data behind it. */
Test(rdma_flush, is_no_proof_for_a_fence_with_writes_before)
{
	struct pair *pair = flush_rig_open();

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 64, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W M");
	/* Neither is it of data that only a READ makes durable. */
	pair_round(pair);
	accepted(pair_put(pair, READ_DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 64, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	cr_expect_eq(flush_rig.count, 0U);
	pair_close(pair);
}

Test(rdma_flush, is_for_writes_to_one_place_that_nobody_is_told_of)
{
	struct pair *pair = flush_rig_open();

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT | FI_IMMED));
	pair_round(pair);
	rig_expect_nothing(pair->home);
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT | FI_DELIVERY_COMPLETE));
	pair_round(pair);
	rig_expect_nothing(pair->home);
	accepted(pair_put(pair, DMP, 0, 0, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect_nothing(pair->home);
	accepted(pair_fetch(pair, DMP, 0, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect_nothing(pair->home);
	accepted(pair_put(pair, READ_DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(flush_rig.count, 0U);
	pair_close(pair);
}

/* by_agent -- such a commit is, on an endpoint that was made so */
static void by_agent(void (*change)(struct pair *pair))
{
	struct pair *pair = flush_rig_open();

	change(pair);
	pmv_initiator_established(&pair->from->initiator);
	accepted(flush_rig_commit(pair, 0, PAIR_LARGE, 1));
	expect_sent(pair, "W M");
	cr_expect_eq(flush_rig.count, 0U);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

static void without_lists(struct pair *pair)
{
	pair->from->engine.lists = NULL;
}

static void only_global(struct pair *pair)
{
	(void) pair;
	flush_rig.ways = PMEMRDMA_FLUSH_GLOBAL;
}

static void switched_off(struct pair *pair)
{
	(void) pair;
	pmv_setting.no_flush = true;
}

static void commits_all(struct pair *pair)
{
	atomic_fetch_or(&pair->from->initiator.slow, PMV_SLOW_ALL);
}

Test(rdma_flush, needs_a_core_that_has_it)
{
	by_agent(without_lists);
}

Test(rdma_flush, needs_the_persistent_type)
{
	by_agent(only_global);
}

Test(rdma_flush, can_be_switched_off)
{
	by_agent(switched_off);
}

Test(rdma_flush, is_not_used_where_all_commits)
{
	by_agent(commits_all);
}

Test(rdma_flush, without_room_is_refused_and_forgets_nothing)
{
	struct pair *pair = flush_rig_open();

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	flush_rig.accepts = 0;
	refused(flush_rig_commit(pair, 100, 64, 2), FI_EAGAIN);
	flush_rig.accepts = 3;
	/* None is under way. */
	accepted(pair_put(pair, MHP, 0, 64, CONTEXT(1), FI_FENCE | FI_COMMIT));
	cr_expect_eq(flush_rig.count, 0U);
	pair_round(pair);
	pair_close(pair);

	pair = flush_rig_open();
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	flush_rig.accepts = 0;
	refused(flush_rig_commit(pair, 100, 64, 2), FI_EAGAIN);
	flush_rig.accepts = 3;
	accepted(flush_rig_commit(pair, 1000, 64, 2));
	flush_rig_expect(pair, 0, 1064);
	pair_close(pair);
}

Test(rdma_flush, of_which_the_write_alone_was_taken_flushes_the_same_range_later)
{
	struct pair *pair = flush_rig_open();

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	flush_rig.accepts = 1;
	pair->home->fake.room = 1;
	accepted(flush_rig_commit(pair, 100, 64, 2));
	expect_sent(pair, "W W");
	/* Nothing new is taken before. */
	refused(flush_rig_commit(pair, 200, 64, 3), FI_EAGAIN);
	pair->home->fake.room = -1;
	fake_complete(&pair->home->fake, 2);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "R");
	flush_rig_expect(pair, 0, 164);
	flush_rig_expect_done(pair, 2);
	pair_close(pair);
}

Test(rdma_flush, that_fails_is_an_error)
{
	struct pair *pair = flush_rig_open();

	accepted(flush_rig_commit(pair, 0, 64, 1));
	rig_end_part(pair->home, 0);
	rig_end_part(pair->home, FI_EIO);
	rig_expect_one_error(pair->home, FI_EIO);
	pair_close(pair);
}

Test(rdma_flush, whose_write_fails_ends_with_its_error)
{
	struct pair *pair = flush_rig_open();

	accepted(flush_rig_commit(pair, 0, 64, 1));
	rig_end_part(pair->home, FI_EACCES);
	rig_expect_nothing(pair->home);
	rig_end_part(pair->home, FI_ECANCELED);
	rig_expect_one_error(pair->home, FI_EACCES);
	pair_close(pair);
}

Test(rdma_flush, needs_no_agent)
{
	struct pair *pair = flush_rig_open_with(
		&(struct pair_options){.home = {.selective = true}, .no_agent = true});

	accepted(flush_rig_commit(pair, 0, 64, 1));
	flush_rig_expect(pair, 0, 64);
	flush_rig_expect_done(pair, 1);
	accepted(pair_put(pair, DMP, 1000, 64, CONTEXT(2), 0));
	accepted(flush_rig_commit(pair, 0, 64, 3));
	flush_rig_expect(pair, 0, 1064);
	/* However far it is: there is nobody else. */
	accepted(pair_put(pair, DMP, 60000, 64, CONTEXT(4), 0));
	accepted(flush_rig_commit(pair, 0, 64, 5));
	flush_rig_expect(pair, 0, 60064);
	pair_deliver(pair);
	refused(pair_put(pair, PAGE, 0, 64, CONTEXT(1), FI_COMMIT), FI_EOPNOTSUPP);
	pair_close(pair);
}

static void commit_meanwhile(struct fake *fake, const struct fake_post *posted, void *arg)
{
	struct pair *pair = arg;

	(void) posted;
	fake->on_post = NULL;
	accepted(flush_rig_commit(pair, 1000, 64, 2));
}

/* A FLUSH that is posted before it can't have covered it. */
Test(rdma_flush, keeps_what_another_thread_is_posting)
{
	struct pair *pair = flush_rig_open();

	pair->home->fake.on_post = commit_meanwhile;
	pair->home->fake.on_post_arg = pair;
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	flush_rig_expect(pair, 0, 1064);
	expect_sent(pair, "W R W");
	accepted(flush_rig_commit(pair, 2000, 64, 3));
	flush_rig_expect(pair, 0, 2064);
	pair_close(pair);
}

static void expect_not_alone(struct fake *fake, const struct fake_post *posted, void *arg)
{
	struct pair *pair = arg;

	(void) fake;
	(void) posted;
	cr_expect_not(pmv_rdma_flush_is_alone(&pair->from->initiator));
}

/* Another thread's would complete first, and may not count on it. */
Test(rdma_flush, that_is_not_posted_yet_is_not_taken_for_done)
{
	struct pair *pair = flush_rig_open();

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	pair->home->fake.on_post = expect_not_alone;
	pair->home->fake.on_post_arg = pair;
	accepted(flush_rig_commit(pair, 100, 64, 2));
	pair->home->fake.on_post = NULL;
	cr_expect(pmv_rdma_flush_is_alone(&pair->from->initiator));
	pair_close(pair);
}

/* Whoever looks may miss what another thread takes, gives up and takes. */
Test(rdma_flush, is_not_alone_on_a_broken_connection)
{
	struct pair *pair = flush_rig_open();

	cr_expect(pmv_rdma_flush_is_alone(&pair->from->initiator));
	pmv_initiator_break(&pair->from->initiator);
	cr_expect_not(pmv_rdma_flush_is_alone(&pair->from->initiator));
	pair_close(pair);
}

/* Without an agent nobody has noted where it was. */
Test(rdma_flush, is_no_proof_of_what_was_written_before_it_was_known_to_be_there)
{
	struct pair *pair = flush_rig_open_with(
		&(struct pair_options){.home = {.selective = true}, .no_agent = true});

	atomic_store(&pair->from->initiator.flushes, false);
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	pmv_initiator_established(&pair->from->initiator);
	refused(flush_rig_commit(pair, 100, 64, 2), FI_EOPNOTSUPP);
	pair_close(pair);
}

/* Of such lengths Soft-RoCE flushes less, and doesn't say so. */
Test(rdma_flush, is_never_of_2_gib)
{
	struct pair *pair = flush_rig_open();
	struct pmv_initiator *ini = &pair->from->initiator;
	struct fi_rma_iov to = {pair_addr(pair, DMP, INT32_MAX - 64), 64, pair_key(pair, DMP)};
	const struct fi_msg_rma msg = {.iov_count = 1};
	const struct pmv_submission submission = {
		.what = FI_RMA | FI_WRITE, .to = &to, .num_to = 1, .rma = &msg};

	/* Nobody else can, so it may be long. */
	ini->mailbox->link.peer.agent = false;
	pmv_dirty_add(&ini->dirty, (uint32_t) pmv_key_core(to.key), pair_addr(pair, DMP, 0), 1);
	cr_expect(pmv_rdma_flush_may_be(ini, &submission));
	to.addr++;
	cr_expect_not(pmv_rdma_flush_may_be(ini, &submission));
	/* Neither is the one in front of a tail. */
	cr_expect(pmv_rdma_flush_covers_all(ini, &submission));
	pmv_dirty_add(&ini->dirty, (uint32_t) pmv_key_core(to.key), to.addr + to.len - 1, 1);
	cr_expect_not(pmv_rdma_flush_covers_all(ini, &submission));
	pair_close(pair);
}

/* That is told by the agent: a later commit may not count on it. */
Test(rdma_flush, does_not_hide_what_was_lost)
{
	struct pair *pair = flush_rig_open();

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), 0));
	pair->from->initiator.dirty.lost = -FI_ENOMEM;
	cr_expect_eq(flush_rig_commit(pair, 100, PAIR_LARGE, 2), 0);
	cr_expect_eq(flush_rig.count, 0U);
	pair_deliver(pair);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_ENOMEM);
	pair_close(pair);
}

/* Its request may never have been carried out, and the core knows of no loss. */
Test(rdma_flush, does_not_hide_what_the_agent_was_asked_for_in_vain)
{
	struct pair *pair = flush_rig_open();

	flush_rig_drop_request(pair);
	accepted(flush_rig_commit(pair, 20000, 64, 3));
	pair_deliver(pair);
	cr_expect_eq(flush_rig.count, 0U);
	rig_expect_error(pair->home, CONTEXT(3), RIG_WRITTEN, FI_ECANCELED);
	pair_close(pair);
}
