/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tree.c -- puts many files; tree.h says how
 *
 * What is found is collected in a list.  The target is offered the list, makes its directories, and
 * says which files it wants.  These are sent, and the next list begins when all are durable.
 */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"
#include "pack.h"
#include "sink.h"

struct entry {
	char *path;
	char *name;
	bool follow; /* it was named by who has called, and may be a symbolic link */
	bool failed;
	struct cp_record record;
};

struct slot {
	struct cp_pack pack;
	unsigned int count;
	unsigned int entries[CP_STORES];
	bool under_way;
};

struct tree {
	struct cp_copy *copy;
	const char *name;
	struct cp_message room;
	struct slot slots[CP_PACK_SLOTS];
	unsigned int at; /* the slot that is filled */
	unsigned int count;
	struct entry entries[CP_OFFERS];
	char missing[CP_TEXT]; /* the last directory that failed: what lacks it is only counted */
};

static void fail_here(struct tree *tree, const char *path, const char *why)
{
	cp_fail(path, why);
	tree->copy->failed++;
}

static int open_room(struct tree *tree)
{
	tree->copy->name = tree->name;
	for (unsigned int i = 0; i < CP_PACK_SLOTS; i++) {
		tree->slots[i].pack = (struct cp_pack){
			.memory = tree->copy->link.data + i * CP_PACK_BYTES, .len = CP_PACK_BYTES};
	}
	return cp_ask(tree->copy, &(struct cp_message){.type = CP_ROOM}, &tree->room);
}

/* ---- packs ---- */

static void reset(struct slot *slot)
{
	slot->pack.used = 0;
	slot->count = 0;
	slot->under_way = false;
}

/* send_pack -- the first so many records of a slot */
static int send_pack(struct tree *tree, enum cp_type type, const struct slot *slot)
{
	struct cp_copy *copy = tree->copy;
	struct cp_message request = {
		.type = type,
		.flags = copy->keep | (copy->restart ? CP_RESTART : 0),
		.addr = (uint64_t) (slot - tree->slots) * CP_PACK_BYTES,
		.size = slot->pack.used,
		.committed = slot->count,
	};

	copy->lease = tree->room;
	for (size_t at = 0, len; at < slot->pack.used; at += len) {
		len = slot->pack.used - at < copy->chunk ? slot->pack.used - at : copy->chunk;
		if (cp_post(copy, true, slot->pack.memory + at, len, request.addr + at, 0, NULL))
			return -1;
	}
	return cp_request(copy, &request);
}

/* tell_failure -- once of a directory and all that can't be there without it */
static void tell_failure(struct tree *tree, const struct entry *entry, const char *why)
{
	size_t len = strlen(tree->missing);

	tree->copy->failed++;
	if (len && !strncmp(entry->name, tree->missing, len) && entry->name[len] == '/' &&
	    !strcmp(why, CP_NO_DIRECTORY))
		return;
	cp_fail_there(entry->name, why);
	if (entry->record.kind == CP_DIRECTORY)
		strcpy(tree->missing, entry->name);
}

/* take_failure -- of one record */
static int take_failure(struct tree *tree, const struct cp_message *message,
			const unsigned int *entries, unsigned int count)
{
	struct entry *entry;

	if (message->type != CP_FAILED || message->sequence >= count)
		return cp_interrupted(tree->copy, "the target's answer makes no sense");
	entry = &tree->entries[entries ? entries[message->sequence] : message->sequence];
	if (!entry->failed)
		tell_failure(tree, entry, message->text);
	entry->failed = true;
	return 0;
}

/* take_answer -- to the oldest pack, of these entries or (NULL) of the whole list */
static int take_answer(struct tree *tree, struct cp_message *answer, const unsigned int *entries,
		       unsigned int count)
{
	/* Each record fails once. */
	for (unsigned int i = 0; i <= count; i++) {
		if (cp_await_answer(tree->copy, answer))
			return -1;
		if (answer->type == CP_ANSWER && !answer->status)
			return 0;
		if (take_failure(tree, answer, entries, count))
			return -1;
	}
	return cp_interrupted(tree->copy, "the target's answer makes no sense");
}

