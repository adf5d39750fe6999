/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc_flow.c -- batches, throttle, rates and the pool: a server process, and its clients here
 *
 * The server adds 1 to a client's counter for each call, so the reply to call number n is n.  Some
 * calls wait at a gate: the handler says that it has come there, and goes on when it is told
 * to.  So nothing here depends on how fast anything is.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pmemrpc.h"

#define TIMEOUT_MS 120000
#define CALLS 1024U

enum op {
	ADD = 1,
	WAIT,     /* at the gate; then as ADD */
	COUNTERS, /* the reply is the server's */
	END,      /* as if a signal had told the server to; then as WAIT */
};

struct reply {
	uint64_t count;
	struct pmemrpc_counters counters;
};

/* What a case wants of the server. */
struct wish {
	unsigned int ring, window, threads, pool, throttle, rate, silence_ms;
};

/* A client, and all its calls: call i is the i-th that this program makes. */
struct caller {
	struct pmemrpc_client *client;
	struct pmemrpc_client_attr attr;
	struct pmemrpc_call calls[CALLS];
	struct reply replies[CALLS];
	unsigned int count;
	uint64_t before; /* calls of earlier lives */
	unsigned int paces[CALLS], num_paces;
	uint64_t flushes; /* before a part of a case */
};

static char *directory, *port;
static struct wish wished;
static pid_t server_pid;
/* The server inherits them: it says in `arrived` that a call is at the gate. */
static int gate[2], arrived[2];

static void end_server(void)
{
	if (server_pid > 0)
		kill(server_pid, SIGKILL);
}

static void die(const char *what)
{
	fprintf(stderr, "rpc_flow: %s\n", what);
	exit(EXIT_FAILURE);
}

static void check(bool is_right, const char *what)
{
	if (!is_right)
		die(what);
}

/* ---- the server ---- */

static struct pmemrpc_server *server;

static void on_end(int signo)
{
	(void) signo;
	pmemrpc_server_stop(server);
}

static int handle(struct pmemrpc_request *request, void *context)
{
	uint64_t *counts, value;
	struct reply *reply = request->reply;
	size_t len;
	char one = 1;

	(void) context;
	counts = pmemrpc_memory(request->server, &len);
	memset(reply, 0, sizeof(*reply));
	request->reply_len = sizeof(*reply);
	if (request->op == COUNTERS)
		pmemrpc_server_counters(request->server, &reply->counters);
	if (request->op == END)
		pmemrpc_server_stop(request->server);
	if ((request->op == WAIT || request->op == END) &&
	    (write(arrived[1], &one, 1) != 1 || read(gate[0], &one, 1) != 1))
		return -EIO;
	value = request->sequence == 1 ? 1 : counts[request->client] + 1;
	reply->count = value;
	return pmemrpc_store(request, &counts[request->client], &value, sizeof(value));
}

