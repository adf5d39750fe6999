/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.h -- what client and server say, besides the entries of the ring
 *
 *   client                                server
 *   connection request with RPC_HELLO  -> takes it, or rejects it with a sentence
 *   HELLO: identity, version           ->
 *                                      <- WELCOME: ring, sizes, what is executed;  or REFUSED
 *   READY: replies wanted from ...     ->
 *                                      <- REPLY: of each call that was missed, and then of each
 * call (an entry, committed with a notice) -> FORGET                             -> FORGOTTEN, or
 * REFUSED
 *
 * A notice is the immediate data of a commit: how many calls, in a batch, are durable by it.
 * Pace is how many calls a client may have without replies, 0: its window; see throttle.h.
 *
 * All numbers are little endian.  Both sides check whatever arrives.
 */
#ifndef RPC_WIRE_H
#define RPC_WIRE_H

#include <stdint.h>

#define RPC_HELLO "pmemrpc1"
#define RPC_HELLO_LEN 8U
#define RPC_VERSION 3U
#define RPC_TEXT 96U

enum rpc_message_type {
	RPC_MSG_HELLO = 1,
	RPC_MSG_WELCOME,
	RPC_MSG_REFUSED,
	RPC_MSG_READY,
	RPC_MSG_REPLY,
	RPC_MSG_FORGET,
	RPC_MSG_FORGOTTEN,
};

/*
 * HELLO, READY, FORGET.  A client that resumes is refused if another process had the ring since:
 * both have the same identity.
 */
struct rpc_request_message {
	uint32_t type;
	uint32_t version;
	uint64_t replies_from; /* READY; 0: none */
	uint8_t id[16];        /* HELLO */
	uint64_t process;      /* HELLO: a random number of the client's process */
	uint64_t resumes;      /* HELLO: 1: it was connected before, 0: its first connection */
};

/* WELCOME, REFUSED, FORGOTTEN */
struct rpc_welcome_message {
	uint32_t type;
	uint32_t version;
	uint32_t error; /* REFUSED: a positive errno */
	uint32_t window;
	uint64_t ring;
	uint64_t ring_addr;
	uint64_t ring_mr_key;
	uint64_t check_key; /* of the ring's checks */
	uint64_t reply_max;
	uint64_t executed;
	uint64_t position;
	uint64_t pace;
	char text[RPC_TEXT]; /* REFUSED: why */
};

/* REPLY; the data follow */
struct rpc_reply_message {
	uint32_t type;
	int32_t status;
	uint64_t sequence;
	uint32_t len;
	uint32_t pace;
};

#endif /* RPC_WIRE_H */
