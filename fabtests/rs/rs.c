/* SPDX-License-Identifier: BSD-2-Clause */
/* rs.c -- tags, checksums, and what a target does with slots when it starts */
#include "rs.h"

#include <xxhash.h>

bool rs_less(const struct rs_tag *tag, const struct rs_tag *other)
{
	return tag->number != other->number ? tag->number < other->number
					    : tag->writer < other->writer;
}

unsigned int rs_majority(unsigned int targets)
{
	return targets / 2 + 1;
}

/* A write that has failed may be at a target that is away now: its tag is not used again. */
struct rs_tag rs_next(uint64_t writer, uint64_t others, uint64_t own)
{
	return (struct rs_tag){writer, (others > own ? others : own) + 1};
}

uint64_t rs_check(const struct rs_record *record)
{
	const uint64_t about[] = {record->tag.writer, record->tag.number, record->block};

	return XXH3_64bits_withSeed(record->value, RS_BLOCK, XXH3_64bits(about, sizeof(about)));
}

bool rs_is_whole(const struct rs_record *record, uint64_t block)
{
	return record->block == block && record->check == rs_check(record);
}

static enum kv_state judge(const void *record, uint64_t number)
{
	return rs_is_whole(record, number) ? KV_LIVE : KV_TORN;
}

/* put -- the store makes the index durable before anybody can read it, so each tag is durable */
static void put(const struct kv_store *store, void *index, uint64_t number, const void *at)
{
	const struct rs_record *record = at;
	struct rs_slot *slots = index;

	slots[number] = (struct rs_slot){
		.tag = record->tag,
		.record = kv_store_peer(store, record),
		.durable = record->tag,
	};
}

/* make -- zeros with the smallest tag */
static void make(void *at, uint64_t number)
{
	struct rs_record *record = at;

	*record = (struct rs_record){.block = number};
	record->check = rs_check(record);
}

const struct kv_layout rs_layout = {
	.hello = RS_HELLO,
	.magic = RS_MAGIC,
	.slots = 1,
	.spare = RS_SPARE,
	.slot_size = sizeof(struct rs_slot),
	.pointer = offsetof(struct rs_slot, record),
	.buffer_size = (sizeof(struct rs_record) + 63) / 64 * 64,
	.stage_size = sizeof(struct rs_stage),
	.judge = judge,
	.put = put,
	.make = make,
};
