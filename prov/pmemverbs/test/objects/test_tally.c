/* SPDX-License-Identifier: BSD-2-Clause */
/* test_tally.c -- the counters of a domain: what is counted, where, and how often */
#include <string.h>

#include "test/support/pair.h"

static struct fi_pmemverbs_counters read_counters(struct rig *rig)
{
	struct fi_pmemverbs_counters_ops *ops = NULL;
	struct fi_pmemverbs_counters counters;

	accepted(
		fi_open_ops(&rig->domain->fid, FI_PMEMVERBS_COUNTERS_OPS, 0, (void **) &ops, NULL));
	memset(&counters, 0xa5, sizeof(counters));
	accepted(ops->read(rig->domain, &counters, sizeof(counters)));
	return counters;
}

/* expect_counted -- that, and nothing else */
static void expect_counted(struct rig *rig, struct fi_pmemverbs_counters expected)
{
	struct fi_pmemverbs_counters counters = read_counters(rig);

	cr_expect_arr_eq(&counters, &expected, sizeof(expected));
}

static void end_commit(struct rig *rig, void *context)
{
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect(rig, context, RIG_WRITTEN);
}

static void commit(struct rig *rig, uint64_t key, void *context)
{
	accepted(rig_commit(rig, key, context, 0));
	end_commit(rig, context);
}

static void find_no_room(struct rig *rig, void *context)
{
	rig->fake.room = 0;
	refused(rig_commit(rig, KEY_MHP, context, 0), FI_EAGAIN);
	rig->fake.room = -1;
}

Test(tally, begins_with_nothing)
{
	struct rig *rig = rig_open(NULL);

	expect_counted(rig, (struct fi_pmemverbs_counters){.endpoints = 1});
	rig_close(rig);
}

/* The first one is planned, and the plan of the others is known. */
Test(tally, has_each_commit_once_by_its_method)
{
	struct rig *rig = rig_open(NULL);

	for (int i = 0; i < 4; i++)
		commit(rig, KEY_MHP, CONTEXT(i));
	commit(rig, KEY_WSP, CONTEXT(9));
	accepted(rig_write(rig, KEY_MHP, CONTEXT(10)));
	end_commit(rig, CONTEXT(10));
	expect_counted(rig, (struct fi_pmemverbs_counters){
				    .endpoints = 1, .commits_read = 4, .commits_write = 1});
	rig_close(rig);
}

Test(tally, tells_refusals_from_calls_to_be_tried_again)
{
	struct rig *rig = rig_open(NULL);

	refused(rig_commit(rig, KEY_PLAIN, CONTEXT(1), 0), FI_EOPNOTSUPP);
	/* It needs an agent, and there is none. */
	refused(rig_commit(rig, KEY_DMP_DDIO, CONTEXT(2), 0), FI_EOPNOTSUPP);
	find_no_room(rig, CONTEXT(3));
	commit(rig, KEY_MHP, CONTEXT(4));
	/* Also where the plan is known. */
	find_no_room(rig, CONTEXT(5));
	expect_counted(rig, (struct fi_pmemverbs_counters){
				    .endpoints = 1, .commits_read = 1, .commits_refused = 2});
	rig_close(rig);
}

/* Counted before it is posted, and taken back. */
Test(tally, has_no_ordinary_commit_that_found_no_room)
{
	struct rig *rig = rig_open(NULL);

	for (int i = 0; i < 2; i++)
		commit(rig, KEY_MHP, CONTEXT(i));
	find_no_room(rig, CONTEXT(2));
	expect_counted(rig, (struct fi_pmemverbs_counters){.endpoints = 1, .commits_read = 2});
	/* The core refuses it. */
	rig->fake.fail_in = 1;
	rig->fake.fail_err = FI_EINVAL;
	refused(rig_commit(rig, KEY_MHP, CONTEXT(3), 0), FI_EINVAL);
	expect_counted(rig, (struct fi_pmemverbs_counters){
				    .endpoints = 1, .commits_read = 2, .commits_refused = 1});
	rig_close(rig);
}

/* The READ finds no room, and is posted later: that is one commit. */
Test(tally, has_a_commit_that_waits_for_room_once)
{
	const struct fi_pmemverbs_counters both = {.endpoints = 1, .commits_read = 2};
	struct rig *rig = rig_open(NULL);

	commit(rig, KEY_MHP, CONTEXT(1));
	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_counted(rig, both);
	rig->fake.room = -1;
	rig_expect_nothing(rig);
	end_commit(rig, CONTEXT(2));
	expect_counted(rig, both);
	rig_close(rig);
}

/* Plain writes fail as well, and are not counted. */
Test(tally, has_commits_that_failed)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	cr_assert(fake_fail(&rig->fake, FI_EIO, 0));
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	accepted(rig_write(rig, KEY_MHP, CONTEXT(2)));
	cr_assert(fake_fail(&rig->fake, FI_EIO, 0));
	rig_expect_error(rig, CONTEXT(2), RIG_WRITTEN, FI_EIO);
	expect_counted(rig, (struct fi_pmemverbs_counters){
				    .endpoints = 1, .commits_read = 1, .commits_failed = 1});
	rig_close(rig);
}

