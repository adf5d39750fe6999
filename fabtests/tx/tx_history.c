/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_history.c -- the order that transactions have to be in, and whether it has a circle
 *
 * Ends of transactions are nodes of the graph, too, each behind the one before in time: a
 * transaction is behind the last end before its begin, and so behind all of them.
 */
#include "tx_history.h"

#include <stdlib.h>
#include <string.h>

#define NOBODY SIZE_MAX

/* A value of a key: who has written it, and who has replaced it. */
struct version {
	uint64_t key, value;
	size_t writer, next;
};

struct edge {
	size_t from, to;
};

struct judge {
	const struct tx_transaction *all;
	size_t count;
	bool *made;
	struct version *versions;
	size_t num_versions;
	struct edge *edges;
	size_t num_edges;
	size_t *by_end; /* transactions that were made and have an end, the first end first */
	size_t num_ends;
	struct tx_verdict verdict;
};

static int compare(uint64_t one, uint64_t other)
{
	return (one > other) - (one < other);
}

static int by_value(const void *one, const void *other)
{
	const struct version *a = one, *b = other;
	int order = compare(a->key, b->key);

	return order ? order : compare(a->value, b->value);
}

static int by_from(const void *one, const void *other)
{
	return compare(((const struct edge *) one)->from, ((const struct edge *) other)->from);
}

static int by_end(const void *one, const void *other, void *all)
{
	const struct tx_transaction *of = all;

	return compare(of[*(const size_t *) one].end, of[*(const size_t *) other].end);
}

static void wrong(struct judge *judge, const char *why, uint64_t key, uint64_t value)
{
	if (!judge->verdict.wrong)
		judge->verdict = (struct tx_verdict){true, why, key, value, 0};
}

static struct version *find(const struct judge *judge, uint64_t key, uint64_t value)
{
	const struct version wanted = {.key = key, .value = value};

	return bsearch(&wanted, judge->versions, judge->num_versions, sizeof(wanted), by_value);
}

/* list_versions -- all that were written or may have been, and of each key the first one */
static void list_versions(struct judge *judge)
{
	size_t found = 0, kept = 0;

	for (size_t i = 0; i < judge->count; i++) {
		for (unsigned int j = 0; j < judge->all[i].count; j++) {
			const struct tx_event *event = &judge->all[i].events[j];

			judge->versions[found++] = (struct version){event->key, 0, NOBODY, NOBODY};
			if (event->written)
				judge->versions[found++] =
					(struct version){event->key, event->written, i, NOBODY};
		}
	}
	qsort(judge->versions, found, sizeof(*judge->versions), by_value);
	for (size_t i = 0; i < found; i++) {
		const struct version *version = &judge->versions[i];

		if (!kept || by_value(&judge->versions[kept - 1], version) != 0)
			judge->versions[kept++] = *version;
		else if (version->value)
			wrong(judge, "two transactions write the same value", version->key,
			      version->value);
	}
	judge->num_versions = kept;
}

/* make -- a transaction was made, and so were those whose values it has read; `stack` has room for
 * all */
static void make(struct judge *judge, size_t first, size_t *stack)
{
	size_t depth = 0;

	if (!judge->made[first])
		stack[depth++] = first;
	judge->made[first] = true;
	while (depth) {
		const struct tx_transaction *one = &judge->all[stack[--depth]];

		judge->verdict.judged++;
		for (unsigned int j = 0; j < one->count; j++) {
			const struct tx_event *event = &one->events[j];
			const struct version *version = find(judge, event->key, event->read);

			if (!version || (version->value && judge->all[version->writer].aborted)) {
				wrong(judge, "nobody has written what was read", event->key,
				      event->read);
			} else if (version->value && !judge->made[version->writer]) {
				judge->made[version->writer] = true;
				stack[depth++] = version->writer;
			}
		}
	}
}

/* link_versions -- who has replaced which value */
static void link_versions(struct judge *judge)
{
	for (size_t i = 0; i < judge->count; i++) {
		for (unsigned int j = 0; judge->made[i] && j < judge->all[i].count; j++) {
			const struct tx_event *event = &judge->all[i].events[j];
			struct version *version = find(judge, event->key, event->read);

			if (!event->written || !version)
				continue;
			if (version->next != NOBODY)
				wrong(judge, "a value was replaced twice", event->key, event->read);
			version->next = i;
		}
	}
}

