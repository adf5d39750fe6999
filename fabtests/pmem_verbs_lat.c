/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmem_verbs_lat.c -- the reference for fi_pmem_lat on bare verbs
 *
 * What a program can do at best that writes to libibverbs itself: a WRITE and a
 * READ of one byte behind it, which flushes it, posted as one list; only the
 * READ's completion is awaited.  A layer above libfabric's calls has to post them
 * one after the other: -o two-posts tells what that costs by itself.
 *
 * Where the target's processor has to write the data back, the same in the way
 * that every program does it that has no provider for it: -o write-send posts the
 * WRITE and a SEND behind it, the target flushes when it has received that, and
 * answers by a SEND.  It looks for that without pause, which costs it a core.
 *
 * Small
 * writes are inline, as they are in libfabric's verbs provider, so that the
 * difference to fi_pmem_lat is the cost of the layers in between.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "agent/flush.h"
#include "memory.h"
#include "options.h"
#include "stats.h"

static const struct program program = {
	.name = "pmem_verbs_lat",
	.summary = "Latency of flushed remote writes on bare verbs, to hold fi_pmem_lat against.",
	.letters = "dsBPMSIwvoh",
	.operations = "write-read: both posted as one list (default); "
		      "two-posts: both outstanding, posted one after the other; "
		      "write-send: the target flushes its caches and answers; "
		      "write: plain; write-then-read: the write awaited first",
};

enum { OP_WRITE_READ, OP_TWO_POSTS, OP_WRITE_SEND, OP_WRITE, OP_WRITE_THEN_READ };

static const char *const operations[] = {"write-read", "two-posts",       "write-send",
					 "write",      "write-then-read", NULL};

#define MAX_INLINE 256
#define SPINS_PER_CLOCK 4096
#define RESOLVE_MS 2000

/* The client asks for memory and the server names it in their private data. */
struct handshake {
	uint64_t addr;
	uint64_t len;
	uint32_t rkey;
	uint32_t ok;
	uint32_t echo; /* the server has to answer what is sent */
};

/* What is sent: the bytes that were written. */
struct note {
	uint64_t offset;
	uint64_t len;
};

struct link {
	const struct options *opts;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct memory memory;
	struct note notes[2]; /* to receive into, and to send */
	struct ibv_mr *notes_mr;
	size_t max_inline;
	struct handshake peer;
};

static int complain(const char *call)
{
	fprintf(stderr, "%s: %s\n", call, strerror(errno));
	return -1;
}

/*
 * await_event -- the next event has to be this one; keep what the peer says in
 * it.  1: the connection was refused.
 */
static int await_event(struct link *link, enum rdma_cm_event_type type, int timeout_ms)
{
	struct pollfd pfd = {.fd = link->channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	int ret = 0;

	if (poll(&pfd, 1, timeout_ms) == 0) {
		fprintf(stderr, "no %s in time\n", rdma_event_str(type));
		return -1;
	}
	if (rdma_get_cm_event(link->channel, &event))
		return complain("rdma_get_cm_event");

	if (event->event == RDMA_CM_EVENT_REJECTED) {
		ret = 1;
	} else if (event->event != type) {
		fprintf(stderr, "%s (%d) instead of %s\n", rdma_event_str(event->event),
			event->status, rdma_event_str(type));
		ret = -1;
	}
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST && !ret)
		link->id = event->id;
	if (event->param.conn.private_data_len >= sizeof(link->peer))
		memcpy(&link->peer, event->param.conn.private_data, sizeof(link->peer));
	rdma_ack_cm_event(event);
	return ret;
}

static int timeout_ms(const struct link *link)
{
	return (int) link->opts->timeout * 1000;
}

static struct addrinfo *resolve(const char *host, const char *port, int flags)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
	struct addrinfo *found = NULL;
	int ret;

	ret = getaddrinfo(host, port, &hints, &found);
	if (ret)
		fprintf(stderr, "%s: %s\n", host ? host : port, gai_strerror(ret));
	return found;
}

/* create_qp -- with as much inline data as the device has, up to the provider's default */
static int create_qp(struct link *link)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	size_t max_inline;

	link->cq = ibv_create_cq(link->id->verbs, 32, NULL, NULL, 0);
	if (!link->cq)
		return complain("ibv_create_cq");
	attr.send_cq = attr.recv_cq = link->cq;
	for (max_inline = MAX_INLINE;; max_inline /= 2) {
		attr.cap.max_inline_data = max_inline;
		if (!rdma_create_qp(link->id, link->pd, &attr))
			break;
		if (!max_inline)
			return complain("rdma_create_qp");
	}
	link->max_inline = max_inline;
	return 0;
}

