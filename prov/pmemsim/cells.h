/* SPDX-License-Identifier: BSD-2-Clause */
/* cells.h -- the taxonomy, cell by cell, and the programs that are run in each */
#ifndef PMEMSIM_CELLS_H
#define PMEMSIM_CELLS_H

#include "world.h"

enum cell_call {
	CALL_WRITE,
	CALL_WRITE_IMM,        /* the target hears of what is durable */
	CALL_WRITE_STORED,     /* the agent stores what is small; else it never does */
	CALL_WRITE_EVENT,      /* the target hears of all writes (FI_RMA_EVENT) */
	CALL_WRITE_PLACED,     /* the core says when data are in place, as tcp does */
	CALL_WRITE_PLACED_IMM, /* and the target hears of what is durable */
	CALL_WRITE_DELIVER,    /* with FI_DELIVERY_COMPLETE instead of FI_COMMIT */
	CALL_WRITE_FLUSH,      /* the core has RDMA FLUSH ... */
	CALL_WRITE_TAIL,       /* ... and ATOMIC WRITE */
	CALL_WRITE_FLUSH_LOST, /* the same two, with answers that get lost, and few slots ... */
	CALL_WRITE_TAIL_LOST,  /* ... for what is answered again */
	CALL_WRITE_ALL,        /* plain writes, with FI_PMEMVERBS_COMMIT=all */
	CALL_SEND_PM,          /* messages, received in persistent memory ... */
	CALL_SEND_DRAM,        /* ... or in volatile memory ... */
	CALL_SEND_ONLY,        /* ... or always in persistent memory, which the initiator knows */
	NUM_CALLS,
};

enum cell_order {
	ORDER_NONE, /* single updates */
	ORDER_PAIR, /* the later one is fenced */
	NUM_ORDERS,
};

struct cell {
	enum pmv_persist domain;
	bool ddio;
	bool relaxed;
	bool local; /* a write completes when it was handed over: iWARP */
	enum cell_call call;
	enum cell_order order;
};

/* A program: up to three updates of up to three cache lines. */
struct cell_program {
	const char *name;
	unsigned int num_ops;
	struct world_op ops[3];
	unsigned int num_regions;
	unsigned int granule;
	bool overlaps; /* it writes a place twice without a fence: a relaxed path has no order there
			*/
};

/* cell_delivers -- the core says when data are in place */
static inline bool cell_delivers(const struct cell *cell)
{
	return cell->call == CALL_WRITE_PLACED || cell->call == CALL_WRITE_PLACED_IMM;
}

/* cell_flushes -- the core has RDMA FLUSH; cell_has_tail: and ATOMIC WRITE */
static inline bool cell_flushes(const struct cell *cell)
{
	return cell->call >= CALL_WRITE_FLUSH && cell->call <= CALL_WRITE_TAIL_LOST;
}

static inline bool cell_has_tail(const struct cell *cell)
{
	return cell->call == CALL_WRITE_TAIL || cell->call == CALL_WRITE_TAIL_LOST;
}

/* cell_loses -- answers of RDMA FLUSHes and ATOMIC WRITEs */
static inline bool cell_loses(const struct cell *cell)
{
	return cell->call == CALL_WRITE_FLUSH_LOST || cell->call == CALL_WRITE_TAIL_LOST;
}

/* cell_next -- the n-th cell; false: there are no more */
bool cell_next(size_t n, struct cell *cell);

/* cell_name -- "DMP, DDIO on, InfiniBand, Write, pair" */
void cell_name(const struct cell *cell, char *buf, size_t len);

/* cell_program -- the n-th program of a cell; false: there are no more */
bool cell_program(const struct cell *cell, size_t n, struct cell_program *program);

/* cell_config -- the world of a program in a cell; it refers to the program */
struct world_config cell_config(const struct cell *cell, const struct cell_program *program);

#endif /* PMEMSIM_CELLS_H */
