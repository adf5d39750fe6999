/* SPDX-License-Identifier: BSD-2-Clause */
/* test_direct_open.c -- files that are opened for direct I/O while others do so; and their names */
#include "test/support/drive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

static struct pmv_direct *other;
static void (*before_lock)(void);

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);

int __wrap_fcntl(int fd, int command, ...)
{
	void (*run)(void) = before_lock;
	va_list args;
	void *arg;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	if (command == F_OFD_SETLK && run) {
		before_lock = NULL;
		run();
	}
	return __real_fcntl(fd, command, arg);
}

/* begin -- the disk is one for direct I/O, and the file is not there */
static void begin(void)
{
	drive_close(drive_open(1));
}

static void end(void)
{
	unlink(drive_path());
}

TestSuite(direct_open, .init = begin, .fini = end);

static int open_len(uint64_t len, struct pmv_direct **direct, struct pmv_mem *mem)
{
	const struct pmv_direct_attr attr = {
		.path = drive_path(), .len = len, .create = true, .mode = 0600};

	return pmv_direct_open(&attr, direct, mem);
}

/* open_other -- and write its last byte */
static void open_other(void)
{
	struct iovec memory;
	struct pmv_mem mem;

	cr_assert_eq(open_len(4 * PMV_BLOCK, &other, &mem), 0, "%s", mem.what);
	memory = pmv_direct_memory(other);
	memory.iov_base = (char *) memory.iov_base + memory.iov_len - 1;
	memory.iov_len = 1;
	*(char *) memory.iov_base = 7;
	cr_assert_eq(pmv_direct_write(other, &memory, 1), 0);
}

static void expect_last_byte(char byte)
{
	int fd = open(drive_path(), O_RDONLY);
	char last = 0;

	cr_assert_geq(fd, 0, "the file is gone");
	cr_expect_eq(lseek(fd, 0, SEEK_END), 4 * PMV_BLOCK);
	cr_expect_eq(pread(fd, &last, 1, 4 * PMV_BLOCK - 1), 1);
	cr_expect_eq(last, byte);
	close(fd);
}

Test(direct_open, leaves_a_file_that_it_made_to_who_has_the_lock)
{
	struct pmv_direct *none;
	struct pmv_mem mem;

	before_lock = open_other;
	cr_expect_eq(open_len(PMV_BLOCK, &none, &mem), -FI_EBUSY, "%s", mem.what);
	expect_last_byte(7);
	cr_expect_eq(pmv_direct_write(other, NULL, 0), 0);
	cr_expect_eq(pmv_direct_close(other), 0);
}

static void open_and_close_other(void)
{
	open_other();
	cr_expect_eq(pmv_direct_close(other), 0);
}

Test(direct_open, takes_no_block_away_that_another_opening_has_added)
{
	struct pmv_direct *none;
	struct pmv_mem mem;
	int fd = open(drive_path(), O_RDWR | O_CREAT, 0600);

	cr_assert(fd >= 0 && !ftruncate(fd, PMV_BLOCK));
	close(fd);
	before_lock = open_and_close_other;
	cr_expect_lt(open_len(PMV_BLOCK + 1, &none, &mem), 0);
	expect_last_byte(7);
}

static void extend(void)
{
	cr_assert_eq(truncate(drive_path(), 4 * PMV_BLOCK), 0);
}

Test(direct_open, takes_all_of_what_is_there_when_it_has_the_lock)
{
	struct pmv_direct *direct;
	struct pmv_mem mem;

	cr_assert_eq(open_len(PMV_BLOCK, &direct, &mem), 0, "%s", mem.what);
	cr_expect_eq(pmv_direct_close(direct), 0);
	before_lock = extend;
	cr_assert_eq(open_len(0, &direct, &mem), 0, "%s", mem.what);
	cr_expect_eq(pmv_direct_memory(direct).iov_len, 4 * PMV_BLOCK);
	cr_expect_eq(pmv_direct_close(direct), 0);
}

static void take_away(void)
{
	cr_assert_eq(unlink(drive_path()), 0);
}

Test(direct_open, wants_no_file_that_is_taken_away_before_it_is_locked)
{
	struct pmv_direct *none;
	struct pmv_mem mem;

	before_lock = take_away;
	cr_expect_eq(open_len(PMV_BLOCK, &none, &mem), -FI_EOPNOTSUPP);
	cr_expect(strstr(mem.what, PMV_MEM_UNLINKED), "%s", mem.what);
}

static void replace(void)
{
	int fd;

	take_away();
	fd = open(drive_path(), O_RDWR | O_CREAT | O_EXCL, 0600);
	cr_assert(fd >= 0 && !ftruncate(fd, 4 * PMV_BLOCK) &&
		  pwrite(fd, "7", 1, 4 * PMV_BLOCK - 1) == 1);
	close(fd);
}

Test(direct_open, leaves_another_file_that_has_the_name_of_the_one_that_it_made)
{
	struct pmv_direct *none;
	struct pmv_mem mem;

	before_lock = replace;
	cr_expect_lt(open_len(PMV_BLOCK, &none, &mem), 0);
	expect_last_byte('7');
}

/* expect_unsyncable -- in a directory where names can be looked up, and that can't be read */
static void expect_unsyncable(const char *path)
{
	const struct pmv_direct_attr attr = {.path = path, .len = PMV_BLOCK};
	struct pmv_direct *direct;
	struct pmv_mem mem;

	cr_expect_eq(pmv_direct_open(&attr, &direct, &mem), -EACCES, "%s: %s", path, mem.what);
	cr_expect(strstr(mem.what, "laid out"), "%s", mem.what);
}

static void expect_unsyncable_names(const char *name, const char *link, int dir, int fd)
{
	char path[100];
	struct pmv_direct_attr attr = {.path = path, .len = PMV_BLOCK};
	struct pmv_direct *direct;
	struct pmv_mem mem;

	snprintf(path, sizeof(path), "%s/file", name);
	expect_unsyncable(path);
	expect_unsyncable(link);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/file", dir);
	expect_unsyncable(path);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cr_assert_eq(pmv_direct_open(&attr, &direct, &mem), 0, "%s", mem.what);
	cr_expect_eq(pmv_direct_close(direct), 0);
}

Test(direct_open, opens_no_file_whose_directory_it_can_not_sync)
{
	char name[80], path[100], link[100];
	uid_t self = geteuid();
	int dir, fd, readable;

	snprintf(name, sizeof(name), "%s.dir", drive_path());
	snprintf(path, sizeof(path), "%s/file", name);
	snprintf(link, sizeof(link), "%s.link", drive_path());
	cr_assert(!mkdir(name, 0755));
	dir = open(name, O_RDONLY | O_DIRECTORY);
	fd = openat(dir, "file", O_RDWR | O_CREAT, 0600);
	cr_assert(fd >= 0 && !fchmod(fd, 0666) && !fchmod(dir, 0111) && !symlink(path, link));
	readable = open(name, O_RDONLY | O_DIRECTORY);
	/* Root may read any, unless it is confined. */
	if (readable >= 0)
		cr_assert_eq(seteuid(65534), 0);
	expect_unsyncable_names(name, link, dir, fd);
	cr_assert_eq(seteuid(self), 0);
	cr_expect(!fchmod(dir, 0755) && !unlinkat(dir, "file", 0) && !rmdir(name) && !unlink(link));
	close(readable);
	close(fd);
	close(dir);
}
