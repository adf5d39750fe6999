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
	struct pmv_vma vma; /* the mapping whose lines are being read */
	pmv_vma_fn each;
	void *arg;
	struct pmv_mem *mem;
};

static int refuse_gap(const struct walk *walk, uintptr_t end)
{
	return pmv_mem_refuse(walk->mem, FI_EFAULT,
			      "0x%" PRIxPTR " to 0x%" PRIxPTR " is not mapped", walk->next,
			      end < walk->end ? end : walk->end);
}

/* begin_vma -- at its first line: "start-end perms offset major:minor inode path" */
static int begin_vma(struct walk *walk, const char *line)
{
	struct pmv_vma *vma = &walk->vma;
	unsigned int major, minor;
	uint64_t ino;
	char perms[5];
	int path = 0;

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &vma->start, &vma->end, perms, &vma->offset, &major, &minor, &ino, &path) != 7 ||
	    !path || strlen(perms) != 4 || vma->start >= vma->end)
		return pmv_mem_refuse(walk->mem, FI_EIO, "%s can't be understood at '%.40s'",
				      walk->maps, line);
	if (vma->end <= walk->next)
		return 0;
	if (vma->start > walk->next)
		return refuse_gap(walk, vma->start);
	/* The end of the path would say whether the file was deleted. */
	if (snprintf(vma->path, sizeof(vma->path), "%s", line + path) >= (int) sizeof(vma->path))
		return pmv_mem_refuse(walk->mem, FI_EOPNOTSUPP, "the path %.60s... is too long",
				      vma->path);
	vma->file = (struct pmv_mapped){
		.dev = makedev(major, minor),
		.ino = (ino_t) ino,
		.shared = perms[3] == 's',
		.path = vma->path,
	};
	return 0;
}

/* end_vma -- the last line of a mapping has been read; is it part of the range? */
static int end_vma(struct walk *walk)
{
	if (walk->vma.end <= walk->next)
		return 0;
	walk->next = walk->vma.end < walk->end ? walk->vma.end : walk->end;
	return walk->each(walk->arg, &walk->vma);
}

/*
 * read_line -- the first line of a mapping, or one of the fields that follow it.  Only
 * fields begin with a capital letter.  A line that is neither is an error: the fields
 * after it would be taken for those of the mapping before it.
 */
static int read_line(struct walk *walk, const char *line)
{
	int ret;

	if (*line >= 'A' && *line <= 'Z') {
		if (!strncmp(line, "VmFlags:", strlen("VmFlags:")))
			walk->vma.file.sync = strstr(line, " sf ");
		return 0;
	}
	ret = end_vma(walk);
	return ret || walk->next == walk->end ? ret : begin_vma(walk, line);
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
	char *line = NULL;
	size_t size = 0;
	FILE *file;
	int ret = 0;

	if (walk.end <= walk.next)
		return pmv_mem_refuse(mem, FI_EINVAL, "%zu bytes at %p are not a memory region",
				      len, addr);
	file = fopen(maps, "re");
	if (!file)
		return pmv_mem_refuse(mem, FI_EIO, "%s can't be opened: %m", maps);
	/* Not to the end: the kernel walks the page tables of every mapping that is read. */
	while (!ret && walk.next < walk.end) {
		if (getline(&line, &size, file) >= 0) {
			line[strcspn(line, "\n")] = '\0';
			ret = read_line(&walk, line);
		} else if (!feof(file)) {
			ret = pmv_mem_refuse(mem, FI_EIO, "%s can't be read: %m", maps);
		} else {
			ret = end_vma(&walk);
			if (!ret && walk.next < walk.end)
				ret = refuse_gap(&walk, walk.end);
		}
	}
	free(line);
	fclose(file);
	return ret;
}
