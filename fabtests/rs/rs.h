/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs.h -- blocks that n = 2f + 1 targets have copies of: what is in a target's memory
 *
 * As PRISM-RS has it, clients carry out the protocol ABD with several writers, and no code of the
 * targets' application takes part.  Each write has a tag, and a target's copy of a block is the one
 * with the greatest tag that has reached the target.  Tags of a copy only grow.
 *
 * - A write asks a majority for the block's tags.  Then it takes a greater one, and sends that and
 *   the value to all, until a majority has it (rs_chain.c).
 * - A read asks a majority for tag and value.  If a majority may not have the greatest tag, the
 *   read sends that, as a write does.
 *
 * Targets lose power, so "has it" means more than in ABD: the target's copy is durable, with this
 * tag or a greater one.  A slot says so (rs_slot::durable), and a read does not believe a tag that
 * is greater than that, even if all have it.
 *
 * A copy is never changed where it is: a chain allocates a buffer, and swings the slot's pointer.
 * So a reader finds a whole record through the pointer.  kv_store.c finds the copies after a
 * crash, and knows which buffers are free.
 */
#ifndef PMEM_RS_H
#define PMEM_RS_H

#include <stdbool.h>

#include "../kv/kv_store.h"

#define RS_BLOCK 512U
/* Room for records that are being written.  Each client needs one, and another one for a while
 * after that. */
#define RS_SPARE (4 * KV_CLIENTS)

/* The number decides, then the writer.  A chain compares it as one number of 16 bytes. */
struct rs_tag {
	uint64_t writer; /* nobody else has it, nor had or will have */
	uint64_t number;
};

/* What is in a buffer. */
struct rs_record {
	struct rs_tag tag;
	uint64_t block;
	uint64_t check; /* of all the rest */
	uint8_t value[RS_BLOCK];
};

#define RS_HEAD_LEN offsetof(struct rs_record, value)

/* A slot has a cache line.  If power is lost each word is old or new: recovery takes tags from
 * records. */
struct rs_slot {
	struct rs_tag tag;
	uint64_t record; /* where peers find it, in no case 0 */
	uint64_t lock;   /* of the protocol with locks only: who has it */
	struct rs_tag durable;
	uint64_t unused[2];
};

/* A client's own room in the target's memory, which is not durable. */
struct rs_stage {
	struct kv_stage_head head;
	uint64_t claim; /* the buffer that nobody needs when the chain ends */
	struct rs_record record;
};

#define RS_HELLO "pmr1"
#define RS_MAGIC UINT64_C(0x317372656d706d66)

extern const struct kv_layout rs_layout;

bool rs_less(const struct rs_tag *tag, const struct rs_tag *other);

/* rs_majority -- of so many targets */
unsigned int rs_majority(unsigned int targets);

/* rs_next -- the tag of a writer's next write, behind the numbers that others and itself have had;
 * number 0: there is none */
struct rs_tag rs_next(uint64_t writer, uint64_t others, uint64_t own);

uint64_t rs_check(const struct rs_record *record);

/* rs_is_whole -- is it what somebody has put there, for this block? */
bool rs_is_whole(const struct rs_record *record, uint64_t block);

#endif /* PMEM_RS_H */
