/* SPDX-License-Identifier: BSD-2-Clause */
/* direct_sync.h -- ranges in memory of files (memory/direct.h) become durable, all of a file
 * together */
#ifndef PMV_DIRECT_SYNC_H
#define PMV_DIRECT_SYNC_H

#include "agent/region.h"

/*
 * pmv_direct_sync -- takes the ranges in such memory out of the array, and returns how many are
 * left.  pmv_region_is_bad says which are not durable.  At most PMV_MAX_SYNCS.
 */
size_t pmv_direct_sync(struct pmv_sync_range *ranges, size_t count);

#endif /* PMV_DIRECT_SYNC_H */
