/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * litmus.c -- litmus tests of the model; litmus.h says what they are
 *
 * Every state that a program can get into is looked at, twice: with all steps, and
 * with those of hw_free_step taken at once, which must come to the same outcomes.
 * What a power failure would leave is part of an outcome like what a load returns.
 *
 * Where the tests come from:
 * [T]    the taxonomy of persistent RDMA updates, sections 2 and 3
 * [R]    Ambal et al., "Semantics of Remote Direct Memory Access: Operational and
 *        Declarative Models of RDMA on TSO Architectures", OOPSLA 2024
 * [RMW]  "Specifying and Verifying RDMA Synchronisation", arXiv 2601.14642
 * [Px86] Raad et al., "Persistency Semantics of the Intel-x86 Architecture", POPL 2020
 * [NT]   Raad et al., "Extending Intel-x86 Consistency and Persistency", POPL 2022
 * [PCI]  PCI Express Base Specification, transaction ordering rules
 * [SDM]  Intel's Software Developer's Manual, CLWB, CLFLUSHOPT, SFENCE, MOVNTI
 * [IB]   InfiniBand Architecture Specification, ordering of work requests and
 *        completions
 * [MSYNC] msync(2), and how the kernel keeps track of dirty pages
 * A test without one follows from the rules in README.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"
#include "litmus.h"

/* Where programs read and write, as offsets. */
enum {
	X = 0,
	X_HALF = 4,  /* in the middle of it */
	X1 = 8,      /* in the same line */
	Y = HW_LINE, /* in the same page */
	Z = HW_PAGE,
	MEMORY_LEN = HW_PAGE + HW_LINE,
};

/* A value of which every half is another value. */
#define WIDE UINT64_C(0x0101010101010101)

enum op_kind {
	/* of the initiator, in order, on either of two connections */
	WRITE = 1,
	READ,
	SWAP,  /* an atomic */
	ADD,   /* another one */
	SEND,  /* its receive is at that place */
	AWAIT, /* it goes on when that operation has completed */
	/* of the target's processor, in order */
	LOAD,
	STORE,
	CLWB,
	SFENCE,
	MOVNT,
	TOUCH,
	MSYNC,
	RECEIVE, /* for a message that is LATE */
	IMAGE,   /* look at what a power failure would leave now */
};

/* How an operation differs from 8 bytes on the first connection. */
enum {
	FENCED = 1 << 0,
	NOTIFIES = 1 << 1,
	SECOND = 1 << 2,    /* on the second connection */
	NO_BYTES = 1 << 3,  /* none at all */
	TWO_UNITS = 1 << 4, /* 16 bytes */
	TWO_LINES = 1 << 5, /* from X to Y, and Y as well */
	LATE = 1 << 6,      /* the receive of a message is not there yet */
};

struct op {
	enum op_kind kind;
	unsigned int at; /* an offset; AWAIT: an operation */
	uint64_t value;
	unsigned int how;
};

enum term_kind {
	HAS_DONE = 1, /* an operation has completed without error, an instruction has retired */
	HAS_FAILED,
	NOT_DONE,
	GOT,     /* it is done and has returned that value */
	NOTICED, /* the target's CQ has the entry of an operation */
	NOT_NOTICED,
	SEEN,   /* a place holds that value */
	TORN,   /* a place holds neither 0 nor that value */
	LEAVES, /* a power failure would leave that value there */
	OVER,   /* nothing is under way any more */
};

struct term {
	enum term_kind kind;
	unsigned int at;
	uint64_t value;
};

#define MAX_OPS 6
#define MAX_OUTCOMES 6
#define MAX_TERMS 4

struct outcome {
	enum { ALLOWED = 1, FORBIDDEN } verdict;
	struct term terms[MAX_TERMS]; /* all of them at once */
};

struct test {
	const char *name;
	struct hw_rules rules;
	enum hw_domain domain;
	bool may_die;
	bool two_nics; /* the target has one for each connection */
	struct op ops[MAX_OPS];
	struct outcome outcomes[MAX_OUTCOMES];
};

/* InfiniBand, DDIO, strict order, lines that are not torn; or one thing that is different. */
#define COMMON .rules = {.ddio = true, .granule = HW_LINE}
#define RELAXED .rules = {.ddio = true, .relaxed = true, .granule = HW_LINE}
#define IWARP .rules = {.ddio = true, .local = true, .granule = HW_LINE}
#define FINE .rules = {.ddio = true, .granule = 8}
#define NO_DDIO .rules = {.granule = HW_LINE}
#define BUFFERED .rules = {.buffered = true, .granule = HW_LINE}
#define NO_DDIO_RELAXED .rules = {.relaxed = true, .granule = HW_LINE}

