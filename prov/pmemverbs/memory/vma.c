/* SPDX-License-Identifier: BSD-2-Clause */
/* vma.c -- read the mappings of this process from /proc */
#include "memory/vma.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <rdma/fi_errno.h>

/* Mappings are read in the order of their addresses. */
struct walk {
	const char *maps;
	uintptr_t next; /* what lies before this address has been read */
	uintptr_t end;
	struct pmv_vma vma; /* the mapping whose lines are being read ... */
	bool reading;       /* ... if it is part of the range */
	bool cut;           /* its path was too long for it */
	pmv_vma_fn each;
	void *arg;
	struct pmv_mem *mem;
};

/* parse_header -- "start-end perms offset major:minor inode path" */
static bool parse_header(const char *line, struct pmv_vma *vma, bool *cut)
{
	unsigned int major, minor;
	uint64_t ino;
	char perms[5];
	int path = 0;

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &vma->start, &vma->end, perms, &vma->offset, &major, &minor, &ino, &path) != 7 ||
	    !path || strlen(perms) != 4 || vma->start >= vma->end)
		return false;

	vma->shared = perms[3] == 's';
	*cut = snprintf(vma->path, sizeof(vma->path), "%s", line + path) >= (int) sizeof(vma->path);
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

/* end_vma -- the last line of a mapping has been read */
static int end_vma(struct walk *walk)
{
	if (!walk->reading)
		return 0;
	walk->reading = false;
	walk->next = walk->vma.end < walk->end ? walk->vma.end : walk->end;
	return walk->each(walk->arg, &walk->vma);
}

static int begin_vma(struct walk *walk)
{
	struct pmv_vma *vma = &walk->vma;

	if (vma->end <= walk->next)
		return 0;
	if (vma->start > walk->next)
		return pmv_refuse(walk->mem, FI_EFAULT,
				  "0x%" PRIxPTR " to 0x%" PRIxPTR " is not mapped", walk->next,
				  vma->start < walk->end ? vma->start : walk->end);
	/* The end of the path would say whether the file was deleted. */
	if (walk->cut)
		return pmv_refuse(walk->mem, FI_EOPNOTSUPP, "the path %.60s... is too long",
				  vma->path);
	walk->reading = true;
	return 0;
}

/*
 * read_line -- a mapping's header, or one of the fields that follow it.  Only fields
 * begin with a capital letter.  A line that is neither is an error: the fields
 * after it would be taken for those of the mapping before it.
 */
static int read_line(struct walk *walk, const char *line)
{
	int ret;

	if (*line >= 'A' && *line <= 'Z') {
		if (!strncmp(line, "VmFlags:", strlen("VmFlags:")))
			walk->vma.file.sync = has_flag(line, "sf");
		return 0;
	}
	ret = end_vma(walk);
	if (ret || walk->next == walk->end)
		return ret;
	if (!parse_header(line, &walk->vma, &walk->cut))
		return pmv_refuse(walk->mem, FI_EIO, "%s can't be understood at '%.40s'",
				  walk->maps, line);
	return begin_vma(walk);
}

static int end_of_smaps(struct walk *walk)
{
	int ret = end_vma(walk);

	if (ret || walk->next == walk->end)
		return ret;
	return pmv_refuse(walk->mem, FI_EFAULT, "0x%" PRIxPTR " to 0x%" PRIxPTR " is not mapped",
			  walk->next, walk->end);
}

/*
 * read_range -- stops reading behind the range, because the kernel walks the page
 * tables of every mapping that is read
 */
static int read_range(struct walk *walk, FILE *smaps)
{
	char *line = NULL;
	size_t size = 0;
	int ret = 0;

	while (!ret && walk->next < walk->end) {
		if (getline(&line, &size, smaps) >= 0) {
			line[strcspn(line, "\n")] = '\0';
			ret = read_line(walk, line);
		} else if (feof(smaps)) {
			ret = end_of_smaps(walk);
		} else {
			ret = pmv_refuse(walk->mem, FI_EIO, "%s can't be read: %m", walk->maps);
		}
	}
	free(line);
	return ret;
}

int pmv_vma_each(const char *maps, const void *addr, size_t len, pmv_vma_fn each, void *arg,
		 struct pmv_mem *mem)
{
	struct walk walk = {
		.maps = maps,
		.next = (uintptr_t) addr,
		.end = (uintptr_t) addr + len,
		.each = each,
		.arg = arg,
		.mem = mem,
	};
	FILE *file;
	int ret;

	if (walk.end <= walk.next)
		return pmv_refuse(mem, FI_EINVAL, "%zu bytes at %p are not a memory region", len,
				  addr);
	file = fopen(maps, "re");
	if (!file)
		return pmv_refuse(mem, FI_EIO, "%s can't be opened: %m", maps);
	ret = read_range(&walk, file);
	fclose(file);
	return ret;
}
