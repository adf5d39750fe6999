/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench.c -- what the benchmarks on libfabric share: the initiator's talk with the target
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

#include <rdma/fi_ext_pmemverbs.h>

#include "base/relax.h"
#include "bench_impl.h"
#include "../common/stats.h"

#define ALIVE_SECONDS 10

static bool waits_on_fd(const struct bench *bench)
{
	return bench->wait == WAIT_SREAD || bench->wait == WAIT_FD;
}

bool bench_sleeps(const struct bench *bench)
{
	return waits_on_fd(bench) || bench->wait == WAIT_AWAY;
}

struct bench_msg *bench_to_send(struct bench *bench)
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

int bench_create_messages(struct bench *bench)
{
	size_t size = (BENCH_RECEIVES + 1) * sizeof(*bench->messages);

	bench->messages = calloc(1, size);
	if (!bench->messages)
		return report("calloc", -FI_ENOMEM);
	return region_register(bench->node, &bench->message_region, bench->messages, size,
			       FI_SEND | FI_RECV | FI_READ, 0);
}

/* create_conn -- an endpoint with its receives posted */
int bench_create_conn(struct bench *bench, struct fi_info *info)
{
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait = waits_on_fd(bench) ? FI_WAIT_FD : FI_WAIT_NONE,
		.selective = true,
	};
	int i, ret;

	ret = conn_create(&bench->conn, bench->node, info, &attr);
	for (i = 1; !ret && i <= BENCH_RECEIVES; i++)
		ret = post_receive(bench, &bench->messages[i]);
	return ret;
}

/* handle -- one completion that the program has not read itself */
int bench_handle(struct bench *bench, const struct fi_cq_data_entry *entry)
{
	if (entry->flags & FI_REMOTE_CQ_DATA)
		bench->immediates++;
	if (entry->op_context == bench_to_send(bench))
		bench->sent = true;
	else if (!is_receive(bench, entry->op_context) && bench->other)
		bench->other(bench, entry->op_context);
	if (!is_receive(bench, entry->op_context))
		return 0;
	if (!(entry->flags & FI_REMOTE_CQ_DATA)) {
		bench->answer = *(struct bench_msg *) entry->op_context;
		bench->answered = true;
	}
	return post_receive(bench, entry->op_context);
}

/* poll_cq -- 1: there was a completion, 0: none */
int bench_poll_cq(struct bench *bench, struct fi_cq_data_entry *entry)
{
	ssize_t ret = fi_cq_read(bench->conn.txcq, entry, 1);

	if (ret == 1)
		return 1;
	if (ret == -FI_EAGAIN) {
		pmv_relax();
		return 0;
	}
	if (ret == -FI_EAVAIL)
		return cq_report(bench->conn.txcq);
	return report("fi_cq_read", ret);
}

int bench_late(void)
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
		ret = bench_poll_cq(bench, &entry);
		if (ret > 0)
			ret = bench_handle(bench, &entry);
		if (ret < 0)
			return ret;
		if (now_ns() > deadline)
			return bench_late();
	}
	return 0;
}

int bench_post_message(struct bench *bench)
{
	struct fi_msg msg = {.context = bench_to_send(bench), .iov_count = 1};
	struct iovec iov = {bench_to_send(bench), sizeof(struct bench_msg)};
	ssize_t ret;

	msg.msg_iov = &iov;
	msg.desc = &bench->message_region.desc;
	bench->sent = false;
	ret = fi_sendmsg(bench->conn.ep, &msg, FI_COMPLETION);
	return ret ? report("fi_sendmsg", ret) : 0;
}

int bench_send_message(struct bench *bench)
{
	int ret = bench_post_message(bench);

	return ret ? ret : await_flag(bench, &bench->sent);
}

static int ask(struct bench *bench)
{
	int ret;

	bench->answered = false;
	ret = bench_send_message(bench);
	return ret ? ret : await_flag(bench, &bench->answered);
}

int bench_clear(struct bench *bench, size_t len)
{
	*bench_to_send(bench) = (struct bench_msg){.type = MSG_CLEAR, .len = len};
	return ask(bench);
}

