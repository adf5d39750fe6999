/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_store.c -- single cases of the store and its rings */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "log_world.h"

#define SECRET 77

static const uint8_t me[RPC_ID] = "the test's id";

struct fixture {
	struct cut cut;
	struct rpc_store store;
};

static void open_fixture(struct fixture *fixture, size_t ring)
{
	const struct rpc_sizes sizes = {.clients = 2,
					.ring = ring,
					.window = 1,
					.reply_max = 8,
					.effects_max = 32,
					.memory = 64};

	cut_init(&fixture->cut, NULL);
	cr_assert_eq(rpc_store_format(&fixture->cut.memory, &sizes, SECRET), 0);
	cr_assert_eq(rpc_store_open(&fixture->store, &fixture->cut.memory, &any), 0);
	cr_assert_eq(rpc_store_claim(&fixture->store, me, true, NULL), 0);
	cr_assert_eq(rpc_store_greet(&fixture->store, 0, 1, 1, 0, false), 0);
}

/* late -- is an entry valid that arrives when its client has connected again? */
static bool late(void)
{
	static struct fixture fixture;
	unsigned char body[1024];
	struct rpc_ring ring;
	size_t len;

	open_fixture(&fixture, 256);
	ring = rpc_store_ring(&fixture.store, 0);
	cr_assert_eq(rpc_store_greet(&fixture.store, 0, 1, 2, 0, false), 0);
	rpc_ring_write(&ring, (struct rpc_place){1, 0}, 5, 0, "argument", 8);
	ring = rpc_store_ring(&fixture.store, 0);
	len = rpc_ring_read(&ring, (struct rpc_place){1, 0}, body);
	rpc_store_close(&fixture.store);
	return len;
}

Test(rpc_log, an_entry_of_an_earlier_connection_is_not_valid)
{
	mutant = NONE;
	cr_assert_not(late());
	mutant = NO_KEY;
	cr_assert(late());
}

Test(rpc_log, nothing_random_is_valid)
{
	static struct fixture fixture;
	unsigned char body[256];
	unsigned int seed = 1;
	struct rpc_ring ring;

	open_fixture(&fixture, 256);
	ring = rpc_store_ring(&fixture.store, 0);
	for (int n = 0; n < 200000; n++) {
		uint64_t sequence = (uint64_t) rand_r(&seed), word;

		for (size_t i = 0; i < ring.size; i += 4)
			*(int *) (ring.base + i) = rand_r(&seed);
		/* Mostly a length that is possible. */
		word = *(uint64_t *) ring.base;
		if (n % 8)
			*(uint64_t *) ring.base = word << 24 | (word >> 40) % 300;
		cr_assert_not(rpc_ring_read(&ring, (struct rpc_place){sequence, 0}, body));
	}
	rpc_store_close(&fixture.store);
}

Test(rpc_log, a_client_that_changes_its_entry_meanwhile_changes_nothing)
{
	static struct fixture fixture;
	unsigned char body[256];
	struct rpc_ring ring;

	open_fixture(&fixture, 256);
	ring = rpc_store_ring(&fixture.store, 0);
	rpc_ring_write(&ring, (struct rpc_place){1, 64}, 5, 0, "argument", 8);
	cr_assert_eq(rpc_ring_read(&ring, (struct rpc_place){1, 64}, body), 16);
	memset(ring.base, 0xff, ring.size);
	cr_assert_arr_eq(body + RPC_BODY_HEAD, "argument", 8);
	rpc_store_close(&fixture.store);
}

static void check_format(const unsigned char *contents, void *arg)
{
	static struct cut after;
	struct rpc_store store;

	(void) arg;
	cut_init(&after, contents);
	if (rpc_store_is_new(&after.memory))
		return;
	cr_assert_eq(rpc_store_open(&store, &after.memory, &any), 0);
	cr_assert_eq(store.sizes.clients, 2);
	cr_assert_not(rpc_store_slot(&store, 0)->used);
	rpc_store_close(&store);
}

