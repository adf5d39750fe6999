/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unkept.h -- replies to calls that have changed nothing, of one client, and what is durable
 *
 * Such a call leaves nothing behind: its reply is kept here, in memory that is not persistent, and
 * the durable watermark stays where it is.  After a crash the call is executed again, if its entry
 * is there or its client sends it again.  That is right as long as three things hold:
 *
 *   - It changes nothing the second time either.  Only an operation that was declared a reader is
 *     sure not to: pmemrpc_store refuses it.
 *   - Entries behind the durable watermark are found.  So the client does not overwrite the entry
 *     of such a call while the server needs it: client.h says when it may.
 *   - The durable watermark does not pass a call whose reply the client may still ask for.  When it
 *     moves, the replies that are here become durable with it.  The client says with each entry
 *     which replies it has, and those are dropped before.
 *
 * There is room for a few.  Pure functions.
 */
#ifndef RPC_UNKEPT_H
#define RPC_UNKEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many of the longest replies have room here. */
#define RPC_UNKEPT 4U

/* A reply; the data follow. */
struct rpc_reply {
	uint64_t sequence;
	uint64_t life; /* of the slot: calls of others had the same sequences */
	int32_t status;
	uint32_t len;
};

/* All zeros but for the watermark: there are none. */
struct rpc_unkept {
	unsigned char *bytes; /* one behind the other, each at a multiple of 8 */
	size_t len;
	uint64_t executed, position; /* the durable watermark */
	bool off;                    /* the client needs the watermark of each call durable */
};

/* rpc_unkept_len -- what a reply takes there */
static inline size_t rpc_unkept_len(size_t len)
{
	return (sizeof(struct rpc_reply) + len + 7) / 8 * 8;
}

/*
 * rpc_unkept_place -- where the data of the next reply are made, with room for the longest one;
 * NULL: there is no room.  Nothing may be added or dropped until they are added.
 */
unsigned char *rpc_unkept_place(struct rpc_unkept *unkept, size_t reply_max);

/*
 * rpc_unkept_add -- false: there is no room.  Data that are at their place are not copied.
 * reply_max is the same each time.
 */
bool rpc_unkept_add(struct rpc_unkept *unkept, const struct rpc_reply *reply, const void *data,
		    size_t reply_max);

/* rpc_unkept_next -- the one behind `reply`, or the first one; NULL: there is none */
const struct rpc_reply *rpc_unkept_next(const struct rpc_unkept *unkept,
					const struct rpc_reply *reply);

/* rpc_unkept_drop -- the client has the replies up to this one */
void rpc_unkept_drop(struct rpc_unkept *unkept, uint64_t sequence);

#endif /* RPC_UNKEPT_H */
