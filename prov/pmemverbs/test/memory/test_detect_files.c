/* SPDX-License-Identifier: BSD-2-Clause */
/* test_detect_files.c -- what is promised of files that msync makes durable, or nothing does */
#include "test/support/mem_system.h"

#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

Test(detect, plain_file)
{
	device("block", DISK, "devices/pci0/0000:00:01.0/ata1/block/sda/sda1");
	put("devices/pci0/0000:00:01.0/ata1/block/sda/sda1", "partition", "1");
	put("devices/pci0/0000:00:01.0", "numa_node", "1");
	file(0, DISK, "/data/a file with spaces");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert_eq(mem.numa_node, 1);
	cr_assert_str_eq(mem.what, "/data/a file with spaces on ext4, sda, durable by msync");
}

Test(detect, plain_file_on_a_device_that_is_not_in_sysfs)
{
	mount_fs(60, "08:11", "/mnt/x", "ext4 /dev/sdb1 rw");
	file(0, "08:11", "/mnt/x/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "can't be found in sysfs");
	cr_assert_eq(mem.numa_node, -1);
	device("block", "08:11", "devices/pci0/sdb");
	expect(0, 1, PMV_PAGE, PMV_FILE);
}

/* Another file may have been given the name by now, and one may really be called so. */
Test(detect, deleted_file)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	file(0, DISK, "/data/a (deleted)");
	file(1, TMPFS, "/data/a (deleted)");
	sync_file(2, PMEM0, "/mnt/pmem/a (deleted)");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "is unlinked");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "tmpfs");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_FSDAX, "is unlinked");
	node("/data/a (deleted)", DISK, 8, S_IFREG, "00:00");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "is unlinked");
	node("/data/b (deleted)", DISK, 7, S_IFREG, "00:00");
	file(3, DISK, "/data/b (deleted)");
	expect(3, 1, PMV_PAGE, PMV_FILE);
}

Test(detect, file_systems_without_barriers)
{
	static const struct {
		const char *type;
		const char *options;
		bool safe;
	} rows[] = {
		{"ext4", "rw,nobarrier", false},
		{"ext4", "rw,nobarrier,data=ordered", false},
		{"ext4", "rw,barrier", true},
		{"ext4", "rw,nobarrierx", true},
		{"ext3", "rw,barrier=0", false},
		{"ext3", "rw,barrier=1", true},
		{"xfs", "rw,nobarrier,inode64", false},
		{"btrfs", "rw,nobarrier", false},
		{"nilfs2", "rw,nobarrier", false},
		{"gfs2", "rw,nobarrier", false},
		{"f2fs", "rw,nobarrier", false},
		{"f2fs", "rw,fsync_mode=nobarrier", false},
		{"f2fs", "rw,fsync_mode=posix", true},
		{"f2fs", "rw,checkpoint=disable:1024,fsync_mode=posix", false},
		{"f2fs", "rw,checkpoint=disable", false},
		{"f2fs", "rw,checkpoint=enable,checkpoint_merge", true},
		{"bcachefs", "rw,journal_flush_disabled", false},
		{"reiserfs", "rw,barrier=none", false},
		{"reiserfs", "rw", true},
		{"ocfs2", "rw", false},
		{"ocfs2", "rw,barrier=1", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char dev[16], tail[96];

		snprintf(dev, sizeof(dev), "08:%zx", 0x60 + i);
		device("block", dev, "devices/pci0/sdx");
		snprintf(tail, sizeof(tail), "%s /dev/sdx %s", rows[i].type, rows[i].options);
		mount_fs((unsigned int) (60 + i), dev, "/mnt/x", tail);
		file(i, dev, "/mnt/x/a");
		if (rows[i].safe)
			expect(i, 1, PMV_PAGE, PMV_FILE);
		else
			expect_refused(i, 1, FI_EOPNOTSUPP, PMV_FILE, "left in a cache");
	}
}

Test(detect, the_path_of_another_file_is_not_believed)
{
	node("/data/a", DISK, 7, S_IFREG, "00:00");
	file(0, TMPFS, "/data/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "tmpfs");
	file(1, "00:55", "/data/a");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "not mounted here");
}

Test(detect, file_systems)
{
	static const struct {
		const char *type;
		enum pmv_persist persist;
		enum pmv_backing backing;
		bool no_disk;
	} rows[] = {
		{"ext4", PMV_PAGE, PMV_FILE, false},
		{"ext4", PMV_NONE, PMV_FILE, true},
		{"xfs", PMV_PAGE, PMV_FILE, false},
		{"xfs", PMV_NONE, PMV_FILE, true},
		{"btrfs", PMV_PAGE, PMV_FILE, false},
		{"btrfs", PMV_NONE, PMV_FILE, true},
		{"zfs", PMV_PAGE, PMV_FILE, true},
		{"ubifs", PMV_PAGE, PMV_FILE, true},
		{"nfs", PMV_PAGE, PMV_FILE, true},
		{"nfs4", PMV_PAGE, PMV_FILE, true},
		{"cifs", PMV_NONE, PMV_UNKNOWN, true},
		{"9p", PMV_NONE, PMV_UNKNOWN, true},
		{"jfs", PMV_NONE, PMV_UNKNOWN, true},
		{"fuse", PMV_NONE, PMV_UNKNOWN, true},
		{"fuse.sshfs", PMV_NONE, PMV_UNKNOWN, true},
		{"fuseblk", PMV_NONE, PMV_UNKNOWN, true},
		{"virtiofs", PMV_NONE, PMV_UNKNOWN, true},
		{"ext5", PMV_NONE, PMV_UNKNOWN, true},
		{"ext", PMV_NONE, PMV_UNKNOWN, true},
		{"tmpfs", PMV_NONE, PMV_VOLATILE_FS, true},
		{"ramfs", PMV_NONE, PMV_VOLATILE_FS, true},
		{"rootfs", PMV_NONE, PMV_VOLATILE_FS, true},
		{"hugetlbfs", PMV_NONE, PMV_VOLATILE_FS, true},
	};

	node("/dev/sda1", DEVTMPFS, 4, S_IFBLK, DISK);
	point("fs/btrfs/1111-aaaa/devices/sda", "devices/pci0/sda");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char dev[16], tail[64];

		snprintf(dev, sizeof(dev), "00:%zx", 0x60 + i);
		snprintf(tail, sizeof(tail), "%s %s rw", rows[i].type,
			 rows[i].no_disk ? "source" : "/dev/sda1");
		mount_fs((unsigned int) (60 + i), dev, "/mnt/x", tail);
		file(i, dev, "/mnt/x/a");
		if (rows[i].persist)
			expect(i, 1, rows[i].persist, rows[i].backing);
		else
			expect_refused(i, 1, FI_EOPNOTSUPP, rows[i].backing,
				       rows[i].backing == PMV_FILE ? "can't be found in sysfs"
								   : rows[i].type);
	}
}

