/* SPDX-License-Identifier: BSD-2-Clause */
/* test_chain_ops_commit.c -- what of a chain is durable, and when */
#include "chain.h"

#include <string.h>

#include "objects/domain.h"

#define COMMIT FI_PMEMVERBS_STEP_COMMIT

/* A buffer is written, and then a pointer to it is swung. */
struct swing {
	struct pair *pair;
	enum pair_memory memory;
	uint64_t zero, to;
	struct fi_pmemverbs_step steps[2];
};

static void set_swing(struct swing *swing, struct pair *pair, enum pair_memory memory)
{
	*swing = (struct swing){
		.pair = pair,
		.memory = memory,
		.to = pair_addr(pair, memory, BUFFER),
		.steps = {chain_at(pair, STEP(WRITE, .operand = pair->source + BUFFER, .len = 64),
				   memory, BUFFER),
			  chain_at(pair, STEP(CAS, .len = 8, .flags = COMMIT), memory, POINTER)},
	};
	swing->steps[1].expected = &swing->zero;
	swing->steps[1].operand = &swing->to;
}

/* check -- who sees the pointer sees what it points to, also after a power failure */
static void check(void *arg)
{
	const struct swing *swing = arg;
	struct pair *pair = swing->pair;

	if (chain_word(pair, swing->memory, POINTER))
		cr_expect(pair_survives(pair, swing->memory, BUFFER, 64));
}

Test(chain, pointer_is_swung_when_what_it_points_to_is_durable)
{
	static const enum pair_memory memories[] = {DMP, PAGE, READ_DMP, MHP};
	static const char *const done[] = {"S F D S F D K", "Y D Y D K", "S F D S F D K",
					   "S D S D K"};

	for (int i = 0; i < 4; i++) {
		struct pair *pair = pair_open(NULL);
		struct swing swing;
		uint64_t found;

		set_swing(&swing, pair, memories[i]);
		pair->on_event = check;
		pair->on_event_arg = &swing;
		chain_run(pair, swing.steps, 2);
		expect_status(swing.steps[1], OK);
		expect_done(pair, done[i]);
		if (memories[i] != MHP) {
			memcpy(&found, pair->durable[memories[i]] + POINTER, 8);
			cr_expect_eq(found, swing.to);
		}
		pair->on_event = NULL;
		pair_close(pair);
	}
}

Test(chain, without_a_commit_flushes_nothing)
{
	struct pair *pair = pair_open(NULL);
	struct swing swing;

	set_swing(&swing, pair, DMP);
	swing.steps[1].flags = 0;
	chain_run(pair, swing.steps, 2);
	expect_done(pair, "S S K");
	pair_close(pair);
}

Test(chain, commits_only_up_to_where_it_is_asked_to)
{
	struct pair *pair = pair_open(NULL);
	struct swing swing;
	struct fi_pmemverbs_step steps[3];

	set_swing(&swing, pair, DMP);
	steps[0] = swing.steps[0];
	steps[1] = swing.steps[1];
	steps[2] = swing.steps[0];
	chain_run(pair, steps, 3);
	expect_done(pair, "S F D S S K");
	pair_close(pair);
}

/* A commit is also made where its step is skipped, or fails. */
Test(chain, commit_does_not_depend_on_its_step)
{
	struct pair *pair = pair_open(NULL);
	uint64_t one = 1;
	struct fi_pmemverbs_step steps[] = {
		chain_at(pair, STEP(CAS, .expected = &one, .operand = &one, .len = 8), DMP, 0),
		chain_at(pair, STEP(WRITE, .operand = pair->source + 64, .len = 8), DMP, 64),
		chain_at(pair, STEP(CAS, .expected = &one, .operand = &one, .len = 8), DMP, 0),
		chain_at(pair,
			 STEP(READ, .len = 0, .flags = COMMIT | FI_PMEMVERBS_STEP_CONDITIONAL), DMP,
			 0),
	};

	chain_run(pair, steps, 4);
	expect_status(steps[3], SKIPPED);
	cr_expect(pair_survives(pair, DMP, 64, 8));
	pair_close(pair);
}