/* adopt -- who makes it is killed; who finds it relies on it, so it has to be durable then */
static void adopt(const struct cut *cut)
{
	static struct cut after;
	struct rpc_store store;

	if (rpc_store_is_new(&cut->memory))
		return;
	cut_init(&after, NULL);
	memcpy(after.seen, cut->seen, CUT_LEN);
	memcpy(after.durable, cut->durable, CUT_LEN);
	cr_assert_eq(rpc_store_open(&store, &after.memory, &any), 0);
	cr_assert_arr_eq(after.durable, after.seen, RPC_PAGE, "it would be made anew");
	rpc_store_close(&store);
}

static void explore_format(struct cut *cut)
{
	adopt(cut);
	cut_explore(cut, 8, check_format, NULL);
}

Test(rpc_log, making_a_store_can_be_interrupted)
{
	static struct cut cut;
	const struct rpc_sizes sizes = {.clients = 2, .ring = 64, .window = 1};

	cut_init(&cut, NULL);
	/* What was there before: only its first page says that it is nothing. */
	memset(cut.seen + RPC_PAGE, 0xa5, CUT_LEN - RPC_PAGE);
	memset(cut.durable + RPC_PAGE, 0xa5, CUT_LEN - RPC_PAGE);
	cut.step = explore_format;
	cr_assert(rpc_store_is_new(&cut.memory));
	cr_assert_eq(rpc_store_format(&cut.memory, &sizes, SECRET), 0);
	cr_assert_not(rpc_store_is_new(&cut.memory));
}

/* As ext4 has its superblock, and a disk its table of partitions. */
Test(rpc_log, what_begins_with_zeros_need_not_be_new)
{
	static struct cut cut;
	struct rpc_store store;

	cut_init(&cut, NULL);
	cr_assert(rpc_store_is_new(&cut.memory));
	cut.seen[1024 + 56] = 0x53;
	cr_assert_not(rpc_store_is_new(&cut.memory));
	cr_assert_eq(rpc_store_open(&store, &cut.memory, &any), -EUCLEAN);
	cut.seen[1024 + 56] = 0;
	cut.seen[RPC_PAGE - 1] = 1;
	cr_assert_not(rpc_store_is_new(&cut.memory));
	cut.seen[RPC_PAGE - 1] = 0;
	cr_assert(rpc_store_is_new(&cut.memory));
}

Test(rpc_log, a_store_says_what_is_wrong_with_it)
{
	static struct fixture fixture;
	struct rpc_store store;
	const struct rpc_sizes other = {.ring = 512}, same = {.ring = 256, .clients = 2};
	const struct rpc_sizes bad[] = {{.clients = 1, .ring = 100, .window = 1},
					{.clients = 1, .ring = 64},
					{.ring = 64, .window = 1},
					{.clients = 1, .ring = 16 << 20, .window = 1}};

	open_fixture(&fixture, 256);
	cr_assert_eq(rpc_store_open(&store, &fixture.cut.memory, &same), 0);
	rpc_store_close(&store);
	cr_assert_eq(rpc_store_open(&store, &fixture.cut.memory, &other), -EINVAL);
	fixture.cut.memory.len -= 8192;
	cr_assert_eq(rpc_store_open(&store, &fixture.cut.memory, &any), -EUCLEAN);
	fixture.cut.memory.len += 8192;
	fixture.cut.seen[24] ^= 1;
	cr_assert_eq(rpc_store_open(&store, &fixture.cut.memory, &any), -EUCLEAN);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(rpc_store_len(&bad[i]), 0);
	rpc_store_close(&fixture.store);
}

