/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h -- what backs memory, and what survives a power failure there; detect.h finds it out
 */
#ifndef PMV_MEM_H
#define PMV_MEM_H

#include <stdbool.h>

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

/* pmv_mem_refuse -- say why nothing is promised; returns -err */
int pmv_mem_refuse(struct pmv_mem *mem, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* PMV_MEM_H */
