/* SPDX-License-Identifier: BSD-2-Clause */
/* test_direct.c -- memory with a file behind it: what is written, and what a failed write means */
#include "test/support/drive.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "memory/direct_path.h"
#include "memory/disk.h"

#define BLOCKS 32

static struct pmv_direct *direct;
static char *memory;

static void begin(void)
{
	direct = drive_open(BLOCKS);
	memory = pmv_direct_memory(direct).iov_base;
}

static void end(void)
{
	drive_close(direct);
}

/* put -- a byte into each of the blocks, and make that durable */
static int put(const int *blocks, size_t count, char what)
{
	struct iovec ranges[PMV_DIRECT_RANGES];

	for (size_t i = 0; i < count; i++) {
		ranges[i] = (struct iovec){memory + (uint64_t) blocks[i] * PMV_BLOCK + 100, 1};
		*(char *) ranges[i].iov_base = what;
	}
	return pmv_direct_write(direct, ranges, count);
}

#define PUT(what, ...)                                                                             \
	put((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int), what)

static bool has(int block)
{
	return drive_has(direct, (uint64_t) block * PMV_BLOCK, PMV_BLOCK);
}

TestSuite(direct, .init = begin, .fini = end);

Test(direct, is_written_in_its_files_lane)
{
	struct stat st;

	cr_assert(!stat(drive_path(), &st));
	cr_expect_eq(pmv_direct_disk(direct), pmv_disk_lane(st.st_dev, st.st_ino));
}

Test(direct, writes_whole_blocks_and_no_others)
{
	memory[0] = memory[5 * PMV_BLOCK] = 1;
	cr_expect_eq(PUT(2, 3), 0);
	cr_expect(has(3));
	cr_expect_not(has(0));
	cr_expect_not(has(5));
	cr_expect_eq(drive.calls, 1);
	cr_expect_eq(drive.durable, 1, "a single write needs no flush behind it");
	cr_expect_eq(drive.flushes, 0);
}

Test(direct, writes_ranges_together_with_one_flush)
{
	cr_expect_eq(PUT(2, 9, 3, 3, 20, 4), 0);
	cr_expect(has(3) && has(4) && has(9) && has(20));
	cr_expect_eq(drive.calls, 3, "blocks 3 and 4 are one write");
	cr_expect_eq(drive.writes[3], 1);
	cr_expect_eq(drive.flushes + drive.durable / 3, 1);
}

Test(direct, writes_one_block_after_the_other_without_io_uring)
{
	end();
	drive.no_ring = true;
	begin();
	cr_expect_eq(PUT(2, 9, 3, 20), 0);
	cr_expect(has(3) && has(9) && has(20));
	cr_expect_eq(drive.calls, 3);
	cr_expect_eq(drive.rings, 0);
	drive.errors[9] = EIO;
	cr_expect_eq(PUT(3, 9, 3, 20), -FI_EIO);
	cr_expect(has(3) && has(20));
	drive.no_ring = false;
}

Test(direct, has_no_error_for_no_byte)
{
	const struct iovec nothing = {memory + 5 * PMV_BLOCK, 0};

	cr_expect_eq(pmv_direct_write(direct, &nothing, 1), 0);
	cr_expect_eq(drive.calls, 0);
}

static void expect_retry(void)
{
	cr_expect(pmv_direct_is_bad(direct));
	cr_expect(drive.writes[3] == 1 && has(20));
	/* Another block is written well; but what was to be durable is not. */
	cr_expect_eq(PUT(5, 7), -FI_EIO);
	cr_expect_eq(drive.writes[3], 2);
	cr_expect_eq(drive.writes[20], 1, "it was written");
	cr_expect(has(7));
	drive.errors[3] = 0;
	cr_expect_eq(pmv_direct_write(direct, NULL, 0), 0);
	cr_expect_eq(drive.writes[3], 3);
	cr_expect(has(3));
	cr_expect_not(pmv_direct_is_bad(direct));
	cr_expect_eq(PUT(6, 8), 0);
	cr_expect_eq(drive.writes[3], 3);
}

