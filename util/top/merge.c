/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge.c -- the texts of several processes as one; merge.h
 *
 * A text consists of parts: two lines with # HELP and # TYPE, and samples.  Parts of processes of
 * several versions need not be the same.
 */
#include "merge.h"

#include <stdbool.h>
#include <string.h>

static const char help[] = "# HELP ";

/* next_part -- where the part behind this place begins; NULL: there is none */
static const char *next_part(const char *at)
{
	char begin[sizeof(help) + 1] = "\n";

	strcat(begin, help);
	at = strstr(at, begin);
	return at ? at + 1 : NULL;
}

static const char *first_part(const char *text)
{
	return strncmp(text, help, strlen(help)) ? next_part(text) : text;
}

/* is_of -- has the part the name of the other one? */
static bool is_of(const char *part, const char *other)
{
	const char *name = other + strlen(help);
	size_t len = strcspn(name, " \n");

	return !strncmp(part + strlen(help), name, len) &&
	       strcspn(part + strlen(help), " \n") == len;
}

static const char *find(const char *text, const char *part)
{
	const char *at = first_part(text);

	while (at && !is_of(at, part))
		at = next_part(at);
	return at;
}

/* samples -- of a part: behind the lines that begin with # */
static const char *samples(const char *part)
{
	while (part && *part == '#') {
		part = strchr(part, '\n');
		part += part != NULL;
	}
	return part;
}

static void print(const char *from, const char *to, FILE *out)
{
	if (from)
		fwrite(from, 1, to && to > from ? (size_t) (to - from) : strlen(from), out);
}

void merge(const struct texts *texts, FILE *out)
{
	for (size_t i = 0; i < texts->count; i++) {
		const char *part = first_part(texts->text[i]);

		for (; part; part = next_part(part)) {
			bool known = false;

			for (size_t j = 0; j < i && !known; j++)
				known = find(texts->text[j], part);
			if (known)
				continue;
			print(part, next_part(part), out);
			for (size_t j = i + 1; j < texts->count; j++) {
				const char *more = find(texts->text[j], part);

				if (more)
					print(samples(more), next_part(more), out);
			}
		}
	}
}
