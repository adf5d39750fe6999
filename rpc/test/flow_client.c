/* SPDX-License-Identifier: BSD-2-Clause */
/* flow_client.c -- the clients of rpc_flow: each checks that its calls are executed once */
#include "rpc_flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void on_pace(unsigned int calls, void *context)
{
	struct caller *caller = context;

	if (caller->num_paces < CALLS)
		caller->paces[caller->num_paces++] = calls;
}

void caller_connect(struct caller *caller)
{
	struct pmemrpc_limits limits;
	char error[256];

	if (pmemrpc_connect(&caller->attr, &caller->client, error, sizeof(error)))
		flow_die(error);
	pmemrpc_get_limits(caller->client, &limits);
	caller->before = limits.executed;
	caller->count = 0;
	memset(caller->calls, 0, sizeof(caller->calls));
}

struct caller *caller_new(unsigned int batch)
{
	struct caller *caller = calloc(1, sizeof(*caller));

	if (!caller || getrandom(caller->attr.id, sizeof(caller->attr.id), 0) < 0)
		flow_die("no memory, or no random numbers");
	caller->attr.node = "127.0.0.1";
	caller->attr.service = flow_port;
	caller->attr.timeout_ms = TIMEOUT_MS;
	caller->attr.batch = batch;
	caller->attr.paced = on_pace;
	caller->attr.context = caller;
	caller_connect(caller);
	return caller;
}

void caller_close(struct caller *caller)
{
	pmemrpc_close(caller->client);
	free(caller);
}

int caller_try_post(struct caller *caller, enum op op, size_t len)
{
	static const unsigned char argument[4096];
	struct pmemrpc_call *call = &caller->calls[caller->count];
	int ret;

	flow_check(caller->count < CALLS, "too many calls");
	*call = (struct pmemrpc_call){.op = op,
				      .argument = argument,
				      .argument_len = len,
				      .reply = &caller->replies[caller->count],
				      .reply_size = sizeof(struct reply)};
	ret = pmemrpc_post(caller->client, call);
	caller->count += !ret;
	return ret;
}

void caller_post(struct caller *caller, enum op op, size_t len)
{
	if (caller_try_post(caller, op, len))
		flow_die("there is no room for a call");
}

void caller_post_many(struct caller *caller, unsigned int count, size_t len)
{
	while (count--)
		caller_post(caller, ADD, len);
}

void caller_wait(struct caller *caller, enum pmemrpc_state state)
{
	for (unsigned int i = 0; i < caller->count; i++) {
		if (pmemrpc_wait(caller->client, &caller->calls[i], state, TIMEOUT_MS))
			flow_die(pmemrpc_client_error(caller->client));
	}
}

void caller_finish(struct caller *caller)
{
	caller_wait(caller, PMEMRPC_EXECUTED);
	for (unsigned int i = 0; i < caller->count; i++) {
		if (!caller->calls[i].status &&
		    caller->replies[i].count == caller->before + i + 1 &&
		    caller->calls[i].sequence == caller->before + i + 1)
			continue;
		fprintf(stderr, "rpc_flow: call %u after %llu: %llu, status %d\n", i + 1,
			(unsigned long long) caller->before,
			(unsigned long long) caller->replies[i].count, caller->calls[i].status);
		flow_die("a call was executed twice, or in the wrong order");
	}
}

struct pmemrpc_limits caller_limits(const struct caller *caller)
{
	struct pmemrpc_limits limits;

	pmemrpc_get_limits(caller->client, &limits);
	return limits;
}

struct pmemrpc_counters caller_counters(struct caller *caller)
{
	caller_post(caller, COUNTERS, 0);
	caller_finish(caller);
	return caller->replies[caller->count - 1].counters;
}

void caller_reconnect(struct caller *caller)
{
	if (pmemrpc_reconnect(caller->client, TIMEOUT_MS))
		flow_die(pmemrpc_client_error(caller->client));
}
