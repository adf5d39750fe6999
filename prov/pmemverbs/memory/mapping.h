/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapping.h -- from a mapped file to its file system and device, and to what survives a power
 * failure there
 *
 * smaps has the device number of the file's file system.  It leads to the file system's line in
 * mountinfo, even if the file was deleted.  The path is used only for device nodes and on
 * overlayfs, and only if it leads to the mapped file.
 */
#ifndef PMV_MAPPING_H
#define PMV_MAPPING_H

#include <stdbool.h>
#include <sys/types.h>

#include "memory/key.h"

enum pmv_backing {
	PMV_UNKNOWN,     /* none of these, or it is not known */
	PMV_ANON,        /* anonymous memory, private or shared */
	PMV_PRIVATE,     /* a private mapping of a file */
	PMV_VOLATILE_FS, /* a file in memory: tmpfs, ramfs, hugetlbfs, memfd */
	PMV_FILE,   /* a file or block device through the page cache, or DAX without MAP_SYNC; the
		     * medium below may be volatile nevertheless */
	PMV_FSDAX,  /* a file mapped with MAP_SYNC */
	PMV_DEVDAX, /* device DAX */
};

/* Why a file without a name is refused. */
#define PMV_MEM_UNLINKED                                                                           \
	"is unlinked: nobody finds it after a power failure; map a file by a name that stays"

struct pmv_mem {
	enum pmv_persist persist;
	enum pmv_backing backing;
	int numa_node;  /* -1: unknown */
	bool unnamed;   /* a file that was removed after it was opened, or never had a name */
	char what[512]; /* for logs: what was found, or why nothing is promised */
};

/* pmv_mem_refuse -- say why nothing is promised; returns -err */
int pmv_mem_refuse(struct pmv_mem *mem, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

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

/* pmv_mapping_detect_region -- the same of device DAX on a region of NVDIMMs (region0) */
int pmv_mapping_detect_region(const char *region, struct pmv_mem *mem);

#endif /* PMV_MAPPING_H */
