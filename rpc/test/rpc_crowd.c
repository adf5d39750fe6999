/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc_crowd.c -- many clients of fi_pmem_rpc's server at the same time
 *
 * Half of them send their calls.  Each has a connection, makes its calls, a few at a time, and
 * checks that the reply to call number n is n.  All are connected before the first one calls.  The
 * calls also add to a counter of all clients, which has to be right in the end: for a new store.
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "../../util/number.h"
#include "pmemrpc.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

const char *argp_program_version = "rpc_crowd of pmemverbs " PACKAGE_VERSION;

/* As fi_pmem_rpc.c has them. */
#define ADD_ALL 2U
#define TOTAL 3U
#define DEPTH 4U
#define TIMEOUT_MS 600000

struct member {
	struct pmemrpc_client *client;
	struct pmemrpc_call calls[DEPTH];
	uint64_t replies[DEPTH];
	unsigned long posted, executed;
};

static __attribute__((noreturn)) void die(const char *what)
{
	fprintf(stderr, "rpc_crowd: %s\n", what);
	exit(EXIT_FAILURE);
}

/* refuse_long -- an argument that is too long by one byte */
static void refuse_long(struct pmemrpc_client *client)
{
	struct pmemrpc_limits limits;
	struct pmemrpc_call call = {.op = ADD_ALL};

	pmemrpc_get_limits(client, &limits);
	call.argument_len = limits.argument_max + 1;
	if (pmemrpc_post(client, &call) != -EMSGSIZE)
		die("a call is accepted that is too long");
}

/* join -- every second one sends its calls */
static void join(struct member *member, const char *host, const char *port, bool sends)
{
	struct pmemrpc_client_attr attr = {.node = host,
					   .service = port,
					   .timeout_ms = TIMEOUT_MS,
					   .transport = sends ? PMEMRPC_SEND : PMEMRPC_WRITE};
	char error[256];

	if (getrandom(attr.id, sizeof(attr.id), 0) != sizeof(attr.id))
		die("no random numbers");
	if (pmemrpc_connect(&attr, &member->client, error, sizeof(error)))
		die(error);
	refuse_long(member->client);
}

/* check -- replies that are there */
static void check(struct member *member)
{
	while (member->executed < member->posted) {
		unsigned int i = member->executed % DEPTH;
		const struct pmemrpc_call *call = &member->calls[i];

		if (call->state != PMEMRPC_EXECUTED)
			return;
		if (call->status || member->replies[i] != ++member->executed)
			die("a reply is wrong");
	}
}

/* advance -- true: it has all replies */
static int advance(struct member *member, unsigned long count)
{
	int ret = pmemrpc_progress(member->client);

	check(member);
	while (!ret && member->posted < count && member->posted - member->executed < DEPTH) {
		unsigned int i = member->posted % DEPTH;

		member->calls[i] = (struct pmemrpc_call){.op = ADD_ALL,
							 .reply = &member->replies[i],
							 .reply_size = sizeof(member->replies[i])};
		ret = pmemrpc_post(member->client, &member->calls[i]);
		member->posted += !ret;
	}
	if (ret && ret != -EAGAIN)
		die(pmemrpc_client_error(member->client));
	return member->executed == count;
}

/* check_total -- what all of them have added */
static void check_total(struct pmemrpc_client *client, uint64_t expected)
{
	uint64_t total = 0;
	struct pmemrpc_call call = {.op = TOTAL, .reply = &total, .reply_size = sizeof(total)};

	if (pmemrpc_post(client, &call) ||
	    pmemrpc_wait(client, &call, PMEMRPC_EXECUTED, TIMEOUT_MS))
		die(pmemrpc_client_error(client));
	printf("rpc_crowd: they have added %llu of %llu\n", (unsigned long long) total,
	       (unsigned long long) expected);
	if (total != expected)
		die("calls of different clients have undone one another");
}

struct settings {
	const char *host, *port;
	unsigned long clients, calls;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	if (key == ARGP_KEY_END && state->arg_num < 4)
		argp_error(state, "it needs HOST, PORT, CLIENTS and CALLS");
	if (key != ARGP_KEY_ARG || state->arg_num > 3)
		return ARGP_ERR_UNKNOWN;
	if (state->arg_num == 0)
		settings->host = arg;
	else if (state->arg_num == 1)
		settings->port = arg;
	else if (state->arg_num == 2)
		settings->clients = argp_number(state, arg, 1, ULONG_MAX);
	else
		settings->calls = argp_number(state, arg, 1, ULONG_MAX);
	return 0;
}

static const struct argp argp = {NULL,
				 parse,
				 "HOST PORT CLIENTS CALLS",
				 "Call fi_pmem_rpc's server from many clients at the same time: so "
				 "many CLIENTS with so many "
				 "CALLS each.  The server's store has to be new.",
				 NULL,
				 NULL,
				 NULL};

int main(int argc, char **argv)
{
	struct settings settings = {0};
	struct member *crowd;
	size_t done = 0;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	crowd = calloc(settings.clients, sizeof(*crowd));
	if (!crowd)
		die("no memory");
	for (size_t i = 0; i < settings.clients; i++)
		join(&crowd[i], settings.host, settings.port, i % 2);
	printf("rpc_crowd: %lu clients are connected\n", settings.clients);
	while (done < settings.clients) {
		done = 0;
		for (size_t i = 0; i < settings.clients; i++)
			done += (size_t) advance(&crowd[i], settings.calls);
		usleep(1000);
	}
	check_total(crowd[0].client, settings.clients * settings.calls);
	for (size_t i = 0; i < settings.clients; i++) {
		if (pmemrpc_forget(crowd[i].client, TIMEOUT_MS))
			die("a client is not forgotten");
	}
	printf("rpc_crowd: %lu clients, %lu calls each, each executed once\n", settings.clients,
	       settings.calls);
	free(crowd);
	return EXIT_SUCCESS;
}
