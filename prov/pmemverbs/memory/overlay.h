/* SPDX-License-Identifier: BSD-2-Clause */
/* overlay.h -- where overlayfs keeps what is written: its upper directory */
#ifndef PMV_OVERLAY_H
#define PMV_OVERLAY_H

#include <limits.h>
#include <stdbool.h>

#include "memory/platform.h"

/*
 * pmv_overlay_upper -- the upper directory's path as it was given to mount, from the options in
 * mountinfo.  Returns false, and an empty path, if it is not certain which it is.
 */
bool pmv_overlay_upper(const char *options, char upper[PATH_MAX]);

/*
 * pmv_overlay_find -- look for it in this mount namespace.  path becomes the path without
 * overlayfs' own escapes.  Returns false if it can't be seen, as in a container.
 */
bool pmv_overlay_find(const char *upper, char path[PATH_MAX], struct pmv_node *node);

#endif /* PMV_OVERLAY_H */
