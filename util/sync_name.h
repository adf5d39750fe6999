/* SPDX-License-Identifier: BSD-2-Clause */
/* sync_name.h -- a file that may be new, and its name */
#ifndef UTIL_SYNC_NAME_H
#define UTIL_SYNC_NAME_H

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * sync_name -- make it durable that the file is there.  It is needed each time that one is opened:
 * its maker may have been killed before the sync.  0 or a negative errno.
 */
static inline int sync_name(const char *path, int fd)
{
	char *real = realpath(path, NULL);
	int dir = real ? open(dirname(real), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int ret = dir < 0 || fsync(fd) || fsync(dir) ? -errno : 0;

	if (dir >= 0)
		close(dir);
	free(real);
	return ret;
}

#endif /* UTIL_SYNC_NAME_H */
