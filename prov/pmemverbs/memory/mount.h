/* SPDX-License-Identifier: BSD-2-Clause */
/* mount.h -- mounted file systems, from mountinfo */
#ifndef PMV_MOUNT_H
#define PMV_MOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory/platform.h"

struct pmv_mount {
	dev_t dev;
	char type[32];          /* empty: not found */
	char source[256];       /* the device's path, if it has one; decoded */
	bool ignores_msync;     /* overlayfs with the option volatile */
	bool layered;           /* overlayfs with an upper directory, which can be written ... */
	char *upper;            /* ... here; NULL: it is not certain where */
	char realtime[256];     /* the path of XFS's second device for data; empty: none */
	char log[256];          /* the same of that for its log */
	const char *no_barrier; /* the option that lets msync end too early, or NULL */
};

/*
 * pmv_mount_find -- find the file system with a device number, and the one with a
 * mount ID (0: none).  The caller clears both.
 *
 * Returns 0, or -FI_EIO if mountinfo can't be read or has a line that can't be
 * understood, or if there is no memory.  Then a file system that was not found may still be
 * mounted.
 */
int pmv_mount_find(const char *mountinfo, dev_t dev, uint64_t id, struct pmv_mount *by_dev,
		   struct pmv_mount *by_id);

/* pmv_mount_clear -- free what belongs to it, and forget the rest */
void pmv_mount_clear(struct pmv_mount *mount);

/*
 * pmv_mount_find_upper -- look for an upper directory in this mount namespace, and remove
 * overlayfs' own escapes from the path.  Returns false if it can't be seen, as in a container.
 */
bool pmv_mount_find_upper(char *upper, struct pmv_node *node);

#endif /* PMV_MOUNT_H */
