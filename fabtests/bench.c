/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench.c -- what the benchmarks on libfabric share: the target, which serves
 * any of them, and the initiator's talk with it
 *
 * Unless -c says otherwise, over RDMA hardware the target sleeps in fi_cq_sread while its
 * memory is written: it must not take a processor from the measurement.  Where the
 * provider needs the target's calls to make progress (tcp), it polls.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "stats.h"

enum { MSG_REGION, MSG_CLEAR, MSG_VERIFY, MSG_COUNT, MSG_ALIVE, MSG_BYE };

#define ALIVE_SECONDS 10
#define SLEEP_MS 200
#define SPINS_PER_CLOCK 4096

static bool waits_on_fd(const struct bench *bench)
{
	return bench->wait == WAIT_SREAD || bench->wait == WAIT_FD;
}

static bool sleeps(const struct bench *bench)
{
	return waits_on_fd(bench) || bench->wait == WAIT_AWAY;
}

static struct bench_msg *to_send(struct bench *bench)
{
	return bench->messages;
}

static int post_receive(struct bench *bench, struct bench_msg *msg)
{
	ssize_t ret =
		fi_recv(bench->conn.ep, msg, sizeof(*msg), bench->message_region.desc, 0, msg);

	return ret ? report("fi_recv", ret) : 0;
}

static bool is_receive(const struct bench *bench, const void *context)
{
	const struct bench_msg *msg = context;

	return msg > bench->messages && msg <= bench->messages + BENCH_RECEIVES;
}

static int create_messages(struct bench *bench)
{
	size_t size = (BENCH_RECEIVES + 1) * sizeof(*bench->messages);

	bench->messages = calloc(1, size);
	if (!bench->messages)
		return report("calloc", -FI_ENOMEM);
	return region_register(&bench->node, &bench->message_region, bench->messages, size,
			       FI_SEND | FI_RECV | FI_READ, 0);
}

/* create_conn -- an endpoint with its receives posted */
static int create_conn(struct bench *bench, struct fi_info *info)
{
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait = waits_on_fd(bench) ? FI_WAIT_FD : FI_WAIT_NONE,
		.selective = true,
	};
	int i, ret;

	ret = conn_create(&bench->conn, &bench->node, info, &attr);
	for (i = 1; !ret && i <= BENCH_RECEIVES; i++)
		ret = post_receive(bench, &bench->messages[i]);
	return ret;
}

/* handle -- one completion that the program has not read itself */
static int handle(struct bench *bench, const struct fi_cq_data_entry *entry)
{
	if (entry->flags & FI_REMOTE_CQ_DATA)
		bench->immediates++;
	if (entry->op_context == to_send(bench))
		bench->sent = true;
	else if (!is_receive(bench, entry->op_context))
		bench->others++;
	if (!is_receive(bench, entry->op_context))
		return 0;
	if (!(entry->flags & FI_REMOTE_CQ_DATA)) {
		bench->answer = *(struct bench_msg *) entry->op_context;
		bench->answered = true;
	}
	return post_receive(bench, entry->op_context);
}

/* poll_cq -- 1: there was a completion, 0: none */
static int poll_cq(struct bench *bench, struct fi_cq_data_entry *entry)
{
	ssize_t ret = fi_cq_read(bench->conn.txcq, entry, 1);

	if (ret == 1)
		return 1;
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL)
		return cq_report(bench->conn.txcq);
	return report("fi_cq_read", ret);
}

static int late(void)
{
	fprintf(stderr, "the peer does not answer in time\n");
	return -FI_ETIMEDOUT;
}

/* await_flag -- handle completions until one of them has set the flag */
static int await_flag(struct bench *bench, const bool *flag)
{
	uint64_t deadline = deadline_in(bench->opts->timeout);
	struct fi_cq_data_entry entry;
	int ret = 0;

	while (!*flag) {
		ret = poll_cq(bench, &entry);
		if (ret > 0)
			ret = handle(bench, &entry);
		if (ret < 0)
			return ret;
		if (now_ns() > deadline)
			return late();
	}
	return 0;
}

static int send_message(struct bench *bench)
{
	struct fi_msg msg = {.context = to_send(bench), .iov_count = 1};
	struct iovec iov = {to_send(bench), sizeof(struct bench_msg)};
	ssize_t ret;

	msg.msg_iov = &iov;
	msg.desc = &bench->message_region.desc;
	bench->sent = false;
	ret = fi_sendmsg(bench->conn.ep, &msg, FI_COMPLETION);
	if (ret)
		return report("fi_sendmsg", ret);
	return await_flag(bench, &bench->sent);
}

static int ask(struct bench *bench)
{
	int ret;

	bench->answered = false;
	ret = send_message(bench);
	return ret ? ret : await_flag(bench, &bench->answered);
}

