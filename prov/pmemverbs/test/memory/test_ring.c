/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ring.c -- writes by io_uring, and a kernel that takes none, for a while or for good */
#include "memory/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "config.h"

#define WRITES 100

static struct pmv_ring *ring;
static char path[64];
static char memory[WRITES * PMV_BLOCK];
static int fd;

/* What the kernel says */
static struct {
	int error;          /* a negative errno */
	unsigned int times; /* it says that so often, ... */
	unsigned int after; /* behind so many calls, ... */
	unsigned int takes; /* which take so many writes each; 0: all */
	unsigned int calls;
	unsigned int naps;
} kernel;

static struct {
	unsigned int count;
	unsigned int asked;
	unsigned int ended[WRITES];
	long ret[WRITES];
} writes;

/* A pipe's other end, from which all is read in the third nap; -1: none */
static int reader = -1;
static char full[65536];

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	const struct timespec moment = {.tv_nsec = time->tv_nsec / 1000};

	kernel.naps++;
	if (kernel.naps == 3 && reader >= 0)
		cr_expect_eq(read(reader, full, sizeof(full)), (ssize_t) sizeof(full));
	return __real_nanosleep(&moment, left);
}

#ifdef PMV_HAVE_URING

#include <liburing.h>

static bool fails(void)
{
	unsigned int call = kernel.calls++;

	return call >= kernel.after && call - kernel.after < kernel.times;
}

int __real_io_uring_queue_init(unsigned int entries, struct io_uring *uring, unsigned int flags);
int __wrap_io_uring_queue_init(unsigned int entries, struct io_uring *uring, unsigned int flags);

int __wrap_io_uring_queue_init(unsigned int entries, struct io_uring *uring, unsigned int flags)
{
	return fails() ? kernel.error : __real_io_uring_queue_init(entries, uring, flags);
}

int __real_io_uring_submit_and_wait(struct io_uring *uring, unsigned int count);
int __wrap_io_uring_submit_and_wait(struct io_uring *uring, unsigned int count);

int __wrap_io_uring_submit_and_wait(struct io_uring *uring, unsigned int count)
{
	unsigned int left = io_uring_sq_ready(uring);
	int ret;

	if (fails())
		return kernel.error;
	left = kernel.takes && kernel.takes < left ? left - kernel.takes : 0;
	uring->sq.sqe_tail -= left;
	ret = __real_io_uring_submit_and_wait(uring, left ? 0 : count);
	uring->sq.sqe_tail += left;
	return ret;
}

#endif

static bool next(void *arg, struct pmv_blocks *write)
{
	uint64_t at = writes.asked * PMV_BLOCK;

	(void) arg;
	if (writes.asked == writes.count)
		return false;
	*write = (struct pmv_blocks){at, at + PMV_BLOCK};
	writes.asked++;
	return true;
}

static void done(void *arg, struct pmv_blocks write, long ret)
{
	unsigned int at = (unsigned int) (write.start / PMV_BLOCK);

	(void) arg;
	writes.ended[at]++;
	writes.ret[at] = ret;
}

/* write_some -- with the kernel as it is described; true: the ring is still good */
static bool write_some(unsigned int count)
{
	const struct pmv_ring_writes what = {
		.fd = fd, .memory = memory, .next = next, .done = done};
	bool good;

	memset(&writes, 0, sizeof(writes));
	writes.count = count;
	kernel.calls = kernel.naps = 0;
	good = pmv_ring_write(ring, &what);
	for (unsigned int i = 0; i < WRITES; i++)
		cr_expect_eq(writes.ended[i], i < writes.asked, "write %u", i);
	return good;
}

static bool write_all(void)
{
	return write_some(WRITES);
}

/* count -- the writes that ended like this; what was written is in the file */
static unsigned int count(long ret)
{
	char block[PMV_BLOCK];
	unsigned int found = 0;

	for (unsigned int i = 0; i < writes.asked; i++) {
		if (writes.ret[i] != ret)
			continue;
		found++;
		if (ret < 0)
			continue;
		cr_assert_eq(pread(fd, block, PMV_BLOCK, (off_t) (i * PMV_BLOCK)), PMV_BLOCK);
		cr_expect_eq(memcmp(block, memory + i * PMV_BLOCK, PMV_BLOCK), 0, "block %u", i);
	}
	return found;
}

