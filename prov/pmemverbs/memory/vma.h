/* SPDX-License-Identifier: BSD-2-Clause */
/* vma.h -- the mappings of this process, from /proc */
#ifndef PMV_VMA_H
#define PMV_VMA_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/mapping.h"

struct pmv_vma {
	uintptr_t start;
	uintptr_t end;
	uint64_t offset; /* of start, in the file */
	struct pmv_mapped file;
	char path[PATH_MAX];
};

/* A result that is not 0 ends the walk and is its result. */
typedef int (*pmv_vma_fn)(void *arg, const struct pmv_vma *vma);

/*
 * pmv_vma_each -- for each mapping of [addr, addr + len), in order.  maps: smaps, which shows
 * MAP_SYNC, or maps.  If it can't be read, or part of the range is not mapped, mem says so.
 */
int pmv_vma_each(const char *maps, const void *addr, size_t len, pmv_vma_fn each, void *arg,
		 struct pmv_mem *mem);

#endif /* PMV_VMA_H */
