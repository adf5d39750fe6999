/* SPDX-License-Identifier: BSD-2-Clause */
/* test_detect_disk.c -- what is promised of files on disks, and on what only looks like a disk */
#include "test/support/mem_system.h"

#include <stdio.h>
#include <unistd.h>

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

/* The drivers of the kernel that put a SCSI disk into memory. */
Test(detect, a_scsi_disk_may_be_made_of_memory)
{
	static const char *const models[] = {"scsi_debug      ", "RAMDISK-MCP     "};

	device("block", "08:20", "devices/pseudo_0/sdc");
	mount_fs(60, "08:20", "/mnt/x", "ext4 /dev/sdc rw");
	file(0, "08:20", "/mnt/x/a");
	put("devices/pseudo_0/sdc", "device/model", "ST2000");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		put("devices/pseudo_0/sdc", "device/model", models[i]);
		expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "sdc, a RAM disk");
	}
}

/* Nothing is known of what is below: loop devices and arrays that are not set up, and others. */
Test(detect, software_that_shows_no_device_below)
{
	static const struct {
		const char *dir, *cache;
		bool durable;
	} rows[] = {
		{"devices/virtual/block/loop3", "write back", false},
		{"devices/virtual/block/dm-3", "write back", false},
		{"devices/virtual/block/md3", "write back", false},
		{"devices/virtual/block/drbd3", "write back", false},
		{"devices/virtual/block/etherd!e0.1", "write back", false},
		{"devices/virtual/block/unheard-of", "write back", false},
		{"devices/virtual/ublk-char/ublkc0/block/ublkb0", "write back", false},
		{"devices/virtual/block/nbd3", "write through", false},
		{"devices/virtual/block/nbd3", "", false},
		{"devices/virtual/block/nbd4", "write back", true},
		{"devices/virtual/block/zd0", "write back", true},
		{"devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1", "write back", true},
		{"devices/virtual/nvme-fabrics/ctl/nvme1/nvme1n1", "write through", true},
		{"devices/rbd/0/block/rbd0", "write back", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char dev[16];

		snprintf(dev, sizeof(dev), "fe:%zx", i);
		device("block", dev, rows[i].dir);
		put(rows[i].dir, "queue/write_cache", rows[i].cache);
		mount_fs((unsigned int) (60 + i), dev, "/mnt/x", "ext4 /dev/x rw");
		file(i, dev, "/mnt/x/a");
		if (rows[i].durable)
			expect(i, 1, PMV_PAGE, PMV_FILE);
		else
			expect_refused(i, 1, FI_EOPNOTSUPP, PMV_FILE, "no device can be found");
	}
}

Test(detect, a_slave_that_can_not_be_found)
{
	mapper();
	slave(DM, "sda", "devices/pci0/sda");
	file(0, "fd:00", "/mnt/dm/a");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	slave(DM, "sdz", "devices/pci0/sdz");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "sdz, which can't be followed");
}

Test(detect, a_loop_device_keeps_what_its_file_keeps)
{
	device("block", "07:00", "devices/virtual/block/loop0");
	mount_fs(60, "07:00", "/mnt/loop", "ext4 /dev/loop0 rw");
	file(0, "07:00", "/mnt/loop/a");
	node("/data/image", DISK, 50, S_IFREG, "00:00");
	node("/dev/shm/image", TMPFS, 50, S_IFREG, "00:00");

	put("devices/virtual/block/loop0", "loop/backing_file", "/data/image");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	put("devices/virtual/block/loop0", "loop/backing_file", "/dev/shm/image");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "loop0");
	put("devices/virtual/block/loop0", "loop/backing_file", "/data/image (deleted)");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "loop0, whose file can't be found");
	put("devices/virtual/block/loop0", "loop/backing_file", "/gone/image");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "loop0, whose file can't be found");
}

