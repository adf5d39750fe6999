/* SPDX-License-Identifier: BSD-2-Clause */
/* mem.c -- from a range of addresses to the mappings it lies in; the weakest of them counts */
#include "memory/mem.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "memory/platform.h"
#include "memory/vma.h"

/* What is known about a range so far. */
struct range {
	const struct pmv_platform *platform;
	struct pmv_vma last; /* the previous mapping */
	unsigned int mappings;
	struct pmv_mem weakest; /* of the mappings */
	bool devdax;            /* one of them is device DAX */
	struct pmv_mem *mem;    /* the answer */
};

static int detect_vma(const struct pmv_platform *platform, const struct pmv_vma *vma,
		      struct pmv_mem *mem)
{
	if (!vma->file.ino && !vma->file.dev) {
		mem->backing = PMV_ANON;
		return pmv_refuse(mem, FI_EINVAL,
				  "anonymous memory%s%s is lost with its process; map a file or "
				  "a device, or declare emulated persistent memory with "
				  "FI_PMEMVERBS_DOMAIN",
				  *vma->path ? " " : "", vma->path);
	}
	if (!vma->shared) {
		mem->backing = PMV_PRIVATE;
		return pmv_refuse(mem, FI_EINVAL,
				  "a private mapping keeps its changes from the file; map with "
				  "MAP_SHARED");
	}
	return pmv_mapping_detect(platform, &vma->file, 0, mem);
}

static bool same_file(const struct pmv_vma *a, const struct pmv_vma *b)
{
	return a->shared == b->shared && a->file.dev == b->file.dev && a->file.ino == b->file.ino &&
	       a->file.sync == b->file.sync && !strcmp(a->path, b->path);
}

/* join_vma -- add a mapping to what is known about the range */
static int join_vma(void *arg, const struct pmv_vma *vma)
{
	struct range *range = arg;
	struct pmv_mem one = {.numa_node = -1};
	struct pmv_mem *weakest = &range->weakest;
	int ret;

	/* mprotect, madvise and others split one mapping into many. */
	if (range->mappings && same_file(vma, &range->last))
		return 0;
	range->last = *vma;
	range->last.file.path = range->last.path;

	ret = detect_vma(range->platform, vma, &one);
	if (ret) {
		*range->mem = one;
		return ret;
	}
	range->devdax |= one.backing == PMV_DEVDAX;
	if (!range->mappings++) {
		*weakest = one;
		return 0;
	}
	if (one.numa_node != weakest->numa_node)
		one.numa_node = weakest->numa_node = -1;
	if (one.persist < weakest->persist)
		*weakest = one;
	return 0;
}

int pmv_mem_detect_on(const struct pmv_platform *platform, const void *addr, size_t len,
		      struct pmv_mem *mem)
{
	struct range range = {.platform = platform, .mem = mem};
	int ret;

	*mem = (struct pmv_mem){.numa_node = -1};
	ret = pmv_vma_each(platform->smaps, addr, len, join_vma, &range, mem);
	if (ret)
		return ret;

	/* A file would need msync, which device DAX does not have. */
	if (range.devdax && range.weakest.persist == PMV_PAGE)
		return pmv_refuse(mem, FI_EOPNOTSUPP,
				  "device DAX and a file in one region: register them separately");
	*mem = range.weakest;
	return 0;
}

static int is_file(void *arg, const struct pmv_vma *vma)
{
	(void) arg;
	return vma->file.ino || vma->file.dev;
}

bool pmv_mem_may_fault(const void *addr, size_t len)
{
	struct pmv_mem mem;

	return pmv_vma_each(pmv_platform.maps, addr, len, is_file, NULL, &mem);
}

int pmv_mem_detect(const void *addr, size_t len, struct pmv_mem *mem)
{
	return pmv_mem_detect_on(&pmv_platform, addr, len, mem);
}
