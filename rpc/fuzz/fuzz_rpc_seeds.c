/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_rpc_seeds.c -- the first inputs of libpmemrpc's fuzzers: what goes well
 *
 *	fuzz_rpc_seeds DIR
 *
 * The numbers of the actions are those of fuzz_rpc_server.c and fuzz_rpc_client.c.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void save(const char *dir, const char *fuzzer, const char *name, const uint8_t *bytes,
		 size_t len)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, fuzzer);
	if (mkdir(path, 0777) && errno != EEXIST)
		exit(EXIT_FAILURE);
	snprintf(path, sizeof(path), "%s/%s/%s", dir, fuzzer, name);
	file = fopen(path, "we");
	if (!file || fwrite(bytes, 1, len, file) != len || fclose(file))
		exit(EXIT_FAILURE);
}

/* A client of the server's fuzzer: its number is in each action. */
enum { CONNECT = 0, SAY = 1, ENTER = 5, NOTICE = 7, COMPLETE = 10, RESTART = 13, SERVE = 14 };
enum { HELLO = 2, READY = 0, FORGET = 4 };

static const uint8_t server[] = {
	/* connect, greet, be ready */
	CONNECT, 0, 0, SAY, 0, HELLO, 1, SERVE, SERVE, SERVE, SAY, 0, READY, 0, SERVE,
	/* two calls, one of them long, and what the server has sent is on its way */
	ENTER, 0, 0, 5, 40, 0, ENTER, 0, 64, 6, 0, 4, NOTICE, 0, 0, NOTICE, 0, 1, SERVE, COMPLETE,
	0, 7, SERVE,
	/* another client; the first one comes back, after a crash with a call that was durable */
	CONNECT, 1, 0, SAY, 1, HELLO, 2, SERVE, SERVE, ENTER, 0, 0, 7, 8, 0, RESTART, 1, CONNECT, 0,
	0, SAY, 0, HELLO, 1, SERVE, SERVE, SERVE, SAY, 0, READY, 8, SERVE, COMPLETE, 0, 7,
	/* one that sends its entries, and again after a crash */
	CONNECT, 2, 4, SAY, 2, HELLO, 3, SERVE, SERVE, SERVE, SAY, 2, READY, 0, ENTER, 2, 0, 5, 30,
	0, ENTER, 2, 0, 6, 40, 0, SERVE, COMPLETE, 2, 7, SERVE, ENTER, 2, 0, 7, 50, 0, RESTART, 1,
	CONNECT, 0, 0, SAY, 0, HELLO, 1, SERVE, SERVE, SERVE, SAY, 0, READY, 0, SERVE,
	/* a wrong key, and it is forgotten */
	ENTER, 0, 1, 9, 8, 0, 1, SAY, 0, FORGET, 0, SERVE, SERVE};

/* Of the client's fuzzer: what happens, and what the application does. */
enum { WELCOME = 1, REPLY = 3, DONE = 6 };
enum { POST = 0, WAIT_DURABLE = 5, WAIT_EXECUTED = 6, RECONNECT = 7, PROGRESS = 13 };

static const uint8_t client[] = {
	/* the event of the connection, HELLO is sent, and WELCOME comes */
	0, 0, 0, WELCOME, 0, 0, 0,
	/* a call, its commit, its reply */
	POST, 5, 20, 0, WAIT_DURABLE, DONE, 0, WAIT_EXECUTED, REPLY, 0, 8, 1, 0,
	/* two calls; the connection is made again, and they are sent again */
	POST + 16, 6, 30, 0, POST + 32, 135, 0, 2, PROGRESS, DONE, RECONNECT + 240, 0, WELCOME, 0,
	0, 0, WAIT_EXECUTED + 16, REPLY, 0, 8, 1, WAIT_EXECUTED + 32, DONE + 240, REPLY, 0, 9, 1,
	0};

/* The same, with entries that are sent. */
static uint8_t sender[sizeof(client)];

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: fuzz_rpc_seeds DIR\n");
		return 2;
	}
	save(argv[1], "rpc_server", "calls", server, sizeof(server));
	save(argv[1], "rpc_client", "written", client, sizeof(client));
	memcpy(sender, client, sizeof(client));
	sender[0] = 8;
	save(argv[1], "rpc_client", "sent", sender, sizeof(sender));
	return 0;
}