static int be_server(char **argv)
{
	struct sigaction action = {.sa_handler = on_end};
	struct pmemrpc_server_attr attr = {.path = argv[2],
					   .service = argv[3],
					   .clients = 8,
					   .reply_max = sizeof(struct reply),
					   .effects_max = 64,
					   .memory = 4096,
					   .handler = handle};
	char error[256];
	int ret;

	sscanf(argv[4], "%zu %u %u %u %u %u %u %d %d", &attr.ring, &attr.window, &attr.threads,
	       &attr.pool, &attr.throttle, &attr.rate, &attr.silence_ms, &gate[0], &arrived[1]);
	/* Its parent may be killed, and would leave the port taken. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ret = pmemrpc_server_open(&attr, &server, error, sizeof(error));
	if (ret)
		die(error);
	sigaction(SIGTERM, &action, NULL);
	ret = pmemrpc_server_run(server);
	/* It may be told again. */
	signal(SIGTERM, SIG_IGN);
	pmemrpc_server_close(server);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void start_server(void)
{
	char name[] = "rpc_flow", server_option[] = "--server", path[512], numbers[256];
	char *argv[] = {name, server_option, path, port, numbers, NULL};
	extern char **environ;

	snprintf(path, sizeof(path), "%s/flow", directory);
	snprintf(numbers, sizeof(numbers), "%u %u %u %u %u %u %u %d %d", wished.ring, wished.window,
		 wished.threads, wished.pool, wished.throttle, wished.rate, wished.silence_ms,
		 gate[0], arrived[1]);
	if (posix_spawn(&server_pid, "/proc/self/exe", NULL, NULL, argv, environ))
		die("the server can't be started");
}

static void kill_server(void)
{
	kill(server_pid, SIGKILL);
	waitpid(server_pid, NULL, 0);
}

static void stop_server(void)
{
	int status;

	kill(server_pid, SIGTERM);
	check(waitpid(server_pid, &status, 0) == server_pid && status == 0,
	      "the server has not ended as it should");
	server_pid = 0;
}

/* await_arrival -- a call is at the gate */
static void await_arrival(void)
{
	char one;

	check(read(arrived[0], &one, 1) == 1, "no call has come to the gate");
}

static void open_gate(unsigned int calls)
{
	while (calls--)
		check(write(gate[1], "", 1) == 1, "the gate does not open");
}

/* ---- clients ---- */

static void on_pace(unsigned int calls, void *context)
{
	struct caller *caller = context;

	if (caller->num_paces < CALLS)
		caller->paces[caller->num_paces++] = calls;
}

/* come -- connect, as the identity that it has */
static void come(struct caller *caller)
{
	struct pmemrpc_limits limits;
	char error[256];

	if (pmemrpc_connect(&caller->attr, &caller->client, error, sizeof(error)))
		die(error);
	pmemrpc_get_limits(caller->client, &limits);
	caller->before = limits.executed;
	caller->count = 0;
	memset(caller->calls, 0, sizeof(caller->calls));
}

static struct caller *new_caller(unsigned int batch)
{
	struct caller *caller = calloc(1, sizeof(*caller));

	if (!caller || getrandom(caller->attr.id, sizeof(caller->attr.id), 0) < 0)
		die("no memory, or no random numbers");
	caller->attr.node = "127.0.0.1";
	caller->attr.service = port;
	caller->attr.timeout_ms = TIMEOUT_MS;
	caller->attr.batch = batch;
	caller->attr.paced = on_pace;
	caller->attr.context = caller;
	come(caller);
	return caller;
}

static void leave(struct caller *caller)
{
	pmemrpc_close(caller->client);
	free(caller);
}

static int try_post(struct caller *caller, enum op op, size_t len)
{
	static const unsigned char argument[4096];
	struct pmemrpc_call *call = &caller->calls[caller->count];
	int ret;

	check(caller->count < CALLS, "too many calls");
	*call = (struct pmemrpc_call){.op = op,
				      .argument = argument,
				      .argument_len = len,
				      .reply = &caller->replies[caller->count],
				      .reply_size = sizeof(struct reply)};
	ret = pmemrpc_post(caller->client, call);
	caller->count += !ret;
	return ret;
}

/* post -- a call for which there is room */
static void post(struct caller *caller, enum op op, size_t len)
{
	if (try_post(caller, op, len))
		die("there is no room for a call");
}

static void post_many(struct caller *caller, unsigned int count, size_t len)
{
	while (count--)
		post(caller, ADD, len);
}

static void wait_for(struct caller *caller, enum pmemrpc_state state)
{
	for (unsigned int i = 0; i < caller->count; i++) {
		if (pmemrpc_wait(caller->client, &caller->calls[i], state, TIMEOUT_MS))
			die(pmemrpc_client_error(caller->client));
	}
}

/* finish -- all calls so far are executed, each once */
static void finish(struct caller *caller)
{
	wait_for(caller, PMEMRPC_EXECUTED);
	for (unsigned int i = 0; i < caller->count; i++) {
		if (!caller->calls[i].status &&
		    caller->replies[i].count == caller->before + i + 1 &&
		    caller->calls[i].sequence == caller->before + i + 1)
			continue;
		fprintf(stderr, "rpc_flow: call %u after %llu: %llu, status %d\n", i + 1,
			(unsigned long long) caller->before,
			(unsigned long long) caller->replies[i].count, caller->calls[i].status);
		die("a call was executed twice, or in the wrong order");
	}
}

static struct pmemrpc_limits limits_of(const struct caller *caller)
{
	struct pmemrpc_limits limits;

	pmemrpc_get_limits(caller->client, &limits);
	return limits;
}

/* counters -- of the server, by a call of this client, which has no others now */
static struct pmemrpc_counters counters(struct caller *caller)
{
	post(caller, COUNTERS, 0);
	finish(caller);
	return caller->replies[caller->count - 1].counters;
}

static void reconnect(struct caller *caller)
{
	if (pmemrpc_reconnect(caller->client, TIMEOUT_MS))
		die(pmemrpc_client_error(caller->client));
}

/* ---- the cases ---- */

static void on_durable(struct pmemrpc_call *call)
{
	struct caller *caller = call->context;
	struct pmemrpc_limits limits = limits_of(caller);

	if (call->state == PMEMRPC_DURABLE)
		check(limits.flushes - caller->flushes == 2,
		      "a call is said to be durable, and was not sent yet");
}

/* A call is on its way, and two are held back. */
static void try_held(struct caller *caller)
{
	struct pmemrpc_call *calls = &caller->calls[caller->count];

	caller->flushes = limits_of(caller).flushes;
	post_many(caller, 3, 40);
	calls[1].context = calls[2].context = caller;
	calls[1].notify = calls[2].notify = on_durable;
	if (pmemrpc_wait(caller->client, &calls[0], PMEMRPC_DURABLE, TIMEOUT_MS))
		die(pmemrpc_client_error(caller->client));
	/* Who waits for that one, and does not come again, has them on their way. */
	check(limits_of(caller).flushes - caller->flushes == 2, "calls are held back by no flush");
	finish(caller);
}

/* What shares a flush, and what does not. */
static void try_batches(void)
{
	struct caller *caller = new_caller(8);
	struct pmemrpc_counters seen;

	post(caller, ADD, 40);
	finish(caller);
	check(limits_of(caller).flushes == 1, "a lone call needs one flush");
	/* Nothing is read meanwhile: the first goes, eight fill a batch, and again. */
	post_many(caller, 17, 40);
	finish(caller);
	check(limits_of(caller).flushes == 4, "1, 8 and 8 calls need three flushes");
	seen = counters(caller);
	check(seen.notices == 5 && seen.batches == 2, "the server was told of other flushes");
	check(seen.bytes == 18 * 40 && seen.reply_bytes == 18 * sizeof(struct reply),
	      "the server counts other bytes");
	/* 1, 2 that the long one drives out, that, 2, another one, 3. */
	post_many(caller, 3, 40);
	post_many(caller, 1, 1000);
	post_many(caller, 2, 40);
	post_many(caller, 1, 1000);
	post_many(caller, 3, 40);
	finish(caller);
	check(limits_of(caller).flushes == 5 + 6, "long calls have flushes of their own");
	try_held(caller);
	leave(caller);
	caller = new_caller(1);
	post_many(caller, 10, 40);
	finish(caller);
	check(limits_of(caller).flushes == 10, "without batches each call has a flush");
	leave(caller);
}

/* A ring that wraps, with long entries, too; the window is always full. */
static void try_laps(void)
{
	struct caller *caller = new_caller(0);
	unsigned int done = 0;

	check(limits_of(caller).batch == 16, "by itself a quarter of the window shares a flush");
	while (caller->count < CALLS - 1) {
		unsigned int i = caller->count;
		int ret = try_post(caller, ADD, i % 50 == 49 ? 1500 : 30 + i % 90);

		if (ret != -EAGAIN)
			check(!ret, "a call is refused");
		else if (pmemrpc_wait(caller->client, &caller->calls[done++], PMEMRPC_EXECUTED,
				      TIMEOUT_MS))
			die(pmemrpc_client_error(caller->client));
	}
	finish(caller);
	check(counters(caller).batches, "no calls have shared a flush");
	leave(caller);
}

/* A server that is killed while calls are held back, and while a batch waits to be executed. */
static void try_killed_batches(void)
{
	struct caller *caller = new_caller(32);

	post(caller, WAIT, 40);
	await_arrival();
	post_many(caller, 20, 40);
	kill_server();
	start_server();
	/* The first call was durable, and is executed again: the server comes when it is. */
	await_arrival();
	open_gate(1);
	reconnect(caller);
	finish(caller);
	check(limits_of(caller).sent_again == 0, "what was never sent was sent again");
	post(caller, WAIT, 40);
	post_many(caller, 20, 40);
	post_many(caller, 1, 1000);
	wait_for(caller, PMEMRPC_DURABLE);
	await_arrival();
	kill_server();
	start_server();
	await_arrival();
	open_gate(1);
	reconnect(caller);
	check(limits_of(caller).sent_again == 0, "a batch that was durable was sent again");
	finish(caller);
	leave(caller);
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
	while (counters(caller).waiting != calls + 1)
		make_room(caller);
}

static void try_throttle(void)
{
	struct caller *busy = new_caller(0), *other = new_caller(0), *late;
	unsigned int first;

	post(busy, WAIT, 40);
	await_arrival();
	post_many(busy, 30, 40);
	wait_for(busy, PMEMRPC_DURABLE);
	await_waiting(other, 31);
	check(counters(other).throttled == 1, "31 calls wait, and 20 are too many");
	check(counters(other).slow, "the server does not say that it is slow");
	check(limits_of(other).pace && limits_of(other).paced == 1, "a reply has said nothing");
	/* Who comes now hears it at once: a quarter of 20, for each of three. */
	late = new_caller(0);
	first = limits_of(late).pace;
	check(first == 1 && late->num_paces == 1 && late->paces[0] == 1,
	      "a new client hears nothing");
	post(late, ADD, 40);
	check(try_post(late, ADD, 40) == -EAGAIN, "a client does not slow down");
	finish(late);
	post(late, ADD, 40);
	open_gate(1);
	finish(busy);
	finish(late);
	check(busy->num_paces == 2 && busy->paces[0] && !busy->paces[1],
	      "a client was not told first to slow down, and then to go on");
	/* Who was slow hears with its next reply that it may go on. */
	post(late, ADD, 40);
	finish(late);
	check(!limits_of(late).pace, "it is over, and a client does not know it");
	post_many(late, 20, 40);
	finish(late);
	check(counters(late).throttled == 1 && !counters(late).slow, "it was more than once");
	leave(busy);
	leave(other);
	leave(late);
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
	struct caller *greedy = new_caller(0), *other = new_caller(0);
	struct pmemrpc_counters seen;

	post_many(greedy, 60, 40);
	wait_for(greedy, PMEMRPC_DURABLE);
	/* They wait for its rate: nobody else does, and nobody is throttled. */
	while (!(seen = counters(other)).limited) {
		/* The notices may still be on their way. */
		make_room(other);
		pmemrpc_progress(greedy->client);
		check(limits_of(greedy).executed < 60, "there is no rate");
	}
	check(!seen.throttled, "what waits for a rate is everybody's burden");
	if (pmemrpc_wait(greedy->client, &greedy->calls[2], PMEMRPC_EXECUTED, TIMEOUT_MS))
		die(pmemrpc_client_error(greedy->client));
	check((double) limits_of(greedy).executed <= 1 + 2 * (now() - begun),
	      "the rate is exceeded");
	/* What it leaves behind is executed at once, and so is what a crash has left. */
	pmemrpc_close(greedy->client);
	come(greedy);
	check(greedy->before == 60, "what a client has left waits for its rate");
	post_many(greedy, 60, 40);
	wait_for(greedy, PMEMRPC_DURABLE);
	kill_server();
	start_server();
	reconnect(greedy);
	finish(greedy);
	leave(greedy);
	leave(other);
}

static void *come_again(void *arg)
{
	come(arg);
	return NULL;
}

/* A long call holds up its own client, and nobody else. */
static void try_pool(void)
{
	struct caller *slow = new_caller(0), *other = new_caller(0);
	pthread_t thread;

	post(slow, WAIT, 40);
	post_many(slow, 5, 40);
	await_arrival();
	wait_for(slow, PMEMRPC_DURABLE);
	post_many(other, 20, 40);
	finish(other);
	check(limits_of(slow).executed == 0, "a call has overtaken another one");
	open_gate(1);
	finish(slow);
	/* Its connection ends meanwhile, and it comes back: it waits for its own call. */
	post(slow, WAIT, 40);
	post_many(slow, 5, 40);
	await_arrival();
	wait_for(slow, PMEMRPC_DURABLE);
	pmemrpc_close(slow->client);
	check(!pthread_create(&thread, NULL, come_again, slow), "no thread");
	post_many(other, 20, 40);
	finish(other);
	open_gate(1);
	pthread_join(thread, NULL);
	check(slow->before == 12, "what a client has left is not executed when it comes back");
	/* The server is killed while a call runs, which is executed again. */
	post(slow, WAIT, 40);
	post_many(slow, 5, 40);
	await_arrival();
	wait_for(slow, PMEMRPC_DURABLE);
	kill_server();
	start_server();
	await_arrival();
	open_gate(1);
	reconnect(slow);
	finish(slow);
	reconnect(other);
	finish(other);
	check(counters(other).pool == 2, "the pool has other threads");
	if (pmemrpc_forget(other->client, TIMEOUT_MS))
		die("a client can't be forgotten");
	free(other);
	leave(slow);
}

/* Two processes with one identity come while a call of it runs: the last one has it. */
static void try_take_over(void)
{
	struct caller *old = new_caller(0), *other = new_caller(0), *young = new_caller(0);
	pthread_t thread;

	memcpy(young->attr.id, old->attr.id, sizeof(young->attr.id));
	pmemrpc_close(young->client);
	post(old, WAIT, 40);
	post_many(old, 5, 40);
	await_arrival();
	wait_for(old, PMEMRPC_DURABLE);
	check(!pthread_create(&thread, NULL, come_again, young), "no thread");
	/* The old one's connection ends before its call does. */
	check(pmemrpc_wait(old->client, &old->calls[0], PMEMRPC_EXECUTED, TIMEOUT_MS) == -ENOTCONN,
	      "it is not taken over");
	post_many(other, 20, 40);
	finish(other);
	open_gate(1);
	pthread_join(thread, NULL);
	check(young->before == 6, "the calls of the old one are not executed");
	post_many(young, 5, 40);
	finish(young);
	check(pmemrpc_reconnect(old->client, TIMEOUT_MS) == -EUCLEAN, "both have it");
	leave(old);
	leave(young);
	/* The server ends while a call runs: when that is executed. */
	post(other, WAIT, 40);
	wait_for(other, PMEMRPC_DURABLE);
	await_arrival();
	kill(server_pid, SIGTERM);
	open_gate(1);
	stop_server();
	start_server();
	reconnect(other);
	finish(other);
	leave(other);
}

/* Who says nothing loses its connection, perhaps more than once here, and no call. */
static void try_silence(void)
{
	struct caller *caller = new_caller(0);
	int ret;

	while (!(ret = pmemrpc_progress(caller->client)))
		usleep(1000);
	check(ret == -ENOTCONN, "its connection does not just end");
	do
		reconnect(caller);
	while ((ret = try_post(caller, ADD, 40)) == -ENOTCONN);
	while (!ret && (ret = pmemrpc_wait(caller->client, &caller->calls[0], PMEMRPC_EXECUTED,
					   TIMEOUT_MS)) == -ENOTCONN) {
		reconnect(caller);
		ret = 0;
	}
	finish(caller);
	leave(caller);
}

/* Long calls wait when the server has to end: it executes the one that runs, and then no other. */
static void try_end(void)
{
	struct caller *slow = new_caller(0), *gone = new_caller(0);
	struct pollfd at_the_gate = {.fd = arrived[0], .events = POLLIN};

	post(slow, WAIT, 40);
	await_arrival();
	/* The server hears of all three at once. */
	post(slow, END, 40);
	post(slow, ADD, 40);
	post(slow, WAIT, 40);
	wait_for(slow, PMEMRPC_DURABLE);
	open_gate(1);
	await_arrival();
	post(gone, WAIT, 40);
	wait_for(gone, PMEMRPC_DURABLE);
	pmemrpc_close(gone->client);
	/* It is told once more, and ends as it would have. */
	kill(server_pid, SIGTERM);
	open_gate(3);
	stop_server();
	check(!poll(&at_the_gate, 1, 0), "a call has begun after the server was told to end");
	start_server();
	await_arrival();
	await_arrival();
	reconnect(slow);
	finish(slow);
	come(gone);
	check(gone->before == 1, "what a client had left is not executed when the server starts");
	check(counters(gone).recovered == 3, "the server has executed them before");
	leave(slow);
	leave(gone);
}

static const struct {
	const char *name;
	void (*run)(void);
	struct wish wish;
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

	snprintf(path, sizeof(path), "%s/flow", directory);
	unlink(path);
	wished = cases[i].wish;
	start_server();
	cases[i].run();
	stop_server();
	printf("rpc_flow: ok %s\n", cases[i].name);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	bool found = false;

	if (argc == 5 && !strcmp(argv[1], "--server"))
		return be_server(argv);
	if (argc != 4 || pipe(gate) || pipe(arrived))
		die("usage: rpc_flow DIRECTORY PORT CASE");
	directory = argv[1];
	port = argv[2];
	atexit(end_server);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[3]))
			continue;
		found = true;
		run_case(i);
	}
	check(found, "there is no such case");
	return EXIT_SUCCESS;
}
