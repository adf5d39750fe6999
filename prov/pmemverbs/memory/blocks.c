/* SPDX-License-Identifier: BSD-2-Clause */
/* blocks.c -- from ranges of memory to blocks; blocks.h has the rules */
#include "memory/blocks.h"

#include <stdlib.h>
#include <string.h>

struct pmv_blocks pmv_blocks_of(uint64_t offset, uint64_t len)
{
	struct pmv_blocks run = {offset & ~(PMV_BLOCK - 1), offset & ~(PMV_BLOCK - 1)};

	if (len)
		run.end = (offset + len + PMV_BLOCK - 1) & ~(PMV_BLOCK - 1);
	return run;
}

static int by_start(const void *one, const void *other)
{
	const struct pmv_blocks *a = one, *b = other;

	return a->start < b->start ? -1 : a->start > b->start;
}

size_t pmv_blocks_join(struct pmv_blocks *runs, size_t count)
{
	size_t joined = 0;

	qsort(runs, count, sizeof(*runs), by_start);
	for (size_t i = 0; i < count; i++) {
		struct pmv_blocks *last = joined ? &runs[joined - 1] : NULL;

		if (runs[i].start == runs[i].end)
			continue;
		if (!last || runs[i].start > last->end)
			runs[joined++] = runs[i];
		else if (runs[i].end > last->end)
			last->end = runs[i].end;
	}
	return joined;
}

/* close_gap -- join the two runs that are closest */
static size_t close_gap(struct pmv_blocks *runs, size_t count)
{
	size_t best = 0;

	for (size_t i = 1; i + 1 < count; i++) {
		if (runs[i + 1].start - runs[i].end < runs[best + 1].start - runs[best].end)
			best = i;
	}
	runs[best].end = runs[best + 1].end;
	memmove(&runs[best + 1], &runs[best + 2], (count - best - 2) * sizeof(*runs));
	return count - 1;
}

void pmv_bad_add(struct pmv_bad *bad, struct pmv_blocks run)
{
	struct pmv_blocks runs[PMV_BAD_RUNS + 1];
	size_t count = bad->count;

	memcpy(runs, bad->runs, count * sizeof(*runs));
	runs[count++] = run;
	count = pmv_blocks_join(runs, count);
	if (count > PMV_BAD_RUNS)
		count = close_gap(runs, count);
	memcpy(bad->runs, runs, count * sizeof(*runs));
	bad->count = count;
}
