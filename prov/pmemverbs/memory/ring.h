/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h -- writes that are under way together, by io_uring (liburing) */
#ifndef PMV_RING_H
#define PMV_RING_H

#include <stdbool.h>
#include <sys/types.h>

#include "memory/blocks.h"

/* So many writes are under way at most. */
#define PMV_RING_WRITES 64

struct pmv_ring;

struct pmv_ring_writes {
	int fd;
	const char *memory;
	off_t offset; /* of what is at the start of the memory */
	int flags;    /* of pwritev2 */
	void *arg;
	/* next -- false: there are no more */
	bool (*next)(void *arg, struct pmv_blocks *write);
	/* done -- ret: as pwritev2's, or a negative errno; -EAGAIN, -EINTR, -ECANCELED: write it
	 * another way */
	void (*done)(void *arg, struct pmv_blocks write, long ret);
};

/* pmv_ring_open -- NULL: the kernel has none for us, or this was built without liburing */
struct pmv_ring *pmv_ring_open(void);
void pmv_ring_close(struct pmv_ring *ring);

/*
 * pmv_ring_write -- all writes; then none is under way.  The kernel is asked again for a second if
 * it takes none for the moment.  False: it takes none for good.  Those that `next` has given have
 * ended all the same, the ring has to be closed, and the others are to be written another way.
 */
bool pmv_ring_write(struct pmv_ring *ring, const struct pmv_ring_writes *writes);

#endif /* PMV_RING_H */
