/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * execute.c -- a server's calls, one after the other
 *
 * Whoever executes a call has an executor: a worker, or a thread of the pool.  One of them at a
 * time executes the calls of a slot.
 */
#include "execute.h"

#include <stdlib.h>
#include <string.h>

#include "server.h"

/* A call that is executed; its handler sees the first part. */
struct execution {
	struct pmemrpc_request request;
	struct rpc_executor *executor;
};

int rpc_executor_open(struct rpc_executor *executor, struct pmemrpc_server *server)
{
	int ret;

	executor->server = server;
	executor->body = calloc(1, server->store.sizes.ring);
	executor->reply = calloc(1, server->store.sizes.reply_max + 1);
	ret = rpc_transaction_open(&executor->transaction, &server->store);
	if (ret || !executor->body || !executor->reply)
		return rpc_server_fail(server, "memory", -FI_ENOMEM);
	return 0;
}

void rpc_executor_close(struct rpc_executor *executor)
{
	rpc_transaction_close(&executor->transaction);
	free(executor->body);
	free(executor->reply);
}

int rpc_server_execute(struct rpc_executor *executor, unsigned int slot)
{
	struct pmemrpc_server *server = executor->server;
	struct rpc_store *store = &server->store;
	const struct rpc_slot *state = rpc_store_slot(store, slot);
	struct rpc_ring ring = rpc_store_ring(store, slot);
	struct rpc_place place = {state->executed + 1, state->position};
	struct execution execution = {.request = {.sequence = place.sequence,
						  .client = slot,
						  .argument = executor->body + RPC_BODY_HEAD,
						  .reply = executor->reply,
						  .reply_max = store->sizes.reply_max,
						  .server = server},
				      .executor = executor};
	struct pmemrpc_request *request = &execution.request;
	size_t len = rpc_ring_read(&ring, place, executor->body);
	int status, ret;

	if (!len)
		return 0;
	memcpy(&request->op, executor->body, sizeof(request->op));
	request->op = le32toh(request->op);
	request->argument_len = len - RPC_BODY_HEAD;
	status = server->handler(request, server->context);
	if (executor->transaction.full)
		status = executor->transaction.full;
	if (request->reply_len > store->sizes.reply_max) {
		status = -FI_EMSGSIZE;
		request->reply_len = 0;
	}
	if (status < 0)
		rpc_transaction_drop(&executor->transaction);
	ret = rpc_store_executed(store, &executor->transaction, slot, len, status, executor->reply,
				 request->reply_len);
	/* Who comes next sees what this call has changed. */
	if (executor->exclusive)
		pthread_mutex_unlock(&server->exclusive);
	executor->exclusive = false;
	if (ret)
		return rpc_server_fail(server, "the persistent memory", ret);
	server->counters.executed++;
	server->counters.bytes += request->argument_len;
	server->counters.reply_bytes += request->reply_len;
	return 1;
}

int rpc_server_drain(struct rpc_executor *executor, unsigned int slot)
{
	struct pmemrpc_server *server = executor->server;
	int ret = 1;

	while (ret > 0 && rpc_store_slot(&server->store, slot)->used) {
		if (server->stopping)
			return -FI_EAGAIN;
		ret = rpc_server_execute(executor, slot);
		if (ret > 0)
			server->counters.recovered++;
	}
	return ret < 0 ? ret : 0;
}

int pmemrpc_store(struct pmemrpc_request *request, void *place, const void *data, size_t len)
{
	struct execution *execution = (struct execution *) request;

	return rpc_store_change(&request->server->store, &execution->executor->transaction, place,
				data, len);
}

void pmemrpc_exclude(struct pmemrpc_request *request)
{
	struct rpc_executor *executor = ((struct execution *) request)->executor;

	if (!executor->exclusive)
		pthread_mutex_lock(&request->server->exclusive);
	executor->exclusive = true;
}
