/* SPDX-License-Identifier: BSD-2-Clause */
/* test_tx.c -- what a target makes of commits that it died in */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tx/tx.h"

#define KEYS 8U

static int persist(void *arg, const void *addr, size_t len)
{
	(void) arg;
	(void) addr;
	(void) len;
	return 0;
}

static struct kv_store start(char *memory, uint64_t peers)
{
	struct kv_store store = {.layout = &tx_layout,
				 .memory = memory,
				 .records = KEYS,
				 .peers = peers,
				 .persist = persist};
	struct kv_counts found;

	cr_assert_eq(kv_store_start(&store, &found), 0);
	return store;
}

static struct tx_slot *slot_of(const struct kv_store *store, uint64_t key)
{
	return (struct tx_slot *) (store->memory + kv_store_index(store)) + key;
}

static struct tx_record *spare(const struct kv_store *store, uint64_t number)
{
	uint64_t buffer = KEYS + number;

	return (struct tx_record *) (store->memory + kv_store_buffers(store) +
				     buffer * tx_layout.buffer_size);
}

/* make -- records of keys 1, 3 and 5 in spare buffers, which name each other */
static void make(const struct kv_store *store, uint64_t first, struct rs_tag stamp)
{
	for (uint64_t i = 0; i < TX_KEYS; i++) {
		struct tx_record *record = spare(store, first + i);
		unsigned int named = 0;

		*record = (struct tx_record){.stamp = stamp, .key = 2 * i + 1, .value = "new"};
		for (uint64_t j = 0; j < TX_KEYS; j++) {
			if (j != i)
				record->others[named++] = (struct tx_other){
					2 * j + 1, (j - i) * tx_layout.buffer_size};
		}
		record->check = tx_check(record);
	}
}

static void swing(const struct kv_store *store, uint64_t key, uint64_t number)
{
	slot_of(store, key)->record = kv_store_peer(store, spare(store, number));
}

static uint64_t number_of(const struct kv_store *store, uint64_t key)
{
	const struct tx_slot *slot = slot_of(store, key);
	const struct tx_record *record =
		(const void *) (store->memory + (slot->record - store->peers));

	cr_assert(tx_is_whole(record, key));
	cr_assert_eq(memcmp(&slot->committed, &record->stamp, sizeof(record->stamp)), 0);
	cr_assert_eq(memcmp(&slot->pw, &slot->committed, sizeof(slot->pw)), 0);
	return record->stamp.number;
}

static uint64_t count_used(const struct kv_store *store)
{
	uint64_t used = 0;

	for (uint64_t i = 0; i < store->buffers; i++)
		used += store->used[i];
	return used;
}

Test(tx, a_commit_is_made_completely_whichever_slots_had_swung)
{
	for (unsigned int swung = 0; swung < 8; swung++) {
		char *memory = calloc(1, kv_store_len(&tx_layout, KEYS));
		struct kv_store store = start(memory, 0x10000);

		make(&store, 0, (struct rs_tag){7, 100});
		for (unsigned int i = 0; i < TX_KEYS; i++) {
			slot_of(&store, 2 * i + 1)->pw = (struct rs_tag){7, 100};
			if (swung & 1U << i)
				swing(&store, 2 * i + 1, i);
		}
		kv_store_close(&store);
		store = start(memory, 0x90000);
		for (unsigned int i = 0; i < TX_KEYS; i++)
			cr_assert_eq(number_of(&store, 2 * i + 1), swung ? 100 : 0, "%u", swung);
		cr_assert_eq(number_of(&store, 2), 0);
		cr_assert_eq(count_used(&store), KEYS);
		kv_store_close(&store);
		free(memory);
	}
}

/* A later transaction has replaced some of its records: those buffers may have anything. */
Test(tx, an_older_commit_brings_nothing_back)
{
	for (unsigned int replaced = 0; replaced < 8; replaced++) {
		for (unsigned int left = 0; left < 3; left++) {
			char *memory = calloc(1, kv_store_len(&tx_layout, KEYS));
			struct kv_store store = start(memory, 0x10000);

			make(&store, 0, (struct rs_tag){7, 100});
			for (unsigned int i = 0; i < TX_KEYS; i++) {
				struct tx_record *old = spare(&store, i),
						 *new = spare(&store, 8 + i);

				swing(&store, 2 * i + 1, i);
				if (!(replaced & 1U << i))
					continue;
				*new = (struct tx_record){.stamp = {6, 101}, .key = 2 * i + 1};
				new->check = tx_check(new);
				swing(&store, 2 * i + 1, 8 + i);
				/* A later one that was not made, or one of another key */
				if (left == 1)
					old->stamp = (struct rs_tag){9, 200};
				old->check = tx_check(old);
				if (left == 2)
					*old = *spare(&store, (i + 1) % TX_KEYS);
			}
			kv_store_close(&store);
			store = start(memory, 0x90000);
			for (unsigned int i = 0; i < TX_KEYS; i++)
				cr_assert_eq(number_of(&store, 2 * i + 1),
					     replaced & 1U << i ? 101 : 100, "%u, %u", replaced,
					     left);
			cr_assert_eq(count_used(&store), KEYS);
			kv_store_close(&store);
			free(memory);
		}
	}
}

/* What a record says of others was written by a client. */
Test(tx, others_that_are_nowhere_are_none)
{
	const struct tx_other others[] = {
		{KEYS, 64}, {3, 1}, {3, UINT64_MAX / 2}, {3, -(1U << 20)}};

	for (unsigned int i = 0; i < 4; i++) {
		char *memory = calloc(1, kv_store_len(&tx_layout, KEYS));
		struct kv_store store = start(memory, 0x10000);
		struct tx_record *record = spare(&store, 0);

		*record = (struct tx_record){.stamp = {1, 1}, .key = 1, .others = {others[i]}};
		record->check = tx_check(record);
		swing(&store, 1, 0);
		kv_store_close(&store);
		store = start(memory, 0x10000);
		cr_assert_eq(number_of(&store, 1), 1);
		cr_assert_eq(number_of(&store, 3), 0);
		kv_store_close(&store);
		free(memory);
	}
}

Test(tx, a_stamp_is_greater_than_all_that_were_seen)
{
	cr_assert_eq(tx_stamp(7, 4, 9).number, 9);
	cr_assert_eq(tx_stamp(7, 9, 9).number, 10);
	cr_assert_eq(tx_stamp(7, 12, 9).number, 13);
	cr_assert_eq(tx_stamp(7, 12, 9).writer, 7);
	cr_assert_eq(tx_stamp(7, UINT64_MAX, 9).number, 0, "there is none");
}

Test(tx, a_record_of_another_key_stamp_or_transaction_is_none)
{
	struct tx_record record = {.stamp = {1, 2}, .key = 3, .value = "abc"};

	record.check = tx_check(&record);
	cr_assert(tx_is_whole(&record, 3));
	cr_assert(!tx_is_whole(&record, 4));
	record.stamp.writer++;
	cr_assert(!tx_is_whole(&record, 3));
	record.stamp.writer--;
	record.others[1].key++;
	cr_assert(!tx_is_whole(&record, 3));
	record.others[1].key--;
	record.value[TX_VALUE - 1] ^= 1;
	cr_assert(!tx_is_whole(&record, 3));
}
