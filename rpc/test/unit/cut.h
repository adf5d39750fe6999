/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cut.h -- persistent memory that loses power
 *
 * Two images: what programs see, and what is durable.  A word of 8 bytes that was written is
 * dirty until it is made durable, and a power failure keeps any subset of the dirty words.
 */
#ifndef RPC_CUT_H
#define RPC_CUT_H

#include "store.h"

#define CUT_LEN (9U * 4096)

struct cut {
	struct rpc_memory memory;
	_Alignas(64) unsigned char seen[CUT_LEN];
	_Alignas(64) unsigned char durable[CUT_LEN];
	uint16_t dirty[CUT_LEN / 8];
	size_t count;
	/* Called after each write and before words become durable: power may fail now. */
	void (*step)(struct cut *cut);
	/* A mutant: true if this is to be forgotten. */
	bool (*forget_write)(const struct cut *cut, size_t offset);
	bool (*forget_persist)(const struct cut *cut, size_t offset);
};

/* cut_init -- with these contents, all durable */
void cut_init(struct cut *cut, const unsigned char *contents);

/* cut_write, cut_persist -- also for what a peer writes */
void cut_write(struct rpc_memory *memory, void *place, const void *data, size_t len);
int cut_persist(struct rpc_memory *memory, const void *place, size_t len);

/*
 * cut_explore -- calls `image` with what may be left: all subsets, if 2^limit are enough for
 * that, else all without one word, all with only one, and random ones
 */
void cut_explore(const struct cut *cut, unsigned int limit,
		 void (*image)(const unsigned char *contents, void *arg), void *arg);

#endif /* RPC_CUT_H */