static void add_edge(struct judge *judge, size_t from, size_t to)
{
	if (from != NOBODY && to != NOBODY && from != to)
		judge->edges[judge->num_edges++] = (struct edge){from, to};
}

/* add_values -- a read is behind the write, and before the next one */
static void add_values(struct judge *judge, size_t number)
{
	const struct tx_transaction *one = &judge->all[number];

	for (unsigned int j = 0; j < one->count; j++) {
		const struct version *version =
			find(judge, one->events[j].key, one->events[j].read);

		if (!version)
			continue;
		add_edge(judge, version->writer, number);
		add_edge(judge, number, version->next);
	}
}

/* ends_before -- how many have ended before a time */
static size_t ends_before(const struct judge *judge, uint64_t time)
{
	size_t low = 0, high = judge->num_ends;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (judge->all[judge->by_end[middle]].end < time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* add_times -- the node of an end has the number count + its place */
static void add_times(struct judge *judge)
{
	for (size_t i = 0; i < judge->count; i++) {
		if (judge->made[i] && judge->all[i].end != TX_NEVER)
			judge->by_end[judge->num_ends++] = i;
	}
	qsort_r(judge->by_end, judge->num_ends, sizeof(*judge->by_end), by_end,
		(void *) (uintptr_t) judge->all);
	for (size_t i = 0; i < judge->num_ends; i++) {
		add_edge(judge, judge->by_end[i], judge->count + i);
		if (i)
			add_edge(judge, judge->count + i - 1, judge->count + i);
	}
	for (size_t i = 0; i < judge->count; i++) {
		size_t before = judge->made[i] ? ends_before(judge, judge->all[i].begin) : 0;

		if (before)
			add_edge(judge, judge->count + before - 1, i);
	}
}

/* find_circle -- take away what nothing has to be before, again and again: what is left has one */
static void find_circle(struct judge *judge, size_t nodes, size_t *waits, size_t *first,
			size_t *ready)
{
	size_t num_ready = 0, done = 0;

	qsort(judge->edges, judge->num_edges, sizeof(*judge->edges), by_from);
	for (size_t i = judge->num_edges; i-- > 0;) {
		first[judge->edges[i].from] = i;
		waits[judge->edges[i].to]++;
	}
	for (size_t i = 0; i < nodes; i++) {
		if (!waits[i])
			ready[num_ready++] = i;
	}
	while (num_ready > done) {
		size_t node = ready[done++];

		for (size_t i = first[node]; i < judge->num_edges && judge->edges[i].from == node;
		     i++) {
			if (!--waits[judge->edges[i].to])
				ready[num_ready++] = judge->edges[i].to;
		}
	}
	for (size_t i = 0; i < judge->count && done < nodes; i++) {
		if (waits[i])
			wrong(judge, "transactions have to be before each other",
			      judge->all[i].events[0].key, judge->all[i].events[0].read);
	}
}

static void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count + 1, size);

	if (!memory)
		abort();
	return memory;
}

struct tx_verdict tx_judge_history(const struct tx_transaction *transactions, size_t count)
{
	size_t nodes = 2 * count;
	struct judge judge = {
		.all = transactions,
		.count = count,
		.made = allocate(count, sizeof(bool)),
		.versions = allocate(2 * TX_ACCESSES * count, sizeof(struct version)),
		.edges = allocate((2 * TX_ACCESSES + 3) * count, sizeof(struct edge)),
		.by_end = allocate(count, sizeof(size_t)),
	};
	size_t *stack = allocate(nodes, sizeof(size_t)), *waits = allocate(nodes, sizeof(size_t));
	size_t *first = allocate(nodes, sizeof(size_t));
	size_t judged;

	list_versions(&judge);
	for (size_t i = 0; i < count; i++) {
		if (transactions[i].end != TX_NEVER && !transactions[i].aborted)
			make(&judge, i, stack);
	}
	judged = judge.verdict.judged;
	link_versions(&judge);
	for (size_t i = 0; i < count; i++) {
		if (judge.made[i])
			add_values(&judge, i);
	}
	add_times(&judge);
	find_circle(&judge, nodes, waits, first, stack);
	judge.verdict.judged = judged;
	free(judge.made);
	free(judge.versions);
	free(judge.edges);
	free(judge.by_end);
	free(stack);
	free(waits);
	free(first);
	return judge.verdict;
}