Test(rpc_log, a_call_changes_only_the_applications_memory)
{
	static struct fixture fixture;
	struct rpc_store *store = &fixture.store;
	unsigned char *app, data[64] = {0};

	open_fixture(&fixture, 256);
	app = fixture.cut.seen + store->app;
	cr_assert_eq(rpc_store_change(store, &store->own, app - 1, data, 1), -EINVAL);
	cr_assert_eq(rpc_store_change(store, &store->own, app + 64, data, 1), -EINVAL);
	cr_assert_eq(rpc_store_change(store, &store->own, app + 60, data, 5), -EINVAL);
	cr_assert_eq(rpc_store_change(store, &store->own, app, data, SIZE_MAX), -EINVAL);
	cr_assert_eq(rpc_store_change(store, &store->own, app + 60, data, 4), 0);
	/* 16 bytes more for each: the next one is too much, and so is a small one after it. */
	cr_assert_eq(rpc_store_change(store, &store->own, app, data, 8), -ENOSPC);
	cr_assert_eq(rpc_store_change(store, &store->own, app, data, 0), -ENOSPC);
	rpc_transaction_drop(&store->own);
	cr_assert_eq(rpc_store_change(store, &store->own, app, data, 16), 0);
	rpc_store_close(store);
}

Test(rpc_log, a_slot_goes_from_one_client_to_the_next)
{
	static struct fixture fixture;
	struct rpc_store *store = &fixture.store;
	const uint8_t other[RPC_ID] = "another", third[RPC_ID] = "a third one";
	static const unsigned char zeros[256];

	open_fixture(&fixture, 256);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "reply", 5), 0);
	cr_assert_not_null(rpc_store_reply(store, 0, 1));
	cr_assert_eq(rpc_store_claim(store, other, true, NULL), 1);
	cr_assert(rpc_store_is_of(store, 1, other));
	cr_assert_not(rpc_store_is_of(store, 1, third));
	cr_assert_eq(rpc_store_claim(store, third, true, NULL), -ENOSPC);
	cr_assert_eq(rpc_store_forget(store, 0), 0);
	cr_assert_eq(rpc_store_claim(store, other, true, NULL), 1);
	cut_write(&fixture.cut.memory, rpc_store_ring(store, 0).base, "my argument", 11);
	cr_assert_not(rpc_store_is_of(store, 0, me));
	cr_assert_eq(rpc_store_claim(store, third, true, NULL), 0);
	cr_assert_arr_eq(rpc_store_ring(store, 0).base, zeros, 256, "somebody else's arguments");
	cr_assert_eq(rpc_store_slot(store, 0)->executed, 0);
	cr_assert_null(rpc_store_reply(store, 0, 1), "a reply to somebody else");
	rpc_store_close(store);
}

static int broken(struct rpc_memory *memory, const void *place, size_t len)
{
	(void) memory;
	(void) place;
	(void) len;
	return -EIO;
}

Test(rpc_log, after_a_failure_of_the_medium_nothing_is_executed)
{
	static struct fixture fixture;

	open_fixture(&fixture, 256);
	fixture.cut.memory.persist = broken;
	cr_assert_eq(rpc_store_executed(&fixture.store, &fixture.store.own, 0, 16, 0, "", 0), -EIO);
	fixture.cut.memory.persist = cut_persist;
	cr_assert_eq(rpc_store_executed(&fixture.store, &fixture.store.own, 0, 16, 0, "", 0), -EIO);
	cr_assert_eq(rpc_store_slot(&fixture.store, 0)->executed, 0);
	rpc_store_close(&fixture.store);
}

/* restart -- after a power failure that has kept nothing that was not durable */
static void restart(struct fixture *fixture, struct fixture *after)
{
	cut_init(&after->cut, fixture->cut.durable);
	rpc_store_close(&fixture->store);
	cr_assert_eq(rpc_store_open(&after->store, &after->cut.memory, &any), 0);
}

