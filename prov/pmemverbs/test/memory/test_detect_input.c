/* SPDX-License-Identifier: BSD-2-Clause */
/* test_detect_input.c -- smaps, mountinfo and a sysfs that are odd, broken or missing */
#include "test/support/mem_system.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- reading smaps ---------------------------------------------------- */

Test(detect, many_mappings)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	for (uint64_t i = 0; i < 5000; i++)
		vma(2 * i, 1, "rw-p", "00:00", 0, "", "rd wr sf");
	sync_file(10001, PMEM0, "/mnt/pmem/a");
	file(10002, DISK, "/data/a");
	for (uint64_t i = 5002; i < 10000; i++)
		vma(2 * i, 1, "rw-p", "00:00", 0, "", "rd wr sf");
	expect(10001, 1, PMV_DMP, PMV_FSDAX);
	expect(10001, 2, PMV_PAGE, PMV_FILE);
	expect(10002, 1, PMV_PAGE, PMV_FILE);
}

Test(detect, what_lies_behind_the_range_is_not_read)
{
	file(0, DISK, "/data/a");
	append(smaps, "nonsense\n");
	expect(0, 1, PMV_PAGE, PMV_FILE);
}

Test(detect, the_flags_of_another_mapping_do_not_count)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	append(smaps, "%" PRIx64 "-%" PRIx64 " rw-s 00000000 %s 7 /mnt/pmem/a\n", BASE, BASE + MIB,
	       PMEM0);
	append(smaps, "7f0000100000-broken\nVmFlags: rd wr sh sf\n");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect_refused(1, 1, FI_EIO, PMV_UNKNOWN, "broken");
	expect_refused(0, 2, FI_EIO, PMV_UNKNOWN, "broken");
}

Test(detect, mappings_out_of_order)
{
	file(0, DISK, "/data/a");
	vma(0, 1, "rw-p", "00:00", 0, "", "rd wr");
	file(1, DISK, "/data/a");
	expect(0, 2, PMV_PAGE, PMV_FILE);
}

Test(detect, fields_without_a_mapping)
{
	append(smaps, "VmFlags: rd wr sh sf\nSize: 4 kB\n");
	expect_refused(0, 1, FI_EFAULT, PMV_UNKNOWN, "not mapped");
}

Test(detect, smaps_missing)
{
	unlink(smaps);
	expect_refused(0, 1, FI_EIO, PMV_UNKNOWN, smaps);
	mkdir(smaps, 0700);
	expect_refused(0, 1, FI_EIO, PMV_UNKNOWN, smaps);
}

Test(detect, mountinfo_missing)
{
	unlink(mountinfo);
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	sync_file(0, PMEM0, "/mnt/pmem/a");
	file(1, PMEM0, "/mnt/pmem/a");
	file(2, TMPFS, "/dev/shm/a");
	vma(3, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	/* How it is mounted counts. */
	for (uint64_t at = 0; at < 3; at++)
		expect_refused(at, 1, FI_EIO, PMV_UNKNOWN, mountinfo);
	expect(3, 1, PMV_DMP, PMV_DEVDAX);
}

Test(detect, lines_of_mountinfo_that_are_not_understood)
{
	static const char *const lines[] = {
		"60 1 8:17 / /mnt/x rw,relatime shared:1 ext4 /dev/sdb1 rw,nobarrier",
		"60 1 8:17 / /mnt/x rw,relatime shared:1 - ext4",
		"60 1 8-17 / /mnt/x rw,relatime shared:1 - ext4 /dev/sdb1 rw",
		"60 1 8:17",
		"8:17",
	};
	static char whole[8192];
	size_t len = load(mountinfo, whole, sizeof(whole));

	device("block", "08:11", "devices/pci0/sdb");
	file(0, DISK, "/data/a");
	file(1, "08:11", "/mnt/x/a");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		store(mountinfo, whole, len);
		append(mountinfo, "%s\n", lines[i]);
		expect(0, 1, PMV_PAGE, PMV_FILE);
		expect_refused(1, 1, FI_EIO, PMV_UNKNOWN, mountinfo);
	}
	/* libmount takes it for a kind of fstab. */
	store(mountinfo, "", 0);
	append(mountinfo, "/dev/sdb1 /mnt/x ext4 rw 0 0\n");
	expect_refused(1, 1, FI_EIO, PMV_UNKNOWN, mountinfo);
}

Test(detect, paths_that_do_not_fit)
{
	char path[PATH_MAX + 100];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	strcpy(path + sizeof(path) - strlen(" (deleted)") - 1, " (deleted)");
	file(0, DISK, "/data/a");
	file(1, DISK, path);
	file(2, DISK, "/data/b");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "too long");
	expect(2, 1, PMV_PAGE, PMV_FILE);
}