Test(detect, a_loop_device_in_a_circle)
{
	device("block", "07:00", "devices/virtual/block/loop0");
	mount_fs(60, "07:00", "/mnt/loop", "ext4 /dev/loop0 rw");
	put("devices/virtual/block/loop0", "loop/backing_file", "/mnt/loop/image");
	node("/mnt/loop/image", "07:00", 50, S_IFREG, "00:00");
	file(0, "07:00", "/mnt/loop/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "whose file image may be volatile");
}

Test(detect, btrfs)
{
	device("block", DISK, "devices/pci0/sda");
	btrfs_has("1", "sda", "devices/pci0/sda");
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

/* /dev of a container has no nodes of disks, but sysfs is the host's. */
Test(detect, btrfs_whose_device_has_no_node)
{
	static const struct {
		const char *source, *found;
	} rows[] = {
		{"/dev/sdb1", "sdb"},
		{"/dev/mapper/vg-root", "zram0"},
		{"/dev/cciss/c0d0", "cciss!c0d0"},
		{"/dev/sdc", NULL},
		{"/dev/mapper/vg", NULL},
		{"/sdb1", NULL},
	};

	device("block", "08:11", "devices/pci0/sdb/sdb1");
	put("devices/pci0/sdb/sdb1", "partition", "1");
	btrfs_has("1", "sdb1", "devices/pci0/sdb/sdb1");
	device("block", "68:00", "devices/pci0/cciss!c0d0");
	btrfs_has("2", "cciss!c0d0", "devices/pci0/cciss!c0d0");
	device("block", "fe:00", "devices/virtual/block/zram0");
	device("block", "fd:00", DM);
	put(DM, "dm/name", "vg-root");
	slave(DM, "zram0", "devices/virtual/block/zram0");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char dev[16], tail[64];

		snprintf(dev, sizeof(dev), "00:%zx", 0x60 + i);
		snprintf(tail, sizeof(tail), "btrfs %s rw", rows[i].source);
		mount_fs((unsigned int) (60 + i), dev, "/mnt/x", tail);
		file(i, dev, "/mnt/x/a");
		detect(i, 1);
		cr_assert(strstr(mem.what, rows[i].found ? rows[i].found : "in sysfs"), "%s",
			  mem.what);
	}
}

Test(detect, btrfs_on_several_devices)
{
	device("block", "fe:00", "devices/virtual/block/zram0");
	node("/dev/sda", DEVTMPFS, 4, S_IFBLK, DISK);
	mount_fs(60, "00:30", "/mnt/b", "btrfs /dev/sda rw,subvolid=5");
	file(0, "00:30", "/mnt/b/a");
	put("fs/btrfs/features", "raid56", "1");
	btrfs_has("1111-aaaa", "sda", "devices/pci0/sda");
	btrfs_has("2222-bbbb", "zram0", "devices/virtual/block/zram0");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	btrfs_has("1111-aaaa", "zram0", "devices/virtual/block/zram0");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "zram0, a RAM disk");
	btrfs_has("1111-aaaa", "zram0", "devices/gone");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "zram0, which can't be followed");
}

Test(detect, btrfs_whose_devices_are_not_shown)
{
	static const char why[] = "lies on a btrfs on sda, whose other devices can't be seen";

	node("/dev/sda", DEVTMPFS, 4, S_IFBLK, DISK);
	mount_fs(60, "00:30", "/mnt/b", "btrfs /dev/sda rw,subvolid=5");
	file(0, "00:30", "/mnt/b/a");
	/* there is no directory fs */
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, why);
	btrfs_has("2222-bbbb", "sdb", "devices/pci0/sdb");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, why);
	btrfs_has("1111-aaaa", "sda", "devices/pci0/sda");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	hide("fs");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, why);
}

/* ---- containers in which dev/block is empty ---------------------------- */

Test(detect, a_disk_whose_number_is_hidden)
{
	device("block", "08:11", "devices/pci0/sdb/sdb1");
	put("devices/pci0/sdb/sdb1", "partition", "1");
	device("block", "01:00", "devices/virtual/block/ram0");
	mapper();
	slave(DM, "sda", "devices/pci0/sda");
	mount_fs(60, "08:11", "/mnt/x", "xfs /dev/sdb1 rw,logdev=/dev/ram0");
	mount_fs(61, "00:30", "/mnt/b", "btrfs /dev/sda rw,subvolid=5");
	mount_fs(62, "08:12", "/mnt/y", "ext4 /dev/sdb2 rw");
	btrfs_has("1111-aaaa", "sda", "devices/pci0/sda");
	file(0, DISK, "/data/a");
	file(1, "fd:00", "/mnt/dm/a");
	file(2, "00:30", "/mnt/b/a");
	file(3, "08:11", "/mnt/x/a");
	file(4, "08:12", "/mnt/y/a");
	hide("dev/block");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect(1, 1, PMV_PAGE, PMV_FILE);
	expect(2, 1, PMV_PAGE, PMV_FILE);
	expect_refused(3, 1, FI_EOPNOTSUPP, PMV_FILE, "lies on ram0, a RAM disk, too");
	expect_refused(4, 1, FI_EOPNOTSUPP, PMV_FILE, "a device that can't be found in sysfs");
}

