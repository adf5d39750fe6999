/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.c -- io_uring, by liburing; ring.h has the rules */
#include "memory/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#ifdef PMV_HAVE_URING

#include <liburing.h>

#include "base/log.h"

struct pmv_ring {
	struct io_uring uring;
	struct pmv_blocks writes[PMV_RING_WRITES]; /* in a slot each */
	unsigned int free[PMV_RING_WRITES];        /* slots without one */
	unsigned int num_free;
};

struct pmv_ring *pmv_ring_open(void)
{
	struct pmv_ring *ring = calloc(1, sizeof(*ring));
	int ret = ring ? io_uring_queue_init(PMV_RING_WRITES, &ring->uring, 0) : -ENOMEM;

	/* Linux 5.6: it has writes of one piece of memory, too. */
	if (!ret && !(ring->uring.features & IORING_FEAT_RW_CUR_POS)) {
		io_uring_queue_exit(&ring->uring);
		ret = -ENOSYS;
	}
	if (ret) {
		PMV_INFO(MR, "no io_uring (%s): blocks are written one after the other\n",
			 strerror(-ret));
		free(ring);
		return NULL;
	}
	while (ring->num_free < PMV_RING_WRITES) {
		ring->free[ring->num_free] = ring->num_free;
		ring->num_free++;
	}
	return ring;
}

void pmv_ring_close(struct pmv_ring *ring)
{
	io_uring_queue_exit(&ring->uring);
	free(ring);
}

/* fill -- as many writes as there is room for */
static void fill(struct pmv_ring *ring, const struct pmv_ring_writes *writes)
{
	struct pmv_blocks write;

	/* There are as many entries as slots, so there is one for each of these. */
	while (ring->num_free && writes->next(writes->arg, &write)) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
		unsigned int slot = ring->free[--ring->num_free];

		ring->writes[slot] = write;
		io_uring_prep_write(sqe, writes->fd, writes->memory + write.start,
				    (unsigned int) (write.end - write.start),
				    (uint64_t) writes->offset + write.start);
		sqe->rw_flags = writes->flags;
		io_uring_sqe_set_data64(sqe, slot);
	}
}

static void reap(struct pmv_ring *ring, const struct pmv_ring_writes *writes)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&ring->uring, &cqe)) {
		unsigned int slot = (unsigned int) io_uring_cqe_get_data64(cqe);
		long ret = cqe->res;

		io_uring_cqe_seen(&ring->uring, cqe);
		ring->free[ring->num_free++] = slot;
		writes->done(writes->arg, ring->writes[slot], ret);
	}
}

int pmv_ring_write(struct pmv_ring *ring, const struct pmv_ring_writes *writes)
{
	int ret;

	for (;;) {
		fill(ring, writes);
		if (ring->num_free == PMV_RING_WRITES)
			return 0;
		do {
			ret = io_uring_submit_and_wait(&ring->uring, 1);
			/* A signal, or no memory right now: those that were taken go on. */
		} while (ret == -EINTR || ret == -EAGAIN || ret == -EBUSY);
		if (ret < 0)
			return ret;
		reap(ring, writes);
	}
}

#else

struct pmv_ring *pmv_ring_open(void)
{
	return NULL;
}

void pmv_ring_close(struct pmv_ring *ring)
{
	(void) ring;
}

int pmv_ring_write(struct pmv_ring *ring, const struct pmv_ring_writes *writes)
{
	(void) ring, (void) writes;
	return -ENOSYS;
}

#endif
