/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fetch.c -- gets a directory; fetch.h says what
 *
 * First the whole list, then each file of it by itself.  Names in the list are the target's word:
 * none leads out of the directory here.
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

enum { NO_DIRECTORY = 1, FAILED };

/* sync_path -- a file or directory; 0 or an errno */
static int sync_path(const char *path, const struct cp_keep *keep)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	int err = fd < 0 ? errno : cp_keep_apply(keep, fd);

	if (!err && fsync(fd))
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* sync_parent -- of a path: that something has its name there */
static int sync_parent(const char *path)
{
	const struct cp_keep nothing = {0};
	char *copy = strdup(path);
	int err = copy ? sync_path(dirname(copy), &nothing) : ENOMEM;

	free(copy);
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
		if (answer.type != CP_ANSWER || answer.size > CP_PACK_BYTES ||
		    answer.committed > CP_OFFERS)
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

static int get_file(struct cp_copy *copy, const char *name, const char *path)
{
	if ((copy->moving || copy->opens == CP_MAX_OPENS) && cp_connect_again(copy))
		return -1;
	copy->name = name;
	copy->path = path;
	if (!cp_copy_get(copy)) {
		copy->files++;
		copy->bytes += copy->size;
	} else
		copy->failed++;
	return copy->lost ? -1 : 0;
}

/* is_same -- as far as can be seen without reading it */
static bool is_same(const struct cp_copy *copy, const struct cp_record *record, const char *path)
{
	struct stat st;

	return !copy->restart && !lstat(path, &st) && S_ISREG(st.st_mode) &&
	       (uint64_t) st.st_size == record->size &&
	       (uint64_t) st.st_mtim.tv_sec * 1000000000 + (uint64_t) st.st_mtim.tv_nsec ==
		       record->mtime &&
	       (!(copy->keep & CP_MODES) || (st.st_mode & 0777) == (record->mode & 0777));
}

/* make_directory -- what is there may stay, if it is one */
static int make_directory(const char *path)
{
	struct stat st;
	int err = mkdir(path, 0777) ? errno : 0;

	if (err == EEXIST && !stat(path, &st))
		err = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
	return err ? err : sync_parent(path);
}

static int take_record(struct cp_copy *copy, const struct cp_record *record, const char *name,
		       const char *path)
{
	struct cp_keep keep = {.flags = copy->keep, .mode = record->mode, .mtime = record->mtime};
	int err = 0;

	switch (record->kind) {
	case CP_FILE:
		if (!is_same(copy, record, path))
			return get_file(copy, name, path);
		/* Nobody knows whether what is there is durable. */
		keep.flags = 0;
		err = sync_path(path, &keep);
		if (!err)
			err = sync_parent(path);
		copy->same += !err;
		break;
	case CP_DIRECTORY:
		err = make_directory(path);
		break;
	case CP_DIRECTORY_END:
		if (copy->keep & CP_MODES)
			err = sync_path(path, &keep);
		break;
	default:
		return failed(copy, name, "it is no plain file, and left out");
	}
	return err ? failed(copy, path, strerror(err)) : 0;
}

static int take_list(struct cp_copy *copy, const struct list *list, const char *name,
		     const char *path)
{
	struct cp_pack pack = {.memory = list->memory, .len = list->len};
	int ret = 0;

	for (unsigned int i = 0; !ret && i < list->count; i++) {
		char below[CP_TEXT], *here = NULL, *there = NULL;
		struct cp_record record;
		const char *data;

		if (cp_pack_next(&pack, &record, below, &data) || record.has_data ||
		    !is_below(below))
			return cp_interrupted(copy, "the target's list makes no sense");
		if (asprintf(&here, "%s/%s", path, below) < 0 ||
		    asprintf(&there, "%s%s%s", name, *name ? "/" : "", below) < 0)
			ret = cp_interrupted(copy, strerror(ENOMEM));
		else if (strlen(there) >= CP_TEXT)
			failed(copy, there, "the name is too long");
		else
			ret = take_record(copy, &record, there, here);
		free(here);
		free(there);
	}
	return ret;
}

int cp_fetch(struct cp_copy *copy, const char *name, const char *path)
{
	struct list list = {0};
	int ret = 0, err;

	/* The room is lent once for a connection. */
	if (copy->opens || copy->moving)
		ret = cp_connect_again(copy);
	if (!ret)
		ret = ask_list(copy, name, &list);
	copy->moving = false;
	if (ret == NO_DIRECTORY) {
		ret = get_file(copy, name, path);
	} else if (!ret) {
		err = make_directory(path);
		ret = err ? failed(copy, path, strerror(err)) : take_list(copy, &list, name, path);
		/* What is served as a whole goes into what is there. */
		if (!err && !ret && *name && copy->keep & CP_MODES) {
			err = sync_path(path, &list.keep);
			ret = err ? failed(copy, path, strerror(err)) : 0;
		}
	}
	free(list.memory);
	copy->opens = CP_MAX_OPENS;
	return ret < 0 ? ret : 0;
}
