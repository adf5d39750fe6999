/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * workload_pagerank.c -- PageRank, whose ranks are in the server's objects
 *
 * An object has the ranks of as many nodes as fit.  In each step a client reads all of them,
 * computes those of its objects, and writes them; then all wait for each other.  The
 * results have to be those of the same steps without a server, to the last bit.
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "handler.h"
#include "load.h"

#define STEPS 10

/* What all clients have in common. */
static struct graph graph;
static double *expected;
static unsigned int users;

struct pagerank {
	double *ranks, *next;
	uint64_t at; /* object that is called next */
};

static enum graph_kind kind_of(const struct settings *settings)
{
	return (enum graph_kind)(settings->workload - workload_pagerank);
}

static size_t per_object(const struct settings *settings)
{
	return settings->size / sizeof(double);
}

static uint64_t items(const struct settings *settings)
{
	size_t each = per_object(settings);

	return (graph_nodes(kind_of(settings)) + each - 1) / each;
}

static void sizes(struct settings *settings)
{
	settings->objects = items(settings);
	workload_objects.sizes(settings);
}

/* make_graph -- and the ranks that there have to be at the end */
static int make_graph(const struct settings *settings, size_t room)
{
	double *other = calloc(room, sizeof(*other));

	expected = calloc(room, sizeof(*expected));
	if (!other || !expected || graph_make(&graph, kind_of(settings), settings->seed)) {
		free(other);
		return -1;
	}
	for (uint32_t node = 0; node < graph.nodes; node++)
		expected[node] = 1.0 / graph.nodes;
	for (int step = 0; step < STEPS; step++) {
		double *result = other;

		graph_step(&graph, expected, graph_lost(&graph, expected), result, 0, graph.nodes);
		other = expected;
		expected = result;
	}
	free(other);
	return 0;
}

static int open_client(struct client *client)
{
	size_t room = items(client->settings) * per_object(client->settings);
	struct pagerank *pagerank = calloc(1, sizeof(*pagerank));

	client->state = pagerank;
	if (!pagerank || (!users++ && make_graph(client->settings, room)))
		return bench_fail("no memory");
	pagerank->ranks = calloc(room, sizeof(*pagerank->ranks));
	pagerank->next = calloc(room, sizeof(*pagerank->next));
	return pagerank->ranks && pagerank->next ? 0 : bench_fail("no memory");
}

static void close_client(struct client *client)
{
	struct pagerank *pagerank = client->state;

	free(pagerank->ranks);
	free(pagerank->next);
	free(pagerank);
	if (--users)
		return;
	graph_free(&graph);
	free(expected);
}

static bool read_next(struct client *client, struct call *call)
{
	struct pagerank *pagerank = client->state;

	if (pagerank->at == items(client->settings))
		return false;
	memcpy(client->argument, &pagerank->at, sizeof(pagerank->at));
	call->op = OP_READ;
	call->argument_len = sizeof(pagerank->at);
	call->index = pagerank->at++;
	call->kind = KIND_READ;
	return true;
}

/* write_next -- objects are dealt out to clients */
static bool write_next(struct client *client, struct call *call)
{
	const struct settings *settings = client->settings;
	struct pagerank *pagerank = client->state;

	if (pagerank->at >= items(settings))
		return false;
	memcpy(client->argument, &pagerank->at, sizeof(pagerank->at));
	memcpy(client->argument + sizeof(pagerank->at),
	       pagerank->next + pagerank->at * per_object(settings), settings->size);
	call->op = OP_WRITE;
	call->argument_len = sizeof(pagerank->at) + settings->size;
	call->index = pagerank->at;
	call->kind = KIND_WRITE;
	pagerank->at += settings->clients;
	return true;
}

static void done(struct client *client, struct call *call)
{
	struct pagerank *pagerank = client->state;
	size_t each = per_object(client->settings);

	if (call->op == OP_READ)
		memcpy(pagerank->ranks + call->index * each, call->reply,
		       each * sizeof(*pagerank->ranks));
}

/* call_all -- and until all clients have */
static void call_all(struct client *client, next_call next, uint64_t from)
{
	struct pagerank *pagerank = client->state;

	pagerank->at = from;
	client_run(client, next);
	client_meet(client);
}

static void compute(struct client *client)
{
	const struct settings *settings = client->settings;
	struct pagerank *pagerank = client->state;
	double lost = graph_lost(&graph, pagerank->ranks);
	size_t each = per_object(settings);

	for (uint64_t item = client->id; item < items(settings); item += settings->clients) {
		size_t end = (item + 1) * each;

		graph_step(&graph, pagerank->ranks, lost, pagerank->next, (uint32_t) (item * each),
			   (uint32_t) (end < graph.nodes ? end : graph.nodes));
	}
}

static void run(struct client *client)
{
	struct pagerank *pagerank = client->state;

	for (uint32_t node = 0; node < graph.nodes; node++)
		pagerank->next[node] = 1.0 / graph.nodes;
	call_all(client, write_next, client->id);
	for (int step = 0; step < STEPS; step++) {
		call_all(client, read_next, 0);
		compute(client);
		call_all(client, write_next, client->id);
	}
	/* What check will compare. */
	pagerank->at = 0;
}

/* check -- all is read again; and when it is, it is compared */
static bool check(struct client *client, struct call *call)
{
	const struct pagerank *pagerank = client->state;

	if (read_next(client, call))
		return true;
	if (client->num_free == client->caller->capacity &&
	    memcmp(pagerank->ranks, expected, graph.nodes * sizeof(*expected))) {
		bench_fail("the ranks are not those that there have to be");
		bench_end();
	}
	return false;
}

#define PAGERANK(graph)                                                                            \
	{                                                                                          \
		.name = "pagerank-" graph, .sizes = sizes, .items = items, .open = open_client,    \
		.close = close_client, .run = run, .done = done, .check = check                    \
	}

const struct workload workload_pagerank[3] = {PAGERANK("uniform"), PAGERANK("attached"),
					      PAGERANK("rmat")};
