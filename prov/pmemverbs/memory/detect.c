/* SPDX-License-Identifier: BSD-2-Clause */
/* detect.c -- from a range of addresses to the mappings it lies in; the weakest of them counts */
#include "memory/detect.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "memory/platform.h"
#include "memory/vma.h"

/* What is known about a range so far. */
struct range {
	struct pmv_vma last; /* the previous mapping */
	unsigned int mappings;
	struct pmv_mem weakest; /* of the mappings */
	bool devdax;            /* one of them is device DAX */
	struct pmv_mem *mem;    /* the answer */
};

static bool same_file(const struct pmv_mapped *a, const struct pmv_mapped *b)
{
	return a->shared == b->shared && a->dev == b->dev && a->ino == b->ino &&
	       a->sync == b->sync && !strcmp(a->path, b->path);
}

/* join_vma -- add a mapping to what is known about the range */
static int join_vma(void *arg, const struct pmv_vma *vma)
{
	struct range *range = arg;
	struct pmv_mem one, *weakest = &range->weakest;
	int ret;

	/* mprotect, madvise and others split one mapping into many. */
	if (range->mappings && same_file(&vma->file, &range->last.file))
		return 0;
	range->last = *vma;
	range->last.file.path = range->last.path;

	ret = pmv_mapping_detect(&vma->file, &one);
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

static int detect_range(const void *addr, size_t len, struct range *range)
{
	int ret = pmv_vma_each(pmv_platform.smaps, addr, len, join_vma, range, range->mem);

	if (ret)
		return ret;

	/* A file would need msync, which device DAX does not have. */
	if (range->devdax && range->weakest.persist == PMV_PAGE)
		return pmv_mem_refuse(
			range->mem, FI_EOPNOTSUPP,
			"device DAX and a file in one region: register them separately");
	*range->mem = range->weakest;
	return 0;
}

int pmv_detect(const void *addr, size_t len, struct pmv_mem *mem)
{
	/* It has room for a path: too large for a small stack. */
	struct range *range = calloc(1, sizeof(*range));
	int ret;

	*mem = (struct pmv_mem){.numa_node = -1};
	if (!range)
		return pmv_mem_refuse(mem, FI_ENOMEM, "there is no memory to look at it");
	range->mem = mem;
	ret = detect_range(addr, len, range);
	free(range);
	return ret;
}

static int is_file(void *arg, const struct pmv_vma *vma)
{
	(void) arg;
	return !pmv_mapping_is_anonymous(&vma->file);
}

bool pmv_detect_may_fault(const void *addr, size_t len)
{
	struct pmv_mem mem;

	return pmv_vma_each(pmv_platform.maps, addr, len, is_file, NULL, &mem);
}
