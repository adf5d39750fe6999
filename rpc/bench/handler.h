/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handler.h -- what the server does for a call, the same for each design
 *
 * A handler reaches persistent memory by struct effects: libpmemrpc's transaction, or that of
 * journal.h.
 */
#ifndef BENCH_HANDLER_H
#define BENCH_HANDLER_H

#include "bench.h"

struct effects {
	/* Both as pmemrpc_store and pmemrpc_exclude. */
	int (*store)(struct effects *effects, void *place, const void *data, size_t len);
	void (*exclude)(struct effects *effects);
	char *memory;
	size_t len;
};

struct request {
	uint32_t op;
	const void *argument;
	size_t argument_len;
	void *reply;
	size_t reply_max;
	size_t reply_len;
};

enum operation {
	OP_READ = 1, /* uint64_t index -> object */
	OP_WRITE,    /* uint64_t index, object -> nothing */
	OP_HANDLED,  /* nothing -> uint64_t: how often the handler was called, in all lives */
	OP_KEY = 16, /* kv.h's operations are added to this */
};

/*
 * The memory: this, then objects or a store of keys.  handled is no part of a transaction: a call
 * that is executed twice counts twice.
 */
struct memory_header {
	uint64_t handled;
	char pad[4096 - sizeof(uint64_t)];
};

/* handle -- 0, or the status of a call that has failed */
int handle(const struct settings *settings, struct effects *effects, struct request *request);

#endif /* BENCH_HANDLER_H */
