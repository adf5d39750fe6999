/* SPDX-License-Identifier: BSD-2-Clause */
/* overlay.c -- overlayfs' upper directory, from its options */
#include "memory/overlay.h"

#include <string.h>
#include <sys/stat.h>

/*
 * A comma in a path has overlayfs' escape, a backslash, if mount(2) was called, but none if
 * fsconfig(2) was.  So a comma is the end only if the next option is the one that the kernel
 * always shows there.
 */
bool pmv_overlay_upper(const char *options, char upper[PATH_MAX])
{
	static const char key[] = ",upperdir=", next[] = ",workdir=";
	const char *start = strstr(options, key), *end;

	*upper = '\0';
	if (!start || strstr(start + 1, key))
		return false;
	start += strlen(key);
	/* A relative path began at the working directory of who mounted it. */
	if (*start != '/')
		return false;
	for (end = start; *end && *end != ','; end++) {
		if (*end == '\\' && end[1])
			end++;
	}
	if (strncmp(end, next, strlen(next)) || end - start >= PATH_MAX)
		return false;
	memcpy(upper, start, (size_t) (end - start));
	upper[end - start] = '\0';
	return true;
}

static void unescape(const char *from, char *to)
{
	for (; *from; from++) {
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from;
	}
	*to = '\0';
}

bool pmv_overlay_find(const char *upper, char path[PATH_MAX], struct pmv_node *node)
{
	unescape(upper, path);
	if (!*path)
		return false;
	/* Backslashes that are part of the name would lead there. */
	if (strcmp(path, upper) && !pmv_platform.stat(upper, node))
		return false;
	return !pmv_platform.stat(path, node) && S_ISDIR(node->mode);
}
