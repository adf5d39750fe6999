/* SPDX-License-Identifier: BSD-2-Clause */
/* history_lines.c -- the lines of histories that clients print */
#include "history_lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* by_operation -- its call before its back */
static int by_operation(const void *one, const void *other)
{
	const struct history_line *a = one, *b = other;

	if (a->client != b->client)
		return a->client < b->client ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return a->back - b->back;
}

/* parse_front -- what all lines have; the rest of it, or NULL */
static const char *parse_front(const char *text, struct history_line *line)
{
	char kind[8];
	int end = 0;

	if (sscanf(text, "%4s %" SCNu64 " %" SCNu64 " %" SCNu64 "%n", kind, &line->time,
		   &line->client, &line->number, &end) != 4)
		return NULL;
	line->back = !strcmp(kind, "back");
	return text + end;
}

void *history_read(FILE *from, size_t size, bool (*parse)(const char *text, void *line),
		   size_t *count)
{
	char *lines = NULL, text[512];
	size_t room = 0;

	*count = 0;
	while (fgets(text, sizeof(text), from)) {
		const char *rest;

		if (*count == room) {
			room = 2 * room + 1024;
			lines = realloc(lines, room * size);
			if (!lines)
				abort();
		}
		memset(lines + *count * size, 0, size);
		rest = parse_front(text, (struct history_line *) (lines + *count * size));
		*count += rest && parse(rest, lines + *count * size);
	}
	if (lines)
		qsort(lines, *count, size, by_operation);
	return lines;
}

bool history_answers(const struct history_line *back, const struct history_line *call)
{
	return back->back && back->client == call->client && back->number == call->number;
}
