/* SPDX-License-Identifier: BSD-2-Clause */
/* call.h -- a client's calls, by a design or by libpmemrpc */
#ifndef BENCH_CALL_H
#define BENCH_CALL_H

#include "bench.h"

struct call {
	uint32_t op;
	const void *argument; /* copied when it is posted */
	size_t argument_len;
	void *reply; /* NULL: of no interest */
	size_t reply_len;
	int status;
	bool acknowledged; /* what the caller waits for: durable, or replied to */
	bool executed;     /* replied to */
	bool awaited;      /* not acknowledged yet */

	/* The client's. */
	void *buffer; /* for replies */
	uint64_t index;
	uint64_t sequence;
	int64_t began;
	unsigned int kind;
};

struct caller;

struct caller_ops {
	/* call_open -- connect; tries until there is a server, for the settings' patience */
	int (*open)(struct caller **caller, const struct settings *settings, unsigned int client);
	/* more: another call is posted at once.  -FI_EAGAIN: no room; -FI_ENOTCONN. */
	int (*post)(struct caller *caller, struct call *call, bool more);
	/* > 0: something has happened; 0; -FI_ENOTCONN */
	int (*progress)(struct caller *caller);
	/* Sleep, or yield, while nothing happens. */
	void (*rest)(struct caller *caller);
	/* Connect again; what has to be sent again is. */
	int (*reconnect)(struct caller *caller);
	void (*close)(struct caller *caller);
};

struct caller {
	const struct caller_ops *ops;
	const struct settings *settings;
	unsigned int capacity; /* calls that may wait for their replies */
	uint64_t sent_again;
	/* Called by progress and reconnect, when a flag of a call has changed. */
	void (*changed)(struct call *call, void *context);
	void *context;
};

extern const struct caller_ops call_design, call_pmemrpc;

/* What libpmemrpc's server needs so that a client can have all its calls under way. */
unsigned int pmemrpc_window(const struct settings *settings);
size_t pmemrpc_ring(const struct settings *settings);

#endif /* BENCH_CALL_H */