/* Of this endpoint, to any region. */
Test(chain, commits_what_was_written_before)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step = chain_at(pair, STEP(READ, .flags = COMMIT), DMP, 0);
	struct pmv_flush_message message;

	accepted(pair_put(pair, DMP, 4096, 100, CONTEXT(2), 0));
	accepted(pair_put(pair, PAGE, 8192, 100, CONTEXT(3), 0));
	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	expect_sent(pair, "W W M");
	pair_expect_message(pair, 0, &message);
	cr_expect(pair_names(pair, &message, DMP, 4096, 100));
	cr_expect(pair_names(pair, &message, PAGE, 8192, 100));
	cr_expect(message.ordered);
	pair_round(pair);
	cr_expect(pair_survives(pair, DMP, 4096, 100));
	cr_expect(pair_survives(pair, PAGE, 8192, 100));
	pair_close(pair);
}

/* What only a READ makes durable is so before the first step. */
Test(chain, is_fenced_behind_a_flush_of_earlier_writes)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step = chain_at(pair, STEP(READ, .flags = COMMIT), DMP, 0);

	accepted(pair_put(pair, READ_DMP, 0, 100, CONTEXT(2), 0));
	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	expect_sent(pair, "W R fM");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	step.flags = 0;
	accepted(pair_put(pair, READ_DMP, 0, 100, CONTEXT(2), 0));
	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	expect_sent(pair, "W fM");
	pair_round(pair);
	pair_close(pair);
}

/* The ranges may need a message of their own, whatever room the chain leaves. */
Test(chain, comes_behind_any_number_of_ranges)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message;

	for (unsigned int count = 0; count < 45; count++) {
		struct fi_pmemverbs_step steps[] = {
			chain_at(pair, STEP(WRITE, .operand = pair->source, .len = count * 9), DMP,
				 0),
			chain_at(pair, STEP(READ, .flags = COMMIT), DMP, 0),
		};

		for (unsigned int i = 0; i < count; i++)
			accepted(pair_put(pair, DMP, 4096 + i * 256, 8, CONTEXT(2), 0));
		accepted(chain_post(pair, steps, 2, CONTEXT(1)));
		pair_expect_message(pair, 0, &message);
		cr_expect(message.chain);
		pair_round(pair);
		for (unsigned int i = 0; i < count; i++) {
			rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
			cr_expect(pair_survives(pair, DMP, 4096 + i * 256, 8));
		}
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		expect_status(steps[0], OK);
		memset(pair->durable[DMP], 0, PAIR_SIZE);
		memset(pair->named[DMP], 0, PAIR_SIZE);
	}
	pair_close(pair);
}

Test(chain, is_counted_at_both_ends)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_counters_ops *ops = NULL;
	struct fi_pmemverbs_counters home, away;
	struct swing swing;

	accepted(fi_open_ops(&pair->home->domain->fid, FI_PMEMVERBS_COUNTERS_OPS, 0, (void **) &ops,
			     NULL));
	set_swing(&swing, pair, DMP);
	chain_run(pair, swing.steps, 2);
	chain_run(pair, swing.steps, 1);
	swing.steps[0].kind = 0;
	refused(chain_post(pair, swing.steps, 1, NULL), FI_EINVAL);
	accepted(ops->read(pair->home->domain, &home, sizeof(home)));
	accepted(ops->read(pair->away->domain, &away, sizeof(away)));
	cr_expect_eq(home.chains, 2);
	cr_expect_eq(home.commits_agent, 1);
	cr_expect_eq(home.chains_served, 0);
	cr_expect_eq(away.chains_served, 2);
	cr_expect_eq(away.requests_served, 2);
	pair_close(pair);
}

/* What has failed */

Test(chain, ends_where_a_commit_fails)
{
	struct pair *pair = pair_open(NULL);
	struct swing swing;

	set_swing(&swing, pair, PAGE);
	pair->sync_fails = true;
	chain_fail(pair, swing.steps, 2, FI_EIO);
	expect_status(swing.steps[0], OK);
	expect_status(swing.steps[1], LOST);
	cr_expect_eq(chain_word(pair, PAGE, POINTER), 0, "the pointer was swung all the same");
	pair_close(pair);
}

Test(chain, fails_if_its_last_commit_does)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step =
		chain_at(pair, STEP(WRITE, .operand = "x", .len = 1, .flags = COMMIT), PAGE, 0);

	pair->sync_fails = true;
	chain_fail(pair, &step, 1, FI_EIO);
	pair_close(pair);
}

