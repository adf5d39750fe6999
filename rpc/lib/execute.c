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
	executor->begun = calloc(RPC_PENDING, sizeof(*executor->begun));
	ret = rpc_transaction_open(&executor->transaction, &server->store);
	if (ret || !executor->body || !executor->reply || !executor->begun)
		return rpc_server_fail(server, "memory", -FI_ENOMEM);
	return 0;
}

void rpc_executor_close(struct rpc_executor *executor)
{
	rpc_transaction_close(&executor->transaction);
	free(executor->body);
	free(executor->reply);
	free(executor->begun);
}

/* reads -- is this operation declared to change nothing? */
static bool reads(const struct pmemrpc_server *server, uint32_t op)
{
	for (unsigned int i = 0; i < server->num_readers; i++) {
		if (server->readers[i] == op)
			return true;
	}
	return false;
}

/* begin -- take the head of the body: what the call is, and which replies its client has */
static void begin(struct rpc_executor *executor, struct pmemrpc_request *request)
{
	struct rpc_body_head head;
	uint64_t earlier = request->sequence - 1, window = executor->server->store.sizes.window;

	memcpy(&head, executor->body, sizeof(head));
	head.waiting = le32toh(head.waiting);
	/* It can't be more: make_ready refuses who asks for older ones. */
	if (head.waiting >= window)
		head.waiting = (uint32_t) window - 1;
	rpc_store_has(&executor->server->store, request->client,
		      head.waiting < earlier ? earlier - head.waiting : 0);
	request->op = le32toh(head.op);
	executor->reads = reads(executor->server, request->op);
	executor->answer = NULL;
	/* Behind what was dropped: nothing else is, until this reply is there. */
	if (executor->reads)
		executor->answer = rpc_store_place(&executor->server->store, request->client);
	if (!executor->answer)
		executor->answer = executor->reply;
	request->reply = executor->answer;
}

/* count -- a call that is executed */
static void count(struct pmemrpc_server *server, size_t argument_len, size_t reply_len)
{
	server->counters.executed++;
	server->counters.bytes += argument_len;
	server->counters.reply_bytes += reply_len;
}

/* A call that was begun waits for no others if it excludes them, as they wait for it. */
static bool may_wait(const struct rpc_executor *executor, bool waits)
{
	return waits && !executor->exclusive && executor->num_begun < RPC_PENDING;
}

/* add -- a call to those that wait for a flush */
static int add(struct rpc_executor *executor, const struct pmemrpc_request *request, int status,
	       size_t len)
{
	struct rpc_begun *begun = &executor->begun[executor->num_begun];
	int ret = rpc_store_append(&executor->server->store, &executor->transaction,
				   request->client, len, status, executor->answer,
				   request->reply_len, &begun->pending);

	if (ret)
		return ret;
	begun->argument_len = request->argument_len;
	begun->reply_len = request->reply_len;
	if (!executor->num_begun++)
		executor->since_ns = rpc_now_ns();
	return 2;
}

/*
 * conclude -- the handler has returned: a call that has only read leaves nothing, and any other one
 * is durable, or waits for that: 2
 */
static int conclude(struct rpc_executor *executor, const struct pmemrpc_request *request,
		    int status, size_t len, bool waits)
{
	struct rpc_store *store = &executor->server->store;
	int ret = 0;

	if (status < 0)
		rpc_transaction_drop(&executor->transaction);
	if (!executor->reads || !rpc_store_read(store, request->client, len, status,
						executor->answer, request->reply_len)) {
		if (may_wait(executor, waits))
			return add(executor, request, status, len);
		ret = rpc_store_executed(store, &executor->transaction, request->client, len,
					 status, executor->answer, request->reply_len);
	}
	if (ret)
		return ret;
	count(executor->server, request->argument_len, request->reply_len);
	return 1;
}

/* deny -- its client may not call that */
static int deny(struct pmemrpc_server *server, const struct pmemrpc_request *request)
{
	const char *name = server->work ? server->work[request->client].rights.name : "";

	server->counters.denied++;
	rpc_server_say(server, "client %u (%s) may only read, and has called operation %u",
		       request->client, *name ? name : "before this server began", request->op);
	return -FI_EACCES;
}

