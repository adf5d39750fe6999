/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * part.h -- the hidden file that a copy is written to
 *
 * Until a copy is complete and durable it is in ".NAME.fi_pmem_cp", beside the file NAME
 * that it is to replace: the data, then the page with the state (proto.h).  At the end the
 * page is cut off, and the file gets its name, in one step.  One process at a time
 * has it, by flock.
 */
#ifndef CP_PART_H
#define CP_PART_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto.h"

#define CP_PART_SUFFIX ".fi_pmem_cp"

struct cp_part {
	int dir;
	int fd;
	char name[NAME_MAX + 1];
	char hidden[NAME_MAX + 1];
	struct cp_state state;
};

/* What the new file has of its source, by CP_TIMES and CP_MODES in flags. */
struct cp_keep {
	uint64_t flags;
	uint64_t mode;
	uint64_t mtime;
};

/* cp_keep_apply -- to an open file or directory.  0 or an errno. */
int cp_keep_apply(const struct cp_keep *keep, int fd);

/* cp_keep_begin -- the mode that a directory is made with: to be filled, and open to nobody else */
mode_t cp_keep_begin(uint64_t flags, uint64_t mode);

/*
 * cp_still_works -- does the file system take a change, and make it durable?  One that has given up
 * tells of that once; from then on syncs of what was never written succeed.  EIO, EROFS or 0.
 */
int cp_still_works(int dir);

/* cp_part_is_hidden -- is this the name of such a file? */
bool cp_part_is_hidden(const char *name);

/*
 * cp_part_open -- the hidden file for NAME in the directory: what an interrupted copy of the same
 * source has left, unless CP_RESTART, or a new one.  With CP_MODES nobody else may open it.  All of
 * its blocks are there.  0 or an errno: EBUSY, somebody else has it; ENOTSUP, NAME is there and no
 * plain file.
 */
int cp_part_open(struct cp_part *part, int dir, const char *name, uint64_t size, uint64_t mtime,
		 uint64_t flags);

/* cp_part_create -- an empty hidden file, of which nothing is durable; else the same */
int cp_part_create(struct cp_part *part, int dir, const char *name, uint64_t flags);

/* cp_part_save -- everything up to there is durable: let the state say so.  0 or an errno. */
int cp_part_save(struct cp_part *part, uint64_t committed, const uint8_t *digest);

/* cp_part_finish -- make it durable and give it its name.  0 or an errno. */
int cp_part_finish(struct cp_part *part, const struct cp_keep *keep);

/* cp_part_name -- it is durable: give it its name.  0 or an errno. */
int cp_part_name(struct cp_part *part);

/* cp_part_discard -- what is in it is wrong: the next copy starts over */
void cp_part_discard(struct cp_part *part);

void cp_part_close(struct cp_part *part);

#endif /* CP_PART_H */
