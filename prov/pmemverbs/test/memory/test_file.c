/* SPDX-License-Identifier: BSD-2-Clause */
/* test_file.c -- the files behind a region: which are refused, and what is synced in their place */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "memory/detect.h"
#include "memory/file.h"
#include "agent/flush.h"
#include "memory/platform.h"
#include "agent/region.h"
#include "test/support/descriptors.h"
#include "test/support/syscalls.h"

#define PAGES 8

/* What the kernel is made to answer; 0: what it does. */
static int open_error, reserve_error, past_error, futex_error, look_error;
static off_t reserved_at, reserved_len;

int open(const char *path, int flags, ...)
{
	static int (*next)(const char *path, int flags, ...);
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (open_error && strstr(path, "test_file.")) {
		errno = open_error;
		return -1;
	}
	/* A right of root's, which tests must not depend on. */
	if (strstr(path, "map_files")) {
		errno = EPERM;
		return -1;
	}
	if (!next)
		next = (int (*)(const char *, int, ...)) dlsym(RTLD_NEXT, "open");
	return next(path, flags, mode);
}

/*
 * As on btrfs, where the first files of all subvolumes have the same numbers, and as in
 * a mount namespace where another file has the path
 */
static bool same_numbers;

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	static FILE *(*next)(const char *, const char *);
	unsigned long start, end, offset;
	char line[8192], perms[5], dev[20];
	FILE *real, *told;
	int name;

	if (!next)
		next = (FILE * (*) (const char *, const char *) ) dlsym(RTLD_NEXT, "fopen");
	real = next(path, mode);
	if (!same_numbers || strcmp(path, pmv_platform.maps))
		return real;
	told = tmpfile();
	cr_assert(real && told);
	while (fgets(line, sizeof(line), real)) {
		if (!strstr(line, "test_file.") ||
		    sscanf(line, "%lx-%lx %4s %lx %19s %*u %n", &start, &end, perms, &offset, dev,
			   &name) != 5) {
			fputs(line, told);
			continue;
		}
		line[name + strcspn(line + name, " \n")] = '\0';
		fprintf(told, "%lx-%lx %s %08lx %s 257 %s\n", start, end, perms, offset, dev,
			line + name);
	}
	fclose(real);
	rewind(told);
	return told;
}

int syscalls_answer(long number, const long *args)
{
	(void) args;
	return number == SYS_futex ? futex_error : 0;
}

int statx(int fd, const char *restrict path, int flags, unsigned int mask,
	  struct statx *restrict stx)
{
	if (look_error) {
		errno = look_error;
		return -1;
	}
	return (int) syscall(SYS_statx, fd, path, flags, mask, stx);
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
	cr_assert_eq(mode, 0);
	cr_assert_geq(fd, 0);
	reserved_at = offset;
	reserved_len = len;
	errno = reserve_error;
	return reserve_error ? -1 : 0;
}

int sync_file_range(int fd, off_t offset, off_t len, unsigned int flags)
{
	cr_assert_geq(fd, 0);
	cr_assert_geq(offset, 0);
	cr_assert_gt(len, 0);
	cr_assert_eq(flags, SYNC_FILE_RANGE_WAIT_BEFORE);
	errno = past_error;
	past_error = 0;
	return errno ? -1 : 0;
}

static char path[] = "test_file.XXXXXX";
static int fd;
static size_t page;
static char *memory;
static struct pmv_files *files;
static struct pmv_mem mem;

