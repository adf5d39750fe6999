/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kept.h -- whether files that are got are durable when their sync says so
 *
 * fsync succeeds on file systems in memory, and where an option of the mount or the device lets it
 * end too early.  The provider knows such places: it refuses memory there.
 */
#ifndef CP_KEPT_H
#define CP_KEPT_H

#include <stdbool.h>
#include <sys/types.h>

/* Of all that was looked at: the worst counts. */
struct cp_kept {
	bool looked;
	dev_t dev;    /* of the last one */
	bool skipped; /* something that says nothing */
	/* Not durable, or not known to be so; and if so, why. */
	bool doubtful, in_memory;
	char why[512]; /* as large as the provider's */
};

/* cp_kept_look -- at an open file or directory; all on one file system are alike */
void cp_kept_look(struct cp_kept *kept, int fd);

/* cp_kept_end -- there is no more to look at: is it known of anything? */
void cp_kept_end(struct cp_kept *kept);

#endif /* CP_KEPT_H */
