/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs_history.h -- is a history of reads and writes of blocks linearizable?
 *
 * No checker that Debian has takes histories.  In general that takes a search, which may not end;
 * where each write has a value of its own, this is exact and takes none (Gibbons and Korach,
 * "Testing Shared Memories", 1997):
 *
 * A write and the reads of its value are a cluster.  In each order that is legal they are side by
 * side, the write first.  Cluster a has to be before b if an operation of a has ended before one of
 * b began: first_end(a) < last_begin(b).  So a history is linearizable if no read has ended before
 * its write began, and the clusters of each block can be put in such an order: there is no circle.
 * Then two clusters want to be before each other: in a circle of three or more let m be the one
 * whose last_begin is the greatest, q the one behind m, and r the one behind q.  Then first_end(q)
 * < last_begin(r) <= last_begin(m): so q is to be before m, and m before q.  It is enough to look
 * at pairs.
 */
#ifndef PMEM_RS_HISTORY_H
#define PMEM_RS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_NEVER UINT64_MAX

struct rs_operation {
	uint64_t block;
	uint64_t value; /* 0 is there at first, and nobody writes it */
	uint64_t begin; /* not 0 */
	uint64_t end;   /* RS_NEVER: nobody was told, so a write was made or not */
	bool is_write;
};

struct rs_verdict {
	bool wrong;
	const char *why;
	uint64_t block, value, other; /* with these values of that block */
};

/* rs_judge_history -- sorts the operations; reads that have no end must not be among them */
struct rs_verdict rs_judge_history(struct rs_operation *operations, size_t count);

#endif /* PMEM_RS_HISTORY_H */