Test(detect, xfs_on_several_devices)
{
	static const char *const options[] = {"rtdev", "logdev"};

	device("block", "08:20", "devices/pci0/sdc");
	device("block", "fe:00", "devices/virtual/block/zram0");
	node("/dev/sdc", DEVTMPFS, 4, S_IFBLK, "08:20");
	node("/dev/zram0", DEVTMPFS, 5, S_IFBLK, "fe:00");
	node("/dev/null", DEVTMPFS, 6, S_IFCHR, "fe:00");
	for (unsigned int i = 0; i < 2; i++) {
		static const struct {
			const char *path, *why;
		} rows[] = {
			{"/dev/sdc", NULL},
			{"/dev/zram0", "lies on zram0, a RAM disk, too"},
			{"/dev/sdd", "lies on /dev/sdd, too, which can't be found"},
			{"/dev/null", "lies on /dev/null, too, which can't be found"},
		};

		for (unsigned int j = 0; j < sizeof(rows) / sizeof(rows[0]); j++) {
			unsigned int at = 4 * i + j;
			char dev[16], tail[64];

			snprintf(dev, sizeof(dev), "08:%x", 0x60 + at);
			snprintf(tail, sizeof(tail), "xfs /dev/x rw,%s=%s,noquota", options[i],
				 rows[j].path);
			device("block", dev, "devices/pci0/sdx");
			mount_fs(60 + at, dev, "/mnt/x", tail);
			file(at, dev, "/mnt/x/a");
			if (rows[j].why)
				expect_refused(at, 1, FI_EOPNOTSUPP, PMV_FILE, rows[j].why);
			else
				expect(at, 1, PMV_PAGE, PMV_FILE);
		}
	}
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

/* ---- caches that the kernel does not flush ----------------------------- */

#define SDA "devices/pci0/sda"
#define SAID SDA "/device/scsi_disk/0:0:0:0"

static void forget_caches(void)
{
	put(SDA, "queue/write_cache", "write back");
	put(SDA, "queue/fua", "0");
	put(SDA, "cache_type", "");
	put(SAID, "cache_type", "");
}

Test(detect, a_drive_whose_cache_is_not_flushed)
{
	static const struct {
		const char *queue, *dir, *attribute, *said;
		bool dropped;
	} rows[] = {
		{"write back", SAID, "cache_type", "write back", false},
		{"write through", SAID, "cache_type", "write through", false},
		{"write through", SAID, "cache_type", "none", false},
		{"write through", SAID, "cache_type", "write back", true},
		{"write through", SAID, "cache_type", "write back, no read (daft)", true},
		{"write back", SDA, "cache_type", "write back", false},
		{"write through", SDA, "cache_type", "write through", false},
		{"write through", SDA, "cache_type", "write back", true},
		{"write back", SDA, "queue/fua", "1", false},
		{"write through", SDA, "queue/fua", "0", false},
		{"write through", SDA, "queue/fua", "1", true},
	};

	put("devices/pci0/sda/sda1", "partition", "1");
	device("block", DISK, "devices/pci0/sda/sda1");
	file(0, DISK, "/data/a");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		forget_caches();
		put(SDA, "queue/write_cache", rows[i].queue);
		put(rows[i].dir, rows[i].attribute, rows[i].said);
		if (rows[i].dropped)
			expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE,
				       "sda, whose cache the kernel does not flush: write \"write "
				       "back\" to /sys/block/sda/queue/write_cache");
		else
			expect(0, 1, PMV_PAGE, PMV_FILE);
	}
}

/* What a device drops never comes to those below, and those below may drop it themselves. */
Test(detect, a_device_that_drops_flushes_to_those_below)
{
	mapper();
	slave(DM, "cciss!c0d0", "devices/pci0/cciss!c0d0");
	slave(DM, "dm-1", "devices/virtual/block/dm-1");
	slave(DM, "sdb", "devices/pci0/sdb");
	slave("devices/virtual/block/dm-1", "sda", SDA);
	put("devices/pci0/cciss!c0d0", "queue/write_cache", "write through");
	put("devices/pci0/sdb", "queue/write_cache", "write through");
	put("devices/virtual/block/dm-1", "queue/write_cache", "write through");
	put(DM, "queue/write_cache", "write through");
	forget_caches();
	file(0, "fd:00", "/mnt/dm/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "dm-1, whose cache");
	put("devices/virtual/block/dm-1", "queue/write_cache", "write back");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "dm-0, whose cache");
	put(DM, "queue/write_cache", "write back");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	put(DM, "queue/write_cache", "write through");
	put(SDA, "queue/write_cache", "write through");
	put("devices/virtual/block/dm-1", "queue/write_cache", "write through");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	put(SDA, "queue/fua", "1");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "sda, whose cache");
}

/* unreadable -- a directory in place of an attribute */
static void unreadable(const char *dir, const char *name)
{
	char path[PATH_MAX];

	put(dir, name, "");
	cr_assert(snprintf(path, sizeof(path), "%s/%s/%s", sysfs, dir, name) < PATH_MAX);
	cr_assert(!unlink(path) && !mkdir(path, 0700));
}

Test(detect, a_drive_of_which_sysfs_fails_to_tell)
{
	static const char *const names[] = {"device/model", "queue/write_cache", "queue/fua",
					    "cache_type"};

	file(0, DISK, "/data/a");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		put(SDA, "queue/write_cache", "write through");
		expect(0, 1, PMV_PAGE, PMV_FILE);
		unreadable(SDA, names[i]);
		expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE,
			       "sda, which sysfs failed to describe "
			       "(Is a directory)");
		put(SDA, names[i], "");
	}
}

/* A flush of a loop device is a sync of its file. */
Test(detect, a_loop_device_that_drops_flushes)
{
	device("block", "07:00", "devices/virtual/block/loop0");
	mount_fs(60, "07:00", "/mnt/loop", "ext4 /dev/loop0 rw");
	file(0, "07:00", "/mnt/loop/a");
	node("/data/image", DISK, 50, S_IFREG, "00:00");
	put("devices/virtual/block/loop0", "loop/backing_file", "/data/image");
	put("devices/virtual/block/loop0", "queue/write_cache", "write back");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	put("devices/virtual/block/loop0", "queue/write_cache", "write through");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "loop0, whose cache");
}
