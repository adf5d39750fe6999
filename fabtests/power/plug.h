/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plug.h -- a log that has to survive a power failure: what its target, its initiator and its
 * checker share
 *
 * The log is a page whose first 8 bytes are the tail, and a ring of slots:
 * record n, the first being 1, goes into slot (n - 1) % slots.  Of 16 records
 * 8 are commits of their own, several of them under way at a time ("ack n").
 * The other 8, those whose number has bit 3 set, are plain writes, each followed
 * by the tail, which gets their number in a fenced commit ("tail n").
 *
 * With more than one initiator (-n) each has a log of its own, and two logs are in one file.
 *
 * Functions that can fail return 0 or a negative fi_errno, and have printed what failed.
 */
#ifndef PMEM_PLUG_H
#define PMEM_PLUG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/options.h"

#define TAIL_ROOM 4096
#define MAX_WINDOW 64 /* nothing under way reaches the slot that the tail names */
#define MAX_SLOTS ((1 << 24) - 1)
#define MAX_LOGS 64
#define LOGS_OF_FILE 2

struct layout {
	uint64_t slots;
	uint64_t size; /* of a record */
	uint64_t window;
	uint64_t seed;
};

/* What the target tells when it accepts: verbs carries no more */
struct lease {
	uint64_t addr;
	uint64_t key;
	uint32_t size;
	unsigned int slots : 24;
	unsigned int log : 8;
};

size_t log_size(const struct layout *layout);

/* log_file_size -- of the file that this log is in */
size_t log_file_size(const struct layout *layout, const struct options *opts, size_t log);

/* log_offset -- where in its file */
size_t log_offset(const struct layout *layout, size_t log);

/* log_file -- that file: -M's, or with more than one client those beside it, PATH.0, ...; NULL:
 * none */
const char *log_file(const struct options *opts, size_t log, char room[PATH_MAX]);

/* layout_is_sane -- records start with their number, and 8 bytes are not torn */
bool layout_is_sane(const struct layout *layout);

/* is_fenced -- are records of this number plain writes, each followed by the tail? */
bool is_fenced(uint64_t number);

int be_target(const struct options *opts);
int be_initiator(const struct options *opts);
int be_checker(const struct options *opts);

#endif /* PMEM_PLUG_H */
