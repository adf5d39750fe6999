/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve_design.c -- the server of the designs that are no library here
 *
 * One thread takes connections; workers execute calls.  A worker looks for requests by all its
 * connections, executes each, makes its effect durable and then replies.  That order is what
 * makes these designs durable.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "design.h"
#include "journal.h"

#define ROUND_MS 20

enum slot_state { SLOT_FREE, SLOT_OPEN, SLOT_ENDED };

struct worker {
	struct server *server;
	pthread_t thread;
	bool started;
	struct port port;
	struct link *links;
	enum slot_state *states;
	unsigned int num_links;
	volatile uint8_t *flags; /* of all its links together */
	uint64_t executed;
};

struct server {
	const struct settings *settings;
	struct net net;
	struct journal journal;
	struct worker *workers;
	pthread_mutex_t lock; /* states of slots, and endpoints' ends */
	bool stop;
};

/* execute -- the items of a request, and their replies; false: it is none */
static bool execute(struct worker *worker, struct link *link, const struct frame *frame,
		    struct frame *reply)
{
	const struct settings *settings = worker->server->settings;
	const struct layout *layout = &worker->server->net.layout;
	size_t len = sizeof(*reply), room = layout->reply_len - sizeof(uint64_t);
	const struct item *item = NULL;

	if (!link_arrived(frame, link->next - 1, layout->request_len))
		return false;
	for (uint32_t i = 0; i < frame->count; i++) {
		struct item *answer = (struct item *) ((char *) reply + len);
		struct transaction transaction;
		struct request request;
		int status;

		item = frame_next(frame, item);
		if (!item || len + item_len(settings->reply_max) > room)
			return false;
		request = (struct request){.op = item->what,
					   .argument = item->data,
					   .argument_len = item->len,
					   .reply = answer->data,
					   .reply_max = settings->reply_max};
		transaction_begin(&transaction, &worker->server->journal);
		status = handle(settings, &transaction.effects, &request);
		transaction_end(&transaction, status >= 0);
		answer->what = (uint32_t) status;
		answer->len = (uint32_t) request.reply_len;
		len += item_len(answer->len);
		worker->executed++;
	}
	reply->len = (uint32_t) len;
	reply->count = frame->count;
	frame_seal(reply, link->next - 1);
	return true;
}

/* serve_link -- all its requests that are there */
static unsigned int serve_link(struct worker *worker, struct link *link)
{
	const struct design *design = worker->server->settings->design;
	const struct frame *frame;
	unsigned int done = 0;

	while (!link->gone && (frame = design->take_request(link))) {
		struct frame *reply = link_reply(link, link->next - 1);
		bool more = link->num_taken != link->num_arrived;

		done++;
		if (!execute(worker, link, frame, reply) ||
		    (design->release && design->release(link)) || design->reply(link, reply, more))
			link->gone = true;
	}
	return done;
}

/* leave -- a connection that has gone: first its end, and when its last entries are read the rest
 */
static void leave(struct worker *worker, unsigned int i, bool quiet)
{
	pthread_mutex_lock(&worker->server->lock);
	if (worker->states[i] == SLOT_OPEN) {
		link_end(&worker->links[i]);
		worker->states[i] = SLOT_ENDED;
	} else if (worker->states[i] == SLOT_ENDED && quiet) {
		link_close(&worker->links[i]);
		worker->states[i] = SLOT_FREE;
	}
	pthread_mutex_unlock(&worker->server->lock);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct server *server = worker->server;
	const struct design *design = server->settings->design;
	bool sleeps = design->server_sleeps && !server->settings->spin;
	size_t num_flags = worker->num_links * server->net.layout.slots;

	while (!__atomic_load_n(&server->stop, __ATOMIC_RELAXED)) {
		bool busy = port_poll(&worker->port) > 0;
		bool look = !design->look || design->look(&worker->port, worker->flags, num_flags);

		for (unsigned int i = 0; i < worker->num_links; i++) {
			struct link *link = &worker->links[i];

			if (__atomic_load_n(&worker->states[i], __ATOMIC_ACQUIRE) == SLOT_FREE)
				continue;
			if (__atomic_load_n(&link->gone, __ATOMIC_RELAXED))
				leave(worker, i, !busy);
			else if (look && serve_link(worker, link))
				busy = true;
		}
		if (!busy)
			port_rest(&worker->port, sleeps, ROUND_MS);
	}
	return NULL;
}

/* ---- connections ---- */

static int open_link(struct worker *worker, unsigned int i, const struct cm_event *event)
{
	struct server *server = worker->server;
	const struct layout *layout = &server->net.layout;
	struct link *link = &worker->links[i];
	volatile uint8_t *flags = worker->flags + i * layout->slots;
	int ret;

	ret = link_open(link, &worker->port, event->entry.info,
			worker->port.memory + i * layout->area_len);
	for (unsigned int slot = 0; slot < layout->slots; slot++)
		flags[slot] = 0;
	link->self = i;
	if (!ret)
		ret = link_accept(link, event, flags);
	if (ret)
		link_close(link);
	return ret;
}

