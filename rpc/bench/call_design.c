/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * call_design.c -- a client of the designs that are no library here
 *
 * Calls are collected in frames.  A frame whose reply is missing is kept: when the connection
 * was lost, all of them are sent again, since nobody knows what the server had done.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "design.h"

/* How often a client that spins looks at what happens to its connection. */
#define ROUNDS 256U

/* Between two attempts to connect: as libpmemrpc, so that outages can be compared. */
#define PAUSE_MS 20U
#define MAX_PAUSE_MS 320U

struct design_caller {
	struct caller caller; /* first */
	struct net net;
	struct port port;
	struct link link;
	struct call **calls; /* of each slot, batch */
	uint32_t next;       /* the frame that is filled now */
	unsigned int rounds;
};

static struct call **calls_of(struct design_caller *self, uint32_t number)
{
	return &self->calls[number % self->net.layout.slots * self->caller.settings->batch];
}

static const struct design *design_of(const struct design_caller *self)
{
	return self->caller.settings->design;
}

/* connect_once -- all of libfabric that a connection needs; -FI_ECONNREFUSED: try again */
static int connect_once(struct design_caller *self, uint32_t first)
{
	int ret = net_open(&self->net, self->caller.settings);

	if (!ret)
		ret = port_open(&self->port, &self->net, self->net.node.info, 1,
				self->net.layout.area_len);
	if (!ret)
		ret = link_open(&self->link, &self->port, self->net.node.info, self->port.memory);
	if (!ret)
		ret = link_connect(&self->link, first);
	return ret;
}

static void disconnect(struct design_caller *self)
{
	if (self->link.port)
		link_close(&self->link);
	port_close(&self->port);
	net_close(&self->net);
	self->net = (struct net){0};
	self->link = (struct link){0};
}

static int connect_to_server(struct design_caller *self, uint32_t first)
{
	int64_t end = bench_now() + self->caller.settings->patience * INT64_C(1000000000);
	unsigned int pause_ms = PAUSE_MS;
	int ret;

	while ((ret = connect_once(self, first)) == -FI_ECONNREFUSED && bench_now() < end) {
		disconnect(self);
		usleep(pause_ms * 1000);
		if (pause_ms < MAX_PAUSE_MS)
			pause_ms *= 2;
	}
	return ret == -FI_ECONNREFUSED ? bench_fail("there is no server") : ret;
}

static int open_caller(struct caller **caller, const struct settings *settings, unsigned int client)
{
	struct design_caller *self = calloc(1, sizeof(*self));

	(void) client;
	if (!self)
		return bench_fail("no memory");
	self->caller.settings = settings;
	self->caller.capacity = settings->in_flight * settings->batch;
	self->calls = calloc(self->caller.capacity, sizeof(struct call *));
	self->next = 1;
	*caller = &self->caller;
	if (!self->calls)
		return bench_fail("no memory");
	return connect_to_server(self, 1);
}

static int flush(struct design_caller *self, bool more)
{
	struct frame *frame = link_request(&self->link, self->next);
	int ret;

	frame_seal(frame, self->next++);
	ret = design_of(self)->request(&self->link, frame, more);
	/* It is kept, and will be sent again: only the connection is lost. */
	if (ret)
		self->port.failed = true;
	return 0;
}

static int post(struct caller *caller, struct call *call, bool more)
{
	struct design_caller *self = (struct design_caller *) caller;
	const struct settings *settings = caller->settings;
	struct frame *frame = link_request(&self->link, self->next);
	struct item *item;

	if (self->port.failed)
		return -FI_ENOTCONN;
	if (self->next - self->link.next >= self->net.layout.slots)
		return -FI_EAGAIN;
	if (frame->number != 0) {
		frame->number = 0;
		frame->len = sizeof(*frame);
		frame->count = 0;
	}
	if (!frame->len)
		frame->len = sizeof(*frame);
	item = (struct item *) ((char *) frame + frame->len);
	item->what = call->op;
	item->len = (uint32_t) call->argument_len;
	memcpy(item->data, call->argument, call->argument_len);
	frame->len += item_len(call->argument_len);
	calls_of(self, self->next)[frame->count++] = call;
	return frame->count == settings->batch || !more ? flush(self, more) : 0;
}

/* take_reply -- to all calls of a frame; false: it is no reply to them */
static bool take_reply(struct design_caller *self, const struct frame *reply)
{
	uint32_t number = self->link.next - 1;
	const struct frame *request = link_request(&self->link, number);
	struct call **calls = calls_of(self, number);
	const struct item *item = NULL;

	if (!link_arrived(reply, number, self->net.layout.reply_len) ||
	    reply->count != request->count)
		return false;
	for (uint32_t i = 0; i < reply->count; i++) {
		struct call *call = calls[i];

		item = frame_next(reply, item);
		if (!item || item->len > self->caller.settings->reply_max)
			return false;
		call->status = (int) item->what;
		call->reply_len = item->len;
		if (call->reply)
			memcpy(call->reply, item->data, item->len);
		call->acknowledged = call->executed = true;
		self->caller.changed(call, self->caller.context);
	}
	return true;
}

/* look_at_connection -- did it end? */
static void look_at_connection(struct design_caller *self)
{
	struct cm_event event;

	if (node_event(&self->net.node, &event, 0) == 1 && event.event == FI_SHUTDOWN)
		self->port.failed = true;
}

static int progress(struct caller *caller)
{
	struct design_caller *self = (struct design_caller *) caller;
	const struct design *design = design_of(self);
	const struct frame *reply;
	int taken = 0;

	port_poll(&self->port);
	while (!self->port.failed && self->link.next != self->next &&
	       (reply = design->take_reply(&self->link))) {
		taken++;
		if (!take_reply(self, reply))
			return bench_fail("a reply that is none");
		if (design->release && design->release(&self->link))
			self->port.failed = true;
	}
	if (!taken && ++self->rounds % ROUNDS == 0)
		look_at_connection(self);
	if (self->link.gone)
		self->port.failed = true;
	return self->port.failed && !taken ? -FI_ENOTCONN : taken;
}

static void rest(struct caller *caller)
{
	struct design_caller *self = (struct design_caller *) caller;
	bool sleeps = design_of(self)->client_sleeps && !caller->settings->spin;

	port_rest(&self->port, sleeps, 100);
	if (sleeps)
		look_at_connection(self);
}

/* reconnect -- all that was not replied to is sent again */
static int reconnect(struct caller *caller)
{
	struct design_caller *self = (struct design_caller *) caller;
	uint32_t first = self->link.next, end = self->next;
	size_t len = self->net.layout.replies;
	char *kept = malloc(len);
	int ret;

	if (!kept)
		return bench_fail("no memory");
	memcpy(kept, self->port.memory, len);
	disconnect(self);
	ret = connect_to_server(self, first);
	if (!ret) {
		memcpy(self->port.memory, kept, len);
		for (self->next = first; self->next != end;) {
			caller->sent_again += link_request(&self->link, self->next)->count;
			flush(self, false);
		}
	}
	free(kept);
	return ret;
}

static void close_caller(struct caller *caller)
{
	struct design_caller *self = (struct design_caller *) caller;

	disconnect(self);
	free(self->calls);
	free(self);
}

const struct caller_ops call_design = {
	.open = open_caller,
	.post = post,
	.progress = progress,
	.rest = rest,
	.reconnect = reconnect,
	.close = close_caller,
};
