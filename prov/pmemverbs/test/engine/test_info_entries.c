/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_info_entries.c -- how many entries of the core's queues a commit takes: what the
 * manual says, and what queues are opened for
 */
#include "engine/info.h"
#include "test/support/pair.h"

#define IMMED (FI_COMMIT | FI_IMMED)
#define FENCED (FI_COMMIT | FI_FENCE)

/* The application's, which are durable with what comes; none counts. */
static size_t before;

static void count_from_here(struct pair *pair)
{
	before = pair->home->fake.num_posts;
}

/* entries -- that were taken since, when CONTEXT(9) completes */
static size_t entries(struct pair *pair)
{
	struct fi_cq_tagged_entry entry = {0};

	for (int i = 0; i < 100 && entry.op_context != CONTEXT(9); i++) {
		pair_round(pair);
		while (fi_cq_read(pair->home->cq, &entry, 1) == 1 && entry.op_context != CONTEXT(9))
			;
	}
	cr_assert_eq(entry.op_context, CONTEXT(9));
	return pair->home->fake.num_posts - before;
}

/* scatter -- so many writes that no two share or adjoin a cache line */
static void scatter(struct pair *pair, enum pair_memory memory, size_t count)
{
	for (size_t i = 0; i < count; i++)
		accepted(pair_put(pair, memory, 200 * i, 8, CONTEXT(1), 0));
}

/* messages -- as many as name so many places */
static size_t messages(size_t places)
{
	return (places + PMV_MAX_RANGES - 1) / PMV_MAX_RANGES;
}

/* By READs, the worst of them: in front and behind, and a notice. */
Test(entries, of_commits_by_reads_are_four_at_most)
{
	static const struct {
		enum pair_memory memory;
		uint64_t flags;
		size_t entries;
	} cases[] = {
		{MHP, FI_COMMIT, 2},      {MHP, IMMED, 3},
		{MHP, FENCED, 3},         {MHP, IMMED | FI_FENCE, 4},
		{READ_DMP, FI_COMMIT, 2}, {READ_DMP, IMMED, 3},
		{READ_DMP, FENCED, 3},    {READ_DMP, IMMED | FI_FENCE, 4},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *pair = pair_open(NULL);

		scatter(pair, READ_DMP, 100);
		count_from_here(pair);
		accepted(pair_put(pair, cases[i].memory, 0, 8, CONTEXT(9), cases[i].flags));
		cr_expect_eq(entries(pair), cases[i].entries, "case %zu", i);
		cr_expect_leq(cases[i].entries, PMV_INFO_MAX_REQUESTS);
		pair_close(pair);
	}
}

/* By the agent: the operation, and a message for each 20 places. */
Test(entries, of_commits_by_the_agent_grow_with_what_was_written)
{
	for (size_t places = 1; places <= 200; places += places < 66 ? 1 : 67) {
		size_t most = places < PMV_DIRTY_RANGES ? places : PMV_DIRTY_RANGES;
		struct pair *pair = pair_open(NULL);

		scatter(pair, DMP, places - 1);
		count_from_here(pair);
		accepted(pair_put(pair, DMP, 200 * (places - 1), 8, CONTEXT(9), IMMED));
		cr_expect_eq(entries(pair), 1 + messages(most), "%zu places", places);
		if (most <= 2 * PMV_MAX_RANGES)
			cr_expect_leq(1 + messages(most), PMV_INFO_MAX_REQUESTS);
		pair_close(pair);
	}
}

Test(entries, of_a_notice_that_the_agent_can_not_give_are_one_more)
{
	struct pair *pair = pair_open(&(struct pair_options){.no_notices = true});

	count_from_here(pair);
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(9), IMMED));
	cr_expect_eq(entries(pair), 3);
	pair_close(pair);
}

/* What rides takes a message alone; with a READ in front where one is due. */
Test(entries, of_small_fenced_commits_are_two_at_most)
{
	for (int flush = 0; flush < 2; flush++) {
		struct pair *pair = pair_open(NULL);

		scatter(pair, DMP, 10);
		if (flush)
			scatter(pair, READ_DMP, 10);
		count_from_here(pair);
		accepted(pair_put(pair, DMP, 8192, 8, CONTEXT(9), IMMED | FI_FENCE));
		cr_expect_eq(entries(pair), 1 + (size_t) flush);
		pair_close(pair);
	}
}

