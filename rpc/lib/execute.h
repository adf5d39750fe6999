/* SPDX-License-Identifier: BSD-2-Clause */
/* execute.h -- a server's calls, one after the other */
#ifndef RPC_EXECUTE_H
#define RPC_EXECUTE_H

#include "pmemrpc.h"
#include "store.h"

/* What a thread needs to execute a call. */
struct rpc_executor {
	struct pmemrpc_server *server;
	struct rpc_transaction transaction;
	bool exclusive;      /* the call that is executed excludes others */
	bool reads;          /* it was declared to change nothing */
	unsigned char *body; /* of that call: a copy */
	unsigned char *reply;
};

/* rpc_executor_open -- one that is all zeros can be closed */
int rpc_executor_open(struct rpc_executor *executor, struct pmemrpc_server *server);
void rpc_executor_close(struct rpc_executor *executor);

/* rpc_server_execute -- the next call of a slot: 1, 0: there is none; an error is the server's end
 */
int rpc_server_execute(struct rpc_executor *executor, unsigned int slot);

/*
 * rpc_server_drain -- execute all that is valid, without the client.  -FI_EAGAIN: the server ends,
 * and something may be left
 */
int rpc_server_drain(struct rpc_executor *executor, unsigned int slot);

#endif /* RPC_EXECUTE_H */