Test(direct, writes_again_what_the_drive_has_refused)
{
	drive.errors[3] = EIO;
	cr_expect_eq(PUT(4, 3, 20), -FI_EIO);
	expect_retry();
}

Test(direct, does_not_trust_a_write_that_comes_back_short)
{
	drive.errors[3] = -1;
	cr_expect_eq(PUT(4, 3, 20), -FI_EIO);
	expect_retry();
}

Test(direct, does_not_trust_a_single_write_that_fails)
{
	drive.errors[3] = ENOSPC;
	cr_expect_eq(PUT(4, 3), -FI_EIO);
	drive.errors[3] = 0;
	cr_expect_eq(PUT(4, 5), 0);
	cr_expect_eq(drive.writes[3], 2);
}

Test(direct, trusts_nothing_that_was_not_flushed)
{
	/* A drive with FUA needs no flush. */
	if (PUT(1, 3, 20) || !drive.flushes)
		cr_skip_test("this drive needs no flush");
	drive_forget();
	drive.flush_error = EIO;
	cr_expect_eq(PUT(4, 3, 20), -FI_EIO);
	cr_expect(pmv_direct_is_bad(direct));
	drive.flush_error = 0;
	cr_expect_eq(PUT(4, 9), 0);
	cr_expect(drive.writes[3] == 2 && drive.writes[20] == 2);
}

Test(direct, goes_on_without_io_uring_once_that_has_failed)
{
	if (PUT(1, 3, 20) || !drive.rings)
		cr_skip_test("no io_uring here");
	drive_forget();
	drive.ring_fails = true;
	cr_expect_eq(PUT(4, 3, 20), 0);
	cr_expect(has(3) && has(20));
	cr_expect(drive.writes[3] == 1 && drive.writes[20] == 1);
	cr_expect_eq(PUT(5, 9, 30), 0);
	cr_expect(has(9) && has(30));
	cr_expect_eq(drive.rings, 1, "it is not asked again");
}

Test(direct, writes_again_what_io_uring_has_broken_off)
{
	drive.once = true;
	drive.errors[3] = EINTR;
	drive.errors[20] = EAGAIN;
	drive.errors[30] = ECANCELED;
	if (PUT(4, 3, 20, 30) && !drive.rings)
		cr_skip_test("no io_uring here");
	cr_expect_not(pmv_direct_is_bad(direct));
	cr_expect(has(3) && has(20) && has(30));
	cr_expect(drive.writes[3] == 2 && drive.writes[20] == 2 && drive.writes[30] == 2);
}

Test(direct, writes_large_ranges_in_parts)
{
	const uint64_t len = UINT64_C(40) << 20;
	const struct iovec most = {NULL, len - 1};
	struct iovec range = most;

	end();
	direct = drive_open(len / PMV_BLOCK);
	memory = pmv_direct_memory(direct).iov_base;
	memset(memory, 7, len);
	range.iov_base = memory;
	cr_expect_eq(pmv_direct_write(direct, &range, 1), 0);
	cr_expect(drive_has(direct, 0, len));
	cr_expect_eq(drive.calls, 40);
}

Test(direct, fails_once_the_file_is_gone)
{
	cr_assert_eq(unlink(drive_path()), 0);
	cr_expect_eq(PUT(1, 3), -FI_EIO);
	cr_expect_eq(PUT(1, 4), -FI_EIO);
}

Test(direct, fails_once_the_file_is_truncated)
{
	cr_assert_eq(truncate(drive_path(), PMV_BLOCK), 0);
	cr_expect_eq(PUT(1, 0), -FI_EIO);
	/* Its former end was lost. */
	cr_assert_eq(truncate(drive_path(), BLOCKS * PMV_BLOCK), 0);
	cr_expect_eq(PUT(1, 0), -FI_EIO);
}

