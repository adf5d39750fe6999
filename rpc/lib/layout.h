/* SPDX-License-Identifier: BSD-2-Clause */
/* layout.h -- what a store is made for, and how long its parts are.  Pure functions. */
#ifndef RPC_LAYOUT_H
#define RPC_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#define RPC_PAGE 4096U
#define RPC_ID 16U

/* What a store is made for.  0: as the head says. */
struct rpc_sizes {
	uint64_t clients;
	uint64_t ring;
	uint64_t window;
	uint64_t reply_max;
	uint64_t effects_max;
	uint64_t memory;
};

/* A client's state, which is persistent; changed by transactions only. */
struct rpc_slot {
	uint8_t id[RPC_ID];
	uint32_t used;           /* 0: it is free; else by whom it was taken: peer.h, or 1 */
	uint32_t cell : 31;      /* of its ring: entries are sent; 0: they are written */
	uint32_t reads_only : 1; /* who has the ring may call readers only (rights.h) */
	uint64_t life;           /* how many identities have had this slot */
	uint64_t key;            /* of its ring, new for each connection */
	uint64_t executed;       /* the watermark: this call and all before it are executed */
	uint64_t position;       /* where the next entry is */
	uint64_t process;        /* a random number of the client's process that was here last */
};

static inline uint64_t rpc_round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

bool rpc_sizes_are_right(const struct rpc_sizes *sizes);

/* rpc_reply_stride -- from one reply's place to the next one's */
uint64_t rpc_reply_stride(const struct rpc_sizes *sizes);

/* rpc_transaction_len -- of the longest one */
uint64_t rpc_transaction_len(const struct rpc_sizes *sizes);

uint64_t rpc_journal_len(const struct rpc_sizes *sizes);

/* rpc_slot_len -- a client's state, and its replies */
uint64_t rpc_slot_len(const struct rpc_sizes *sizes);

#endif /* RPC_LAYOUT_H */
