/* SPDX-License-Identifier: BSD-2-Clause */
/* beneath.c -- opening what is below a directory; beneath.h says what for */
#include "beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "part.h"

int cp_open_beneath(int dir, const char *name, uint64_t flags)
{
	const struct open_how how = {
		.flags = flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV,
	};

	return (int) syscall(SYS_openat2, dir, name, &how, sizeof(how));
}

const char *cp_split_name(const char *name, char dir[CP_TEXT], const char **base)
{
	const char *slash = strrchr(name, '/');

	*base = slash ? slash + 1 : name;
	if (!**base || !strcmp(*base, ".") || !strcmp(*base, "..") || strlen(*base) > NAME_MAX)
		return "this is no name of a file";
	if (cp_part_is_hidden(*base))
		return "such names are those of unfinished copies";
	/* The kernel refuses an absolute one. */
	if (*name == '/')
		snprintf(dir, CP_TEXT, "%s", name);
	else
		snprintf(dir, CP_TEXT, "%.*s", slash ? (int) (slash - name) : 1,
			 slash ? name : ".");
	return NULL;
}

const char *cp_refused_open(int err)
{
	if (err == EXDEV || err == ELOOP)
		return "the name leads out of what is served";
	return err == ENOSYS ? "names can't be confined here (openat2, Linux 5.6)" : strerror(err);
}