/* A plain write that a counter counts is an operation of ours, and no commit. */
Test(tally, has_no_write_that_is_only_counted)
{
	struct rig *rig = rig_open(&(struct rig_options){.not_enabled = true});
	struct fid_cntr *cntr = rig_count(rig, FI_WRITE);

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	cr_assert(fake_fail(&rig->fake, FI_EIO, 0));
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	expect_counted(rig, (struct fi_pmemverbs_counters){.endpoints = 1});
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

Test(tally, keeps_what_closed_endpoints_have_counted)
{
	for (enum fake_on_close how = FAKE_CLOSE_CANCELS; how <= FAKE_CLOSE_FORGETS; how++) {
		struct rig *rig = rig_open(NULL);

		rig->fake.on_close = how;
		commit(rig, KEY_MHP, CONTEXT(1));
		/* Under way when the endpoint is closed. */
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
		rig_close_ep(rig);
		expect_counted(rig, (struct fi_pmemverbs_counters){.commits_read = 2,
								   .commits_failed = 1});
		rig_close(rig);
	}
}

Test(tally, has_what_the_agent_does)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 1000, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	accepted(pair_put(pair, PAGE, 4096, 100, CONTEXT(2), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	expect_counted(pair->home, (struct fi_pmemverbs_counters){
					   .endpoints = 1, .commits_agent = 2, .requests_sent = 2});
	expect_counted(pair->away, (struct fi_pmemverbs_counters){.endpoints = 1,
								  .requests_served = 2,
								  .flushes = 1,
								  .flushed_bytes = 1000,
								  .syncs = 1,
								  .synced_bytes = 100});
	pair_close(pair);
}

Test(tally, has_what_the_agent_stores)
{
	struct pair *pair = pair_open(&(struct pair_options){.stores = true});

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	expect_counted(pair->home, (struct fi_pmemverbs_counters){
					   .endpoints = 1, .commits_agent = 1, .requests_sent = 1});
	expect_counted(pair->away, (struct fi_pmemverbs_counters){.endpoints = 1,
								  .requests_served = 1,
								  .flushes = 1,
								  .flushed_bytes = 64,
								  .stores = 1,
								  .stored_bytes = 64});
	pair_close(pair);
}

static struct pair *current;

/* Before its memory is written back: later events are under locks. */
static void expect_pending(void *arg)
{
	(void) arg;
	current->on_event = NULL;
	cr_expect_eq(read_counters(current->away).requests_pending, 1);
	cr_expect_eq(read_counters(current->home).requests_awaited, 1);
}

Test(tally, has_what_waits_now)
{
	struct pair *pair = current = pair_open(NULL);

	pair->on_event = expect_pending;
	accepted(pair_put(pair, DMP, 0, 1000, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(read_counters(pair->home).requests_awaited, 1);
	pair_round(pair);
	cr_expect_null(pair->on_event);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	expect_counted(pair->home, (struct fi_pmemverbs_counters){
					   .endpoints = 1, .commits_agent = 1, .requests_sent = 1});
	cr_expect_eq(read_counters(pair->away).requests_pending, 0);
	pair_close(pair);
}

Test(tally, has_requests_that_the_agent_refused)
{
	struct pair *pair = pair_open(NULL);

	pair_unregister(pair, DMP);
	pair_tell(pair, &(struct pmv_flush_message){
				.count = 1, .ranges = {{.addr = 0x1000, .len = 64, .key = 4711}}});
	pair_serve(pair);
	expect_counted(pair->away, (struct fi_pmemverbs_counters){.endpoints = 1,
								  .requests_served = 1,
								  .requests_refused = 1});
	pair_close(pair);
}

Test(tally, fits_what_the_caller_knows)
{
	struct rig *rig = rig_open(NULL);
	struct fi_pmemverbs_counters_ops *ops = NULL;
	uint64_t room[sizeof(struct fi_pmemverbs_counters) / sizeof(uint64_t) + 2];
	const size_t all = sizeof(struct fi_pmemverbs_counters);

	accepted(
		fi_open_ops(&rig->domain->fid, FI_PMEMVERBS_COUNTERS_OPS, 0, (void **) &ops, NULL));
	cr_expect_geq(ops->size, sizeof(*ops));
	memset(room, 0xa5, sizeof(room));
	accepted(ops->read(rig->domain, (void *) room, sizeof(*room)));
	cr_expect_eq(room[0], 1);
	cr_expect_eq(room[1], UINT64_C(0xa5a5a5a5a5a5a5a5));
	/* A newer program has more. */
	accepted(ops->read(rig->domain, (void *) room, all + sizeof(*room)));
	cr_expect_eq(room[all / sizeof(*room)], 0);
	cr_expect_eq(room[all / sizeof(*room) + 1], UINT64_C(0xa5a5a5a5a5a5a5a5));
	refused(ops->read(rig->domain, (void *) room, 12), FI_EINVAL);
	refused(fi_open_ops(&rig->domain->fid, FI_PMEMVERBS_COUNTERS_OPS, 1, (void **) &ops, NULL),
		FI_EBADFLAGS);
	rig_close(rig);
}
