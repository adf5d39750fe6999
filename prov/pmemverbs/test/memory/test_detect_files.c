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

Test(detect, plain_file_without_sysfs)
{
	file(0, DISK, "/data/a");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert_eq(mem.numa_node, -1);
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
	} rows[] = {
		{"ext4", PMV_PAGE, PMV_FILE},
		{"xfs", PMV_PAGE, PMV_FILE},
		{"btrfs", PMV_PAGE, PMV_FILE},
		{"zfs", PMV_PAGE, PMV_FILE},
		{"nfs", PMV_PAGE, PMV_FILE},
		{"nfs4", PMV_PAGE, PMV_FILE},
		{"cifs", PMV_NONE, PMV_UNKNOWN},
		{"9p", PMV_NONE, PMV_UNKNOWN},
		{"jfs", PMV_NONE, PMV_UNKNOWN},
		{"fuse", PMV_NONE, PMV_UNKNOWN},
		{"fuse.sshfs", PMV_NONE, PMV_UNKNOWN},
		{"fuseblk", PMV_NONE, PMV_UNKNOWN},
		{"virtiofs", PMV_NONE, PMV_UNKNOWN},
		{"ext5", PMV_NONE, PMV_UNKNOWN},
		{"ext", PMV_NONE, PMV_UNKNOWN},
		{"tmpfs", PMV_NONE, PMV_VOLATILE_FS},
		{"ramfs", PMV_NONE, PMV_VOLATILE_FS},
		{"rootfs", PMV_NONE, PMV_VOLATILE_FS},
		{"hugetlbfs", PMV_NONE, PMV_VOLATILE_FS},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char dev[16], tail[64];

		snprintf(dev, sizeof(dev), "00:%zx", 0x60 + i);
		snprintf(tail, sizeof(tail), "%s source rw", rows[i].type);
		mount_fs((unsigned int) (60 + i), dev, "/mnt/x", tail);
		file(i, dev, "/mnt/x/a");
		if (rows[i].persist)
			expect(i, 1, rows[i].persist, rows[i].backing);
		else
			expect_refused(i, 1, FI_EOPNOTSUPP, rows[i].backing, rows[i].type);
	}
}

Test(detect, a_disk_may_be_made_of_memory)
{
	static const char *const names[] = {"ram0", "zram12", "nullb1"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char dev[16], dir[64];

		snprintf(dev, sizeof(dev), "fe:%zx", i);
		snprintf(dir, sizeof(dir), "devices/virtual/block/%s", names[i]);
		device("block", dev, dir);
		mount_fs((unsigned int) (60 + i), dev, "/mnt/x", "ext4 /dev/x rw");
		file(i, dev, "/mnt/x/a");
		expect_refused(i, 1, FI_EOPNOTSUPP, PMV_FILE, "RAM disk");
	}
	mapper();
	region(REGION0, "memory_controller", "0");
	slave(DM, "pmem0", REGION0 "/namespace0.0/block/pmem0");
	slave(DM, "zram12", "devices/virtual/block/zram12");
	file(10, "fd:00", "/mnt/dm/a");
	expect_refused(10, 1, FI_EOPNOTSUPP, PMV_FILE, "zram12");
}

Test(detect, a_volatile_region_as_a_disk)
{
	region(REGION0, "memory_controller", "0");
	put(REGION0, "devtype", "nd_volatile");
	pmem_disk();
	file(0, PMEM0, "/mnt/pmem/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "region0");
}

Test(detect, a_loop_device_keeps_what_its_file_keeps)
{
	device("block", "07:00", "devices/virtual/block/loop0");
	mount_fs(60, "07:00", "/mnt/loop", "ext4 /dev/loop0 rw");
	file(0, "07:00", "/mnt/loop/a");
	node("/data/image", DISK, 50, S_IFREG, "00:00");
	node("/dev/shm/image", TMPFS, 50, S_IFREG, "00:00");
	node("/mnt/loop/image", "07:00", 50, S_IFREG, "00:00");

	put("devices/virtual/block/loop0", "loop/backing_file", "/data/image");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	put("devices/virtual/block/loop0", "loop/backing_file", "/dev/shm/image");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "loop0");
	put("devices/virtual/block/loop0", "loop/backing_file", "/data/image (deleted)");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	put("devices/virtual/block/loop0", "loop/backing_file", "/mnt/loop/image");
	expect(0, 1, PMV_PAGE, PMV_FILE);
}

Test(detect, btrfs)
{
	device("block", DISK, "devices/pci0/sda");
	device("block", "fe:00", "devices/virtual/block/zram0");
	node("/dev/sda", DEVTMPFS, 4, S_IFBLK, DISK);
	node("/dev/zram0", DEVTMPFS, 5, S_IFBLK, "fe:00");
	mount_fs(60, "00:30", "/mnt/b", "btrfs /dev/sda rw,subvolid=5");
	mount_fs(61, "00:31", "/mnt/z", "btrfs /dev/zram0 rw,subvolid=5");

	/* stat has a number of the subvolume's own */
	node("/mnt/b/a", "00:40", 7, S_IFREG, "00:00")->mount = 60;
	file(0, "00:30", "/mnt/b/a");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert(strstr(mem.what, "sda"), "%s", mem.what);
	file(1, "00:31", "/mnt/z/a");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_FILE, "zram0");

	/* Another file system, whose source is a device of the same number, but no disk. */
	mount_fs(62, "00:32", "/mnt/c", "zfs /dev/char rw");
	node("/dev/char", DEVTMPFS, 6, S_IFCHR, "fe:00");
	file(2, "00:32", "/mnt/c/a");
	expect(2, 1, PMV_PAGE, PMV_FILE);

	/* SUSE's kernels have it in smaps too, but not in mountinfo. */
	file(3, "00:40", "/mnt/b/a");
	expect(3, 1, PMV_PAGE, PMV_FILE);
}

/* mountinfo has a blank as \040 and a backslash as \134. */
Test(detect, names_with_blanks)
{
	char source[400];

	device("block", DISK, "devices/pci0/sda");
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
	expect(2, 1, PMV_PAGE, PMV_FILE);
	cr_assert(!strstr(mem.what, "sda"), "%s", mem.what);
}

Test(detect, a_mapped_block_device)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	device("block", "fe:00", "devices/virtual/block/zram0");
	node("/dev/pmem0", DEVTMPFS, 7, S_IFBLK, PMEM0);
	node("/dev/zram0", DEVTMPFS, 8, S_IFBLK, "fe:00");
	node("/dev/gone", DEVTMPFS, 9, S_IFBLK, "fe:01");
	vma(0, 1, "rw-s", DEVTMPFS, 7, "/dev/pmem0", FLAGS);
	vma(1, 1, "rw-s", DEVTMPFS, 8, "/dev/zram0", FLAGS);
	vma(2, 1, "rw-s", DEVTMPFS, 9, "/dev/gone", FLAGS);
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_FILE, "RAM disk");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "sysfs");
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
