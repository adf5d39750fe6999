/* SPDX-License-Identifier: BSD-2-Clause */
/* overlay.c -- overlayfs' upper directory, from its options */
#include "memory/overlay.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/*
 * A comma in a path has overlayfs' escape, a backslash, if mount(2) was called, but none if
 * fsconfig(2) was.  So a comma is the end only if the next option is the one that the kernel
 * always shows there.
 */
bool pmv_overlay_upper(const char *options, char **upper)
{
	static const char key[] = ",upperdir=", next[] = ",workdir=";
	const char *start = strstr(options, key), *end;

	*upper = NULL;
	if (!start || strstr(start + 1, key))
		return true;
	start += strlen(key);
	/* A relative path began at the working directory of who mounted it. */
	if (*start != '/')
		return true;
	for (end = start; *end && *end != ','; end++) {
		if (*end == '\\' && end[1])
			end++;
	}
	if (strncmp(end, next, strlen(next)) || end - start >= PATH_MAX)
		return true;
	*upper = strndup(start, (size_t) (end - start));
	return *upper;
}

static void unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from; from++) {
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from;
	}
	*to = '\0';
}

bool pmv_overlay_find(char *upper, struct pmv_node *node)
{
	const char *escape = strchr(upper, '\\');

	/* Backslashes that are part of the name would lead there. */
	if (escape && escape[1] && !pmv_platform.stat(upper, node))
		return false;
	unescape(upper);
	return !pmv_platform.stat(upper, node) && S_ISDIR(node->mode);
}
