/* SPDX-License-Identifier: BSD-2-Clause */
/* design_link.c -- connections of the designs that are no library here; design_link.h says how they
 * are used */
#include "design.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};
	struct fi_info *hints = fi_allocinfo();
	int ret = -FI_ENOMEM;

	*net = (struct net){.settings = settings};
	layout_make(&net->layout, settings);
	if (hints) {
		hints->fabric_attr->prov_name = strdup("pmemverbs");
		hints->caps = FI_MSG | FI_RMA;
		hints->mode = FI_RX_CQ_DATA;
		hints->ep_attr->type = FI_EP_MSG;
		hints->domain_attr->mr_mode =
			FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
		hints->domain_attr->cq_data_size = 4;
		hints->rx_attr->size = net->layout.receives;
		ret = fi_getinfo(FI_VERSION(1, 17), settings->host, settings->port,
				 settings->host ? 0 : FI_SOURCE, hints, &net->info);
		fi_freeinfo(hints);
	}
	if (ret)
		return bench_fail("fi_getinfo: %s", fi_strerror(-ret));
	ret = fi_fabric(net->info->fabric_attr, &net->fabric, NULL);
	if (!ret)
		ret = fi_eq_open(net->fabric, &attr, &net->eq, NULL);
	return ret ? bench_fail("fi_fabric: %s", fi_strerror(-ret)) : 0;
}

void net_close(struct net *net)
{
	if (net->eq)
		fi_close(&net->eq->fid);
	if (net->fabric)
		fi_close(&net->fabric->fid);
	fi_freeinfo(net->info);
}

int net_event(struct net *net, struct net_event *event, int timeout_ms)
{
	struct fi_eq_err_entry err = {0};
	ssize_t ret;

	ret = timeout_ms ? fi_eq_sread(net->eq, &event->type, event->room, sizeof(event->room),
				       timeout_ms, 0)
			 : fi_eq_read(net->eq, &event->type, event->room, sizeof(event->room), 0);
	if (ret >= (ssize_t) sizeof(event->cm)) {
		event->data_len = (size_t) ret - sizeof(event->cm);
		return 1;
	}
	if (ret != -FI_EAVAIL)
		return 0;
	fi_eq_readerr(net->eq, &err, 0);
	event->type = FI_SHUTDOWN;
	event->cm.fid = err.fid;
	return 1;
}

int port_open(struct port *port, struct net *net, struct fi_info *info, unsigned int links,
	      size_t memory_len)
{
	/*
	 * Room for all that links can have under way, and more: a device may have no queue of
	 * many thousand entries.
	 */
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA,
				  .wait_obj = FI_WAIT_FD,
				  .size = links * (4 * net->layout.receives + 64)};
	const uint64_t access =
		FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	int ret;

	*port = (struct port){.net = net, .memory_len = memory_len};
	ret = fi_domain(net->fabric, info, &port->domain, NULL);
	if (!ret)
		ret = fi_cq_open(port->domain, &attr, &port->cq, NULL);
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
	ret = fi_mr_reg(port->domain, port->memory, memory_len, access, 0, 0, 0, &port->mr, NULL);
	return ret ? bench_fail("fi_mr_reg: %s", fi_strerror(-ret)) : 0;
}

void port_close(struct port *port)
{
	if (port->mr)
		fi_close(&port->mr->fid);
	if (port->cq)
		fi_close(&port->cq->fid);
	if (port->domain)
		fi_close(&port->domain->fid);
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
	else if (!fi_trywait(port->net->fabric, &fid, 1))
		poll(&fd, 1, timeout_ms);
}

