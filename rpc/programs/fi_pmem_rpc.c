/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_rpc.c -- an example for libpmemrpc: counters that count each call once
 *
 * The server keeps a counter for each client, and one of all.  A call adds 1, and the reply is the
 * new value.
 * So the reply to an identity's call number n has to be n, whatever has crashed: the
 * client checks that of each call.
 */
#include "fi_pmem_rpc.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define DEFAULT_PORT "9473"

/* Those of the paper: entries are written or sent, and flushed by the sender or the receiver. */
static const struct {
	const char *name;
	enum pmemrpc_transport transport;
	enum pmemrpc_flush flush;
} variants[] = {
	{"write", PMEMRPC_WRITE, PMEMRPC_FLUSH_ANY},
	{"wflush", PMEMRPC_WRITE, PMEMRPC_FLUSH_SENDER},
	{"wrflush", PMEMRPC_WRITE, PMEMRPC_FLUSH_RECEIVER},
	{"send", PMEMRPC_SEND, PMEMRPC_FLUSH_ANY},
	{"sflush", PMEMRPC_SEND, PMEMRPC_FLUSH_SENDER},
	{"srflush", PMEMRPC_SEND, PMEMRPC_FLUSH_RECEIVER},
};

const char *argp_program_version = "fi_pmem_rpc of pmemverbs " PACKAGE_VERSION;

enum {
	RING = 256,
	CLIENTS,
	THREADS,
	POOL,
	THROTTLE,
	RATE,
	SILENCE,
	RINGS_PER_PEER,
	SPIN,
	FORGET,
	REPLIES,
	BATCH,
	DEPTH,
	MEASURE,
	REPLY_ONLY,
	READS,
	VARIANT
};

static const struct argp_option options[] = {
	{"port", 'P', "PORT", 0, "of the server, 1 to 65535 (default: " DEFAULT_PORT ")", 0},
	{"spin", SPIN, "MICROSECONDS", 0,
	 "that it looks for more before it sleeps, or \"off\" (default: the library's choice)", 0},
	{NULL, 0, NULL, 0, "Server:", 1},
	{"memory", 'M', "PATH", 0, "a file, made if it is not there, or a device of device DAX", 1},
	{"ring", RING, "BYTES", 0,
	 "of each client's log, a multiple of 4096, when the file is made (default: 65536)", 1},
	{"clients", CLIENTS, "COUNT", 0,
	 "that have a log, 1 to 4096, when the file is made (default: 64)", 1},
	{"threads", THREADS, "COUNT", 0, "that execute calls (default: one per processor)", 1},
	{"pool", POOL, "COUNT", 0,
	 "threads that execute calls instead of those, so that a long call holds up nobody else "
	 "(default: none)",
	 1},
	{"throttle", THROTTLE, "CALLS", 0,
	 "that wait, above which clients are told to slow down, or \"off\" (default: 256 for each "
	 "thread that executes)",
	 1},
	{"rate", RATE, "CALLS", 0, "of each client that are executed in a second (default: any)",
	 1},
	{"silence", SILENCE, "SECONDS", 0,
	 "after which a client that has said nothing loses its connection, and no call (default: "
	 "it "
	 "does not)",
	 1},
	{"rings-per-peer", RINGS_PER_PEER, "COUNT", 0,
	 "of logs that clients of one address, or of one key, can have (default: any)", 1},
	{NULL, 0, NULL, 0, "Client:", 2},
	{"count", 'n', "COUNT", 0, "calls (default: 1000)", 2},
	{"size", 'S', "BYTES", 0, "of a call's argument (default: 64)", 2},
	{"id", 'i', "FILE", 0,
	 "keeps who this client is, made if it is not there (default: a new client each time, "
	 "which is forgotten at the end)",
	 2},
	{"forget", FORGET, NULL, 0, "the server forgets the client of FILE at the end", 2},
	{"replies", REPLIES, NULL, 0,
	 "ask for the replies of the last calls of FILE, and check them", 2},
	{"variant", VARIANT, "NAME", 0,
	 "how calls get there: write (default) or send, flushed as the memory needs it; or wflush, "
	 "wrflush, sflush, srflush: exactly so, or it fails",
	 2},
	{"timeout", 't', "SECONDS", 0, "without a server (default: 30)", 2},
	{"batch", BATCH, "CALLS", 0,
	 "that share a flush, at most; 1: none do (default: the library's choice)", 2},
	{"depth", DEPTH, "CALLS", 0, "without replies, 1 to 32 (default: 32)", 2},
	{"reply-only", REPLY_ONLY, NULL, 0,
	 "nobody waits until every other call is durable, only for its reply", 2},
	{"reads", READS, NULL, 0, "every third call looks at the value, and changes nothing", 2},
	{"measure", MEASURE, NULL, 0, "say how long the calls took, and their flushes", 2},
	{"verbose", 'v', NULL, 0, "say how many calls are executed, after each 50", 2},
	{0},
};