/*
 * The worst of all: messages about everything, of every region, and when those are
 * acknowledged a READ, the write, a message and a notice.
 */
Test(entries, of_large_fenced_commits_grow_with_all_that_was_written)
{
	struct pair *pair = pair_open(&(struct pair_options){.no_notices = true});

	scatter(pair, DMP, 200);
	scatter(pair, PAGE, 200);
	scatter(pair, PAGE_TOO, 30);
	scatter(pair, READ_DMP, 1);
	count_from_here(pair);
	accepted(pair_put(pair, DMP, 8192, PAIR_LARGE, CONTEXT(9), IMMED | FI_FENCE));
	cr_expect_eq(entries(pair), messages(64 + 64 + 30) + 4);
	pair_close(pair);
}

/* All is read back, in pieces, before a message says that it is there. */
Test(entries, without_an_order_of_writes_are_one_more_for_each_4_kib)
{
	static const size_t lens[] = {1, PMV_SCRATCH_SIZE, PMV_SCRATCH_SIZE + 1,
				      5 * PMV_SCRATCH_SIZE};

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		size_t reads = (lens[i] + PMV_SCRATCH_SIZE - 1) / PMV_SCRATCH_SIZE;
		struct pair *pair;

		pmv_setting.relaxed = true;
		pair = pair_open(NULL);
		count_from_here(pair);
		accepted(pair_put(pair, DMP, 0, lens[i], CONTEXT(9), FI_COMMIT));
		cr_expect_eq(entries(pair), 1 + reads + 1);
		pair_close(pair);
		pmv_setting.relaxed = false;
	}
}

/*
 * What finds no room in the transmit queue waits.  So no completion queue overruns
 * that has as many entries as the application's queues on it together, whatever
 * is committed: it is opened for as many times more as they are.
 */
Test(entries, that_find_no_room_wait_and_none_is_lost)
{
	static const int sizes[] = {1, 2, 4, 7};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct pair *pair = pair_open(&(struct pair_options){.no_notices = true});
		struct fake *fake = &pair->home->fake;
		struct fi_cq_tagged_entry entry = {0};

		scatter(pair, DMP, 200);
		scatter(pair, PAGE, 200);
		scatter(pair, READ_DMP, 1);
		pair_round(pair);
		while (fi_cq_read(pair->home->cq, &entry, 1) == 1)
			;
		fake->room = sizes[i];
		accepted(pair_put(pair, DMP, 8192, PAIR_LARGE, CONTEXT(9), IMMED | FI_FENCE));
		for (int n = 0; n < 100 && entry.op_context != CONTEXT(9); n++) {
			cr_assert_leq(fake_under_way(fake), (size_t) sizes[i]);
			pair_round(pair);
			/* Room comes when the queue is read. */
			fake->room = sizes[i];
			fi_cq_read(pair->home->cq, &entry, 1);
		}
		cr_expect_eq(entry.op_context, CONTEXT(9), "with room for %d", sizes[i]);
		cr_expect(pair_survives(pair, DMP, 8192, PAIR_LARGE));
		fake->room = -1;
		pair_close(pair);
	}
}

Test(entries, have_room_in_a_completion_queue_as_long_as_the_others_together)
{
	static const size_t tx_sizes[] = {1, 64, 384}, rx_sizes[] = {0, 1, 500};

	for (size_t i = 0; i < 9; i++) {
		size_t tx_size = tx_sizes[i / 3], rx_size = rx_sizes[i % 3];
		struct rig *rig = rig_open(&(struct rig_options){
			.cq_size = 2 * (tx_size + rx_size),
			.rx_size = rx_size,
		});
		const struct fi_info *core;
		struct fid_ep *ep;

		rig->fake.domain_info->tx_attr->size = SIZE_MAX;
		rig->info->tx_attr->size = tx_size;
		ep = rig_ep(rig, rig->cq);
		core = rig->fake.ep_info;
		cr_expect_geq(rig->fake.cq_size, 2 * (core->tx_attr->size + core->rx_attr->size));
		cr_expect_eq(core->tx_attr->size, tx_size * PMV_INFO_MAX_REQUESTS);
		accepted(fi_close(&ep->fid));
		rig_close(rig);
	}
}
