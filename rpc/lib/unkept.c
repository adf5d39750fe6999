/* SPDX-License-Identifier: BSD-2-Clause */
/* unkept.c -- replies to calls that have changed nothing; unkept.h says why that is right */
#include "unkept.h"

#include <stdlib.h>
#include <string.h>

/* next_place -- for the data of a reply of this length; NULL: there is no room */
static unsigned char *next_place(struct rpc_unkept *unkept, size_t len, size_t reply_max)
{
	size_t room = RPC_UNKEPT * rpc_unkept_len(reply_max);

	/* A handler may send more than it has written: zeros. */
	if (!unkept->bytes)
		unkept->bytes = calloc(1, room);
	if (!unkept->bytes || rpc_unkept_len(len) > room - unkept->len)
		return NULL;
	return unkept->bytes + unkept->len + sizeof(struct rpc_reply);
}

unsigned char *rpc_unkept_place(struct rpc_unkept *unkept, size_t reply_max)
{
	return next_place(unkept, reply_max, reply_max);
}

bool rpc_unkept_add(struct rpc_unkept *unkept, const struct rpc_reply *reply, const void *data,
		    size_t reply_max)
{
	unsigned char *place = next_place(unkept, reply->len, reply_max);

	if (!place)
		return false;
	memcpy(place - sizeof(*reply), reply, sizeof(*reply));
	if (data != place)
		memcpy(place, data, reply->len);
	unkept->len += rpc_unkept_len(reply->len);
	return true;
}

const struct rpc_reply *rpc_unkept_next(const struct rpc_unkept *unkept,
					const struct rpc_reply *reply)
{
	const unsigned char *next =
		reply ? (const unsigned char *) reply + rpc_unkept_len(reply->len) : unkept->bytes;

	return next && next < unkept->bytes + unkept->len ? (const struct rpc_reply *) next : NULL;
}

void rpc_unkept_drop(struct rpc_unkept *unkept, uint64_t sequence)
{
	const struct rpc_reply *first = NULL;
	size_t gone;

	do {
		first = rpc_unkept_next(unkept, first);
	} while (first && first->sequence <= sequence);
	gone = first ? (size_t) ((const unsigned char *) first - unkept->bytes) : unkept->len;
	unkept->len -= gone;
	if (gone && unkept->len)
		memmove(unkept->bytes, unkept->bytes + gone, unkept->len);
}
