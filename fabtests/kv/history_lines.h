/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * history_lines.h -- the lines of histories that clients print
 *
 * A line has: call or back, the time, the client, the operation's number, and what it is.  A client
 * that was killed may have written a part of a line, which is passed over.
 */
#ifndef HISTORY_LINES_H
#define HISTORY_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The first member of what a line becomes. */
struct history_line {
	bool back;
	uint64_t time, client, number;
};

/*
 * history_read -- all lines, each operation's call before its back; to be freed; *count: how many.
 * They have this size, and are zeros when `parse` gets what is behind the number, up to the end of
 * the line.  False: it is no line.
 */
void *history_read(FILE *from, size_t size, bool (*parse)(const char *text, void *line),
		   size_t *count);

/* history_answers -- is it the end of that call? */
bool history_answers(const struct history_line *back, const struct history_line *call);

#endif /* HISTORY_LINES_H */
