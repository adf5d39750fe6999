/* SPDX-License-Identifier: BSD-2-Clause */
/* direct_sync.c -- writes ranges file by file; direct_sync.h */
#include "agent/direct_sync.h"

_Static_assert(PMV_MAX_SYNCS <= PMV_DIRECT_RANGES, "they are written at a time");

static struct pmv_direct *file_of(const struct pmv_sync_range *range)
{
	return range->region->attr.direct;
}

/* is_first -- has no range before it the same file? */
static bool is_first(const struct pmv_sync_range *ranges, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (file_of(&ranges[i]) == file_of(&ranges[at]))
			return false;
	}
	return true;
}

/* write_file -- all ranges of the file that the first one has */
static void write_file(const struct pmv_sync_range *ranges, size_t count)
{
	struct iovec parts[PMV_MAX_SYNCS];
	size_t num_parts = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t len = ranges[i].len;

		if (file_of(&ranges[i]) != file_of(ranges))
			continue;
		parts[num_parts].iov_base =
			pmv_region_piece(ranges[i].region, ranges[i].offset, &len);
		parts[num_parts++].iov_len = len;
	}
	pmv_direct_write(file_of(ranges), parts, num_parts);
}

size_t pmv_direct_sync(struct pmv_sync_range *ranges, size_t count)
{
	size_t left = 0;

	for (size_t i = 0; i < count; i++) {
		if (file_of(&ranges[i]) && is_first(ranges, i))
			write_file(&ranges[i], count - i);
	}
	for (size_t i = 0; i < count; i++) {
		if (!file_of(&ranges[i]))
			ranges[left++] = ranges[i];
	}
	return left;
}