/* A program and its outcomes are read as columns. */
/* clang-format off */
static const struct test tests[] = {
	/* Order of WRITEs */

	/* [T] 2, [R]: WRITEs of one connection take effect in order; [PCI]: no passing */
	{"WRITE WRITE", COMMON,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1}, {LOAD, Y}, {LOAD, X}},
	 .outcomes = {{ALLOWED, {{GOT, 2, 0}, {GOT, 3, 0}}},
		      {ALLOWED, {{GOT, 2, 0}, {GOT, 3, 1}}},
		      {ALLOWED, {{GOT, 2, 1}, {GOT, 3, 1}}},
		      {FORBIDDEN, {{GOT, 2, 1}, {GOT, 3, 0}}}}},
	/* [PCI]: a write that is marked as relaxed may pass others */
	{"WRITE WRITE, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1}, {LOAD, Y}, {LOAD, X}},
	 .outcomes = {{ALLOWED, {{GOT, 2, 0}, {GOT, 3, 0}}},
		      {ALLOWED, {{GOT, 2, 0}, {GOT, 3, 1}}},
		      {ALLOWED, {{GOT, 2, 1}, {GOT, 3, 1}}},
		      {ALLOWED, {{GOT, 2, 1}, {GOT, 3, 0}}}}},
	{"WRITE WRITE to one place", COMMON,
	 .ops = {{WRITE, X, 1}, {WRITE, X, 2}, {LOAD, X}, {LOAD, X}},
	 .outcomes = {{ALLOWED, {{GOT, 2, 1}, {GOT, 3, 2}}},
		      {ALLOWED, {{GOT, 2, 0}, {GOT, 3, 2}}},
		      {FORBIDDEN, {{GOT, 2, 2}, {GOT, 3, 1}}},
		      {FORBIDDEN, {{OVER}, {SEEN, X, 1}}}}},
	{"WRITE WRITE to one place, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {WRITE, X, 2}},
	 .outcomes = {{ALLOWED, {{OVER}, {SEEN, X, 1}}}, {ALLOWED, {{OVER}, {SEEN, X, 2}}}}},
	/* [R]: nothing orders two connections, not even a completion in between */
	{"WRITE WRITE on two connections", COMMON,
	 .ops = {{WRITE, X, 1}, {AWAIT, 0}, {WRITE, Y, 1, SECOND}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 1}, {SEEN, Y, 0}}},
		      {ALLOWED, {{SEEN, X, 0}, {SEEN, Y, 1}}},
		      {FORBIDDEN, {{NOT_DONE, 0}, {SEEN, Y, 1}}}}},
	{"SEND WRITE", COMMON,
	 .ops = {{SEND, X, 1}, {WRITE, Y, 1}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 1}, {SEEN, Y, 0}}},
		      {FORBIDDEN, {{SEEN, X, 0}, {SEEN, Y, 1}}}}},
	{"SEND SEND take the receives in order", COMMON,
	 .ops = {{SEND, X, 1}, {SEND, Y, 2}},
	 .outcomes = {{ALLOWED, {{OVER}, {SEEN, X, 1}, {SEEN, Y, 2}}},
		      {FORBIDDEN, {{SEEN, X, 2}}},
		      {FORBIDDEN, {{SEEN, X, 0}, {SEEN, Y, 2}}}}},
	{"a SEND waits for its receive, what is behind it for both", COMMON,
	 .ops = {{SEND, X, 1, LATE | NOTIFIES}, {WRITE, Y, 1}, {RECEIVE, X}},
	 .outcomes = {{ALLOWED, {{NOTICED, 0}, {SEEN, X, 1}, {SEEN, Y, 1}}},
		      {FORBIDDEN, {{NOT_DONE, 2}, {NOTICED, 0}}},
		      {FORBIDDEN, {{NOT_DONE, 2}, {SEEN, Y, 1}}}}},

	/* Tearing: aligned units of 8 bytes are whole, whatever is larger need not be */

	{"a unit is whole", FINE,
	 .ops = {{WRITE, X, WIDE}},
	 .outcomes = {{ALLOWED, {{SEEN, X, WIDE}}}, {FORBIDDEN, {{TORN, X, WIDE}}}}},
	{"what is not aligned is torn", FINE,
	 .ops = {{WRITE, X_HALF, WIDE}},
	 .outcomes = {{ALLOWED, {{SEEN, X, WIDE << 32}, {SEEN, X1, 0}}},
		      {ALLOWED, {{SEEN, X, 0}, {SEEN, X1, WIDE >> 32}}}}},
	{"two units are torn", FINE,
	 .ops = {{WRITE, X, 1, TWO_UNITS}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 1}, {SEEN, X1, 0}}},
		      {ALLOWED, {{SEEN, X, 0}, {SEEN, X1, 1}}}}},
	{"a line is whole", COMMON,
	 .ops = {{WRITE, X, 1, TWO_UNITS}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 1}, {SEEN, X1, 1}}},
		      {FORBIDDEN, {{SEEN, X, 1}, {SEEN, X1, 0}}},
		      {FORBIDDEN, {{SEEN, X, 0}, {SEEN, X1, 1}}}}},
	{"two lines are torn", COMMON,
	 .ops = {{WRITE, X, 1, TWO_LINES}, {WRITE, Z, 1}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 1}, {SEEN, Y, 0}}},
		      {ALLOWED, {{SEEN, X, 0}, {SEEN, Y, 1}}},
		      {FORBIDDEN, {{SEEN, Z, 1}, {SEEN, X, 0}}},
		      {FORBIDDEN, {{SEEN, Z, 1}, {SEEN, Y, 0}}}}},

	/* READs */

	/* [T] 2, [R]: a WRITE may take effect before an earlier READ */
	{"READ WRITE", COMMON,
	 .ops = {{READ, X}, {WRITE, X, 2}},
	 .outcomes = {{ALLOWED, {{GOT, 0, 0}}}, {ALLOWED, {{GOT, 0, 2}}}}},
	/* [T] 2, [IB], [R]: unless it is fenced */
	{"READ, fenced WRITE", COMMON,
	 .ops = {{READ, X}, {WRITE, X, 2, FENCED}},
	 .outcomes = {{ALLOWED, {{GOT, 0, 0}}}, {FORBIDDEN, {{GOT, 0, 2}}}}},
	/* [IB]: a fence does not wait for what has no response */
	{"WRITE, fenced WRITE, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1, FENCED}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 0}, {SEEN, Y, 1}}}}},
	{"READ SEND, SEND fenced", COMMON,
	 .ops = {{READ, X}, {SEND, X, 2, FENCED}},
	 .outcomes = {{ALLOWED, {{GOT, 0, 0}}}, {FORBIDDEN, {{GOT, 0, 2}}}}},
	/* [T] 2, [R]: a READ is ordered behind what is before it */
	{"WRITE READ", COMMON,
	 .ops = {{WRITE, X, 1}, {READ, X}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 1}}}, {FORBIDDEN, {{GOT, 1, 0}}}}},
	{"WRITE READ, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {READ, X}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 1}}},
		      {FORBIDDEN, {{GOT, 1, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {SEEN, X, 0}}}}},
	/* [PCI]: a read pushes the writes before it, whatever it reads */
	{"a READ pushes WRITEs", COMMON,
	 .ops = {{WRITE, X, 1}, {READ, Y}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 1}, {SEEN, X, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {SEEN, X, 0}}}}},
	{"a READ pushes what it reads, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1, TWO_LINES}, {READ, X}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 1}, {SEEN, Y, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {SEEN, X, 0}}}}},
	{"a READ pushes not all that is before it, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {READ, Y}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 1}, {SEEN, X, 0}}}}},
	{"a READ of 0 bytes pushes nothing", COMMON,
	 .ops = {{WRITE, X, 1}, {READ, X, 0, NO_BYTES}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 1}, {SEEN, X, 0}}}}},
	/* [R]: what another connection has in the NIC's buffer stays there */
	{"a READ pushes its own connection's WRITEs", COMMON,
	 .ops = {{WRITE, X, 1}, {AWAIT, 0}, {READ, Y, 0, SECOND}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 2}, {SEEN, X, 0}}}}},
	{"a READ pushes what has left its NIC", COMMON,
	 .ops = {{WRITE, X, 1, TWO_LINES}, {READ, X, 0, SECOND}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 1}}}, {FORBIDDEN, {{GOT, 1, 1}, {SEEN, Y, 0}}}}},
	{"a READ pushes nothing of another NIC", COMMON, .two_nics = true,
	 .ops = {{WRITE, X, 1, TWO_LINES}, {READ, X, 0, SECOND}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 1}, {SEEN, Y, 0}}}}},
	{"a READ pushes each WRITE", COMMON,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1}, {READ, Z}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 2}, {SEEN, X, 1}, {SEEN, Y, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 2}, {SEEN, X, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 2}, {SEEN, Y, 0}}}}},
	/* It is known that the READ is carried out when the WRITE behind it is there, too. */
	{"a READ need not push a later WRITE", COMMON, .two_nics = true,
	 .ops = {{READ, X}, {WRITE, Y, 1}, {WRITE, Z, 1, SECOND}, {LOAD, Z}, {STORE, X, 5}},
	 .outcomes = {{ALLOWED, {{GOT, 3, 1}, {GOT, 0, 5}, {SEEN, Y, 0}}},
		      {ALLOWED, {{GOT, 3, 1}, {GOT, 0, 0}, {SEEN, Y, 1}}}}},
	{"READ READ", COMMON,
	 .ops = {{READ, X}, {READ, X}, {STORE, X, 1}},
	 .outcomes = {{ALLOWED, {{GOT, 0, 0}, {GOT, 1, 1}}},
		      {ALLOWED, {{GOT, 0, 1}, {GOT, 1, 1}}},
		      {FORBIDDEN, {{GOT, 0, 1}, {GOT, 1, 0}}}}},

	/* Atomics */

	/* [T] 2: an atomic is ordered behind what is before it */
	{"WRITE SWAP", COMMON,
	 .ops = {{WRITE, X, 1}, {SWAP, X, 2}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 1}}},
		      {FORBIDDEN, {{GOT, 1, 0}}},
		      {FORBIDDEN, {{OVER}, {SEEN, X, 1}}}}},
	{"WRITE SWAP, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {SWAP, X, 2}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 1}}},
		      {FORBIDDEN, {{GOT, 1, 0}}},
		      {FORBIDDEN, {{OVER}, {SEEN, X, 1}}}}},
	{"WRITE SWAP of two places", COMMON,
	 .ops = {{WRITE, X, 1}, {SWAP, Y, 2}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 1}, {SEEN, Y, 0}}},
		      {FORBIDDEN, {{SEEN, X, 0}, {SEEN, Y, 2}}}}},
	{"WRITE SWAP of two places, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {SWAP, Y, 2}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 0}, {SEEN, Y, 2}}}}},
	/* [T] 2: a WRITE may pass an atomic */
	{"SWAP WRITE", COMMON,
	 .ops = {{SWAP, X, 1}, {WRITE, X, 2}},
	 .outcomes = {{ALLOWED, {{GOT, 0, 0}, {SEEN, X, 2}, {OVER}}},
		      {ALLOWED, {{GOT, 0, 2}, {SEEN, X, 1}, {OVER}}},
		      {ALLOWED, {{GOT, 0, 0}, {SEEN, X, 1}, {OVER}}}}},
	{"SWAP, fenced WRITE", COMMON,
	 .ops = {{SWAP, X, 1}, {WRITE, X, 2, FENCED}},
	 .outcomes = {{ALLOWED, {{GOT, 0, 0}, {SEEN, X, 2}, {OVER}}},
		      {FORBIDDEN, {{GOT, 0, 2}}},
		      {FORBIDDEN, {{OVER}, {SEEN, X, 1}}}}},
	{"SWAP READ", COMMON,
	 .ops = {{SWAP, X, 1}, {READ, X}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 1}}}, {FORBIDDEN, {{GOT, 1, 0}}}}},
	/* An atomic is over for the initiator while its store is still on its way. */
	{"SWAP completes before it is visible", COMMON,
	 .ops = {{SWAP, X, 1}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 0}, {SEEN, X, 0}}},
		      {ALLOWED, {{HAS_DONE, 0}, {SEEN, X, 1}}}}},
	/* [RMW]: atomic for other atomics of the NIC ... */
	{"ADD ADD on two connections", COMMON,
	 .ops = {{ADD, X, 1}, {ADD, X, 1, SECOND}},
	 .outcomes = {{ALLOWED, {{OVER}, {SEEN, X, 2}, {GOT, 0, 0}, {GOT, 1, 1}}},
		      {ALLOWED, {{OVER}, {SEEN, X, 2}, {GOT, 0, 1}, {GOT, 1, 0}}},
		      {FORBIDDEN, {{OVER}, {SEEN, X, 1}}}}},
	{"ADD ADD on two connections, relaxed", RELAXED,
	 .ops = {{ADD, X, 1}, {ADD, X, 1, SECOND}},
	 .outcomes = {{ALLOWED, {{OVER}, {SEEN, X, 2}, {GOT, 0, 0}, {GOT, 1, 1}}},
		      {ALLOWED, {{OVER}, {SEEN, X, 2}, {GOT, 0, 1}, {GOT, 1, 0}}},
		      {FORBIDDEN, {{OVER}, {SEEN, X, 1}}}}},
	{"ADD ADD of two NICs", COMMON, .two_nics = true,
	 .ops = {{ADD, X, 1}, {ADD, X, 1, SECOND}},
	 .outcomes = {{ALLOWED, {{OVER}, {SEEN, X, 1}}}, {ALLOWED, {{OVER}, {SEEN, X, 2}}}}},
	/* ... and for nobody else */
	{"ADD, and the processor stores", COMMON,
	 .ops = {{ADD, X, 1}, {STORE, X, 5}},
	 .outcomes = {{ALLOWED, {{OVER}, {SEEN, X, 5}}},
		      {ALLOWED, {{OVER}, {SEEN, X, 6}}},
		      {ALLOWED, {{OVER}, {SEEN, X, 1}}}}},
	{"ADD WRITE on two connections", COMMON,
	 .ops = {{ADD, X, 1}, {WRITE, X, 5, SECOND}},
	 .outcomes = {{ALLOWED, {{OVER}, {SEEN, X, 5}}},
		      {ALLOWED, {{OVER}, {SEEN, X, 6}}},
		      {ALLOWED, {{OVER}, {SEEN, X, 1}}}}},

	/* Completions, and connections that are lost */

	/* [T] 2, [R]: the other NIC has it, which is no place that is visible */
	{"WRITE completes before it is visible", COMMON,
	 .ops = {{WRITE, X, 1}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 0}, {SEEN, X, 0}}},
		      {ALLOWED, {{NOT_DONE, 0}, {SEEN, X, 1}}}}},
	{"WRITE has arrived when it completes", COMMON, .may_die = true,
	 .ops = {{WRITE, X, 1}},
	 .outcomes = {{ALLOWED, {{OVER}, {HAS_DONE, 0}, {SEEN, X, 1}}},
		      {ALLOWED, {{OVER}, {HAS_FAILED, 0}, {SEEN, X, 1}}},
		      {ALLOWED, {{OVER}, {HAS_FAILED, 0}, {SEEN, X, 0}}},
		      {FORBIDDEN, {{OVER}, {HAS_DONE, 0}, {SEEN, X, 0}}}}},
	/* [T] 3.2: iWARP completes what it has handed over */
	{"WRITE completes and never arrives, iWARP", IWARP, .may_die = true,
	 .ops = {{WRITE, X, 1}},
	 .outcomes = {{ALLOWED, {{OVER}, {HAS_DONE, 0}, {SEEN, X, 0}}},
		      {ALLOWED, {{OVER}, {HAS_DONE, 0}, {SEEN, X, 1}}}}},
	{"READ has its answer when it completes, iWARP", IWARP, .may_die = true,
	 .ops = {{WRITE, X, 1}, {READ, X}, {WRITE, Y, 1, FENCED}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 1}, {SEEN, X, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {SEEN, X, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 2}, {SEEN, X, 0}}}}},
	{"a lost connection carries out a prefix", COMMON, .may_die = true,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1}},
	 .outcomes = {{ALLOWED, {{OVER}, {SEEN, X, 0}, {SEEN, Y, 0}}},
		      {ALLOWED, {{OVER}, {SEEN, X, 1}, {SEEN, Y, 0}}},
		      {ALLOWED, {{OVER}, {SEEN, X, 1}, {SEEN, Y, 1}}},
		      {FORBIDDEN, {{SEEN, X, 0}, {SEEN, Y, 1}}}}},

	/* What the target's CQ tells */

	/* [T] 3.1.3, [IB]: the entry comes after the data, and after earlier data */
	{"WRITE, WRITE with immediate", COMMON,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1, NOTIFIES}},
	 .outcomes = {{ALLOWED, {{NOTICED, 1}, {SEEN, X, 1}, {SEEN, Y, 1}}},
		      {ALLOWED, {{NOT_NOTICED, 1}, {SEEN, Y, 1}}},
		      {FORBIDDEN, {{NOTICED, 1}, {SEEN, X, 0}}},
		      {FORBIDDEN, {{NOTICED, 1}, {SEEN, Y, 0}}}}},
	{"WRITE, WRITE with immediate, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1, NOTIFIES}},
	 .outcomes = {{ALLOWED, {{NOTICED, 1}, {SEEN, X, 0}}},
		      {FORBIDDEN, {{NOTICED, 1}, {SEEN, Y, 0}}}}},
	{"WRITE, immediate without data", COMMON,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 0, NOTIFIES | NO_BYTES}},
	 .outcomes = {{ALLOWED, {{NOTICED, 1}, {SEEN, X, 1}}},
		      {FORBIDDEN, {{NOTICED, 1}, {SEEN, X, 0}}}}},
	{"WRITE, immediate without data, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 0, NOTIFIES | NO_BYTES}},
	 .outcomes = {{ALLOWED, {{NOTICED, 1}, {SEEN, X, 0}}}}},
	{"WRITE READ, immediate without data, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {READ, X}, {WRITE, Y, 0, NOTIFIES | NO_BYTES}},
	 .outcomes = {{ALLOWED, {{NOTICED, 2}, {SEEN, X, 0}}}}},
	{"WRITE READ, fenced immediate without data, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1}, {READ, X}, {WRITE, Y, 0, NOTIFIES | NO_BYTES | FENCED}},
	 .outcomes = {{ALLOWED, {{NOTICED, 2}, {SEEN, X, 1}}},
		      {FORBIDDEN, {{NOTICED, 2}, {SEEN, X, 0}}}}},
	{"entries come in order, relaxed", RELAXED,
	 .ops = {{WRITE, X, 1, NOTIFIES}, {WRITE, Y, 1, NOTIFIES}},
	 .outcomes = {{ALLOWED, {{NOTICED, 0}, {NOT_NOTICED, 1}}},
		      {ALLOWED, {{NOTICED, 0}, {NOTICED, 1}}},
		      {FORBIDDEN, {{NOT_NOTICED, 0}, {NOTICED, 1}}}}},
	{"an entry passes no message", COMMON,
	 .ops = {{SEND, X, 1, NOTIFIES}, {WRITE, Y, 1, NOTIFIES}},
	 .outcomes = {{ALLOWED, {{NOTICED, 0}, {NOT_NOTICED, 1}}},
		      {FORBIDDEN, {{NOTICED, 0}, {SEEN, X, 0}}},
		      {FORBIDDEN, {{NOT_NOTICED, 0}, {NOTICED, 1}}}}},

	/* The processor's caches: only the memory controller persists */

	/* [Px86]: stores to two lines persist in either order */
	{"STORE STORE", COMMON, HW_DMP,
	 .ops = {{STORE, X, 1}, {STORE, Y, 1}},
	 .outcomes = {{ALLOWED, {{OVER}, {LEAVES, X, 0}, {LEAVES, Y, 0}}},
		      {ALLOWED, {{OVER}, {LEAVES, X, 1}, {LEAVES, Y, 0}}},
		      {ALLOWED, {{OVER}, {LEAVES, X, 0}, {LEAVES, Y, 1}}},
		      {ALLOWED, {{OVER}, {LEAVES, X, 1}, {LEAVES, Y, 1}}}}},
	/* [Px86]: and those to one line in the order in which they are made */
	{"STORE STORE to one line", COMMON, HW_DMP,
	 .ops = {{STORE, X, 1}, {STORE, X1, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 1}, {LEAVES, X1, 0}}},
		      {ALLOWED, {{LEAVES, X, 1}, {LEAVES, X1, 1}}},
		      {FORBIDDEN, {{LEAVES, X, 0}, {LEAVES, X1, 1}}}}},
	/* [Px86], [SDM]: CLWB alone promises nothing */
	{"STORE CLWB STORE", COMMON, HW_DMP,
	 .ops = {{STORE, X, 1}, {CLWB, X}, {STORE, Y, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 0}, {LEAVES, Y, 1}}},
		      {ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 0}}}}},
	{"STORE SFENCE STORE", COMMON, HW_DMP,
	 .ops = {{STORE, X, 1}, {SFENCE}, {STORE, Y, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 0}, {LEAVES, Y, 1}}}}},
	{"STORE CLWB SFENCE STORE", COMMON, HW_DMP,
	 .ops = {{STORE, X, 1}, {CLWB, X}, {SFENCE}, {STORE, Y, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 2}, {LEAVES, X, 0}}},
		      {FORBIDDEN, {{LEAVES, X, 0}, {LEAVES, Y, 1}}}}},
	{"CLWB of another line", COMMON, HW_DMP,
	 .ops = {{STORE, X, 1}, {CLWB, Y}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 2}, {LEAVES, X, 0}}}}},
	{"CLWB is of the whole line", COMMON, HW_DMP,
	 .ops = {{STORE, X1, 1}, {CLWB, X}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 2}, {LEAVES, X1, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 2}, {LEAVES, X1, 0}}}}},
	/* The line goes out at any time from CLWB on: what is stored later may be in it. */
	{"STORE CLWB STORE SFENCE", COMMON, HW_DMP,
	 .ops = {{STORE, X, 1}, {CLWB, X}, {STORE, X, 2}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 3}, {LEAVES, X, 1}}},
		      {ALLOWED, {{HAS_DONE, 3}, {LEAVES, X, 2}}},
		      {FORBIDDEN, {{HAS_DONE, 3}, {LEAVES, X, 0}}}}},
	{"STORE CLWB STORE CLWB SFENCE", COMMON, HW_DMP,
	 .ops = {{STORE, X, 1}, {CLWB, X}, {STORE, X, 2}, {CLWB, X}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 4}, {LEAVES, X, 2}}},
		      {FORBIDDEN, {{HAS_DONE, 4}, {LEAVES, X, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 4}, {LEAVES, X, 0}}}}},
	{"what is durable stays so", COMMON, HW_DMP,
	 .ops = {{STORE, X, 1}, {CLWB, X}, {STORE, X, 2}, {IMAGE, X}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{GOT, 3, 2}, {LEAVES, X, 2}}},
		      {FORBIDDEN, {{GOT, 3, 2}, {LEAVES, X, 1}}},
		      {FORBIDDEN, {{GOT, 3, 1}, {LEAVES, X, 0}}}}},
	/* [SDM], [NT]: non-temporal stores are ordered by SFENCE alone */
	{"MOVNT STORE", COMMON, HW_DMP,
	 .ops = {{MOVNT, X, 1}, {STORE, Y, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 0}, {LEAVES, Y, 1}}},
		      {ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 0}}}}},
	{"MOVNT SFENCE STORE", COMMON, HW_DMP,
	 .ops = {{MOVNT, X, 1}, {SFENCE}, {STORE, Y, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {LEAVES, X, 0}}},
		      {FORBIDDEN, {{LEAVES, X, 0}, {LEAVES, Y, 1}}}}},
	/* They write themselves past the caches, not the line that they are in. */
	{"STORE MOVNT to one line", COMMON, HW_DMP,
	 .ops = {{STORE, X1, 1}, {MOVNT, X, 1}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 2}, {LEAVES, X, 1}, {LEAVES, X1, 0}}},
		      {ALLOWED, {{NOT_DONE, 2}, {LEAVES, X, 1}, {LEAVES, X1, 0}}},
		      {ALLOWED, {{HAS_DONE, 2}, {LEAVES, X, 1}, {LEAVES, X1, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 2}, {LEAVES, X, 0}}}}},
	{"STORE CLWB MOVNT to one line", COMMON, HW_DMP,
	 .ops = {{STORE, X1, 1}, {CLWB, X1}, {MOVNT, X, 1}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 3}, {LEAVES, X, 1}, {LEAVES, X1, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 3}, {LEAVES, X, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 3}, {LEAVES, X1, 0}}}}},

	/* What a device has written, by persistence domain: [T] 3.1 and 3.2 */

	{"WRITE READ, DMP and DDIO", COMMON, HW_DMP,
	 .ops = {{WRITE, X, 1}, {READ, X}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 1}, {LEAVES, X, 0}}},
		      {ALLOWED, {{HAS_DONE, 1}, {LEAVES, X, 1}}}}},
	{"WRITE READ, DMP without DDIO", NO_DDIO, HW_DMP,
	 .ops = {{WRITE, X, 1}, {READ, X}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 0}, {LEAVES, X, 0}}},
		      {ALLOWED, {{HAS_DONE, 1}, {LEAVES, X, 1}}},
		      {FORBIDDEN, {{SEEN, X, 1}, {LEAVES, X, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {LEAVES, X, 0}}}}},
	{"WRITE READ elsewhere, DMP without DDIO, relaxed", NO_DDIO_RELAXED, HW_DMP,
	 .ops = {{WRITE, X, 1}, {READ, Y}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 1}, {LEAVES, X, 0}}}}},
	/* The order of two WRITEs is lost in the cache and kept by the memory controller. */
	{"WRITE WRITE, DMP and DDIO", COMMON, HW_DMP,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 0}, {LEAVES, Y, 1}}},
		      {ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 0}}}}},
	{"WRITE WRITE, DMP without DDIO", NO_DDIO, HW_DMP,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 0}}},
		      {FORBIDDEN, {{LEAVES, X, 0}, {LEAVES, Y, 1}}}}},
	/* What is visible may wait in front of the memory controller: any order, until a READ. */
	{"WRITE READ, DMP without DDIO, buffered", BUFFERED, HW_DMP,
	 .ops = {{WRITE, X, 1}, {READ, X}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 1}, {LEAVES, X, 0}}},
		      {ALLOWED, {{HAS_DONE, 1}, {LEAVES, X, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {LEAVES, X, 0}}}}},
	{"WRITE READ elsewhere, DMP without DDIO, buffered", BUFFERED, HW_DMP,
	 .ops = {{WRITE, X, 1}, {READ, Y}},
	 .outcomes = {{FORBIDDEN, {{HAS_DONE, 1}, {LEAVES, X, 0}}}}},
	{"WRITE WRITE, DMP without DDIO, buffered", BUFFERED, HW_DMP,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 0}, {LEAVES, Y, 1}}},
		      {ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 0}}}}},
	{"WRITE READ, fenced WRITE, DMP without DDIO, buffered", BUFFERED, HW_DMP,
	 .ops = {{WRITE, X, 1}, {READ, X}, {WRITE, Y, 1, FENCED}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 0}}},
		      {FORBIDDEN, {{LEAVES, X, 0}, {LEAVES, Y, 1}}}}},
	{"WRITE READ, fenced WRITE, DMP without DDIO, relaxed", NO_DDIO_RELAXED, HW_DMP,
	 .ops = {{WRITE, X, 1}, {READ, X}, {WRITE, Y, 1, FENCED}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 0}}},
		      {ALLOWED, {{LEAVES, X, 1}, {LEAVES, Y, 1}}},
		      {FORBIDDEN, {{LEAVES, X, 0}, {LEAVES, Y, 1}}}}},
	{"the processor flushes what it has seen, DMP and DDIO", COMMON, HW_DMP,
	 .ops = {{WRITE, X, 1}, {LOAD, X}, {CLWB, X}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 0}, {HAS_DONE, 3}, {SEEN, X, 1}, {LEAVES, X, 0}}},
		      {ALLOWED, {{GOT, 1, 1}, {HAS_DONE, 3}, {LEAVES, X, 1}}},
		      {FORBIDDEN, {{GOT, 1, 1}, {HAS_DONE, 3}, {LEAVES, X, 0}}}}},
	{"a line on its way out takes a WRITE along, DMP without DDIO", NO_DDIO, HW_DMP,
	 .ops = {{WRITE, X, 1}, {READ, X}, {STORE, X1, 1}, {CLWB, X1}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 1}, {HAS_DONE, 4}, {LEAVES, X, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {LEAVES, X, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 4}, {LEAVES, X1, 0}}}}},
	{"WRITE READ, MHP", COMMON, HW_MHP,
	 .ops = {{WRITE, X, 1}, {READ, X}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 0}, {LEAVES, X, 0}}},
		      {FORBIDDEN, {{SEEN, X, 1}, {LEAVES, X, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {LEAVES, X, 0}}}}},
	{"STORE, MHP", COMMON, HW_MHP,
	 .ops = {{STORE, X, 1}},
	 .outcomes = {{ALLOWED, {{LEAVES, X, 1}}}, {FORBIDDEN, {{HAS_DONE, 0}, {LEAVES, X, 0}}}}},
	{"WRITE WRITE, WSP", COMMON, HW_WSP,
	 .ops = {{WRITE, X, 1}, {WRITE, Y, 1}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 0}, {LEAVES, X, 1}}},
		      {ALLOWED, {{NOT_DONE, 1}, {LEAVES, Y, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 0}, {LEAVES, X, 0}}},
		      {FORBIDDEN, {{LEAVES, X, 0}, {LEAVES, Y, 1}}}}},
	{"WRITE WRITE to one place, WSP", COMMON, HW_WSP,
	 .ops = {{WRITE, X, 1}, {WRITE, X, 2}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 0}, {LEAVES, X, 2}}},
		      {ALLOWED, {{SEEN, X, 1}, {LEAVES, X, 2}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {LEAVES, X, 1}}}}},
	{"WRITE, WSP and iWARP", IWARP, HW_WSP,
	 .ops = {{WRITE, X, 1}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 0}, {LEAVES, X, 0}}}}},
	{"SEND SEND, WSP", COMMON, HW_WSP,
	 .ops = {{SEND, X, 1}, {SEND, Y, 2}},
	 .outcomes = {{ALLOWED, {{SEEN, X, 0}, {LEAVES, X, 1}}},
		      {ALLOWED, {{SEEN, X, 0}, {LEAVES, Y, 2}}},
		      {FORBIDDEN, {{LEAVES, X, 2}}},
		      {FORBIDDEN, {{HAS_DONE, 0}, {LEAVES, X, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 1}, {LEAVES, Y, 0}}},
		      {FORBIDDEN, {{LEAVES, X, 0}, {LEAVES, Y, 2}}}}},

	/* [MSYNC] A file without DAX: the kernel writes pages that it takes for dirty */

	{"WRITE, msync", COMMON, HW_PAGED,
	 .ops = {{WRITE, X, 1}, {LOAD, X}, {MSYNC, X}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 1}, {HAS_DONE, 2}, {LEAVES, X, 0}}},
		      {ALLOWED, {{GOT, 1, 1}, {HAS_DONE, 2}, {LEAVES, X, 1}}}}},
	{"WRITE, touched, msync", COMMON, HW_PAGED,
	 .ops = {{WRITE, X, 1}, {LOAD, X}, {TOUCH, X}, {MSYNC, X}},
	 .outcomes = {{ALLOWED, {{GOT, 1, 1}, {HAS_DONE, 3}, {LEAVES, X, 1}}},
		      {FORBIDDEN, {{GOT, 1, 1}, {HAS_DONE, 3}, {LEAVES, X, 0}}}}},
	/* Between the two the kernel may have written the page, and taken it for clean. */
	{"touched, WRITE, msync", COMMON, HW_PAGED,
	 .ops = {{WRITE, X, 1}, {TOUCH, X}, {LOAD, X}, {MSYNC, X}},
	 .outcomes = {{ALLOWED, {{GOT, 2, 1}, {HAS_DONE, 3}, {LEAVES, X, 1}}},
		      {ALLOWED, {{GOT, 2, 1}, {HAS_DONE, 3}, {LEAVES, X, 0}}}}},
	{"msync is of whole pages", COMMON, HW_PAGED,
	 .ops = {{MOVNT, Y, 1}, {MOVNT, Z, 1}, {MSYNC, X}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 2}, {LEAVES, Y, 1}, {LEAVES, Z, 0}}},
		      {FORBIDDEN, {{HAS_DONE, 2}, {LEAVES, Y, 0}}}}},
	{"pages are written in any order", COMMON, HW_PAGED,
	 .ops = {{MOVNT, X, 1}, {MOVNT, Z, 1}},
	 .outcomes = {{ALLOWED, {{OVER}, {LEAVES, X, 0}, {LEAVES, Z, 0}}},
		      {ALLOWED, {{OVER}, {LEAVES, X, 1}, {LEAVES, Z, 0}}},
		      {ALLOWED, {{OVER}, {LEAVES, X, 0}, {LEAVES, Z, 1}}},
		      {ALLOWED, {{OVER}, {LEAVES, X, 1}, {LEAVES, Z, 1}}}}},
	{"a page that was stored to stays dirty under a WRITE", COMMON, HW_PAGED,
	 .ops = {{WRITE, X, 1}, {MOVNT, X, 1}, {LOAD, X}, {MSYNC, X}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 3}, {LEAVES, X, 1}}},
		      {FORBIDDEN, {{HAS_DONE, 3}, {LEAVES, X, 0}}}}},
	{"SFENCE does nothing for a file", COMMON, HW_PAGED,
	 .ops = {{MOVNT, X, 1}, {CLWB, X}, {SFENCE}},
	 .outcomes = {{ALLOWED, {{HAS_DONE, 2}, {LEAVES, X, 0}}}}},
};
/* clang-format on */

