/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * direct.h -- memory with a file behind it
 *
 * The memory is anonymous: any NIC can pin it, and nothing can take its pages away.  It has what
 * is in the file, and is the truth as long as the file is open: the file gets blocks of it, past
 * the page cache (block_writer.h).
 *
 * Nobody else may have the file open for the same purpose: a lock of the open file description
 * keeps others out, also in this process.
 *
 * A block whose write has failed is bad until a later write of it succeeds.  Each call writes the
 * bad blocks again, too, and succeeds only if none is left.  So whoever is told of success knows
 * that everything is on the disk that was to be, also what an earlier call could not write.
 *
 * All of the file is written once when it is opened, if it has not been: so no later write has to
 * change what the file system keeps of it.
 */
#ifndef PMV_DIRECT_H
#define PMV_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "memory/blocks.h"
#include "memory/mapping.h"

/* So many ranges can be written together. */
#define PMV_DIRECT_RANGES 64

struct pmv_direct;

struct pmv_direct_attr {
	const char *path;
	uint64_t offset;
	uint64_t len; /* 0: up to the end */
	bool create;
	bool exclusive;
	unsigned int mode;
};

/* pmv_direct_open -- 0 or a negative fi_errno; then mem->what says why */
int pmv_direct_open(const struct pmv_direct_attr *attr, struct pmv_direct **direct,
		    struct pmv_mem *mem);

/* pmv_direct_close -- -FI_EBUSY: somebody holds it */
int pmv_direct_close(struct pmv_direct *direct);

/* pmv_direct_memory -- of an open file */
struct iovec pmv_direct_memory(const struct pmv_direct *direct);

/*
 * pmv_direct_hold -- *direct: the file behind all of a region, held until pmv_direct_put; NULL: no
 * part of it is such memory.  -FI_EINVAL: only part of it is, or it has several parts.
 */
int pmv_direct_hold(const struct iovec *iov, size_t count, struct pmv_direct **direct,
		    struct pmv_mem *mem);
void pmv_direct_put(struct pmv_direct *direct);

/* pmv_direct_disk -- where it is written to: disk.h */
uint64_t pmv_direct_disk(const struct pmv_direct *direct);

/*
 * pmv_direct_write -- make ranges of the memory durable: at most PMV_DIRECT_RANGES, also empty
 * ones.  0 or -FI_EIO.
 */
int pmv_direct_write(struct pmv_direct *direct, const struct iovec *ranges, size_t count);

/* pmv_direct_is_bad -- something that was to be on the disk is not */
bool pmv_direct_is_bad(const struct pmv_direct *direct);

#endif /* PMV_DIRECT_H */
