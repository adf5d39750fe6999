/* SPDX-License-Identifier: BSD-2-Clause */
/* direct_sync.h -- extents in memory of files (memory/direct.h) become durable, all of a file
 * together */
#ifndef PMV_DIRECT_SYNC_H
#define PMV_DIRECT_SYNC_H

#include "agent/writeback.h"

/*
 * pmv_direct_sync -- regions: those of the extents, held; or NULL.  Extents of other memory are
 * left out.  pmv_region_is_bad says which are not durable.
 */
void pmv_direct_sync(struct pmv_region *const *regions, const struct pmv_extent *extents,
		     unsigned int count);

#endif /* PMV_DIRECT_SYNC_H */
