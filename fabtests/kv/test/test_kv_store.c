/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_kv_store.c -- a target that loses power at each moment of its start
 *
 * What was not made durable may be there or not: each word of 8 bytes by chance.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kv/kv_store.h"

#define BUFFERS 16U
#define KEYS 10U
#define WORLDS 200U
#define FIRST_PAGE 4096U

/* Memory, and what of it is left when the power is lost at persist number `last`. */
struct world {
	char *memory, *medium;
	size_t len;
	unsigned int persists, last;
	bool clean; /* the first page: nobody has written there, so a sync leaves it alone */
};

static int persist(void *arg, const void *addr, size_t len)
{
	struct world *world = arg;
	size_t offset = (size_t) ((const char *) addr - world->memory);

	if (++world->persists > world->last)
		return -1;
	if (offset || !world->clean)
		memcpy(world->medium + offset, addr, len);
	return 0;
}

/* lose_power -- what was stored and not made durable is there by chance */
static void lose_power(struct world *world)
{
	for (size_t at = world->clean ? FIRST_PAGE : 0; at < world->len; at += 8) {
		if (rand() % 2)
			memcpy(world->medium + at, world->memory + at, 8);
	}
	memcpy(world->memory, world->medium, world->len);
}

static int start(struct world *world, struct kv_store *store, uint64_t peers, unsigned int last,
		 struct kv_counts *found)
{
	world->persists = 0;
	world->last = last;
	*store = (struct kv_store){.layout = &kv_layout,
				   .memory = world->memory,
				   .records = BUFFERS,
				   .peers = peers,
				   .persist = persist,
				   .arg = world};
	return kv_store_start(store, found);
}

/* put -- as a client does, durably; in the buffer of that number */
static void put(struct world *world, const struct kv_store *store, uint64_t key, bool deleted)
{
	struct kv_slot *slots = (struct kv_slot *) (world->memory + kv_store_index(store));
	uint64_t at = kv_hash(key) % kv_store_slots(store);
	uint64_t offset = kv_store_buffers(store) + key * KV_BUFFER_SIZE;
	struct kv_record *record = (struct kv_record *) (world->memory + offset);

	*record = (struct kv_record){.key = key, .version = key + 100, .len = 3, .value = "abc"};
	record->deleted = deleted;
	record->check = kv_check(record);
	while (slots[at].record)
		at = (at + 1) % kv_store_slots(store);
	slots[at] = (struct kv_slot){store->peers + offset, KV_HEAD_LEN + 3};
	memcpy(world->medium, world->memory, world->len);
}

/* get -- as a client does: by the pointers that are right for peers now */
static bool get(const struct world *world, const struct kv_store *store, uint64_t key)
{
	const struct kv_slot *slots =
		(const struct kv_slot *) (world->memory + kv_store_index(store));

	for (uint64_t at = kv_hash(key);; at++) {
		const struct kv_slot *slot = &slots[at % kv_store_slots(store)];
		const struct kv_record *record;

		if (!slot->record)
			return false;
		record = (const struct kv_record *) (world->memory + slot->record - store->peers);
		if (record->key == key)
			return kv_is_whole(record) && record->version == key + 100 &&
			       slot->bound == KV_HEAD_LEN + record->len;
	}
}

static void expect_all(const struct world *world, const struct kv_store *store)
{
	unsigned int used = 0;

	for (uint64_t key = 0; key < KEYS; key++)
		cr_assert_eq(get(world, store, key), key != 3, "key %llu",
			     (unsigned long long) key);
	for (unsigned int i = 0; i < BUFFERS; i++)
		used += store->used[i];
	cr_assert_eq(used, KEYS - 1, "%u buffers are in use", used);
}

/* begin -- a store with keys, whose target has ended */
static void begin(struct world *world)
{
	struct kv_counts found;
	struct kv_store store;

	cr_assert_eq(start(world, &store, 0, 100, &found), 0);
	for (uint64_t key = 0; key < KEYS; key++)
		put(world, &store, key, key == 3);
	kv_store_close(&store);
}