/* conclude -- what was sent in a slot is durable */
static int conclude(struct tree *tree, struct slot *slot)
{
	struct cp_message answer;

	if (slot->under_way && take_answer(tree, &answer, slot->entries, slot->count))
		return -1;
	for (unsigned int i = 0; slot->under_way && i < slot->count; i++) {
		const struct entry *entry = &tree->entries[slot->entries[i]];

		if (!entry->failed && entry->record.kind == CP_FILE) {
			tree->copy->files++;
			tree->copy->bytes += entry->record.size;
		}
	}
	reset(slot);
	return 0;
}

/* submit -- the slot that is filled; the next one is free then */
static int submit(struct tree *tree)
{
	struct slot *slot = &tree->slots[tree->at];

	if (!slot->count)
		return 0;
	if (send_pack(tree, CP_STORE, slot))
		return -1;
	slot->under_way = true;
	tree->at = (tree->at + 1) % CP_PACK_SLOTS;
	return conclude(tree, &tree->slots[tree->at]);
}

/* drain -- nothing is under way */
static int drain(struct tree *tree)
{
	if (submit(tree))
		return -1;
	for (unsigned int i = 1; i <= CP_PACK_SLOTS; i++) {
		if (conclude(tree, &tree->slots[(tree->at + i) % CP_PACK_SLOTS]))
			return -1;
	}
	return 0;
}

/* place -- for a record and its data; NULL: the connection is lost */
static char *place(struct tree *tree, const struct entry *entry, uint64_t size)
{
	struct slot *slot = &tree->slots[tree->at];
	char *data = slot->count < CP_STORES ? cp_pack_place(&slot->pack, entry->name, size) : NULL;

	if (data || submit(tree))
		return data;
	return cp_pack_place(&tree->slots[tree->at].pack, entry->name, size);
}

static void add_to_pack(struct tree *tree, struct entry *entry)
{
	struct slot *slot = &tree->slots[tree->at];

	cp_pack_add(&slot->pack, &entry->record, entry->name);
	slot->entries[slot->count++] = (unsigned int) (entry - tree->entries);
}

/* ---- files ---- */

static void describe(struct cp_record *record, const struct stat *st)
{
	record->mode = st->st_mode & 07777;
	record->size = (uint64_t) st->st_size;
	record->mtime = (uint64_t) st->st_mtim.tv_sec * 1000000000 + (uint64_t) st->st_mtim.tv_nsec;
}

/* read_file -- all of it: 0 or an errno; ESTALE if it changes meanwhile */
static int read_file(int fd, struct cp_record *record, char *data)
{
	struct cp_record after = *record;
	struct stat st;

	for (uint64_t at = 0; at < record->size;) {
		ssize_t ret = pread(fd, data + at, record->size - at, (off_t) at);

		if (ret < 0 && errno != EINTR)
			return errno;
		if (!ret)
			return ESTALE;
		at += ret > 0 ? (uint64_t) ret : 0;
	}
	if (fstat(fd, &st))
		return errno;
	describe(&after, &st);
	if (after.size != record->size || after.mtime != record->mtime)
		return ESTALE;
	cp_digest(data, record->size, record->digest);
	return 0;
}

static int put_small(struct tree *tree, struct entry *entry)
{
	const int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | (entry->follow ? 0 : O_NOFOLLOW);
	int fd = open(entry->path, flags), err;
	struct stat st = {0};
	char *data;

	err = fd < 0 || fstat(fd, &st) ? errno : 0;
	if (!err) {
		describe(&entry->record, &st);
		err = !S_ISREG(st.st_mode) || entry->record.size > CP_SMALL ? ESTALE : 0;
	}
	if (!err) {
		data = place(tree, entry, entry->record.size);
		if (!data) {
			close(fd);
			return -1;
		}
		err = read_file(fd, &entry->record, data);
	}
	if (fd >= 0)
		close(fd);
	if (err) {
		fail_here(tree, entry->path,
			  err == ESTALE ? "it has changed while it was copied" : strerror(err));
		return 0;
	}
	entry->record.has_data = 1;
	add_to_pack(tree, entry);
	return 0;
}