#define NUM_TESTS (sizeof(tests) / sizeof(tests[0]))

/* The world: one program, somewhere */

enum {
	STEP_HOME = 64, /* the initiator posts its next operation */
	STEP_AWAY,      /* the target's processor goes on */
	STEP_COMPLETE,  /* the initiator sees a completion */
};

struct litmus {
	const struct test *test;
	bool reduced;
	struct hw *hw;
	struct hw_port *home[2];
	char *memory;
	unsigned int next_home;
	unsigned int next_away;
	bool failed[MAX_OPS];
	bool noticed[MAX_OPS];
	uint8_t done[MAX_OPS]; /* how often */
	uint64_t result[MAX_OPS];
};

/* What has been seen of the test, in any state. */
static uint64_t reached;

static bool is_away(const struct op *op)
{
	return op->kind >= LOAD;
}

/* find_next -- from there on, of the one or the other */
static unsigned int find_next(const struct test *test, unsigned int from, bool away)
{
	while (from < MAX_OPS && (!test->ops[from].kind || is_away(&test->ops[from]) != away))
		from++;
	return from;
}

static uint64_t exchange(uint64_t old, uint64_t operand, uint64_t compare)
{
	(void) old;
	(void) compare;
	return operand;
}

static uint64_t add(uint64_t old, uint64_t operand, uint64_t compare)
{
	(void) compare;
	return old + operand;
}

