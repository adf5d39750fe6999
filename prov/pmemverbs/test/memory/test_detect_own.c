/* SPDX-License-Identifier: BSD-2-Clause */
/* test_detect_own.c -- what is promised of this process's own memory */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "memory/detect.h"
#include "memory/platform.h"

#define MIB UINT64_C(0x100000)

static struct pmv_mem mem;

static void *map(int fd, int flags)
{
	void *addr = mmap(NULL, MIB, PROT_READ | PROT_WRITE, flags, fd, 0);

	cr_assert_neq(addr, MAP_FAILED);
	return addr;
}

#define expect_own(addr, len, err, back)                                                           \
	do {                                                                                       \
		int ret_ = pmv_detect(addr, len, &mem);                                            \
		cr_assert_eq(ret_, -(err), "%d: %s", ret_, mem.what);                              \
		cr_assert_eq(mem.backing, back, "%d: %s", mem.backing, mem.what);                  \
	} while (0)

Test(detect_own, anonymous)
{
	void *heap = calloc(1, 100);
	int on_stack;

	expect_own(heap, 100, FI_EINVAL, PMV_ANON);
	expect_own(&on_stack, sizeof(on_stack), FI_EINVAL, PMV_ANON);
	expect_own(map(-1, MAP_PRIVATE | MAP_ANONYMOUS), MIB, FI_EINVAL, PMV_ANON);
	expect_own(map(-1, MAP_SHARED | MAP_ANONYMOUS), MIB, FI_EINVAL, PMV_ANON);
	free(heap);
}

Test(detect_own, memfd)
{
	int fd = memfd_create("test", 0);

	cr_assert(!ftruncate(fd, MIB));
	expect_own(map(fd, MAP_SHARED), MIB, FI_EOPNOTSUPP, PMV_VOLATILE_FS);
	expect_own(map(fd, MAP_PRIVATE), MIB, FI_EINVAL, PMV_PRIVATE);
	close(fd);
}

Test(detect_own, file)
{
	char path[] = "test_detect.XXXXXX";
	int fd = mkstemp(path);
	struct statfs fs;
	char *addr;

	cr_assert_geq(fd, 0);
	cr_assert(!ftruncate(fd, MIB));
	cr_assert(!fstatfs(fd, &fs));
	addr = map(fd, MAP_SHARED);
	expect_own(map(fd, MAP_PRIVATE), MIB, FI_EINVAL, PMV_PRIVATE);
	switch (fs.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
		expect_own(addr, MIB, 0, PMV_FILE);
		cr_assert_eq(mem.persist, PMV_PAGE);
		cr_assert(strstr(mem.what, path), "%s", mem.what);
		munmap(addr + MIB / 2, MIB / 4);
		expect_own(addr, MIB, FI_EFAULT, PMV_UNKNOWN);
		unlink(path);
		expect_own(addr, MIB / 2, FI_EOPNOTSUPP, PMV_FILE);
		break;
	case OVERLAYFS_SUPER_MAGIC:
		/* Where the upper layer lies is not known here. */
		if (pmv_detect(addr, MIB, &mem))
			cr_assert(strstr(mem.what, "overlayfs"), "%s", mem.what);
		else
			cr_assert_eq(mem.persist, PMV_PAGE);
		break;
	default:
		cr_assert_eq(pmv_detect(addr, MIB, &mem), -FI_EOPNOTSUPP, "%s", mem.what);
	}
	unlink(path);
	close(fd);
}

/* What is behind overlayfs: only files on a disk have extents. */
Test(detect_own, extents)
{
	char path[] = "test_detect.XXXXXX";
	int fd = mkstemp(path);
	struct statfs fs;

	cr_assert_geq(fd, 0);
	cr_assert(!fstatfs(fd, &fs));
	if (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
	    fs.f_type == BTRFS_SUPER_MAGIC)
		cr_assert(pmv_platform.has_extents(path));
	unlink(path);
	close(fd);
	cr_assert(!pmv_platform.has_extents(path), "it is gone");
	cr_assert(!pmv_platform.has_extents("/proc/self/maps"), "it is on no disk");
}

Test(detect_own, what_may_fault)
{
	int fd = memfd_create("test", 0);
	char *addr;

	cr_assert(!ftruncate(fd, MIB));
	addr = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
	cr_assert(!pmv_detect_may_fault(addr, MIB));
	cr_assert(pmv_detect_may_fault(map(fd, MAP_SHARED), MIB));
	munmap(addr + MIB / 2, MIB / 4);
	cr_assert(pmv_detect_may_fault(addr, MIB));
	close(fd);
}

static void *detect_in_thread(void *addr)
{
	static struct pmv_mem found;

	return (void *) (intptr_t) pmv_detect(addr, MIB, &found);
}

Test(detect_own, from_another_thread)
{
	int fd = memfd_create("test", 0);
	pthread_t thread;
	void *ret;

	cr_assert(!ftruncate(fd, MIB));
	pthread_create(&thread, NULL, detect_in_thread, map(fd, MAP_SHARED));
	pthread_join(thread, &ret);
	cr_assert_eq((intptr_t) ret, -FI_EOPNOTSUPP);
	close(fd);
}
