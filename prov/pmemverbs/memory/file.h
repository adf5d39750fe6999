/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file.h -- the files behind a region, opened anew
 *
 * When Linux can't write pages back it reports that once for each open file description,
 * to whoever syncs on it first.  msync uses the description of the mapping.  So a sync of
 * the application, or of another process that inherited the description, would take the
 * error that the agent has to see.  A region therefore has its own descriptions, opened when
 * it is registered, and its own mappings, on which nobody else syncs.  If others sync
 * meanwhile the pages are written back, and a failure is still reported here.
 *
 * An earlier error that was never reported is reported to a new description, too: then the
 * registration fails, once.
 *
 * The pages are those of the application's mapping: data that are written there are synced
 * here, as long as the application does not change its mapping.
 */
#ifndef PMV_FILE_H
#define PMV_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "memory/guard.h"
#include "memory/mapping.h"

struct pmv_files;

/*
 * pmv_files_open -- *files: NULL if no file has to be synced or checked again.  persist: what
 * the registration asks of them.  If that was declared (FI_PMEMVERBS_DOMAIN) they are not
 * checked.  On failure mem->what says why, and what to do.
 *   -FI_EINVAL      the region reaches beyond the end of its file
 *   -FI_EOPNOTSUPP  a file is unlinked, or can't be opened
 *   -FI_ENOSPC      no room for all of it
 *   -FI_EIO         pages were lost before
 *   -FI_EMFILE      no file descriptor for one of them
 */
int pmv_files_open(const struct iovec *iov, size_t count, enum pmv_persist persist, bool declared,
		   struct pmv_files **files, struct pmv_mem *mem);
void pmv_files_close(struct pmv_files *files);

/*
 * pmv_files_map -- our mapping of the page that the application has at an address, or
 * NULL.  *len is reduced to the length for which the answer holds.
 */
void *pmv_files_map(const struct pmv_files *files, const void *addr, size_t *len);

/* Pages in a file.  Two parts are of one file if both numbers are the same. */
struct pmv_file_part {
	dev_t dev;
	ino_t ino;
	int fd;
	uint64_t offset;
};

/*
 * pmv_files_find -- the pages that pmv_files_map maps.  True: once they are written, a sync of any
 * part of their file makes them durable, too.  Linux does not promise that: ext4's and XFS's syncs
 * commit the inode, and flush the device's cache, whatever range they were called for.
 */
bool pmv_files_find(const struct pmv_files *files, const void *addr, size_t *len,
		    struct pmv_file_part *part);

/* pmv_files_cover -- do our mappings have all of a region? */
bool pmv_files_cover(const struct pmv_files *files);

/* pmv_files_watch -- pmv_guard_add for our mappings */
int pmv_files_watch(const struct pmv_files *files, struct pmv_watch **watch);

/* The state of a file; PMV_FILE_HERE: as it was at the registration. */
enum pmv_file_state {
	PMV_FILE_HERE,
	PMV_FILE_UNLINKED,
	PMV_FILE_SHORTER,
	PMV_FILE_UNKNOWN, /* errno says why */
};

enum pmv_file_state pmv_files_state(const struct pmv_files *files);

/* pmv_file_state -- of an open one: linked: it had a name; end: so long it was; 0: not looked at */
enum pmv_file_state pmv_file_state(int fd, bool linked, uint64_t end);

/* pmv_files_disk -- where all of a region's files are synced to: disk.h */
uint64_t pmv_files_disk(const struct pmv_files *files);

#endif /* PMV_FILE_H */
