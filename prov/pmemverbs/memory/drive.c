/* SPDX-License-Identifier: BSD-2-Clause */
/* drive.c -- what a block device with nothing below it is, and whose caches are flushed */
#include "memory/drive.h"

#include <fnmatch.h>
#include <glob.h>
#include <string.h>

#include "memory/sysfs.h"

/* says -- an attribute: 1 if it begins like this, 0 if not or if there is none, -1 on failure */
static int says(const char *device, const char *attribute, const char *value)
{
	char said[32];

	if (!pmv_sysfs_read(device, attribute, said, sizeof(said)))
		return pmv_sysfs_absent() ? 0 : -1;
	return !strncmp(said, value, strlen(value));
}

bool pmv_drive_caches(const char *device)
{
	return says(device, "queue/write_cache", "write back") > 0;
}

/* scsi_says -- the same of a SCSI or ATA disk, which has "write back, no read (daft)", too */
static int scsi_says(const char *device, const char *value)
{
	char pattern[PATH_MAX];
	glob_t disks = {0};
	int said = 0;

	if (!pmv_sysfs_join(pattern, device, "device/scsi_disk/[0-9]*"))
		return -1;
	switch (glob(pattern, GLOB_ERR, NULL, &disks)) {
	case 0:
		for (size_t i = 0; i < disks.gl_pathc && !said; i++)
			said = says(disks.gl_pathv[i], "cache_type", value);
		break;
	case GLOB_NOMATCH:
		break;
	default:
		said = pmv_sysfs_absent() ? 0 : -1;
	}
	globfree(&disks);
	return said;
}

/*
 * The kernel drops flushes to a device whose queue says "write through", also for what is below.
 * The drivers of SCSI and virtio show what the drive says.  FUA, which NVMe has as well, is a way
 * around a volatile cache: the kernel has it only where the driver has found such a cache.
 */
enum pmv_flush pmv_drive_flush(const char *device, bool cached_below)
{
	int said = says(device, "queue/write_cache", "write through");

	if (!said)
		return PMV_FLUSH_SENT;
	if (said > 0 && !cached_below) {
		said = scsi_says(device, "write back");
		if (!said)
			said = says(device, "cache_type", "write back");
		if (!said)
			said = says(device, "queue/fua", "1");
	}
	return !said ? PMV_FLUSH_SENT : said > 0 ? PMV_FLUSH_DROPPED : PMV_FLUSH_UNKNOWN;
}

static bool matches(const char *name, const char *const patterns[])
{
	while (*patterns && fnmatch(*patterns, name, 0))
		patterns++;
	return *patterns;
}

/* is_ram -- block devices in memory; nullb, made for tests, may be one */
static bool is_ram(const char *device, const char *name)
{
	static const char *const names[] = {"ram[0-9]*", "zram[0-9]*", "nullb[0-9]*", NULL};
	/* The kernel's own SCSI disks in memory; the target's may be on another machine. */
	static const char *const models[] = {"scsi_debug*", "RAMDISK-MCP*", NULL};
	char model[32];

	return matches(name, names) ||
	       (pmv_sysfs_read(device, "device/model", model, sizeof(model)) &&
		matches(model, models));
}

/*
 * is_software -- does no driver of hardware stand behind it?  Such devices have no parent: device
 * mapper, md, loop, nbd and others.  ublk has one of its own, and a program does what it likes.
 */
static bool is_software(const char *device)
{
	return strstr(device, "/devices/virtual/block/") ||
	       strstr(device, "/devices/virtual/ublk-char/");
}

/*
 * passes_flushes -- software that is as good as a disk: volumes of ZFS, and nbd, whose servers may
 * answer a flush only when the data is on stable storage, if they take flushes at all
 */
static bool passes_flushes(const char *device, const char *name)
{
	static const char *const names[] = {"zd[0-9]*", "nbd[0-9]*", NULL};

	return matches(name, names) && pmv_drive_caches(device);
}

enum pmv_drive pmv_drive_kind(const char *device)
{
	const char *name = basename(device);

	if (is_ram(device, name))
		return PMV_DRIVE_RAM;
	if (is_software(device) && !passes_flushes(device, name))
		return PMV_DRIVE_UNKNOWN;
	return PMV_DRIVE_DISK;
}
