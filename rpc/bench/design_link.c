/* SPDX-License-Identifier: BSD-2-Clause */
/* design_link.c -- connections of the designs that are no library here; design_link.h says how they
 * are used */
#include "design.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A server that is there accepts within this time. */
#define CONNECT_MS 5000

/* What the ends tell each other when they connect: 24 and 28 bytes, as verbs has few. */
struct hello {
	uint64_t area;
	uint64_t key;
	uint32_t check;
	uint32_t first;
};

struct welcome {
	uint64_t area;
	uint64_t key;
	uint64_t flags;
	uint32_t self;
} __attribute__((packed));

int net_open(struct net *net, const struct settings *settings)
{
	struct node_attr attr = {
		.host = settings->host,
		.port = settings->port,
		.caps = FI_MSG | FI_RMA,
		.wait = FI_WAIT_FD,
		.timeout_ms = CONNECT_MS,
		.error = &net->error,
	};
	int ret;

	*net = (struct net){.settings = settings};
	layout_make(&net->layout, settings);
	attr.receives = net->layout.receives;
	ret = settings->host ? node_prepare(&net->node, &attr) : node_listen(&net->node, &attr);
	return ret ? bench_fail("%s", net->error.text) : 0;
}

void net_close(struct net *net)
{
	node_close(&net->node);
}

int port_open(struct port *port, struct net *net, struct fi_info *info, unsigned int links,
	      size_t memory_len)
{
	const struct conn_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait = FI_WAIT_FD};
	const uint64_t access =
		FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	int ret;

	*port = (struct port){.net = net, .memory_len = memory_len};
	if (node_branch(&port->node, &net->node, info, false, &net->error))
		return bench_fail("%s", net->error.text);
	/*
	 * Room for all that links can have under way, and more: a device may have no queue of
	 * many thousand entries.
	 */
	ret = cq_create(&port->node, &attr, links * (4 * net->layout.receives + 64), &port->cq);
	if (!ret)
		ret = fi_control(&port->cq->fid, FI_GETWAIT, &port->fd);
	if (ret)
		return bench_fail("fi_cq_open: %s", fi_strerror(-ret));
	port->memory =
		mmap(NULL, memory_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (port->memory == MAP_FAILED) {
		port->memory = NULL;
		return bench_fail("no memory for frames");
	}
	ret = region_try(&port->node, &port->region, port->memory, memory_len, access, 0);
	return ret ? bench_fail("fi_mr_reg: %s", fi_strerror(-ret)) : 0;
}

void port_close(struct port *port)
{
	region_close(&port->region);
	if (port->cq)
		close_fid(&port->cq->fid, "the completion queue");
	node_close(&port->node);
	if (port->memory)
		munmap(port->memory, port->memory_len);
	*port = (struct port){0};
}

static void take_entry(struct port *port, const struct fi_cq_data_entry *entry)
{
	const struct context *context = entry->op_context;
	struct link *link = context ? context->link : NULL;

	if (entry->flags & FI_REMOTE_CQ_DATA) {
		/* On some cores it has used a receive. */
		if (entry->data >= port->num_links)
			return;
		link = &port->links[entry->data];
		link->notified++;
		link->spent += !!context;
	} else if (context && context->kind == CONTEXT_FETCH) {
		link->fetched = true;
	} else if (context && context->kind == CONTEXT_RECEIVE) {
		struct frame *frame = context->frame;

		/* What was received has to be what it says it is; nobody will wait for it. */
		if (entry->len < sizeof(*frame) || frame->len < sizeof(*frame) ||
		    frame_total(frame) != entry->len)
			link->gone = true;
		else
			link->arrived[link->num_arrived++ % port->net->layout.receives] = frame;
	}
}

int port_poll(struct port *port)
{
	struct fi_cq_data_entry entries[16];
	struct fi_cq_err_entry err = {0};
	ssize_t count = fi_cq_read(port->cq, entries, 16);
	const struct context *context;

	if (count == -FI_EAVAIL) {
		fi_cq_readerr(port->cq, &err, 0);
		context = err.op_context;
		if (context)
			context->link->gone = true;
		port->failed = true;
		return 1;
	}
	for (ssize_t i = 0; i < count; i++)
		take_entry(port, &entries[i]);
	return count > 0;
}

