/* SPDX-License-Identifier: BSD-2-Clause */
/* direct_file.h -- opens a file for direct I/O, lays it out, and reads it */
#ifndef PMV_DIRECT_FILE_H
#define PMV_DIRECT_FILE_H

#include "memory/direct.h"

struct pmv_direct_file {
	int fd;
	off_t offset;
	size_t len; /* of the part */
	uint64_t disk;
	bool fua;
	bool made;      /* it was not there before */
	bool locked;    /* against others, who might extend it */
	off_t old_size; /* before it was extended */
};

/* pmv_direct_file_open -- and lock it; 0 or a negative fi_errno, then mem->what says why */
int pmv_direct_file_open(const struct pmv_direct_attr *attr, struct pmv_direct_file *file,
			 struct pmv_mem *mem);

/*
 * pmv_direct_file_load -- its part into memory that is all zeros, and zeros to where nothing was
 * written yet: then all blocks are on the disk
 */
int pmv_direct_file_load(const struct pmv_direct_file *file, char *memory, const char *path,
			 struct pmv_mem *mem);

/* pmv_direct_file_undo -- its opening has failed: it is as it was before, and closed */
void pmv_direct_file_undo(const struct pmv_direct_file *file, const char *path);

void pmv_direct_file_unlock(int fd);

#endif /* PMV_DIRECT_FILE_H */