/* start_worker -- with its first client: that one has come by a device, which verbs needs to know
 */
static int start_worker(struct worker *worker, struct fi_info *info)
{
	struct server *server = worker->server;
	const struct layout *layout = &server->net.layout;
	size_t areas = worker->num_links * layout->area_len;

	if (port_open(&worker->port, &server->net, info, worker->num_links,
		      (areas + worker->num_links * layout->slots + 4095) / 4096 * 4096))
		return -1;
	worker->flags = (uint8_t *) worker->port.memory + areas;
	worker->port.links = worker->links;
	worker->port.num_links = worker->num_links;
	if (pthread_create(&worker->thread, NULL, work, worker))
		return bench_fail("no thread");
	worker->started = true;
	return 0;
}

/* take_client -- by the worker that has the fewest */
static void take_client(struct server *server, const struct cm_event *event)
{
	static unsigned int turn;
	struct worker *worker = &server->workers[turn++ % server->settings->threads];
	bool found = false;

	pthread_mutex_lock(&server->lock);
	if (!worker->started && start_worker(worker, event->entry.info))
		port_close(&worker->port);
	for (unsigned int i = 0; worker->started && !found && i < worker->num_links; i++) {
		if (worker->states[i] != SLOT_FREE)
			continue;
		found = true;
		if (!open_link(worker, i, event))
			__atomic_store_n(&worker->states[i], SLOT_OPEN, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&server->lock);
	if (!found)
		node_reject(&server->net.node, event->entry.info, NULL);
	else
		fi_freeinfo(event->entry.info);
}

static void lose_client(struct server *server, const struct fid *fid)
{
	pthread_mutex_lock(&server->lock);
	for (unsigned int w = 0; w < server->settings->threads; w++) {
		struct worker *worker = &server->workers[w];

		for (unsigned int i = 0; i < worker->num_links; i++) {
			struct link *link = &worker->links[i];

			if (worker->states[i] == SLOT_OPEN && &link->conn.ep->fid == fid)
				__atomic_store_n(&link->gone, true, __ATOMIC_RELAXED);
		}
	}
	pthread_mutex_unlock(&server->lock);
}

/* ---- its life ---- */

static int open_worker(struct server *server, struct worker *worker)
{
	const struct settings *settings = server->settings;

	worker->server = server;
	/* Twice as many as there are clients: some come back before they are missed. */
	worker->num_links = 2 * ((settings->clients + settings->threads - 1) / settings->threads);
	worker->links = calloc(worker->num_links, sizeof(*worker->links));
	worker->states = calloc(worker->num_links, sizeof(*worker->states));
	return worker->links && worker->states ? 0 : bench_fail("no memory");
}

static void close_worker(struct worker *worker)
{
	if (worker->started)
		pthread_join(worker->thread, NULL);
	for (unsigned int i = 0; worker->states && i < worker->num_links; i++) {
		if (worker->states[i] != SLOT_FREE)
			link_close(&worker->links[i]);
	}
	port_close(&worker->port);
	free(worker->links);
	free(worker->states);
}

static void tell_clients(const struct server *server)
{
	bench_end_on_signal(NULL);
	printf("fi_pmem_rpc_bench: waiting on port %s\n", server->settings->port);
	fflush(stdout);
}

static int open_server(struct server *server)
{
	int ret = journal_open(&server->journal, server->settings);

	server->workers = calloc(server->settings->threads, sizeof(*server->workers));
	if (!ret && !server->workers)
		ret = bench_fail("no memory");
	if (!ret)
		ret = net_open(&server->net, server->settings);
	for (unsigned int i = 0; !ret && i < server->settings->threads; i++)
		ret = open_worker(server, &server->workers[i]);
	if (!ret)
		tell_clients(server);
	return ret;
}

static void close_server(struct server *server)
{
	uint64_t executed = 0;

	__atomic_store_n(&server->stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; server->workers && i < server->settings->threads; i++) {
		executed += server->workers[i].executed;
		close_worker(&server->workers[i]);
	}
	net_close(&server->net);
	journal_close(&server->journal);
	free(server->workers);
	printf("fi_pmem_rpc_bench: %llu calls executed\n", (unsigned long long) executed);
}

int serve_design(const struct settings *settings)
{
	struct server server = {.settings = settings, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct cm_event event;
	int ret = open_server(&server);

	while (!ret && !bench_ended()) {
		if (node_event(&server.net.node, &event, 100) != 1)
			continue;
		if (event.event == FI_CONNREQ)
			take_client(&server, &event);
		else if (event.event == FI_SHUTDOWN)
			lose_client(&server, event.entry.fid);
	}
	close_server(&server);
	return ret;
}
