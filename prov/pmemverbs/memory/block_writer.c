/* SPDX-License-Identifier: BSD-2-Clause */
/* block_writer.c -- writes blocks by io_uring or by pwritev2; block_writer.h has the rules */
#include "memory/block_writer.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memory/ring.h"

/* A write has no more than this: so large runs are several writes at a time. */
#define PMV_WRITE_MAX ((uint64_t) 1 << 20)

/* The writes of one call. */
struct writing {
	struct pmv_block_writer *writer;
	const struct pmv_blocks *runs;
	size_t count;
	size_t at;     /* the run of the next write */
	uint64_t done; /* bytes of it */
	int flags;
	int err;
	struct pmv_bad *bad;
};

/* next -- the next write, or an empty one */
static struct pmv_blocks next(struct writing *writing)
{
	const struct pmv_blocks *run = &writing->runs[writing->at];
	struct pmv_blocks write = {0};

	if (writing->at == writing->count)
		return write;
	write = (struct pmv_blocks){run->start + writing->done, run->end};
	if (write.end - write.start > PMV_WRITE_MAX)
		write.end = write.start + PMV_WRITE_MAX;
	writing->done += write.end - write.start;
	if (write.end == run->end) {
		writing->at++;
		writing->done = 0;
	}
	return write;
}

/* fail -- err: a negative errno */
static void fail(struct writing *writing, struct pmv_blocks run, int err)
{
	if (!writing->err)
		writing->err = err;
	pmv_bad_add(writing->bad, run);
}

/* conclude -- ret: bytes, or a negative errno.  A short write has not written all of a block. */
static void conclude(struct writing *writing, struct pmv_blocks write, long ret)
{
	if (ret < 0)
		fail(writing, write, (int) ret);
	else if ((uint64_t) ret != write.end - write.start)
		fail(writing, write, -EIO);
}

static void write_one(struct writing *writing, struct pmv_blocks write)
{
	struct pmv_block_writer *writer = writing->writer;
	struct iovec iov = {writer->memory + write.start, write.end - write.start};
	ssize_t ret;

	do {
		ret = pwritev2(writer->fd, &iov, 1, writer->offset + (off_t) write.start,
			       writing->flags);
	} while (ret < 0 && errno == EINTR);
	conclude(writing, write, ret < 0 ? -errno : ret);
}

static bool next_for_ring(void *arg, struct pmv_blocks *write)
{
	*write = next(arg);
	return write->end != write->start;
}

static void concluded_by_ring(void *arg, struct pmv_blocks write, long ret)
{
	/* -ECANCELED: the kernel had no thread to write it. */
	if (ret == -EAGAIN || ret == -EINTR || ret == -ECANCELED)
		write_one(arg, write);
	else
		conclude(arg, write, ret);
}

static void write_all(struct writing *writing)
{
	struct pmv_block_writer *writer = writing->writer;
	struct pmv_ring_writes writes = {
		.fd = writer->fd,
		.memory = writer->memory,
		.offset = writer->offset,
		.flags = writing->flags,
		.arg = writing,
		.next = next_for_ring,
		.done = concluded_by_ring,
	};
	struct pmv_blocks write;

	if (writer->ring && !pmv_ring_write(writer->ring, &writes)) {
		pmv_ring_close(writer->ring);
		writer->ring = NULL;
	}
	for (write = next(writing); write.end != write.start; write = next(writing))
		write_one(writing, write);
}

static void fail_all(struct writing *writing, int err)
{
	for (size_t i = 0; i < writing->count; i++)
		fail(writing, writing->runs[i], err);
}

void pmv_block_writer_init(struct pmv_block_writer *writer)
{
	writer->ring = pmv_ring_open();
}

void pmv_block_writer_destroy(struct pmv_block_writer *writer)
{
	if (writer->ring)
		pmv_ring_close(writer->ring);
}

int pmv_block_writer_write(struct pmv_block_writer *writer, const struct pmv_blocks *runs,
			   size_t count, struct pmv_bad *bad)
{
	struct writing writing = {.writer = writer, .runs = runs, .count = count, .bad = bad};
	bool alone = count == 1 && runs->end - runs->start <= PMV_WRITE_MAX;

	if (!count)
		return 0;
	writing.flags = alone || writer->fua ? RWF_DSYNC : 0;
	if (alone)
		write_one(&writing, next(&writing));
	else
		write_all(&writing);
	if (!writing.flags && fdatasync(writer->fd))
		fail_all(&writing, -errno);
	return writing.err;
}