/* An earlier commit of the endpoint has failed, and the chain promises what that was to write. */
Test(chain, does_not_commit_after_an_earlier_failure)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step steps[] = {
		chain_at(pair, STEP(WRITE, .operand = "a", .len = 1), DMP, 0),
		chain_at(pair, STEP(WRITE, .operand = "b", .len = 1, .flags = COMMIT), DMP, 1),
	};

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 100, CONTEXT(2), FI_COMMIT));
	accepted(chain_post(pair, steps, 2, CONTEXT(1)));
	pair_deliver(pair);
	pair_serve(pair);
	pair_serve(pair);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	expect_status(steps[1], LOST);
	cr_expect_eq(pair->memory[DMP][1], 0);
	pair_close(pair);
}

/* The agent can't tell whether the earlier chain was to store something that this one promises. */
Test(chain, does_not_commit_behind_a_refused_one)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step bad = chain_at(pair, STEP(READ, .len = 8), DMP, PAIR_SIZE);
	struct fi_pmemverbs_step good =
		chain_at(pair, STEP(WRITE, .operand = "x", .len = 1, .flags = COMMIT), DMP, 0);

	accepted(chain_post(pair, &bad, 1, CONTEXT(1)));
	accepted(chain_post(pair, &good, 1, CONTEXT(2)));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EACCES);
	/* One acknowledgement, with the first error, is for both. */
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_EACCES);
	expect_status(good, LOST);
	/* Now it knows. */
	chain_run(pair, &good, 1);
	pair_close(pair);
}

/* What was written before can't be committed: the chain promises it, so it is not begun. */
Test(chain, is_not_executed_without_what_it_is_to_commit)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step steps[] = {
		chain_at(pair, STEP(WRITE, .operand = "a", .len = 1), DMP, 0),
		chain_at(pair, STEP(WRITE, .operand = "b", .len = 1, .flags = COMMIT), DMP, 1),
	};

	accepted(pair_put(pair, PAGE, 0, 100, CONTEXT(2), 0));
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_unregister(pair, PAGE);
	chain_fail(pair, steps, 2, FI_EACCES);
	expect_status(steps[0], NOT_REACHED);
	expect_status(steps[1], NOT_REACHED);
	cr_expect_eq(pair->memory[DMP][0], 0);
	pair_close(pair);
}

/* A region that is lost already, and of which the chain only reads. */
Test(chain, does_not_commit_to_a_lost_region)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step =
		chain_at(pair, STEP(WRITE, .operand = "x", .len = 1, .flags = COMMIT), PAGE, 0);

	pair->sync_fails = true;
	chain_fail(pair, &step, 1, FI_EIO);
	pair->sync_fails = false;
	chain_fail(pair, &step, 1, FI_EIO);
	pair_close(pair);
}

/* Memory is lost while it is used */

static struct pmv_region *region_of(struct pair *pair, enum pair_memory memory)
{
	return pmv_container_of(pair->mr[memory], struct pmv_mr, mr_fid)->region;
}

struct loss {
	struct pmv_region *region;
	int events; /* that come before */
};

static void lose(void *arg)
{
	struct loss *loss = arg;

	if (!loss->events--)
		atomic_store(&loss->region->lost, PMV_LOST_FAULT);
}

