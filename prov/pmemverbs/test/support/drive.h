/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drive.h -- a drive that fails when a test wants it to
 *
 * A program that links drive.c has pmv_ring_write, pmv_ring_open, pwritev2, fdatasync and fstatfs
 * wrapped.  Writes go to the kernel all the same, unless they are to fail.
 */
#ifndef DRIVE_H
#define DRIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/direct.h"

#define DRIVE_BLOCKS 64

struct drive {
	bool no_ring;
	unsigned long magic;      /* of its file system; 0: the one that it has */
	int errors[DRIVE_BLOCKS]; /* of a write with that block: an errno; -1: it comes back short
				   */
	bool once;                /* such an error is over when it has been told */
	int flush_error;          /* errno */
	bool ring_fails;          /* it takes no write */
	/* What was done. */
	unsigned int writes[DRIVE_BLOCKS]; /* of a block */
	unsigned int calls;                /* writes of one or more blocks */
	unsigned int rings;                /* that were handed over together */
	unsigned int flushes;
	unsigned int durable; /* writes that need no flush */
	atomic_uint now;      /* of single writes, under way */
	unsigned int most;    /* of them together */
};

extern struct drive drive;

/* drive_forget -- what was done, and what is to fail */
void drive_forget(void);

/*
 * drive_open -- a new file of that many blocks below the current directory, in the place of any
 * that is there; the test is skipped where no disk is
 */
struct pmv_direct *drive_open(uint64_t blocks);

/* drive_path -- of that file */
const char *drive_path(void);

/* drive_close -- and remove it */
void drive_close(struct pmv_direct *direct);

/* drive_has -- is what the memory has in a range in the file, too, read by a tool's means? */
bool drive_has(const struct pmv_direct *direct, uint64_t offset, uint64_t len);

#endif /* DRIVE_H */
