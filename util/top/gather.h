/* SPDX-License-Identifier: BSD-2-Clause */
/* gather.h -- the texts of all processes that have a socket in a directory (FI_PMEMVERBS_METRICS)
 */
#ifndef GATHER_H
#define GATHER_H

#include <stddef.h>

struct texts {
	size_t count;
	char **text; /* each ends with a line */
	/* Others, which have none here: they did not answer in time, or not to this user. */
	unsigned int silent, forbidden;
};

/* gather -- read them; 0, or a positive errno.  A process that is gone has none. */
int gather(const char *directory, struct texts *texts);

void gather_free(struct texts *texts);

#endif /* GATHER_H */
