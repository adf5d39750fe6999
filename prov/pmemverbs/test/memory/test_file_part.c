/* SPDX-License-Identifier: BSD-2-Clause */
/* test_file_part.c -- which files one sync makes durable as a whole */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "memory/detect.h"
#include "memory/disk.h"
#include "memory/file.h"

static long type; /* of the file system; 0: the kernel does not say */
static int forbidden;

int sync_file_range(int fd, off_t offset, off_t len, unsigned int flags)
{
	cr_assert_geq(fd, 0);
	(void) offset, (void) len, (void) flags;
	errno = forbidden;
	return forbidden ? -1 : 0;
}

int fstatfs(int fd, struct statfs *fs)
{
	cr_assert_geq(fd, 0);
	errno = ENOSYS;
	*fs = (struct statfs){.f_type = type};
	return type ? 0 : -1;
}

static char path[32];
static size_t page;
static char *memory;
static struct stat st;

/* open_region -- in the third page of a file, which is mapped from its second one on */
static struct pmv_files *open_region(long of_type)
{
	int fd = (strcpy(path, "test_file_part.XXXXXX"), mkstemp(path));
	struct pmv_files *files = NULL;
	struct pmv_mem mem;
	struct iovec iov;
	int ret;

	page = sysconf(_SC_PAGESIZE);
	type = of_type;
	cr_assert_geq(fd, 0);
	cr_assert(!ftruncate(fd, (off_t) (4 * page)));
	cr_assert(!fstat(fd, &st));
	memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t) page);
	cr_assert_neq(memory, MAP_FAILED);
	iov = (struct iovec){memory + page, page};
	if (pmv_detect(memory, page, &mem) || mem.persist != PMV_PAGE) {
		unlink(path);
		cr_skip_test("this directory is not on a disk: %s", mem.what);
	}
	ret = pmv_files_open(&iov, 1, PMV_PAGE, false, &files, &mem);
	cr_assert_eq(ret, 0, "%s", mem.what);
	close(fd);
	return files;
}

static bool finds(long of_type)
{
	struct pmv_files *files = open_region(of_type);
	struct pmv_file_part part;
	size_t len = 2 * page;
	bool found = pmv_files_find(files, memory + page + 5, &len, &part);
	struct pmv_file_part again = {.fd = -1};
	struct pmv_files *other = NULL;
	struct iovec iov = {memory + page, page};
	struct pmv_mem mem;
	struct stat opened;

	cr_expect_eq(len, page - 5);
	if (found) {
		/* Another region of the same file: it has a description of its own. */
		cr_assert_eq(pmv_files_open(&iov, 1, PMV_PAGE, true, &other, &mem), 0);
		cr_expect(pmv_files_find(other, memory + page, &len, &again));
		cr_expect_eq(again.dev, part.dev);
		cr_expect_eq(again.ino, part.ino);
		cr_expect_neq(again.fd, part.fd);
		pmv_files_close(other);
		cr_expect_eq(part.offset, 2 * page + 5);
		cr_assert(!fstat(part.fd, &opened));
		cr_expect_eq(opened.st_ino, st.st_ino);
		cr_expect_eq(part.ino, st.st_ino);
	}
	cr_expect_not(pmv_files_find(files, memory, &len, &part), "that page is not the region's");
	pmv_files_close(files);
	unlink(path);
	return found;
}

Test(file_part, of_file_systems_that_commit_inodes_is_durable_with_another)
{
	cr_expect(finds(EXT4_SUPER_MAGIC));
	cr_expect(finds(XFS_SUPER_MAGIC));
}

Test(file_part, of_others_may_not_be)
{
	cr_expect_not(finds(BTRFS_SUPER_MAGIC));
	cr_expect_not(finds(NFS_SUPER_MAGIC));
	cr_expect_not(finds(OVERLAYFS_SUPER_MAGIC));
	cr_expect_not(finds(0));
}

Test(file_part, is_synced_alone_where_its_pages_can_not_be_written_before)
{
	forbidden = EPERM;
	cr_expect_not(finds(EXT4_SUPER_MAGIC));
}

Test(file_part, of_no_file_is_none)
{
	struct pmv_file_part part;
	size_t len = 1;

	cr_expect_not(pmv_files_find(NULL, memory, &len, &part));
}

Test(file_part, is_synced_in_its_files_lane)
{
	struct pmv_files *files = open_region(EXT4_SUPER_MAGIC);
	struct pmv_file_part part;
	size_t len = page;

	cr_assert(pmv_files_find(files, memory + page, &len, &part));
	cr_expect_eq(pmv_files_disk(files), pmv_disk_lane(part.dev, part.ino));
	pmv_files_close(files);
	unlink(path);
	cr_expect_eq(pmv_files_disk(NULL), PMV_DISK_UNKNOWN);
}

Test(disk, lanes_are_of_one_device)
{
	uint64_t lane = pmv_disk_lane(7, 100), next = pmv_disk_lane(7, 101);
	uint64_t several = pmv_disk_both(lane, next), far = pmv_disk_lane(8, 100);

	cr_expect_neq(lane, next);
	cr_expect_eq(lane, pmv_disk_lane(7, 100 + PMV_LANES));
	cr_expect_eq(pmv_disk_both(lane, lane), lane);
	cr_expect_eq(pmv_disk_both(PMV_DISK_NONE, lane), lane);
	cr_expect_eq(pmv_disk_both(next, lane), several);
	cr_expect_eq(pmv_disk_both(several, lane), several);
	for (ino_t ino = 0; ino < PMV_LANES; ino++)
		cr_expect_neq(pmv_disk_lane(7, ino), several);
	cr_expect_eq(pmv_disk_device(lane), pmv_disk_device(several));
	cr_expect_eq(pmv_disk_both(several, far), PMV_DISK_UNKNOWN);
	cr_expect_eq(pmv_disk_both(PMV_DISK_UNKNOWN, far), PMV_DISK_UNKNOWN);
	cr_expect_neq(pmv_disk_lane(0, 0), PMV_DISK_NONE);
}
