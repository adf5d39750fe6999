/* SPDX-License-Identifier: BSD-2-Clause */
/* mem.c -- from a range of addresses to the mappings it lies in; the weakest of them counts */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <rdma/fi_errno.h>

#include "backing.h"
#include "mem.h"
#include "platform.h"

struct vma {
	uintptr_t start;
	uintptr_t end;
	bool shared;
	struct pmv_mapped file; /* no inode: anonymous */
	char path[PATH_MAX];
};

/* A range while its mappings are read, in the order of their addresses. */
struct range {
	const struct pmv_platform *platform;
	uintptr_t next; /* all before it is known */
	uintptr_t end;
	struct vma vma;  /* the mapping whose lines are being read ... */
	bool reading;    /* ... if it is one of the range's */
	struct vma last; /* the one before it */
	unsigned int mappings;
	struct pmv_mem weakest; /* of those */
	bool devdax;            /* is one of those */
	struct pmv_mem *mem;    /* the answer */
};

/* parse_header -- "start-end perms offset major:minor inode path" */
static bool parse_header(const char *line, struct vma *vma)
{
	unsigned int major, minor;
	uint64_t ino;
	char perms[5];
	int path = 0;

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %x:%x %" SCNu64 " %n", &vma->start,
		   &vma->end, perms, &major, &minor, &ino, &path) != 6 ||
	    !path || strlen(perms) != 4 || vma->start >= vma->end)
		return false;

	vma->shared = perms[3] == 's';
	snprintf(vma->path, sizeof(vma->path), "%s", line + path);
	vma->file = (struct pmv_mapped){
		.dev = makedev(major, minor),
		.ino = (ino_t) ino,
		.path = vma->path,
	};
	return true;
}

/* has_flag -- is it one of "VmFlags: rd wr sh mr mw ..."? */
static bool has_flag(const char *line, const char *flag)
{
	size_t len = strlen(flag);

	line += strcspn(line, ":");
	while (*line) {
		line += strspn(line, ": ");
		if (strcspn(line, " ") == len && !strncmp(line, flag, len))
			return true;
		line += strcspn(line, " ");
	}
	return false;
}

static int detect_vma(const struct pmv_platform *platform, const struct vma *vma,
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
	return pmv_backing_detect(platform, &vma->file, 0, mem);
}

static bool same_file(const struct vma *a, const struct vma *b)
{
	return a->shared == b->shared && a->file.dev == b->file.dev && a->file.ino == b->file.ino &&
	       a->file.sync == b->file.sync && !strcmp(a->path, b->path);
}

/* end_vma -- all lines of a mapping have been read: join it to what is known of the range */
static int end_vma(struct range *range)
{
	struct pmv_mem one = {.numa_node = -1};
	struct pmv_mem *weakest = &range->weakest;
	struct vma *vma = &range->vma;
	int ret;

	if (!range->reading)
		return 0;
	range->reading = false;
	range->next = vma->end < range->end ? vma->end : range->end;

	/* mprotect, madvise and the like cut one mapping into many. */
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

static int begin_vma(struct range *range)
{
	struct vma *vma = &range->vma;

	if (vma->end <= range->next)
		return 0;
	if (vma->start > range->next)
		return pmv_refuse(range->mem, FI_EFAULT,
				  "0x%" PRIxPTR " to 0x%" PRIxPTR " is not mapped", range->next,
				  vma->start < range->end ? vma->start : range->end);
	range->reading = true;
	return 0;
}

/*
 * read_line -- a mapping's header, or one of the fields that follow it: only
 * the latter begin with a capital.  What is neither may have been the header of
 * the fields that follow, which must not be taken for another mapping's.
 */
static int read_line(struct range *range, const char *line)
{
	int ret;

	if (*line >= 'A' && *line <= 'Z') {
		if (!strncmp(line, "VmFlags:", strlen("VmFlags:")))
			range->vma.file.sync = has_flag(line, "sf");
		return 0;
	}
	ret = end_vma(range);
	if (ret || range->next == range->end)
		return ret;
	if (!parse_header(line, &range->vma))
		return pmv_refuse(range->mem, FI_EIO, "%s can't be understood at '%.40s'",
				  range->platform->smaps, line);
	return begin_vma(range);
}

static int end_of_smaps(struct range *range)
{
	int ret = end_vma(range);

	if (ret || range->next == range->end)
		return ret;
	return pmv_refuse(range->mem, FI_EFAULT, "0x%" PRIxPTR " to 0x%" PRIxPTR " is not mapped",
			  range->next, range->end);
}

/*
 * read_range -- the mappings of a range; those behind it are not read, as the
 * kernel walks the page tables of each that is
 */
static int read_range(struct range *range, FILE *smaps)
{
	char *line = NULL;
	size_t size = 0;
	int ret = 0;

	while (!ret && range->next < range->end) {
		if (getline(&line, &size, smaps) >= 0) {
			line[strcspn(line, "\n")] = '\0';
			ret = read_line(range, line);
		} else if (feof(smaps)) {
			ret = end_of_smaps(range);
		} else {
			ret = pmv_refuse(range->mem, FI_EIO, "%s can't be read: %m",
					 range->platform->smaps);
		}
	}
	free(line);
	return ret;
}

int pmv_mem_detect_on(const struct pmv_platform *platform, const void *addr, size_t len,
		      struct pmv_mem *mem)
{
	struct range range = {
		.platform = platform,
		.next = (uintptr_t) addr,
		.end = (uintptr_t) addr + len,
		.mem = mem,
	};
	FILE *smaps;
	int ret;

	*mem = (struct pmv_mem){.numa_node = -1};
	if (range.end <= range.next)
		return pmv_refuse(mem, FI_EINVAL, "%zu bytes at %p are no memory region", len,
				  addr);

	smaps = fopen(platform->smaps, "re");
	if (!smaps)
		return pmv_refuse(mem, FI_EIO, "%s can't be opened: %m", platform->smaps);
	ret = read_range(&range, smaps);
	fclose(smaps);
	if (ret)
		return ret;

	/* msync is what makes a file durable, and device DAX has none. */
	if (range.devdax && range.weakest.persist == PMV_PAGE)
		return pmv_refuse(mem, FI_EOPNOTSUPP,
				  "device DAX and a file in one region: register them apart");
	*mem = range.weakest;
	return 0;
}

int pmv_mem_detect(const void *addr, size_t len, struct pmv_mem *mem)
{
	return pmv_mem_detect_on(&pmv_platform, addr, len, mem);
}
