/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs_judge.c -- judges the histories of fi_pmem_rs -o soak, which it reads from standard input
 *
 * A line has: call or back, the time, the client, the operation's number, what it is (read or
 * write), the block, and the identity of the value.  Of a read, `call` has none (0).  An operation
 * without a line "back" may have been made or not.  A client that was killed may have written a
 * part of a line, which is passed over.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rs_history.h"

struct line {
	bool back, is_write;
	uint64_t time, client, number, block, value;
};

static bool parse(const char *text, struct line *line)
{
	char kind[8], what[8];
	int end = 0;

	if (sscanf(text, "%4s %" SCNu64 " %" SCNu64 " %" SCNu64 " %5s %" SCNu64 " %" SCNu64 "%n",
		   kind, &line->time, &line->client, &line->number, what, &line->block,
		   &line->value, &end) != 7 ||
	    text[end] != '\n')
		return false;
	line->back = !strcmp(kind, "back");
	line->is_write = !strcmp(what, "write");
	return true;
}

/* by_operation -- its call before its back */
static int by_operation(const void *one, const void *other)
{
	const struct line *a = one, *b = other;

	if (a->client != b->client)
		return a->client < b->client ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return a->back - b->back;
}

/* read_lines -- all of them; *count: how many */
static struct line *read_lines(FILE *from, size_t *count)
{
	struct line *lines = NULL;
	char text[256];
	size_t room = 0;

	*count = 0;
	while (fgets(text, sizeof(text), from)) {
		if (*count == room) {
			room = 2 * room + 1024;
			lines = realloc(lines, room * sizeof(*lines));
			if (!lines)
				abort();
		}
		if (parse(text, &lines[*count]))
			++*count;
	}
	return lines;
}

/* pair -- calls with what came back: how many operations that makes */
static size_t pair(const struct line *lines, size_t count, struct rs_operation *operations)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const struct line *call = &lines[i], *back = NULL;

		if (call->back)
			continue;
		if (i + 1 < count && lines[i + 1].back && lines[i + 1].client == call->client &&
		    lines[i + 1].number == call->number)
			back = &lines[i + 1];
		if (back || call->is_write)
			operations[found++] = (struct rs_operation){
				.block = call->block,
				.value = back ? back->value : call->value,
				.begin = call->time,
				.end = back ? back->time : RS_NEVER,
				.is_write = call->is_write,
			};
	}
	return found;
}

int main(void)
{
	struct rs_operation *operations;
	struct rs_verdict verdict;
	struct line *lines;
	size_t count, found;

	lines = read_lines(stdin, &count);
	operations = calloc(count + 1, sizeof(*operations));
	if (!operations)
		abort();
	if (lines)
		qsort(lines, count, sizeof(*lines), by_operation);
	found = pair(lines, count, operations);
	verdict = rs_judge_history(operations, found);
	if (verdict.wrong)
		printf("block %" PRIu64 ", values %" PRIu64 " and %" PRIu64 ": %s\n", verdict.block,
		       verdict.value, verdict.other, verdict.why);
	else
		printf("%zu operations are linearizable\n", found);
	free(operations);
	free(lines);
	/* A history of nothing is none. */
	return verdict.wrong || !found ? EXIT_FAILURE : EXIT_SUCCESS;
}
