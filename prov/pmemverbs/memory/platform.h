/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * platform.h -- what devices keep through a power failure, as far as sysfs tells
 *
 * A block device is followed through partitions, device mapper, md and loop
 * devices down to the persistent memory regions, RAM disks and drives at the
 * bottom.  The weakest of them counts.
 *
 * sysfs is read without libndctl: all that it could tell here is one attribute
 * of a region (persistence_domain), for which it first walks every bus and
 * DIMM; and it can't be pointed at another sysfs, so nothing that rests on it
 * could be tested.
 */
#ifndef PMV_PLATFORM_H
#define PMV_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory/key.h"

/* What a path leads to. */
struct pmv_node {
	dev_t dev;
	ino_t ino;
	mode_t mode;
	dev_t rdev;
	uint64_t mount; /* mount ID; 0: the kernel doesn't tell */
};

/* Where the truth about memory is found; tests have their own. */
struct pmv_platform {
	const char *smaps;
	const char *maps; /* the same without what takes the kernel long */
	const char *mountinfo;
	const char *sysfs;
	int (*stat)(const char *path, struct pmv_node *node); /* not 0: there is none */
	bool (*has_extents)(const char *path);                /* a file that lies on a disk */
	bool (*writes_back)(void); /* can the processor, from its caches to memory? */
};

extern const struct pmv_platform pmv_platform;

struct pmv_medium {
	bool known;
	enum pmv_persist persist; /* PMV_NONE: keeps nothing; PMV_PAGE: what msync has written */
	int numa_node;            /* -1: unknown, or there are several */
	char what[96];            /* what decided that */
};

/*
 * Does msync make a loop device's file durable?  That depends on the file's file
 * system, which is the caller's business.  depth: of the file, as in pmv_mapping_detect.
 */
typedef bool (*pmv_durable_fn)(const struct pmv_platform *platform, const char *path,
			       const struct pmv_node *file, unsigned int depth, int *numa_node);

/* pmv_platform_block -- what a block device keeps; false: sysfs doesn't have it */
bool pmv_platform_block(const struct pmv_platform *platform, dev_t dev, unsigned int depth,
			pmv_durable_fn durable, struct pmv_medium *medium);

/*
 * pmv_platform_dax -- what a character device keeps, PMV_DMP or better if that
 * is known; false: it is not device DAX
 */
bool pmv_platform_dax(const struct pmv_platform *platform, dev_t dev, struct pmv_medium *medium);

#endif /* PMV_PLATFORM_H */
