/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * direct_path.h -- can blocks of a file be written from memory, past the page cache?
 *
 * The memory may change while a block is written.  A file system or a device that computes
 * something of a block (a checksum, parity) while it writes it would store something wrong, so
 * only file systems are taken that are known not to.
 */
#ifndef PMV_DIRECT_PATH_H
#define PMV_DIRECT_PATH_H

#include <stdint.h>
#include <sys/stat.h>

#include "memory/mapping.h"

struct pmv_direct_path {
	char file_system[32]; /* empty: unknown */
	char device[32];      /* the same */
	uint32_t sector_size; /* physical; 0: unknown */
	int fua;              /* -1: unknown */
};

/*
 * pmv_direct_path_check -- of a file or directory that is open.  0 or a negative fi_errno; then
 * mem->what says why.  *path is filled in either way, as far as it is known.
 */
int pmv_direct_path_check(int fd, const char *name, struct pmv_direct_path *path,
			  struct pmv_mem *mem);

/* pmv_direct_path_query -- the same of a path; if nothing is there, of the directory for it */
int pmv_direct_path_query(const char *name, struct pmv_direct_path *path, struct pmv_mem *mem);

#endif /* PMV_DIRECT_PATH_H */
