/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx.c -- stamps, checksums, and how a target completes the commits that it died in
 *
 * A commit makes all its records durable, then swings the slots.  As long as a slot has not swung
 * durably nobody but that commit's client has the slot's new buffer, and that client touches it no
 * more.  So if one slot leads to a record of the transaction, the others' records are whole.  A
 * slot whose record has a greater stamp has been through that already: then the buffer may have
 * anything in it.
 */
#include "tx.h"

#include <string.h>
#include <xxhash.h>

struct rs_tag tx_stamp(uint64_t client, uint64_t seen, uint64_t clock)
{
	return (struct rs_tag){client, clock > seen ? clock : seen + 1};
}

uint64_t tx_check(const struct tx_record *record)
{
	const uint64_t about[] = {record->stamp.writer, record->stamp.number, record->key};
	const size_t rest = offsetof(struct tx_record, others);

	return XXH3_64bits_withSeed((const char *) record + rest, sizeof(*record) - rest,
				    XXH3_64bits(about, sizeof(about)));
}

bool tx_is_whole(const struct tx_record *record, uint64_t key)
{
	return record->key == key && record->check == tx_check(record);
}

static enum kv_state judge(const void *record, uint64_t number)
{
	return tx_is_whole(record, number) ? KV_LIVE : KV_TORN;
}

/* offer -- a record to the slot of its key, which takes the one with the greatest stamp */
static void offer(const struct kv_store *store, struct tx_slot *slot,
		  const struct tx_record *record)
{
	if (!slot->record || rs_less(&slot->committed, &record->stamp))
		*slot = (struct tx_slot){
			.pr = record->stamp,
			.pw = record->stamp,
			.committed = record->stamp,
			.record = kv_store_peer(store, record),
		};
}

/* find_other -- NULL: it is not there any more */
static const struct tx_record *find_other(const struct kv_store *store,
					  const struct tx_record *record,
					  const struct tx_other *other)
{
	const char *start = store->memory + kv_store_buffers(store);
	uint64_t offset = (uint64_t) ((const char *) record - start) + other->distance;
	const struct tx_record *found;

	if (!other->distance || other->key >= kv_store_slots(store) ||
	    offset % tx_layout.buffer_size || offset / tx_layout.buffer_size >= store->buffers)
		return NULL;
	found = (const void *) (start + offset);
	if (!tx_is_whole(found, other->key) ||
	    memcmp(&found->stamp, &record->stamp, sizeof(found->stamp)) != 0)
		return NULL;
	return found;
}

static void put(const struct kv_store *store, void *index, uint64_t number, const void *at)
{
	const struct tx_record *record = at, *other;
	struct tx_slot *slots = index;

	offer(store, &slots[number], record);
	for (unsigned int i = 0; i < TX_KEYS - 1; i++) {
		other = find_other(store, record, &record->others[i]);
		if (other)
			offer(store, &slots[other->key], other);
	}
}

/* make -- zeros with the smallest stamp */
static void make(void *at, uint64_t number)
{
	struct tx_record *record = at;

	*record = (struct tx_record){.key = number};
	record->check = tx_check(record);
}

const struct kv_layout tx_layout = {
	.hello = TX_HELLO,
	.magic = TX_MAGIC,
	.slots = 1,
	.spare = KV_PLACES * TX_KEYS,
	.slot_size = sizeof(struct tx_slot),
	.pointer = offsetof(struct tx_slot, record),
	.buffer_size = (sizeof(struct tx_record) + 63) / 64 * 64,
	.stage_size = sizeof(struct tx_stage),
	.own = offsetof(struct tx_stage, own),
	.num_own = TX_KEYS,
	.judge = judge,
	.put = put,
	.make = make,
};
