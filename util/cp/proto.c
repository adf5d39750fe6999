/* SPDX-License-Identifier: BSD-2-Clause */
/* proto.c -- messages and states as bytes; proto.h has the format */
#include "proto.h"

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <xxhash.h>

#include "../connection/versions.h"

_Static_assert(sizeof(struct cp_hello) == 8, "no padding");
_Static_assert(sizeof(struct cp_message) == 88 + CP_TEXT, "no padding");
_Static_assert(sizeof(struct cp_state) == 64, "no padding");
_Static_assert(CP_STATES > CP_BATCHES + 1 + 1, "the newest durable state is not being written");

const struct cp_hello cp_hello = {.magic = CP_MAGIC, .lowest = CP_LOWEST, .highest = CP_HIGHEST};

enum cp_peer cp_peer_of(const void *data, size_t len)
{
	const struct versions own = {CP_LOWEST, CP_HIGHEST};
	struct cp_hello hello;

	if (len < sizeof(hello))
		return CP_PEER_STRANGE;
	memcpy(&hello, data, sizeof(hello));
	if (memcmp(hello.magic, CP_MAGIC, sizeof(hello.magic)))
		return CP_PEER_STRANGE;
	return versions_common(own, (struct versions){hello.lowest, hello.highest}) ? CP_PEER_OURS
										    : CP_PEER_OTHER;
}

void cp_message_swap(struct cp_message *message)
{
	message->type = htole32(message->type);
	message->status = htole32(message->status);
	message->flags = htole64(message->flags);
	message->size = htole64(message->size);
	message->mtime = htole64(message->mtime);
	message->mode = htole64(message->mode);
	message->committed = htole64(message->committed);
	message->sequence = htole64(message->sequence);
	message->addr = htole64(message->addr);
	message->key = htole64(message->key);
}

static uint64_t check_of(const struct cp_state *wire)
{
	return htole64(XXH3_64bits(wire, offsetof(struct cp_state, check)));
}

/* Those of Latin-1 (0x80 to 0x9f) are two bytes in UTF-8, and begin sequences in terminals, too. */
void cp_printable(char *text)
{
	for (unsigned char *at = (unsigned char *) text; *at; at++) {
		bool latin = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0;

		if (*at < ' ' || *at == 0x7f || latin)
			*at = '?';
		if (latin)
			*++at = '?';
	}
}

void cp_state_encode(struct cp_state *wire, const struct cp_state *state)
{
	*wire = (struct cp_state){
		.magic = htole64(CP_STATE_MAGIC),
		.sequence = htole64(state->sequence),
		.size = htole64(state->size),
		.mtime = htole64(state->mtime),
		.committed = htole64(state->committed),
	};
	memcpy(wire->digest, state->digest, CP_DIGEST);
	wire->check = check_of(wire);
}

int cp_state_newest(struct cp_state *state, const void *page, uint64_t size, uint64_t mtime)
{
	int ret = -1;

	for (int i = 0; i < CP_STATES; i++) {
		struct cp_state wire;

		memcpy(&wire, (const char *) page + i * CP_STATE_PLACE, sizeof(wire));
		if (le64toh(wire.magic) != CP_STATE_MAGIC || wire.check != check_of(&wire) ||
		    le64toh(wire.size) != size || le64toh(wire.mtime) != mtime ||
		    le64toh(wire.committed) > size)
			continue;
		if (!ret && le64toh(wire.sequence) <= state->sequence)
			continue;
		*state = (struct cp_state){
			.sequence = le64toh(wire.sequence),
			.size = size,
			.mtime = mtime,
			.committed = le64toh(wire.committed),
		};
		memcpy(state->digest, wire.digest, CP_DIGEST);
		ret = 0;
	}
	return ret;
}
