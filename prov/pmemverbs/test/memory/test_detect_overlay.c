/* SPDX-License-Identifier: BSD-2-Clause */
/* test_detect_overlay.c -- what is promised of files on overlayfs: what its upper directory keeps
 */
#include "test/support/mem_system.h"

#include <stdio.h>

/* overlay -- the file /o/a on overlayfs with these options */
static void overlay(const char *options)
{
	char tail[256];

	snprintf(tail, sizeof(tail), "overlay overlay rw,relatime,%s", options);
	mount_fs(60, "00:30", "/o", tail);
	node("/o/a", "00:30", 7, S_IFREG, "00:00")->mount = 60;
	file(0, "00:30", "/o/a");
}

Test(detect, overlayfs)
{
	mount_fs(60, "00:30", "/o", "overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w");
	node("/o/a", "00:30", 7, S_IFREG, "00:00")->mount = 60;
	node("/o/other-numbers", "00:41", 8, S_IFREG, "00:00")->mount = 60;
	file(0, "00:30", "/o/a");
	file(1, "00:30", "/o/a (deleted)");
	file(2, "00:30", "/o/other-numbers");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "overlayfs");
	expect(2, 1, PMV_PAGE, PMV_FILE);

	/* hidden below another mount */
	node("/o/hidden", DISK, 9, S_IFREG, "00:00")->mount = 23;
	file(3, "00:30", "/o/hidden");
	expect_refused(3, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "overlayfs");
	extents = false;
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "overlayfs");
}

Test(detect, overlayfs_that_ignores_msync)
{
	mount_fs(60, "00:30", "/o",
		 "overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w,volatile");
	mount_fs(61, "00:31", "/p",
		 "overlay overlay rw,volatiles,lowerdir=/volatile,upperdir=/u,workdir=/w");
	node("/o/a", "00:30", 7, S_IFREG, "00:00")->mount = 60;
	node("/p/a", "00:31", 7, S_IFREG, "00:00")->mount = 61;
	file(0, "00:30", "/o/a");
	file(1, "00:31", "/p/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "volatile");
	expect(1, 1, PMV_PAGE, PMV_FILE);

	/* As newer kernels show it. */
	mount_fs(63, "00:33", "/r", "overlay overlay rw,upperdir=/u,workdir=/w,fsync=volatile");
	mount_fs(64, "00:34", "/s", "overlay overlay rw,upperdir=/u,workdir=/w,fsync=strict");
	node("/r/a", "00:33", 7, S_IFREG, "00:00")->mount = 63;
	node("/s/a", "00:34", 7, S_IFREG, "00:00")->mount = 64;
	file(2, "00:33", "/r/a");
	file(3, "00:34", "/s/a");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "volatile");
	expect(3, 1, PMV_PAGE, PMV_FILE);

	/* A quotation mark in a name begins no quote. */
	mount_fs(62, "00:32", "/q",
		 "overlay overlay rw,lowerdir=/l,upperdir=/u\",workdir=/w,volatile");
	node("/q/a", "00:32", 7, S_IFREG, "00:00")->mount = 62;
	file(4, "00:32", "/q/a");
	expect_refused(4, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "volatile");
}

/* Linux 6.1: smaps has the numbers of the layer below, which in a container isn't mounted. */
Test(detect, overlayfs_mapped_as_the_layer_below)
{
	mount_fs(60, "00:30", "/o", "overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w");
	node("/o/a", "00:30", 7, S_IFREG, "00:00")->mount = 60;
	node("/o/b", "00:30", 8, S_IFREG, "00:00")->mount = 60;
	file(0, "00:50", "/o/a");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	file(1, "00:50", "/o/b");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "not mounted here");
	file(2, TMPFS, "/o/a");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "tmpfs");
	device("block", "08:11", "devices/pci0/sdb");
	file(3, "08:11", "/o/b");
	expect(3, 1, PMV_PAGE, PMV_FILE);
}

