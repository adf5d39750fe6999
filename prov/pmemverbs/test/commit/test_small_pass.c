/* SPDX-License-Identifier: BSD-2-Clause */
/* test_small_pass.c -- writes that come before data that travel in requests */
#include "test_flush_request.h"

#include "objects/ep.h"

static void let_pass(struct pair *pair, int passes)
{
	accepted(fi_setopt(&pair->home->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_WRITES_PASS,
			   &passes, sizeof(passes)));
}

static struct pair *open_ordered(void)
{
	return pair_open(&(struct pair_options){.home = {.selective = true}, .offsets = true});
}

static struct pair *open_unordered(void)
{
	struct pair *pair = open_ordered();

	let_pass(pair, 1);
	return pair;
}

/* append -- a record, and the log's tail */
static void append(struct pair *pair, enum pair_memory memory, size_t number)
{
	accepted(pair_put(pair, memory, 1024 + 512 * number, PAIR_LARGE / 2, NULL, 0));
	accepted(pair_put(pair, memory, 512, 8, CONTEXT(number),
			  FI_COMMIT | FI_FENCE | FI_COMPLETION));
	expect_sent(pair, "W M");
}

static void append_many(enum pair_memory memory, const char *done)
{
	struct pair *pair = open_unordered();

	for (size_t i = 0; i < 8; i++)
		append(pair, memory, i);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pair_serve(pair);
	expect_done(pair, done);
	rig_expect_each(pair->home, 0, 7, RIG_WRITTEN);
	for (size_t i = 0; i < 8; i++)
		cr_expect(pair_survives(pair, memory, 1024 + 512 * i, PAIR_LARGE / 2));
	cr_expect(pair_survives(pair, memory, 512, 8));
	pair_close(pair);
}

Test(store, appends_are_under_way_together_where_writes_need_no_order)
{
	append_many(DMP, "F F F F F F F F D S F S F S F S F S F S F S F S F D K");
	append_many(PAGE, "Y D Y D K");
}

/* Places that meet 8 bytes at 512. */
static const struct place {
	size_t offset, len;
} cases[] = {{512, 8}, {516, 1}, {519, 100}, {500, 13}, {0, 4096}};

/* pass_but_meet -- writes beside 8 bytes that are under way are posted, and one to their place is
 * not */
static void pass_but_meet(struct pair *pair, const struct place *place)
{
	accepted(pair_put(pair, DMP, 520, 8, NULL, 0));
	accepted(pair_put(pair, DMP, 500, 12, NULL, 0));
	accepted(pair_put(pair, PAGE, 512, 8, NULL, 0));
	expect_sent(pair, "W W W");
	refused(pair_put(pair, DMP, place->offset, place->len, NULL, 0), FI_EAGAIN);
}

/* What is newer would be overwritten. */
Test(store, is_not_passed_by_writes_to_its_place)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *pair = open_unordered();

		append(pair, DMP, 0);
		append(pair, DMP, 1);
		pass_but_meet(pair, &cases[i]);
		pair_round(pair);
		rig_expect_each(pair->home, 0, 1, RIG_WRITTEN);
		accepted(pair_put(pair, DMP, cases[i].offset, cases[i].len, NULL, 0));
		expect_sent(pair, "W");
		pair_deliver(pair);
		pair_close(pair);
	}
}

static ssize_t send_one(struct pair *pair)
{
	return pair_send(pair, 0, 8, CONTEXT(5), 0);
}

static ssize_t fetch_one(struct pair *pair)
{
	return pair_fetch(pair, DMP, 2048, CONTEXT(5), 0);
}

static ssize_t commit_large(struct pair *pair)
{
	return pair_put(pair, DMP, 2048, PAIR_LARGE, CONTEXT(5), FI_COMMIT);
}

static ssize_t write_fenced(struct pair *pair)
{
	return pair_put(pair, DMP, 2048, 8, CONTEXT(5), FI_FENCE);
}

static ssize_t write_data(struct pair *pair)
{
	return pair_put(pair, DMP, 2048, 8, CONTEXT(5), FI_REMOTE_CQ_DATA);
}

static ssize_t write_plain(struct pair *pair)
{
	return pair_put(pair, DMP, 2048, 8, NULL, 0);
}

static void expect_passes(struct pair *pair, ssize_t (*post)(struct pair *), int ret)
{
	append(pair, DMP, 0);
	cr_expect_eq(post(pair), ret);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(0), RIG_WRITTEN);
	pair_close(pair);
}

/* Only writes have no order, and those that tell the target of what it finds have. */
Test(store, is_passed_by_plain_writes_alone)
{
	expect_passes(open_unordered(), write_plain, 0);
	expect_passes(open_unordered(), write_fenced, -FI_EAGAIN);
	expect_passes(open_unordered(), write_data, -FI_EAGAIN);
	expect_passes(open_unordered(), commit_large, -FI_EAGAIN);
	expect_passes(open_unordered(), fetch_one, -FI_EAGAIN);
	expect_passes(open_unordered(), send_one, -FI_EAGAIN);
}

Test(store, is_not_passed_unless_that_was_allowed)
{
	struct pair *pair;
	int value = 1;

	expect_passes(open_ordered(), write_plain, -FI_EAGAIN);
	pair = open_unordered();
	refused(fi_setopt(&pair->home->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_WRITES_PASS,
			  &value, 1),
		FI_EINVAL);
	let_pass(pair, 0);
	expect_passes(pair, write_plain, -FI_EAGAIN);
}

/* It has not been sent, and is the first in order then. */
Test(store, is_not_passed_before_it_is_sent)
{
	struct pair *pair = open_unordered();

	accepted(pair_put(pair, DMP, 512, 8, NULL, 0));
	pair->home->fake.room = 0;
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(0), FI_COMMIT | FI_FENCE | FI_COMPLETION));
	refused(pair_put(pair, DMP, 1024, 8, NULL, 0), FI_EAGAIN);
	pair->home->fake.room = -1;
	pair_round(pair);
	rig_expect_nothing(pair->home);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(0), RIG_WRITTEN);
	pair_close(pair);
}

/* The same of one that goes from the buffer into the mailbox. */
Test(store, without_a_fence_is_not_passed_by_writes_to_its_place)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *pair = pair_open(&(struct pair_options){
			.home = {.selective = true}, .offsets = true, .stores = true});

		let_pass(pair, 1);
		accepted(pair_put(pair, DMP, 512, 8, CONTEXT(0), FI_COMMIT | FI_COMPLETION));
		expect_sent(pair, "M");
		pass_but_meet(pair, &cases[i]);
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(0), RIG_WRITTEN);
		pair_close(pair);
	}
}
