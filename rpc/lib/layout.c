/* SPDX-License-Identifier: BSD-2-Clause */
/* layout.c -- how long the parts of a store are; layout.h has its sizes */
#include "layout.h"

#include "journal.h"
#include "pmemrpc.h"
#include "ring.h"
#include "unkept.h"

_Static_assert(sizeof(struct rpc_slot) <= RPC_ALIGN, "replies follow");

/* The journal has room for so many of the longest transactions, and for more that are shorter. */
#define TRANSACTIONS 8U

uint64_t rpc_reply_stride(const struct rpc_sizes *sizes)
{
	return rpc_round_up(sizeof(struct rpc_reply) + sizes->reply_max, RPC_ALIGN);
}

/* call_len -- of the longest transaction of one call */
static uint64_t call_len(const struct rpc_sizes *sizes)
{
	return RPC_RECORD_HEAD + rpc_change_len(sizeof(struct rpc_slot)) +
	       rpc_change_len(sizeof(struct rpc_reply) + sizes->reply_max) +
	       rpc_round_up(sizes->effects_max, 8);
}

/* others_len -- of the replies to earlier calls in it, each of which is a change */
static uint64_t others_len(const struct rpc_sizes *sizes)
{
	uint64_t room = RPC_UNKEPT * rpc_unkept_len(sizes->reply_max);

	return room + room / sizeof(struct rpc_reply) * RPC_CHANGE_HEAD;
}

uint64_t rpc_transaction_len(const struct rpc_sizes *sizes)
{
	return call_len(sizes) + others_len(sizes);
}

uint64_t rpc_journal_len(const struct rpc_sizes *sizes)
{
	return rpc_round_up(RPC_JOURNAL_HEAD + TRANSACTIONS * call_len(sizes) + others_len(sizes),
			    RPC_PAGE);
}

uint64_t rpc_slot_len(const struct rpc_sizes *sizes)
{
	return rpc_round_up(RPC_ALIGN + sizes->window * rpc_reply_stride(sizes), RPC_PAGE);
}

bool rpc_sizes_are_right(const struct rpc_sizes *sizes)
{
	return sizes->clients && sizes->clients <= 4096 && sizes->ring &&
	       sizes->ring % RPC_ALIGN == 0 && sizes->ring <= PMEMRPC_MAX_RING && sizes->window &&
	       sizes->window <= PMEMRPC_MAX_WINDOW && sizes->reply_max <= PMEMRPC_MAX_REPLY &&
	       sizes->effects_max <= UINT32_MAX && sizes->memory <= UINT64_C(1) << 56;
}