void port_rest(struct port *port, bool sleep, int timeout_ms)
{
	struct pollfd fd = {.fd = port->fd, .events = POLLIN};
	struct fid *fid = &port->cq->fid;

	if (!sleep)
		sched_yield();
	else if (!fi_trywait(port->node.fabric, &fid, 1))
		poll(&fd, 1, timeout_ms);
}

/* address -- of a place in the port's memory, as the peer has to name it */
static uint64_t address(const struct port *port, const void *place)
{
	return port->region.addr + (uint64_t) ((const char *) place - port->memory);
}

static int make_receives(struct link *link)
{
	const struct layout *layout = &link->port->net->layout;
	bool messages = link->port->net->settings->design->messages;
	size_t len = link->server ? layout->request_len : layout->reply_len;
	char *frames = link->area + (link->server ? 0 : layout->replies);

	link->receives = calloc(layout->receives, sizeof(*link->receives));
	link->arrived = calloc(layout->receives, sizeof(struct frame *));
	if (!link->receives || !link->arrived)
		return -FI_ENOMEM;
	for (unsigned int i = 0; i < layout->receives; i++)
		link->receives[i] = (struct context){
			.kind = CONTEXT_RECEIVE,
			.link = link,
			.frame = (struct frame *) (messages ? frames + i * len : link->area)};
	link->spent = layout->receives;
	return link_receive(link, 1);
}

int link_open(struct link *link, struct port *port, struct fi_info *info, char *area)
{
	const struct conn_attr attr = {.cq = port->cq, .selective = true};
	struct net *net = port->net;
	int ret;

	*link = (struct link){.port = port, .area = area, .server = !net->settings->host};
	link->fetch = (struct context){.kind = CONTEXT_FETCH, .link = link};
	link->plain = (struct context){.kind = CONTEXT_PLAIN, .link = link};
	memset(area, 0, net->layout.area_len);
	if (conn_create(&link->conn, &port->node, info, &attr))
		return bench_fail("%s", net->error.text);
	ret = make_receives(link);
	return ret ? bench_fail("receives: %s", fi_strerror(-ret)) : 0;
}

void link_end(struct link *link)
{
	conn_end(&link->conn);
	link->gone = true;
}

void link_close(struct link *link)
{
	link_end(link);
	free(link->receives);
	free(link->arrived);
	link->receives = NULL;
	link->arrived = NULL;
}

int link_connect(struct link *link, uint32_t first)
{
	struct net *net = link->port->net;
	const struct hello hello = {.area = address(link->port, link->area),
				    .key = link->port->region.key,
				    .check = settings_check(net->settings),
				    .first = first};
	struct welcome welcome;
	struct cm_event event;

	if (conn_connect(&link->conn, &hello, sizeof(hello), &event))
		return -FI_ECONNREFUSED;
	/* A core may add zeros to what the server has said. */
	if (event.len < sizeof(welcome))
		return bench_fail(
			"the server measures something else: give both ends the same options");
	memcpy(&welcome, event.entry.data, sizeof(welcome));
	link->remote_area = welcome.area;
	link->remote_key = welcome.key;
	link->remote_flags = welcome.flags;
	link->self = welcome.self;
	link->next = first;
	return 0;
}

int link_accept(struct link *link, const struct cm_event *event, volatile uint8_t *flags)
{
	struct port *port = link->port;
	struct welcome welcome = {
		.area = address(port, link->area), .key = port->region.key, .self = link->self};
	struct hello hello;
	bool fits = event->len >= sizeof(hello);

	if (fits) {
		memcpy(&hello, event->entry.data, sizeof(hello));
		fits = hello.check == settings_check(port->net->settings);
	}
	/* Without a welcome it knows that the ends do not fit. */
	if (!fits)
		return fi_accept(link->conn.ep, NULL, 0) ? -FI_ECONNREFUSED : 0;
	if (flags)
		welcome.flags = address(port, (const void *) (uintptr_t) flags);
	link->flags = flags;
	link->remote_area = hello.area;
	link->remote_key = hello.key;
	link->next = hello.first;
	return fi_accept(link->conn.ep, &welcome, sizeof(welcome)) ? -FI_ECONNREFUSED : 0;
}