static size_t op_len(const struct op *op)
{
	if (op->how & NO_BYTES)
		return 0;
	if (op->how & TWO_UNITS)
		return 16;
	return op->how & TWO_LINES ? Y - X + 8 : 8;
}

static void post(struct litmus *litmus, unsigned int number)
{
	static const enum hw_kind kinds[] = {[WRITE] = HW_WRITE,
					     [READ] = HW_READ,
					     [SWAP] = HW_ATOMIC,
					     [ADD] = HW_ATOMIC,
					     [SEND] = HW_SEND};
	const struct op *op = &litmus->test->ops[number];
	bool fetches = op->kind == READ || op->kind == SWAP || op->kind == ADD;
	struct hw_request request = {
		.kind = kinds[op->kind],
		.fence = op->how & FENCED,
		.notifies = op->how & NOTIFIES,
		.reported = true,
		.imm = number,
		.context = &litmus->done[number],
		.target = litmus->memory + op->at,
		.len = op_len(op),
		.result = fetches ? (char *) &litmus->result[number] : NULL,
		.update = op->kind == ADD ? add : exchange,
		.note = (int) number + 1,
	};
	uint64_t data[Y / 8 + 1];

	for (size_t i = 0; i < Y / 8 + 1; i++)
		data[i] = op->value;
	if (!hw_post(litmus->home[op->how & SECOND ? 1 : 0], &request, (const char *) data))
		abort();
}