static int put_large(struct tree *tree, const struct entry *entry)
{
	struct cp_copy *copy = tree->copy;

	if (drain(tree))
		return -1;
	/* A file may be opened four times, if what is there is of no use. */
	if (copy->opens + 4 > CP_MAX_OPENS && (cp_connect_again(copy) || open_room(tree)))
		return -1;
	copy->name = entry->name;
	copy->path = entry->path;
	copy->moving = false;
	if (!cp_copy_put(copy)) {
		copy->files++;
		copy->bytes += copy->size;
	} else {
		copy->failed++;
		if (!copy->lost && copy->moving && (cp_connect_again(copy) || open_room(tree)))
			return -1;
	}
	copy->name = tree->name;
	return copy->lost ? -1 : 0;
}

/* ---- lists ---- */

/* offer -- the list: the answer's text says what of it is wanted */
static int offer(struct tree *tree, struct cp_message *answer)
{
	struct slot *slot = &tree->slots[tree->at];

	for (slot->count = 0; slot->count < tree->count; slot->count++) {
		const struct entry *entry = &tree->entries[slot->count];

		cp_pack_add(&slot->pack, &entry->record, entry->name);
	}
	if (send_pack(tree, CP_OFFER, slot) || take_answer(tree, answer, NULL, tree->count))
		return -1;
	reset(slot);
	return strlen(answer->text) == tree->count
		       ? 0
		       : cp_interrupted(tree->copy, "the target's answer makes no sense");
}

/* put_entry -- what the target has said of it is wanted */
static int put_entry(struct tree *tree, struct entry *entry, char wanted)
{
	struct cp_copy *copy = tree->copy;

	if (entry->failed || entry->record.kind == CP_DIRECTORY)
		return 0;
	if (wanted != CP_WANTED) {
		copy->same++;
		return 0;
	}
	if (entry->record.kind == CP_FILE)
		return entry->record.size > CP_SMALL ? put_large(tree, entry)
						     : put_small(tree, entry);
	if (!place(tree, entry, 0))
		return -1;
	add_to_pack(tree, entry);
	return 0;
}

static void forget(struct tree *tree)
{
	for (unsigned int i = 0; i < tree->count; i++) {
		free(tree->entries[i].path);
		free(tree->entries[i].name);
	}
	tree->count = 0;
}

/* put_list -- and begin another one */
static int put_list(struct tree *tree)
{
	struct cp_message answer;
	int ret = tree->count ? offer(tree, &answer) : 0;

	for (unsigned int i = 0; !ret && i < tree->count; i++)
		ret = put_entry(tree, &tree->entries[i], answer.text[i]);
	if (!ret)
		ret = drain(tree);
	forget(tree);
	return ret;
}

/* add -- to the list; what follows base in the name is below what the source is called there */
static int add(struct tree *tree, const char *path, const char *top, const char *below,
	       enum cp_kind kind, const struct stat *st)
{
	struct entry *entry = &tree->entries[tree->count];

	*entry = (struct entry){.follow = !*below, .record = {.kind = kind}};
	describe(&entry->record, st);
	if (!*top && *below == '/')
		below++;
	entry->path = strdup(path);
	if (asprintf(&entry->name, "%s%s", top, below) < 0)
		entry->name = NULL;
	if (!entry->path || !entry->name || strlen(entry->name) >= CP_TEXT) {
		fail_here(tree, path, entry->name ? "the name is too long" : strerror(ENOMEM));
		free(entry->path);
		free(entry->name);
		return 0;
	}
	tree->count++;
	if (tree->count == CP_OFFERS)
		return put_list(tree);
	return cp_breathe(tree->copy, 0);
}

/* check_read -- fts takes an error of readdir for a directory's end */
static void check_read(struct tree *tree, const char *path)
{
	DIR *dir = opendir(path);

	errno = 0;
	while (dir && readdir(dir))
		errno = 0;
	if (dir && errno)
		fail_here(tree, path, strerror(errno));
	if (dir)
		closedir(dir);
}

