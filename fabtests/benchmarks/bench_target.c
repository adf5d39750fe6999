/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_target.c -- the target of the benchmarks on libfabric: it does what the initiator's
 * messages say
 *
 * With more than one connection, each has a thread; the first thread accepts them and looks
 * after them.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_impl.h"
#include "../common/memory_direct.h"
#include "../common/stats.h"

struct server {
	struct bench *benches;
	size_t started;
	atomic_size_t served;
	bool ended;       /* the first event after all have come: a connection has ended */
	atomic_bool gone; /* give up */
};

/* open_memory -- connections share a file's memory, as they share a mapped file */
static int open_memory(struct bench *bench, size_t len)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct memory shared;
	int ret = 0;

	if (!memory_direct_path(bench->opts->memory))
		return memory_map(&bench->memory, bench->opts->memory, len);
	pthread_mutex_lock(&lock);
	if (!shared.base)
		ret = memory_open(&shared, bench->node->domain, bench->opts->memory, len);
	bench->memory = (struct memory){.base = shared.base, .len = len};
	pthread_mutex_unlock(&lock);
	return ret || shared.len < len;
}

static int offer_memory(struct bench *bench, struct bench_msg *msg)
{
	bool core = is_core(bench->opts);
	uint64_t access = FI_REMOTE_WRITE | (core ? FI_REMOTE_READ : 0);

	msg->ok = !bench->memory.base && !open_memory(bench, msg->len) &&
		  !region_register(bench->node, &bench->region, bench->memory.base, msg->len,
				   access, core ? 0 : FI_RMA_PMEM);
	msg->addr = bench->region.addr;
	msg->key = bench->region.key;
	return 0;
}

static bool in_memory(const struct bench *bench, const struct bench_msg *msg)
{
	return msg->offset <= bench->region.len && msg->len <= bench->region.len - msg->offset;
}

static void clear_memory(struct bench *bench, struct bench_msg *msg)
{
	bench->immediates = 0;
	msg->ok = in_memory(bench, msg);
	if (msg->ok)
		memset(bench->memory.base, 0, msg->len);
}

static void verify_memory(struct bench *bench, struct bench_msg *msg)
{
	const char *base = bench->memory.base;
	size_t right;

	if (!in_memory(bench, msg))
		return;
	right = pattern_check(base + msg->offset, msg->len, msg->seed, msg->offset);
	msg->ok = right == msg->len;
	msg->offset += right;
}

/* answer -- do what the initiator's message says */
static int answer(struct bench *bench, bool *bye)
{
	struct bench_msg *msg = bench_to_send(bench);

	*msg = bench->answer;
	bench->answered = false;
	switch (msg->type) {
	case MSG_ALIVE:
		return 0;
	case MSG_REGION:
		offer_memory(bench, msg);
		break;
	case MSG_CLEAR:
		clear_memory(bench, msg);
		break;
	case MSG_VERIFY:
		verify_memory(bench, msg);
		break;
	case MSG_COUNT:
		msg->count = bench->immediates;
		break;
	case MSG_BYE:
		*bye = true;
		return bench_post_message(bench);
	default:
		fprintf(stderr, "a message of unknown type %u: is that our client?\n", msg->type);
		return -FI_EINVAL;
	}
	return bench_send_message(bench);
}

/* is_event -- is there one, and not of a client that comes too late, which is refused? */
static bool is_event(struct node *node, int ms)
{
	struct cm_event event;
	int ret = node_event(node, &event, ms);

	if (ret > 0 && event.event == FI_CONNREQ) {
		node_reject(node, event.entry.info, NULL);
		return false;
	}
	return ret != 0;
}

/* peer_gone -- the connection has ended; a second client, meanwhile, has to go away */
static bool peer_gone(struct bench *bench)
{
	if (bench->server)
		return atomic_load(&bench->server->gone);
	return is_event(bench->node, 0);
}

/*
 * await_end -- the answer to the goodbye must not be overtaken by the end of
 * the connection, which is therefore the client's to close; tcp notices that
 * only while the completion queue is read.  The answer's completion may never come:
 * a client that has it may have gone before it was acknowledged, and Soft-RoCE
 * then repeats it for ever.
 */
static void await_end(struct bench *bench)
{
	uint64_t deadline = deadline_in(bench->opts->timeout);
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error;

	while (!peer_gone(bench) && now_ns() < deadline) {
		if (fi_cq_read(bench->conn.rxcq, &entry, 1) == -FI_EAVAIL)
			cq_error(bench->conn.rxcq, &error);
	}
}

/* next_completion -- 1: there was one, 0: none within a moment, and the peer is there */
static int next_completion(struct bench *bench, struct fi_cq_data_entry *entry)
{
	int i, spins = bench_sleeps(bench) ? 1 : BENCH_SPINS;
	ssize_t ret;

	if (bench_sleeps(bench)) {
		ret = bench_read_or_sleep(bench, bench->conn.rxcq, entry);
		if (ret != -FI_EAGAIN && ret != -FI_EAVAIL)
			return ret < 0 ? report("fi_cq_sread", ret) : 1;
	}
	for (i = 0; i < spins; i++) {
		ret = bench_poll_cq(bench, entry);
		if (ret)
			return (int) ret;
	}
	if (!peer_gone(bench))
		return 0;
	fprintf(stderr, "the client has gone\n");
	return -FI_ECONNRESET;
}

