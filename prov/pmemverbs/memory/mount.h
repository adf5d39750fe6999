/* SPDX-License-Identifier: BSD-2-Clause */
/* mount.h -- mounted file systems, from mountinfo */
#ifndef PMV_MOUNT_H
#define PMV_MOUNT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pmv_mount {
	dev_t dev;
	char type[32];          /* empty: not found */
	char source[256];       /* the device's path, if it has one; decoded */
	bool ignores_msync;     /* overlayfs with the option volatile */
	bool layered;           /* overlayfs with an upper directory, which can be written ... */
	char upper[PATH_MAX];   /* ... here; empty: it is not certain where */
	bool realtime;          /* XFS with a second device for data */
	char others[2][256];    /* paths of XFS's other devices, for data and for the log */
	const char *no_barrier; /* the option that lets msync end too early, or NULL */
};

/*
 * pmv_mount_find -- find the file system with a device number, and the one with a
 * mount ID (0: none).
 *
 * Returns 0, or -FI_EIO if mountinfo can't be read or has a line that can't be
 * understood.  Then a file system that was not found may still be mounted.
 */
int pmv_mount_find(const char *mountinfo, dev_t dev, uint64_t id, struct pmv_mount *by_dev,
		   struct pmv_mount *by_id);

#endif /* PMV_MOUNT_H */
