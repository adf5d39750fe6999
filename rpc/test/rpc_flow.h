/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc_flow.h -- what rpc_flow.c (the cases), flow_server.c and flow_client.c share
 *
 * The server is a process of its own, which is killed in some cases.
 */
#ifndef RPC_FLOW_H
#define RPC_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pmemrpc.h"

#define TIMEOUT_MS 120000
#define CALLS 1024U

enum op {
	ADD = 1,
	WAIT,     /* at the gate; then as ADD */
	COUNTERS, /* the reply is the server's */
	END,      /* as if a signal had told the server to; then as WAIT */
};

struct reply {
	uint64_t count;
	struct pmemrpc_counters counters;
};

/* What a case wants of the server; 0: none. */
struct flow_sizes {
	unsigned int ring, window, threads, pool, throttle, rate, silence_ms;
};

/* A client, and all its calls: call i is the i-th that this program makes. */
struct caller {
	struct pmemrpc_client *client;
	struct pmemrpc_client_attr attr;
	struct pmemrpc_call calls[CALLS];
	struct reply replies[CALLS];
	unsigned int count;
	uint64_t before; /* calls of earlier lives */
	unsigned int paces[CALLS], num_paces;
	uint64_t flushes; /* that there will be, in a part of a case */
};

extern char *flow_directory, *flow_port;
extern struct flow_sizes flow_sizes;
extern pid_t flow_server;

/* The server inherits these pipes: it says in `flow_arrived` that a call is at the gate. */
extern int flow_gate[2], flow_arrived[2];

/* flow_die -- say what is wrong, and end; flow_check -- do that if it is wrong */
void flow_die(const char *what) __attribute__((noreturn));
void flow_check(bool is_right, const char *what);

/* flow_serve -- be the server, with the numbers that flow_start_server makes; the exit status */
int flow_serve(const char *numbers);

/* flow_start_server -- by flow_sizes; flow_stop_server -- it has to end as it should */
void flow_start_server(void);
void flow_kill_server(void);
void flow_stop_server(void);

/* flow_await_arrival -- a call is at the gate; flow_open_gate -- so many of them go on */
void flow_await_arrival(void);
void flow_open_gate(unsigned int calls);

/* caller_new -- another client, connected; batch: calls that share a flush, 0: the library's choice
 */
struct caller *caller_new(unsigned int batch);

/* caller_connect -- connect, as the identity that it has; caller_reconnect -- after a loss */
void caller_connect(struct caller *caller);
void caller_reconnect(struct caller *caller);
void caller_close(struct caller *caller);

/* caller_try_post -- the error of pmemrpc_post; caller_post -- a call for which there is room */
int caller_try_post(struct caller *caller, enum op op, size_t len);
void caller_post(struct caller *caller, enum op op, size_t len);
void caller_post_many(struct caller *caller, unsigned int count, size_t len);

/* caller_wait -- until all calls so far have this state */
void caller_wait(struct caller *caller, enum pmemrpc_state state);

/* caller_finish -- all calls so far are executed, each once */
void caller_finish(struct caller *caller);

struct pmemrpc_limits caller_limits(const struct caller *caller);

/* caller_counters -- of the server, by a call of this client, which has no others now */
struct pmemrpc_counters caller_counters(struct caller *caller);

#endif /* RPC_FLOW_H */
