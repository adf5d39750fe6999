/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_layout.c -- slots by keys' hashes, as kv.h has them */
#include "kv_store.h"

static enum kv_state judge(const void *at, uint64_t number)
{
	const struct kv_record *record = at;

	(void) number;
	if (!kv_is_whole(record))
		return KV_TORN;
	return record->deleted ? KV_DELETED : KV_LIVE;
}

/* put -- into an index that has room, for a key that is not in it */
static void put(const struct kv_store *store, void *index, uint64_t number, const void *at)
{
	const struct kv_record *record = at;
	struct kv_slot *slots = index;
	uint64_t count = kv_store_slots(store), to = kv_hash(record->key) % count;

	(void) number;
	while (slots[to].record)
		to = (to + 1) % count;
	slots[to] = (struct kv_slot){kv_store_peer(store, record), KV_HEAD_LEN + record->len};
}

const struct kv_layout kv_layout = {
	.hello = KV_HELLO,
	.magic = KV_MAGIC,
	.slots = KV_SLOTS_A_BUFFER,
	.slot_size = sizeof(struct kv_slot),
	.pointer = offsetof(struct kv_slot, record),
	.buffer_size = KV_BUFFER_SIZE,
	.stage_size = sizeof(struct kv_stage),
	.judge = judge,
	.put = put,
};