/* receive -- have a note received */
static int receive(struct link *link)
{
	struct ibv_sge sge = {(uintptr_t) &link->notes[0], sizeof(link->notes[0]),
			      link->notes_mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	errno = ibv_post_recv(link->id->qp, &wr, &bad);
	return errno ? complain("ibv_post_recv") : 0;
}

/* create_endpoint -- queue pair and registered memory */
static int create_endpoint(struct link *link, const char *path, size_t len)
{
	const char *device = ibv_get_device_name(link->id->verbs->device);

	if (link->opts->domain && strcmp(link->opts->domain, device)) {
		fprintf(stderr, "the route is over %s, not %s\n", device, link->opts->domain);
		return -1;
	}
	link->pd = ibv_alloc_pd(link->id->verbs);
	if (!link->pd)
		return complain("ibv_alloc_pd");
	if (create_qp(link) || memory_map(&link->memory, path, len))
		return -1;
	link->mr = ibv_reg_mr(link->pd, link->memory.base, len,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ);
	link->notes_mr =
		ibv_reg_mr(link->pd, link->notes, sizeof(link->notes), IBV_ACCESS_LOCAL_WRITE);
	return link->mr && link->notes_mr ? receive(link) : complain("ibv_reg_mr");
}

static void close_link(struct link *link)
{
	if (link->id && link->id->qp)
		rdma_destroy_qp(link->id);
	if (link->mr)
		ibv_dereg_mr(link->mr);
	if (link->notes_mr)
		ibv_dereg_mr(link->notes_mr);
	if (link->cq)
		ibv_destroy_cq(link->cq);
	if (link->pd)
		ibv_dealloc_pd(link->pd);
	if (link->id)
		rdma_destroy_id(link->id);
	if (link->listener)
		rdma_destroy_id(link->listener);
	if (link->channel)
		rdma_destroy_event_channel(link->channel);
	memory_unmap(&link->memory);
}

static int await_request(struct link *link)
{
	options_ready(link->opts->src_port);
	return await_event(link, RDMA_CM_EVENT_CONNECT_REQUEST, timeout_ms(link));
}

static int listen_for_one(struct link *link)
{
	struct addrinfo *addr = resolve(link->opts->src_addr, link->opts->src_port, AI_PASSIVE);
	int ret;

	if (!addr)
		return -1;
	if (rdma_create_id(link->channel, &link->listener, NULL, RDMA_PS_TCP))
		ret = complain("rdma_create_id");
	else if (rdma_bind_addr(link->listener, addr->ai_addr))
		ret = complain("rdma_bind_addr");
	else if (rdma_listen(link->listener, 1))
		ret = complain("rdma_listen");
	else
		ret = await_request(link);
	freeaddrinfo(addr);
	return ret;
}

static int accept_one(struct link *link)
{
	struct handshake handshake = {0};
	struct rdma_conn_param param = {
		.private_data = &handshake,
		.private_data_len = sizeof(handshake),
		.responder_resources = 1,
		.initiator_depth = 1,
	};

	if (!create_endpoint(link, link->opts->memory, link->peer.len)) {
		handshake.addr = (uintptr_t) link->memory.base;
		handshake.rkey = link->mr->rkey;
		handshake.ok = 1;
	} else if (!link->id->qp) {
		return -1;
	}
	if (rdma_accept(link->id, &param))
		return complain("rdma_accept");
	return await_event(link, RDMA_CM_EVENT_ESTABLISHED, timeout_ms(link)) || !handshake.ok ? -1
											       : 0;
}

/* send_note -- signaled, so that its slot comes back */
static int send_note(struct link *link, struct ibv_send_wr *first, struct ibv_send_wr *last)
{
	struct ibv_sge sge = {(uintptr_t) &link->notes[1], sizeof(link->notes[1]),
			      link->notes_mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED |
			      (sizeof(link->notes[1]) <= link->max_inline ? IBV_SEND_INLINE : 0),
	};
	struct ibv_send_wr *bad;

	if (last)
		last->next = &wr;
	errno = ibv_post_send(link->id->qp, first ? first : &wr, &bad);
	return errno ? complain("ibv_post_send") : 0;
}

/* take_completion -- 1: of a receive, 0: of something else or of nothing, -1: it failed */
static int take_completion(struct link *link)
{
	struct ibv_wc wc;
	int ret = ibv_poll_cq(link->cq, 1, &wc);

	if (ret < 0)
		return complain("ibv_poll_cq");
	if (!ret)
		return 0;
	if (wc.status == IBV_WC_SUCCESS)
		return wc.opcode & IBV_WC_RECV ? 1 : 0;
	fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
	return -1;
}

static bool is_over(struct link *link)
{
	struct pollfd pfd = {.fd = link->channel->fd, .events = POLLIN};

	return poll(&pfd, 1, 0) > 0;
}

/* echo -- flush what was written and say so, until the client disconnects */
static int echo(struct link *link)
{
	unsigned long spins = 0;

	while (spins++ % SPINS_PER_CLOCK || !is_over(link)) {
		const struct note *note = &link->notes[0];
		int ret = take_completion(link);

		/* What was under way when the client went is flushed with an error. */
		if (ret < 0)
			return is_over(link) ? 0 : ret;
		if (!ret)
			continue;
		if (note->offset > link->memory.len || note->len > link->memory.len - note->offset)
			return -1;
		pmv_flush->flush((char *) link->memory.base + note->offset, note->len);
		pmv_flush->drain();
		if (receive(link) || send_note(link, NULL, NULL))
			return -1;
	}
	return 0;
}

static int server(struct link *link)
{
	int ret = listen_for_one(link);

	if (!ret)
		ret = accept_one(link);
	if (!ret && link->peer.echo)
		ret = pmv_flush_init() || echo(link) ? -1 : 0;
	if (!ret)
		ret = await_event(link, RDMA_CM_EVENT_DISCONNECTED, -1);
	return ret;
}

static int resolve_route(struct link *link, struct addrinfo *src, struct addrinfo *dst)
{
	if (rdma_create_id(link->channel, &link->id, NULL, RDMA_PS_TCP))
		return complain("rdma_create_id");
	if (rdma_resolve_addr(link->id, src ? src->ai_addr : NULL, dst->ai_addr, RESOLVE_MS))
		return complain("rdma_resolve_addr");
	if (await_event(link, RDMA_CM_EVENT_ADDR_RESOLVED, timeout_ms(link)))
		return -1;
	if (rdma_resolve_route(link->id, RESOLVE_MS))
		return complain("rdma_resolve_route");
	return await_event(link, RDMA_CM_EVENT_ROUTE_RESOLVED, timeout_ms(link));
}

/* route -- the addresses are only needed until the route is resolved */
static int route(struct link *link)
{
	const struct options *opts = link->opts;
	struct addrinfo *dst = resolve(opts->dst_addr, opts->dst_port, 0);
	struct addrinfo *src = opts->src_addr ? resolve(opts->src_addr, NULL, 0) : NULL;
	int ret = -1;

	if (dst && (src || !opts->src_addr))
		ret = resolve_route(link, src, dst);
	if (src)
		freeaddrinfo(src);
	if (dst)
		freeaddrinfo(dst);
	return ret;
}

static int connect_once(struct link *link, int op, size_t len)
{
	struct handshake handshake = {.len = len, .echo = op == OP_WRITE_SEND};
	struct rdma_conn_param param = {
		.private_data = &handshake,
		.private_data_len = sizeof(handshake),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	link->channel = rdma_create_event_channel();
	if (!link->channel)
		return complain("rdma_create_event_channel");
	if (route(link) || create_endpoint(link, NULL, len))
		return -1;
	if (rdma_connect(link->id, &param))
		return complain("rdma_connect");
	return await_event(link, RDMA_CM_EVENT_ESTABLISHED, timeout_ms(link));
}

/* connect_patiently -- scripts start both programs at a time: nobody may listen yet */
static int connect_patiently(struct link *link, int op, size_t len)
{
	const struct options *opts = link->opts;
	uint64_t deadline = now_ns() + 5000000000ULL;
	struct timespec pause = {.tv_nsec = 50000000};
	int ret;

	while ((ret = connect_once(link, op, len)) == 1 && now_ns() < deadline) {
		close_link(link);
		*link = (struct link){.opts = opts};
		nanosleep(&pause, NULL);
	}
	if (ret == 1)
		fprintf(stderr,
			"nobody accepts connections at %s, port %s: start the server first\n",
			opts->dst_addr, opts->dst_port);
	if (!ret && !link->peer.ok) {
		fprintf(stderr, "the server has no memory to offer; it tells why\n");
		ret = -1;
	}
	return ret;
}

static int await_completion(struct link *link)
{
	unsigned long spins = 0;
	uint64_t deadline = 0;
	struct ibv_wc wc;
	int ret;

	while ((ret = ibv_poll_cq(link->cq, 1, &wc)) == 0) {
		if (++spins % SPINS_PER_CLOCK)
			continue;
		if (!deadline)
			deadline = now_ns() + link->opts->timeout * 1000000000ULL;
		if (now_ns() > deadline) {
			fprintf(stderr, "no completion in time\n");
			return -1;
		}
	}
	if (ret < 0)
		return complain("ibv_poll_cq");
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
	return -1;
}

static void make_request(struct link *link, struct ibv_send_wr *wr, struct ibv_sge *sge,
			 enum ibv_wr_opcode opcode, size_t len)
{
	*sge = (struct ibv_sge){(uintptr_t) link->memory.base, len, link->mr->lkey};
	*wr = (struct ibv_send_wr){.sg_list = sge, .num_sge = 1, .opcode = opcode};
	wr->wr.rdma.remote_addr = link->peer.addr;
	wr->wr.rdma.rkey = link->peer.rkey;
}

static int post(struct link *link, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	errno = ibv_post_send(link->id->qp, wr, &bad);
	return errno ? complain("ibv_post_send") : 0;
}

static int await_answer(struct link *link)
{
	uint64_t deadline = now_ns() + link->opts->timeout * 1000000000ULL;
	unsigned long spins = 0;
	int ret;

	while ((ret = take_completion(link)) == 0) {
		if (++spins % SPINS_PER_CLOCK == 0 && now_ns() > deadline) {
			fprintf(stderr, "no answer in time\n");
			return -1;
		}
	}
	return ret < 0 ? ret : receive(link);
}

/* operate -- one iteration; the READ lands behind the data that are written from */
static int operate(struct link *link, int op, size_t size)
{
	struct ibv_send_wr write, read;
	struct ibv_sge data, byte;

	make_request(link, &write, &data, IBV_WR_RDMA_WRITE, size);
	make_request(link, &read, &byte, IBV_WR_RDMA_READ, 1);
	byte.addr += link->memory.len - 1;
	read.send_flags = IBV_SEND_SIGNALED;
	if (size <= link->max_inline)
		write.send_flags = IBV_SEND_INLINE;

	if (op == OP_WRITE_READ) {
		write.next = &read;
		return post(link, &write) || await_completion(link);
	}
	if (op == OP_WRITE_SEND) {
		link->notes[1] = (struct note){.len = size};
		return send_note(link, &write, &write) || await_answer(link);
	}
	if (op == OP_TWO_POSTS)
		return post(link, &write) || post(link, &read) || await_completion(link);
	write.send_flags |= IBV_SEND_SIGNALED;
	if (post(link, &write) || await_completion(link))
		return -1;
	return op == OP_WRITE_THEN_READ && (post(link, &read) || await_completion(link));
}

static int run_loop(struct link *link, int op, size_t size, uint64_t *samples, unsigned long n)
{
	unsigned long i;
	uint64_t start;

	for (i = 0; i < n; i++) {
		start = now_ns();
		if (operate(link, op, size))
			return -1;
		samples[i] = now_ns() - start;
	}
	return 0;
}

/* verify -- read back what was written */
static int verify(struct link *link, size_t size)
{
	struct ibv_send_wr read;
	struct ibv_sge sge;
	size_t right;

	make_request(link, &read, &sge, IBV_WR_RDMA_READ, size);
	read.send_flags = IBV_SEND_SIGNALED;
	memset(link->memory.base, 0, size);
	if (post(link, &read) || await_completion(link))
		return -1;
	right = pattern_check(link->memory.base, size, size, 0);
	if (right == size)
		return 0;
	fprintf(stderr, "the target's data are wrong from byte %zu on\n", right);
	return -1;
}

static int run_size(struct link *link, int op, size_t size, uint64_t *samples)
{
	const struct options *opts = link->opts;

	pattern_fill(link->memory.base, size, size, 0);
	if (run_loop(link, op, size, samples, opts->warmup) ||
	    run_loop(link, op, size, samples, opts->iterations))
		return -1;
	if (opts->verify && verify(link, size))
		return -1;
	print_latency(size, samples, opts->iterations);
	return 0;
}

static int client(struct link *link, uint64_t *samples)
{
	const struct options *opts = link->opts;
	int op = options_op(opts, operations);
	unsigned int i;
	int ret;

	if (op < 0 || connect_patiently(link, op, options_largest(opts) + 1))
		return -1;
	print_latency_header();
	for (i = 0, ret = 0; !ret && i < opts->nsizes; i++)
		ret = run_size(link, op, opts->sizes[i], samples);
	rdma_disconnect(link->id);
	return ret;
}

static int run(const struct options *opts)
{
	unsigned long most = opts->iterations > opts->warmup ? opts->iterations : opts->warmup;
	struct link link = {.opts = opts};
	uint64_t *samples = calloc(most, sizeof(*samples));
	int ret;

	if (!samples)
		return complain("calloc");
	if (opts->dst_addr) {
		ret = client(&link, samples);
	} else {
		link.channel = rdma_create_event_channel();
		ret = link.channel ? server(&link) : complain("rdma_create_event_channel");
	}
	close_link(&link);
	free(samples);
	return ret;
}

int main(int argc, char **argv)
{
	struct options opts = {.iterations = 1000, .warmup = 100};

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (options_op(&opts, operations) < 0)
		return EXIT_USAGE;
	return run(&opts) ? EXIT_FAILURE : EXIT_SUCCESS;
}
