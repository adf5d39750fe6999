/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info_disk.c -- what fi_pmem_info says of files and their disks */
#include "machine.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

Test(machine, a_file_is_synced)
{
	sysfs_disk("sda", DISK, "write back");
	file(0, DISK, "/data/log");
	node("/data/log", DISK, 7, S_IFREG, "0:0");
	rnic(true, false, "0");
	look("/data/log");
	expect_text("memory/0/domain", "page");
	expect_in("memory/0/what", "ext4");
	expect_text(VERBS "commit", "agent");
	expect_text("memory/0/cache_from", "sda/queue/write_cache: write back");
	cr_expect(find(VERBS "faster", "DAX"));
	cr_expect(find(VERBS "notes", "pin"));
	cr_expect_null(find(TCP "notes", "pin"));
	cr_expect_not(info_loses_data(model));
	/* in a container */
	hide("dev/block");
	again();
	look("/data/log");
	expect_text("memory/0/cache_from", "sda/queue/write_cache: write back");
}

Test(machine, a_cache_that_is_not_flushed_is_warned_of)
{
	static const struct {
		const char *kernel, *drive;
		bool warned, refused;
	} cases[] = {
		{"write back", NULL, false, false},
		{"write through", NULL, true, false},
		{"write back", "write back", false, false},
		{"write through", "write through", true, false},
		{"write through", "write back", false, true},
		{"write through", "write back, no read (daft)", false, true},
	};

	sysfs_disk("sda", DISK, "write back");
	file(0, DISK, "/data/log");
	node("/data/log", DISK, 7, S_IFREG, "0:0");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put("devices/pci0000:00/sda/queue", "write_cache", cases[i].kernel);
		if (cases[i].drive)
			put("devices/pci0000:00/sda/device/scsi_disk/0:0:0:0", "cache_type",
			    cases[i].drive);
		again();
		look("/data/log");
		cr_expect_eq(find("warnings", "sends no flushes") != NULL, cases[i].warned,
			     "case %zu", i);
		cr_expect_eq(find("warnings", "sda/queue/write_cache") != NULL,
			     cases[i].warned || cases[i].refused, "case %zu", i);
		cr_expect_eq(info_loses_data(model), cases[i].refused, "case %zu", i);
	}
}

/* The disks below are what counts. */
Test(machine, a_cache_is_found_below_device_mapper)
{
	device("block", "fd:00", DM);
	put(DM "/queue", "write_cache", "write back");
	sysfs_disk("sda", "08:00", "write back");
	sysfs_disk("sdb", "08:10", "write through");
	put("devices/pci0000:00/sdb/device/scsi_disk/1:0:0:0", "cache_type", "none");
	put("devices/pci0000:00/sdb/sdb1", "partition", "1");
	slave(DM, "sda", "devices/pci0000:00/sda");
	slave(DM, "sdb1", "devices/pci0000:00/sdb/sdb1");
	mount_fs(30, "fd:00", "/mnt/dm", "xfs /dev/mapper/dm rw");
	file(0, "fd:00", "/mnt/dm/log");
	node("/mnt/dm/log", "fd:00", 7, S_IFREG, "0:0");
	look("/mnt/dm/log");
	expect_in("memory/0/cache_from", "sdb/queue/write_cache: write through; the drive: none");
	cr_expect_not(info_loses_data(model));
	put("devices/pci0000:00/sdb/device/scsi_disk/1:0:0:0", "cache_type", "write back");
	again();
	look("/mnt/dm/log");
	expect_in("memory/0/what", "/sys/block/sdb/queue/write_cache");
	cr_expect(info_loses_data(model));
}

Test(machine, a_file_that_is_not_durable_is_data_loss)
{
	static const struct {
		const char *dev, *path, *mount, *why;
		bool refused;
	} cases[] = {
		{TMPFS, "/dev/shm/log", NULL, "tmpfs", true},
		{"00:2a", "/over/log", "overlay overlay rw,lowerdir=/l,upperdir=/u", "overlayfs",
		 false},
		{"00:2b", "/lost/log", "overlay overlay rw,lowerdir=/l,volatile", "volatile", true},
		{"00:2c", "/sub/log", "btrfs /dev/sda1 rw", "btrfs", false},
		{"00:2d", "/nb/log", "xfs /dev/sda1 rw,nobarrier", "nobarrier", true},
		{"00:2e", "/gone/log", "btrfs /dev/sdb1 rw", "can't be found", true},
	};

	sysfs_disk("sda1", "08:01", "write back");
	node("/dev/sda1", "00:05", 8, S_IFBLK, "08:01");
	point("fs/btrfs/1111-aaaa/devices/sda1", "devices/pci0000:00/sda1");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unlink(smaps);
		append(smaps, "%s", "");
		if (cases[i].mount)
			mount_fs(40 + (unsigned int) i, cases[i].dev, "/x", cases[i].mount);
		file(0, cases[i].dev, cases[i].path);
		node(cases[i].path, cases[i].dev, 7, S_IFREG, "0:0");
		again();
		look(cases[i].path);
		expect_in("memory/0/what", cases[i].why);
		cr_expect_eq(find("warnings", "Nothing survives here") != NULL,
			     !strcmp(cases[i].dev, TMPFS), "%s", cases[i].path);
		expect_text("memory/0/domain", cases[i].refused ? "refused" : "page");
		cr_expect_eq(info_loses_data(model), cases[i].refused, "%s", cases[i].path);
	}
}

static bool looked_there;

/* detect_there -- at a file in the directory, which it can map */
static int detect_there(const char *path, struct pmv_mem *found)
{
	struct stat st;

	looked_there = !strncmp(path, "./.fi_pmem_info.", strlen("./.fi_pmem_info.")) &&
		       !stat(path, &st) && st.st_size >= sysconf(_SC_PAGESIZE);
	return detect_base(path, found);
}

Test(machine, directory_is_judged_by_a_file_in_it)
{
	glob_t left = {0};

	file(0, DISK, "/data/file");
	node(".", DISK, 7, S_IFDIR, "0:0");
	look("/nosuch");
	info_path(info, ".", detect_there);
	json_object_put(model);
	model = info_model(info);
	cr_expect(looked_there);
	expect_in("memory/1/from", "a file that was made there");
	cr_expect_eq(glob("./.fi_pmem_info.*", 0, NULL, &left), GLOB_NOMATCH);
}

Test(machine, what_is_not_there_is_said)
{
	node("/data", DISK, 7, S_IFIFO, "0:0");
	node("/gone", DISK, 8, S_IFDIR, "0:0");
	look("/nosuch");
	info_path(info, "/data", detect_base);
	info_path(info, "/gone", detect_base);
	json_object_put(model);
	model = info_model(info);
	expect_in("memory/0/what", "/nosuch");
	expect_in("memory/1/what", "no file, directory or device");
	expect_in("memory/2/what", "no file can be made");
	cr_expect(find("warnings", "Nothing is known to survive here: no file can be made"));
	cr_expect_not(find("warnings", "Nothing survives here"));
	cr_expect(info_loses_data(model));
}
