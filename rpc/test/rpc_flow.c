/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc_flow.c -- batches, throttle, rates and the pool: a server process, and its clients here
 *
 * The server adds 1 to a client's counter for each call, so the reply to call number n is n.  Some
 * calls wait at a gate: the handler says that it has come there, and goes on when it is told
 * to.  So nothing here depends on how fast anything is.
 */
#include "rpc_flow.h"

#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

const char *argp_program_version = "rpc_flow of pmemverbs " PACKAGE_VERSION;

char *flow_directory, *flow_port;
struct flow_sizes flow_sizes;
pid_t flow_server;
int flow_gate[2], flow_arrived[2];

static void end_server(void)
{
	if (flow_server > 0)
		kill(flow_server, SIGKILL);
}

void flow_die(const char *what)
{
	fprintf(stderr, "rpc_flow: %s\n", what);
	exit(EXIT_FAILURE);
}

void flow_check(bool is_right, const char *what)
{
	if (!is_right)
		flow_die(what);
}

static void on_durable(struct pmemrpc_call *call)
{
	struct caller *caller = call->context;
	struct pmemrpc_limits limits = caller_limits(caller);

	if (call->state == PMEMRPC_DURABLE)
		flow_check(limits.flushes == caller->flushes,
			   "a call is said to be durable, and was not sent yet");
}

/*
 * post_first -- and say how many flushes there will be, with so many more.  It goes at once: all
 * earlier calls were executed.
 */
static void post_first(struct caller *caller, unsigned int more)
{
	caller_post_many(caller, 1, 40);
	caller->flushes = caller_limits(caller).flushes + more;
}

/* A call is on its way, and two are held back. */
static void try_held(struct caller *caller)
{
	struct pmemrpc_call *calls = &caller->calls[caller->count];

	post_first(caller, 1);
	caller_post_many(caller, 2, 40);
	calls[1].context = calls[2].context = caller;
	calls[1].notify = calls[2].notify = on_durable;
	if (pmemrpc_wait(caller->client, &calls[0], PMEMRPC_DURABLE, TIMEOUT_MS))
		flow_die(pmemrpc_client_error(caller->client));
	/* Who waits for that one, and does not come again, has them on their way. */
	flow_check(caller_limits(caller).flushes == caller->flushes,
		   "calls are held back by no flush");
	caller_finish(caller);
}

/* What shares a flush, and what does not. */
static void try_batches(void)
{
	struct caller *caller = caller_new(8);
	struct pmemrpc_counters seen;

	caller_post(caller, ADD, 40);
	caller_finish(caller);
	flow_check(caller_limits(caller).flushes == 1, "a lone call needs one flush");
	/* Nothing is read meanwhile: the first goes, eight fill a batch, and again. */
	caller_post_many(caller, 17, 40);
	caller_finish(caller);
	flow_check(caller_limits(caller).flushes == 4, "1, 8 and 8 calls need three flushes");
	seen = caller_counters(caller);
	flow_check(seen.notices == 5 && seen.batches == 2, "the server was told of other flushes");
	flow_check(seen.bytes == 18 * 40 && seen.reply_bytes == 18 * sizeof(struct reply),
		   "the server counts other bytes");
	/* 1, 2 that the long one drives out, that, 2, another one, 3. */
	post_first(caller, 5);
	caller_post_many(caller, 2, 40);
	caller_post_many(caller, 1, 1000);
	caller_post_many(caller, 2, 40);
	caller_post_many(caller, 1, 1000);
	caller_post_many(caller, 3, 40);
	caller_finish(caller);
	flow_check(caller_limits(caller).flushes == caller->flushes,
		   "long calls have flushes of their own");
	try_held(caller);
	caller_close(caller);
	caller = caller_new(1);
	caller_post_many(caller, 10, 40);
	caller_finish(caller);
	flow_check(caller_limits(caller).flushes == 10, "without batches each call has a flush");
	caller_close(caller);
}

/* A ring that wraps, with long entries, too; the window is always full. */
static void try_laps(void)
{
	struct caller *caller = caller_new(0);
	unsigned int done = 0;

	flow_check(caller_limits(caller).batch == 16,
		   "by itself a quarter of the window shares a flush");
	while (caller->count < CALLS - 1) {
		unsigned int i = caller->count;
		int ret = caller_try_post(caller, ADD, i % 50 == 49 ? 1500 : 30 + i % 90);

		if (ret != -EAGAIN)
			flow_check(!ret, "a call is refused");
		else if (pmemrpc_wait(caller->client, &caller->calls[done++], PMEMRPC_EXECUTED,
				      TIMEOUT_MS))
			flow_die(pmemrpc_client_error(caller->client));
	}
	caller_finish(caller);
	flow_check(caller_counters(caller).batches, "no calls have shared a flush");
	caller_close(caller);
}