/* A file of eight pages, mapped from its second one on */
static void setup(void)
{
	fd = mkstemp(path);
	page = sysconf(_SC_PAGESIZE);
	cr_assert_geq(fd, 0);
	cr_assert(!ftruncate(fd, (off_t) (PAGES * page)));
	memory = mmap(NULL, (PAGES - 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      (off_t) page);
	cr_assert_neq(memory, MAP_FAILED);
	if (pmv_detect(memory, page, &mem) || mem.persist != PMV_PAGE) {
		unlink(path);
		cr_skip_test("this directory is not on a disk: %s", mem.what);
	}
}

static void teardown(void)
{
	pmv_files_close(files);
	unlink(path);
}

TestSuite(file, .init = setup, .fini = teardown);

static int open_as(void *addr, size_t len, enum pmv_persist persist, bool declared)
{
	const struct iovec iov = {addr, len};

	pmv_files_close(files);
	return pmv_files_open(&iov, 1, persist, declared, &files, &mem);
}

static int open_at(size_t at, size_t len)
{
	return open_as(memory + at, len, PMV_PAGE, false);
}

#define expect_refused(ret, err, why)                                                              \
	do {                                                                                       \
		int ret_ = ret;                                                                    \
		cr_expect_eq(ret_, -(err), "%d: %s", ret_, mem.what);                              \
		cr_expect_null(files);                                                             \
		cr_expect(strstr(mem.what, why), "%s", mem.what);                                  \
	} while (0)

static char *mapped(size_t at, size_t *len)
{
	return pmv_files_map(files, memory + at, len);
}

Test(file, is_mapped_once_more)
{
	size_t len = 10;
	char *own;

	cr_assert_eq(open_at(page + 100, 3 * page), 0, "%s", mem.what);
	cr_expect(pmv_files_cover(files));
	own = mapped(2 * page + 7, &len);
	cr_assert_not_null(own);
	cr_expect_eq(len, 10);
	cr_expect_neq(own, memory + 2 * page + 7);
	memory[2 * page + 7] = 42;
	cr_expect_eq(*own, 42);
	/* Up to the last byte of the last page that the region has part of. */
	len = 100 * page;
	cr_expect_not_null(mapped(page + 100, &len));
	cr_expect_eq(len, 4 * page - 100);
	len = 100 * page;
	cr_expect_null(mapped(0, &len));
	cr_expect_eq(len, page);
	len = 5;
	cr_expect_null(mapped(5 * page, &len));
}

Test(file, is_opened_once_however_it_is_mapped)
{
	int before = count_descriptors();
	size_t len;

	cr_assert(!mprotect(memory + 2 * page, page, PROT_READ));
	cr_assert_eq(open_at(0, 5 * page), 0, "%s", mem.what);
	cr_expect_eq(count_descriptors(), before + 1);
	for (size_t i = 0; i < 5; i++) {
		len = 1;
		memory[4 * page] = (char) i;
		cr_expect_not_null(mapped(i * page, &len));
	}
	pmv_files_close(files);
	files = NULL;
	cr_expect_eq(count_descriptors(), before);
}

/* Two domains of a process, say: what one of them is told the other one is told as well. */
Test(file, is_opened_for_each_region)
{
	int before = count_descriptors();
	struct pmv_files *first;

	cr_assert_eq(open_at(0, page), 0);
	first = files;
	files = NULL;
	cr_assert_eq(open_at(0, page), 0);
	cr_expect_eq(count_descriptors(), before + 2);
	pmv_files_close(first);
}

Test(file, is_needed_only_where_there_is_something_to_sync)
{
	int before = count_descriptors();

	cr_expect_eq(open_as(memory, page, PMV_NONE, false), 0);
	cr_expect_null(files);
	cr_expect_eq(open_as(memory, page, PMV_MHP, true), 0);
	cr_expect_null(files);
	/* One that lies on DAX is looked at, and let go. */
	cr_expect_eq(open_as(memory, page, PMV_DMP, false), 0);
	cr_expect_null(files);
	cr_expect_eq(count_descriptors(), before);
}

Test(file, that_is_unlinked_is_refused)
{
	unlink(path);
	expect_refused(open_at(0, page), FI_EOPNOTSUPP, "can't be opened");
	/* Not looked at any longer than the name is there. */
	cr_expect_eq(open_as(memory, page, PMV_PAGE, true), 0);
	cr_expect_null(files);
}

static void replace_file(void)
{
	char other[] = "test_file.XXXXXX";
	int new = mkstemp(other);

	cr_assert(!ftruncate(new, (off_t) (PAGES * page)));
	cr_assert(!rename(other, path));
	close(new);
}

/* The kernel says that the name is gone, by a name which another file may have. */
Test(file, that_has_another_ones_name_is_refused)
{
	char other[sizeof(path) + 16];

	snprintf(other, sizeof(other), "%s (deleted)", path);
	replace_file();
	expect_refused(open_at(0, page), FI_EOPNOTSUPP, "can't be opened");
	cr_assert(!rename(path, other));
	expect_refused(open_at(0, page), FI_EOPNOTSUPP, "can't be opened");
	unlink(other);
}

Test(file, that_ends_within_the_region_is_refused)
{
	cr_assert(!ftruncate(fd, (off_t) (2 * page + 10)));
	cr_expect_eq(open_at(0, page + 10), 0, "%s", mem.what);
	expect_refused((files = (pmv_files_close(files), NULL), open_at(0, page + 11)), FI_EINVAL,
		       "beyond the end");
	expect_refused(open_as(memory, page + 11, PMV_DMP, false), FI_EINVAL, "beyond the end");
	cr_expect_eq(open_as(memory, page + 11, PMV_PAGE, true), 0);
}

Test(file, is_given_its_blocks)
{
	cr_expect_eq(open_at(page + 5, 100), 0);
	cr_expect_eq(reserved_at, (off_t) (2 * page));
	cr_expect_eq(reserved_len, 105);
}

Test(file, without_room_is_refused)
{
	reserve_error = ENOSPC;
	expect_refused(open_at(0, 2 * page), FI_ENOSPC, "no room");
	expect_refused(open_as(memory, 2 * page, PMV_DMP, false), FI_ENOSPC, "no room");
	/* Some file systems can't be asked. */
	reserve_error = EOPNOTSUPP;
	cr_expect_eq(open_at(0, 2 * page), 0);
}

/* ZFS asks for free space, whether there is something to allocate or not. */
Test(file, without_holes_needs_no_room)
{
	memset(memory, 1, 2 * page);
	cr_assert(!fsync(fd));
	reserve_error = ENOSPC;
	cr_expect_eq(open_at(0, 2 * page), 0, "%s", mem.what);
	reserve_error = EDQUOT;
	cr_expect_eq(open_at(10, page), 0, "%s", mem.what);
	expect_refused(open_at(0, 3 * page), FI_ENOSPC, "no room");
}

/* None of its own: a second file, mapped over the second page */
static char other_path[] = "test_file.XXXXXX";

static int map_other(void)
{
	int other = mkstemp(other_path);

	cr_assert_geq(other, 0);
	cr_assert(!ftruncate(other, (off_t) (PAGES * page)));
	cr_assert_neq(mmap(memory + page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			   other, (off_t) (2 * page)),
		      MAP_FAILED);
	return other;
}

Test(file, is_told_from_another_one_with_its_numbers)
{
	int other = map_other();
	int before = count_descriptors();
	size_t len = 1;
	char *own;

	same_numbers = true;
	cr_expect_eq(open_at(0, 3 * page), 0, "%s", mem.what);
	cr_expect_eq(count_descriptors(), before + 2);
	memory[page] = 42;
	own = mapped(page, &len);
	cr_expect(own && *own == 42);
	unlink(other_path);
	close(other);
}

Test(file, that_is_another_one_with_its_numbers_is_refused)
{
	int other = map_other();

	same_numbers = true;
	cr_assert(!rename(other_path, path));
	close(other);
	expect_refused(open_at(0, page), FI_EOPNOTSUPP, "leads to another file");
	cr_expect_eq(open_as(memory, page, PMV_PAGE, true), 0);
	cr_expect_null(files);
}

Test(file, that_the_kernel_can_not_compare_is_refused)
{
	futex_error = ENOSYS;
	expect_refused(open_at(0, page), FI_EOPNOTSUPP, "the kernel can't say");
	/* Nobody syncs it. */
	cr_expect_eq(open_as(memory, page, PMV_DMP, false), 0, "%s", mem.what);
}

Test(file, is_compared_wherever_it_can_be_read)
{
	cr_assert(!mprotect(memory, page, PROT_READ));
	cr_expect_eq(open_at(0, page), 0, "%s", mem.what);
	cr_expect_not_null(files);
	/* Whatever is written there: one of the words that the kernel compares, say. */
	for (size_t i = 0; i < 2; i++) {
		const int words[] = {0x5d0f7e31, ~0x5d0f7e31};

		memcpy(memory + page, &words[i], sizeof(words[i]));
		cr_expect_eq(open_at(page, page), 0, "%s", mem.what);
	}
}

Test(file, that_ends_before_the_region_is_refused)
{
	cr_assert(!ftruncate(fd, (off_t) page));
	expect_refused(open_at(0, page), FI_EINVAL, "beyond the end");
	expect_refused(open_as(memory, page, PMV_DMP, false), FI_EINVAL, "beyond the end");
	cr_expect_eq(open_as(memory, page, PMV_PAGE, true), 0);
}

Test(file, whose_pages_were_lost_before_is_refused_once)
{
	past_error = EIO;
	expect_refused(open_at(0, page), FI_EIO, "were lost before");
	cr_expect_eq(open_at(0, page), 0);
	past_error = ESPIPE;
	cr_expect_eq(open_at(0, page), 0);
}

Test(file, that_can_not_be_opened_is_refused_or_believed)
{
	open_error = EACCES;
	expect_refused(open_at(0, page), FI_EOPNOTSUPP, "can't be opened to read and write");
	cr_expect_eq(open_as(memory, page, PMV_PAGE, true), 0);
	cr_expect_null(files);
	open_error = EMFILE;
	expect_refused(open_at(0, page), FI_EMFILE, "raise the limit");
}

/* On DAX nobody syncs it, so nobody takes its errors. */
Test(file, on_dax_need_not_be_opened)
{
	open_error = EACCES;
	cr_expect_eq(open_as(memory, page, PMV_DMP, false), 0, "%s", mem.what);
	cr_expect_null(files);
	open_error = EMFILE;
	expect_refused(open_as(memory, page, PMV_DMP, false), FI_EMFILE, "raise the limit");
	open_error = 0;
	unlink(path);
	expect_refused(open_as(memory, page, PMV_DMP, false), FI_EOPNOTSUPP, "its name is gone");
}

Test(file, may_be_part_of_what_is_declared)
{
	size_t len = page;

	cr_assert_neq(mmap(memory + page, page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		      MAP_FAILED);
	cr_assert_eq(open_as(memory, 3 * page, PMV_PAGE, true), 0);
	cr_assert_not_null(files);
	cr_expect_not(pmv_files_cover(files));
	cr_expect_not_null(mapped(10, &len));
	cr_expect_eq(len, page - 10);
	cr_expect_null(mapped(page, &len));
	cr_expect_not_null(mapped(2 * page, &len));
}

Test(file, is_looked_at_again)
{
	cr_assert_eq(open_at(0, 2 * page), 0);
	cr_expect_eq(pmv_files_state(files), PMV_FILE_HERE);
	cr_assert(!ftruncate(fd, (off_t) (3 * page)));
	cr_expect_eq(pmv_files_state(files), PMV_FILE_HERE, "the region ends there");
	cr_assert(!ftruncate(fd, (off_t) (3 * page - 1)));
	cr_expect_eq(pmv_files_state(files), PMV_FILE_SHORTER);
	cr_assert(!ftruncate(fd, (off_t) (3 * page)));
	replace_file();
	cr_expect_eq(pmv_files_state(files), PMV_FILE_UNLINKED);
}

/* ---- regions in files ---- */

static const void *synced;
static int sync_error;
static off_t cut_to;

static int record(void *addr, size_t len)
{
	cr_assert_gt(len, 0);
	synced = addr;
	if (cut_to)
		cr_assert(!ftruncate(fd, cut_to));
	return sync_error;
}

static const struct pmv_flush_ops recorder = {.touch = record, .sync = record};

static struct pmv_regions regions;

static struct pmv_region *region_of(uint32_t key, size_t at, bool own)
{
	struct iovec iov = {memory + at, page};
	struct pmv_region_attr attr = {
		.key = key,
		.persist = PMV_PAGE,
		.use = PMV_REGION_REMOTE,
		.iov = &iov,
		.iov_count = 1,
	};
	struct pmv_region *region;

	pmv_flush = &recorder;
	if (own) {
		cr_assert_eq(open_at(at, page), 0, "%s", mem.what);
		attr.files = files;
	}
	region = pmv_region_add(&regions, &attr);
	cr_assert_not_null(region);
	return region;
}

static bool synced_to_the_end(struct pmv_region *region, uint64_t offset, uint64_t len)
{
	pmv_regions_sync(&(struct pmv_sync_range){region, offset, len}, 1);
	return !pmv_region_is_lost(region);
}

static void begin(void)
{
	setup();
	pmv_regions_init(&regions);
}

TestSuite(region_in_a_file, .init = begin, .fini = teardown);

Test(region_in_a_file, is_synced_where_nobody_else_does)
{
	struct pmv_region *region = region_of(1, page, true);
	size_t len = 1;

	cr_expect_eq(pmv_region_touch(region, 5, 10), 0);
	cr_expect_eq(synced, mapped(page + 5, &len));
	synced = NULL;
	cr_expect(synced_to_the_end(region, 9, 10));
	cr_expect_eq(synced, mapped(page + 9, &len));
	cr_expect_not(pmv_region_is_lost(region));
}

Test(region_in_a_file, is_lost_alone)
{
	struct pmv_region *other = region_of(2, 0, false);
	struct pmv_region *region = region_of(1, page, true);

	sync_error = -FI_EIO;
	cr_expect_not(synced_to_the_end(region, 0, 1));
	cr_expect(pmv_region_is_lost(region));
	cr_expect_not(pmv_region_is_lost(other));
	sync_error = 0;
	synced = NULL;
	cr_expect_not(synced_to_the_end(region, 0, 1));
	cr_expect_null(synced, "nobody would believe it");
}

Test(region_in_a_file, does_not_mind_what_others_lose)
{
	struct pmv_region *region = region_of(1, page, true);
	struct pmv_region *other = region_of(2, 0, false);
	struct pmv_region *third = region_of(3, 0, false);

	sync_error = -FI_EIO;
	cr_expect_eq(pmv_region_touch(other, 0, 1), -FI_EIO);
	cr_expect(pmv_region_is_lost(other));
	cr_expect(pmv_region_is_lost(third), "the report may have been of its pages");
	cr_expect_not(pmv_region_is_lost(region));
}

Test(region_in_a_file, is_lost_with_its_file)
{
	struct pmv_region *region = region_of(1, page, true);

	cr_expect(synced_to_the_end(region, 0, 1));
	/* While it is synced, so that what was checked before would not have told. */
	cut_to = (off_t) page;
	cr_expect_not(synced_to_the_end(region, 0, 1));
	cr_expect(pmv_region_is_lost(region));
}

Test(region_in_a_file, is_lost_with_its_name)
{
	struct pmv_region *region = region_of(1, page, true);

	unlink(path);
	cr_expect_not(synced_to_the_end(region, 0, 1));
	cr_expect(pmv_region_is_lost(region));
}

/* As seccomp forbids it, or a server that has forgotten the file: no page was lost. */
Test(region_in_a_file, is_lost_when_nobody_tells_of_its_file)
{
	struct pmv_region *region = region_of(1, page, true);

	look_error = ESTALE;
	cr_expect_not(synced_to_the_end(region, 0, 1));
	cr_expect_eq(atomic_load(&region->lost), PMV_LOST_UNKNOWN);
}