/* A buffer is written, flushed and drained, then a pointer to it: the events 0, 1, 2, 3 and on. */
Test(chain, fails_whenever_its_memory_is_lost)
{
	static const struct {
		enum pair_memory pointer, lost;
		int events;
		enum fi_pmemverbs_step_status first, second;
	} rows[] = {
		{MHP, DMP, 0, FI_PMEMVERBS_STEP_LOST, FI_PMEMVERBS_STEP_NOT_REACHED},
		{MHP, MHP, 0, FI_PMEMVERBS_STEP_OK, FI_PMEMVERBS_STEP_LOST},
		{MHP, DMP, 1, FI_PMEMVERBS_STEP_OK, FI_PMEMVERBS_STEP_LOST},
		{MHP, DMP, 2, FI_PMEMVERBS_STEP_OK, FI_PMEMVERBS_STEP_LOST},
		{MHP, MHP, 3, FI_PMEMVERBS_STEP_OK, FI_PMEMVERBS_STEP_LOST},
		{DMP, DMP, 3, FI_PMEMVERBS_STEP_OK, FI_PMEMVERBS_STEP_LOST},
		{DMP, DMP, 4, FI_PMEMVERBS_STEP_OK, FI_PMEMVERBS_STEP_OK},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = pair_open(NULL);
		struct loss loss = {region_of(pair, rows[i].lost), rows[i].events};
		struct swing swing;

		set_swing(&swing, pair, DMP);
		swing.steps[1] = chain_at(pair, swing.steps[1], rows[i].pointer, POINTER);
		pair->on_event = lose;
		pair->on_event_arg = &loss;
		chain_fail(pair, swing.steps, 2, FI_EIO);
		cr_expect_eq(swing.steps[0].status, rows[i].first, "row %zu", i);
		cr_expect_eq(swing.steps[1].status, rows[i].second, "row %zu", i);
		if (rows[i].events < 3)
			cr_expect_eq(chain_word(pair, rows[i].pointer, POINTER), 0, "row %zu", i);
		pair->on_event = NULL;
		pair_close(pair);
	}
}

/* Also a chain that commits nothing. */
Test(chain, touches_no_lost_memory)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step read = chain_at(pair, STEP(READ, .len = 1), DMP, 0);
	struct fi_pmemverbs_step write =
		chain_at(pair, STEP(WRITE, .operand = "x", .len = 1), DMP, 0);
	struct loss loss = {region_of(pair, DMP), 0};

	/* It is lost when the step writes to it. */
	pair->on_event = lose;
	pair->on_event_arg = &loss;
	chain_fail(pair, &write, 1, FI_EIO);
	expect_status(write, LOST);
	pair->on_event = NULL;
	pair->memory[DMP][0] = 0;
	pair_done(pair);
	chain_fail(pair, &write, 1, FI_EIO);
	expect_status(write, LOST);
	chain_fail(pair, &read, 1, FI_EIO);
	expect_status(read, LOST);
	expect_done(pair, "K K");
	cr_expect_eq(pair->memory[DMP][0], 0);
	pair_close(pair);
}

/* What earlier chains have stored */

static struct fi_pmemverbs_step write_of(struct pair *pair, enum pair_memory memory, size_t offset)
{
	return chain_at(pair, STEP(WRITE, .operand = pair->source + offset, .len = 8), memory,
			offset);
}

/* A chain has written a buffer, the next one swings the pointer; it may be under way by then. */
Test(chain, commits_what_earlier_chains_have_stored)
{
	static const enum pair_memory memories[] = {DMP, PAGE, READ_DMP, MHP};

	for (int i = 0; i < 8; i++) {
		struct pair *pair = pair_open(NULL);
		bool together = i & 1;
		struct swing swing;

		set_swing(&swing, pair, memories[i / 2]);
		pair->on_event = check;
		pair->on_event_arg = &swing;
		accepted(chain_post(pair, swing.steps, 1, CONTEXT(1)));
		if (!together)
			pair_round(pair);
		accepted(chain_post(pair, swing.steps + 1, 1, CONTEXT(2)));
		pair_round(pair);
		pair_serve(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
		cr_expect_eq(chain_word(pair, swing.memory, POINTER), swing.to);
		cr_expect(pair_survives(pair, swing.memory, BUFFER, 64));
		/* Once is enough. */
		pair_done(pair);
		swing.steps[1] = chain_at(pair, STEP(READ, .flags = COMMIT), swing.memory, 0);
		chain_run(pair, swing.steps + 1, 1);
		expect_done(pair, "K");
		pair->on_event = NULL;
		pair_close(pair);
	}
}

/* Parts that are side by side are one; if there are many, those of a region are. */
Test(chain, commits_any_number_of_parts)
{
	static const enum pair_memory memories[] = {DMP, READ_DMP, PAGE};
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step;

	for (size_t apart = 8; apart <= 128; apart += 120) {
		for (int i = 0; i < 100; i++) {
			step = write_of(pair, memories[i / 34], 4096 + (size_t) (99 - i) * apart);
			chain_run(pair, &step, 1);
		}
		step = chain_at(pair, STEP(READ, .flags = COMMIT), DMP, 0);
		pair_done(pair);
		chain_run(pair, &step, 1);
		for (int i = 0; i < 100; i++)
			cr_expect(pair_survives(pair, memories[i / 34],
						4096 + (size_t) (99 - i) * apart, 8),
				  "%d", i);
		/* Each is flushed or synced; then drains, the reply and the acknowledgement. */
		cr_expect_leq(strlen(pair_done(pair)) / 2, (apart == 8 ? 3 : 16 + 2) + 4);
	}
	pair_close(pair);
}

/* One word that is written again and again takes the room of one part. */
Test(chain, commits_no_more_than_was_stored)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step = write_of(pair, DMP, 0);

	for (int i = 0; i < 20; i++)
		chain_run(pair, &step, 1);
	step = write_of(pair, DMP, 60000);
	chain_run(pair, &step, 1);
	step = chain_at(pair, STEP(READ, .flags = COMMIT), DMP, 0);
	chain_run(pair, &step, 1);
	cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 0, 8));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 1), DMP, 60000, 8));
	pair_close(pair);
}

