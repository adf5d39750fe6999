/* SPDX-License-Identifier: BSD-2-Clause */
/* call_pmemrpc.c -- a client by libpmemrpc's public functions */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "call.h"
#include "pmemrpc.h"

#define WINDOW 32U
#define MS 1000

struct posted {
	struct pmemrpc_call call;
	struct pmemrpc_caller *caller;
	struct call *of;
	struct posted *next;
};

struct pmemrpc_caller {
	struct caller caller; /* first */
	struct pmemrpc_client *client;
	struct posted *all, *free;
	unsigned int happened;
};

unsigned int pmemrpc_window(const struct settings *settings)
{
	unsigned int depth = settings->in_flight * settings->batch;

	/* A call that is durable waits for its reply beside those that are not. */
	depth = depth > WINDOW / 2 ? 2 * depth : WINDOW;
	return depth < PMEMRPC_MAX_WINDOW ? depth : PMEMRPC_MAX_WINDOW;
}

size_t pmemrpc_ring(const struct settings *settings)
{
	size_t entry = (settings->request_max + 16 + 63) / 64 * 64;
	size_t len = (pmemrpc_window(settings) * entry + 4095) / 4096 * 4096;

	return len < PMEMRPC_MAX_RING ? len : PMEMRPC_MAX_RING;
}

/* is_write -- a call whose caller needs no reply */
static bool is_write(const struct posted *posted)
{
	return !posted->of->reply;
}

static void notify(struct pmemrpc_call *call)
{
	struct posted *posted = (struct posted *) call;
	struct pmemrpc_caller *self = posted->caller;
	struct call *of = posted->of;

	self->happened++;
	of->executed = call->state == PMEMRPC_EXECUTED;
	if (of->executed) {
		of->status = call->status;
		of->reply_len = call->reply_len;
		posted->next = self->free;
		self->free = posted;
	}
	if (of->executed || (is_write(posted) && !self->caller.settings->until_executed))
		of->acknowledged = true;
	self->caller.changed(of, self->caller.context);
}

static int open_caller(struct caller **caller, const struct settings *settings, unsigned int client)
{
	struct pmemrpc_client_attr attr = {.node = settings->host,
					   .service = settings->port,
					   .transport =
						   settings->send ? PMEMRPC_SEND : PMEMRPC_WRITE,
					   .argument_max = settings->request_max,
					   .batch = settings->batch > 1 ? settings->batch : 0,
					   .spin_us = settings->spin ? PMEMRPC_ALWAYS : 0,
					   .timeout_ms = (int) settings->patience * MS};
	struct pmemrpc_caller *self = calloc(1, sizeof(*self));
	struct pmemrpc_limits limits;
	char error[1024] = "no random numbers";

	(void) client;
	if (!self)
		return bench_fail("no memory");
	if (getrandom(attr.id, sizeof(attr.id), 0) != sizeof(attr.id) ||
	    pmemrpc_connect(&attr, &self->client, error, sizeof(error))) {
		free(self);
		return bench_fail("%s", error);
	}
	*caller = &self->caller;
	pmemrpc_get_limits(self->client, &limits);
	self->caller.capacity = limits.window;
	self->all = calloc(limits.window, sizeof(*self->all));
	if (!self->all)
		return bench_fail("no memory");
	for (unsigned int i = 0; i < limits.window; i++) {
		self->all[i].caller = self;
		self->all[i].next = self->free;
		self->free = &self->all[i];
	}
	return 0;
}

static int post(struct caller *caller, struct call *call, bool more)
{
	struct pmemrpc_caller *self = (struct pmemrpc_caller *) caller;
	struct posted *posted = self->free;
	int ret;

	(void) more;
	if (!posted)
		return -EAGAIN;
	posted->of = call;
	posted->call =
		(struct pmemrpc_call){.op = call->op,
				      .argument = call->argument,
				      .argument_len = call->argument_len,
				      .reply = call->reply,
				      .reply_size = call->reply ? caller->settings->reply_max : 0,
				      .reply_only = call->reply || caller->settings->until_executed,
				      .notify = notify};
	ret = pmemrpc_post(self->client, &posted->call);
	if (!ret)
		self->free = posted->next;
	return ret;
}

static int progress(struct caller *caller)
{
	struct pmemrpc_caller *self = (struct pmemrpc_caller *) caller;
	int ret;

	self->happened = 0;
	ret = pmemrpc_progress(self->client);
	return ret < 0 ? ret : (int) self->happened;
}

static void rest(struct caller *caller)
{
	struct pmemrpc_caller *self = (struct pmemrpc_caller *) caller;

	/* What it finds is told by notify; a lost connection, by the next call. */
	pmemrpc_rest(self->client, 100);
}

static int reconnect(struct caller *caller)
{
	struct pmemrpc_caller *self = (struct pmemrpc_caller *) caller;
	struct pmemrpc_limits limits;
	int ret = pmemrpc_reconnect(self->client, (int) caller->settings->patience * MS);

	pmemrpc_get_limits(self->client, &limits);
	caller->sent_again = limits.sent_again;
	return ret ? bench_fail("%s", pmemrpc_client_error(self->client)) : 0;
}

static void close_caller(struct caller *caller)
{
	struct pmemrpc_caller *self = (struct pmemrpc_caller *) caller;

	/* So that the server has a ring for the next one. */
	if (pmemrpc_forget(self->client, 10 * MS) == -EBUSY)
		pmemrpc_close(self->client);
	free(self->all);
	free(self);
}

const struct caller_ops call_pmemrpc = {
	.open = open_caller,
	.post = post,
	.progress = progress,
	.rest = rest,
	.reconnect = reconnect,
	.close = close_caller,
};