/* call -- the handler, and check what it has done; returns the call's status */
static int call(struct rpc_executor *executor, struct pmemrpc_request *request)
{
	struct pmemrpc_server *server = executor->server;
	int status;

	if (rpc_store_slot(&server->store, request->client)->reads_only && !executor->reads) {
		/* It changes nothing, the second time either: the slot's right becomes another one
		 * only together with the watermark (rpc_store_greet). */
		executor->reads = true;
		return deny(server, request);
	}
	status = server->handler(request, server->context);
	if (executor->transaction.full)
		status = executor->transaction.full;
	if (request->reply_len > server->store.sizes.reply_max) {
		status = -FI_EMSGSIZE;
		request->reply_len = 0;
	}
	return status;
}

static int execute(struct rpc_executor *executor, unsigned int slot, bool waits)
{
	struct pmemrpc_server *server = executor->server;
	struct rpc_store *store = &server->store;
	const struct rpc_slot *state = rpc_store_slot(store, slot);
	struct rpc_ring ring = rpc_store_ring(store, slot);
	struct rpc_place place = {state->executed + 1, state->position};
	struct execution execution = {.request = {.sequence = place.sequence,
						  .client = slot,
						  .argument = executor->body + RPC_BODY_HEAD,
						  .reply_max = store->sizes.reply_max,
						  .server = server},
				      .executor = executor};
	struct pmemrpc_request *request = &execution.request;
	size_t len = rpc_ring_read(&ring, place, executor->body);
	int status, ret;

	if (!len)
		return 0;
	begin(executor, request);
	request->argument_len = len - RPC_BODY_HEAD;
	status = call(executor, request);
	ret = conclude(executor, request, status, len, waits);
	/* Who comes next sees what this call has changed. */
	if (executor->exclusive)
		pthread_mutex_unlock(&server->exclusive);
	executor->exclusive = false;
	return ret < 0 ? rpc_server_fail(server, "the persistent memory", ret) : ret;
}

int rpc_server_execute(struct rpc_executor *executor, unsigned int slot)
{
	return execute(executor, slot, false);
}

int rpc_server_begin(struct rpc_executor *executor, unsigned int slot)
{
	return execute(executor, slot, true);
}

int rpc_server_flush(struct rpc_executor *executor)
{
	struct pmemrpc_server *server = executor->server;
	unsigned int begun = executor->num_begun;
	int64_t start_ns = begun ? rpc_now_ns() : 0;
	int ret = 0;

	executor->num_begun = 0;
	/* The first flush takes all of them. */
	for (unsigned int i = 0; !ret && i < begun; i++) {
		const struct rpc_begun *call = &executor->begun[i];

		ret = rpc_store_wait(&server->store, &call->pending);
		if (!ret)
			count(server, call->argument_len, call->reply_len);
	}
	if (begun)
		executor->flush_ns = rpc_now_ns() - start_ns;
	if (ret)
		executor->failed = rpc_server_fail(server, "the persistent memory", ret);
	return executor->failed;
}

bool rpc_server_is_due(const struct rpc_executor *executor)
{
	return executor->num_begun && (executor->num_begun == RPC_PENDING ||
				       rpc_now_ns() - executor->since_ns >= executor->flush_ns);
}

int rpc_server_drain(struct rpc_executor *executor, unsigned int slot)
{
	struct pmemrpc_server *server = executor->server;
	int ret = rpc_server_flush(executor) ? executor->failed : 1;

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
	struct rpc_executor *executor = ((struct execution *) request)->executor;

	if (executor->reads) {
		executor->transaction.full = -FI_EACCES;
		return -FI_EACCES;
	}
	return rpc_store_change(&request->server->store, &executor->transaction, place, data, len);
}

void pmemrpc_exclude(struct pmemrpc_request *request)
{
	struct rpc_executor *executor = ((struct execution *) request)->executor;

	if (executor->exclusive)
		return;
	/* What this thread has begun.  Its clients are told at the next flush, also of an error. */
	rpc_server_flush(executor);
	pthread_mutex_lock(&request->server->exclusive);
	executor->exclusive = true;
}