static bool has_no_memory;

void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);

void *__wrap_realloc(void *at, size_t size)
{
	return has_no_memory ? NULL : __real_realloc(at, size);
}

/* The commit that has no room for their names fails, and the next one is for them, too. */
Test(chain, commits_later_what_it_had_no_memory_for)
{
	static const enum pair_memory memories[] = {DMP, MHP, READ_DMP, PAGE, PAGE_TOO};
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step;

	for (size_t i = 0; i < 20; i++) {
		step = write_of(pair, memories[i < 16 ? 0 : i - 15], 4096 + i * 128);
		chain_run(pair, &step, 1);
	}
	step = chain_at(pair, STEP(READ, .flags = COMMIT), DMP, 0);
	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	has_no_memory = true;
	pair_round(pair);
	has_no_memory = false;
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ENOMEM);
	chain_run(pair, &step, 1);
	for (size_t i = 0; i < 20; i++)
		cr_expect(pair_survives(pair, memories[i < 16 ? 0 : i - 15], 4096 + i * 128, 8),
			  "%zu", i);
	pair_close(pair);
}

Test(chain, does_not_commit_what_is_gone_or_lost)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step commit = chain_at(pair, STEP(READ, .flags = COMMIT), DMP, 0);
	struct fi_pmemverbs_step step = write_of(pair, READ_DMP, 0);

	chain_run(pair, &step, 1);
	atomic_store(&region_of(pair, READ_DMP)->lost, PMV_LOST_FAULT);
	chain_fail(pair, &commit, 1, FI_EIO);
	expect_status(commit, NOT_REACHED);
	chain_run(pair, &commit, 1);
	step = write_of(pair, MHP, 0);
	chain_run(pair, &step, 1);
	pair_unregister(pair, MHP);
	chain_fail(pair, &commit, 1, FI_EACCES);
	expect_status(commit, NOT_REACHED);
	chain_run(pair, &commit, 1);
	pair_close(pair);
}

/* The data of a later commit follow what the chain has stored, and not committed yet. */
Test(chain, is_durable_before_fenced_data_behind_it)
{
	struct pair *pair = pair_open(&(struct pair_options){.stores = true});
	struct swing swing;

	set_swing(&swing, pair, DMP);
	accepted(chain_post(pair, swing.steps, 2, CONTEXT(1)));
	accepted(pair_put(pair, DMP, 4096, 8, CONTEXT(2), FI_COMMIT | FI_FENCE));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	expect_done(pair, "S F D S F D S F D K K");
	pair_close(pair);
}

/* It would make a pointer durable to what is not. */
Test(chain, is_refused_behind_a_failure_that_is_not_read)
{
	struct pair *pair = pair_open(NULL);
	uint64_t zero = 0, one = 1;
	struct fi_pmemverbs_step steps[] = {
		chain_at(pair,
			 STEP(CAS, .expected = &zero, .operand = &one, .len = 8, .flags = COMMIT),
			 DMP, POINTER),
	};

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	pair_posted(pair);
	pmv_queue_progress(pair->from->initiator.owner.tx_queue, false);
	cr_expect_eq(chain_post(pair, steps, 1, CONTEXT(2)), -FI_ECANCELED);
	expect_sent(pair, "");
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	accepted(chain_post(pair, steps, 1, CONTEXT(2)));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}
