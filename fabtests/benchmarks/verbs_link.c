/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_link.c -- a connection on bare verbs, for pmem_verbs_lat
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/stats.h"
#include "stream.h"
#include "verbs_flush.h"

#define MAX_INLINE 256
#define RESOLVE_MS 2000
#define MAX_READS 16 /* outstanding at a time, if the device has so many */

int link_complain(const char *call)
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
		return link_complain("rdma_get_cm_event");

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
		.cap = {.max_send_wr = 4 * link->window + 2,
			.max_recv_wr = link->window,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	size_t max_inline;
	int ret;

	link->cq = ibv_create_cq(link->id->verbs, 4 * (int) link->window + 4, NULL, NULL, 0);
	if (!link->cq)
		return link_complain("ibv_create_cq");
	attr.send_cq = attr.recv_cq = link->cq;
	for (max_inline = MAX_INLINE;; max_inline /= 2) {
		attr.cap.max_inline_data = max_inline;
		ret = link->flush ? flush_create_qp(link, &attr, link->flush == LINK_APPEND)
				  : rdma_create_qp(link->id, link->pd, &attr);
		if (!ret)
			break;
		if (!max_inline)
			return link_complain("rdma_create_qp");
	}
	link->max_inline = max_inline;
	return 0;
}

int link_receive(struct link *link, uint32_t number)
{
	struct ibv_sge sge = {(uintptr_t) &link->notes[number], sizeof(*link->notes),
			      link->notes_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	errno = ibv_post_recv(link->id->qp, &wr, &bad);
	return errno ? link_complain("ibv_post_recv") : 0;
}

/* create_notes -- and receive into the first half of them */
static int create_notes(struct link *link)
{
	size_t n = 2 * (size_t) link->window;
	uint32_t i;

	link->notes = calloc(n, sizeof(*link->notes));
	if (!link->notes)
		return link_complain("calloc");
	link->notes_mr =
		ibv_reg_mr(link->pd, link->notes, n * sizeof(*link->notes), IBV_ACCESS_LOCAL_WRITE);
	if (!link->notes_mr)
		return link_complain("ibv_reg_mr");
	for (i = 0; i < link->window; i++) {
		if (link_receive(link, i))
			return -1;
	}
	return 0;
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
		return link_complain("ibv_alloc_pd");
	if (create_qp(link) || memory_map(&link->memory, path, len))
		return -1;
	link->mr = ibv_reg_mr(link->pd, link->memory.base, len,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ |
				      (link->flush && path ? flush_access() : 0));
	return link->mr ? create_notes(link) : link_complain("ibv_reg_mr");
}

void link_close(struct link *link)
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
	free(link->notes);
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
		ret = link_complain("rdma_create_id");
	else if (rdma_bind_addr(link->listener, addr->ai_addr))
		ret = link_complain("rdma_bind_addr");
	else if (rdma_listen(link->listener, 1))
		ret = link_complain("rdma_listen");
	else
		ret = await_request(link);
	freeaddrinfo(addr);
	return ret;
}

/* reads_of -- how many READs may be outstanding */
static uint8_t reads_of(struct link *link)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(link->id->verbs, &attr))
		return 1;
	if (attr.max_qp_rd_atom < MAX_READS || attr.max_qp_init_rd_atom < MAX_READS)
		return attr.max_qp_rd_atom < attr.max_qp_init_rd_atom ? attr.max_qp_rd_atom
								      : attr.max_qp_init_rd_atom;
	return MAX_READS;
}

static int accept_one(struct link *link)
{
	struct handshake handshake = {0};
	struct rdma_conn_param param = {
		.private_data = &handshake,
		.private_data_len = sizeof(handshake),
	};

	link->window = link->peer.window;
	link->flush = link->peer.flush;
	if (!link->window || link->window > STREAM_MAX_WINDOW)
		return -1;
	param.responder_resources = param.initiator_depth = reads_of(link);
	if (!create_endpoint(link, link->opts->memory, link->peer.len)) {
		handshake.addr = (uintptr_t) link->memory.base;
		handshake.rkey = link->mr->rkey;
		handshake.ok = 1;
	} else if (!link->id->qp) {
		return -1;
	}
	if (rdma_accept(link->id, &param))
		return link_complain("rdma_accept");
	return await_event(link, RDMA_CM_EVENT_ESTABLISHED, timeout_ms(link)) || !handshake.ok ? -1
											       : 0;
}

static int resolve_route(struct link *link, struct addrinfo *src, struct addrinfo *dst)
{
	if (rdma_create_id(link->channel, &link->id, NULL, RDMA_PS_TCP))
		return link_complain("rdma_create_id");
	if (rdma_resolve_addr(link->id, src ? src->ai_addr : NULL, dst->ai_addr, RESOLVE_MS))
		return link_complain("rdma_resolve_addr");
	if (await_event(link, RDMA_CM_EVENT_ADDR_RESOLVED, timeout_ms(link)))
		return -1;
	if (rdma_resolve_route(link->id, RESOLVE_MS))
		return link_complain("rdma_resolve_route");
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

static int connect_once(struct link *link, const struct handshake *wanted)
{
	struct rdma_conn_param param = {
		.private_data = wanted,
		.private_data_len = sizeof(*wanted),
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	link->channel = rdma_create_event_channel();
	if (!link->channel)
		return link_complain("rdma_create_event_channel");
	link->window = wanted->window;
	link->flush = wanted->flush;
	if (route(link) || create_endpoint(link, NULL, wanted->len))
		return -1;
	param.responder_resources = param.initiator_depth = reads_of(link);
	if (rdma_connect(link->id, &param))
		return link_complain("rdma_connect");
	return await_event(link, RDMA_CM_EVENT_ESTABLISHED, timeout_ms(link));
}

int link_connect(struct link *link, const struct handshake *wanted)
{
	const struct options *opts = link->opts;
	uint64_t deadline = now_ns() + 5000000000ULL;
	struct timespec pause = {.tv_nsec = 50000000};
	int ret;

	/* Scripts start both programs at a time: nobody may listen yet. */
	while ((ret = connect_once(link, wanted)) == 1 && now_ns() < deadline) {
		link_close(link);
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

int link_accept(struct link *link)
{
	int ret;

	link->channel = rdma_create_event_channel();
	if (!link->channel)
		return link_complain("rdma_create_event_channel");
	ret = listen_for_one(link);
	return ret ? -1 : accept_one(link);
}

int link_await_end(struct link *link)
{
	return await_event(link, RDMA_CM_EVENT_DISCONNECTED, -1);
}

bool link_is_over(struct link *link)
{
	struct pollfd pfd = {.fd = link->channel->fd, .events = POLLIN};

	return poll(&pfd, 1, 0) > 0;
}