/* receive -- the target is ready for a message at that place */
static void receive(struct litmus *litmus, unsigned int connection, const struct op *op)
{
	const struct hw_receive buf = {.buf = litmus->memory + op->at, .len = op_len(op)};

	if (!hw_receive(litmus->home[connection]->peer, &buf))
		abort();
}

static void execute(struct litmus *litmus, unsigned int number)
{
	const struct op *op = &litmus->test->ops[number];
	char *at = litmus->memory + op->at;

	switch (op->kind) {
	case LOAD:
		memcpy(&litmus->result[number], at, sizeof(uint64_t));
		break;
	case STORE:
		memcpy(at, &op->value, sizeof(uint64_t));
		break;
	case CLWB:
		hw_flush(litmus->hw, at, 1);
		break;
	case SFENCE:
		hw_drain(litmus->hw);
		break;
	case MOVNT:
		hw_store(litmus->hw, at, &op->value, sizeof(uint64_t));
		break;
	case TOUCH:
		hw_touch(litmus->hw, at, 1);
		break;
	case MSYNC:
		hw_sync(litmus->hw, at, 1);
		break;
	case RECEIVE:
		receive(litmus, op->how & SECOND ? 1 : 0, op);
		break;
	case IMAGE:
		hw_image(litmus->hw, at, sizeof(uint64_t), (char *) &litmus->result[number]);
		break;
	default:
		abort();
	}
	litmus->done[number]++;
}