/* A server that is killed while calls are held back, and while a batch waits to be executed. */
static void try_killed_batches(void)
{
	struct caller *caller = caller_new(32);

	caller_post(caller, WAIT, 40);
	flow_await_arrival();
	caller_post_many(caller, 20, 40);
	flow_kill_server();
	flow_start_server();
	/* The first call was durable, and is executed again: the server comes when it is. */
	flow_await_arrival();
	flow_open_gate(1);
	caller_reconnect(caller);
	caller_finish(caller);
	flow_check(caller_limits(caller).sent_again == 0, "what was never sent was sent again");
	caller_post(caller, WAIT, 40);
	caller_post_many(caller, 20, 40);
	caller_post_many(caller, 1, 1000);
	caller_wait(caller, PMEMRPC_DURABLE);
	flow_await_arrival();
	flow_kill_server();
	flow_start_server();
	flow_await_arrival();
	flow_open_gate(1);
	caller_reconnect(caller);
	flow_check(caller_limits(caller).sent_again == 0,
		   "a batch that was durable was sent again");
	caller_finish(caller);
	caller_close(caller);
}

/* make_room -- for more calls: all so far are executed */
static void make_room(struct caller *caller)
{
	caller->before += caller->count;
	caller->count = 0;
}

/* await_waiting -- so many calls of others wait; who asks has one itself */
static void await_waiting(struct caller *caller, uint64_t calls)
{
	while (caller_counters(caller).waiting != calls + 1)
		make_room(caller);
}