Test(detect, a_volatile_region_as_a_disk)
{
	region(REGION0, "memory_controller", "0");
	put(REGION0, "devtype", "nd_volatile");
	pmem_disk();
	file(0, PMEM0, "/mnt/pmem/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "region0");
}

/* mountinfo has a blank as \040 and a backslash as \134. */
Test(detect, names_with_blanks)
{
	char source[400];

	device("block", DISK, "devices/pci0/sda");
	point("fs/btrfs/1111-aaaa/devices/sda", "devices/pci0/sda");
	device("block", "fe:00", "devices/virtual/block/zram0");
	mount_fs(60, "00:30", "/mnt/my\\040files", "btrfs /dev/disk/by-label/my\\134x20disk rw");
	mount_fs(61, "00:31", "/mnt/-\\040-\\040tmpfs", "btrfs /dev/mapper/my\\040-\\040swap rw");
	node("/dev/disk/by-label/my\\x20disk", DEVTMPFS, 4, S_IFBLK, DISK);
	node("/dev/mapper/my - swap", DEVTMPFS, 5, S_IFBLK, "fe:00");
	file(0, "00:30", "/mnt/my files/a");
	file(1, "00:31", "/mnt/- - tmpfs/a");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert(strstr(mem.what, "sda"), "%s", mem.what);
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_FILE, "zram0");

	/* The beginning of a long one is another device's name. */
	memset(source, 'x', sizeof(source));
	memcpy(source, "btrfs /", strlen("btrfs /"));
	strcpy(source + sizeof(source) - strlen(" rw") - 1, " rw");
	mount_fs(62, "00:32", "/mnt/long", source);
	source[strlen("btrfs ") + 255] = '\0';
	node(source + strlen("btrfs "), DEVTMPFS, 6, S_IFBLK, DISK);
	file(2, "00:32", "/mnt/long/a");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_FILE, "can't be found in sysfs");
}

Test(detect, private_and_anonymous)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	vma(0, 1, "rw-p", "00:00", 0, "", "rd wr mr mw me ac");
	vma(1, 1, "rw-p", "00:00", 0, "[heap]", "rd wr mr mw me ac");
	vma(2, 1, "rw-p", PMEM0, 7, "/mnt/pmem/a", "rd wr mr mw me sf");
	vma(3, 1, "rw-s", "00:01", 7, "/dev/zero (deleted)", FLAGS);
	vma(4, 1, "rw-s", "00:01", 7, "/SYSV00000000 (deleted)", FLAGS);
	vma(5, 1, "rw-s", "00:0f", 7, "/anon_hugepage (deleted)", FLAGS);
	vma(6, 1, "rw-s", "00:01", 7, "[anon_shmem:name]", FLAGS);
	vma(7, 1, "rw-s", "00:01", 7, "/memfd:name (deleted)", FLAGS);
	vma(8, 1, "rw-s", "00:11", 7, "anon_inode:[io_uring]", FLAGS);
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	node("anon_inode:[io_uring]", "00:11", 7, S_IFCHR, DAX0); /* in the current directory */
	expect_refused(0, 1, FI_EINVAL, PMV_ANON, "anonymous");
	expect_refused(1, 1, FI_EINVAL, PMV_ANON, "[heap]");
	expect_refused(2, 1, FI_EINVAL, PMV_PRIVATE, "MAP_SHARED");
	for (uint64_t at = 3; at <= 6; at++)
		expect_refused(at, 1, FI_EINVAL, PMV_ANON, "shared anonymous");
	expect_refused(7, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "volatile");
	expect_refused(8, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "not mounted");
}

Test(detect, a_long_path_leaves_room_for_the_reason)
{
	char path[1024] = "/";

	memset(path + 1, 'x', sizeof(path) - 5);
	strcpy(path + sizeof(path) - 5, "/end");
	file(0, TMPFS, path);
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "xx/end is on tmpfs");
	cr_assert(strstr(mem.what, "FI_PMEMVERBS_DOMAIN"));
}
