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

/* What is mapped, as smaps describes it. */
struct pmv_mapped {
	dev_t dev;
	ino_t ino;
	bool shared;
	bool sync;        /* MAP_SYNC */
	const char *path; /* it may be deleted, or lead to another file now */
};

static inline bool pmv_mapping_is_anonymous(const struct pmv_mapped *file)
{
	return !file->ino && !file->dev;
}

/* pmv_mapping_detect -- what pmv_detect says of one mapping */
int pmv_mapping_detect(const struct pmv_mapped *file, struct pmv_mem *mem);

/*
 * pmv_mapping_detect_region -- the same for device DAX on a region of NVDIMMs (region0), or a file
 * with MAP_SYNC there
 */
int pmv_mapping_detect_region(const char *region, struct pmv_mem *mem);

#endif /* PMV_MAPPING_H */
