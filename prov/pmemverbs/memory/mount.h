/* SPDX-License-Identifier: BSD-2-Clause */
/* mount.h -- mounted file systems, as the kernel describes them in mountinfo */
#ifndef PMV_MOUNT_H
#define PMV_MOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pmv_mount {
	dev_t dev;
	char type[32];          /* empty: not found */
	char source[256];       /* the device's path, if it has one; decoded */
	bool forgetful;         /* overlayfs, mounted so that it ignores msync */
	bool realtime;          /* XFS with a second device for data */
	const char *no_barrier; /* the option that lets msync end too early, or NULL */
};

/*
 * pmv_mount_find -- the file system with a device number, and the one that a
 * mount ID stands for (0: none).
 *
 * Returns 0, or -FI_EIO where mountinfo can't be read or has a line that can't be
 * understood.  Then a file system that was not found may be mounted all the same.
 */
int pmv_mount_find(const char *mountinfo, dev_t dev, uint64_t id, struct pmv_mount *by_dev,
		   struct pmv_mount *by_id);

#endif /* PMV_MOUNT_H */