/* number -- as util/number.h has it: this example is compiled without our other files, too */
static uint64_t number(struct argp_state *state, const char *text, uint64_t max)
{
	char *end;
	uint64_t value;
	/* The option may be written apart from its number, or together with it. */
	int last = state->next - 1;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *text == '-' || *end || !value || value > max)
		argp_error(state, "%s: '%s' is not a number from 1 to %" PRIu64,
			   state->argv[last] == text ? state->argv[last - 1] : state->argv[last],
			   text, max);
	return value;
}

static unsigned int number_or_off(struct argp_state *state, const char *text)
{
	return strcmp(text, "off") != 0 ? (unsigned int) number(state, text, UINT32_MAX - 1)
					: PMEMRPC_OFF;
}

static void set_variant(struct argp_state *state, const char *name)
{
	struct settings *settings = state->input;

	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		if (strcmp(variants[i].name, name))
			continue;
		settings->transport = variants[i].transport;
		settings->flush = variants[i].flush;
		return;
	}
	argp_error(state, "there is no variant '%s'", name);
}

/* parse_client -- options of a client alone */
static error_t parse_client(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	switch (key) {
	case 'n':
		settings->count = number(state, arg, UINT64_MAX);
		return 0;
	case 'S':
		settings->size = number(state, arg, PMEMRPC_MAX_RING);
		return 0;
	case 'i':
		settings->id = arg;
		return 0;
	case FORGET:
		settings->forget = true;
		return 0;
	case REPLIES:
		settings->replies = true;
		return 0;
	case 'v':
		settings->verbose = true;
		return 0;
	case VARIANT:
		set_variant(state, arg);
		return 0;
	case 't':
		settings->timeout_ms = 1000 * (int) number(state, arg, 86400);
		return 0;
	case BATCH:
		settings->batch = (unsigned int) number(state, arg, PMEMRPC_MAX_WINDOW);
		return 0;
	case DEPTH:
		settings->depth = (unsigned int) number(state, arg, WINDOW);
		return 0;
	case MEASURE:
		settings->measure = true;
		return 0;
	case REPLY_ONLY:
		settings->reply_only = true;
		return 0;
	case READS:
		settings->reads = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* parse_server -- options of a server alone */
static error_t parse_server(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	switch (key) {
	case 'M':
		settings->memory = arg;
		return 0;
	case RING:
		settings->ring = number(state, arg, PMEMRPC_MAX_RING);
		if (settings->ring % 4096)
			argp_error(state, "--ring: '%s' is not a multiple of 4096", arg);
		return 0;
	case CLIENTS:
		settings->clients = (unsigned int) number(state, arg, 4096);
		return 0;
	case THREADS:
		settings->threads = (unsigned int) number(state, arg, 4096);
		return 0;
	case POOL:
		settings->pool = (unsigned int) number(state, arg, 4096);
		return 0;
	case THROTTLE:
		settings->throttle = number_or_off(state, arg);
		return 0;
	case RATE:
		settings->rate = (unsigned int) number(state, arg, UINT32_MAX);
		return 0;
	case SILENCE:
		settings->silence_ms = 1000 * (unsigned int) number(state, arg, 86400);
		return 0;
	case RINGS_PER_PEER:
		settings->rings_per_peer = (unsigned int) number(state, arg, 4096);
		return 0;
	default:
		return parse_client(key, arg, state);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	switch (key) {
	case 'P':
		number(state, arg, UINT16_MAX);
		settings->port = arg;
		return 0;
	case SPIN:
		settings->spin_us = number_or_off(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		if (settings->host)
			argp_error(state, "one server only");
		settings->host = arg;
		return 0;
	case ARGP_KEY_END:
		if (!settings->host == !settings->memory)
			argp_error(state, "a client needs HOST, and a server needs --memory; both "
					  "together are wrong");
		return 0;
	default:
		return parse_server(key, arg, state);
	}
}

static const struct argp argp = {
	options,
	parse,
	"HOST\n--memory PATH",
	"Call a server that counts: each call once, whatever crashes.  Without HOST: be that "
	"server."
	"\vThe server prints \"waiting on port\" when clients can come, and ends on SIGTERM or "
	"SIGINT; so does a client, when its calls are executed. On SIGUSR1 the server prints its "
	"counters. The server can be killed and "
	"started again at any time: clients come back.\n"
	"FI_PMEMVERBS_DOMAIN declares what survives a power failure where that can't be found "
	"out; see fi_pmemverbs(7).",
	NULL,
	NULL,
	NULL};

int main(int argc, char **argv)
{
	struct settings settings = {.port = DEFAULT_PORT,
				    .ring = 65536,
				    .clients = 64,
				    .size = 64,
				    .count = 1000,
				    .depth = WINDOW,
				    .timeout_ms = 30000};

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	return settings.memory ? count_serve(&settings) : count_call(&settings);
}
