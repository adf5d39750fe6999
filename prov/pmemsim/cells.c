/* SPDX-License-Identifier: BSD-2-Clause */
/* cells.c -- the taxonomy, cell by cell; cells.h says what is here */
#include <stdio.h>
#include <string.h>

#include "cells.h"

/* Everything that makes a difference; WSP on iWARP is treated as MHP. */
static const struct {
	enum pmv_persist domain;
	bool ddio;
	bool relaxed;
} targets[] = {
	{PMV_DMP, true, false},  {PMV_DMP, false, false}, {PMV_MHP, true, false},
	{PMV_MHP, false, false}, {PMV_WSP, true, false},  {PMV_WSP, false, false},
	{PMV_PAGE, true, false}, {PMV_NONE, true, false}, {PMV_DMP, true, true},
	{PMV_DMP, false, true},  {PMV_MHP, true, true},   {PMV_WSP, true, true},
	{PMV_PAGE, true, true},  {PMV_NONE, true, true},
};

#define NUM_TARGETS (sizeof(targets) / sizeof(targets[0]))

bool cell_next(size_t n, struct cell *cell)
{
	size_t target = n / (2 * NUM_CALLS * NUM_ORDERS);

	if (target >= NUM_TARGETS)
		return false;
	*cell = (struct cell){
		.domain = targets[target].domain,
		.ddio = targets[target].ddio,
		.relaxed = targets[target].relaxed,
		.local = n / (NUM_CALLS * NUM_ORDERS) % 2,
		.call = (enum cell_call)(n / NUM_ORDERS % NUM_CALLS),
		.order = (enum cell_order)(n % NUM_ORDERS),
	};
	return true;
}

void cell_name(const struct cell *cell, char *buf, size_t len)
{
	static const char *const domains[] = {
		[PMV_NONE] = "NONE", [PMV_PAGE] = "PAGE", [PMV_DMP] = "DMP",
		[PMV_MHP] = "MHP",   [PMV_WSP] = "WSP",
	};

	snprintf(buf, len, "%-4s %-8s %-8s %-10s %-8s %s", domains[cell->domain],
		 cell->ddio ? "DDIO on" : "DDIO off", cell->relaxed ? "relaxed" : "strict",
		 cell->local ? "iWARP" : "InfiniBand",
		 cell->call == CALL_WRITE ? "Write" : "WriteImm",
		 cell->order == ORDER_NONE ? "single" : "pair");
}

/* Offsets are lines here: 0, 1 and 2, and what is behind them in a line. */
#define LINE(n) ((n) *HW_LINE)

enum { PLAIN, COMMIT, FENCED };

#define OP(kind, region, offset, len, how)                                                         \
	{                                                                                          \
		WORLD_##kind, 0, region, offset, len, (how) >= COMMIT, (how) == FENCED, false      \
	}

static const struct cell_program singles[] = {
	{"one", 1, {OP(WRITE, 0, LINE(0), 8, COMMIT)}, 1, 64},
	{"one over two lines", 1, {OP(WRITE, 0, LINE(0) + 56, 16, COMMIT)}, 1, 64},
	{"one that is torn", 1, {OP(WRITE, 0, LINE(0) + 48, 32, COMMIT)}, 1, 8},
	{"one covers another",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, COMMIT)},
	 1,
	 64},
	{"one covers two",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, PLAIN),
	  OP(WRITE, 0, LINE(2), 8, COMMIT)},
	 1,
	 64},
	{"three in a line",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(0) + 8, 8, COMMIT),
	  OP(WRITE, 0, LINE(0) + 16, 8, COMMIT)},
	 1,
	 64},
	{"two at one place",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(0), 8, COMMIT)},
	 1,
	 64},
	{"two commits",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(1), 8, COMMIT)},
	 1,
	 64},
	{"atomic", 2, {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(ATOMIC, 0, LINE(1), 8, COMMIT)}, 1, 64},
	{"write behind an atomic",
	 2,
	 {OP(ATOMIC, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, COMMIT)},
	 1,
	 64},
	{"commit and a write",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(0), 8, PLAIN)},
	 1,
	 64},
	{"no data", 2, {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(0), 0, COMMIT)}, 1, 64},
};

