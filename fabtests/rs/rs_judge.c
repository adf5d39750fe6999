/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs_judge.c -- judges the histories of fi_pmem_rs -o soak, which it reads from standard input
 *
 * A line (history_lines.h) ends with what it is (read or write), the block, and the identity of the
 * value.  Of a read, `call` has none (0).  An operation without a line "back" may have been made or
 * not.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kv/history_lines.h"
#include "rs_history.h"

struct line {
	struct history_line line; /* first */
	bool is_write;
	uint64_t block, value;
};

static bool parse(const char *text, void *to)
{
	struct line *line = to;
	char what[8];
	int end = 0;

	if (sscanf(text, " %5s %" SCNu64 " %" SCNu64 "%n", what, &line->block, &line->value,
		   &end) != 3 ||
	    text[end] != '\n')
		return false;
	line->is_write = !strcmp(what, "write");
	return true;
}

/* pair -- calls with what came back: how many operations that makes */
static size_t pair(const struct line *lines, size_t count, struct rs_operation *operations)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const struct line *call = &lines[i], *back = NULL;

		if (call->line.back)
			continue;
		if (i + 1 < count && history_answers(&lines[i + 1].line, &call->line))
			back = &lines[i + 1];
		if (back || call->is_write)
			operations[found++] = (struct rs_operation){
				.block = call->block,
				.value = back ? back->value : call->value,
				.begin = call->line.time,
				.end = back ? back->line.time : RS_NEVER,
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

	lines = history_read(stdin, sizeof(*lines), parse, &count);
	operations = calloc(count + 1, sizeof(*operations));
	if (!operations)
		abort();
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
