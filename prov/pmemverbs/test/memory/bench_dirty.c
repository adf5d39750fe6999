/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_dirty.c -- what it costs to remember a write until it is committed
 *
 * For commits of 1 to a million writes of 64 bytes each, scattered over 1 GiB:
 * the time of all pmv_dirty_add and of what is taken at the end, by write.
 * Medians of repeated runs; the first fills the memory that is then reused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "memory/dirty.h"

#define RUNS 15
#define MIN_WRITES 100000 /* measured at a time */
#define SPAN_LINES (1 << 24)

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
}

static uint64_t next_line(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*state >> 33) % SPAN_LINES;
}

static int compare(const void *a, const void *b)
{
	double one = *(const double *) a, other = *(const double *) b;

	return one < other ? -1 : one > other;
}

/* The addresses are made beforehand. */
static double measure(struct pmv_dirty *dirty, const uint64_t *addrs, size_t writes, size_t commits)
{
	static struct pmv_range ranges[PMV_DIRTY_RANGES];
	double start = now_ns();

	for (size_t commit = 0; commit < commits; commit++) {
		for (size_t i = 0; i < writes; i++)
			pmv_dirty_add(dirty, 1, addrs[commit * writes + i], 64);
		pmv_dirty_take(dirty, 1, false, ranges);
	}
	return (now_ns() - start) / (double) (writes * commits);
}

static void show(size_t writes)
{
	size_t commits = writes < MIN_WRITES ? MIN_WRITES / writes : 1;
	uint64_t *addrs = malloc(writes * commits * sizeof(*addrs));
	struct pmv_dirty dirty = {0};
	double ns[RUNS];
	uint64_t state = 1;

	if (!addrs)
		exit(1);
	for (size_t i = 0; i < writes * commits; i++)
		addrs[i] = next_line(&state) * 64;
	measure(&dirty, addrs, writes, commits);
	for (int run = 0; run < RUNS; run++)
		ns[run] = measure(&dirty, addrs, writes, commits);
	qsort(ns, RUNS, sizeof(ns[0]), compare);
	printf("%9zu %10.1f %10.1f %10.1f\n", writes, ns[RUNS / 2], ns[0], ns[RUNS - 1]);
	pmv_dirty_free(&dirty);
	free(addrs);
}

int main(void)
{
	printf("   writes   ns/write        min        max   (%d runs)\n", RUNS);
	for (size_t writes = 1; writes <= 1000000; writes *= 10)
		show(writes);
	return 0;
}
