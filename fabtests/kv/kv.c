/* SPDX-License-Identifier: BSD-2-Clause */
/* kv.c -- hashes and checksums, which target and clients have in common */
#include "kv.h"

#include <xxhash.h>

uint64_t kv_hash(uint64_t key)
{
	return XXH3_64bits(&key, sizeof(key));
}

uint64_t kv_check(const struct kv_record *record)
{
	const uint64_t about[] = {record->key, record->len, record->deleted};

	return XXH3_64bits_withSeed(record->value, record->len, XXH3_64bits(about, sizeof(about)));
}

bool kv_is_whole(const struct kv_record *record)
{
	return record->len <= KV_VALUE_MAX && record->check == kv_check(record);
}
