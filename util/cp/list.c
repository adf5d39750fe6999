/* SPDX-License-Identifier: BSD-2-Clause */
/* list.c -- walks through directories; list.h says what for */
#include "list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beneath.h"
#include "part.h"

struct cp_list {
	dev_t device; /* other file systems are left out */
	unsigned int depth;
	DIR *dirs[CP_DEPTH];      /* that are being read, the outermost first */
	size_t lengths[CP_DEPTH]; /* of their names */
	char name[CP_TEXT];       /* of the innermost one */
};

struct cp_list *cp_list_begin(int root, const char *name, struct stat *st)
{
	struct cp_list *list = calloc(1, sizeof(*list));
	int fd = cp_open_beneath(root, *name ? name : ".", O_RDONLY | O_DIRECTORY);
	int err = list ? errno : ENOMEM;

	if (list && fd >= 0) {
		list->dirs[0] = fstat(fd, st) ? NULL : fdopendir(fd);
		if (list->dirs[0]) {
			list->device = st->st_dev;
			list->depth = 1;
			return list;
		}
		err = errno;
	}
	if (fd >= 0)
		close(fd);
	free(list);
	errno = err;
	return NULL;
}

/* add -- there is room for as many as there may be */
static void add(const struct cp_list *list, struct cp_pack *pack, enum cp_kind kind,
		const struct stat *st)
{
	const struct cp_record record = {
		.kind = kind,
		.mode = st->st_mode & 07777,
		.size = (uint64_t) st->st_size,
		.mtime =
			(uint64_t) st->st_mtim.tv_sec * 1000000000 + (uint64_t) st->st_mtim.tv_nsec,
	};

	cp_pack_add(pack, &record, list->name);
}

/* enter -- a directory that has just been found in the innermost one */
static bool enter(struct cp_list *list, const char *base)
{
	int fd;

	if (list->depth == CP_DEPTH)
		return false;
	fd = openat(dirfd(list->dirs[list->depth - 1]), base,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	list->dirs[list->depth] = fd < 0 ? NULL : fdopendir(fd);
	if (!list->dirs[list->depth]) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	list->lengths[list->depth++] = strlen(list->name);
	return true;
}

/* leave -- the innermost directory, of which all was seen; the outermost has no name */
static unsigned int leave(struct cp_list *list, struct cp_pack *pack)
{
	struct stat st = {0};
	bool ends = --list->depth > 0 && !fstat(dirfd(list->dirs[list->depth]), &st);

	closedir(list->dirs[list->depth]);
	if (ends)
		add(list, pack, CP_DIRECTORY_END, &st);
	return ends;
}

/* find -- what has that name in the innermost directory: the number of records */
static unsigned int find(struct cp_list *list, struct cp_pack *pack, const char *base)
{
	size_t len = list->lengths[list->depth - 1], room = sizeof(list->name) - len;
	struct stat st = {0};
	bool there;

	if (!strcmp(base, ".") || !strcmp(base, "..") || cp_part_is_hidden(base))
		return 0;
	/* A name that is too long is cut, and left out. */
	there = snprintf(list->name + len, room, "%s%s", len ? "/" : "", base) < (int) room &&
		!fstatat(dirfd(list->dirs[list->depth - 1]), base, &st, AT_SYMLINK_NOFOLLOW) &&
		st.st_dev == list->device;
	if (there && S_ISDIR(st.st_mode))
		add(list, pack, enter(list, base) ? CP_DIRECTORY : CP_UNREAD, &st);
	else
		add(list, pack, there && S_ISREG(st.st_mode) ? CP_FILE : CP_LEFT_OUT, &st);
	return 1;
}

unsigned int cp_list_fill(struct cp_list *list, struct cp_pack *pack)
{
	unsigned int count = 0;

	/* A directory's end may be two records. */
	while (list->depth && count < CP_OFFERS - 1) {
		const struct stat nothing = {0};
		const struct dirent *found;

		errno = 0;
		found = readdir(list->dirs[list->depth - 1]);
		list->name[list->lengths[list->depth - 1]] = 0;
		if (found) {
			count += find(list, pack, found->d_name);
			continue;
		}
		if (errno) {
			add(list, pack, CP_UNREAD, &nothing);
			count++;
		}
		count += leave(list, pack);
	}
	return count;
}

void cp_list_end(struct cp_list *list)
{
	while (list && list->depth)
		closedir(list->dirs[--list->depth]);
	free(list);
}
