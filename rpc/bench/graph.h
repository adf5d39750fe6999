/* SPDX-License-Identifier: BSD-2-Clause */
/* graph.h -- graphs that are generated, and one step of PageRank on them */
#ifndef BENCH_GRAPH_H
#define BENCH_GRAPH_H

#include <stddef.h>
#include <stdint.h>

/* As large as the three graphs of the paper, as far as the generator allows. */
enum graph_kind {
	GRAPH_UNIFORM,  /* 10,000 nodes, 72,000 edges: both ends by chance */
	GRAPH_ATTACHED, /* 69,000 nodes, 276,000 edges: preferential attachment, 4 edges each */
	GRAPH_RMAT,     /* 262,144 nodes, 1,615,000 edges: R-MAT, 57, 19, 19 and 5 percent */
};

struct graph {
	uint32_t nodes;
	uint32_t edges;
	uint32_t *first;   /* of each node and one more: its edges in from */
	uint32_t *from;    /* where they come from */
	uint32_t *degrees; /* edges that leave a node */
};

uint32_t graph_nodes(enum graph_kind kind);

int graph_make(struct graph *graph, enum graph_kind kind, unsigned int seed);
void graph_free(struct graph *graph);

/* graph_lost -- the ranks of nodes that no edge leaves: everybody gets a part of them */
double graph_lost(const struct graph *graph, const double *ranks);

/* graph_step -- the next ranks of the nodes from begin on, before end */
void graph_step(const struct graph *graph, const double *ranks, double lost, double *next,
		uint32_t begin, uint32_t end);

#endif /* BENCH_GRAPH_H */
