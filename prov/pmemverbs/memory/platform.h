/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * platform.h -- what devices keep in a power failure, from sysfs
 *
 * A block device is followed through partitions, device mapper, md and loop
 * devices to the persistent memory regions, RAM disks and drives below.  The
 * weakest of them counts.
 *
 * libndctl is not used.  It would return only one attribute of a region
 * (persistence_domain), and it walks every bus and DIMM first.  It can't read
 * another sysfs than the system's, so tests could not use it.
 */
#ifndef PMV_PLATFORM_H
#define PMV_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory/key.h"

/* The file or device that a path leads to. */
struct pmv_node {
	dev_t dev;
	ino_t ino;
	mode_t mode;
	dev_t rdev;
	uint64_t mount; /* mount ID; 0: the kernel does not have it */
};

/* Where the system is described; tests have systems of their own. */
struct pmv_platform {
	const char *smaps;
	const char *maps; /* the same with less detail: faster */
	const char *mountinfo;
	const char *sysfs;
	int (*stat)(const char *path, struct pmv_node *node); /* 0: success */
	bool (*has_extents)(const char *path);                /* the file is on a disk */
	bool (*writes_back)(void); /* the processor can write its caches back to memory */
};

extern const struct pmv_platform pmv_platform;

struct pmv_medium {
	bool known;
	enum pmv_persist persist; /* PMV_NONE: volatile; PMV_PAGE: keeps what msync writes */
	int numa_node;            /* -1: unknown, or several */
	char what[96];            /* the device that decided it */
};

/*
 * Does msync make a loop device's file durable?  That depends on its file system,
 * which the caller knows about.  depth: that of the file, as in pmv_mapping_detect.
 */
typedef bool (*pmv_durable_fn)(const struct pmv_platform *platform, const char *path,
			       const struct pmv_node *file, unsigned int depth, int *numa_node);

/* pmv_platform_block -- what a block device keeps; false: sysfs does not show it */
bool pmv_platform_block(const struct pmv_platform *platform, dev_t dev, unsigned int depth,
			pmv_durable_fn durable, struct pmv_medium *medium);

/*
 * pmv_platform_dax -- what a device DAX node keeps: PMV_DMP or better, if that is
 * known; false: it is not device DAX
 */
bool pmv_platform_dax(const struct pmv_platform *platform, dev_t dev, struct pmv_medium *medium);

#endif /* PMV_PLATFORM_H */
