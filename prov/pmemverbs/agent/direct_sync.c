/* SPDX-License-Identifier: BSD-2-Clause */
/* direct_sync.c -- writes the extents of a batch file by file; direct_sync.h */
#include "agent/direct_sync.h"

_Static_assert(PMV_WRITEBACK_SYNCS <= PMV_DIRECT_RANGES, "a batch is written at a time");

static struct pmv_direct *file_of(const struct pmv_region *region)
{
	return region ? region->attr.direct : NULL;
}

/* is_first -- has no extent before it the same file? */
static bool is_first(struct pmv_region *const *regions, unsigned int at)
{
	for (unsigned int i = 0; i < at; i++) {
		if (file_of(regions[i]) == file_of(regions[at]))
			return false;
	}
	return true;
}

void pmv_direct_sync(struct pmv_region *const *regions, const struct pmv_extent *extents,
		     unsigned int count)
{
	struct iovec ranges[PMV_WRITEBACK_SYNCS];

	for (unsigned int i = 0; i < count; i++) {
		struct pmv_direct *direct = file_of(regions[i]);
		size_t num_ranges = 0;

		if (!direct || !is_first(regions, i))
			continue;
		for (unsigned int j = i; j < count; j++) {
			uint64_t len = extents[j].len;

			if (file_of(regions[j]) != direct)
				continue;
			ranges[num_ranges].iov_base =
				pmv_region_piece(regions[j], extents[j].offset, &len);
			ranges[num_ranges++].iov_len = len;
		}
		pmv_direct_write(direct, ranges, num_ranges);
	}
}
