/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scale_clients.c -- many clients that commit at a time: processes of their own, which sleep while
 * they wait
 *
 * Each commits one write after the other, to places that it draws.  They connect one after the
 * other, and begin when all have.  What they have done is in memory that they share.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scale.h"
#include "../common/stats.h"

#define SAMPLES 4096 /* of each client; later ones replace earlier ones */

struct result {
	uint64_t addr, key; /* where it is to write */
	uint64_t writes, elapsed, last;
	uint64_t samples[SAMPLES];
};

struct crowd {
	const struct options *opts;
	const char *port;
	struct result *results; /* shared */
	pid_t pids[SCALE_CLIENTS];
	size_t started;
	int ready[2]; /* a byte of each client that has connected, or can't */
	int go[2];    /* closed when all have */
};

/* ---- a client ---- */

struct one {
	struct crowd *crowd;
	size_t number;
	struct node node;
	struct conn conn;
	struct memory memory;
	struct region region;
};

static int open_one(struct one *one)
{
	const struct options *opts = one->crowd->opts;
	struct node_attr attr = hub_node_attr(opts, one->crowd->port);
	struct conn_attr conn = {
		.format = FI_CQ_FORMAT_CONTEXT, .wait = FI_WAIT_FD, .selective = true};
	int ret = fabric_open(&one->node, opts, &attr);

	if (!ret && memory_map(&one->memory, NULL, AREA_SIZE))
		ret = -FI_ENOMEM;
	if (!ret)
		ret = region_register(&one->node, &one->region, one->memory.base, AREA_SIZE,
				      FI_WRITE, 0);
	if (!ret)
		ret = conn_create(&one->conn, &one->node, one->node.info, &conn);
	if (!ret)
		ret = conn_connect(&one->conn, NULL, 0, NULL);
	if (!ret)
		pattern_fill(one->memory.base, AREA_SIZE, one->number + 1, 0);
	return ret;
}

/* draw -- the next place: nobody else writes there */
static size_t draw(const struct one *one, uint64_t *seed)
{
	const struct options *opts = one->crowd->opts;
	size_t places = AREA_SIZE / opts->sizes[0] / opts->connections;

	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return ((*seed >> 33) % places * opts->connections + one->number) * opts->sizes[0];
}

static int commit_one(struct one *one, size_t offset)
{
	const struct options *opts = one->crowd->opts;
	const struct result *result = &one->crowd->results[one->number];
	struct iovec iov = {(char *) one->region.buf + offset, opts->sizes[0]};
	struct fi_rma_iov to = {result->addr + offset, iov.iov_len, result->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &one->region.desc,
		.iov_count = 1,
		.rma_iov = &to,
		.rma_iov_count = 1,
	};
	uint64_t flags = is_core(opts) ? FI_DELIVERY_COMPLETE : FI_COMMIT_COMPLETE;
	uint64_t deadline = deadline_in(opts->timeout);
	struct fi_cq_entry entry;
	ssize_t ret;

	ret = fi_writemsg(one->conn.ep, &msg, flags | FI_COMPLETION);
	if (ret)
		return report("fi_writemsg", ret);
	while ((ret = fi_cq_sread(one->conn.txcq, &entry, 1, NULL, 1000)) == -FI_EAGAIN) {
		if (now_ns() > deadline)
			return report("a commit", -FI_ETIMEDOUT);
	}
	if (ret == -FI_EAVAIL)
		return cq_report(one->conn.txcq);
	return ret == 1 ? 0 : report("fi_cq_sread", ret);
}

static int run_one(struct one *one)
{
	const struct options *opts = one->crowd->opts;
	struct result *result = &one->crowd->results[one->number];
	uint64_t begin = now_ns(), limit = opts->limit * UINT64_C(1000000), before, seed = begin;
	int ret = 0;

	do {
		result->last = draw(one, &seed);
		before = now_ns();
		ret = commit_one(one, result->last);
		result->elapsed = now_ns() - begin;
		result->samples[result->writes++ % SAMPLES] = now_ns() - before;
	} while (!ret && result->elapsed < limit);
	return ret;
}

static int be_one(struct crowd *crowd, size_t number)
{
	struct one one = {.crowd = crowd, .number = number};
	int ret = open_one(&one);
	char byte = ret ? '!' : '+';

	close(crowd->go[1]);
	if (write(crowd->ready[1], &byte, 1) != 1)
		ret = -FI_EOTHER;
	/* It is closed when all are ready, or the first process is gone. */
	if (!ret && read(crowd->go[0], &byte, 1) == 0)
		ret = run_one(&one);
	conn_close(&one.conn);
	region_close(&one.region);
	memory_unmap(&one.memory);
	node_close(&one.node);
	return ret;
}