static int serve(struct bench *bench)
{
	uint64_t deadline = deadline_in(bench->opts->timeout);
	struct fi_cq_data_entry entry;
	bool bye = false;
	int ret;

	while (!bye) {
		ret = next_completion(bench, &entry);
		if (ret < 0)
			return ret;
		if (ret) {
			ret = bench_handle(bench, &entry);
			deadline = deadline_in(bench->opts->timeout);
		}
		if (!ret && bench->answered)
			ret = answer(bench, &bye);
		if (ret)
			return ret;
		if (now_ns() > deadline)
			return bench_late();
	}
	return 0;
}

static int accept_one(struct bench *bench)
{
	struct cm_event event;
	int ret = conn_request(bench->node, &event);

	if (ret)
		return ret;
	if (bench->wait == WAIT_DEFAULT && node_is_passive(bench->node))
		bench->wait = WAIT_SREAD;
	ret = bench_create_messages(bench);
	if (!ret)
		ret = bench_create_conn(bench, event.entry.info);
	fi_freeinfo(event.entry.info);
	return ret ? ret : conn_accept(&bench->conn, NULL, 0);
}

/* await_sent -- nobody reads this queue until all connections are served */
static void await_sent(struct bench *bench)
{
	struct fi_cq_data_entry entry;
	int ret = 0;

	while (ret >= 0 && !bench->sent && !peer_gone(bench)) {
		ret = bench_poll_cq(bench, &entry);
		if (ret > 0)
			ret = bench_handle(bench, &entry);
	}
}

static void *serve_thread(void *arg)
{
	struct bench *bench = arg;

	bench->ret = serve(bench);
	if (!bench->ret)
		await_sent(bench);
	atomic_fetch_add(&bench->server->served, 1);
	return NULL;
}

/*
 * watch -- until all connections are served.  One that goes before has failed, and there is
 * nothing more to wait for.
 */
static void watch(struct server *server)
{
	while (atomic_load(&server->served) < server->started) {
		if (is_event(server->benches[0].node, BENCH_SLEEP_MS))
			server->ended = true;
		if (server->ended && atomic_load(&server->served) < server->started)
			atomic_store(&server->gone, true);
	}
}

/* await_ends -- of connections that the client closes together; see await_end */
static void await_ends(struct server *server)
{
	uint64_t deadline = deadline_in(server->benches[0].opts->timeout);
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error;
	size_t i;

	while (!server->ended && now_ns() < deadline) {
		for (i = 0; i < server->started; i++) {
			if (fi_cq_read(server->benches[i].conn.rxcq, &entry, 1) == -FI_EAVAIL)
				cq_error(server->benches[i].conn.rxcq, &error);
		}
		server->ended = is_event(server->benches[0].node, 1);
	}
}

/* serve_all -- a thread for each connection */
static int serve_all(struct server *server, size_t n)
{
	struct bench *bench;
	int ret = 0;
	size_t i;

	for (i = 0; !ret && i < n; i++) {
		bench = &server->benches[i];
		ret = accept_one(bench);
		if (!ret)
			ret = -pthread_create(&bench->thread, NULL, serve_thread, bench);
		if (!ret)
			server->started++;
	}
	if (ret)
		atomic_store(&server->gone, true);
	else
		watch(server);
	for (i = 0; i < server->started; i++) {
		pthread_join(server->benches[i].thread, NULL);
		ret = ret ? ret : server->benches[i].ret;
	}
	if (!ret)
		await_ends(server);
	return ret;
}

static int serve_one(struct bench *bench)
{
	int ret = accept_one(bench);

	if (!ret)
		ret = serve(bench);
	if (!ret)
		await_end(bench);
	return ret;
}

int bench_serve(const struct options *opts)
{
	struct node_attr attr = {
		.caps = bench_needed_caps(opts),
		.threading = bench_threading_of(opts),
		.port = opts->src_port,
	};
	size_t n = opts->connections ? opts->connections : 1;
	struct server server = {.benches = calloc(n, sizeof(*server.benches))};
	struct bench *first = server.benches;
	int ret;

	if (!first)
		return report("calloc", -FI_ENOMEM);
	for (size_t i = 0; i < n; i++) {
		server.benches[i].opts = opts;
		server.benches[i].wait = opts->wait;
		if (n > 1 && opts->wait == WAIT_DEFAULT)
			server.benches[i].wait = WAIT_SREAD;
		server.benches[i].node = &first->own;
		server.benches[i].server = n > 1 ? &server : NULL;
	}
	ret = fabric_listen(first->node, opts, &attr);
	if (!ret)
		ret = n > 1 ? serve_all(&server, n) : serve_one(first);
	bench_close_all(server.benches, n);
	free(server.benches);
	return ret;
}