static uint64_t address(const struct port *port, const void *place)
{
	if (port->net->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		return (uint64_t) (uintptr_t) place;
	return (uint64_t) ((const char *) place - port->memory);
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
	struct net *net = port->net;
	int ret;

	*link = (struct link){.port = port, .area = area, .server = !net->settings->host};
	link->fetch = (struct context){.kind = CONTEXT_FETCH, .link = link};
	link->plain = (struct context){.kind = CONTEXT_PLAIN, .link = link};
	memset(area, 0, net->layout.area_len);
	ret = fi_endpoint(port->domain, info, &link->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(link->ep, &net->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(link->ep, &port->cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION);
	if (!ret)
		ret = fi_ep_bind(link->ep, &port->cq->fid, FI_RECV);
	if (!ret)
		ret = fi_enable(link->ep);
	if (!ret)
		ret = make_receives(link);
	return ret ? bench_fail("endpoint: %s", fi_strerror(-ret)) : 0;
}

void link_end(struct link *link)
{
	if (link->ep) {
		fi_shutdown(link->ep, 0);
		fi_close(&link->ep->fid);
	}
	link->ep = NULL;
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
				    .key = fi_mr_key(link->port->mr),
				    .check = settings_check(net->settings),
				    .first = first};
	struct welcome welcome;
	struct net_event event;

	if (fi_connect(link->ep, net->info->dest_addr, &hello, sizeof(hello)) ||
	    net_event(net, &event, 5000) != 1 || event.type != FI_CONNECTED)
		return -FI_ECONNREFUSED;
	/* A core may add zeros to what the server has said. */
	if (event.data_len < sizeof(welcome))
		return bench_fail(
			"the server measures something else: give both ends the same options");
	memcpy(&welcome, event.cm.data, sizeof(welcome));
	link->remote_area = welcome.area;
	link->remote_key = welcome.key;
	link->remote_flags = welcome.flags;
	link->self = welcome.self;
	link->next = first;
	return 0;
}

int link_accept(struct link *link, const struct net_event *event, volatile uint8_t *flags)
{
	struct port *port = link->port;
	struct welcome welcome = {
		.area = address(port, link->area), .key = fi_mr_key(port->mr), .self = link->self};
	struct hello hello;
	bool fits = event->data_len >= sizeof(hello);

	if (fits) {
		memcpy(&hello, event->cm.data, sizeof(hello));
		fits = hello.check == settings_check(port->net->settings);
	}
	/* Without a welcome it knows that the ends do not fit. */
	if (!fits)
		return fi_accept(link->ep, NULL, 0) ? -FI_ECONNREFUSED : 0;
	if (flags)
		welcome.flags = address(port, (const void *) (uintptr_t) flags);
	link->flags = flags;
	link->remote_area = hello.area;
	link->remote_key = hello.key;
	link->next = hello.first;
	return fi_accept(link->ep, &welcome, sizeof(welcome)) ? -FI_ECONNREFUSED : 0;
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
	void *desc = fi_mr_desc(link->port->mr);
	struct fi_msg_rma msg = {.msg_iov = &iov,
				 .desc = &desc,
				 .iov_count = 1,
				 .rma_iov = &rma_iov,
				 .rma_iov_count = 1,
				 .context = context,
				 .data = data};
	ssize_t ret;

	do {
		ret = read ? fi_readmsg(link->ep, &msg, flags) : fi_writemsg(link->ep, &msg, flags);
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
		ret = fi_inject_write(link->ep, &set, sizeof(set), 0, to, link->remote_key);
	} while (ret == -FI_EAGAIN && !make_room(link));
	return (int) ret;
}

int link_send(struct link *link, const struct frame *frame, bool more)
{
	struct iovec iov = {.iov_base = (void *) (uintptr_t) frame, .iov_len = frame_total(frame)};
	void *desc = fi_mr_desc(link->port->mr);
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .context = &link->plain};
	ssize_t ret;

	do {
		ret = fi_sendmsg(link->ep, &msg, more ? FI_MORE : 0);
	} while (ret == -FI_EAGAIN && !make_room(link));
	return (int) ret;
}

int link_receive(struct link *link, uint32_t at_least)
{
	const struct layout *layout = &link->port->net->layout;
	bool messages = link->port->net->settings->design->messages;
	size_t len = link->server ? layout->request_len : layout->reply_len;
	void *desc = fi_mr_desc(link->port->mr);

	if (link->spent < at_least)
		return 0;
	for (; link->spent; link->spent--) {
		struct context *context = &link->receives[link->posted % layout->receives];
		/* What only an immediate uses receives nothing. */
		struct iovec iov = {.iov_base = context->frame,
				    .iov_len = messages ? len : sizeof(uint64_t)};
		struct fi_msg msg = {
			.msg_iov = &iov, .desc = &desc, .iov_count = 1, .context = context};
		ssize_t ret = fi_recvmsg(link->ep, &msg, link->spent > 1 ? FI_MORE : 0);

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
