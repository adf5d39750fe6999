/* SPDX-License-Identifier: BSD-2-Clause */
/* rs_history.c -- the clusters of a history, in pairs; rs_history.h says why that is enough */
#include "rs_history.h"

#include <stdlib.h>

struct cluster {
	uint64_t block, value;
	uint64_t first_end, last_begin;
};

static int compare(uint64_t one, uint64_t other)
{
	return (one > other) - (one < other);
}

/* by_cluster -- and the write before the reads */
static int by_cluster(const void *one, const void *other)
{
	const struct rs_operation *a = one, *b = other;
	int order = compare(a->block, b->block);

	if (!order)
		order = compare(a->value, b->value);
	return order ? order : b->is_write - a->is_write;
}

static int by_first_end(const void *one, const void *other)
{
	const struct cluster *a = one, *b = other;
	int order = compare(a->block, b->block);

	return order ? order : compare(a->first_end, b->first_end);
}

static struct rs_verdict wrong(const char *why, const struct cluster *cluster, uint64_t other)
{
	return (struct rs_verdict){true, why, cluster->block, cluster->value, other};
}

/* gather -- the operations of one cluster, from the first one on; *count: how many they are */
static struct rs_verdict gather(const struct rs_operation *first, size_t left, size_t *count,
				struct cluster *cluster)
{
	const struct rs_operation none = {.is_write = true};
	const struct rs_operation *write = first->value ? first : &none;
	size_t i = first->value ? 1 : 0;

	*cluster = (struct cluster){first->block, first->value, write->end, write->begin};
	*count = i;
	if (!write->is_write)
		return wrong("nobody has written what was read", cluster, 0);
	for (; i < left && first[i].block == first->block && first[i].value == first->value; i++) {
		if (first[i].is_write)
			return wrong("two writes have the same value", cluster, 0);
		if (first[i].end < write->begin)
			return wrong("a value was read before it was written", cluster, 0);
		if (first[i].end < cluster->first_end)
			cluster->first_end = first[i].end;
		if (first[i].begin > cluster->last_begin)
			cluster->last_begin = first[i].begin;
	}
	*count = i;
	return (struct rs_verdict){0};
}

/* compare_all -- in pairs; they are sorted, so that the second one's first end is no smaller */
static struct rs_verdict compare_all(const struct cluster *clusters, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct cluster *a = &clusters[i];

		for (size_t j = i + 1; j < count; j++) {
			const struct cluster *b = &clusters[j];

			if (b->block != a->block || b->first_end >= a->last_begin)
				break;
			if (a->first_end < b->last_begin)
				return wrong("each value has to be older than the other one", a,
					     b->value);
		}
	}
	return (struct rs_verdict){0};
}

struct rs_verdict rs_judge_history(struct rs_operation *operations, size_t count)
{
	struct cluster *clusters = calloc(count + 1, sizeof(*clusters));
	struct rs_verdict verdict = {0};
	size_t found = 0, members;

	if (!clusters)
		return (struct rs_verdict){.wrong = true, .why = "there is no memory to judge it"};
	qsort(operations, count, sizeof(*operations), by_cluster);
	for (size_t i = 0; i < count && !verdict.wrong; i += members)
		verdict = gather(&operations[i], count - i, &members, &clusters[found++]);
	qsort(clusters, found, sizeof(*clusters), by_first_end);
	if (!verdict.wrong)
		verdict = compare_all(clusters, found);
	free(clusters);
	return verdict;
}
