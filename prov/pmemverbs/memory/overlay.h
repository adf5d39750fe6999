/* SPDX-License-Identifier: BSD-2-Clause */
/* overlay.h -- where overlayfs keeps what is written: its upper directory */
#ifndef PMV_OVERLAY_H
#define PMV_OVERLAY_H

#include <stdbool.h>

#include "memory/platform.h"

/*
 * pmv_overlay_upper -- the upper directory's path as it was given to mount, from the options in
 * mountinfo.  The caller frees it.  It is NULL if it is not certain which it is.  Returns false if
 * there is no memory.
 */
bool pmv_overlay_upper(const char *options, char **upper);

/*
 * pmv_overlay_find -- look for it in this mount namespace, and remove overlayfs' own escapes from
 * the path.  Returns false if it can't be seen, as in a container.
 */
bool pmv_overlay_find(char *upper, struct pmv_node *node);

#endif /* PMV_OVERLAY_H */