int bench_verify(struct bench *bench, size_t offset, size_t len, uint64_t seed)
{
	int ret;

	*bench_to_send(bench) = (struct bench_msg){
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

	*bench_to_send(bench) = (struct bench_msg){.type = MSG_COUNT};
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
	*bench_to_send(bench) = (struct bench_msg){.type = MSG_ALIVE};
	return bench_send_message(bench);
}

ssize_t bench_write(struct bench *bench, size_t offset, size_t size, uint64_t flags, void *context)
{
	struct iovec iov = {(char *) bench->region.buf + offset, size};
	struct fi_rma_iov rma_iov = {bench->addr + offset, size, bench->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &bench->region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = context,
		.data = 1,
	};

	return fi_writemsg(bench->conn.ep, &msg, flags);
}

ssize_t bench_read(struct bench *bench, size_t offset, void *context)
{
	struct iovec iov = {bench->messages, 1};
	struct fi_rma_iov rma_iov = {bench->addr + offset, 1, bench->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &bench->message_region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = context,
	};

	return fi_readmsg(bench->conn.ep, &msg, FI_COMPLETION);
}

/* sleep_fd -- until the queue's descriptor is ready, or ms are over */
static void sleep_fd(struct bench *bench, struct fid_cq *cq, int ms)
{
	struct fid *fid = &cq->fid;
	struct pollfd fd = {.events = POLLIN};

	if (!fi_control(fid, FI_GETWAIT, &fd.fd) && !fi_trywait(bench->node->fabric, &fid, 1))
		poll(&fd, 1, ms);
}

/* read_or_sleep -- fi_cq_read, or as the options say */
ssize_t bench_read_or_sleep(struct bench *bench, struct fid_cq *cq, struct fi_cq_data_entry *entry)
{
	static const struct timespec away = {.tv_nsec = 200000000};
	ssize_t ret;

	if (bench->wait == WAIT_SREAD) {
		ret = fi_cq_sread(cq, entry, 1, NULL, BENCH_SLEEP_MS);
		return ret == -FI_EINTR ? -FI_EAGAIN : ret;
	}
	if (bench->wait == WAIT_AWAY)
		nanosleep(&away, NULL);
	ret = fi_cq_read(cq, entry, 1);
	if (ret != -FI_EAGAIN || bench->wait != WAIT_FD)
		return ret;
	sleep_fd(bench, cq, BENCH_SLEEP_MS);
	return fi_cq_read(cq, entry, 1);
}

int bench_wait(struct bench *bench)
{
	struct fi_cq_data_entry entry;
	unsigned long spins = 0;
	uint64_t deadline = 0;
	ssize_t ret;

	while ((ret = bench_read_or_sleep(bench, bench->conn.txcq, &entry)) == -FI_EAGAIN) {
		if (!bench_sleeps(bench))
			pmv_relax();
		if (++spins % BENCH_SPINS && !bench_sleeps(bench))
			continue;
		if (!deadline)
			deadline = deadline_in(bench->opts->timeout);
		else if (now_ns() > deadline)
			return bench_late();
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

uint64_t bench_needed_caps(const struct options *opts)
{
	return FI_MSG | FI_RMA | (is_core(opts) ? 0 : FI_RMA_PMEM);
}

static int connect_to_target(struct bench *bench)
{
	int64_t deadline = connection_now_ms() + CONNECT_SECONDS * 1000;
	int ret;

	do {
		ret = bench_create_conn(bench, bench->node->info);
		if (!ret)
			ret = conn_connect(&bench->conn, NULL, 0, NULL);
	} while (conn_again(&bench->conn, ret, deadline));
	return ret;
}

static int get_memory(struct bench *bench, size_t len)
{
	int ret;

	*bench_to_send(bench) = (struct bench_msg){.type = MSG_REGION, .len = len};
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
	return region_register(bench->node, &bench->region, bench->memory.base, len, FI_WRITE, 0);
}

/* threading_of -- with more than one connection, each has a thread of its own at both ends */
enum fi_threading bench_threading_of(const struct options *opts)
{
	return opts->connections > 1 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
}

/* let_writes_pass -- another provider has no such option */
static int let_writes_pass(struct bench *bench)
{
	const int passes = 1;
	int ret = fi_setopt(&bench->conn.ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_WRITES_PASS,
			    &passes, sizeof(passes));

	return ret ? report("FI_OPT_PMEMVERBS_WRITES_PASS", ret) : 0;
}

int bench_start(struct bench *bench, struct bench *first, const struct options *opts, uint64_t caps,
		size_t len)
{
	struct node_attr attr = {
		.caps = bench_needed_caps(opts) | caps,
		.threading = bench_threading_of(opts),
		.port = opts->dst_port,
	};
	int ret = 0;

	memset(bench, 0, sizeof(*bench));
	bench->opts = opts;
	bench->wait = opts->wait;
	bench->next_alive = deadline_in(ALIVE_SECONDS);
	bench->node = first ? first->node : &bench->own;
	if (!first)
		ret = fabric_open(bench->node, opts, &attr);
	if (!ret)
		ret = bench_create_messages(bench);
	if (!ret)
		ret = connect_to_target(bench);
	if (!ret && opts->unordered)
		ret = let_writes_pass(bench);
	return ret ? ret : get_memory(bench, len);
}

/* close_all -- the first of them has the domain that the others use */
void bench_close_all(struct bench *benches, size_t n)
{
	while (n--) {
		struct bench *bench = &benches[n];

		if (bench->conn.ep)
			fi_shutdown(bench->conn.ep, 0);
		conn_close(&bench->conn);
		region_close(&bench->region);
		region_close(&bench->message_region);
		node_close(&bench->own);
		memory_unmap(&bench->memory);
		free(bench->messages);
	}
}

int bench_end(struct bench *benches, size_t n, int ret)
{
	size_t i;

	/* All of them first: a target that sees one go fails while another is at work. */
	for (i = 0; !ret && i < n; i++) {
		*bench_to_send(&benches[i]) = (struct bench_msg){.type = MSG_BYE};
		ret = ask(&benches[i]);
	}
	bench_close_all(benches, n);
	return ret;
}