int bench_clear(struct bench *bench, size_t len)
{
	*to_send(bench) = (struct bench_msg){.type = MSG_CLEAR, .len = len};
	return ask(bench);
}

int bench_verify(struct bench *bench, size_t offset, size_t len, uint64_t seed)
{
	int ret;

	*to_send(bench) = (struct bench_msg){
		.type = MSG_VERIFY,
		.offset = offset,
		.len = len,
		.seed = seed,
	};
	ret = ask(bench);
	if (ret)
		return ret;
	if (bench->answer.ok)
		return 0;
	fprintf(stderr, "the target's data are wrong from byte %" PRIu64 " on\n",
		bench->answer.offset);
	return -FI_EIO;
}

int bench_count(struct bench *bench, uint64_t count)
{
	int ret;

	*to_send(bench) = (struct bench_msg){.type = MSG_COUNT};
	ret = ask(bench);
	if (ret)
		return ret;
	if (bench->answer.count == count)
		return 0;
	fprintf(stderr, "the target got %" PRIu64 " immediates instead of %" PRIu64 "\n",
		bench->answer.count, count);
	return -FI_EIO;
}

int bench_alive(struct bench *bench, uint64_t now)
{
	if (now < bench->next_alive)
		return 0;
	bench->next_alive = now + ALIVE_SECONDS * 1000000000ULL;
	*to_send(bench) = (struct bench_msg){.type = MSG_ALIVE};
	return send_message(bench);
}

ssize_t bench_write(struct bench *bench, size_t offset, size_t size, uint64_t flags)
{
	struct iovec iov = {(char *) bench->region.buf + offset, size};
	struct fi_rma_iov rma_iov = {bench->addr + offset, size, bench->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &bench->region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = bench,
		.data = 1,
	};

	return fi_writemsg(bench->conn.ep, &msg, flags);
}

/* sleep_fd -- until the queue's descriptor is ready, or ms are over */
static void sleep_fd(struct bench *bench, struct fid_cq *cq, int ms)
{
	struct fid *fid = &cq->fid;
	struct pollfd fd = {.events = POLLIN};

	if (!fi_control(fid, FI_GETWAIT, &fd.fd) && !fi_trywait(bench->node.fabric, &fid, 1))
		poll(&fd, 1, ms);
}

/* read_or_sleep -- fi_cq_read, or as the options say */
static ssize_t read_or_sleep(struct bench *bench, struct fid_cq *cq, struct fi_cq_data_entry *entry)
{
	static const struct timespec away = {.tv_nsec = 200000000};
	ssize_t ret;

	if (bench->wait == WAIT_SREAD) {
		ret = fi_cq_sread(cq, entry, 1, NULL, SLEEP_MS);
		return ret == -FI_EINTR ? -FI_EAGAIN : ret;
	}
	if (bench->wait == WAIT_AWAY)
		nanosleep(&away, NULL);
	ret = fi_cq_read(cq, entry, 1);
	if (ret != -FI_EAGAIN || bench->wait != WAIT_FD)
		return ret;
	sleep_fd(bench, cq, SLEEP_MS);
	return fi_cq_read(cq, entry, 1);
}

int bench_wait(struct bench *bench)
{
	struct fi_cq_data_entry entry;
	unsigned long spins = 0;
	uint64_t deadline = 0;
	ssize_t ret;

	while ((ret = read_or_sleep(bench, bench->conn.txcq, &entry)) == -FI_EAGAIN) {
		if (++spins % SPINS_PER_CLOCK && !sleeps(bench))
			continue;
		if (!deadline)
			deadline = deadline_in(bench->opts->timeout);
		else if (now_ns() > deadline)
			return late();
	}
	if (ret == -FI_EAVAIL)
		return cq_report(bench->conn.txcq);
	if (ret < 0)
		return report("fi_cq_read", ret);
	if (entry.op_context == bench)
		return 0;
	fprintf(stderr, "a completion with a context that is not of the operation\n");
	return -FI_EOTHER;
}

static uint64_t needed_caps(const struct options *opts)
{
	return FI_MSG | FI_RMA | (is_core(opts) ? 0 : FI_RMA_PMEM);
}

static int connect_to_target(struct bench *bench)
{
	uint64_t deadline = deadline_in(CONNECT_SECONDS);
	int ret;

	do {
		ret = create_conn(bench, bench->node.info);
		if (!ret)
			ret = conn_connect(&bench->conn, NULL, 0, NULL);
	} while (conn_again(&bench->conn, ret, deadline));
	return ret;
}

static int get_memory(struct bench *bench, size_t len)
{
	int ret;

	*to_send(bench) = (struct bench_msg){.type = MSG_REGION, .len = len};
	ret = ask(bench);
	if (ret)
		return ret;
	if (!bench->answer.ok) {
		fprintf(stderr, "the target has no memory to offer; it tells why\n");
		return -FI_ENOMEM;
	}
	bench->addr = bench->answer.addr;
	bench->key = bench->answer.key;
	if (memory_map(&bench->memory, NULL, len))
		return -FI_ENOMEM;
	return region_register(&bench->node, &bench->region, bench->memory.base, len, FI_WRITE, 0);
}

