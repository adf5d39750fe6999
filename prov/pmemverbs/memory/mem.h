/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h -- what backs a region's memory, and what survives a power failure there
 *
 * Only what can be proven is promised.  Where the sources disagree the weaker
 * domain counts.  Where they say nothing the memory is refused; then
 * FI_PMEMVERBS_DOMAIN can declare what survives.  PMV_WSP is never detected,
 * because no system describes itself well enough to prove it.
 */
#ifndef PMV_MEM_H
#define PMV_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "memory/key.h"

enum pmv_backing {
	PMV_UNKNOWN,     /* none of these, or it is not known */
	PMV_ANON,        /* anonymous memory, private or shared */
	PMV_PRIVATE,     /* a private mapping of a file */
	PMV_VOLATILE_FS, /* a file in memory: tmpfs, ramfs, hugetlbfs, memfd */
	PMV_FILE,   /* a file or block device through the page cache, or DAX without MAP_SYNC */
	PMV_FSDAX,  /* a file mapped with MAP_SYNC */
	PMV_DEVDAX, /* device DAX */
};

/* Why a file without a name is refused. */
#define PMV_MEM_UNLINKED                                                                           \
	"is unlinked: nobody finds it after a power failure; map a file by a name that stays"

struct pmv_mem {
	enum pmv_persist persist;
	enum pmv_backing backing;
	int numa_node;  /* -1: unknown */
	bool unnamed;   /* a file that was removed after it was opened, or never had a name */
	char what[320]; /* for logs: what was found, or why nothing is promised */
};

/*
 * pmv_mem_detect -- find out what backs [addr, addr + len) and what survives a power
 * failure there; of several mappings the weakest counts.
 *
 * Returns 0 or one of these errors.  Then mem->persist is PMV_NONE, and mem->what says
 * why and what to do:
 *   -FI_EINVAL      never durable: anonymous memory, a private mapping, no length
 *   -FI_EFAULT      part of the range is not mapped
 *   -FI_EOPNOTSUPP  volatile, or not known to be durable
 *   -FI_EIO         the kernel's description of the memory can't be read
 * Even then mem->backing, numa_node and unnamed say what is known.  Later changes to
 * the mapping (munmap, truncate) are not noticed.
 */
int pmv_mem_detect(const void *addr, size_t len, struct pmv_mem *mem);

/*
 * pmv_mem_may_fault -- could a page of the range turn out to have no memory?  That is
 * possible where a file or a device is mapped, and assumed where nothing is known.
 */
bool pmv_mem_may_fault(const void *addr, size_t len);

/* pmv_mem_refuse -- say why nothing is promised; returns -err */
int pmv_mem_refuse(struct pmv_mem *mem, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* PMV_MEM_H */