static const struct cell_program pairs[] = {
	{"write, fenced commit",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, FENCED)},
	 1,
	 64},
	{"in one line",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(0) + 8, 8, FENCED)},
	 1,
	 64},
	{"two commits",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(1), 8, FENCED)},
	 1,
	 64},
	{"two writes, fenced commit",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, PLAIN),
	  OP(WRITE, 0, LINE(2), 8, FENCED)},
	 1,
	 64},
	{"two writes, fenced commit beside the first",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, PLAIN),
	  OP(WRITE, 0, LINE(0) + 8, 8, FENCED)},
	 1,
	 64},
	{"chain",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, FENCED),
	  OP(WRITE, 0, LINE(2), 8, FENCED)},
	 1,
	 64},
	{"write behind a fence",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, FENCED),
	  OP(WRITE, 0, LINE(1), 8, COMMIT)},
	 1,
	 64},
	{"two regions",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 1, LINE(0), 8, PLAIN),
	  OP(WRITE, 0, LINE(1), 8, FENCED)},
	 2,
	 64},
	{"fenced atomic",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(ATOMIC, 0, LINE(1), 8, FENCED)},
	 1,
	 64},
	{"behind an atomic",
	 2,
	 {OP(ATOMIC, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, FENCED)},
	 1,
	 64},
	{"torn",
	 2,
	 {OP(WRITE, 0, LINE(0) + 56, 16, PLAIN), OP(WRITE, 0, LINE(2), 16, FENCED)},
	 1,
	 8},
};

/* notify -- of every commit but atomics, which carry no immediate; false: there is none */
static bool notify(struct cell_program *program)
{
	bool any = false;

	for (unsigned int i = 0; i < program->num_ops; i++) {
		struct world_op *op = &program->ops[i];

		op->notice = op->commit;
		any |= op->notice;
	}
	return any;
}

/* spread -- lines 1 and 2 of a file are in another page than line 0 */
static void spread(struct cell_program *program)
{
	for (unsigned int i = 0; i < program->num_ops; i++) {
		if (program->ops[i].offset >= HW_LINE)
			program->ops[i].offset += HW_PAGE - HW_LINE;
		else if (program->ops[i].offset + program->ops[i].len > HW_LINE)
			program->ops[i].offset += HW_PAGE - HW_LINE;
	}
}

bool cell_program(const struct cell *cell, size_t n, struct cell_program *program)
{
	size_t count = cell->order == ORDER_NONE ? sizeof(singles) / sizeof(singles[0])
						 : sizeof(pairs) / sizeof(pairs[0]);

	if (n >= count)
		return false;
	*program = cell->order == ORDER_NONE ? singles[n] : pairs[n];
	if (cell->call == CALL_WRITE_IMM)
		notify(program);
	if (cell->domain == PMV_PAGE)
		spread(program);
	return true;
}

struct world_config cell_config(const struct cell *cell, const struct cell_program *program)
{
	struct world_config config = {
		.rules =
			{
				.ddio = cell->ddio,
				.buffered = true,
				.relaxed = cell->relaxed,
				.local = cell->local,
				.granule = program->granule,
			},
		.domain = cell->domain,
		.dies_from = WORLD_NEVER_DIES,
		.reduced = true,
		.room = 16,
		.num_eps = 1,
		.num_regions = program->num_regions,
		.region_size = cell->domain == PMV_PAGE ? 2 * HW_PAGE : 3 * HW_LINE,
		.num_ops = program->num_ops,
		.ops = program->ops,
	};

	world_believe(&config);
	return config;
}