static void try_throttle(void)
{
	struct caller *busy = caller_new(0), *other = caller_new(0), *late;
	unsigned int first;

	caller_post(busy, WAIT, 40);
	flow_await_arrival();
	caller_post_many(busy, 30, 40);
	caller_wait(busy, PMEMRPC_DURABLE);
	await_waiting(other, 31);
	flow_check(caller_counters(other).throttled == 1, "31 calls wait, and 20 are too many");
	flow_check(caller_counters(other).slow, "the server does not say that it is slow");
	flow_check(caller_limits(other).pace && caller_limits(other).paced == 1,
		   "a reply has said nothing");
	/* Who comes now hears it at once: a quarter of 20, for each of three. */
	late = caller_new(0);
	first = caller_limits(late).pace;
	flow_check(first == 1 && late->num_paces == 1 && late->paces[0] == 1,
		   "a new client hears nothing");
	caller_post(late, ADD, 40);
	flow_check(caller_try_post(late, ADD, 40) == -EAGAIN, "a client does not slow down");
	caller_finish(late);
	caller_post(late, ADD, 40);
	flow_open_gate(1);
	caller_finish(busy);
	caller_finish(late);
	flow_check(busy->num_paces == 2 && busy->paces[0] && !busy->paces[1],
		   "a client was not told first to slow down, and then to go on");
	/* Who was slow hears with its next reply that it may go on. */
	caller_post(late, ADD, 40);
	caller_finish(late);
	flow_check(!caller_limits(late).pace, "it is over, and a client does not know it");
	caller_post_many(late, 20, 40);
	caller_finish(late);
	flow_check(caller_counters(late).throttled == 1 && !caller_counters(late).slow,
		   "it was more than once");
	caller_close(busy);
	caller_close(other);
	caller_close(late);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* Two calls a second: one is executed at once. */
static void try_rate(void)
{
	double begun = now();
	struct caller *greedy = caller_new(0), *other = caller_new(0);
	struct pmemrpc_counters seen;

	caller_post_many(greedy, 60, 40);
	caller_wait(greedy, PMEMRPC_DURABLE);
	/* They wait for its rate: nobody else does, and nobody is throttled. */
	while (!(seen = caller_counters(other)).limited) {
		/* The notices may still be on their way. */
		make_room(other);
		pmemrpc_progress(greedy->client);
		flow_check(caller_limits(greedy).executed < 60, "there is no rate");
	}
	flow_check(!seen.throttled, "what waits for a rate is everybody's burden");
	if (pmemrpc_wait(greedy->client, &greedy->calls[2], PMEMRPC_EXECUTED, TIMEOUT_MS))
		flow_die(pmemrpc_client_error(greedy->client));
	flow_check((double) caller_limits(greedy).executed <= 1 + 2 * (now() - begun),
		   "the rate is exceeded");
	/* What it leaves behind is executed at once, and so is what a crash has left. */
	pmemrpc_close(greedy->client);
	caller_connect(greedy);
	flow_check(greedy->before == 60, "what a client has left waits for its rate");
	caller_post_many(greedy, 60, 40);
	caller_wait(greedy, PMEMRPC_DURABLE);
	flow_kill_server();
	flow_start_server();
	caller_reconnect(greedy);
	caller_finish(greedy);
	caller_close(greedy);
	caller_close(other);
}

static void *come_again(void *arg)
{
	caller_connect(arg);
	return NULL;
}

/* A long call holds up its own client, and nobody else. */
static void try_pool(void)
{
	struct caller *slow = caller_new(0), *other = caller_new(0);
	pthread_t thread;

	caller_post(slow, WAIT, 40);
	caller_post_many(slow, 5, 40);
	flow_await_arrival();
	caller_wait(slow, PMEMRPC_DURABLE);
	caller_post_many(other, 20, 40);
	caller_finish(other);
	flow_check(caller_limits(slow).executed == 0, "a call has overtaken another one");
	flow_open_gate(1);
	caller_finish(slow);
	/* Its connection ends meanwhile, and it comes back: it waits for its own call. */
	caller_post(slow, WAIT, 40);
	caller_post_many(slow, 5, 40);
	flow_await_arrival();
	caller_wait(slow, PMEMRPC_DURABLE);
	pmemrpc_close(slow->client);
	flow_check(!pthread_create(&thread, NULL, come_again, slow), "no thread");
	caller_post_many(other, 20, 40);
	caller_finish(other);
	flow_open_gate(1);
	pthread_join(thread, NULL);
	flow_check(slow->before == 12, "what a client has left is not executed when it comes back");
	/* The server is killed while a call runs, which is executed again. */
	caller_post(slow, WAIT, 40);
	caller_post_many(slow, 5, 40);
	flow_await_arrival();
	caller_wait(slow, PMEMRPC_DURABLE);
	flow_kill_server();
	flow_start_server();
	flow_await_arrival();
	flow_open_gate(1);
	caller_reconnect(slow);
	caller_finish(slow);
	caller_reconnect(other);
	caller_finish(other);
	flow_check(caller_counters(other).pool == 2, "the pool has other threads");
	if (pmemrpc_forget(other->client, TIMEOUT_MS))
		flow_die("a client can't be forgotten");
	free(other);
	caller_close(slow);
}

/* Two processes with one identity come while a call of it runs: the last one has it. */
static void try_take_over(void)
{
	struct caller *old = caller_new(0), *other = caller_new(0), *young = caller_new(0);
	pthread_t thread;

	memcpy(young->attr.id, old->attr.id, sizeof(young->attr.id));
	pmemrpc_close(young->client);
	caller_post(old, WAIT, 40);
	caller_post_many(old, 5, 40);
	flow_await_arrival();
	caller_wait(old, PMEMRPC_DURABLE);
	flow_check(!pthread_create(&thread, NULL, come_again, young), "no thread");
	/* The old one's connection ends before its call does. */
	flow_check(pmemrpc_wait(old->client, &old->calls[0], PMEMRPC_EXECUTED, TIMEOUT_MS) ==
			   -ENOTCONN,
		   "it is not taken over");
	caller_post_many(other, 20, 40);
	caller_finish(other);
	flow_open_gate(1);
	pthread_join(thread, NULL);
	flow_check(young->before == 6, "the calls of the old one are not executed");
	caller_post_many(young, 5, 40);
	caller_finish(young);
	flow_check(pmemrpc_reconnect(old->client, TIMEOUT_MS) == -EUCLEAN, "both have it");
	caller_close(old);
	caller_close(young);
	/* The server ends while a call runs: when that is executed. */
	caller_post(other, WAIT, 40);
	caller_wait(other, PMEMRPC_DURABLE);
	flow_await_arrival();
	kill(flow_server, SIGTERM);
	flow_open_gate(1);
	flow_stop_server();
	flow_start_server();
	caller_reconnect(other);
	caller_finish(other);
	caller_close(other);
}

/* Who says nothing loses its connection, perhaps more than once here, and no call. */
static void try_silence(void)
{
	struct caller *caller = caller_new(0);
	int ret;

	while (!(ret = pmemrpc_progress(caller->client)))
		usleep(1000);
	flow_check(ret == -ENOTCONN, "its connection does not just end");
	do
		caller_reconnect(caller);
	while ((ret = caller_try_post(caller, ADD, 40)) == -ENOTCONN);
	while (!ret && (ret = pmemrpc_wait(caller->client, &caller->calls[0], PMEMRPC_EXECUTED,
					   TIMEOUT_MS)) == -ENOTCONN) {
		caller_reconnect(caller);
		ret = 0;
	}
	caller_finish(caller);
	caller_close(caller);
}

/* Long calls wait when the server has to end: it executes the one that runs, and then no other. */
static void try_end(void)
{
	struct caller *slow = caller_new(0), *gone = caller_new(0);
	struct pollfd at_the_gate = {.fd = flow_arrived[0], .events = POLLIN};

	caller_post(slow, WAIT, 40);
	flow_await_arrival();
	/* The server hears of all three at once. */
	caller_post(slow, END, 40);
	caller_post(slow, ADD, 40);
	caller_post(slow, WAIT, 40);
	caller_wait(slow, PMEMRPC_DURABLE);
	flow_open_gate(1);
	flow_await_arrival();
	caller_post(gone, WAIT, 40);
	caller_wait(gone, PMEMRPC_DURABLE);
	pmemrpc_close(gone->client);
	/* It is told once more, and ends as it would have. */
	kill(flow_server, SIGTERM);
	flow_open_gate(3);
	flow_stop_server();
	flow_check(!poll(&at_the_gate, 1, 0), "a call has begun after the server was told to end");
	flow_start_server();
	flow_await_arrival();
	flow_await_arrival();
	caller_reconnect(slow);
	caller_finish(slow);
	caller_connect(gone);
	flow_check(gone->before == 1,
		   "what a client had left is not executed when the server starts");
	flow_check(caller_counters(gone).recovered == 3, "the server has executed them before");
	caller_close(slow);
	caller_close(gone);
}

static const struct {
	const char *name;
	void (*run)(void);
	struct flow_sizes sizes;
} cases[] = {
	{"batches", try_batches, {16384, 64, 1, 0, 0, 0, 0}},
	{"laps", try_laps, {4096, 64, 1, 0, 0, 0, 0}},
	{"killed_batches", try_killed_batches, {16384, 64, 1, 0, 0, 0, 0}},
	{"throttle", try_throttle, {16384, 64, 1, 2, 20, 0, 0}},
	{"rate", try_rate, {16384, 64, 1, 0, 10, 2, 0}},
	{"rate", try_rate, {16384, 64, 1, 2, 10, 2, 0}},
	{"pool", try_pool, {16384, 64, 1, 2, 0, 0, 0}},
	{"end", try_end, {16384, 64, 1, 0, 0, 0, 0}},
	{"end", try_end, {16384, 64, 1, 2, 0, 0, 0}},
	{"silence", try_silence, {16384, 64, 1, 0, 0, 0, 100}},
	{"take_over", try_take_over, {16384, 64, 1, 2, 0, 0, 0}},
};

static void run_case(size_t i)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/flow", flow_directory);
	unlink(path);
	flow_sizes = cases[i].sizes;
	flow_start_server();
	cases[i].run();
	flow_stop_server();
	printf("rpc_flow: ok %s\n", cases[i].name);
	fflush(stdout);
}

