/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv_store.h -- the target's memory: two indexes, and buffers
 *
 * One index is in use.  When the target starts it makes durable what it finds on the first page,
 * which says which one.  It makes the other one from it, and makes that durable.  Then it changes
 * one word, which says which one is in use.  So it may die at any moment.
 * The new index has the pointers that are right for peers now: where they name memory by its
 * virtual address, that is another one in each life.  Deleted keys are not in it.
 */
#ifndef PMEM_KV_STORE_H
#define PMEM_KV_STORE_H

#include "kv.h"

struct kv_store;

enum kv_state { KV_TORN, KV_LIVE, KV_DELETED };

/* What a store's slots and buffers have in them. */
struct kv_layout {
	const char *hello; /* KV_HELLO_LEN bytes: clients of another layout are refused */
	uint64_t magic;
	uint64_t slots; /* for each record that there is room for ... */
	uint64_t spare; /* ... and buffers beside those of the records */
	size_t slot_size;
	size_t pointer; /* where in a slot the record's address is; 0: the slot is empty */
	size_t buffer_size;
	size_t stage_size; /* a client's room, which begins with a struct kv_stage_head */
	/* Where in it, and how many, are addresses of buffers that are its client's own. */
	size_t own;
	unsigned int num_own;
	/* judge -- the record that the slot of that number leads to */
	enum kv_state (*judge)(const void *record, uint64_t number);
	/* put -- into a new index; `number` is that of the record's slot in the old one */
	void (*put)(const struct kv_store *store, void *index, uint64_t number, const void *record);
	/* make -- the record that a slot of a new store has; NULL: slots are empty at first */
	void (*make)(void *record, uint64_t number);
};

extern const struct kv_layout kv_layout;

struct kv_counts {
	uint64_t live;    /* records, of keys that are not deleted */
	uint64_t deleted; /* keys whose buffer says that they are deleted */
	uint64_t torn;    /* slots whose pointer leads to no whole record of their own */
};

struct kv_store {
	const struct kv_layout *layout;
	char *memory;
	uint64_t records; /* that there is room for */
	uint64_t buffers; /* kv_store_start sets this */
	uint64_t peers;   /* the memory's address, as peers know it */
	/* Makes a part of the memory durable: 0 or a negative fi_errno. */
	int (*persist)(void *arg, const void *addr, size_t len);
	void *arg;
	uint8_t *used; /* of each buffer: does the index point to it? */
};

size_t kv_store_len(const struct kv_layout *layout, uint64_t records);

/*
 * kv_store_start -- build the index of a new life; memory of zeros is an empty store.  A negative
 * fi_errno, which has been told: the memory has something else, or something is torn.
 * *found: what was there.
 */
int kv_store_start(struct kv_store *store, struct kv_counts *found);

/* kv_store_count -- what the index in use has; marks the buffers */
void kv_store_count(struct kv_store *store, struct kv_counts *counts);

void kv_store_close(struct kv_store *store);

/* kv_store_peer -- where peers find a record */
uint64_t kv_store_peer(const struct kv_store *store, const void *record);

uint64_t kv_store_life(const struct kv_store *store);
uint64_t kv_store_slots(const struct kv_store *store);

/* These are offsets in the memory. */
uint64_t kv_store_index(const struct kv_store *store);
uint64_t kv_store_buffers(const struct kv_store *store);

#endif /* PMEM_KV_STORE_H */
