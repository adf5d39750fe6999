/* SPDX-License-Identifier: BSD-2-Clause */
/* load.c -- the clients' threads, and how each makes its calls */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handler.h"

static __attribute__((noreturn)) void give_up(const char *what)
{
	bench_fail("%s", what);
	bench_end();
}

static void add_sample(struct client *client, const struct call *call)
{
	struct samples *samples = &client->samples[call->kind];

	if (samples->count == samples->room) {
		samples->room = samples->room ? 2 * samples->room : 4096;
		samples->at = realloc(samples->at, samples->room * sizeof(*samples->at));
		if (!samples->at)
			give_up("no memory");
	}
	samples->at[samples->count++] = (uint64_t) (bench_now() - call->began);
}

/* note_write -- it was executed; unless there is a later one, which will say so */
static void note_write(struct client *client, const struct call *call)
{
	struct last_write *last = &client->last[call->index];

	if (call->kind == KIND_WRITE && last->sequence == call->sequence)
		last->executed = bench_now();
}

/* changed -- a call was acknowledged, or executed, or both */
static void changed(struct call *call, void *context)
{
	struct client *client = context;
	const struct workload *workload = client->settings->workload;

	if (call->acknowledged && call->awaited) {
		call->awaited = false;
		client->unacknowledged--;
		if (client->measured && call->kind != KIND_OTHER)
			add_sample(client, call);
	}
	if (!call->executed)
		return;
	if (call->status < 0) {
		bench_fail("a call: %s", strerror(-call->status));
		bench_end();
	}
	note_write(client, call);
	if (workload->done)
		workload->done(client, call);
	client->free[client->num_free++] = call;
}

/* get -- a call that is free, filled in by the phase; NULL: there is nothing to be called now */
static struct call *get(struct client *client, next_call next)
{
	struct call *call = client->free[client->num_free - 1];

	/* Two arguments: that of the last call is posted after this. */
	client->argument = client->arguments[client->turn ^= 1];
	*call = (struct call){
		.buffer = call->buffer, .began = bench_now(), .argument = client->argument};
	if (!next(client, call))
		return NULL;
	call->reply = call->kind == KIND_WRITE ? NULL : call->buffer;
	client->num_free--;
	client->issued++;
	client->total += call->op != OP_HANDLED;
	return call;
}

static void reconnect(struct client *client)
{
	client->reconnects++;
	if (client->caller->ops->reconnect(client->caller))
		give_up("the server does not come back");
}

static void progress(struct client *client)
{
	struct caller *caller = client->caller;
	int ret = caller->ops->progress(caller);

	if (ret == -ENOTCONN)
		reconnect(client);
	else if (ret < 0)
		give_up("the client can't go on");
	else if (!ret)
		caller->ops->rest(caller);
}

/* post -- for as long as it takes */
static void post(struct client *client, struct call *call, bool more)
{
	struct caller *caller = client->caller;
	int ret;

	call->awaited = true;
	client->unacknowledged++;
	while ((ret = caller->ops->post(caller, call, more)) == -EAGAIN || ret == -ENOTCONN) {
		if (ret == -ENOTCONN)
			reconnect(client);
		else
			progress(client);
	}
	if (ret) {
		bench_fail("a call: %s", strerror(-ret));
		bench_end();
	}
}

/* post_batch -- false: there is nothing to be called now */
static bool post_batch(struct client *client, next_call next)
{
	unsigned int batch = client->settings->batch;
	struct call *call = get(client, next), *following;

	if (!call)
		return false;
	for (unsigned int i = 1; call; i++, call = following) {
		following = i < batch && client->num_free ? get(client, next) : NULL;
		post(client, call, following);
	}
	return true;
}

void client_run(struct client *client, next_call next)
{
	const struct settings *settings = client->settings;
	size_t depth = (size_t) settings->in_flight * settings->batch;
	size_t all = client->num_free;

	client->issued = 0;
	for (;;) {
		if (client->unacknowledged + settings->batch <= depth &&
		    client->num_free >= settings->batch && post_batch(client, next))
			continue;
		/* What was executed may have led to something more. */
		if (client->num_free == all)
			return;
		progress(client);
	}
}

bool client_meet(struct client *client)
{
	pthread_barrier_wait(&client->load->barrier);
	return !client->id;
}

bool client_goes_on(const struct client *client)
{
	if (bench_ended())
		return false;
	return client->load->end ? bench_now() < client->load->end
				 : client->issued < client->settings->count;
}

/* ---- phases ---- */

static bool ask_handled(struct client *client, struct call *call)
{
	if (client->issued)
		return false;
	call->op = OP_HANDLED;
	call->kind = KIND_OTHER;
	return true;
}