/* unreadable -- it exists, but opening or, if it is a directory, reading it fails */
static void unreadable(const char *dir, const char *name, bool directory)
{
	char path[PATH_MAX], command[2 * PATH_MAX];

	cr_assert(snprintf(path, sizeof(path), "%s/%s/%s", sysfs, dir, name) < PATH_MAX);
	make_parents(path);
	snprintf(command, sizeof(command), "rm -rf %s", path);
	cr_assert(!system(command));
	cr_assert(directory ? !mkdir(path, 0700) : !symlink(path, path));
}

Test(detect, what_sysfs_fails_to_tell_may_be_volatile)
{
	static const char *const devices[] = {"devices/virtual/block/dm-1",
					      "devices/virtual/block/loop0",
					      REGION0 "/namespace0.0/block/pmem0"};

	region(REGION0, "memory_controller", "0");
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		char dev[16];

		snprintf(dev, sizeof(dev), "fe:%zx", i);
		device("block", dev, devices[i]);
		file(i, dev, "/mnt/x/a");
	}
	slave(devices[0], "sda", "devices/pci0/sda");
	put(devices[1], "loop/backing_file", "/data/image");
	node("/data/image", DISK, 50, S_IFREG, "00:00");
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		expect(i, 1, PMV_PAGE, PMV_FILE);
	for (int directory = 0; directory < 2; directory++) {
		unreadable("devices/virtual/block/dm-1", "slaves", false);
		unreadable("devices/virtual/block/loop0", "loop/backing_file", directory);
		unreadable(REGION0, "devtype", directory);
		for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
			expect_refused(i, 1, FI_EOPNOTSUPP, PMV_FILE, "sysfs failed");
	}
}

Test(detect, what_sysfs_fails_to_tell_of_a_cache_may_be_volatile)
{
	static const char *const attributes[] = {"cache_type", "queue/fua", "queue/write_cache"};

	file(0, DISK, "/data/a");
	put("devices/pci0/sda", "queue/write_cache", "write through");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		unreadable("devices/pci0/sda", attributes[i], true);
		expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "sysfs failed");
		put("devices/pci0/sda", attributes[i], "0");
	}
	put("devices/pci0/sda", "queue/write_cache", "write through");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	unreadable("devices/pci0/sda", "device/scsi_disk/0:0:0:0/cache_type", true);
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "sysfs failed");
	unreadable("devices/pci0/sda", "device/scsi_disk", false);
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "sysfs failed");
}

/* Whatever can't be opened then: a file in memory doesn't become one on a disk. */
Test(detect, without_descriptors_nothing_more_is_promised)
{
	struct rlimit limit;
	bool found = false;

	mapper();
	slave(DM, "loop0", "devices/virtual/block/loop0");
	put("devices/virtual/block/loop0", "loop/backing_file", "/dev/shm/image");
	node("/dev/shm/image", TMPFS, 50, S_IFREG, "00:00");
	file(0, "fd:00", "/mnt/dm/a");
	cr_assert(!getrlimit(RLIMIT_NOFILE, &limit));
	for (limit.rlim_cur = 0; !found; limit.rlim_cur++) {
		cr_assert_lt(limit.rlim_cur, 100);
		cr_assert(!setrlimit(RLIMIT_NOFILE, &limit));
		cr_assert_neq(detect(0, 1), 0, "%s", mem.what);
		found = strstr(mem.what, "whose file image may be volatile");
	}
	limit.rlim_cur = limit.rlim_max;
	cr_assert(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* ---- fuzzing ---------------------------------------------------------- */

static void mixed_range(void)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	sync_file(1, PMEM0, "/mnt/pmem/a");
}

Test(detect, truncated_input_never_promises_more)
{
	const char *const paths[] = {smaps, mountinfo};
	static char whole[8192];

	mixed_range();
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
	for (size_t i = 0; i < 2; i++) {
		size_t len = load(paths[i], whole, sizeof(whole));

		for (size_t cut = 0; cut < len; cut++) {
			store(paths[i], whole, cut);
			detect(0, 2);
			cr_assert_leq(mem.persist, PMV_DMP);
		}
		store(paths[i], whole, len);
	}
}

Test(detect, random_input)
{
	const char *const paths[] = {smaps, mountinfo};
	static char whole[8192], changed[8192];

	mixed_range();
	srandom(1);
	for (size_t i = 0; i < 2; i++) {
		size_t len = load(paths[i], whole, sizeof(whole));

		for (unsigned int round = 0; round < 3000; round++) {
			memcpy(changed, whole, len);
			for (long n = 1 + random() % 12; n; n--)
				changed[random() % len] = round % 2 ? random() : 32 + random() % 96;
			store(paths[i], changed, len);
			detect(0, 2);
			cr_assert_leq(mem.persist, PMV_DMP);
		}
		for (unsigned int round = 0; round < 500; round++) {
			for (size_t at = 0; at < len; at++)
				changed[at] = random();
			store(paths[i], changed, len);
			detect(0, 2);
			cr_assert_leq(mem.persist, PMV_DMP);
		}
		store(paths[i], whole, len);
	}
}
