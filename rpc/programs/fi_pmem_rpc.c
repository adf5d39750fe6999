/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_rpc.c -- an example for libpmemrpc: counters that count each call once
 *
 * The server keeps a counter for each client, and one of all.  A call adds 1, and the reply is the
 * new value.
 * So the reply to an identity's call number n has to be n, whatever has crashed: the
 * client checks that of each call.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pmemrpc.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define DEFAULT_PORT "9473"
#define ADD 1U     /* to the client's counter, whose value is the reply */
#define ADD_ALL 2U /* likewise, and to the counter of all clients */
#define TOTAL 3U   /* the reply is the counter of all clients */
#define WINDOW 32U
#define WAIT_MS 30000

/* An argument is filled with the call's sequence, so that the server can see a torn one. */
static unsigned char pattern(uint64_t sequence, size_t i)
{
	return (unsigned char) (sequence * 31 + i * 7);
}

struct settings {
	const char *host;
	const char *port;
	const char *memory;
	const char *id;
	size_t ring;
	unsigned int clients;
	unsigned int threads;
	unsigned int pool;
	unsigned int throttle;
	unsigned int rate;
	unsigned int silence_ms;
	unsigned int rings_per_peer;
	unsigned int spin_us;
	unsigned int batch;
	unsigned int depth;
	bool measure;
	size_t size;
	uint64_t count;
	int timeout_ms;
	bool forget;
	bool replies;
	bool verbose;
	enum pmemrpc_transport transport;
	enum pmemrpc_flush flush;
};

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
	 "of logs that clients of one address can have (default: any)", 1},
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
	 "wrflush, sflush, srflush: so, or not at all",
	 2},
	{"timeout", 't', "SECONDS", 0, "without a server (default: 30)", 2},
	{"batch", BATCH, "CALLS", 0,
	 "that share a flush, at most; 1: none do (default: the library's choice)", 2},
	{"depth", DEPTH, "CALLS", 0, "without replies, 1 to 32 (default: 32)", 2},
	{"measure", MEASURE, NULL, 0, "say how long the calls took, and their flushes", 2},
	{"verbose", 'v', NULL, 0, "say how many calls are executed, after each 50", 2},
	{0},
};

