/* SPDX-License-Identifier: BSD-2-Clause */
/* test_chain_ops_large.c -- results that the target writes into the application's memory */
#include "chain.h"

#include <string.h>
#include <sys/resource.h>

#include "agent/chain_message.h"
#include "agent/large_results.h"

#define ROOM FI_PMEMVERBS_CHAIN_LARGE

/* What the application has registered for them; behind it and in front of it is something else. */
struct place {
	struct pair *pair;
	char *memory; /* ROOM bytes */
	char around[ROOM + 2 * 64];
	struct fid_mr *mr;
};

static struct place place;

static void expose(struct pair *pair, uint64_t access)
{
	place.pair = pair;
	place.memory = place.around + 64;
	memset(place.around, '.', sizeof(place.around));
	accepted(fi_mr_reg(pair->home->domain, place.memory, ROOM, access, 0, 0, 0, &place.mr,
			   NULL));
	/* Nothing of the target's memory is a dot. */
	for (size_t i = 0; i < PAIR_SIZE; i++)
		pair->memory[DMP][i] = (char) (i % 7 + '0');
}

static void conceal(void)
{
	for (size_t i = 0; i < 64; i++)
		cr_expect(place.around[i] == '.' && place.around[64 + ROOM + i] == '.');
	accepted(fi_close(&place.mr->fid));
	pair_close(place.pair);
}

static struct pair *open_place(const struct pair_options *options)
{
	struct pair *pair = pair_open(options);

	expose(pair, FI_REMOTE_WRITE);
	return pair;
}

/* large -- a READ of so many bytes of the target's, to an offset of the place */
static struct fi_pmemverbs_step large(size_t offset, size_t len, size_t to)
{
	return chain_at(place.pair,
			STEP(READ, .len = len, .result = place.memory + to, .result_mr = place.mr),
			DMP, offset);
}

/* has -- so many bytes of the target's are there, and no more */
static bool has(size_t to, size_t len, size_t offset)
{
	return !memcmp(place.memory + to, place.pair->memory[DMP] + offset, len) &&
	       (to + len == ROOM || place.memory[to + len] == '.');
}

/* serve_alone -- the agent works, and nothing of what it posts has arrived */
static void serve_alone(void)
{
	pair_deliver(place.pair);
	pmv_agent_progress(pair_agent(place.pair));
}

Test(chain_large, results_arrive_whole)
{
	static const size_t lens[] = {1, 960, 961, 4096, 65535, 65536};

	for (int offsets = 0; offsets < 2; offsets++) {
		open_place(&(struct pair_options){.offsets = offsets});
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			size_t to = (ROOM - lens[i]) / 2;
			struct fi_pmemverbs_step step = large(PAIR_SIZE - lens[i], lens[i], to);

			memset(place.memory, '.', ROOM);
			chain_run(place.pair, &step, 1);
			expect_status(step, OK);
			cr_expect_eq(step.done, lens[i]);
			cr_expect(has(to, lens[i], PAIR_SIZE - lens[i]), "%zu bytes", lens[i]);
			cr_expect(!to || place.memory[to - 1] == '.');
		}
		conceal();
	}
}

Test(chain_large, results_are_as_long_as_the_bound_says)
{
	static const size_t bounds[] = {0, 1, 999, 1000, 1001, SIZE_MAX};

	open_place(NULL);
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		struct fi_pmemverbs_step step = large(POINTER, 1000, 8);
		size_t len = bounds[i] < 1000 ? bounds[i] : 1000;

		step.flags = FI_PMEMVERBS_STEP_INDIRECT | FI_PMEMVERBS_STEP_BOUNDED;
		memset(place.memory, '.', ROOM);
		chain_point(place.pair, DMP, bounds[i]);
		chain_run(place.pair, &step, 1);
		expect_status(step, OK);
		cr_expect_eq(step.done, len);
		cr_expect(has(8, len, BUFFER), "bound %zu", bounds[i]);
	}
	conceal();
}

/* expect_write -- the next one that the agent has posted; NULL: to the peer's block */
static void expect_write(const struct fake_post **post, struct fid_mr *mr, size_t len)
{
	uint64_t key = mr ? pmv_key_core(fi_mr_key(mr)) : place.pair->ack_key;

	cr_assert_eq((*post)->op.what, FI_RMA | FI_WRITE);
	cr_expect_eq((*post)->op.key, key);
	cr_expect_eq((*post)->op.len, len);
	++*post;
}