static void completed(struct hw_port *port, const struct hw_event *event)
{
	struct litmus *litmus = port->owner;
	ptrdiff_t number;

	if (event->receive) {
		litmus->noticed[event->imm] = true;
		return;
	}
	number = (uint8_t *) event->context - litmus->done;
	litmus->done[number]++;
	litmus->failed[number] = event->err;
}

static bool may_go_on(const struct litmus *litmus)
{
	const struct op *op = &litmus->test->ops[litmus->next_home];

	if (litmus->next_home == MAX_OPS)
		return false;
	if (op->kind == AWAIT)
		return litmus->done[op->at];
	return !litmus->home[op->how & SECOND ? 1 : 0]->dead;
}

static size_t steps(void *world, struct hw_step *list)
{
	struct litmus *litmus = world;
	size_t count = 0;

	if (litmus->reduced && hw_free_step(litmus->hw, list))
		return 1;
	if (may_go_on(litmus))
		list[count++] = (struct hw_step){.kind = STEP_HOME};
	if (litmus->next_away < MAX_OPS)
		list[count++] = (struct hw_step){.kind = STEP_AWAY};
	for (uint8_t i = 0; i < 2; i++) {
		if (litmus->home[i] && hw_completable(litmus->hw, litmus->home[i]))
			list[count++] = (struct hw_step){.kind = STEP_COMPLETE, .at = i};
	}
	return count + hw_steps(litmus->hw, list + count);
}

