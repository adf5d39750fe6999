/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file.h -- the files behind a region, opened anew
 *
 * Linux reports that pages could not be written back once for each open file
 * description, to whoever syncs first on it; msync uses the one of the mapping.
 * So the application's fsync, msync or sync_file_range, or another process that
 * inherited the description, would take the error that the agent has to see.  A
 * region therefore has descriptions of its own, opened when it is registered, and
 * mappings of its own, on which nobody else syncs.  What others sync meanwhile is
 * written back all the same, and what fails then is still reported here.  How the
 * application opened the file (O_DSYNC) makes no difference.
 *
 * An error from before the registration that nobody has been told of is reported
 * to a new description, too: the registration fails with it, once.  One that
 * somebody was told of is theirs.
 *
 * The pages are those of the application's mapping: what is written there is
 * synced here, as long as the application leaves its mapping alone.
 */
#ifndef PMV_FILE_H
#define PMV_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "memory/mem.h"

struct pmv_files;

/* What a registration asks of its files. */
struct pmv_file_demand {
	enum pmv_persist persist;
	/* FI_PMEMVERBS_DOMAIN says so: the files are not asked whether that can be true. */
	bool declared;
};

/*
 * pmv_files_open -- *files: NULL where none has to be synced or looked at again.
 * On failure mem->what says why, and what to do.
 *   -FI_EINVAL      the region reaches beyond the end of its file
 *   -FI_EOPNOTSUPP  a file is unlinked, or can't be opened
 *   -FI_ENOSPC      no room for all of it
 *   -FI_EIO         pages were lost before
 *   -FI_EMFILE      no file descriptor for one of them
 */
int pmv_files_open(const struct iovec *iov, size_t count, const struct pmv_file_demand *demand,
		   struct pmv_files **files, struct pmv_mem *mem);
void pmv_files_close(struct pmv_files *files);

/*
 * pmv_files_map -- where we have mapped what the application has at an address, or
 * NULL: nowhere.  *len is cut to what the answer holds for.
 */
void *pmv_files_map(const struct pmv_files *files, const void *addr, size_t *len);

/* pmv_files_cover -- is all of a region mapped here, too? */
bool pmv_files_cover(const struct pmv_files *files);

/* pmv_files_each -- our mappings; what is not 0 ends it and is returned */
int pmv_files_each(const struct pmv_files *files, int (*each)(void *arg, void *addr, size_t len),
		   void *arg);

/* What has become of a file; PMV_FILE_HERE: it is as it was at the registration. */
enum pmv_file_state {
	PMV_FILE_HERE,
	PMV_FILE_UNLINKED,
	PMV_FILE_SHORTER,
	PMV_FILE_UNKNOWN, /* errno says why */
};

enum pmv_file_state pmv_files_state(const struct pmv_files *files);

#endif /* PMV_FILE_H */
