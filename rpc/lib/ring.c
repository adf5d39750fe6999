/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.c -- entries of a ring; ring.h has their format */
#include "ring.h"

#include <endian.h>
#include <string.h>

#define LEN_MASK UINT64_C(0xffffff)

/* get -- bytes from a position on, which may wrap */
static void get(const struct rpc_ring *ring, uint64_t position, void *to, size_t len)
{
	size_t at = position % ring->size;
	size_t first = len < ring->size - at ? len : ring->size - at;

	memcpy(to, ring->base + at, first);
	memcpy((char *) to + first, ring->base, len - first);
}

static void put(const struct rpc_ring *ring, uint64_t position, const void *from, size_t len)
{
	size_t at = position % ring->size;
	size_t first = len < ring->size - at ? len : ring->size - at;

	if (!len)
		return;
	memcpy(ring->base + at, from, first);
	memcpy(ring->base, (const char *) from + first, len - first);
}

static void put_word(const struct rpc_ring *ring, uint64_t position, uint64_t word)
{
	word = htole64(word);
	put(ring, position, &word, sizeof(word));
}

void rpc_ring_write(const struct rpc_ring *ring, struct rpc_place place, uint32_t op,
		    uint32_t waiting, const void *argument, size_t argument_len)
{
	const struct rpc_body_head head = {htole32(op), htole32(waiting)};
	uint64_t body = place.position + RPC_WORD;

	put(ring, body, &head, sizeof(head));
	put(ring, body + RPC_BODY_HEAD, argument, argument_len);
	rpc_ring_seal(ring, place, argument_len);
}

void rpc_ring_seal(const struct rpc_ring *ring, struct rpc_place place, size_t argument_len)
{
	size_t at = place.position % ring->size, len = RPC_BODY_HEAD + argument_len;
	unsigned char *wrapped;

	if (at + RPC_WORD + len <= ring->size) {
		put_word(ring, place.position,
			 rpc_checksum(ring->key, place, ring->base + at + RPC_WORD, len));
		return;
	}
	/* The client's copy is followed by room for this: rpc_ring_seal is only for that copy. */
	wrapped = ring->base + ring->size;
	get(ring, place.position + RPC_WORD, wrapped, len);
	put_word(ring, place.position, rpc_checksum(ring->key, place, wrapped, len));
}

size_t rpc_cell_size(size_t ring_size, size_t window, uint64_t argument_max)
{
	size_t len = RPC_WORD + RPC_BODY_HEAD;

	if (!argument_max)
		return ring_size / window / RPC_ALIGN * RPC_ALIGN;
	if (argument_max > ring_size || argument_max > ring_size - len)
		return 0;
	len = (len + argument_max + RPC_ALIGN - 1) / RPC_ALIGN * RPC_ALIGN;
	return len <= ring_size ? len : 0;
}

unsigned int rpc_ring_plan(size_t ring_size, uint64_t position, size_t argument_len,
			   struct rpc_piece pieces[RPC_MAX_PIECES])
{
	size_t at = position % ring_size, len = RPC_WORD + RPC_BODY_HEAD + argument_len;
	size_t rest = ring_size - at;
	bool wraps = len > rest;
	unsigned int count = 0;

	if (wraps)
		pieces[count++] = (struct rpc_piece){.offset = 0, .len = len - rest};
	pieces[count++] = (struct rpc_piece){
		.offset = at, .len = wraps ? rest : len, .commit = true, .fence = wraps};
	return count;
}

size_t rpc_ring_read(const struct rpc_ring *ring, struct rpc_place place, unsigned char *body)
{
	/* Aligned, so it can't be half an old one and half a new one. */
	uint64_t word =
		le64toh(*(const volatile uint64_t *) (ring->base + place.position % ring->size));
	size_t len = word & LEN_MASK;

	if (len < RPC_BODY_HEAD || len > RPC_BODY_HEAD + rpc_argument_max(ring))
		return 0;
	get(ring, place.position + RPC_WORD, body, len);
	return rpc_checksum(ring->key, place, body, len) == word ? len : 0;
}