/* ---- the upper directory ---------------------------------------------- */

#define IN_U "lowerdir=/l,upperdir=/u,workdir=/w,uuid=on"

Test(detect, a_file_of_overlayfs_is_judged_by_its_upper_directory)
{
	device("block", DISK, "devices/pci0/sda");
	put("devices/pci0", "numa_node", "1");
	overlay(IN_U);
	node("/u", DISK, 9, S_IFDIR, "00:00");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert_str_eq(mem.what, "/o/a on overlayfs above /u on ext4, sda, durable by msync");
	cr_assert_eq(mem.numa_node, 1);
}

Test(detect, an_upper_directory_may_not_be_durable)
{
	static const struct {
		const char *dev, *mount, *why;
		enum pmv_backing backing;
	} rows[] = {
		{"08:60", "ext4 /dev/sdg rw,nobarrier",
		 "directory /u is on ext4 mounted with nobarrier", PMV_FILE},
		{"00:61", "tmpfs tmpfs rw", "directory /u is on tmpfs", PMV_VOLATILE_FS},
		{"00:62", "fuse.sshfs x rw", "directory /u is on fuse.sshfs", PMV_UNKNOWN},
		{"01:00", "ext4 /dev/ram0 rw", "directory /u lies on ram0, a RAM disk", PMV_FILE},
		{"07:00", "ext4 /dev/loop0 rw", "directory /u lies on loop0, whose file", PMV_FILE},
	};

	device("block", "08:60", "devices/pci0/sdg");
	device("block", "01:00", "devices/virtual/block/ram0");
	device("block", "07:00", "devices/virtual/block/loop0");
	put("devices/virtual/block/loop0", "loop/backing_file", "/dev/shm/image");
	node("/dev/shm/image", TMPFS, 50, S_IFREG, "00:00");
	overlay(IN_U);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pmv_node *upper = node("/u", rows[i].dev, 9, S_IFDIR, "00:00");

		mount_fs((unsigned int) (70 + i), rows[i].dev, "/u", rows[i].mount);
		expect_refused(0, 1, FI_EOPNOTSUPP, rows[i].backing, rows[i].why);
		cr_assert(strstr(mem.what, "FI_PMEMVERBS_DOMAIN"), "%s", mem.what);
		num_nodes--;
		cr_assert_eq(upper->ino, 9);
	}
}

/* What has to be done is said at the end. */
Test(detect, a_long_upper_directory_leaves_room_for_the_end)
{
	static const char upper[] = "/var/lib/docker/overlay2/"
				    "0123456789abcdef0123456789abcdef0123456789abcdef"
				    "0123456789abcdef/diff";
	char options[256], path[128];

	device("block", "fe:00", "devices/virtual/block/dm-1234567890");
	put("devices/virtual/block/dm-1234567890", "queue/write_cache", "write through");
	slave("devices/virtual/block/dm-1234567890", "sda", "devices/pci0/sda");
	put("devices/pci0/sda", "queue/write_cache", "write back");
	mount_fs(61, "fe:00", "/var", "ext4 /dev/dm-1234567890 rw");
	snprintf(options, sizeof(options), "overlay overlay rw,lowerdir=/l,upperdir=%s,workdir=/w",
		 upper);
	mount_fs(60, "00:30", "/o", options);
	snprintf(path, sizeof(path), "/o%s/a", upper);
	node(path, "00:30", 7, S_IFREG, "00:00")->mount = 60;
	node(upper, "fe:00", 9, S_IFDIR, "00:00");
	file(0, "00:30", path);
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "write \"write back\" to /sys/block/dm-");
	cr_assert(strstr(mem.what, "FI_PMEMVERBS_DOMAIN can declare what survives a power failure "
				   "there"),
		  "%s", mem.what);
}