/* The acknowledgement says that all is there.  Those of one connection arrive in order. */
Test(chain_large, results_come_before_the_acknowledgement)
{
	char small[8];
	struct pair *pair = open_place(NULL);
	struct fi_pmemverbs_step steps[] = {
		large(0, 5000, 0),
		chain_at(pair, STEP(READ, .result = small, .len = 8), DMP, 3),
		large(77, 2000, 5000),
		large(4242, 3, 7000),
	};
	size_t before = pair->away->fake.num_posts;
	const struct fake_post *post;

	accepted(chain_post(pair, steps, 4, CONTEXT(1)));
	serve_alone();
	cr_assert_eq(pair->away->fake.num_posts, before + 4);
	post = &pair->away->fake.posts[before];
	expect_write(&post, place.mr, 5000);
	expect_write(&post, place.mr, 2000);
	expect_write(&post, place.mr, 3);
	expect_write(&post, NULL, PMV_ACK_SIZE + 4 * 4 + 8);
	rig_expect_nothing(pair->home);
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	cr_expect_eq(memcmp(small, pair->memory[DMP] + 3, 8), 0);
	cr_expect_eq(memcmp(place.memory, pair->memory[DMP], 5000), 0);
	cr_expect_eq(memcmp(place.memory + 5000, pair->memory[DMP] + 77, 2000), 0);
	cr_expect(has(7000, 3, 4242));
	conceal();
}

/* A long reply stands between them. */
Test(chain_large, results_come_before_a_long_reply)
{
	char small[500];
	struct pair *pair = open_place(NULL);
	struct fi_pmemverbs_step steps[] = {
		large(0, 5000, 0),
		chain_at(pair, STEP(READ, .result = small, .len = 500), DMP, 3),
	};
	size_t before = pair->away->fake.num_posts;
	const struct fake_post *post;

	chain_run(pair, steps, 2);
	cr_assert_eq(pair->away->fake.num_posts, before + 3);
	post = &pair->away->fake.posts[before];
	expect_write(&post, place.mr, 5000);
	expect_write(&post, NULL, 16 + 2 * 4 + 504);
	expect_write(&post, NULL, PMV_ACK_SIZE);
	cr_expect(has(0, 5000, 0));
	cr_expect_eq(memcmp(small, pair->memory[DMP] + 3, 500), 0);
	conceal();
}

/* Another chain stores there while it is on its way. */
Test(chain_large, results_are_what_was_there_when_they_were_read)
{
	struct pair *pair = open_place(NULL);
	char before[3000];
	struct fi_pmemverbs_step read = large(0, sizeof(before), 0);
	struct fi_pmemverbs_step write =
		chain_at(pair, STEP(WRITE, .operand = "changed", .len = 7), DMP, 1000);

	memcpy(before, pair->memory[DMP], sizeof(before));
	accepted(chain_post(pair, &read, 1, CONTEXT(1)));
	serve_alone();
	accepted(chain_post(pair, &write, 1, CONTEXT(2)));
	serve_alone();
	cr_assert_eq(memcmp(pair->memory[DMP] + 1000, "changed", 7), 0);
	pair_serve(pair);
	rig_expect_each(pair->home, 1, 2, RIG_WRITTEN);
	cr_expect_eq(memcmp(place.memory, before, sizeof(before)), 0);
	conceal();
}

/* Each chain under way has room of its own. */
Test(chain_large, results_of_several_chains_are_on_their_way)
{
	struct pair *pair = open_place(NULL);
	struct fi_pmemverbs_step steps[PMV_REPLIES];

	for (int i = 0; i < PMV_REPLIES; i++) {
		steps[i] = large(100 * (size_t) i, 8000, 8001 * (size_t) i);
		accepted(chain_post(pair, &steps[i], 1, CONTEXT(1 + i)));
	}
	serve_alone();
	memset(pair->memory[DMP], 'x', 100 * PMV_REPLIES + 8000);
	pair_serve(pair);
	pair_serve(pair);
	rig_expect_each(pair->home, 1, PMV_REPLIES, RIG_WRITTEN);
	for (size_t i = 0; i < PMV_REPLIES; i++)
		cr_expect_eq(place.memory[8001 * i], (char) (100 * i % 7 + '0'), "%zu", i);
	conceal();
}

Test(chain_large, results_are_those_of_steps_that_were_executed)
{
	struct pair *pair = open_place(NULL);
	uint64_t one = 1;
	struct fi_pmemverbs_step steps[] = {
		large(0, 2000, 0),
		chain_at(pair, STEP(CAS, .expected = &one, .operand = &one, .len = 8), DMP, 0),
		large(0, 2000, 3000),
		large(PAIR_SIZE - 1999, 2000, 6000),
		large(0, 2000, 9000),
	};

	steps[2].flags = FI_PMEMVERBS_STEP_CONDITIONAL;
	chain_fail(pair, steps, 5, FI_EACCES);
	expect_status(steps[0], OK);
	expect_status(steps[1], FAILED);
	expect_status(steps[2], SKIPPED);
	expect_status(steps[3], REFUSED);
	expect_status(steps[4], NOT_REACHED);
	cr_expect(has(0, 2000, 0));
	for (size_t i = 2000; i < ROOM; i++)
		cr_assert_eq(place.memory[i], '.');
	/* A pointer of 0, and nothing to read. */
	steps[0] = large(POINTER, 2000, 3000);
	steps[0].flags = FI_PMEMVERBS_STEP_INDIRECT;
	steps[1] = large(0, 0, 3000);
	chain_set(pair, DMP, POINTER, 0);
	chain_run(pair, steps, 2);
	expect_status(steps[0], NULL);
	expect_status(steps[1], OK);
	cr_expect(has(0, 2000, 0) || place.memory[3000] == '.');
	conceal();
}

