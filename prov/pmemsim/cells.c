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

/* is_stored -- may a request take data along? */
static bool is_stored(const struct cell *cell)
{
	return !cell->relaxed &&
	       (cell->domain == PMV_PAGE || (cell->domain == PMV_DMP && cell->ddio));
}

/*
 * is_placed -- software places the data in the caches, and says so.  Where DDIO is taken to be off
 * that must prove nothing.  WSP is treated as MHP there, and needs less.
 */
static bool is_placed(const struct cell *cell)
{
	return !cell->relaxed && cell->local && cell->domain != PMV_PAGE &&
	       cell->domain != PMV_WSP && cell->ddio != (cell->domain == PMV_DMP);
}

bool cell_next(size_t n, struct cell *cell)
{
	for (size_t i = 0; i < NUM_TARGETS * 2 * NUM_CALLS * NUM_ORDERS; i++) {
		size_t target = i / (2 * NUM_CALLS * NUM_ORDERS);

		*cell = (struct cell){
			.domain = targets[target].domain,
			.ddio = targets[target].ddio,
			.relaxed = targets[target].relaxed,
			.local = i / (NUM_CALLS * NUM_ORDERS) % 2,
			.call = (enum cell_call)(i / NUM_ORDERS % NUM_CALLS),
			.order = (enum cell_order)(i % NUM_ORDERS),
		};
		/* Messages can't be committed there. */
		if (cell->relaxed && cell->call >= CALL_SEND_PM)
			continue;
		if (cell->call == CALL_WRITE_STORED && !is_stored(cell))
			continue;
		if (cell_delivers(cell) && !is_placed(cell))
			continue;
		/* Elsewhere it is not used. */
		if (cell_flushes(cell) &&
		    (cell->domain != PMV_DMP || !cell->ddio || cell->relaxed || cell->local))
			continue;
		/* Fenced commits without ATOMIC WRITE wait for each other's FLUSH. */
		if (cell->call == CALL_WRITE_FLUSH_LOST && cell->order == ORDER_PAIR)
			continue;
		/* Without a fence there is none. */
		if (cell_has_tail(cell) && cell->order == ORDER_NONE)
			continue;
		/* Visible is the same everywhere: once with DDIO, and once without. */
		if (cell->call == CALL_WRITE_DELIVER &&
		    (cell->relaxed || cell->domain != (cell->ddio ? PMV_NONE : PMV_MHP)))
			continue;
		/* The other completions come from the agent: those of a write are nobody's. */
		if (cell->call == CALL_WRITE_EVENT && cell->local && cell->domain != PMV_WSP)
			continue;
		if (!n--)
			return true;
	}
	return false;
}

void cell_name(const struct cell *cell, char *buf, size_t len)
{
	static const char *const domains[] = {
		[PMV_NONE] = "NONE", [PMV_PAGE] = "PAGE", [PMV_DMP] = "DMP",
		[PMV_MHP] = "MHP",   [PMV_WSP] = "WSP",
	};

	static const char *const calls[] = {
		[CALL_WRITE] = "Write",
		[CALL_WRITE_IMM] = "WriteImm",
		[CALL_WRITE_STORED] = "stored",
		[CALL_WRITE_EVENT] = "event",
		[CALL_WRITE_PLACED] = "placed",
		[CALL_WRITE_PLACED_IMM] = "placed, Imm",
		[CALL_WRITE_DELIVER] = "deliver",
		[CALL_WRITE_FLUSH] = "FLUSH",
		[CALL_WRITE_TAIL] = "ATOMIC WRITE",
		[CALL_WRITE_FLUSH_LOST] = "FLUSH, lost",
		[CALL_WRITE_TAIL_LOST] = "A. W., lost",
		[CALL_WRITE_ALL] = "all",
		[CALL_SEND_PM] = "Send to PM",
		[CALL_SEND_DRAM] = "Send to DRAM",
		[CALL_SEND_ONLY] = "Send, all PM",
	};

	snprintf(buf, len, "%-4s %-8s %-7s %-10s %-12s %s", domains[cell->domain],
		 cell->ddio ? "DDIO on" : "DDIO off", cell->relaxed ? "relaxed" : "strict",
		 cell->local ? "iWARP" : "InfiniBand", calls[cell->call],
		 cell->order == ORDER_NONE ? "single" : "pair");
}

/* Offsets are lines here: 0, 1 and 2, and what is behind them in a line. */
#define LINE(n) ((n) *HW_LINE)

enum { PLAIN, COMMIT, FENCED };

#define OP(kind, region, offset, len, how)                                                         \
	{                                                                                          \
		WORLD_##kind, 0, region, offset, len, (how) >= COMMIT, (how) == FENCED, false,     \
			false                                                                      \
	}

