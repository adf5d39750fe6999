/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rs.c -- tags, and what a target makes of slots that power failure has torn */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "rs/rs.h"

#define BLOCKS 8U

static int persist(void *arg, const void *addr, size_t len)
{
	unsigned int *left = arg;

	(void) addr;
	(void) len;
	return *left ? (--*left, 0) : -1;
}

static struct kv_store start(char *memory, uint64_t peers, unsigned int persists, int *ret)
{
	struct kv_store store = {.layout = &rs_layout,
				 .memory = memory,
				 .records = BLOCKS,
				 .peers = peers,
				 .persist = persist,
				 .arg = &persists};
	struct kv_counts found;

	*ret = kv_store_start(&store, &found);
	store.arg = NULL;
	return store;
}

static struct rs_slot *slot_of(const struct kv_store *store, uint64_t block)
{
	return (struct rs_slot *) (store->memory + kv_store_index(store)) + block;
}

static struct rs_record *record_of(const struct kv_store *store, uint64_t block)
{
	return (struct rs_record *) (store->memory + slot_of(store, block)->record - store->peers);
}

Test(rs, the_number_decides_then_the_writer)
{
	const struct rs_tag tags[] = {{0, 0}, {7, 0}, {1, 1}, {2, 1}, {UINT64_MAX, 1}, {0, 2}};

	for (unsigned int i = 0; i < 6; i++) {
		for (unsigned int j = 0; j < 6; j++)
			cr_assert_eq(rs_less(&tags[i], &tags[j]), i < j, "%u, %u", i, j);
	}
}

/* A chain compares the bytes as one number, of which the last one counts most. */
Test(rs, chains_have_the_same_order)
{
	const struct rs_tag tag = {.writer = 1, .number = UINT64_C(2) << 56};
	uint8_t bytes[16];

	memcpy(bytes, &tag, sizeof(bytes));
	cr_assert_eq(bytes[0], 1);
	cr_assert_eq(bytes[15], 2);
}

Test(rs, two_majorities_share_a_target)
{
	for (unsigned int n = 1; n < 16; n += 2) {
		cr_assert_gt(2 * rs_majority(n), n);
		cr_assert_eq(rs_majority(n), n - n / 2, "and one is alive with %u down", n / 2);
	}
}

Test(rs, a_tag_is_greater_than_all_that_were_seen_or_used)
{
	cr_assert_eq(rs_next(7, 4, 2).number, 5);
	cr_assert_eq(rs_next(7, 2, 4).number, 5);
	cr_assert_eq(rs_next(7, 2, 4).writer, 7);
	cr_assert_eq(rs_next(7, UINT64_MAX, 4).number, 0);
}

Test(rs, a_record_of_another_block_or_tag_is_none)
{
	struct rs_record record = {.tag = {1, 2}, .block = 3, .value = "abc"};

	record.check = rs_check(&record);
	cr_assert(rs_is_whole(&record, 3));
	cr_assert(!rs_is_whole(&record, 4));
	record.tag.number++;
	cr_assert(!rs_is_whole(&record, 3));
	record.tag.number--;
	record.value[RS_BLOCK - 1] ^= 1;
	cr_assert(!rs_is_whole(&record, 3));
}

/* write -- a record in a spare buffer, and a slot that leads to it */
static void swing(struct kv_store *store, uint64_t block, struct rs_tag tag)
{
	uint64_t offset = kv_store_buffers(store) + (BLOCKS + block) * rs_layout.buffer_size;
	struct rs_record *record = (struct rs_record *) (store->memory + offset);

	*record = (struct rs_record){.tag = tag, .block = block, .value = "new"};
	record->check = rs_check(record);
	slot_of(store, block)->record = store->peers + offset;
	slot_of(store, block)->tag = tag;
	slot_of(store, block)->durable = tag;
	slot_of(store, block)->lock = 1;
}

/* A slot's words are old or new; the record that it leads to decides. */
Test(rs, a_torn_slot_has_the_tag_of_its_record)
{
	const struct rs_tag old = {0}, new = {9, 5};
	struct kv_store store;
	int ret;

	for (unsigned int torn = 0; torn < 64; torn++) {
		char *memory = calloc(1, kv_store_len(&rs_layout, BLOCKS));
		struct rs_slot *slot, before, after;

		store = start(memory, 0x10000, 100, &ret);
		cr_assert_eq(ret, 0);
		slot = slot_of(&store, 3);
		before = *slot;
		swing(&store, 3, new);
		after = *slot;
		for (unsigned int word = 0; word < 6; word++) {
			if (torn & 1U << word)
				((uint64_t *) slot)[word] = ((uint64_t *) &before)[word];
		}
		kv_store_close(&store);
		store = start(memory, 0x50000, 100, &ret);
		cr_assert_eq(ret, 0);
		slot = slot_of(&store, 3);
		after.tag = torn & 4 ? old : new;
		cr_assert_eq(memcmp(&slot->tag, &after.tag, sizeof(old)), 0, "%u", torn);
		cr_assert_eq(memcmp(&slot->durable, &after.tag, sizeof(old)), 0, "%u", torn);
		cr_assert_eq(slot->lock, 0);
		cr_assert_eq(memcmp(&record_of(&store, 3)->tag, &after.tag, sizeof(old)), 0);
		/* One buffer a block, and the other one is free. */
		cr_assert_eq(store.used[BLOCKS + 3], !(torn & 4));
		cr_assert_eq(store.used[3], !!(torn & 4));
		kv_store_close(&store);
		free(memory);
	}
}

Test(rs, a_new_store_has_all_blocks_whenever_its_making_is_interrupted)
{
	const size_t len = kv_store_len(&rs_layout, BLOCKS);
	struct kv_store store;
	int ret;

	for (unsigned int persists = 0; persists < 5; persists++) {
		char *memory = malloc(len);

		cr_assert(memory);
		memset(memory, 0x5a, len);
		memset(memory, 0, 64);
		store = start(memory, 0x10000, persists, &ret);
		cr_assert_neq(ret, 0, "%u", persists);
		kv_store_close(&store);
		store = start(memory, 0x20000, 100, &ret);
		cr_assert_eq(ret, 0);
		for (uint64_t block = 0; block < BLOCKS; block++)
			cr_assert(rs_is_whole(record_of(&store, block), block));
		kv_store_close(&store);
		free(memory);
	}
}
