/* SPDX-License-Identifier: BSD-2-Clause */
/* count_client.c -- the client of fi_pmem_rpc: it checks that each of its calls was counted once */
#include "fi_pmem_rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sync_name.h"

#define WAIT_MS 30000

static volatile sig_atomic_t ended, away;

/* on_end -- while the server is away, at once: it could be killed at any time, too */
static void on_end(int signo)
{
	static const char text[] = "fi_pmem_rpc: ended while there was no connection: what becomes "
				   "of calls without replies is not known\n";

	ended = signo;
	if (away && write(STDERR_FILENO, text, sizeof(text) - 1))
		_exit(EXIT_FAILURE);
}

/* end_on_signal -- after what libfabric loads has installed handlers */
static void end_on_signal(void)
{
	struct sigaction action = {.sa_handler = on_end};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

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

/* read_id_file -- 0 bytes: it is new, or who has made it was killed before it was used */
static int read_id_file(const char *path, int fd, uint8_t id[PMEMRPC_ID_LEN])
{
	struct stat st;
	int ret;

	if (fstat(fd, &st))
		return fail_file(path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (st.st_size && st.st_size != PMEMRPC_ID_LEN))
		return fail_file(path, "this is not the file of a client: it would have 16 bytes");
	/* Also what was found: if a sync of it has failed, another one would write nothing. */
	if ((st.st_size && pread(fd, id, PMEMRPC_ID_LEN, 0) != PMEMRPC_ID_LEN) ||
	    pwrite(fd, id, PMEMRPC_ID_LEN, 0) != PMEMRPC_ID_LEN)
		return fail_file(path, "it can't be read or written");
	ret = sync_name(path, fd);
	return ret ? fail_file(path, strerror(-ret)) : 0;
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

/* looks -- does this call only look at the counter? */
static bool looks(const struct settings *settings, uint64_t sequence)
{
	return settings->reads && sequence % 3 == 0;
}

/* value_of -- the counter after this call: that of those that add, which is n without others */
static uint64_t value_of(const struct settings *settings, uint64_t sequence)
{
	return settings->reads ? sequence - sequence / 3 : sequence;
}

static int check(const struct adding *adding, const struct settings *settings)
{
	if (adding->call.state != PMEMRPC_EXECUTED)
		return 0;
	if (!adding->call.status && adding->call.reply_len == sizeof(adding->value) &&
	    adding->value == value_of(settings, adding->call.sequence))
		return 0;
	if (adding->call.status == -EACCES) {
		fprintf(stderr,
			"fi_pmem_rpc: the server's file peers allows this key only to read\n");
		return -1;
	}
	fprintf(stderr, "fi_pmem_rpc: call %llu has status %d and value %llu\n",
		(unsigned long long) adding->call.sequence, adding->call.status,
		(unsigned long long) adding->value);
	return -1;
}

/* again -- the connection is lost: the library knows what to send again */
static int again(struct pmemrpc_client *client, const struct settings *settings)
{
	int ret;

	away = 1;
	if (ended)
		on_end(ended);
	ret = pmemrpc_reconnect(client, settings->timeout_ms);
	away = 0;
	return ret;
}

static int post(struct pmemrpc_client *client, struct adding *adding,
		const struct settings *settings, unsigned char *argument, uint64_t sequence)
{
	time_t end = time(NULL) + WAIT_MS / 1000;
	int ret;

	for (size_t i = 0; i < settings->size; i++)
		argument[i] = count_pattern(sequence, i);
	adding->call = (struct pmemrpc_call){.op = looks(settings, sequence) ? LOOK : ADD,
					     .argument = argument,
					     .argument_len = settings->size,
					     .reply = &adding->value,
					     .reply_size = sizeof(adding->value),
					     .reply_only = settings->reply_only && sequence % 2};
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
			ret = check(next, settings);
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
	const struct settings *settings;
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
	missed->wrong |= call->status || value != value_of(missed->settings, call->sequence);
}

int count_call(const struct settings *settings)
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
	struct missed missed = {.settings = settings};
	struct pmemrpc_client *client;
	char error[1024];
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
