/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink.h -- makes the files and directories of packs below a directory, durably
 *
 * Files share flushes: all of a group are written to their hidden files (part.h), then made durable
 * together, then they get their names, then the directories are made durable.  A file gets its
 * name when it is durable, and never earlier.  What does for the group is syncfs on file systems of
 * which it is known, and an fsync of each file elsewhere.
 */
#ifndef CP_SINK_H
#define CP_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "pack.h"
#include "part.h"

/* So fails what is below a directory that could not be made. */
#define CP_NO_DIRECTORY "its directory is not there"

#define CP_SINK_DIRS 64

/* What an offer says of a record. */
#define CP_NOTHING '0' /* it has failed */
#define CP_WANTED '1'
#define CP_THERE '2' /* durably */
#define CP_MADE '3'  /* a directory, durably */

struct cp_sink_dir {
	char name[CP_TEXT];
	int fd;
	bool changed; /* it has to be synced */
	int err;
};

struct cp_sink_file {
	unsigned int record;
	int dir; /* of dirs; -1: it has failed, and was told of */
	uint64_t charged;
	bool ends; /* a directory that is complete: keep is for dir itself */
	struct cp_part part;
	struct cp_keep keep;
};

struct cp_sink {
	int root;
	uint64_t flags; /* CP_TIMES, CP_MODES; CP_RESTART: no file that is there is as good */
	/* Before anything of that size is written: 0, or an errno and a reason */
	int (*charge)(void *arg, uint64_t size, char *reason, size_t len);
	/* Of what was charged, and has failed */
	void (*refund)(void *arg, uint64_t size);
	/* Of each record that fails, once */
	void (*failed)(void *arg, unsigned int record, int err, const char *reason);
	/* Now and then: anything but 0 is the end */
	int (*tick)(void *arg, uint64_t done);
	void *arg;
	bool one_sync; /* of an offer: one syncfs does for what was found there */
	int found;     /* with it: the last file that was there, open; or -1 */
	bool over;     /* tick has said so */
	uint64_t done; /* as it is told: records, and syncs */
	int dir_err;   /* of a directory that could not be synced */
	unsigned int num_dirs, num_files;
	struct cp_sink_dir dirs[CP_SINK_DIRS];
	struct cp_sink_file files[CP_STORES];
};

/*
 * cp_sink_offer -- make a pack's directories, and say of each record what is to be done: a file
 * that is there with the same length and time (and permissions, with CP_MODES) is not wanted.
 * cp_sink_store -- make a pack's files
 *
 * 0: all is durable that was not told of as failed; or -1, it is no pack, or tick has ended it.
 */
int cp_sink_offer(struct cp_sink *sink, struct cp_pack *pack, unsigned int count,
		  char answer[CP_TEXT]);
int cp_sink_store(struct cp_sink *sink, struct cp_pack *pack, unsigned int count);

#endif /* CP_SINK_H */
