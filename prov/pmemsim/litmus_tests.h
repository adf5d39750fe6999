/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * litmus_tests.h -- what a litmus test consists of; litmus.h says what they are for
 */
#ifndef PMEMSIM_LITMUS_TESTS_H
#define PMEMSIM_LITMUS_TESTS_H

#include "hw.h"

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
	FLUSH, /* persistent, unless it is GLOBAL */
	ATOMIC_WRITE,
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
	GLOBAL = 1 << 7,
	LATE = 1 << 6, /* the receive of a message is not there yet */
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
	STUCK,  /* something is, and nothing can happen; elsewhere that is wrong */
};

struct term {
	enum term_kind kind;
	unsigned int at;
	uint64_t value;
};

#define MAX_OPS 7
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
#define SLOTS(n) .rules = {.ddio = true, .slots = (n), .granule = HW_LINE}
#define RELAXED .rules = {.ddio = true, .relaxed = true, .granule = HW_LINE}
#define IWARP .rules = {.ddio = true, .local = true, .granule = HW_LINE}
#define FINE .rules = {.ddio = true, .granule = 8}
#define NO_DDIO .rules = {.granule = HW_LINE}
#define BUFFERED .rules = {.buffered = true, .granule = HW_LINE}
#define NO_DDIO_RELAXED .rules = {.relaxed = true, .granule = HW_LINE}

/* The last one of each has no name. */
extern const struct test litmus_network[], litmus_memory[];

#endif /* PMEMSIM_LITMUS_TESTS_H */