int bench_start(struct bench *bench, const struct options *opts, uint64_t caps, size_t len)
{
	struct node_attr attr = {
		.caps = needed_caps(opts) | caps,
		.threading = FI_THREAD_DOMAIN,
		.port = opts->dst_port,
	};
	int ret;

	memset(bench, 0, sizeof(*bench));
	bench->opts = opts;
	bench->wait = opts->wait;
	bench->next_alive = deadline_in(ALIVE_SECONDS);
	ret = node_open(&bench->node, opts, &attr);
	if (!ret)
		ret = create_messages(bench);
	if (!ret)
		ret = connect_to_target(bench);
	return ret ? ret : get_memory(bench, len);
}

static void close_all(struct bench *bench)
{
	if (bench->conn.ep)
		fi_shutdown(bench->conn.ep, 0);
	conn_close(&bench->conn);
	region_close(&bench->region);
	region_close(&bench->message_region);
	node_close(&bench->node);
	memory_unmap(&bench->memory);
	free(bench->messages);
}

int bench_end(struct bench *bench, int ret)
{
	if (!ret) {
		*to_send(bench) = (struct bench_msg){.type = MSG_BYE};
		ret = ask(bench);
	}
	close_all(bench);
	return ret;
}

static int offer_memory(struct bench *bench, struct bench_msg *msg)
{
	bool core = is_core(bench->opts);
	uint64_t access = FI_REMOTE_WRITE | (core ? FI_REMOTE_READ : 0);

	msg->ok = !bench->memory.base &&
		  !memory_map(&bench->memory, bench->opts->memory, msg->len) &&
		  !region_register(&bench->node, &bench->region, bench->memory.base, msg->len,
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
	struct bench_msg *msg = to_send(bench);

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
		break;
	default:
		fprintf(stderr, "a message of unknown type %u: is that our client?\n", msg->type);
		return -FI_EINVAL;
	}
	return send_message(bench);
}

/* peer_gone -- the connection has ended; a second client, meanwhile, has to go away */
static bool peer_gone(struct bench *bench)
{
	struct fid_eq *eq = bench->node.eq;
	struct cm_event event;
	ssize_t ret = fi_eq_read(eq, &event.event, event.room, sizeof(event.room), 0);

	if (ret > 0 && event.event == FI_CONNREQ) {
		fi_reject(bench->node.pep, event.entry.info->handle, NULL, 0);
		fi_freeinfo(event.entry.info);
		return false;
	}
	return ret != -FI_EAGAIN;
}

/*
 * await_end -- the answer to the goodbye must not be overtaken by the end of
 * the connection, which is therefore the client's to close; tcp notices that
 * only while the completion queue is read
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
	int i, spins = sleeps(bench) ? 1 : SPINS_PER_CLOCK;
	ssize_t ret;

	if (sleeps(bench)) {
		ret = read_or_sleep(bench, bench->conn.rxcq, entry);
		if (ret != -FI_EAGAIN && ret != -FI_EAVAIL)
			return ret < 0 ? report("fi_cq_sread", ret) : 1;
	}
	for (i = 0; i < spins; i++) {
		ret = poll_cq(bench, entry);
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
			ret = handle(bench, &entry);
			deadline = deadline_in(bench->opts->timeout);
		}
		if (!ret && bench->answered)
			ret = answer(bench, &bye);
		if (ret)
			return ret;
		if (now_ns() > deadline)
			return late();
	}
	return 0;
}

static int accept_one(struct bench *bench)
{
	struct cm_event event;
	ssize_t len;
	int ret;

	len = conn_request(&bench->node, &event);
	if (len < 0)
		return (int) len;
	if (bench->wait == WAIT_DEFAULT && node_is_passive(&bench->node))
		bench->wait = WAIT_SREAD;
	ret = create_messages(bench);
	if (!ret)
		ret = create_conn(bench, event.entry.info);
	fi_freeinfo(event.entry.info);
	return ret ? ret : conn_accept(&bench->conn, NULL, 0);
}

int bench_serve(const struct options *opts)
{
	struct node_attr attr = {
		.caps = needed_caps(opts),
		.threading = FI_THREAD_DOMAIN,
		.port = opts->src_port,
	};
	struct bench bench = {.opts = opts, .wait = opts->wait};
	int ret;

	ret = node_listen(&bench.node, opts, &attr);
	if (!ret)
		ret = accept_one(&bench);
	if (!ret)
		ret = serve(&bench);
	if (!ret)
		await_end(&bench);
	close_all(&bench);
	return ret;
}
