/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc_crowd.c -- many clients of fi_pmem_rpc's server at the same time
 *
 * Half of them send their calls.  Each has a connection, makes its calls, a few at a time, and
 * checks that the reply to call number n is n.  All are connected before the first one calls.  The
 * calls also add to a counter of all clients, which has to be right in the end: for a new store.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "pmemrpc.h"

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

int main(int argc, char **argv)
{
	size_t members = argc == 5 ? strtoul(argv[3], NULL, 10) : 0, done = 0;
	unsigned long count = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
	struct member *crowd = calloc(members + 1, sizeof(*crowd));

	if (!crowd)
		die("no memory");
	if (!members || !count)
		die("usage: rpc_crowd HOST PORT CLIENTS CALLS");
	for (size_t i = 0; i < members; i++)
		join(&crowd[i], argv[1], argv[2], i % 2);
	printf("rpc_crowd: %zu clients are connected\n", members);
	while (done < members) {
		done = 0;
		for (size_t i = 0; i < members; i++)
			done += (size_t) advance(&crowd[i], count);
		usleep(1000);
	}
	check_total(crowd[0].client, members * count);
	for (size_t i = 0; i < members; i++) {
		if (pmemrpc_forget(crowd[i].client, TIMEOUT_MS))
			die("a client is not forgotten");
	}
	printf("rpc_crowd: %zu clients, %lu calls each, each executed once\n", members, count);
	free(crowd);
	return EXIT_SUCCESS;
}