static void take(void *world, struct hw_step step)
{
	struct litmus *litmus = world;
	unsigned int number;

	switch (step.kind) {
	case STEP_HOME:
		number = litmus->next_home;
		litmus->next_home = find_next(litmus->test, number + 1, false);
		if (litmus->test->ops[number].kind == AWAIT)
			litmus->done[number]++;
		else
			post(litmus, number);
		break;
	case STEP_AWAY:
		number = litmus->next_away;
		litmus->next_away = find_next(litmus->test, number + 1, true);
		execute(litmus, number);
		break;
	case STEP_COMPLETE:
		hw_complete(litmus->hw, litmus->home[step.at]);
		break;
	default:
		hw_take(litmus->hw, step);
		break;
	}
}

/* All of it is in the arena's small objects. */
static unsigned int group(struct hw_step step)
{
	(void) step;
	return 0;
}

static bool is_over(const struct litmus *litmus)
{
	bool dead = false;

	for (unsigned int i = 0; i < 2 && litmus->home[i]; i++) {
		dead |= litmus->home[i]->dead;
		if (litmus->home[i]->count)
			return false;
	}
	return litmus->next_away == MAX_OPS && (dead || litmus->next_home == MAX_OPS);
}

static uint64_t value_at(const struct litmus *litmus, unsigned int at)
{
	uint64_t value;

	memcpy(&value, litmus->memory + at, sizeof(value));
	return value;
}

static uint64_t image_at(const struct litmus *litmus, unsigned int at)
{
	uint64_t value;

	hw_image(litmus->hw, litmus->memory + at, sizeof(value), (char *) &value);
	return value;
}

