/* SPDX-License-Identifier: BSD-2-Clause */
/* drive.c -- plays a drive; drive.h has the rules */
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "memory/ring.h"

struct drive drive;

static char path[64];

void drive_forget(void)
{
	drive = (struct drive){.no_ring = drive.no_ring};
}

/* outcome -- of a write: 0 as it is, else what it returns */
static long outcome(uint64_t start, uint64_t end, int flags)
{
	long ret = 0;

	drive.calls++;
	drive.durable += (flags & RWF_DSYNC) != 0;
	for (uint64_t at = start; at < end; at += PMV_BLOCK) {
		uint64_t block = at / PMV_BLOCK;

		if (block >= DRIVE_BLOCKS)
			continue;
		drive.writes[block]++;
		if (drive.errors[block])
			ret = drive.errors[block] < 0 ? (long) (end - start) / 2
						      : -drive.errors[block];
		if (drive.once)
			drive.errors[block] = 0;
	}
	return ret;
}

ssize_t __real_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	unsigned int now = atomic_fetch_add(&drive.now, 1) + 1;
	long ret = outcome((uint64_t) offset, (uint64_t) offset + iov->iov_len, flags);

	if (now > drive.most)
		drive.most = now;
	if (!ret) {
		ret = __real_pwritev2(fd, iov, count, offset, flags);
	} else if (ret < 0) {
		errno = (int) -ret;
		ret = -1;
	}
	atomic_fetch_sub(&drive.now, 1);
	return ret;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
	drive.flushes++;
	errno = drive.flush_error;
	return drive.flush_error ? -1 : __real_fdatasync(fd);
}

int __real_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);

int __wrap_fstatfs(int fd, struct statfs *fs)
{
	int ret = __real_fstatfs(fd, fs);

	if (!ret && drive.magic)
		fs->f_type = (typeof(fs->f_type)) drive.magic;
	return ret;
}

struct pmv_ring *__real_pmv_ring_open(void);
struct pmv_ring *__wrap_pmv_ring_open(void);

struct pmv_ring *__wrap_pmv_ring_open(void)
{
	return drive.no_ring ? NULL : __real_pmv_ring_open();
}

static void play_done(void *arg, struct pmv_blocks write, long ret)
{
	const struct pmv_ring_writes *writes = arg;
	long played = outcome((uint64_t) writes->offset + write.start,
			      (uint64_t) writes->offset + write.end, writes->flags);

	writes->done(writes->arg, write, played ? played : ret);
}

static bool play_next(void *arg, struct pmv_blocks *write)
{
	const struct pmv_ring_writes *writes = arg;

	return writes->next(writes->arg, write);
}

bool __real_pmv_ring_write(struct pmv_ring *ring, const struct pmv_ring_writes *writes);
bool __wrap_pmv_ring_write(struct pmv_ring *ring, const struct pmv_ring_writes *writes);

bool __wrap_pmv_ring_write(struct pmv_ring *ring, const struct pmv_ring_writes *writes)
{
	struct pmv_ring_writes played = *writes;
	struct pmv_blocks write;

	drive.rings++;
	if (drive.ring_fails) {
		if (writes->next(writes->arg, &write))
			writes->done(writes->arg, write, -EAGAIN);
		return false;
	}
	played.arg = (void *) writes;
	played.next = play_next;
	played.done = play_done;
	return __real_pmv_ring_write(ring, &played);
}

const char *drive_path(void)
{
	return path;
}

struct pmv_direct *drive_open(uint64_t blocks)
{
	struct pmv_direct_attr attr = {
		.path = path, .len = blocks * PMV_BLOCK, .create = true, .mode = 0600};
	struct pmv_direct *direct;
	struct pmv_mem mem;
	int ret;

	snprintf(path, sizeof(path), "drive.%d", (int) getpid());
	unlink(path);
	ret = pmv_direct_open(&attr, &direct, &mem);
	if (ret)
		cr_skip_test("no direct I/O in this directory: %s", mem.what);
	drive_forget();
	return direct;
}

void drive_close(struct pmv_direct *direct)
{
	cr_expect_eq(pmv_direct_close(direct), 0);
	unlink(path);
}

bool drive_has(const struct pmv_direct *direct, uint64_t offset, uint64_t len)
{
	struct iovec memory = pmv_direct_memory(direct);
	char *read_back = malloc(len);
	int fd = open(path, O_RDONLY);
	bool same;

	cr_assert(read_back && fd >= 0);
	same = pread(fd, read_back, len, (off_t) offset) == (ssize_t) len &&
	       !memcmp(read_back, (char *) memory.iov_base + offset, len);
	close(fd);
	free(read_back);
	return same;
}
