/* SPDX-License-Identifier: BSD-2-Clause */
/* graph.c -- graphs that are generated, and one step of PageRank on them */
#include "graph.h"

#include <stdlib.h>

#include "../../fabtests/common/random.h"

#define DAMPING 0.85
#define ATTACHED 4U

static const struct {
	uint32_t nodes, edges;
} sizes[] = {
	[GRAPH_UNIFORM] = {10000, 72000},
	[GRAPH_ATTACHED] = {69000, 276000},
	[GRAPH_RMAT] = {1U << 18, 1615000},
};

struct edge {
	uint32_t from, to;
};

uint32_t graph_nodes(enum graph_kind kind)
{
	return sizes[kind].nodes;
}

static struct edge uniform(const struct graph *graph, struct random *random)
{
	return (struct edge){(uint32_t) random_below(random, graph->nodes),
			     (uint32_t) random_below(random, graph->nodes)};
}

/* attached -- edge number i: who has many edges gets more */
static struct edge attached(const struct edge *edges, uint32_t i, struct random *random)
{
	struct edge edge = {.from = i / ATTACHED};
	const struct edge *other;

	if (!i)
		return edge;
	other = &edges[random_below(random, i)];
	edge.to = random_below(random, 2) ? other->from : other->to;
	return edge;
}

/* rmat -- one of the adjacency matrix's quarters, and of that one, and so on */
static struct edge rmat(const struct graph *graph, struct random *random)
{
	struct edge edge = {0};

	for (uint32_t bit = graph->nodes / 2; bit; bit /= 2) {
		double at = random_fraction(random);

		if (at >= 0.57 + 0.19)
			edge.from += bit;
		if ((at >= 0.57 && at < 0.57 + 0.19) || at >= 0.95)
			edge.to += bit;
	}
	return edge;
}

static void generate(const struct graph *graph, struct edge *edges, enum graph_kind kind,
		     unsigned int seed)
{
	struct random random;

	random_seed(&random, seed, (unsigned int) kind);
	for (uint32_t i = 0; i < graph->edges; i++) {
		switch (kind) {
		case GRAPH_UNIFORM:
			edges[i] = uniform(graph, &random);
			break;
		case GRAPH_ATTACHED:
			edges[i] = attached(edges, i, &random);
			break;
		case GRAPH_RMAT:
			edges[i] = rmat(graph, &random);
			break;
		}
	}
}

/* sort_edges -- by where they lead to */
static void sort_edges(struct graph *graph, const struct edge *edges, uint32_t *at)
{
	for (uint32_t i = 0; i < graph->edges; i++) {
		graph->first[edges[i].to + 1]++;
		graph->degrees[edges[i].from]++;
	}
	for (uint32_t node = 0; node < graph->nodes; node++) {
		graph->first[node + 1] += graph->first[node];
		at[node] = graph->first[node];
	}
	for (uint32_t i = 0; i < graph->edges; i++)
		graph->from[at[edges[i].to]++] = edges[i].from;
}

int graph_make(struct graph *graph, enum graph_kind kind, unsigned int seed)
{
	uint32_t nodes = sizes[kind].nodes, edges = sizes[kind].edges;
	struct edge *list = calloc(edges, sizeof(*list));
	uint32_t *at = calloc(nodes, sizeof(*at));
	int ret = -1;

	*graph = (struct graph){.nodes = nodes,
				.edges = edges,
				.first = calloc(nodes + 1, sizeof(uint32_t)),
				.from = calloc(edges, sizeof(uint32_t)),
				.degrees = calloc(nodes, sizeof(uint32_t))};
	if (list && at && graph->first && graph->from && graph->degrees) {
		generate(graph, list, kind, seed);
		sort_edges(graph, list, at);
		ret = 0;
	}
	free(list);
	free(at);
	return ret;
}

void graph_free(struct graph *graph)
{
	free(graph->first);
	free(graph->from);
	free(graph->degrees);
}

double graph_lost(const struct graph *graph, const double *ranks)
{
	double lost = 0;

	for (uint32_t node = 0; node < graph->nodes; node++)
		lost += graph->degrees[node] ? 0 : ranks[node];
	return lost;
}

void graph_step(const struct graph *graph, const double *ranks, double lost, double *next,
		uint32_t begin, uint32_t end)
{
	for (uint32_t node = begin; node < end; node++) {
		double sum = lost / graph->nodes;

		for (uint32_t i = graph->first[node]; i < graph->first[node + 1]; i++)
			sum += ranks[graph->from[i]] / graph->degrees[graph->from[i]];
		next[node] = (1 - DAMPING) / graph->nodes + DAMPING * sum;
	}
}