/* Memory that calls have stored to may be used again for what is written there directly. */
Test(rpc_log, no_earlier_call_comes_back_over_what_was_made_durable_directly)
{
	static struct fixture fixture, after;
	struct rpc_store *store = &fixture.store;
	unsigned char *place;

	open_fixture(&fixture, 256);
	place = fixture.cut.seen + store->app;
	cr_assert_eq(rpc_store_change(store, &store->own, place + 8, "old", 3), 0);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "", 0), 0);
	cr_assert_arr_eq(place + 8, "old", 3);
	cut_write(&fixture.cut.memory, place, "0123456789abcdef", 16);
	cr_assert_eq(rpc_store_persist(store, place, 16), 0);
	cr_assert_eq(rpc_store_change(store, &store->own, place + 16, "refers", 6), 0);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "", 0), 0);
	restart(&fixture, &after);
	place = after.cut.seen + after.store.app;
	cr_assert_arr_eq(place, "0123456789abcdefrefers", 22);
	cr_assert_eq(rpc_store_slot(&after.store, 0)->executed, 2);
	rpc_store_close(&after.store);
}

static unsigned int persists;

static int count_persist(struct rpc_memory *memory, const void *place, size_t len)
{
	persists++;
	return cut_persist(memory, place, len);
}

/* execute_one -- a call with an effect and a reply; returns how often memory was made durable */
static unsigned int execute_one(struct rpc_store *store)
{
	unsigned char *place = store->memory->base + store->app;

	persists = 0;
	cr_assert_eq(rpc_store_change(store, &store->own, place, "effect", 6), 0);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "reply", 5), 0);
	return persists;
}

/* README.md has these numbers. */
Test(rpc_log, a_call_that_changes_something_is_flushed_once)
{
	static struct fixture fixture;
	struct rpc_store *store = &fixture.store;
	unsigned int calls = 0, flushes;

	open_fixture(&fixture, 256);
	fixture.cut.memory.persist = count_persist;
	while ((flushes = execute_one(store)) == 1)
		calls++;
	cr_assert_geq(calls, 8, "places are flushed behind many calls");
	/*
	 * What they have changed: the memory; the slot's state and the one reply behind it.  Then
	 * the journal's first word, and the record.
	 */
	cr_assert_eq(flushes, 4);
	cr_assert_eq(execute_one(store), 1);
	rpc_store_close(store);
}

/* A place inside one that another call has changed: both are made durable, also where they end. */
Test(rpc_log, places_that_overlap_are_kept_whole)
{
	static struct fixture fixture, after;
	struct rpc_store *store = &fixture.store;
	unsigned char *place;

	open_fixture(&fixture, 256);
	place = fixture.cut.seen + store->app;
	cr_assert_eq(rpc_store_change(store, &store->own, place, "0123456789abcdef", 16), 0);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "", 0), 0);
	cr_assert_eq(rpc_store_change(store, &store->own, place + 1, "X", 1), 0);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "", 0), 0);
	/* The journal is settled. */
	cr_assert_eq(rpc_store_persist(store, place + 1, 1), 0);
	restart(&fixture, &after);
	cr_assert_arr_eq(after.cut.seen + after.store.app, "0X23456789abcdef", 16);
	rpc_store_close(&after.store);
}

Test(rpc_log, after_a_failure_nothing_is_made_durable_directly)
{
	static struct fixture fixture, after;
	struct rpc_store *store = &fixture.store;
	unsigned char *place;

	open_fixture(&fixture, 256);
	place = fixture.cut.seen + store->app;
	cr_assert_eq(rpc_store_change(store, &store->own, place, "first", 5), 0);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "", 0), 0);
	fixture.cut.memory.persist = broken;
	cr_assert_eq(rpc_store_change(store, &store->own, place + 8, "second", 6), 0);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "", 0), -EIO);
	fixture.cut.memory.persist = cut_persist;
	/* A handler in another thread. */
	cr_assert_eq(rpc_store_persist(store, place, 5), -EIO);
	restart(&fixture, &after);
	cr_assert_eq(rpc_store_slot(&after.store, 0)->executed, 1, "half of a call counts");
	rpc_store_close(&after.store);
}

