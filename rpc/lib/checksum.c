/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum.c -- what makes entries and journals valid; it has its own file, since tests replace it
 */
#include <endian.h>

#include <xxhash.h>

#include "journal.h"
#include "ring.h"

uint64_t rpc_checksum(uint64_t key, struct rpc_place place, const void *body, size_t len)
{
	const uint64_t about[] = {htole64(key), htole64(place.sequence), htole64(place.position),
				  htole64(len)};
	uint64_t seed = XXH3_64bits(about, sizeof(about));

	return (XXH3_64bits_withSeed(body, len, seed) & ~UINT64_C(0xffffff)) | len;
}

uint64_t rpc_journal_checksum(uint64_t secret, const void *changes, size_t len)
{
	return XXH3_64bits_withSeed(changes, len, secret ^ len);
}