/* ---- operations ---- */

/* make_room -- the queue is full: the connection is there still? */
static int make_room(struct link *link)
{
	port_poll(link->port);
	if (link->server ? link->gone : link->port->failed)
		return -FI_ENOTCONN;
	return 0;
}

static int rma(struct link *link, bool read, const void *here, size_t len, uint64_t there,
	       void *context, uint64_t data, uint64_t flags)
{
	struct iovec iov = {.iov_base = (void *) (uintptr_t) here, .iov_len = len};
	struct fi_rma_iov rma_iov = {.addr = there, .len = len, .key = link->remote_key};
	struct fi_msg_rma msg = {.msg_iov = &iov,
				 .desc = &link->port->region.desc,
				 .iov_count = 1,
				 .rma_iov = &rma_iov,
				 .rma_iov_count = 1,
				 .context = context,
				 .data = data};
	ssize_t ret;

	do {
		ret = read ? fi_readmsg(link->conn.ep, &msg, flags)
			   : fi_writemsg(link->conn.ep, &msg, flags);
	} while (ret == -FI_EAGAIN && !make_room(link));
	return (int) ret;
}

int link_write(struct link *link, const void *from, size_t len, uint64_t to)
{
	return rma(link, false, from, len, to, &link->plain, 0, 0);
}

int link_write_data(struct link *link, const void *from, size_t len, uint64_t to, uint64_t data)
{
	return rma(link, false, from, len, to, &link->plain, data, FI_REMOTE_CQ_DATA);
}

int link_fetch(struct link *link, void *to, size_t len, uint64_t from)
{
	link->fetching = true;
	link->fetched = false;
	return rma(link, true, to, len, from, &link->fetch, 0, FI_COMPLETION);
}

int link_set_flag(struct link *link, uint64_t to)
{
	const uint8_t set = 1;
	ssize_t ret;

	do {
		ret = fi_inject_write(link->conn.ep, &set, sizeof(set), 0, to, link->remote_key);
	} while (ret == -FI_EAGAIN && !make_room(link));
	return (int) ret;
}

int link_send(struct link *link, const struct frame *frame, bool more)
{
	struct iovec iov = {.iov_base = (void *) (uintptr_t) frame, .iov_len = frame_total(frame)};
	struct fi_msg msg = {.msg_iov = &iov,
			     .desc = &link->port->region.desc,
			     .iov_count = 1,
			     .context = &link->plain};
	ssize_t ret;

	do {
		ret = fi_sendmsg(link->conn.ep, &msg, more ? FI_MORE : 0);
	} while (ret == -FI_EAGAIN && !make_room(link));
	return (int) ret;
}

int link_receive(struct link *link, uint32_t at_least)
{
	const struct layout *layout = &link->port->net->layout;
	bool messages = link->port->net->settings->design->messages;
	size_t len = link->server ? layout->request_len : layout->reply_len;

	if (link->spent < at_least)
		return 0;
	for (; link->spent; link->spent--) {
		struct context *context = &link->receives[link->posted % layout->receives];
		/* What only an immediate uses receives nothing. */
		struct iovec iov = {.iov_base = context->frame,
				    .iov_len = messages ? len : sizeof(uint64_t)};
		struct fi_msg msg = {.msg_iov = &iov,
				     .desc = &link->port->region.desc,
				     .iov_count = 1,
				     .context = context};
		ssize_t ret = fi_recvmsg(link->conn.ep, &msg, link->spent > 1 ? FI_MORE : 0);

		if (ret == -FI_EAGAIN && !make_room(link)) {
			link->spent++;
			continue;
		}
		if (ret)
			return (int) ret;
		link->posted++;
	}
	return 0;
}