static void begin(void)
{
	ring = pmv_ring_open();
	if (!ring)
		cr_skip_test("no io_uring here");
	snprintf(path, sizeof(path), "ring.%d", (int) getpid());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	cr_assert_geq(fd, 0);
	unlink(path);
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (char) (i / PMV_BLOCK + i + 1);
}

static void end(void)
{
	if (!ring)
		return;
	pmv_ring_close(ring);
	close(fd);
}

TestSuite(ring, .init = begin, .fini = end);

Test(ring, writes_all)
{
	cr_expect(write_all());
	cr_expect_eq(count(PMV_BLOCK), WRITES);
	cr_expect_eq(kernel.naps, 0);
	kernel.takes = 3;
	cr_expect(write_all());
	cr_expect_eq(count(PMV_BLOCK), WRITES);
}

static const int passing[] = {-EAGAIN, -EBUSY, -ENOMEM};

Test(ring, asks_again_if_the_kernel_takes_nothing_for_the_moment)
{
	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
		for (unsigned int after = 0; after < 3; after++) {
			kernel.error = passing[i];
			kernel.times = 20;
			kernel.after = after;
			kernel.takes = 7;
			cr_expect(write_all(), "error %d behind %u calls", passing[i], after);
			cr_expect_eq(count(PMV_BLOCK), WRITES);
			cr_expect_leq(kernel.naps, 20);
		}
	}
}

Test(ring, gives_up_when_that_does_not_pass)
{
	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
		kernel.error = passing[i];
		kernel.times = UINT32_MAX;
		cr_expect_not(write_all());
		cr_expect_eq(count(-EAGAIN), writes.asked, "nothing was written");
		cr_expect_leq(kernel.calls, 1000);
		cr_expect_gt(kernel.naps, 100, "it was not in a hurry");
		end();
		kernel.times = 0;
		begin();
	}
}

Test(ring, gives_up_at_once_if_it_can_not_pass)
{
	kernel.error = -EBADF;
	kernel.times = UINT32_MAX;
	cr_expect_not(write_all());
	cr_expect_eq(kernel.calls, 1);
	cr_expect_eq(count(-EAGAIN), writes.asked);
}

/* What the kernel has taken ends as it would have; of the others it is said that they did not. */
Test(ring, waits_for_what_is_under_way_when_it_gives_up)
{
	kernel.error = -EAGAIN;
	kernel.times = UINT32_MAX;
	kernel.after = 4;
	kernel.takes = 5;
	cr_expect_not(write_some(30));
	cr_expect_eq(count(PMV_BLOCK), 20);
	cr_expect_eq(count(-EAGAIN), 10);
	end();
	kernel.times = 0;
	begin();
	kernel.times = UINT32_MAX;
	cr_expect_not(write_all());
	cr_expect_eq(count(PMV_BLOCK), 20);
	cr_expect_eq(count(-EAGAIN), writes.asked - 20);
	cr_expect_geq(writes.asked, 64, "the ring was full");
}

/* What is under way then has not been written yet, and the kernel still reads the memory. */
Test(ring, gives_up_only_when_nothing_is_under_way)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(write(ends[1], full, sizeof(full)), (ssize_t) sizeof(full), "it is full");
	close(fd);
	fd = ends[1];
	reader = ends[0];
	kernel.error = -EBADF;
	kernel.times = UINT32_MAX;
	kernel.after = 1;
	kernel.takes = 2;
	cr_expect_not(write_some(4));
	cr_expect_geq(kernel.naps, 3);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(writes.ret[i], i < 2 ? (long) PMV_BLOCK : -EAGAIN);
	close(reader);
	reader = -1;
}

Test(ring, does_not_count_signals)
{
	kernel.error = -EINTR;
	kernel.times = 5000;
	cr_expect(write_all());
	cr_expect_eq(count(PMV_BLOCK), WRITES);
	cr_expect_eq(kernel.naps, 0);
}

Test(ring, is_opened_again_if_there_is_no_memory_for_the_moment)
{
	end();
	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
		memset(&kernel, 0, sizeof(kernel));
		kernel.error = passing[i];
		kernel.times = 3;
		ring = pmv_ring_open();
		cr_expect_not_null(ring);
		cr_expect_eq(kernel.naps, 3);
		pmv_ring_close(ring);
	}
	memset(&kernel, 0, sizeof(kernel));
	kernel.error = -ENOMEM;
	kernel.times = UINT32_MAX;
	cr_expect_null(pmv_ring_open());
	cr_expect_leq(kernel.calls, 10);
	memset(&kernel, 0, sizeof(kernel));
	begin();
}
