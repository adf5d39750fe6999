/* SPDX-License-Identifier: BSD-2-Clause */
/* mount.c -- read mountinfo with libmount, which decodes names */
#include "memory/mount.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <libmount.h>
#include <rdma/fi_errno.h>

/* With one of these options a file system leaves what msync writes in a cache. */
static const char *const no_barriers[] = {
	"nobarrier",              /* ext4, xfs, btrfs, f2fs, gfs2, nilfs2 */
	"barrier=0",              /* ext3 of old */
	"barrier=none",           /* reiserfs */
	"fsync_mode=nobarrier",   /* f2fs */
	"journal_flush_disabled", /* bcachefs */
	"checkpoint=disable",     /* f2fs, whose fsync does nothing at all then */
};

/*
 * has_option -- is it one of "rw,size=4k,..."?  libmount's functions for options
 * treat quotation marks as quotes.  The kernel does not: they are part of a path.
 */
static bool has_option(const char *options, const char *option)
{
	size_t len = strlen(option);

	for (;; options++) {
		if (!strncmp(options, option, len) && strchr(",=:", options[len]))
			return true;
		options = strchr(options, ',');
		if (!options)
			return false;
	}
}

/* get_path -- the value of an option, a path; empty: there is none, "?": it can't be told */
static void get_path(const char *options, const char *key, char *path, size_t size)
{
	const char *value = strstr(options, key);
	size_t len;

	*path = '\0';
	if (!value)
		return;
	value += strlen(key);
	len = strcspn(value, ",");
	snprintf(path, size, "%.*s", len < size ? (int) len : 1, len < size ? value : "?");
}

/* no_barrier -- the option that lets msync end before the data is durable, or NULL */
static const char *no_barrier(const char *type, const char *options)
{
	for (size_t i = 0; i < sizeof(no_barriers) / sizeof(no_barriers[0]); i++) {
		if (has_option(options, no_barriers[i]))
			return no_barriers[i];
	}
	/* ocfs2 shows barrier=1, the default, and nothing for barrier=0. */
	if (!strcmp(type, "ocfs2") && !has_option(options, "barrier=1"))
		return "barrier=0";
	return NULL;
}

/*
 * get_upper -- overlayfs' upper directory, as it was given to mount; NULL: it is not certain which
 * it is.  False: no memory.
 *
 * A comma in a path has overlayfs' escape, a backslash, if mount(2) was called, but none if
 * fsconfig(2) was.  So a comma is the end only if the next option is the one that the kernel
 * always shows there.
 */
static bool get_upper(const char *options, char **upper)
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

void pmv_mount_clear(struct pmv_mount *mount)
{
	free(mount->upper);
	*mount = (struct pmv_mount){0};
}

/* describe -- false, and nothing is described: no memory */
static bool describe(struct libmnt_fs *fs, struct pmv_mount *mount)
{
	const char *options = mnt_fs_get_fs_options(fs), *type = mnt_fs_get_fstype(fs);
	const char *source = mnt_fs_get_srcpath(fs);

	pmv_mount_clear(mount);
	if (!options)
		options = "";
	if (!get_upper(options, &mount->upper))
		return false;
	mount->dev = mnt_fs_get_devno(fs);
	snprintf(mount->type, sizeof(mount->type), "%s", type ? type : "?");
	/* Part of a path may lead elsewhere. */
	if (source && strlen(source) < sizeof(mount->source))
		strcpy(mount->source, source);
	/* Newer kernels show the second. */
	mount->ignores_msync =
		has_option(options, "volatile") || has_option(options, "fsync=volatile");
	mount->layered = has_option(options, "upperdir");
	get_path(options, ",rtdev=", mount->realtime, sizeof(mount->realtime));
	get_path(options, ",logdev=", mount->log, sizeof(mount->log));
	mount->no_barrier = no_barrier(mount->type, options);
	return true;
}

static int skip_line(struct libmnt_table *table, const char *filename, int line)
{
	bool *whole = mnt_table_get_userdata(table);

	(void) filename;
	(void) line;
	*whole = false;
	return 1;
}

int pmv_mount_find(const char *mountinfo, dev_t dev, uint64_t id, struct pmv_mount *by_dev,
		   struct pmv_mount *by_id)
{
	struct libmnt_table *table = mnt_new_table();
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;
	bool whole = true;

	*by_dev = *by_id = (struct pmv_mount){0};
	if (!table || !iter || mnt_table_set_userdata(table, &whole) ||
	    mnt_table_set_parser_errcb(table, skip_line) || mnt_table_parse_file(table, mountinfo))
		whole = false;
	while (table && iter && !mnt_table_next_fs(table, iter, &fs)) {
		/* libmount takes a file that does not begin like mountinfo for fstab. */
		if (!mnt_fs_is_kernel(fs)) {
			whole = false;
			continue;
		}
		if (mnt_fs_get_devno(fs) == dev)
			whole &= describe(fs, by_dev);
		if (id && (uint64_t) mnt_fs_get_id(fs) == id)
			whole &= describe(fs, by_id);
	}
	mnt_free_iter(iter);
	mnt_unref_table(table);
	return whole ? 0 : -FI_EIO;
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

bool pmv_mount_find_upper(char *upper, struct pmv_node *node)
{
	const char *escape = strchr(upper, '\\');

	/* Backslashes that are part of the name would lead there. */
	if (escape && escape[1] && !pmv_platform.stat(upper, node))
		return false;
	unescape(upper);
	return !pmv_platform.stat(upper, node) && S_ISDIR(node->mode);
}
