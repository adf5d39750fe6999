/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * platform.h -- what devices keep in a power failure, from sysfs
 *
 * A block device is followed through partitions and what has slaves (device mapper,
 * md, bcache, DRBD), and through loop devices, to the persistent memory regions, RAM
 * disks and drives below.  The weakest of them counts.
 *
 * libndctl and libpmem2 can't read another sysfs than the system's, as tests have to.  Of
 * all this they would replace only the reading of one attribute (persistence_domain).
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
extern struct pmv_platform {
	const char *smaps;
	const char *maps; /* the same with less detail: faster */
	const char *mountinfo;
	const char *sysfs;
	int (*stat)(const char *path, struct pmv_node *node); /* 0: success */
	bool (*has_extents)(const char *path);                /* the file is on a disk */
	bool (*writes_back)(void); /* the processor can write its caches back to memory */
} pmv_platform;

/* What a device keeps. */
struct pmv_medium {
	bool known;
	enum pmv_persist persist; /* PMV_NONE: volatile; PMV_PAGE: keeps what msync writes */
	int numa_node;            /* -1: unknown, or several */
	char what[144];           /* the device that decided it */
	char unsynced[144];       /* a device with DAX that needs MAP_SYNC; empty: none */
};

/*
 * Devices on top of devices: more than anybody uses, few enough for recursive calls.
 * Applications' threads may have stacks of 64 KiB.  A file on a disk takes 12 KiB, a btrfs 6 KiB
 * more, and each level above that 4 KiB (a loop device, overlayfs) or less than 1 KiB (others).
 */
#define PMV_PLATFORM_DEPTH 8

/* Does msync make data in a file durable?  A loop device keeps what its file keeps. */
typedef bool (*pmv_platform_durable)(const char *path, const struct pmv_node *node,
				     unsigned int depth, int *numa_node);

/* pmv_platform_device -- a block device's directory in sysfs; the caller frees it, or NULL */
char *pmv_platform_device(dev_t dev);

/* pmv_platform_block -- false: sysfs does not show it.  depth: how many devices are on top of it */
bool pmv_platform_block(dev_t dev, unsigned int depth, pmv_platform_durable is_durable,
			struct pmv_medium *medium);

/* pmv_platform_btrfs -- the same of a btrfs: of all its devices, of which this is one */
bool pmv_platform_btrfs(dev_t dev, unsigned int depth, pmv_platform_durable is_durable,
			struct pmv_medium *medium);

/* pmv_platform_named -- the number of a block device by its path in /dev; false: not in sysfs */
bool pmv_platform_named(const char *path, dev_t *dev);

/* pmv_platform_region -- of a region of NVDIMMs by its name (region0); false: there is none */
bool pmv_platform_region(const char *name, struct pmv_medium *medium);

/* pmv_platform_dax -- false: it is not device DAX */
bool pmv_platform_dax(dev_t dev, struct pmv_medium *medium);

#endif /* PMV_PLATFORM_H */
