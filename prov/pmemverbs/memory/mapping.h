/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapping.h -- from a mapped file to its file system and device, and so to what
 * can be promised of it
 *
 * A file is known by the device number that smaps gives.  It is that of its file
 * system (to stat, btrfs and overlayfs give other ones) and so leads to the file
 * system's line in mountinfo, deleted file or not.  The path is needed for
 * device nodes and on overlayfs only, and counts where it is seen to lead to the
 * same file.
 */
#ifndef PMV_BACKING_H
#define PMV_BACKING_H

#include <stdbool.h>
#include <sys/types.h>

#include "memory/mem.h"

/* A file in a shared mapping: device and inode number are those in smaps. */
struct pmv_mapped {
	dev_t dev;
	ino_t ino;
	bool sync;        /* MAP_SYNC */
	const char *path; /* as smaps has it: may be deleted, or another file's here */
};

/*
 * pmv_mapping_detect -- pmv_mem_detect for one mapping.  depth: how many devices
 * lie above the file, if it is a loop device's.
 */
int pmv_mapping_detect(const struct pmv_platform *platform, const struct pmv_mapped *file,
		       unsigned int depth, struct pmv_mem *mem);

/* pmv_refuse -- say why nothing is promised; returns -err */
int pmv_refuse(struct pmv_mem *mem, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* PMV_BACKING_H */
