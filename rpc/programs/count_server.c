/* SPDX-License-Identifier: BSD-2-Clause */
/* count_server.c -- the server of fi_pmem_rpc: it keeps a counter for each client, and one of all
 */
#include "fi_pmem_rpc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pmemrpc_server *server;
static void on_end(int signo)
{
	(void) signo;
	pmemrpc_server_stop(server);
}

/* end_on_signal -- after what libfabric loads has installed handlers */
static void end_on_signal(void)
{
	struct sigaction action = {.sa_handler = on_end};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

/* ignore_signals -- it ends already, soon; on_end would use a server that is about to go */
static void ignore_signals(void)
{
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
}

/* reply_with -- a number */
static int reply_with(struct pmemrpc_request *request, uint64_t value)
{
	memcpy(request->reply, &value, sizeof(value));
	request->reply_len = sizeof(value);
	return 0;
}

/* count -- the handler */
static int count(struct pmemrpc_request *request, void *context)
{
	const struct settings *settings = context;
	const unsigned char *argument = request->argument;
	uint64_t *counters, *total, value;
	size_t len;

	if (request->op < ADD || request->op > LOOK || request->reply_max < sizeof(value))
		return -EINVAL;
	for (size_t i = 0; i < request->argument_len; i++) {
		if (argument[i] != count_pattern(request->sequence, i))
			return -EBADMSG;
	}
	counters = pmemrpc_memory(request->server, &len);
	total = counters + settings->clients;
	/* Calls of other clients change the total at the same time. */
	if (request->op == LOOK)
		return reply_with(request, counters[request->client]);
	if (request->op != ADD)
		pmemrpc_exclude(request);
	if (request->op == TOTAL)
		return reply_with(request, *total);
	if (request->op == ADD_ALL) {
		value = *total + 1;
		pmemrpc_store(request, total, &value, sizeof(value));
	}
	/* A ring's first call: what was counted before was somebody else's. */
	value = request->sequence == 1 ? 1 : counters[request->client] + 1;
	reply_with(request, value);
	return pmemrpc_store(request, &counters[request->client], &value, sizeof(value));
}

static void print_counters(void)
{
	struct pmemrpc_counters counters;

	pmemrpc_server_counters(server, &counters);
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{"calls that are executed", counters.executed},
		{"without their client", counters.recovered},
		{"calls that wait", counters.waiting},
		{"flushes", counters.notices},
		{"of several calls", counters.batches},
		{"bytes of arguments", counters.bytes},
		{"bytes of replies", counters.reply_bytes},
		{"connections", counters.connections},
		{"now", counters.clients},
		{"refused", counters.refused},
		{"calls that are not allowed", counters.denied},
		{"times too slow", counters.throttled},
		{"now", counters.slow},
		{"times that a client's rate was too high", counters.limited},
		{"threads", counters.threads},
		{"of the pool", counters.pool},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		printf("fi_pmem_rpc: %12llu %s\n", (unsigned long long) rows[i].value,
		       rows[i].name);
	fflush(stdout);
}

/* print_end -- what the server has done in its life; ret is what pmemrpc_server_run returned */
static void print_end(int ret)
{
	struct pmemrpc_counters counters;

	print_counters();
	pmemrpc_server_counters(server, &counters);
	if (counters.refused || ret)
		fprintf(stderr, "fi_pmem_rpc: %s\n", pmemrpc_server_error(server));
	printf("fi_pmem_rpc: %llu calls, %llu of them without their client; %llu connections, "
	       "%llu refused\n",
	       (unsigned long long) counters.executed, (unsigned long long) counters.recovered,
	       (unsigned long long) counters.connections, (unsigned long long) counters.refused);
}

static atomic_bool ends;

/* print_on_signal -- a thread of its own: SIGUSR1 is blocked everywhere */
static void *print_on_signal(void *arg)
{
	const sigset_t *signals = arg;
	int signo;

	while (!sigwait(signals, &signo) && !atomic_load(&ends))
		print_counters();
	return NULL;
}

/* end_printer -- not by pthread_cancel: that loads a library, and aborts without a descriptor */
static void end_printer(pthread_t printer)
{
	atomic_store(&ends, true);
	pthread_kill(printer, SIGUSR1);
	pthread_join(printer, NULL);
}

static const uint32_t readers[] = {TOTAL, LOOK};

/* complain -- to the journal, perhaps */
static void complain(const char *sentence, void *context)
{
	(void) context;
	fprintf(stderr, "fi_pmem_rpc: %s\n", sentence);
}

int count_serve(const struct settings *settings)
{
	const struct pmemrpc_server_attr attr = {
		.path = settings->memory,
		.service = settings->port,
		.clients = settings->clients,
		.ring = settings->ring,
		.window = WINDOW,
		.reply_max = sizeof(uint64_t),
		.effects_max = 64,
		.memory = (settings->clients + 1) * sizeof(uint64_t),
		.readers = readers,
		.num_readers = sizeof(readers) / sizeof(readers[0]),
		.threads = settings->threads,
		.pool = settings->pool,
		.throttle = settings->throttle,
		.rate = settings->rate,
		.silence_ms = settings->silence_ms,
		.rings_per_peer = settings->rings_per_peer,
		.spin_us = settings->spin_us,
		.handler = count,
		.complain = complain,
		.context = (void *) (uintptr_t) settings,
	};
	pthread_t printer;
	sigset_t signals;
	struct pmemrpc_counters counters;
	char error[1024];
	int ret;

	/* Before there are other threads. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	ret = pmemrpc_server_open(&attr, &server, error, sizeof(error));
	if (ret) {
		fprintf(stderr, "fi_pmem_rpc: %s\n", error);
		return EXIT_FAILURE;
	}
	end_on_signal();
	ret = pthread_create(&printer, NULL, print_on_signal, &signals);
	if (ret) {
		fprintf(stderr, "fi_pmem_rpc: pthread_create: %s\n", strerror(ret));
		ignore_signals();
		pmemrpc_server_close(server);
		return EXIT_FAILURE;
	}
	pmemrpc_server_counters(server, &counters);
	printf("fi_pmem_rpc: %llu calls executed that were left from before\n"
	       "fi_pmem_rpc: waiting on port %s\n",
	       (unsigned long long) counters.recovered, settings->port);
	fflush(stdout);
	ret = pmemrpc_server_run(server);
	end_printer(printer);
	print_end(ret);
	ignore_signals();
	pmemrpc_server_close(server);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
