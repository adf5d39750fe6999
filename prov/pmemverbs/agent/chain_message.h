/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chain_message.h -- a chain: steps that the agent executes one after the other
 *
 * It stands in a flush message (flush_message.h) in the place of data to store, so all that the
 * message names is flushed before it.
 *
 *    0  u8   number of steps, at most 16
 *    1  u8   the slot of the reply (wire.h), at most 7
 *    2  u16  0
 *    4  steps, without gaps:
 *
 *    0  u8   what it does: enum pmv_chain_kind
 *    1  u8   of a CAS, how it compares: enum pmv_chain_compare
 *    2  u16  enum pmv_chain_flag
 *    4  u24  length
 *    7  u2   first word of the scratch area for the result
 *       u2   ... that the operand is taken from
 *       u2   ... the expected value
 *       u2   ... the address
 *    8  u64  address; with PMV_CHAIN_AT_SCRATCH, what is added to the one in the scratch area
 *   16  u32  the core's key of the region there
 *   20  u32  the core's key of the region that the pointer there points into; of an allocation, or
 *            of what gives a buffer back, the number of the list
 *   24  the expected value of a CAS, unless it is in the scratch area
 *    .  the operand, unless it is there; or u64 address and u32 key of where it is
 *    .  of a CAS: the mask of what is compared, if it has one
 *    .  ... and of what is swapped
 *    .  with PMV_CHAIN_LARGE, u64 address and u32 key of the sender's memory for the result
 *
 * An operand has the length of the step.  The decoder checks everything that needs no memory, so
 * whoever executes a chain looks for regions only.
 *
 * Reply: the results of the steps.  Each has as much room as the step asks for, in their order.
 * Large ones are not among them: they were written to the places that the steps name.
 */
#ifndef PMV_CHAIN_MESSAGE_H
#define PMV_CHAIN_MESSAGE_H

#include "agent/wire.h"

#define PMV_CHAIN_SCRATCH 32
#define PMV_CHAIN_WORD 8
#define PMV_CHAIN_CAS 32
#define PMV_CHAIN_LARGE_ROOM 65536 /* for all large results of a chain */

/* The values are sent, and are those of fi_ext_pmemverbs.h: never renumber. */
enum pmv_chain_kind {
	PMV_CHAIN_READ = 1,
	PMV_CHAIN_WRITE = 2,
	PMV_CHAIN_COMPARE_SWAP = 3,
	PMV_CHAIN_FETCH_ADD = 4,
	PMV_CHAIN_ALLOCATE = 5,
	PMV_CHAIN_FREE = 6,
};

/* The memory, on the left, with the expected value. */
enum pmv_chain_compare {
	PMV_CHAIN_EQ = 0,
	PMV_CHAIN_NE = 1,
	PMV_CHAIN_LT = 2,
	PMV_CHAIN_LE = 3,
	PMV_CHAIN_GT = 4,
	PMV_CHAIN_GE = 5,
};

enum pmv_chain_flag {
	PMV_CHAIN_INDIRECT = 1 << 0,
	PMV_CHAIN_BOUNDED = 1 << 1,
	PMV_CHAIN_CONDITIONAL = 1 << 2,
	PMV_CHAIN_REDIRECT = 1 << 3,
	PMV_CHAIN_COMMIT = 1 << 4,
	PMV_CHAIN_AT_SCRATCH = 1 << 5,
	PMV_CHAIN_FROM_SCRATCH = 1 << 6,
	PMV_CHAIN_FROM_MEMORY = 1 << 7,
	PMV_CHAIN_EXPECT_SCRATCH = 1 << 8,
	PMV_CHAIN_MASK_COMPARE = 1 << 9,
	PMV_CHAIN_MASK_SWAP = 1 << 10,
	PMV_CHAIN_LARGE = 1 << 11,
};

/* What has become of a step. */
enum pmv_chain_status {
	PMV_CHAIN_OK = 0,
	PMV_CHAIN_FAILED = 1,      /* a CAS whose comparison has failed */
	PMV_CHAIN_NULL = 2,        /* the pointer was 0 */
	PMV_CHAIN_EMPTY = 3,       /* the list has no buffer to give out */
	PMV_CHAIN_SKIPPED = 4,     /* the step before did not succeed */
	PMV_CHAIN_REFUSED = 5,     /* no such memory, or not for that; the chain ends */
	PMV_CHAIN_LOST = 6,        /* the medium failed; the chain ends */
	PMV_CHAIN_NOT_REACHED = 7, /* the chain has ended before */
};

/* A step as it is sent. */
struct pmv_chain_head {
	uint8_t kind;
	uint8_t compare;
	uint16_t flags;
	uint32_t len : 24;
	uint32_t to : 2;
	uint32_t from : 2;
	uint32_t expect : 2;
	uint32_t at : 2;
	uint64_t addr;
	uint32_t key;
	uint32_t to_key;
};

/* ... and what follows it.  What it does not have is NULL. */
struct pmv_chain_step {
	struct pmv_chain_head head;
	const uint8_t *expected, *operand, *compare_mask, *swap_mask;
	uint64_t from_addr;
	uint64_t result_addr;
	uint32_t from_key;
	uint32_t result_key;
	uint32_t result_at;  /* in the reply, or among the large ones */
	uint16_t result_len; /* 0 of a large one */
};

struct pmv_chain {
	unsigned int count;
	unsigned int reply;       /* the slot */
	unsigned int results_len; /* of all steps */
	unsigned int large_len;   /* ... of large ones */
	unsigned int commits;     /* so many, at most */
	struct pmv_chain_step steps[PMV_CHAIN_STEPS];
};

/* pmv_chain_encode -- returns the length, or 0: there is no room */
size_t pmv_chain_encode(uint8_t *buf, size_t room, const struct pmv_chain *chain);

/* pmv_chain_decode -- false: it is malformed.  The steps point into the buffer. */
bool pmv_chain_decode(const uint8_t *buf, size_t len, struct pmv_chain *chain);

/* pmv_chain_reply_size -- of a chain that is valid */
static inline struct pmv_reply_size pmv_chain_reply_size(const struct pmv_chain *chain)
{
	return (struct pmv_reply_size){chain->count, chain->results_len};
}

/* pmv_chain_commits_behind -- is what a step stores to become durable? */
bool pmv_chain_commits_behind(const struct pmv_chain *chain, unsigned int step);

#endif /* PMV_CHAIN_MESSAGE_H */