static uint64_t handled(struct client *client)
{
	uint64_t count;

	/* All calls are free, and the last one is used. */
	client_run(client, ask_handled);
	memcpy(&count, client->free[client->num_free - 1]->buffer, sizeof(count));
	return count;
}

static void measure(struct client *client)
{
	struct load *load = client->load;
	const struct settings *settings = client->settings;
	int64_t start;

	if (client_meet(client)) {
		printf("fi_pmem_rpc_bench: measuring\n");
		fflush(stdout);
		if (settings->seconds)
			load->end = bench_now() + settings->seconds * INT64_C(1000000000);
	}
	client_meet(client);
	start = bench_now();
	client->measured = true;
	if (settings->workload->run)
		settings->workload->run(client);
	else
		client_run(client, settings->workload->next);
	client->measured = false;
	if (client_meet(client))
		load->seconds = (double) (bench_now() - start) / 1e9;
}

static void *live(void *argument)
{
	struct client *client = argument;
	const struct settings *settings = client->settings;
	const struct workload *workload = settings->workload;
	const struct caller_ops *ops = settings->design ? &call_design : &call_pmemrpc;

	if (ops->open(&client->caller, settings, client->id))
		give_up("no connection");
	client->caller->ops = ops;
	client->caller->settings = settings;
	client->caller->changed = changed;
	client->caller->context = client;
	client->num_free = client->caller->capacity;
	client->calls = calloc(client->num_free, sizeof(*client->calls));
	client->free = calloc(client->num_free, sizeof(struct call *));
	if (!client->calls || !client->free)
		give_up("no memory");
	for (size_t i = 0; i < client->num_free; i++) {
		client->free[i] = &client->calls[i];
		client->calls[i].buffer = calloc(1, settings->reply_max + 8);
		if (!client->calls[i].buffer)
			give_up("no memory");
	}
	if (!client->id)
		client->load->handled = handled(client);
	client_meet(client);
	if (workload->fill)
		client_run(client, workload->fill);
	measure(client);
	client->checks = true;
	client_run(client, workload->check);
	client_meet(client);
	if (!client->id)
		client->load->handled = handled(client) - client->load->handled;
	return NULL;
}

static int start(struct load *load)
{
	const struct settings *settings = load->settings;

	for (unsigned int i = 0; i < settings->clients; i++) {
		struct client *client = &load->clients[i];

		client->load = load;
		client->settings = settings;
		client->id = i;
		random_seed(&client->random, settings->seed, i);
		client->arguments[0] = calloc(1, settings->request_max);
		client->arguments[1] = calloc(1, settings->request_max);
		client->last = calloc(load->items, sizeof(*client->last));
		if (!client->arguments[0] || !client->arguments[1] || !client->last)
			return bench_fail("no memory");
		if (settings->workload->open && settings->workload->open(client))
			return -1;
	}
	for (unsigned int i = 0; i < settings->clients; i++) {
		if (pthread_create(&load->clients[i].thread, NULL, live, &load->clients[i]))
			return bench_fail("no thread");
	}
	return 0;
}

static void finish(struct client *client)
{
	if (client->settings->workload->close)
		client->settings->workload->close(client);
	for (size_t i = 0; i < client->num_free; i++)
		free(client->calls[i].buffer);
	client->caller->ops->close(client->caller);
	for (unsigned int kind = 0; kind < NUM_KINDS; kind++)
		free(client->samples[kind].at);
	free(client->calls);
	free(client->free);
	free(client->arguments[0]);
	free(client->arguments[1]);
	free(client->last);
}

static int run(struct load *load)
{
	const struct settings *settings = load->settings;

	if (zipf_make(&load->zipf, settings->objects, settings->theta))
		return bench_fail("no memory");
	pthread_barrier_init(&load->barrier, NULL, settings->clients);
	bench_end_on_signal(NULL);
	if (start(load))
		return -1;
	for (unsigned int i = 0; i < settings->clients; i++)
		pthread_join(load->clients[i].thread, NULL);
	report(load);
	for (unsigned int i = 0; i < settings->clients; i++)
		finish(&load->clients[i]);
	pthread_barrier_destroy(&load->barrier);
	return 0;
}

int load(const struct settings *settings)
{
	struct load load = {.settings = settings};
	int ret;

	load.items = settings->workload->items(settings);
	load.clients = calloc(settings->clients, sizeof(*load.clients));
	if (!load.clients)
		return bench_fail("no memory");
	ret = run(&load);
	zipf_free(&load.zipf);
	free(load.clients);
	return ret;
}
