/* SPDX-License-Identifier: BSD-2-Clause */
/* execute.h -- a server's calls, one after the other */
#ifndef RPC_EXECUTE_H
#define RPC_EXECUTE_H

#include "pmemrpc.h"
#include "store.h"

/* Calls of different slots that may share a flush. */
#define RPC_PENDING 16U

/* A call that waits for its flush, and what will be counted then. */
struct rpc_begun {
	struct rpc_pending pending;
	size_t argument_len, reply_len;
};

/* What a thread needs to execute a call. */
struct rpc_executor {
	struct pmemrpc_server *server;
	struct rpc_transaction transaction;
	bool exclusive;          /* the call that is executed excludes others */
	bool reads;              /* it was declared to change nothing */
	unsigned char *body;     /* of that call: a copy */
	unsigned char *reply;    /* of one that may change something */
	unsigned char *answer;   /* where its handler makes the reply */
	struct rpc_begun *begun; /* RPC_PENDING of them */
	unsigned int num_begun;
	int failed;       /* why some of these never became durable */
	int64_t since_ns; /* when the first of these was */
	int64_t flush_ns; /* how long the last flush took that was measured */
};

/* rpc_executor_open -- one that is all zeros can be closed */
int rpc_executor_open(struct rpc_executor *executor, struct pmemrpc_server *server);
void rpc_executor_close(struct rpc_executor *executor);

/* rpc_server_execute -- the next call of a slot: 1, 0: there is none; an error is the server's end
 */
int rpc_server_execute(struct rpc_executor *executor, unsigned int slot);

/*
 * rpc_server_begin -- the same, but if it has changed something it may be 2: it waits for a flush,
 * together with calls of other slots that are begun.  Until rpc_server_flush nobody may use its
 * slot.
 */
int rpc_server_begin(struct rpc_executor *executor, unsigned int slot);

/* rpc_server_flush -- all calls that are begun; 0, or an error, which is the server's end */
int rpc_server_flush(struct rpc_executor *executor);

/* rpc_server_is_due -- they have waited for as long as the last flush took */
bool rpc_server_is_due(const struct rpc_executor *executor);

/*
 * rpc_server_drain -- execute all that is valid, without the client.  -FI_EAGAIN: the server ends,
 * and something may be left
 */
int rpc_server_drain(struct rpc_executor *executor, unsigned int slot);

#endif /* RPC_EXECUTE_H */