/* A page cache: what a failed sync has left clean is not written by the next one. */
static bool clean[CUT_LEN / 4096];

static void write_cached(struct rpc_memory *memory, void *place, const void *data, size_t len)
{
	size_t offset = (size_t) ((unsigned char *) place - memory->base);

	for (size_t page = offset / 4096; len && page <= (offset + len - 1) / 4096; page++)
		clean[page] = false;
	cut_write(memory, place, data, len);
}

/* sync_cached -- the pages; 0, or they are lost */
static int sync_cached(struct rpc_memory *memory, const void *place, size_t len, bool lose)
{
	size_t offset = (size_t) ((const unsigned char *) place - memory->base);

	for (size_t page = offset / 4096; len && page <= (offset + len - 1) / 4096; page++) {
		if (lose)
			clean[page] = true;
		else if (!clean[page])
			cut_persist(memory, memory->base + page * 4096, 4096);
	}
	return lose ? -EIO : 0;
}

static int lose_cached(struct rpc_memory *memory, const void *place, size_t len)
{
	return sync_cached(memory, place, len, true);
}

static int persist_cached(struct rpc_memory *memory, const void *place, size_t len)
{
	return sync_cached(memory, place, len, false);
}

/* start_again -- the process, in the same page cache */
static void start_again(const struct fixture *fixture, struct fixture *after)
{
	cut_init(&after->cut, fixture->cut.durable);
	memcpy(after->cut.seen, fixture->cut.seen, CUT_LEN);
	after->cut.memory.write = write_cached;
	after->cut.memory.persist = persist_cached;
}

/* expect_whole -- the call was executed and all of its effect is there, or nothing of it */
static void expect_whole(const unsigned char *contents, void *arg)
{
	static struct fixture left;
	const unsigned char *place;
	bool executed;

	(void) arg;
	cut_init(&left.cut, contents);
	cr_assert_eq(rpc_store_open(&left.store, &left.cut.memory, &any), 0);
	place = left.cut.seen + left.store.app;
	executed = rpc_store_slot(&left.store, 0)->executed;
	cr_assert_eq(!memcmp(place, "one half", 8), executed);
	cr_assert_eq(!memcmp(place + 8, " another", 8), executed);
	rpc_store_close(&left.store);
}

static void lose_power(struct cut *cut)
{
	cut_explore(cut, 4, expect_whole, NULL);
}

Test(rpc_log, a_record_whose_sync_has_failed_is_durable_before_it_is_carried_out)
{
	static struct fixture fixture, after;
	struct rpc_store *store = &fixture.store;
	unsigned char *place;

	open_fixture(&fixture, 256);
	place = fixture.cut.seen + store->app;
	fixture.cut.memory.write = write_cached;
	fixture.cut.memory.persist = lose_cached;
	cr_assert_eq(rpc_store_change(store, &store->own, place, "one half another", 16), 0);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "", 0), -EIO);
	start_again(&fixture, &after);
	rpc_store_close(store);
	after.cut.step = lose_power;
	cr_assert_eq(rpc_store_open(&after.store, &after.cut.memory, &any), 0);
	cr_assert_eq(rpc_store_slot(&after.store, 0)->executed, 1);
	rpc_store_close(&after.store);
	expect_whole(after.cut.durable, NULL);
}

Test(rpc_log, a_first_page_whose_sync_has_failed_is_durable_before_the_store_is_used)
{
	static struct fixture fixture, after;

	open_fixture(&fixture, 256);
	start_again(&fixture, &after);
	rpc_store_close(&fixture.store);
	memset(after.cut.durable, 0, RPC_PAGE);
	clean[0] = true;
	cr_assert_eq(rpc_store_open(&after.store, &after.cut.memory, &any), 0);
	cr_assert_arr_eq(after.cut.durable, after.cut.seen, RPC_PAGE);
	rpc_store_close(&after.store);
}
