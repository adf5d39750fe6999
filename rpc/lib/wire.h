/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.h -- what client and server say, besides the entries of the ring
 *
 *   client                                server
 *   connection request, with a message -> accepts it, or rejects it with a sentence
 *   HELLO: identity, versions          ->
 *                                      <- WELCOME: ring, sizes, what is executed;  or REFUSED
 *   READY: replies wanted from ...     ->
 *                                      <- REPLY, READ or GONE: of each call that was missed
 *                                      <- REPLY, or READ: of each call that follows
 *   call: an entry, committed          ->
 *   FORGET                             -> FORGOTTEN, or REFUSED
 *
 * A client that writes its entries gives the server a notice of each with its last write.  A client
 * that sends its entries says so when it asks for the connection.  Then the server has two receives
 * for HELLO and READY, and all other receives are the ring's cells, in their order.  So the third
 * message and all after it are entries, and nothing else may come.  To be forgotten, such a client
 * connects once more, as one that writes.
 *
 * A notice is the immediate data of a write.  It says how many calls are durable by this commit, or
 * have arrived with this write, if it is none.
 * Pace is how many calls without replies a client may have; 0: its window.  See throttle.h.
 *
 * Each side says the lowest and the highest version that it speaks, and both use the highest one
 * that they have in common.  All versions keep the connection request, the length of HELLO, and
 * where both messages have their type and versions.
 *
 * All numbers are little endian.  Both sides check whatever arrives.
 */
#ifndef RPC_WIRE_H
#define RPC_WIRE_H

#include <endian.h>
#include <stdint.h>

#include "../../util/connection/versions.h"

#define RPC_MAGIC "pmemrpc"
#define RPC_MAGIC_LEN 7U
#ifndef RPC_HIGHEST /* versions; the step versions_tcp builds later ones */
#define RPC_LOWEST 4U
#define RPC_HIGHEST 4U
#endif
#define RPC_TEXT 96U
/* Why a connection is rejected that may be taken a little later. */
#define RPC_CROWDED "too many clients"

enum rpc_message_type {
	RPC_MSG_HELLO = 1,
	RPC_MSG_WELCOME,
	RPC_MSG_REFUSED,
	RPC_MSG_READY,
	RPC_MSG_REPLY,
	RPC_MSG_FORGET,
	RPC_MSG_FORGOTTEN,
	RPC_MSG_READ, /* the same as REPLY, to a call that has left nothing behind */
	RPC_MSG_GONE, /* instead of one that was missed: the call had left nothing behind */
};

/* The private data of a connection request.  It says how entries come, before any is received. */
struct rpc_connect_message {
	char magic[RPC_MAGIC_LEN];
	uint8_t transport; /* enum pmemrpc_transport */
};

/*
 * HELLO, READY, FORGET.  A client that resumes is refused if another process had the ring since:
 * both have the same identity.  It says which replies it has, since a server that was started again
 * may know less of calls that have left nothing behind.
 */
struct rpc_request_message {
	uint32_t type;
	uint16_t lowest; /* version */
	uint16_t highest;
	uint64_t replies_from; /* READY; 0: none */
	uint8_t id[16];        /* HELLO */
	uint64_t process;      /* HELLO: a random number of the client's process */
	uint64_t resumes;      /* HELLO: 1: it was connected before, 0: its first connection */
	uint64_t argument_max; /* HELLO, if entries are sent: rpc_cell_size */
	uint64_t executed;     /* HELLO, if it resumes: it has the replies up to this call, ... */
	uint64_t position;     /* ... behind which the next one is here, ... */
	uint64_t durable;      /* ... and the calls up to this one were durable */
	uint64_t in_order;     /* READY: 1: readers need leave nothing behind: client.h says why */
};

/* WELCOME, REFUSED, FORGOTTEN */
struct rpc_welcome_message {
	uint32_t type;
	uint16_t lowest; /* version */
	uint16_t highest;
	uint32_t error; /* REFUSED: a positive errno */
	uint32_t window;
	uint64_t ring;      /* what is used of it */
	uint64_t cell;      /* 0: entries are written */
	uint64_t ring_addr; /* if they are written */
	uint64_t ring_mr_key;
	uint64_t check_key; /* of the ring's checks */
	uint64_t reply_max;
	uint64_t executed;
	uint64_t position;
	uint64_t pace;
	char text[RPC_TEXT]; /* REFUSED: why */
};

/* REPLY, READ, GONE; the data follow */
struct rpc_reply_message {
	uint32_t type;
	int32_t status;
	uint64_t sequence;
	uint32_t len;
	uint32_t pace;
};

/* rpc_version -- the one that both use, of a peer that says these; 0: there is none */
static inline unsigned int rpc_version(uint16_t lowest, uint16_t highest)
{
	return versions_common((struct versions){RPC_LOWEST, RPC_HIGHEST},
			       (struct versions){le16toh(lowest), le16toh(highest)});
}

#endif /* RPC_WIRE_H */
