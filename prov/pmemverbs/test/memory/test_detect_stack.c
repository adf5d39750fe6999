/* SPDX-License-Identifier: BSD-2-Clause */
/* test_detect_stack.c -- how much of a thread's stack it takes to look at a file */
#include "test/support/mem_system.h"

#include <pthread.h>
#include <sys/mman.h>

TestSuite(detect_stack, .init = mem_system_begin, .fini = mem_system_end);

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#define STACK (512 << 10)

static void *detect_at(void *at)
{
	if (at)
		detect(*(uint64_t *) at, 1);
	return NULL;
}

/* stack_of -- how much of a thread's stack is written, which grows downwards; NULL: for nothing */
static size_t stack_of(uint64_t *at)
{
	unsigned char *stack =
		mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t left = 0;
	pthread_attr_t attr;
	pthread_t thread;

	cr_assert_neq(stack, MAP_FAILED);
	memset(stack, 0xa5, STACK);
	cr_assert(!pthread_attr_init(&attr) && !pthread_attr_setstack(&attr, stack, STACK));
	cr_assert(!pthread_create(&thread, &attr, detect_at, at));
	cr_assert(!pthread_join(thread, NULL));
	pthread_attr_destroy(&attr);
	while (left < STACK && stack[left] == 0xa5)
		left++;
	munmap(stack, STACK);
	return STACK - left;
}

/* layers -- files 0 to 5: on a partition; above that on a mapper, two loops, overlayfs; on btrfs */
static void layers(void)
{
	put("devices/pci0/sda/sda1", "partition", "1");
	device("block", DISK, "devices/pci0/sda/sda1");
	device("block", "07:00", "devices/virtual/block/loop0");
	device("block", "07:01", "devices/virtual/block/loop1");
	put("devices/virtual/block/loop0", "loop/backing_file", "/mnt/dm/image");
	put("devices/virtual/block/loop1", "loop/backing_file", "/mnt/loop0/image");
	mapper();
	slave(DM, "sda1", "devices/pci0/sda/sda1");
	btrfs_has("1111-aaaa", "sda1", "devices/pci0/sda/sda1");
	mount_fs(60, "07:00", "/mnt/loop0", "ext4 /dev/loop0 rw");
	mount_fs(61, "07:01", "/mnt/loop1", "ext4 /dev/loop1 rw");
	mount_fs(62, "00:30", "/o", "overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w");
	mount_fs(63, "00:31", "/b", "btrfs /dev/sda1 rw");
	node("/dev/sda1", DEVTMPFS, 4, S_IFBLK, DISK);
	node("/mnt/dm/image", "fd:00", 50, S_IFREG, "00:00");
	node("/mnt/loop0/image", "07:00", 50, S_IFREG, "00:00");
	node("/u", "07:01", 51, S_IFDIR, "00:00");
	node("/o/a", "00:30", 7, S_IFREG, "00:00")->mount = 62;
	file(0, DISK, "/data/a");
	file(1, "fd:00", "/mnt/dm/a");
	file(2, "07:00", "/mnt/loop0/a");
	file(3, "07:01", "/mnt/loop1/a");
	file(4, "00:30", "/o/a");
	file(5, "00:31", "/b/a");
}

/* An application's threads may have 64 KiB. */
Test(detect_stack, is_small)
{
	size_t used[6], idle;

	layers();
	/* The first time, functions of libraries are looked up. */
	for (uint64_t i = 0; i < 6; i++)
		expect(i, 1, PMV_PAGE, PMV_FILE);
	idle = stack_of(NULL);
	for (uint64_t i = 0; i < 6; i++)
		used[i] = stack_of(&i) - idle;
	cr_expect_lt(used[0], 16 << 10, "%zu", used[0]);
	for (size_t i = 1; i < 5; i++)
		cr_expect_lt(used[i], used[i - 1] + (6 << 10), "%zu: %zu", i, used[i]);
	cr_expect_lt(used[5], used[0] + (8 << 10), "%zu", used[5]);
}

#endif
