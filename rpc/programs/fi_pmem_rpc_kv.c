/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_rpc_kv.c -- an example for libpmemrpc: a durable key-value store
 *
 * The server's handler is kv_handle of kv.h, which hands all that it changes to pmemrpc_store.  So
 * a call that puts a key is executed once and as a whole, whatever crashes, and there is nothing
 * to recover here.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kv.h"
#include "pmemrpc.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define DEFAULT_PORT "9475"
#define VALUE_MAX 4096U
#define REPLY_MAX 65536U
#define WAIT_MS 30000

const char *argp_program_version = "fi_pmem_rpc_kv of pmemverbs " PACKAGE_VERSION;

struct settings {
	const char *port;
	const char *memory;
	unsigned long keys;
	const char *words[4]; /* HOST, what to do, key, value or count */
	unsigned int count;
};

static const struct argp_option options[] = {
	{"port", 'P', "PORT", 0, "of the server (default: " DEFAULT_PORT ")", 0},
	{"memory", 'M', "PATH", 0, "serve a file, made if it is not there, or a device", 0},
	{"keys", 'k', "COUNT", 0, "that there is room for, when it is made (default: 10000)", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	switch (key) {
	case 'P':
		settings->port = arg;
		return 0;
	case 'M':
		settings->memory = arg;
		return 0;
	case 'k':
		settings->keys = strtoul(arg, NULL, 10);
		if (!settings->keys || settings->keys > UINT32_MAX)
			argp_error(state, "'%s' is no number of keys", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (settings->count == 4)
			argp_error(state, "too many words");
		settings->words[settings->count++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (settings->memory ? settings->count : settings->count < 2)
			argp_error(state, "a client needs HOST and what to do, a server --memory");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {options,
				 parse,
				 "HOST put KEY VALUE\nHOST get KEY\nHOST delete KEY\n"
				 "HOST scan [KEY [COUNT]]\n--memory PATH",
				 "Keep values by their keys, durably; or serve them.",
				 NULL,
				 NULL,
				 NULL};

static int fail(const char *what)
{
	fprintf(stderr, "fi_pmem_rpc_kv: %s\n", what);
	return EXIT_FAILURE;
}

/* ---- the server ---- */

static struct pmemrpc_server *server;

static void on_end(int signo)
{
	(void) signo;
	pmemrpc_server_stop(server);
}

static int store(void *request, void *place, const void *data, size_t len)
{
	return pmemrpc_store(request, place, data, len);
}

static int execute(struct pmemrpc_request *request, void *context)
{
	struct kv kv = {.value_max = VALUE_MAX, .store = store, .context = request};

	(void) context;
	/* All clients have the same keys. */
	pmemrpc_exclude(request);
	kv.memory = pmemrpc_memory(request->server, &kv.len);
	return kv_handle(&kv, request->op, request->argument, request->argument_len, request->reply,
			 request->reply_max, &request->reply_len);
}

static void complain(const char *sentence, void *context)
{
	(void) context;
	fail(sentence);
}

static int serve(const struct settings *settings)
{
	static const uint32_t readers[] = {KV_GET, KV_SCAN};
	const struct pmemrpc_server_attr attr = {
		.path = settings->memory,
		.service = settings->port,
		.clients = 64,
		.ring = 65536,
		.window = 8,
		.reply_max = REPLY_MAX,
		.effects_max = kv_effects_max(VALUE_MAX),
		.memory = kv_memory_len(settings->keys, VALUE_MAX),
		.readers = readers,
		.num_readers = sizeof(readers) / sizeof(readers[0]),
		.complain = complain,
		.handler = execute,
	};
	struct sigaction action = {.sa_handler = on_end};
	char error[1024];
	int ret = pmemrpc_server_open(&attr, &server, error, sizeof(error));

	if (ret)
		return fail(error);
	/* After what libfabric loads has installed handlers. */
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	printf("fi_pmem_rpc_kv: waiting on port %s\n", settings->port);
	fflush(stdout);
	ret = pmemrpc_server_run(server);
	if (ret)
		fail(pmemrpc_server_error(server));
	/* It ends already, soon; on_end would use a server that is about to go. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	pmemrpc_server_close(server);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- the client ---- */

static char reply[REPLY_MAX];

/* call -- once, also if the connection is lost meanwhile */
static int call(struct pmemrpc_client *client, struct pmemrpc_call *call)
{
	int ret = pmemrpc_post(client, call);

	if (!ret)
		ret = pmemrpc_wait(client, call, PMEMRPC_EXECUTED, WAIT_MS);
	while (ret == -ENOTCONN) {
		ret = pmemrpc_reconnect(client, WAIT_MS);
		if (!ret)
			ret = pmemrpc_wait(client, call, PMEMRPC_EXECUTED, WAIT_MS);
	}
	return ret;
}

static void show(const struct pmemrpc_call *done)
{
	const struct kv_entry *entry = NULL;
	/* What was cut off is not here. */
	size_t len = done->reply_len < sizeof(reply) ? done->reply_len : sizeof(reply);

	if (done->op == KV_GET)
		printf("%.*s\n", (int) len, reply);
	while (done->op == KV_SCAN && (entry = kv_next(reply, len, entry)))
		printf("%.*s\t%.*s\n", entry->key.len, entry->key.bytes, (int) entry->len,
		       (const char *) (entry + 1));
}

/* make -- the call that the words ask for */
static int make(const struct settings *settings, struct pmemrpc_call *call)
{
	static const char *const names[] = {"", "get", "put", "delete", "scan"};
	static struct {
		struct kv_scan scan;
		char value[VALUE_MAX];
	} argument;
	const char *key = settings->words[2], *last = settings->words[3];
	size_t key_len = key ? strlen(key) : 0, len = last ? strlen(last) : 0;
	uint32_t op = KV_SCAN;

	while (op && strcmp(settings->words[1], names[op]))
		op--;
	if (!op || key_len > KV_KEY_MAX || (!key && op != KV_SCAN) || (op == KV_PUT && !last) ||
	    len > VALUE_MAX)
		return fail("put KEY VALUE, get KEY, delete KEY, or scan [KEY [COUNT]]; a key has "
			    "up to 31 bytes, a value up to 4096");
	argument.scan.from.len = (uint8_t) key_len;
	if (key)
		memcpy(argument.scan.from.bytes, key, key_len);
	argument.scan.count = last ? (uint32_t) strtoul(last, NULL, 10) : UINT32_MAX;
	*call = (struct pmemrpc_call){.op = op,
				      .argument = &argument,
				      .argument_len = op == KV_SCAN ? sizeof(argument.scan)
								    : sizeof(struct kv_key),
				      .reply = reply,
				      .reply_size = sizeof(reply),
				      .reply_only = 1};
	if (op == KV_PUT) {
		memcpy((char *) &argument + sizeof(struct kv_key), last, len);
		call->argument_len += len;
	}
	return 0;
}

static int ask(const struct settings *settings)
{
	struct pmemrpc_client_attr attr = {
		.node = settings->words[0], .service = settings->port, .timeout_ms = WAIT_MS};
	struct pmemrpc_client *client;
	struct pmemrpc_call asked;
	char error[1024];
	int ret;

	if (make(settings, &asked))
		return 2;
	if (getrandom(attr.id, sizeof(attr.id), 0) != sizeof(attr.id))
		return fail("no random numbers");
	if (pmemrpc_connect(&attr, &client, error, sizeof(error)))
		return fail(error);
	ret = call(client, &asked);
	if (ret)
		fail(pmemrpc_client_error(client));
	else if (asked.status)
		fail(asked.status == -EACCES
			     ? "the server's file peers allows this key only to read"
			     : strerror(-asked.status));
	else
		show(&asked);
	/* This identity makes no other call. */
	if (ret || pmemrpc_forget(client, WAIT_MS) == -EBUSY)
		pmemrpc_close(client);
	return ret || asked.status ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct settings settings = {.port = DEFAULT_PORT, .keys = 10000};

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	return settings.memory ? serve(&settings) : ask(&settings);
}
