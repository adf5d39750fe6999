/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fetch.c -- gets a directory; fetch.h says what
 *
 * First the whole list, then each file of it by itself.  Names in the list are the target's word:
 * none leads out of the directory here, not through a symbolic link either.
 */
#include "fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beneath.h"
#include "copy.h"
#include "pack.h"
#include "part.h"

/* The names of ten million files; a target may list for ever. */
#define LIST_BYTES ((size_t) 1 << 30)

struct list {
	char *memory;
	size_t len;
	unsigned int count;  /* of records */
	struct cp_keep keep; /* of the directory itself */
};

/* What a record is about. */
struct found {
	const char *name; /* at the target */
	const char *path; /* here */
	int dir;
	const char *base; /* in that directory */
};

enum { NO_DIRECTORY = 1, FAILED };

#define OPEN_FOUND (O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)

/* sync_at -- a directory that is complete; 0 or an errno */
static int sync_at(int dir, const char *name, const struct cp_keep *keep)
{
	int fd = openat(dir, name, OPEN_FOUND);
	int err = fd < 0 ? errno : cp_keep_apply(keep, fd);

	if (!err && fsync(fd))
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* is_below -- is every part of the name one of something below? */
static bool is_below(const char *name)
{
	for (const char *part = name;; part = strchr(part, '/') + 1) {
		size_t len = strcspn(part, "/");

		if (!len || (len == 1 && *part == '.') || (len == 2 && !strncmp(part, "..", 2)))
			return false;
		if (!part[len])
			return true;
	}
}

static int failed(struct cp_copy *copy, const char *what, const char *why)
{
	copy->failed++;
	cp_fail(what, why);
	return 0;
}

/* ---- the list ---- */

/* read_pack -- so many bytes of the room to the end of the list */
static int read_pack(struct cp_copy *copy, const struct cp_message *answer, struct list *list)
{
	char *memory;

	if (list->len > LIST_BYTES)
		return cp_interrupted(copy, "the target's list has no end");
	memory = realloc(list->memory, list->len + answer->size);
	if (!memory)
		return cp_interrupted(copy, strerror(ENOMEM));
	list->memory = memory;
	for (size_t at = 0, len; at < answer->size; at += len) {
		struct cp_op op = {0};

		len = answer->size - at < copy->chunk ? answer->size - at : copy->chunk;
		if (cp_post(copy, false, copy->link.data, len, at, FI_COMPLETION, &op) ||
		    cp_wait(copy, &op))
			return -1;
		memcpy(memory + list->len + at, copy->link.data, len);
	}
	list->len += answer->size;
	list->count += (unsigned int) answer->committed;
	return 0;
}

/* ask_list -- NO_DIRECTORY, and FAILED: that was told */
static int ask_list(struct cp_copy *copy, const char *name, struct list *list)
{
	struct cp_message request = {.type = CP_LIST, .flags = CP_RESTART}, answer, room;

	copy->name = *name ? name : "files";
	if (cp_ask(copy, &(struct cp_message){.type = CP_ROOM, .flags = CP_READING}, &room))
		return -1;
	copy->lease = room;
	snprintf(request.text, sizeof(request.text), "%s", name);
	for (;;) {
		if (cp_request(copy, &request) || cp_await_answer(copy, &answer))
			return -1;
		/* What is told of without a byte of it might go on for ever. */
		if (answer.type != CP_ANSWER || answer.size > CP_PACK_BYTES ||
		    answer.committed > CP_OFFERS ||
		    answer.size < answer.committed * sizeof(struct cp_record))
			return cp_interrupted(copy, "the target's answer makes no sense");
		if (answer.status == ENOTDIR)
			return NO_DIRECTORY;
		if (answer.status) {
			failed(copy, copy->name, answer.text);
			return FAILED;
		}
		if (request.flags)
			list->keep = (struct cp_keep){
				.flags = copy->keep, .mode = answer.mode, .mtime = answer.mtime};
		if (!answer.committed)
			return 0;
		if (read_pack(copy, &answer, list))
			return -1;
		request.flags = 0;
	}
}

/* ---- what is in it ---- */

/* get_file -- into a directory, or (AT_FDCWD) to where its path says */
static int get_file(struct cp_copy *copy, const char *name, const char *path, int dir)
{
	if ((copy->moving || copy->opens == CP_MAX_OPENS) && cp_connect_again(copy))
		return -1;
	copy->name = name;
	copy->path = path;
	if (!cp_copy_get(copy, dir)) {
		copy->files++;
		copy->bytes += copy->size;
	} else
		copy->failed++;
	return copy->lost ? -1 : 0;
}

/* is_same -- as far as can be seen without reading it */
static bool is_same(const struct cp_copy *copy, const struct cp_record *record,
		    const struct found *found)
{
	struct stat st;

	return !copy->restart && !fstatat(found->dir, found->base, &st, AT_SYMLINK_NOFOLLOW) &&
	       S_ISREG(st.st_mode) && (uint64_t) st.st_size == record->size &&
	       (uint64_t) st.st_mtim.tv_sec * 1000000000 + (uint64_t) st.st_mtim.tv_nsec ==
		       record->mtime &&
	       (!(copy->keep & CP_MODES) || (st.st_mode & 0777) == (record->mode & 0777));
}

/* make_directory -- what is there may stay, if it is one; 0 or an errno */
static int make_directory(const struct found *found, mode_t mode)
{
	struct stat st;
	int err = mkdirat(found->dir, found->base, mode) ? errno : 0;

	if (err == EEXIST && !fstatat(found->dir, found->base, &st, AT_SYMLINK_NOFOLLOW))
		err = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
	if (!err && fsync(found->dir))
		err = errno;
	return err;
}

/* sync_found -- a file that is there; 0 or an errno */
static int sync_found(struct cp_copy *copy, const struct found *found)
{
	int fd = openat(found->dir, found->base, OPEN_FOUND), err;

	if (fd < 0)
		return errno;
	cp_kept_look(&copy->kept, fd);
	err = fsync(fd) ? errno : 0;
	close(fd);
	return err;
}

static int take_file(struct cp_copy *copy, const struct cp_record *record,
		     const struct found *found)
{
	/*
	 * Nobody knows whether what is there is durable.  An error is told once: the file is got
	 * again, or it would be taken for good the next time.
	 */
	if (!is_same(copy, record, found) || sync_found(copy, found) || fsync(found->dir))
		return get_file(copy, found->name, found->path, found->dir);
	copy->same++;
	return 0;
}

/* ask_named -- what a file is whose name and size no list has told; then take it */
static int ask_named(struct cp_copy *copy, const struct found *found)
{
	struct cp_message request = {.type = CP_GET};
	struct cp_record record = {.kind = CP_FILE};

	copy->name = found->name;
	snprintf(request.text, sizeof(request.text), "%s", found->name);
	copy->opens++;
	if (cp_ask(copy, &request, &copy->lease)) {
		copy->failed++;
		return copy->lost ? -1 : 0;
	}
	record.size = copy->lease.size;
	record.mtime = copy->lease.mtime;
	record.mode = copy->lease.mode;
	return take_file(copy, &record, found);
}

/* take_named -- a file that the command line names; there is nothing to ask if none is here */
static int take_named(struct cp_copy *copy, const char *name, const char *path)
{
	char *parent = strdup(path), *last = strdup(path);
	struct found found = {.name = name, .path = path, .dir = -1};
	struct stat st;
	int ret;

	if (parent && last) {
		found.base = basename(last);
		found.dir = open(dirname(parent), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (found.dir < 0 || fstatat(found.dir, found.base, &st, AT_SYMLINK_NOFOLLOW))
		ret = get_file(copy, name, path, AT_FDCWD);
	else
		ret = ask_named(copy, &found);
	if (found.dir >= 0)
		close(found.dir);
	free(parent);
	free(last);
	return ret;
}

static int take_record(struct cp_copy *copy, const struct cp_record *record,
		       const struct found *found)
{
	const struct cp_keep keep = {
		.flags = copy->keep, .mode = record->mode, .mtime = record->mtime};
	int err = 0;

	switch (record->kind) {
	case CP_FILE:
		return take_file(copy, record, found);
	case CP_DIRECTORY:
		err = make_directory(found, cp_keep_begin(copy->keep, record->mode));
		break;
	case CP_DIRECTORY_END:
		if (copy->keep & CP_MODES)
			err = sync_at(found->dir, found->base, &keep);
		break;
	default:
		return failed(copy, found->name, "it is no plain file, and left out");
	}
	return err ? failed(copy, found->path, strerror(err)) : 0;
}

/* take_below -- a record, if what is here leads to it */
static int take_below(struct cp_copy *copy, const struct cp_record *record, int root,
		      const char *below, struct found *found)
{
	char dir[CP_TEXT];
	const char *reason = cp_split_name(below, dir, &found->base);
	int ret;

	if (reason)
		return failed(copy, found->name, reason);
	found->dir = cp_open_beneath(root, dir, O_RDONLY | O_DIRECTORY);
	if (found->dir < 0)
		return failed(copy, found->path,
			      errno == ELOOP || errno == EXDEV
				      ? "its directory leads out of the destination"
				      : cp_refused_open(errno));
	ret = take_record(copy, record, found);
	close(found->dir);
	return ret;
}

static int take_list(struct cp_copy *copy, const struct list *list, const char *name,
		     const char *path, int root)
{
	struct cp_pack pack = {.memory = list->memory, .len = list->len};
	int ret = 0;

	for (unsigned int i = 0; !ret && i < list->count; i++) {
		char below[CP_TEXT], *here = NULL, *there = NULL;
		struct cp_record record;
		const char *data;

		if (cp_pack_next(&pack, &record, below, &data) || record.has_data ||
		    (!is_below(below) && (*below || record.kind != CP_UNREAD)))
			return cp_interrupted(copy, "the target's list makes no sense");
		if (asprintf(&here, "%s/%s", path, below) < 0 ||
		    asprintf(&there, "%s%s%s", name, *name ? "/" : "", below) < 0)
			ret = cp_interrupted(copy, strerror(ENOMEM));
		else if (strlen(there) >= CP_TEXT)
			failed(copy, there, "the name is too long");
		else if (record.kind == CP_UNREAD)
			failed(copy, there, "the target can't read all of this directory");
		else
			ret = take_below(copy, &record, root, below,
					 &(struct found){.name = there, .path = here});
		/* Syncs take long: the target is told that this side is at work. */
		if (!ret)
			ret = cp_breathe(copy, 0);
		free(here);
		free(there);
	}
	return ret;
}

/* open_destination -- made if need be; it may be a link, as the caller has named it */
static int open_destination(const char *path, mode_t mode, int *root)
{
	char *copy = strdup(path);
	int parent = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int err = copy ? (parent < 0 ? errno : 0) : ENOMEM;

	if (!err && mkdir(path, mode) && errno != EEXIST)
		err = errno;
	if (!err && fsync(parent))
		err = errno;
	if (!err) {
		*root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = *root < 0 ? errno : 0;
	}
	if (parent >= 0)
		close(parent);
	free(copy);
	return err;
}

/* take_all -- what is listed, into a directory here */
static int take_all(struct cp_copy *copy, const struct list *list, const char *name,
		    const char *path)
{
	mode_t mode = cp_keep_begin(*name ? copy->keep : 0, list->keep.mode);
	int root = -1, err = open_destination(path, mode, &root), ret = 0;

	if (!err) {
		cp_kept_look(&copy->kept, root);
		ret = take_list(copy, list, name, path, root);
	}
	if (!err && !ret)
		err = cp_still_works(root);
	/* What is served as a whole goes into what is there. */
	if (!err && !ret && *name && copy->keep & CP_MODES) {
		err = cp_keep_apply(&list->keep, root);
		if (!err && fsync(root))
			err = errno;
	}
	if (root >= 0)
		close(root);
	return err ? failed(copy, path, strerror(err)) : ret;
}

int cp_fetch(struct cp_copy *copy, const char *name, const char *path)
{
	struct list list = {0};
	int ret = 0;

	/* The room is lent once for a connection. */
	if (copy->opens || copy->moving)
		ret = cp_connect_again(copy);
	if (!ret)
		ret = ask_list(copy, name, &list);
	copy->moving = false;
	if (ret == NO_DIRECTORY)
		ret = take_named(copy, name, path);
	else if (!ret)
		ret = take_all(copy, &list, name, path);
	free(list.memory);
	copy->opens = CP_MAX_OPENS;
	return ret < 0 ? ret : 0;
}
