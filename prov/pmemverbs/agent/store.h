/* SPDX-License-Identifier: BSD-2-Clause */
/* store.h -- how the agent stores data in a region, whatever memory it is */
#ifndef PMV_STORE_H
#define PMV_STORE_H

#include <string.h>

#include "agent/flush.h"
#include "agent/region.h"

/* pmv_region_store -- the caller holds the region, and makes it durable */
static inline void pmv_region_store(struct pmv_region *region, uint64_t offset, uint64_t len,
				    const uint8_t *data)
{
	for (uint64_t piece = len; len; offset += piece, len -= piece, piece = len) {
		void *at = pmv_region_piece(region, offset, &piece);

		if (region->attr.persist == PMV_PAGE)
			memcpy(at, data, piece);
		else
			pmv_flush->store(at, data, piece);
		data += piece;
	}
}

#endif /* PMV_STORE_H */