static uint64_t number(struct argp_state *state, const char *text, uint64_t max)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (end == text || *text == '-' || *end || !value || value > max)
		argp_error(state, "'%s' is not a number, or out of range", text);
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

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	switch (key) {
	case 'P':
		number(state, arg, UINT16_MAX);
		settings->port = arg;
		return 0;
	case 'M':
		settings->memory = arg;
		return 0;
	case RING:
		settings->ring = number(state, arg, PMEMRPC_MAX_RING);
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
	case SPIN:
		settings->spin_us = number_or_off(state, arg);
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
	case BATCH:
		settings->batch = (unsigned int) number(state, arg, PMEMRPC_MAX_WINDOW);
		return 0;
	case DEPTH:
		settings->depth = (unsigned int) number(state, arg, WINDOW);
		return 0;
	case MEASURE:
		settings->measure = true;
		return 0;
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
	case ARGP_KEY_ARG:
		if (settings->host)
			argp_error(state, "one server only");
		settings->host = arg;
		return 0;
	case ARGP_KEY_END:
		if (!settings->host == !settings->memory)
			argp_error(state, "a client needs HOST, a server needs --memory");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
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

/* ---- the server ---- */

static struct pmemrpc_server *server;
static volatile sig_atomic_t ended;

static void on_end(int signo)
{
	ended = signo;
	if (server)
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

	if (request->op < ADD || request->op > TOTAL || request->reply_max < sizeof(value))
		return -EINVAL;
	for (size_t i = 0; i < request->argument_len; i++) {
		if (argument[i] != pattern(request->sequence, i))
			return -EBADMSG;
	}
	counters = pmemrpc_memory(request->server, &len);
	total = counters + settings->clients;
	/* Calls of other clients change the total at the same time. */
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

/* print_on_signal -- a thread of its own: SIGUSR1 is blocked everywhere */
static void *print_on_signal(void *arg)
{
	const sigset_t *signals = arg;
	int signo;

	while (!sigwait(signals, &signo)) {
		/* It ends while it waits, and holds no lock of stdio then. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		print_counters();
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	}
	return NULL;
}

static int serve(const struct settings *settings)
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
		.threads = settings->threads,
		.pool = settings->pool,
		.throttle = settings->throttle,
		.rate = settings->rate,
		.silence_ms = settings->silence_ms,
		.rings_per_peer = settings->rings_per_peer,
		.spin_us = settings->spin_us,
		.handler = count,
		.context = (void *) (uintptr_t) settings,
	};
	pthread_t printer;
	sigset_t signals;
	struct pmemrpc_counters counters;
	char error[256];
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
	pthread_cancel(printer);
	pthread_join(printer, NULL);
	print_counters();
	pmemrpc_server_counters(server, &counters);
	if (counters.refused || ret)
		fprintf(stderr, "fi_pmem_rpc: %s\n", pmemrpc_server_error(server));
	printf("fi_pmem_rpc: %llu calls, %llu of them without their client; %llu connections, "
	       "%llu refused\n",
	       (unsigned long long) counters.executed, (unsigned long long) counters.recovered,
	       (unsigned long long) counters.connections, (unsigned long long) counters.refused);
	ignore_signals();
	pmemrpc_server_close(server);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- the client ---- */

struct adding {
	struct pmemrpc_call call;
	uint64_t value;
};

static int fail(const char *what)
{
	fprintf(stderr, "fi_pmem_rpc: %s\n", what);
	return -1;
}

static int fail_file(const char *path, const char *why)
{
	fprintf(stderr, "fi_pmem_rpc: %s: %s\n", path, why);
	return -1;
}

/* sync_id -- the file and its name; who has made it may have been killed before it did this */
static int sync_id(const char *path, int fd)
{
	char *copy = strdup(path);
	int dir = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, ret = 0;

	if (dir < 0 || fsync(fd) || fsync(dir))
		ret = fail_file(path, strerror(errno));
	if (dir >= 0)
		close(dir);
	free(copy);
	return ret;
}

/* read_id_file -- 0 bytes: it is new, or who has made it was killed before it was used */
static int read_id_file(const char *path, int fd, uint8_t id[PMEMRPC_ID_LEN])
{
	struct stat st;

	if (fstat(fd, &st))
		return fail_file(path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (st.st_size && st.st_size != PMEMRPC_ID_LEN))
		return fail_file(path, "this is not the file of a client: it would have 16 bytes");
	if (st.st_size ? pread(fd, id, PMEMRPC_ID_LEN, 0) != PMEMRPC_ID_LEN
		       : pwrite(fd, id, PMEMRPC_ID_LEN, 0) != PMEMRPC_ID_LEN)
		return fail_file(path, "it can't be read or written");
	return sync_id(path, fd);
}

/* read_id -- who this client is; made durable before it is used */
static int read_id(const char *path, uint8_t id[PMEMRPC_ID_LEN])
{
	int fd, ret;

	if (getrandom(id, PMEMRPC_ID_LEN, 0) != PMEMRPC_ID_LEN)
		return fail("no random numbers");
	if (!path)
		return 0;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail_file(path, strerror(errno));
	ret = read_id_file(path, fd, id);
	close(fd);
	return ret;
}

/* check -- the reply to call number n is n */
static int check(const struct adding *adding)
{
	if (adding->call.state != PMEMRPC_EXECUTED)
		return 0;
	if (!adding->call.status && adding->call.reply_len == sizeof(adding->value) &&
	    adding->value == adding->call.sequence)
		return 0;
	fprintf(stderr, "fi_pmem_rpc: call %llu has status %d and value %llu\n",
		(unsigned long long) adding->call.sequence, adding->call.status,
		(unsigned long long) adding->value);
	return -1;
}

/* again -- the connection is lost: the library knows what to send again */
static int again(struct pmemrpc_client *client, const struct settings *settings)
{
	return pmemrpc_reconnect(client, settings->timeout_ms);
}

static int post(struct pmemrpc_client *client, struct adding *adding,
		const struct settings *settings, unsigned char *argument, uint64_t sequence)
{
	time_t end = time(NULL) + WAIT_MS / 1000;
	int ret;

	for (size_t i = 0; i < settings->size; i++)
		argument[i] = pattern(sequence, i);
	adding->call = (struct pmemrpc_call){.op = ADD,
					     .argument = argument,
					     .argument_len = settings->size,
					     .reply = &adding->value,
					     .reply_size = sizeof(adding->value)};
	while ((ret = pmemrpc_post(client, &adding->call)) == -EAGAIN || ret == -ENOTCONN) {
		struct pollfd fd = {.fd = pmemrpc_fd(client), .events = POLLIN};

		if (ret == -EAGAIN && time(NULL) > end)
			return fail("the server has made no room in time");
		if (ret == -EAGAIN && !pmemrpc_trywait(client))
			poll(&fd, 1, 100);
		ret = ret == -EAGAIN ? pmemrpc_progress(client) : again(client, settings);
		if (ret && ret != -ENOTCONN)
			break;
	}
	return ret;
}

static int wait_for(struct pmemrpc_client *client, struct adding *adding,
		    const struct settings *settings)
{
	int ret;

	while ((ret = pmemrpc_wait(client, &adding->call, PMEMRPC_EXECUTED, WAIT_MS)) ==
	       -ENOTCONN) {
		ret = again(client, settings);
		if (ret)
			break;
	}
	return ret;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* print_speed -- with one call at a time, the time for each is its latency */
static void print_speed(const struct pmemrpc_limits *limits, uint64_t calls, double seconds,
			uint64_t depth)
{
	if (!calls)
		return;
	printf("fi_pmem_rpc: depth %llu, batch %u: %.0f calls/s, %.2f us each, %.2f flushes each\n",
	       (unsigned long long) depth, limits->batch, (double) calls / seconds,
	       seconds / (double) calls * 1e6, (double) limits->flushes / (double) calls);
}

/* add -- all calls: as many at a time as the server takes */
static int add(struct pmemrpc_client *client, const struct settings *settings)
{
	static struct adding adding[WINDOW];
	unsigned char *argument = malloc(settings->size);
	struct pmemrpc_limits limits;
	int ret = argument ? 0 : -ENOMEM;
	uint64_t first, end = settings->count, depth = settings->depth;
	double start;

	pmemrpc_get_limits(client, &limits);
	first = limits.executed + 1;
	printf("fi_pmem_rpc: %llu calls of this client are executed already\n",
	       (unsigned long long) limits.executed);
	fflush(stdout);
	start = now();
	for (uint64_t i = 0; !ret && (i < end || i - end < depth); i++) {
		struct adding *next = &adding[i % depth];

		if (ended && i < end)
			end = i;

		if (next->call.sequence)
			ret = wait_for(client, next, settings);
		if (!ret)
			ret = check(next);
		if (!ret && settings->verbose && i >= depth && i % 50 == 0) {
			printf("fi_pmem_rpc: %llu calls executed\n",
			       (unsigned long long) i - depth + 1);
			fflush(stdout);
		}
		if (!ret && i < end)
			ret = post(client, next, settings, argument, first + i);
		else
			next->call.sequence = 0;
	}
	free(argument);
	if (ret && ret != -1)
		fail(pmemrpc_client_error(client));
	pmemrpc_get_limits(client, &limits);
	if (ret)
		return ret;
	printf("fi_pmem_rpc: %llu calls, each executed once; %u times connected again, %llu calls "
	       "sent again\n",
	       (unsigned long long) (limits.executed + 1 - first), limits.reconnects,
	       (unsigned long long) limits.sent_again);
	if (limits.paced)
		printf("fi_pmem_rpc: %llu times asked to slow down\n",
		       (unsigned long long) limits.paced);
	if (settings->measure)
		print_speed(&limits, limits.executed + 1 - first, now() - start, depth);
	return 0;
}

/* check_variant -- tells what was used; -1: something else than what was asked for */
static int check_variant(struct pmemrpc_client *client, const struct settings *settings)
{
	struct pmemrpc_limits limits;

	pmemrpc_get_limits(client, &limits);
	printf("fi_pmem_rpc: %s\n"
	       "fi_pmem_rpc: %llu commits flushed by the sender, %llu by the receiver\n",
	       pmemrpc_variant(client), (unsigned long long) limits.flushed_by_sender,
	       (unsigned long long) limits.flushed_by_receiver);
	if ((settings->flush == PMEMRPC_FLUSH_SENDER && limits.flushed_by_receiver) ||
	    (settings->flush == PMEMRPC_FLUSH_RECEIVER && limits.flushed_by_sender))
		return fail("the provider has used another variant");
	return 0;
}

/* What has come of the replies to an earlier life's calls. */
struct missed {
	uint64_t count;
	bool wrong;
};

static void on_missed(const struct pmemrpc_call *call, void *context)
{
	struct missed *missed = context;
	uint64_t value = 0;

	if (call->reply_len == sizeof(value))
		memcpy(&value, call->reply, sizeof(value));
	missed->count++;
	missed->wrong |= call->status || value != call->sequence;
}

static int call(const struct settings *settings)
{
	struct pmemrpc_client_attr attr = {.node = settings->host,
					   .service = settings->port,
					   .replies_from = settings->replies,
					   .missed = on_missed,
					   .transport = settings->transport,
					   .argument_max = settings->size,
					   .flush = settings->flush,
					   .batch = settings->batch,
					   .spin_us = settings->spin_us,
					   .timeout_ms = settings->timeout_ms};
	struct missed missed = {0};
	struct pmemrpc_client *client;
	char error[256];
	int ret;

	attr.context = &missed;
	if (read_id(settings->id, attr.id))
		return EXIT_FAILURE;
	if (pmemrpc_connect(&attr, &client, error, sizeof(error))) {
		fail(error);
		return EXIT_FAILURE;
	}
	end_on_signal();
	ret = add(client, settings);
	if (!ret)
		ret = check_variant(client, settings);
	if (settings->replies)
		printf("fi_pmem_rpc: %llu replies of an earlier life\n",
		       (unsigned long long) missed.count);
	if (missed.wrong)
		ret = fail("a reply of an earlier life is wrong");
	if (!ret && (settings->forget || !settings->id)) {
		ret = pmemrpc_forget(client, WAIT_MS);
		if (ret)
			fail("the server has not confirmed that it forgets this client");
	} else
		pmemrpc_close(client);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

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
	return settings.memory ? serve(&settings) : call(&settings);
}
