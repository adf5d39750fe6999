/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapping.h -- from a mapped file to its file system and device, and to what
 * survives a power failure there
 *
 * smaps has the device number of the file's file system.  This number leads to
 * the file system's line in mountinfo, even if the file was deleted.  (stat
 * returns other numbers on btrfs and overlayfs.)  The path is used only for device
 * nodes and on overlayfs, and only if it leads to the mapped file.
 */
#ifndef PMV_MAPPING_H
#define PMV_MAPPING_H

#include <stdbool.h>
#include <sys/types.h>

#include "memory/mem.h"

/* A file in a shared mapping, with the device and inode number that smaps shows. */
struct pmv_mapped {
	dev_t dev;
	ino_t ino;
	bool sync;        /* MAP_SYNC */
	const char *path; /* from smaps: it may be deleted, or lead to another file now */
};

/*
 * pmv_mapping_detect -- pmv_mem_detect for one mapping.  depth: the number of devices
 * above the file, if it is a loop device's file, else 0.
 */
int pmv_mapping_detect(const struct pmv_platform *platform, const struct pmv_mapped *file,
		       unsigned int depth, struct pmv_mem *mem);

/* pmv_refuse -- say why nothing is promised; returns -err */
int pmv_refuse(struct pmv_mem *mem, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* PMV_MAPPING_H */
