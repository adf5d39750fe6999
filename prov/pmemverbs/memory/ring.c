/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.c -- io_uring, by liburing; ring.h has the rules */
#include "memory/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#ifdef PMV_HAVE_URING

#include <liburing.h>
#include <time.h>

#include "base/log.h"

enum {
	/* How often the kernel is asked, 1 ms apart, while it takes no write and none ends. */
	TRIES_TO_WRITE = 1000,
	TRIES_TO_OPEN = 10,
};

struct pmv_ring {
	struct io_uring uring;
	struct pmv_blocks writes[PMV_RING_WRITES]; /* in a slot each */
	unsigned int free[PMV_RING_WRITES];        /* slots without one */
	unsigned int num_free;
	unsigned int order[PMV_RING_WRITES]; /* the slots of the latest entries */
	unsigned int entries;                /* so many were made */
};

/* may_pass -- the kernel has no memory, or no room, right now */
static bool may_pass(int ret)
{
	return ret == -EAGAIN || ret == -EBUSY || ret == -ENOMEM;
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int open_queue(struct io_uring *uring)
{
	int ret = io_uring_queue_init(PMV_RING_WRITES, uring, 0);

	for (int i = 1; i < TRIES_TO_OPEN && may_pass(ret); i++) {
		nap();
		ret = io_uring_queue_init(PMV_RING_WRITES, uring, 0);
	}
	return ret;
}

struct pmv_ring *pmv_ring_open(void)
{
	struct pmv_ring *ring = calloc(1, sizeof(*ring));
	int ret = ring ? open_queue(&ring->uring) : -ENOMEM;

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

	while (ring->num_free && io_uring_sq_space_left(&ring->uring) &&
	       writes->next(writes->arg, &write)) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
		unsigned int slot = ring->free[--ring->num_free];

		ring->writes[slot] = write;
		ring->order[ring->entries++ % PMV_RING_WRITES] = slot;
		io_uring_prep_write(sqe, writes->fd, writes->memory + write.start,
				    (unsigned int) (write.end - write.start),
				    (uint64_t) writes->offset + write.start);
		sqe->rw_flags = writes->flags;
		io_uring_sqe_set_data64(sqe, slot);
	}
}

static void end_write(struct pmv_ring *ring, const struct pmv_ring_writes *writes,
		      unsigned int slot, long ret)
{
	ring->free[ring->num_free++] = slot;
	writes->done(writes->arg, ring->writes[slot], ret);
}

static void reap(struct pmv_ring *ring, const struct pmv_ring_writes *writes)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&ring->uring, &cqe)) {
		unsigned int slot = (unsigned int) io_uring_cqe_get_data64(cqe);
		long ret = cqe->res;

		io_uring_cqe_seen(&ring->uring, cqe);
		end_write(ring, writes, slot, ret);
	}
}

/* submit -- and wait for the end of a write, if all were taken.  A negative errno: for good. */
static int submit(struct pmv_ring *ring)
{
	int ret = 0;

	for (int i = 0; i < TRIES_TO_WRITE; i++) {
		ret = io_uring_submit_and_wait(&ring->uring, 1);
		if (ret >= 0 || ret == -EINTR || io_uring_cq_ready(&ring->uring))
			return 0;
		if (!may_pass(ret))
			break;
		nap();
	}
	return ret;
}

/*
 * give_up -- take back the entries that the kernel has not taken: it looks at them only when it is
 * called.  The other writes end without a call.
 */
static void give_up(struct pmv_ring *ring, const struct pmv_ring_writes *writes)
{
	for (unsigned int left = io_uring_sq_ready(&ring->uring); left; left--)
		end_write(ring, writes, ring->order[--ring->entries % PMV_RING_WRITES], -EAGAIN);
	for (reap(ring, writes); ring->num_free < PMV_RING_WRITES; reap(ring, writes))
		nap();
}

bool pmv_ring_write(struct pmv_ring *ring, const struct pmv_ring_writes *writes)
{
	int ret;

	for (;;) {
		fill(ring, writes);
		if (ring->num_free == PMV_RING_WRITES)
			return true;
		ret = submit(ring);
		if (ret)
			break;
		reap(ring, writes);
	}
	PMV_WARN(MR, "io_uring fails (%s): blocks are written one after the other from now on\n",
		 strerror(-ret));
	give_up(ring, writes);
	return false;
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

bool pmv_ring_write(struct pmv_ring *ring, const struct pmv_ring_writes *writes)
{
	(void) ring, (void) writes;
	return false;
}

#endif