/* What is opened */

static int try(struct pmv_direct_attr attr, struct pmv_direct **result, struct pmv_mem *mem)
{
	attr.path = drive_path();
	return pmv_direct_open(&attr, result, mem);
}

Test(direct, can_be_open_once)
{
	struct pmv_direct *other;
	struct pmv_mem mem;

	cr_expect_eq(try((struct pmv_direct_attr){0}, &other, &mem), -FI_EBUSY, "%s", mem.what);
	cr_expect_eq(pmv_direct_close(direct), 0);
	cr_expect_eq(try((struct pmv_direct_attr){0}, &direct, &mem), 0, "%s", mem.what);
}

Test(direct, has_what_was_in_the_file)
{
	struct pmv_mem mem;

	cr_assert_eq(PUT(7, 3, 30), 0);
	memory[4 * PMV_BLOCK] = 9;
	cr_expect_eq(pmv_direct_close(direct), 0);
	cr_assert_eq(try((struct pmv_direct_attr){0}, &direct, &mem), 0);
	memory = pmv_direct_memory(direct).iov_base;
	cr_expect_eq(pmv_direct_memory(direct).iov_len, BLOCKS * PMV_BLOCK);
	cr_expect_eq(memory[3 * PMV_BLOCK + 100], 7);
	cr_expect_eq(memory[30 * PMV_BLOCK + 100], 7);
	cr_expect_eq(memory[4 * PMV_BLOCK], 0, "nobody made it durable");
}

Test(direct, opens_a_file_that_the_caller_has_open)
{
	int fd = open(drive_path(), O_RDWR);
	struct pmv_direct_attr attr = {0};
	struct pmv_mem mem;
	char path[32];

	cr_assert_geq(fd, 0);
	cr_expect_eq(pmv_direct_close(direct), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	attr.path = path;
	cr_assert_eq(pmv_direct_open(&attr, &direct, &mem), 0, "%s", mem.what);
	close(fd);
	memory = pmv_direct_memory(direct).iov_base;
	cr_expect_eq(PUT(8, 3), 0);
	cr_expect(has(3));
}

Test(direct, opens_a_part)
{
	struct pmv_mem mem;

	cr_assert_eq(PUT(7, 3, 4, 5), 0);
	cr_expect_eq(pmv_direct_close(direct), 0);
	cr_assert_eq(try((struct pmv_direct_attr){.offset = 3 * PMV_BLOCK, .len = 2 * PMV_BLOCK},
			 &direct, &mem),
		     0);
	memory = pmv_direct_memory(direct).iov_base;
	cr_expect_eq(memory[100], 7);
	drive_forget();
	cr_expect_eq(PUT(8, 1), 0);
	cr_expect_eq(drive.writes[4], 1);
	cr_expect_eq(pmv_direct_close(direct), 0);
	cr_assert_eq(try((struct pmv_direct_attr){0}, &direct, &mem), 0);
	memory = pmv_direct_memory(direct).iov_base;
	cr_expect_eq(memory[4 * PMV_BLOCK + 100], 8);
	cr_expect_eq(memory[5 * PMV_BLOCK + 100], 7);
}

/* expect_laid_out -- nothing of the file is a hole or only allocated */
static void expect_laid_out(off_t len)
{
	int fd = open(drive_path(), O_RDONLY);
	struct stat st;

	cr_assert(fd >= 0 && !fstat(fd, &st));
	cr_expect_eq(st.st_size, len);
	cr_expect_eq(lseek(fd, 0, SEEK_HOLE), len);
	close(fd);
}

Test(direct, lays_out_all_of_a_file)
{
	struct pmv_mem mem;
	int fd;

	expect_laid_out(BLOCKS * PMV_BLOCK);
	cr_expect_eq(pmv_direct_close(direct), 0);
	fd = open(drive_path(), O_RDWR | O_TRUNC);
	cr_assert(fd >= 0);
	/* Holes, blocks that are only allocated, and an end inside a block. */
	cr_assert_eq(pwrite(fd, "abc", 3, 9 * PMV_BLOCK), 3);
	cr_assert_eq(pwrite(fd, "abc", 3, 2 * PMV_BLOCK), 3);
	cr_assert_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 20 * PMV_BLOCK), 0);
	close(fd);
	cr_assert_eq(try((struct pmv_direct_attr){.len = 16 * PMV_BLOCK}, &direct, &mem), 0, "%s",
		     mem.what);
	memory = pmv_direct_memory(direct).iov_base;
	cr_expect_eq(memcmp(memory + 9 * PMV_BLOCK, "abc", 4), 0);
	cr_expect_eq(memcmp(memory + 2 * PMV_BLOCK, "abc", 4), 0);
	expect_laid_out(16 * PMV_BLOCK);
	cr_expect(drive_has(direct, 0, 16 * PMV_BLOCK));
}