/* No part of it is posted twice, and none is left out. */
Test(chain_large, results_wait_for_room)
{
	struct pair *pair = open_place(NULL);

	for (int room = 0; room < 3; room++) {
		struct fi_pmemverbs_step steps[] = {large(0, 2000, 0), large(500, 2000, 2000)};
		size_t before = pair->away->fake.num_posts;

		memset(place.memory, '.', ROOM);
		accepted(chain_post(pair, steps, 2, CONTEXT(1)));
		pair->away->fake.room = room;
		pair_round(pair);
		rig_expect_nothing(pair->home);
		pair->away->fake.room = -1;
		pair_serve(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		cr_expect_eq(pair->away->fake.num_posts, before + 3);
		cr_expect(!memcmp(place.memory, pair->memory[DMP], 2000) && has(2000, 2000, 500));
	}
	conceal();
}

/* All chains together have more of them than a connection may have on their way. */
Test(chain_large, results_wait_for_others_to_be_sent)
{
	enum { MANY = 12 };
	struct fi_pmemverbs_step steps[PMV_REPLIES][MANY];
	struct pair *pair = open_place(NULL);
	size_t before = pair->away->fake.num_posts;

	for (size_t i = 0; i < PMV_REPLIES; i++) {
		for (size_t j = 0; j < MANY; j++)
			steps[i][j] = large(i * MANY + j, 600, (i * MANY + j) * 601);
		accepted(chain_post(pair, steps[i], MANY, CONTEXT(1 + i)));
	}
	serve_alone();
	cr_assert_lt(pair->away->fake.num_posts, before + PMV_REPLIES * MANY);
	rig_expect_nothing(pair->home);
	for (int i = 0; i < 4; i++)
		pair_serve(pair);
	cr_expect_eq(pair->away->fake.num_posts, before + PMV_REPLIES * (MANY + 1));
	rig_expect_each(pair->home, 1, PMV_REPLIES, RIG_WRITTEN);
	for (size_t i = 0; i < PMV_REPLIES * MANY; i++)
		cr_expect(has(i * 601, 600, i), "%zu", i);
	conceal();
}

/* Where the core wants local memory registered. */
Test(chain_large, results_are_sent_from_registered_memory)
{
	struct pair *pair = open_place(&(struct pair_options){.away = {.mr_local = true}});
	int objects = pair->away->fake.open_objects;
	struct fi_pmemverbs_step step = large(0, 9000, 0);

	for (int i = 0; i < 3; i++) {
		memset(place.memory, '.', ROOM);
		chain_run(pair, &step, 1);
		cr_expect(has(0, 9000, 0));
		/* once for the slot, and not for each chain */
		cr_expect_eq(pair->away->fake.open_objects, objects + 1);
	}
	conceal();
}

static unsigned int explained;

/* Whoever explains that no more can be registered asks for the limit. */
int __wrap_getrlimit(int resource, struct rlimit *limit);

int __wrap_getrlimit(int resource, struct rlimit *limit)
{
	explained += resource == RLIMIT_MEMLOCK;
	*limit = (struct rlimit){65536, 65536};
	return 0;
}

static int refuse_to_open(const struct fake *fake)
{
	(void) fake;
	return -FI_ENOMEM;
}

Test(chain_large, results_need_memory_at_the_target)
{
	struct pair *pair = open_place(&(struct pair_options){.away = {.mr_local = true}});
	struct fi_pmemverbs_step steps[] = {
		chain_at(pair, STEP(WRITE, .operand = "never", .len = 5), DMP, 0),
		large(0, 2000, 0),
	};

	pair->away->fake.on_open = refuse_to_open;
	chain_fail(pair, steps, 2, FI_ENOMEM);
	expect_status(steps[0], NOT_REACHED);
	expect_status(steps[1], NOT_REACHED);
	cr_expect_neq(pair->memory[DMP][0], 'n');
	/* A peer that tries again and again does not fill the log. */
	cr_expect_eq(explained, 0);
	pair->away->fake.on_open = NULL;
	chain_run(pair, steps, 2);
	cr_expect(has(0, 2000, 0));
	conceal();
}

/* Whoever may connect makes the target have memory for them. */
Test(chain_large, results_have_limited_memory_for_all_connections)
{
	struct pair *pair = open_place(NULL);
	atomic_uint *all = &pair_agent(pair)->regions.large_results;
	struct fi_pmemverbs_step first = large(0, 2000, 0), second = large(0, 2000, 3000),
				 third = large(0, 2000, 6000);

	/* Others have all but one, and nobody else's first. */
	atomic_store(all, PMV_LARGE_RESULTS_MOST - 1);
	accepted(chain_post(pair, &first, 1, CONTEXT(1)));
	accepted(chain_post(pair, &second, 1, CONTEXT(2)));
	accepted(chain_post(pair, &third, 1, CONTEXT(3)));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	rig_expect_error(pair->home, CONTEXT(3), RIG_WRITTEN, FI_ENOMEM);
	expect_status(third, NOT_REACHED);
	cr_expect(has(0, 2000, 0));
	/* What was refused takes none, and the slot that has it keeps it. */
	cr_expect_eq(atomic_load(all), PMV_LARGE_RESULTS_MOST);
	chain_run(pair, &first, 1);
	cr_expect_eq(atomic_load(all), PMV_LARGE_RESULTS_MOST);
	rig_close_ep(pair->away);
	cr_expect_eq(atomic_load(all), PMV_LARGE_RESULTS_MOST - 1);
	conceal();
}

/* The target's endpoint is closed, and with it the memory that they are sent from. */
Test(chain_large, results_on_their_way_end_with_the_endpoint)
{
	struct pair *pair = open_place(&(struct pair_options){.away = {.mr_local = true}});
	struct fi_pmemverbs_step step = large(0, 2000, 0);

	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	serve_alone();
	rig_close_ep(pair->away);
	fake_fail_all(&pair->home->fake, FI_EIO, 5);
	cr_expect_eq(place.memory[0], '.');
	conceal();
}

static void call_refused(struct fi_pmemverbs_step step, int err)
{
	refused(chain_post(place.pair, &step, 1, CONTEXT(1)), err);
	expect_sent(place.pair, "");
}

Test(chain_large, results_are_refused_that_can_not_be_written)
{
	struct pair *pair = open_place(NULL);
	struct fi_pmemverbs_step good = large(0, 2000, 0), bad, many[2];
	struct fid_mr *other, *pieces;
	struct iovec iov[2] = {{place.memory, ROOM / 2}, {place.memory + ROOM / 2, ROOM / 2}};

	accepted(fi_mr_reg(pair->home->domain, place.memory, ROOM, FI_WRITE | FI_REMOTE_READ, 0, 0,
			   0, &other, NULL));
	accepted(fi_mr_regv(pair->home->domain, iov, 2, FI_REMOTE_WRITE, 0, 0, 0, &pieces, NULL));
#define BAD(change, err) (bad = good, (void) (change), call_refused(bad, err))
	BAD(bad.result_mr = other, FI_EINVAL);
	BAD(bad.result_mr = pieces, FI_EINVAL);
	BAD(bad.result_mr = pair->mr[DMP], FI_EINVAL); /* of another domain */
	BAD(bad.result = NULL, FI_EINVAL);
	BAD(bad.result = place.memory - 1, FI_EINVAL);
	BAD(bad.result = place.memory + ROOM - 1999, FI_EINVAL);
	BAD(bad.result = place.memory + ROOM + 1, FI_EINVAL);
	BAD(bad.flags = FI_PMEMVERBS_STEP_REDIRECT, FI_EINVAL);
	BAD((bad.kind = FI_PMEMVERBS_STEP_WRITE, bad.operand = place.memory, bad.len = 8),
	    FI_EINVAL);
	BAD(bad.len = ROOM + 1, FI_EMSGSIZE);
	BAD(bad.len = SIZE_MAX, FI_EMSGSIZE);
	BAD((bad.len = 961, bad.result_mr = NULL), FI_EMSGSIZE);
#undef BAD
	many[0] = large(0, ROOM - 1, 0);
	many[1] = large(0, 2, 0);
	refused(chain_post(pair, many, 2, CONTEXT(1)), FI_EMSGSIZE);
	rig_expect_nothing(pair->home);
	good.result = place.memory + ROOM - 2000;
	chain_run(pair, &good, 1);
	accepted(fi_close(&other->fid));
	accepted(fi_close(&pieces->fid));
	conceal();
}

/* The peer says that it has written more than was asked for. */
Test(chain_large, results_of_another_length_make_no_sense)
{
	struct pair *pair = open_place(NULL);
	struct fi_pmemverbs_step step = large(0, 2000, 0);

	accepted(chain_post(pair, &step, 1, CONTEXT(1)));
	pair_round(pair);
	chain_lie(pair, (struct pmv_reply_step){.done = 2001}, 0);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	expect_status(step, UNKNOWN);
	conceal();
}