struct settings {
	const char *name;
	const char *server; /* the numbers of a server, which the process has to be */
};

enum { SERVER = 256 };

static const struct argp_option options[] = {
	{"server", SERVER, "NUMBERS", OPTION_HIDDEN, "be the server", 0}, {0}};

static bool is_case(const char *name)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!strcmp(cases[i].name, name))
			return true;
	}
	return false;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	if (key == SERVER)
		settings->server = arg;
	else if (key == ARGP_KEY_ARG && state->arg_num == 0)
		flow_directory = arg;
	else if (key == ARGP_KEY_ARG && state->arg_num == 1)
		flow_port = arg;
	else if (key == ARGP_KEY_ARG && state->arg_num == 2)
		settings->name = arg;
	else if (key == ARGP_KEY_END && (!flow_port || !settings->name == !settings->server))
		argp_error(state, "it needs DIRECTORY, PORT and CASE");
	else if (key == ARGP_KEY_END && settings->name && !is_case(settings->name))
		argp_error(state, "there is no case '%s'", settings->name);
	else if (key != ARGP_KEY_END)
		return ARGP_ERR_UNKNOWN;
	return 0;
}

static const struct argp argp = {
	options,
	parse,
	"DIRECTORY PORT CASE",
	"Try batches, the throttle, rates and the pool of libpmemrpc: a server, which is killed in "
	"some cases, with its file in DIRECTORY, and its clients."
	"\vThe cases are batches, laps, killed_batches, throttle, rate, pool, end, silence and "
	"take_over.",
	NULL,
	NULL,
	NULL};

int main(int argc, char **argv)
{
	struct settings settings = {0};

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	if (settings.server)
		return flow_serve(settings.server);
	if (pipe(flow_gate) || pipe(flow_arrived))
		flow_die("no pipes");
	atexit(end_server);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!strcmp(cases[i].name, settings.name))
			run_case(i);
	}
	return EXIT_SUCCESS;
}