static const struct cell_program singles[] = {
	{"one", 1, {OP(WRITE, 0, LINE(0), 8, COMMIT)}, 1, 64, false},
	{"one over two lines", 1, {OP(WRITE, 0, LINE(0) + 56, 16, COMMIT)}, 1, 64, false},
	{"one that is torn", 1, {OP(WRITE, 0, LINE(0) + 48, 32, COMMIT)}, 1, 8, false},
	{"one covers another",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, COMMIT)},
	 1,
	 64,
	 false},
	{"one covers two",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, PLAIN),
	  OP(WRITE, 0, LINE(2), 8, COMMIT)},
	 1,
	 64,
	 false},
	{"three in a line",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(0) + 8, 8, COMMIT),
	  OP(WRITE, 0, LINE(0) + 16, 8, COMMIT)},
	 1,
	 64,
	 false},
	{"two at one place",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(0), 8, COMMIT)},
	 1,
	 64,
	 true},
	{"two commits",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(1), 8, COMMIT)},
	 1,
	 64,
	 false},
	{"atomic",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(ATOMIC, 0, LINE(1), 8, COMMIT)},
	 1,
	 64,
	 false},
	{"write behind an atomic",
	 2,
	 {OP(ATOMIC, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, COMMIT)},
	 1,
	 64,
	 false},
	{"commit and a write",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(0), 8, PLAIN)},
	 1,
	 64,
	 true},
	{"no data",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(0), 0, COMMIT)},
	 1,
	 64,
	 false},
};

static const struct cell_program pairs[] = {
	{"write, fenced commit",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, FENCED)},
	 1,
	 64,
	 false},
	{"in one line",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(0) + 8, 8, FENCED)},
	 1,
	 64,
	 false},
	{"two commits",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(1), 8, FENCED)},
	 1,
	 64,
	 false},
	{"two commits, the later one of 16 bytes",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(1), 16, FENCED)},
	 1,
	 64,
	 false},
	{"two writes, fenced commit",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, PLAIN),
	  OP(WRITE, 0, LINE(2), 8, FENCED)},
	 1,
	 64,
	 false},
	{"two writes, fenced commit beside the first",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, PLAIN),
	  OP(WRITE, 0, LINE(0) + 8, 8, FENCED)},
	 1,
	 64,
	 false},
	{"chain",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, FENCED),
	  OP(WRITE, 0, LINE(2), 8, FENCED)},
	 1,
	 64,
	 false},
	{"two tails",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, FENCED),
	  OP(WRITE, 0, LINE(1), 8, FENCED)},
	 1,
	 64,
	 false},
	{"write behind a fence",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, FENCED),
	  OP(WRITE, 0, LINE(1), 8, COMMIT)},
	 1,
	 64,
	 true},
	{"two regions",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(WRITE, 1, LINE(0), 8, PLAIN),
	  OP(WRITE, 0, LINE(1), 8, FENCED)},
	 2,
	 64,
	 false},
	{"fenced atomic",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(ATOMIC, 0, LINE(1), 8, FENCED)},
	 1,
	 64,
	 false},
	{"behind an atomic",
	 2,
	 {OP(ATOMIC, 0, LINE(0), 8, PLAIN), OP(WRITE, 0, LINE(1), 8, FENCED)},
	 1,
	 64,
	 false},
	{"torn",
	 2,
	 {OP(WRITE, 0, LINE(0) + 56, 16, PLAIN), OP(WRITE, 0, LINE(2), 16, FENCED)},
	 1,
	 8,
	 false},
};

static const struct cell_program sent_singles[] = {
	{"one", 1, {OP(SEND, 0, LINE(0), 8, COMMIT)}, 1, 64, false},
	{"one over two lines", 1, {OP(SEND, 0, LINE(0) + 56, 16, COMMIT)}, 1, 64, false},
	{"one that is torn", 1, {OP(SEND, 0, LINE(0) + 48, 32, COMMIT)}, 1, 8, false},
	{"one covers another",
	 2,
	 {OP(SEND, 0, LINE(0), 8, PLAIN), OP(SEND, 0, LINE(1), 8, COMMIT)},
	 1,
	 64,
	 false},
	{"one covers two",
	 3,
	 {OP(SEND, 0, LINE(0), 8, PLAIN), OP(SEND, 0, LINE(1), 8, PLAIN),
	  OP(SEND, 0, LINE(2), 8, COMMIT)},
	 1,
	 64,
	 false},
	{"two commits",
	 2,
	 {OP(SEND, 0, LINE(0), 8, COMMIT), OP(SEND, 0, LINE(1), 8, COMMIT)},
	 1,
	 64,
	 false},
	{"message and write",
	 2,
	 {OP(SEND, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(1), 8, COMMIT)},
	 1,
	 64,
	 false},
};

