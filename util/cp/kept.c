/* SPDX-License-Identifier: BSD-2-Clause */
/* kept.c -- the provider's knowledge of files is asked; kept.h says why */
#include "kept.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "memory/mapping.h"

/* is_above_others -- of an overlay's directories the provider knows nothing, only of its files */
static bool is_above_others(int fd, const struct stat *st)
{
	struct statfs fs;

	return S_ISDIR(st->st_mode) && !fstatfs(fd, &fs) && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

static void find_path(int fd, char path[PATH_MAX])
{
	char link[32];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, PATH_MAX - 1);
	path[len < 0 ? 0 : len] = '\0';
}

static void doubt(struct cp_kept *kept, bool in_memory, const char *why)
{
	char *hint;

	if (kept->doubtful && (kept->in_memory || !in_memory))
		return;
	kept->doubtful = true;
	kept->in_memory = in_memory;
	snprintf(kept->why, sizeof(kept->why), "%s", why);
	/* That would change nothing here. */
	hint = strstr(kept->why, "; FI_PMEMVERBS_DOMAIN");
	if (hint)
		*hint = '\0';
}

void cp_kept_look(struct cp_kept *kept, int fd)
{
	char path[PATH_MAX];
	struct pmv_mapped file = {.shared = true, .path = path};
	struct pmv_mem mem;
	struct stat st;

	if (fstat(fd, &st)) {
		doubt(kept, false, strerror(errno));
		return;
	}
	if (is_above_others(fd, &st)) {
		kept->skipped = true;
		return;
	}
	if (kept->looked && kept->dev == st.st_dev)
		return;
	kept->looked = true;
	kept->dev = st.st_dev;
	find_path(fd, path);
	file.dev = st.st_dev;
	file.ino = st.st_ino;
	if (pmv_mapping_detect(&file, &mem))
		doubt(kept, mem.backing == PMV_VOLATILE_FS, mem.what);
}

void cp_kept_end(struct cp_kept *kept)
{
	if (kept->skipped && !kept->looked)
		doubt(kept, false, "no file was got from which it could be told");
}
