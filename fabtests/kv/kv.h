/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv.h -- a key-value store on chains: what is in the target's memory, and what a client does
 *
 * As PRISM-KV has it, an index has slots of a pointer and a bound.  So one READ through a slot
 * finds a record.  A record is never changed where it is: a PUT allocates a buffer, writes the
 * record there, and swings the slot's pointer.  No code of the target's application takes part.
 *
 * - A slot belongs to the key of the first record that it points to, until the target starts anew.
 *   A key is in the first slot that was free, from that of its hash on.  So whoever looks for it
 *   there, and finds neither it nor an empty slot, goes on to the next one, and two clients that
 *   put the same new key meet in the same slot.  A deleted key keeps its slot, and a buffer with a
 *   record that says so.
 * - The version of a record is that of the one before it and 1.  The target adds, and the swing
 *   fails if somebody else was faster.  So versions of a key only grow.  A new key's begins with
 * the number of the target's life, so that it is greater than all before.
 * - A record is durable before the pointer swings, and the pointer before the old buffer is given
 *   back.  So a pointer that is found after a crash points to a whole record.
 * - After a crash the target builds the other one of its two indexes from the last one
 * (kv_store.c). Each buffer that the new index does not use is free.
 *
 * All numbers are in the order of the processor: chains compare and add them.
 */
#ifndef PMEM_KV_H
#define PMEM_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_VALUE_MAX 512U
#define KV_CLIENTS 64U
#define KV_PLACES (2 * KV_CLIENTS) /* of clients, also of those that have gone */
#define KV_SLOTS_A_BUFFER 4U

/* What is in a buffer. */
struct kv_record {
	uint64_t key; /* key and version are what a chain looks at */
	uint64_t version;
	uint64_t check; /* of all but the version, which the target makes */
	uint32_t len;
	uint32_t deleted;
	uint8_t value[KV_VALUE_MAX];
};

#define KV_HEAD_LEN offsetof(struct kv_record, value)
#define KV_BUFFER_SIZE ((sizeof(struct kv_record) + 63) / 64 * 64)

struct kv_slot {
	uint64_t record; /* where peers find it; 0: the slot is empty */
	uint64_t bound;
};

/* What a client is told of the target's memory. */
struct kv_lease {
	uint64_t magic;
	uint64_t key;   /* of the region with index and buffers */
	uint64_t index; /* address of the index there */
	uint64_t slots; /* in it */
	uint64_t life;  /* of the target: how often it has started */
	uint64_t list;  /* of free buffers */
	/* Who this is: no other client of this life has it.  It leaves the place's number when it
	 * is divided by KV_PLACES, and that of nobody is 0. */
	uint64_t client;
};

#define KV_MAGIC UINT64_C(0x31766b6d656d7066)

/* How each client's room begins, in whatever is stored on chains. */
struct kv_stage_head {
	struct kv_lease lease;
	uint64_t busy; /* a chain uses this room, or has been cut off */
};

/*
 * In the target's memory, but not durable: a client's own room for the record that it puts.  It is
 * too long for a chain's operands.
 */
struct kv_stage {
	struct kv_stage_head head;
	/* The chain's own: a buffer that was allocated, until a slot points to it. */
	uint64_t claim;
	uint64_t bound; /* the record's length */
	struct kv_record record;
};

/* In the data of both sides when a connection is made; InfiniBand leaves 31 bytes. */
#define KV_HELLO "pmk1"
#define KV_HELLO_LEN 4U

struct kv_welcome {
	uint64_t addr; /* of the client's struct kv_stage */
	uint64_t key;
	char hello[KV_HELLO_LEN];
};

#define KV_WELCOME_LEN (2 * sizeof(uint64_t) + KV_HELLO_LEN)

/* kv_hash -- where a key begins to look for its slot */
uint64_t kv_hash(uint64_t key);

/* kv_check -- what has to be in kv_record::check; the length has to be in its limits */
uint64_t kv_check(const struct kv_record *record);

/* kv_is_whole -- is it what somebody has put there? */
bool kv_is_whole(const struct kv_record *record);

#endif /* PMEM_KV_H */
