/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h -- what backs a region's memory, and what survives a power failure there
 *
 * Only what can be proven is promised: where the sources disagree the weaker
 * domain is taken, and where they are silent the memory is refused.  What this
 * can't prove, FI_PMEMVERBS_DOMAIN may declare.  PMV_NONE and PMV_WSP are never
 * detected: nothing that a system says of itself proves the latter.
 */
#ifndef PMV_MEM_H
#define PMV_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "memory/key.h"

enum pmv_mapping {
	PMV_UNKNOWN,     /* none of the below, or it can't be told */
	PMV_ANON,        /* anonymous memory, private or shared */
	PMV_PRIVATE,     /* a private mapping of a file */
	PMV_VOLATILE_FS, /* a file in memory: tmpfs, ramfs, hugetlbfs, memfd */
	PMV_FILE,   /* a file or block device through the page cache, or DAX without MAP_SYNC */
	PMV_FSDAX,  /* a file mapped with MAP_SYNC */
	PMV_DEVDAX, /* device DAX */
};

struct pmv_mem {
	enum pmv_persist persist;
	enum pmv_mapping backing;
	int numa_node;  /* -1: unknown */
	bool unnamed;   /* a file that was removed after it was opened, or never had a name */
	char what[320]; /* for logs: what was found; why nothing can be promised */
};

/*
 * pmv_mem_detect -- what backs [addr, addr + len) and what survives a power
 * failure there; of several mappings the weakest counts.
 *
 * Returns 0, or with PMV_NONE and mem->what saying why and what to do:
 *   -FI_EINVAL      never durable: anonymous memory, a private mapping, no length
 *   -FI_EFAULT      part of the range is not mapped
 *   -FI_EOPNOTSUPP  nothing can be promised: volatile, or not known to be durable
 *   -FI_EIO         the kernel's description of the memory can't be read
 * On failure mem->backing, numa_node and unnamed still say what is known.  Later
 * changes to the mapping (munmap, truncate) are not seen.
 */
int pmv_mem_detect(const void *addr, size_t len, struct pmv_mem *mem);

/*
 * pmv_mem_may_fault -- can a page of it turn out to have no memory?  Only where a file
 * or a device is mapped, or it isn't known.
 */
bool pmv_mem_may_fault(const void *addr, size_t len);

struct pmv_platform;

/* pmv_mem_detect_on -- pmv_mem_detect, with other sources than this system */
int pmv_mem_detect_on(const struct pmv_platform *platform, const void *addr, size_t len,
		      struct pmv_mem *mem);

#endif /* PMV_MEM_H */