static const struct cell_program sent_pairs[] = {
	{"message, fenced message",
	 2,
	 {OP(SEND, 0, LINE(0), 8, PLAIN), OP(SEND, 0, LINE(1), 8, FENCED)},
	 1,
	 64,
	 false},
	{"two commits",
	 2,
	 {OP(SEND, 0, LINE(0), 8, COMMIT), OP(SEND, 0, LINE(1), 8, FENCED)},
	 1,
	 64,
	 false},
	{"write, fenced message",
	 2,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(SEND, 0, LINE(1), 8, FENCED)},
	 1,
	 64,
	 false},
	{"message, fenced write",
	 2,
	 {OP(SEND, 0, LINE(0), 8, COMMIT), OP(WRITE, 0, LINE(1), 8, FENCED)},
	 1,
	 64,
	 false},
	{"write, message, fenced message",
	 3,
	 {OP(WRITE, 0, LINE(0), 8, PLAIN), OP(SEND, 0, LINE(1), 8, PLAIN),
	  OP(SEND, 0, LINE(2), 8, FENCED)},
	 1,
	 64,
	 false},
	{"chain",
	 3,
	 {OP(SEND, 0, LINE(0), 8, PLAIN), OP(SEND, 0, LINE(1), 8, FENCED),
	  OP(SEND, 0, LINE(2), 8, FENCED)},
	 1,
	 64,
	 false},
};

/* notify -- of every commit */
static void notify(struct cell_program *program)
{
	for (unsigned int i = 0; i < program->num_ops; i++)
		program->ops[i].notice = program->ops[i].commit;
}

/* deliver -- instead of commits */
static void deliver(struct cell_program *program)
{
	for (unsigned int i = 0; i < program->num_ops; i++) {
		program->ops[i].deliver = program->ops[i].commit;
		program->ops[i].commit = false;
	}
}

/* make_plain -- all that is not fenced */
static void make_plain(struct cell_program *program)
{
	for (unsigned int i = 0; i < program->num_ops; i++)
		program->ops[i].commit = program->ops[i].fence;
}

static void receive_in_dram(struct cell_program *program)
{
	for (unsigned int i = 0; i < program->num_ops; i++) {
		if (program->ops[i].kind == WORLD_SEND)
			program->ops[i].region = WORLD_DRAM;
	}
}

/* spread -- lines 1 and 2 of a file are in another page than line 0 */
static void spread(struct cell_program *program)
{
	for (unsigned int i = 0; i < program->num_ops; i++) {
		if (program->ops[i].offset + program->ops[i].len > HW_LINE)
			program->ops[i].offset += HW_PAGE - HW_LINE;
	}
}

#define TABLE(programs) programs, sizeof(programs) / sizeof((programs)[0])

/* is_large -- it has too many orders if each write has a request to the agent behind it */
static bool is_large(const struct cell_program *program)
{
	return program->num_ops > 2 || (program->num_ops == 2 && program->granule < HW_LINE);
}

/*
 * is_endless -- an atomic takes a slot, and the provider counts how often a commit behind it is
 * refused: there are as many states as tries
 */
static bool is_endless(const struct cell *cell, const struct cell_program *program)
{
	return cell_loses(cell) && program->ops[0].kind == WORLD_ATOMIC;
}

bool cell_program(const struct cell *cell, size_t n, struct cell_program *program)
{
	static const struct {
		const struct cell_program *programs;
		size_t count;
	} tables[2][NUM_ORDERS] = {
		{{TABLE(singles)}, {TABLE(pairs)}},
		{{TABLE(sent_singles)}, {TABLE(sent_pairs)}},
	};
	bool sends = cell->call >= CALL_SEND_PM;
	size_t i = 0;

	do {
		if (i == tables[sends][cell->order].count)
			return false;
		*program = tables[sends][cell->order].programs[i++];
		n += (cell->relaxed && program->overlaps) ||
		     (cell->call == CALL_WRITE_EVENT && is_large(program)) ||
		     is_endless(cell, program);
	} while (n--);
	if (cell->call == CALL_WRITE_IMM || cell->call == CALL_WRITE_PLACED_IMM)
		notify(program);
	if (cell->call == CALL_WRITE_DELIVER)
		deliver(program);
	if (cell->call == CALL_WRITE_ALL)
		make_plain(program);
	if (cell->call == CALL_SEND_DRAM)
		receive_in_dram(program);
	if (cell->domain == PMV_PAGE)
		spread(program);
	return true;
}

/* The longest list: FLUSH, ATOMIC WRITE, FLUSH. */
#define TAIL_SLOTS 3

struct world_config cell_config(const struct cell *cell, const struct cell_program *program)
{
	struct world_config config = {
		.rules =
			{
				.ddio = cell->ddio,
				.buffered = true,
				.relaxed = cell->relaxed,
				.slots = cell->call == CALL_WRITE_FLUSH_LOST  ? 1
					 : cell->call == CALL_WRITE_TAIL_LOST ? TAIL_SLOTS
									      : 0,
				.local = cell->local,
				.granule = program->granule,
			},
		.domain = cell->domain,
		.commit_all = cell->call == CALL_WRITE_ALL,
		.stores = cell->call == CALL_WRITE_STORED,
		.delivers = cell_delivers(cell),
		.flushes = cell_flushes(cell),
		.atomic_writes = cell_has_tail(cell),
		.events = cell->call == CALL_WRITE_EVENT,
		.one_kind = cell->call == CALL_SEND_ONLY,
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
