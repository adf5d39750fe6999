/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * block_writer.h -- writes runs of blocks from memory to a file, past the page cache
 *
 * All writes of a call are under way together, by io_uring; where the kernel has none, or the
 * build, or it fails, they follow one another.  When the call returns none is under way any more:
 * the kernel does not read the memory then.
 *
 * A write is durable by itself (RWF_DSYNC) if the drive can do that (FUA), or if there is no other
 * one.  Else one flush of the drive's cache (fdatasync) follows all of them.  The kernel decides
 * what is needed; what the caller knows of the drive only makes it faster.
 */
#ifndef PMV_BLOCK_WRITER_H
#define PMV_BLOCK_WRITER_H

#include <stdbool.h>
#include <sys/types.h>

#include "memory/blocks.h"

struct pmv_ring;

/* One caller at a time. */
struct pmv_block_writer {
	int fd; /* opened with O_DIRECT */
	bool fua;
	char *memory;
	off_t offset;          /* of what is at the start of the memory */
	struct pmv_ring *ring; /* io_uring's, or NULL */
};

/* pmv_block_writer_init -- never fails: io_uring may be missing */
void pmv_block_writer_init(struct pmv_block_writer *writer);
void pmv_block_writer_destroy(struct pmv_block_writer *writer);

/*
 * pmv_block_writer_write -- runs that pmv_blocks_join has returned.  0: all of them are durable.
 * Else a negative errno, and those that may not be durable are added to `bad`.
 */
int pmv_block_writer_write(struct pmv_block_writer *writer, const struct pmv_blocks *runs,
			   size_t count, struct pmv_bad *bad);

#endif /* PMV_BLOCK_WRITER_H */
