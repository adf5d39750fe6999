/* SPDX-License-Identifier: BSD-2-Clause */
/* serve_pmemrpc.c -- the server by libpmemrpc's public functions */
#include <stdio.h>

#include "call.h"
#include "handler.h"
#include "pmemrpc.h"
#include "programs/kv.h"

static struct pmemrpc_server *server;

/* A call's effects are the library's transaction. */
struct pmemrpc_effects {
	struct effects effects; /* first */
	struct pmemrpc_request *request;
};

static int store(struct effects *effects, void *place, const void *data, size_t len)
{
	return pmemrpc_store(((struct pmemrpc_effects *) effects)->request, place, data, len);
}

static void exclude(struct effects *effects)
{
	pmemrpc_exclude(((struct pmemrpc_effects *) effects)->request);
}

static int execute(struct pmemrpc_request *from, void *context)
{
	struct pmemrpc_effects effects = {.effects = {.store = store, .exclude = exclude},
					  .request = from};
	struct request request = {.op = from->op,
				  .argument = from->argument,
				  .argument_len = from->argument_len,
				  .reply = from->reply,
				  .reply_max = from->reply_max};
	int status;

	effects.effects.memory = pmemrpc_memory(from->server, &effects.effects.len);
	status = handle(context, &effects.effects, &request);
	from->reply_len = request.reply_len;
	return status;
}

static void stop(void)
{
	pmemrpc_server_stop(server);
}

int serve_pmemrpc(const struct settings *settings)
{
	static const uint32_t readers[] = {OP_READ, OP_HANDLED, OP_KEY + KV_GET, OP_KEY + KV_SCAN};
	const struct pmemrpc_server_attr attr = {
		.path = settings->memory,
		.service = settings->port,
		.clients = settings->clients,
		.ring = pmemrpc_ring(settings),
		.window = pmemrpc_window(settings),
		.reply_max = settings->reply_max,
		.effects_max = settings->effects_max,
		.memory = settings->memory_len,
		.readers = readers,
		.num_readers = sizeof(readers) / sizeof(readers[0]),
		.threads = settings->threads,
		.spin_us = settings->spin ? PMEMRPC_ALWAYS : 0,
		.handler = execute,
		.context = (void *) (uintptr_t) settings,
	};
	struct pmemrpc_counters counters;
	char error[1024];
	size_t len = 0;
	int ret;

	if (pmemrpc_server_open(&attr, &server, error, sizeof(error)))
		return bench_fail("%s", error);
	bench_populate(pmemrpc_memory(server, &len), len);
	bench_end_on_signal(stop);
	printf("fi_pmem_rpc_bench: waiting on port %s\n", settings->port);
	fflush(stdout);
	ret = pmemrpc_server_run(server);
	pmemrpc_server_counters(server, &counters);
	if (ret || counters.refused)
		bench_fail("%s", pmemrpc_server_error(server));
	printf("fi_pmem_rpc_bench: %llu calls executed, %llu of them without their client\n",
	       (unsigned long long) counters.executed, (unsigned long long) counters.recovered);
	/* stop would use a server that is about to go. */
	bench_end_on_signal(NULL);
	pmemrpc_server_close(server);
	return ret ? -1 : 0;
}