/* What is at the path may be something else, and what it is called may be uncertain. */
Test(detect, an_upper_directory_that_is_not_certain)
{
	static const char *const options[] = {
		"lowerdir=/l,upperdir=/a\\054b,workdir=/w",
		"lowerdir=/l,upperdir=/a",
		"lowerdir=/l,upperdir=/a\\134\\054b,c,workdir=/w",
		"lowerdir=/l,upperdir=a,workdir=w",
		"lowerdir=/l\\134\\054upperdir=/a,workdir=/w,upperdir=/b,workdir=/w",
		"lowerdir=/l,upperdir=/a\\134b,workdir=/w",
		"lowerdir=/l,upperdir=/file,workdir=/w",
		"lowerdir=/l,upperdir=/gone,workdir=/w",
	};

	node("/a", TMPFS, 50, S_IFDIR, "00:00");
	node("a", TMPFS, 50, S_IFDIR, "00:00");
	node("/ab", TMPFS, 51, S_IFDIR, "00:00");
	node("/a\\b", TMPFS, 52, S_IFDIR, "00:00");
	node("/a,b", TMPFS, 53, S_IFDIR, "00:00");
	node("/file", TMPFS, 54, S_IFREG, "00:00");
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		overlay(options[i]);
		expect(0, 1, PMV_PAGE, PMV_FILE);
		cr_assert(strstr(mem.what, "on a disk that can't be seen here"), "%s", mem.what);
		num_nodes--;
	}
	/* a directory of this name on the overlayfs itself */
	overlay(IN_U);
	node("/u", "00:30", 10, S_IFDIR, "00:00")->mount = 60;
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert(strstr(mem.what, "on a disk that can't be seen here"), "%s", mem.what);
	extents = false;
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "not known to be on a disk");
}

/* mountinfo has a blank as \\040, a comma of a path as \\054; overlayfs' own escape is a backslash
 */
Test(detect, an_upper_directory_with_an_odd_name)
{
	static const char *const rows[][2] = {
		{"/u\\040v", "/u v"},       {"/u\\134\\054volatile", "/u,volatile"},
		{"/u\\134\\134v", "/u\\v"}, {"/u\\134:v", "/u:v"},
		{"/u\\075v", "/u=v"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char options[128];

		snprintf(options, sizeof(options), "lowerdir=/l,upperdir=%s,workdir=/w,uuid=on",
			 rows[i][0]);
		overlay(options);
		node(rows[i][1], TMPFS, 9, S_IFDIR, "00:00");
		/* It is refused anyway if libmount hides where an option ends. */
		cr_assert_eq(detect(0, 1), -FI_EOPNOTSUPP);
		cr_assert(strstr(mem.what, rows[i][1]) || strstr(mem.what, "option volatile"), "%s",
			  mem.what);
		num_nodes -= 2;
	}
}

Test(detect, overlayfs_that_nobody_can_write)
{
	overlay("lowerdir=/l:/m");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "without an upper directory");
}

Test(detect, overlayfs_in_a_circle)
{
	overlay(IN_U);
	mount_fs(61, "00:31", "/p", "overlay overlay rw,lowerdir=/l,upperdir=/v,workdir=/x");
	node("/u", "00:31", 9, S_IFDIR, "00:00")->mount = 61;
	node("/v", "00:30", 9, S_IFDIR, "00:00")->mount = 60;
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "its upper directory /v");
}

/* Linux 6.1, in a container: the device is known, though its file system is not mounted here. */
Test(detect, overlayfs_whose_device_is_shown_below)
{
	device("block", "01:00", "devices/virtual/block/ram0");
	device("block", "08:11", "devices/pci0/sdb");
	mount_fs(60, "00:30", "/o", "overlay overlay rw," IN_U);
	node("/o/a", "00:30", 7, S_IFREG, "00:00")->mount = 60;
	file(0, "01:00", "/o/a");
	file(1, "08:11", "/o/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "RAM disk");
	expect(1, 1, PMV_PAGE, PMV_FILE);
	cr_assert(strstr(mem.what, "sdb"), "%s", mem.what);
}