/* ---- all of them ---- */

static int start_one(struct crowd *crowd)
{
	struct pollfd pfd = {.fd = crowd->ready[0], .events = POLLIN};
	size_t number = crowd->started;
	char byte = '!';
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return report("fork", -errno);
	if (!pid)
		_exit(be_one(crowd, number) ? EXIT_FAILURE : EXIT_SUCCESS);
	crowd->pids[crowd->started++] = pid;
	if (poll(&pfd, 1, (int) crowd->opts->timeout * 1000) != 1 ||
	    read(crowd->ready[0], &byte, 1) != 1)
		return report("a client's start", -FI_ETIMEDOUT);
	return byte == '+' ? 0 : -FI_ECONNREFUSED;
}

static int await_all(struct crowd *crowd)
{
	int status, ret = 0;

	for (size_t i = 0; i < crowd->started; i++) {
		if (waitpid(crowd->pids[i], &status, 0) < 0 || !WIFEXITED(status) ||
		    WEXITSTATUS(status))
			ret = -FI_EOTHER;
	}
	return ret;
}

/* find_places -- a region for all, or one for each */
static int find_places(struct crowd *crowd, scale_ask ask, void *arg, bool each)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < crowd->started; i++) {
		struct control_msg msg = {.command = ASK_REGION, .arg = {each ? i + 1 : 0}};

		ret = ask(arg, &msg);
		crowd->results[i].addr = msg.arg[0];
		crowd->results[i].key = msg.arg[1];
	}
	return ret;
}

static int check_all(struct crowd *crowd, scale_ask ask, void *arg, bool each)
{
	size_t size = crowd->opts->sizes[0];

	for (size_t i = 0; i < crowd->started; i++) {
		struct control_msg msg = {
			.command = ASK_CHECK,
			.arg = {crowd->results[i].last, size, i + 1, each ? i + 1 : 0},
		};
		int ret = ask(arg, &msg);

		if (ret)
			return ret;
		if (msg.arg[0] != size) {
			fprintf(stderr, "the last write of client %zu is wrong at the target\n", i);
			return -FI_EIO;
		}
	}
	return 0;
}

static int print_all(const struct crowd *crowd, const char *operation)
{
	const struct options *opts = crowd->opts;
	struct measured row = {
		.provider = opts->provider,
		.operation = operation,
		.bytes = opts->sizes[0],
		.in_flight = 1,
		.threads = opts->connections,
		.samples = calloc(crowd->started, sizeof(crowd->results->samples)),
	};
	int ret;

	if (!row.samples)
		return report("calloc", -FI_ENOMEM);
	for (size_t i = 0; i < crowd->started; i++) {
		const struct result *result = &crowd->results[i];
		size_t kept = result->writes < SAMPLES ? result->writes : SAMPLES;

		memcpy(row.samples + row.count, result->samples, kept * sizeof(*row.samples));
		row.count += kept;
		row.operations += result->writes;
		row.elapsed = result->elapsed > row.elapsed ? result->elapsed : row.elapsed;
	}
	print_bandwidth_header();
	print_bandwidth(row.bytes, row.operations, row.operations, row.elapsed);
	ret = append_csv(opts->csv, opts->prog, &row) ? -FI_EIO : 0;
	free(row.samples);
	return ret;
}

int scale_clients(const struct options *opts, const char *port, bool each, scale_ask ask, void *arg)
{
	struct crowd crowd = {.opts = opts, .port = port};
	size_t len = opts->connections * sizeof(*crowd.results);
	int ret = 0;

	crowd.results = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (crowd.results == MAP_FAILED)
		return report("mmap", -errno);
	if (pipe(crowd.ready) || pipe(crowd.go)) {
		munmap(crowd.results, len);
		return report("pipe", -errno);
	}
	while (!ret && crowd.started < opts->connections)
		ret = start_one(&crowd);
	if (!ret)
		ret = find_places(&crowd, ask, arg, each);
	for (size_t i = 0; ret && i < crowd.started; i++)
		kill(crowd.pids[i], SIGTERM);
	close(crowd.go[1]);
	ret = await_all(&crowd) ? -FI_EOTHER : ret;
	if (!ret)
		ret = check_all(&crowd, ask, arg, each);
	if (!ret)
		ret = print_all(&crowd, each ? "clients-each" : "clients");
	close(crowd.go[0]);
	close(crowd.ready[0]);
	close(crowd.ready[1]);
	munmap(crowd.results, len);
	return ret;
}