static bool holds(const struct litmus *litmus, const struct term *term)
{
	switch (term->kind) {
	case HAS_DONE:
		return litmus->done[term->at] && !litmus->failed[term->at];
	case HAS_FAILED:
		return litmus->failed[term->at];
	case NOT_DONE:
		return !litmus->done[term->at];
	case GOT:
		return litmus->done[term->at] && !litmus->failed[term->at] &&
		       litmus->result[term->at] == term->value;
	case NOTICED:
		return litmus->noticed[term->at];
	case NOT_NOTICED:
		return !litmus->noticed[term->at];
	case SEEN:
		return value_at(litmus, term->at) == term->value;
	case TORN:
		return value_at(litmus, term->at) && value_at(litmus, term->at) != term->value;
	case LEAVES:
		return image_at(litmus, term->at) == term->value;
	case OVER:
		return is_over(litmus);
	}
	return true;
}

static bool all_hold(const struct litmus *litmus, const struct outcome *outcome)
{
	for (unsigned int i = 0; i < MAX_TERMS && outcome->terms[i].kind; i++) {
		if (!holds(litmus, &outcome->terms[i]))
			return false;
	}
	return true;
}

static const char *check(void *world, bool final)
{
	static char text[64];
	struct litmus *litmus = world;

	for (unsigned int i = 0; i < MAX_OUTCOMES; i++) {
		const struct outcome *outcome = &litmus->test->outcomes[i];

		if (!outcome->verdict || !all_hold(litmus, outcome))
			continue;
		reached |= UINT64_C(1) << i;
		if (outcome->verdict == ALLOWED)
			continue;
		snprintf(text, sizeof(text), "outcome %u is forbidden", i + 1);
		return text;
	}
	for (unsigned int i = 0; i < MAX_OPS; i++) {
		if (litmus->done[i] > 1)
			return "something has completed twice";
	}
	return final && !is_over(litmus) ? "it never ends" : NULL;
}

static void describe(void *world, struct hw_step step, char *buf, size_t len)
{
	struct litmus *litmus = world;

	switch (step.kind) {
	case STEP_HOME:
		snprintf(buf, len, "the initiator goes on with operation %u",
			 litmus->next_home + 1);
		break;
	case STEP_AWAY:
		snprintf(buf, len, "the target's processor goes on with operation %u",
			 litmus->next_away + 1);
		break;
	case STEP_COMPLETE:
		snprintf(buf, len, "the initiator sees a completion of connection %u", step.at);
		break;
	default:
		hw_describe(litmus->hw, step, buf, len);
		break;
	}
}

/* Opening and running */

static void connect_home(struct litmus *litmus, unsigned int number)
{
	const struct test *test = litmus->test;
	struct hw_port *home = hw_port(litmus->hw, 0, MAX_OPS);
	struct hw_port *away = hw_port(litmus->hw, test->two_nics ? 1 + number : 1, MAX_OPS);

	home->owner = away->owner = litmus;
	hw_connect(home, away);
	litmus->home[number] = home;
	for (unsigned int i = 0; i < MAX_OPS; i++) {
		const struct op *op = &test->ops[i];

		if (op->kind == SEND && !(op->how & LATE) &&
		    (op->how & SECOND ? 1 : 0) == (int) number)
			receive(litmus, number, op);
	}
}

/* A connection that nobody uses would keep hw_free_step from what it may do. */
static bool uses_second(const struct test *test)
{
	for (unsigned int i = 0; i < MAX_OPS; i++) {
		if (test->ops[i].how & SECOND)
			return true;
	}
	return false;
}

static struct litmus *open_litmus(const struct test *test, bool reduced)
{
	struct litmus *litmus;
	char *room;

	arena_reset();
	arena_open();
	litmus = calloc(1, sizeof(*litmus));
	room = calloc(1, MEMORY_LEN + HW_LINE);
	if (!litmus || !room)
		abort();
	litmus->test = test;
	litmus->reduced = reduced;
	litmus->memory = (char *) (((uintptr_t) room + HW_LINE - 1) / HW_LINE * HW_LINE);
	litmus->hw = hw_new(&test->rules);
	litmus->hw->complete = completed;
	litmus->hw->may_die = test->may_die;
	hw_memory(litmus->hw, litmus->memory, MEMORY_LEN, test->domain);
	connect_home(litmus, 0);
	if (uses_second(test))
		connect_home(litmus, 1);
	litmus->next_home = find_next(test, 0, false);
	litmus->next_away = find_next(test, 0, true);
	arena_close();
	return litmus;
}

/* More than any test has. */
#define MAX_STATES 10000000

/* run -- what is reached is in `reached` then */
static uint64_t run(const struct test *test, bool reduced, bool tell, char *wrong, size_t len)
{
	struct explore_world world = {
		.world = open_litmus(test, reduced),
		.steps = steps,
		.take = take,
		.group = group,
		.check = check,
		.describe = describe,
	};
	struct explore_result result;

	reached = 0;
	result = explore(&world, MAX_STATES);
	if (result.stopped)
		snprintf(result.wrong, sizeof(result.wrong), "too many states");
	if (result.wrong[0]) {
		snprintf(wrong, len, "%s", result.wrong);
		if (tell) {
			explore_shorten(&world, &result);
			explore_tell(&world, result.path, result.path_len);
		}
	}
	free(result.path);
	/* All that it has allocated goes with the arena. */
	return result.states;
}

static unsigned int count(const struct test *test, int verdict, uint64_t mask)
{
	unsigned int number = 0;

	for (unsigned int i = 0; i < MAX_OUTCOMES; i++)
		number += (int) test->outcomes[i].verdict == verdict && (mask >> i & 1);
	return number;
}

static bool run_test(const struct test *test, bool tell)
{
	char wrong[256] = "";
	uint64_t all = run(test, false, tell, wrong, sizeof(wrong));
	uint64_t outcomes = reached;
	uint64_t some = run(test, true, tell && !wrong[0], wrong, sizeof(wrong));
	unsigned int allowed = count(test, ALLOWED, UINT64_MAX);

	if (!wrong[0] && count(test, ALLOWED, outcomes) < allowed)
		snprintf(wrong, sizeof(wrong), "an allowed outcome is never reached");
	if (!wrong[0] && reached != outcomes)
		snprintf(wrong, sizeof(wrong), "the reduction loses an outcome");
	if (tell || wrong[0])
		printf("%-60s allowed %u/%u, forbidden %u/%u, states %ju (%ju)%s%s\n", test->name,
		       count(test, ALLOWED, outcomes), allowed, count(test, FORBIDDEN, outcomes),
		       count(test, FORBIDDEN, UINT64_MAX), (uintmax_t) all, (uintmax_t) some,
		       wrong[0] ? ": " : "", wrong);
	return !wrong[0];
}

int litmus_run(bool tell)
{
	int failed = 0;

	for (size_t i = 0; i < NUM_TESTS; i++)
		failed += !run_test(&tests[i], tell);
	return failed;
}
