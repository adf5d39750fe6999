/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_chain.h -- what the files of the client share */
#ifndef PMEM_KV_CHAIN_H
#define PMEM_KV_CHAIN_H

#include "../common/steps.h"
#include "kv_client.h"

/*
 * The chain that replaces a record has all steps, and that of a new key the first one, and those
 * from ALLOCATE on, without FREE_OLD.
 */
enum {
	KV_STEP_BUSY,     /* the stage is in use ... */
	KV_STEP_SLOT,     /* words 2, 3 = pointer, bound */
	KV_STEP_HEAD,     /* words 0, 1 = key, version of the record there */
	KV_STEP_KEY,      /* is it the stage's key? */
	KV_STEP_VERSION,  /* the stage's version = word 1 */
	KV_STEP_NEXT,     /* ... and 1 */
	KV_STEP_ALLOCATE, /* word 0 = a buffer with the stage's head in it */
	KV_STEP_CLAIM,
	KV_STEP_VALUE,
	KV_STEP_BOUND, /* word 1 = the new bound */
	KV_STEP_SWING, /* words 2, 3 -> words 0, 1 */
	KV_STEP_UNCLAIM,
	KV_STEP_FREE_OLD, /* at word 2 */
	KV_STEP_FAILED,   /* word 0 = the claim, if there is one still */
	KV_STEP_FREE_NEW, /* at word 0 */
	KV_STEP_IDLE,     /* ... and is not any more */
	KV_STEPS,
};

/* kv_run -- post client->steps as a chain, and wait for its end */
int kv_run(struct kv_client *client, size_t count);

/* kv_post_write -- of the client's memory; the caller waits for what comes behind it */
int kv_post_write(struct kv_client *client, void *from, size_t len, uint64_t addr, uint64_t key,
		  uint64_t flags);

/* kv_read -- into the client's memory */
int kv_read(struct kv_client *client, void *to, size_t len, uint64_t addr, uint64_t key);

/* kv_await -- of the one that was posted with FI_COMPLETION */
int kv_await(struct kv_client *client);

/* kv_slot_at -- the address of a slot; numbers beyond the last one begin anew */
uint64_t kv_slot_at(const struct kv_client *client, uint64_t number);

/* kv_stage -- write a record to the client's stage at the target */
int kv_stage(struct kv_client *client, uint64_t key, size_t len, bool deleted);

/* kv_make_replace -- the chain that puts the stage's record into a slot, instead of one of its key;
 * *old: its version */
void kv_make_replace(struct kv_client *client, uint64_t slot, size_t len, uint64_t *old);

/* kv_insert -- into a slot that was empty: 0, -FI_EAGAIN if it is not any more, or an error */
int kv_insert(struct kv_client *client, uint64_t slot, size_t len);

#endif /* PMEM_KV_CHAIN_H */