/* live -- a store with keys; its second start loses power at that moment, and the third does not */
static void live(struct world *world, unsigned int last)
{
	struct kv_counts found;
	struct kv_store store;

	begin(world);
	cr_assert_neq(start(world, &store, 0x10000, last, &found), 0);
	kv_store_close(&store);
	lose_power(world);
	cr_assert_eq(start(world, &store, 0x20000, 100, &found), 0);
	cr_assert_eq(found.live, KEYS - 1);
	expect_all(world, &store);
	kv_store_close(&store);
	/* And what that life has made is enough for the next one. */
	memcpy(world->memory, world->medium, world->len);
	cr_assert_eq(start(world, &store, 0x30000, 100, &found), 0);
	expect_all(world, &store);
	kv_store_close(&store);
}

Test(kv_store, power_is_lost_while_the_target_starts)
{
	const size_t len = kv_store_len(&kv_layout, BUFFERS);

	srand(1);
	for (unsigned int i = 0; i < 4 * WORLDS; i++) {
		struct world world = {
			.memory = calloc(1, len), .medium = calloc(1, len), .len = len};

		live(&world, i % 4);
		free(world.memory);
		free(world.medium);
	}
}

/* The first bytes are zeros, so there is no store yet; it is one only when it is whole. */
Test(kv_store, power_is_lost_while_the_store_is_made)
{
	const size_t len = kv_store_len(&kv_layout, BUFFERS);

	srand(1);
	for (unsigned int i = 0; i < 4 * WORLDS; i++) {
		struct world world = {.memory = malloc(len), .medium = malloc(len), .len = len};
		struct kv_counts found;
		struct kv_store store;

		memset(world.memory, 0x5a, len);
		memset(world.memory, 0, 64);
		memcpy(world.medium, world.memory, len);
		cr_assert_neq(start(&world, &store, 0, i % 4, &found), 0);
		kv_store_close(&store);
		lose_power(&world);
		cr_assert_eq(start(&world, &store, 0, 100, &found), 0);
		cr_assert_eq(found.live, 0);
		kv_store_close(&store);
		free(world.memory);
		free(world.medium);
	}
}

/* What the kernel does: the first write to a clean page makes it dirty. */
static struct world *written;

static void on_write(int signo, siginfo_t *info, void *context)
{
	(void) signo;
	(void) context;
	if ((char *) info->si_addr < written->memory ||
	    (char *) info->si_addr >= written->memory + FIRST_PAGE)
		abort();
	written->clean = false;
	mprotect(written->memory, FIRST_PAGE, PROT_READ | PROT_WRITE);
}

/* live_on -- a second target's last sync fails; the third loses power at that moment */
static void live_on(struct world *world, unsigned int last)
{
	struct kv_counts counts;
	struct kv_store store;

	begin(world);
	cr_assert_neq(start(world, &store, 0x10000, 3, &counts), 0);
	kv_store_close(&store);
	world->clean = true;
	written = world;
	mprotect(world->memory, FIRST_PAGE, PROT_READ);
	cr_assert_neq(start(world, &store, 0x20000, last, &counts), 0);
	kv_store_close(&store);
	lose_power(world);
	cr_assert_eq(start(world, &store, 0x30000, 100, &counts), 0);
	cr_assert_eq(counts.live, KEYS - 1);
	expect_all(world, &store);
	kv_store_close(&store);
}

/* The third target finds the word that the second one has written, and the medium has the one
 * before. */
Test(kv_store, what_was_found_is_durable_before_the_other_index_is_changed)
{
	const struct sigaction action = {.sa_sigaction = on_write, .sa_flags = SA_SIGINFO};
	const size_t len = kv_store_len(&kv_layout, BUFFERS);

	sigaction(SIGSEGV, &action, NULL);
	srand(1);
	for (unsigned int i = 0; i < 4 * WORLDS; i++) {
		struct world world = {.medium = calloc(1, len), .len = len};

		world.memory =
			mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		live_on(&world, i % 4);
		munmap(world.memory, len);
		free(world.medium);
	}
}
