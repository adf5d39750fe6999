/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv.h -- a durable key-value store in the memory of a libpmemrpc server
 *
 * The keys are in a skip list, in their order, so that they can be listed from any key on.  Nodes
 * have one size and refer to each other by their offsets.  A call looks at the memory as it is,
 * and hands everything that it changes to store; pmemrpc_store makes that durable together, or
 * nothing of it.  So there is no moment at which the list is wrong, and no recovery of its own.
 *
 * Memory that is all zeros is an empty store.
 */
#ifndef PMEMRPC_KV_H
#define PMEMRPC_KV_H

#include <stddef.h>
#include <stdint.h>

#define KV_KEY_MAX 31U
#define KV_LEVELS 12U

struct kv_key {
	uint8_t len; /* 1 to KV_KEY_MAX; in a scan's argument also 0: from the first key on */
	char bytes[KV_KEY_MAX];
};

/* What a handler is called with. */
enum kv_operation {
	KV_GET = 1, /* key -> value */
	KV_PUT,     /* key, value -> nothing */
	KV_DELETE,  /* key -> nothing */
	KV_SCAN,    /* struct kv_scan -> struct kv_entry and value, for each, one after the other */
};

struct kv_scan {
	struct kv_key from;
	uint32_t count; /* as many, or as the reply has room for */
};

struct kv_entry {
	struct kv_key key;
	uint32_t len; /* of the value behind this, which is padded to 8 bytes */
	uint32_t pad;
};

struct kv {
	char *memory;
	size_t len;
	size_t value_max; /* always the same for one memory */
	/* As pmemrpc_store. */
	int (*store)(void *context, void *place, const void *data, size_t len);
	void *context;
};

/* kv_memory_len -- what so many keys need */
size_t kv_memory_len(uint64_t keys, size_t value_max);

/* kv_effects_max -- what one call may give to store, with 16 bytes for each piece */
size_t kv_effects_max(size_t value_max);

/*
 * kv_handle -- execute a call; nothing of its argument is trusted
 *
 * Nobody may change the memory meanwhile: call pmemrpc_exclude first.  -ENOENT: there is no such
 * key.  -ENOSPC: the memory is full, or the reply too short.  -EINVAL: the argument is wrong.
 */
int kv_handle(struct kv *kv, uint32_t operation, const void *argument, size_t argument_len,
	      void *reply, size_t reply_max, size_t *reply_len);

/*
 * kv_next -- the entry behind this one in a scan's reply (NULL: the first one), or NULL; whatever
 * the reply is, an entry is in it
 */
const struct kv_entry *kv_next(const void *reply, size_t reply_len, const struct kv_entry *entry);

#endif /* PMEMRPC_KV_H */