Test(direct, takes_a_file_that_ends_inside_a_block)
{
	struct pmv_mem mem;

	cr_expect_eq(pmv_direct_close(direct), 0);
	cr_assert_eq(truncate(drive_path(), 5000), 0);
	cr_assert_eq(try((struct pmv_direct_attr){0}, &direct, &mem), 0, "%s", mem.what);
	cr_expect_eq(pmv_direct_memory(direct).iov_len, 2 * PMV_BLOCK);
	expect_laid_out(2 * PMV_BLOCK);
}

static const struct {
	const char *name;
	struct pmv_direct_attr attr;
} wrong[] = {
	{"an offset inside a block", {.offset = 100, .len = PMV_BLOCK}},
	{"a length inside a block", {.len = 100}},
	{"behind the end", {.offset = BLOCKS * PMV_BLOCK}},
	{"an offset that is no offset",
	 {.offset = UINT64_MAX & ~(PMV_BLOCK - 1), .len = PMV_BLOCK}},
	{"what must not be there is not made", {.len = PMV_BLOCK, .exclusive = true}},
	{"more than there can be", {.offset = PMV_BLOCK, .len = INT64_MAX & ~(PMV_BLOCK - 1)}},
};

Test(direct, refuses_parts_that_are_no_blocks)
{
	struct pmv_direct *none;
	struct pmv_mem mem;

	cr_expect_eq(pmv_direct_close(direct), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_eq(try(wrong[i].attr, &none, &mem), -FI_EINVAL, "%s: %s", wrong[i].name,
			     mem.what);
	cr_assert_eq(try((struct pmv_direct_attr){0}, &direct, &mem), 0, "%s", mem.what);
}

Test(direct, makes_no_file_that_is_there_if_it_must_not)
{
	struct pmv_direct_attr attr = {.len = PMV_BLOCK, .create = true, .exclusive = true};
	struct pmv_direct *none;
	struct pmv_mem mem;

	cr_expect_eq(try(attr, &none, &mem), -EEXIST);
}

/* size_of_file -- -1: it is not there */
static off_t size_of_file(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : st.st_size;
}

Test(direct, leaves_a_disk_as_it_is_that_has_no_room)
{
	struct pmv_direct_attr attr = {
		.path = "drive.none", .len = UINT64_C(1) << 46, .create = true};
	struct pmv_direct *none;
	struct pmv_mem mem;
	int ret;

	unlink(attr.path);
	cr_expect_lt(pmv_direct_open(&attr, &none, &mem), 0, "%s", mem.what);
	cr_expect_eq(size_of_file(attr.path), -1);
	cr_expect_eq(pmv_direct_close(direct), 0);
	ret = try((struct pmv_direct_attr){.len = UINT64_C(1) << 46}, &none, &mem);
	cr_expect_lt(ret, 0);
	cr_expect_eq(size_of_file(drive_path()), BLOCKS * PMV_BLOCK);
	cr_assert_eq(try((struct pmv_direct_attr){0}, &direct, &mem), 0, "%s", mem.what);
}

Test(direct, is_not_a_childs)
{
	struct pmv_mem mem;
	char said = 'n';
	int fds[2], ret;
	pid_t child;

	cr_assert_eq(pipe(fds), 0);
	child = fork();
	if (!child) {
		/* The kernel says EFAULT of what is not mapped. */
		if (write(fds[1], memory, 1) < 0 && write(fds[1], "y", 1) == 1)
			pause();
		_exit(1);
	}
	cr_expect_eq(read(fds[0], &said, 1), 1);
	cr_expect_eq(said, 'y');
	cr_expect_eq(pmv_direct_close(direct), 0);
	/* The child still has the description. */
	ret = try((struct pmv_direct_attr){0}, &direct, &mem);
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	cr_assert_eq(ret, 0, "%s", mem.what);
}

/* Two writes of a block must not be under way together: the older one may land last. */
static void *write_often(void *arg)
{
	for (int i = 0; i < 300; i++)
		cr_expect_eq(PUT((char) i, 7), 0);
	return arg;
}

Test(direct, writes_a_block_once_at_a_time)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, write_often, NULL), 0);
	write_often(NULL);
	pthread_join(thread, NULL);
	cr_expect_eq(drive.most, 1);
	cr_expect(has(7));
}

