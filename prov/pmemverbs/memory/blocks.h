/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * blocks.h -- which blocks of a file have to be written
 *
 * A range becomes whole blocks, since nothing smaller can be written.  Two ranges may have parts
 * of one block: it is written once for both.  Two writes of one block are never under way
 * together, because the older of two snapshots of the memory might come to the disk last.
 */
#ifndef PMV_BLOCKS_H
#define PMV_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/*
 * No device has larger sectors that Linux can write to.  Where they are smaller, neighbours are
 * written as they are on the disk already: if power is lost none of them changes.
 */
#define PMV_BLOCK ((uint64_t) 4096)

/* More runs that could not be written are joined, with what is between them. */
#define PMV_BAD_RUNS 64

/* Part of the memory, and of the file's part. */
struct pmv_blocks {
	uint64_t start;
	uint64_t end;
};

/* Blocks whose last write failed: what is on the disk there is unknown. */
struct pmv_bad {
	size_t count;
	struct pmv_blocks runs[PMV_BAD_RUNS];
};

/* pmv_blocks_of -- all blocks that a range has a part of; none for no byte */
struct pmv_blocks pmv_blocks_of(uint64_t offset, uint64_t len);

/*
 * pmv_blocks_join -- sort runs, leave out empty ones, and join those that overlap or touch;
 * returns how many are left
 */
size_t pmv_blocks_join(struct pmv_blocks *runs, size_t count);

/* pmv_bad_add -- never fails: of too many runs those with the smallest gap are joined */
void pmv_bad_add(struct pmv_bad *bad, struct pmv_blocks run);

#endif /* PMV_BLOCKS_H */