static int take_found(struct tree *tree, FTS *fts, FTSENT *found, const char *top, size_t skip)
{
	const char *below = found->fts_path + skip;
	bool deep = found->fts_level >= CP_DEPTH;

	switch (found->fts_info) {
	case FTS_F:
		return add(tree, found->fts_path, top, below, CP_FILE, found->fts_statp);
	case FTS_D:
	case FTS_DP:
		if (found->fts_info == FTS_DP)
			check_read(tree, found->fts_path);
		/* What is served is there, and not ours. */
		if (deep && found->fts_info == FTS_D) {
			fail_here(tree, found->fts_path, "directories are nested too deep");
			fts_set(fts, found, FTS_SKIP);
		}
		if (deep || (!*top && !*below) ||
		    (found->fts_info == FTS_DP && !(tree->copy->keep & CP_MODES)))
			return 0;
		return add(tree, found->fts_path, top, below,
			   found->fts_info == FTS_D ? CP_DIRECTORY : CP_DIRECTORY_END,
			   found->fts_statp);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		fail_here(tree, found->fts_path, strerror(found->fts_errno));
		return 0;
	default:
		fail_here(tree, found->fts_path, "it is no plain file, and left out");
		return 0;
	}
}

static int in_order(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* walk -- a directory and all below it */
static int walk(struct tree *tree, char *source, const char *top)
{
	char *const roots[] = {source, NULL};
	FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, in_order);
	FTSENT *found;
	int ret = 0;

	if (!fts) {
		fail_here(tree, source, strerror(errno));
		return 0;
	}
	while (!ret && (errno = 0, found = fts_read(fts)))
		ret = take_found(tree, fts, found, top, strlen(source));
	if (!ret && errno)
		fail_here(tree, source, strerror(errno));
	fts_close(fts);
	return ret;
}

/* name_there -- what a source is called at the target, in memory of its own; NULL: it was told */
static char *name_there(struct tree *tree, char *source, const char *name)
{
	size_t len = strlen(name);
	char *copy = strdup(source), *there = NULL;
	const char *last = copy ? basename(copy) : NULL;

	if (last && (!strcmp(last, "..") || !strcmp(last, "/"))) {
		fail_here(tree, source, "it has no name that could be taken");
		free(copy);
		return NULL;
	}
	if (last && len && name[len - 1] != '/')
		there = strdup(name);
	else if (last && !strcmp(last, "."))
		there = strndup(name, len ? len - 1 : 0);
	else if (last && asprintf(&there, "%s%s", name, last) < 0)
		there = NULL;
	if (!there)
		fail_here(tree, source, strerror(ENOMEM));
	free(copy);
	return there;
}

static int put_source(struct tree *tree, char *source, const char *name, bool recursive)
{
	size_t len = strlen(source);
	struct stat st;
	char *top;
	int ret = 0;

	while (len > 1 && source[len - 1] == '/')
		source[--len] = 0;
	top = name_there(tree, source, name);
	if (!top)
		return 0;
	if (stat(source, &st))
		fail_here(tree, source, strerror(errno));
	else if (S_ISDIR(st.st_mode) && recursive)
		ret = walk(tree, source, top);
	else if (S_ISREG(st.st_mode))
		ret = add(tree, source, top, "", CP_FILE, &st);
	else
		fail_here(tree, source,
			  S_ISDIR(st.st_mode) ? CP_IS_DIRECTORY : "it is no plain file");
	free(top);
	return ret;
}

int cp_tree_put(struct cp_copy *copy, char *const *sources, size_t count, const char *name,
		bool recursive)
{
	struct tree *tree = calloc(1, sizeof(*tree));
	int ret;

	if (!tree)
		return cp_fail("sources", strerror(ENOMEM));
	tree->copy = copy;
	tree->name = *name ? name : "files";
	ret = open_room(tree);
	for (size_t i = 0; !ret && i < count; i++)
		ret = put_source(tree, sources[i], name, recursive);
	if (!ret)
		ret = put_list(tree);
	forget(tree);
	free(tree);
	return ret || copy->failed ? -1 : 0;
}