Test(direct, refuses_file_systems_that_would_lose_data)
{
	static const struct {
		unsigned long magic;
		const char *why;
	} refused[] = {
		{0x9123683e, "btrfs checksums"},
		{0x2fc12fc1, "zfs checksums"},
		{0x01021994, "tmpfs is in memory"},
		{0x794c7630, "overlay may copy"},
		{0x6969, "not known"},
	};
	struct pmv_direct_attr attr = {.path = "drive.none", .len = PMV_BLOCK, .create = true};
	struct pmv_direct_path path;
	struct pmv_direct *none;
	struct pmv_mem mem;

	unlink(attr.path);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		drive.magic = refused[i].magic;
		cr_expect_eq(try((struct pmv_direct_attr){0}, &none, &mem), -FI_EOPNOTSUPP);
		cr_expect(strstr(mem.what, refused[i].why), "%s", mem.what);
		cr_expect_eq(pmv_direct_open(&attr, &none, &mem), -FI_EOPNOTSUPP);
		cr_expect_eq(access("drive.none", F_OK), -1, "nothing is made");
		cr_expect_eq(pmv_direct_path_query("drive.none", &path, &mem), -FI_EOPNOTSUPP);
	}
	drive.magic = 0;
	cr_expect_eq(pmv_direct_path_query("drive.none", &path, &mem), 0, "%s", mem.what);
	cr_expect_eq(access("drive.none", F_OK), -1);
}

/* Who holds it */

Test(direct, is_found_by_its_memory)
{
	const uint64_t len = BLOCKS * PMV_BLOCK;
	const struct iovec inside = {memory + 100, len - 100}, over = {memory + 100, len};
	const struct iovec before = {memory - 1, 1}, two[] = {{memory, 1}, {memory + 1, 1}};
	struct pmv_direct *found;
	struct pmv_mem mem;

	cr_expect_eq(pmv_direct_hold(&inside, 1, &found, &mem), 0);
	cr_assert_eq(found, direct);
	cr_expect_eq(pmv_direct_close(direct), -FI_EBUSY);
	pmv_direct_put(found);
	cr_expect_eq(pmv_direct_hold(&before, 1, &found, &mem), 0);
	cr_expect_null(found);
	cr_expect_eq(pmv_direct_hold(&over, 1, &found, &mem), -FI_EINVAL);
	cr_expect_null(found);
	cr_expect_eq(pmv_direct_hold(two, 2, &found, &mem), -FI_EINVAL);
}
