/* SPDX-License-Identifier: BSD-2-Clause */
/* drive.c -- what a block device with nothing below it is */
#include "memory/drive.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <string.h>

#include "memory/sysfs.h"

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
	char cache[32];

	return matches(name, names) &&
	       pmv_sysfs_read(device, "queue/write_cache", cache, sizeof(cache)) &&
	       !strcmp(cache, "write back");
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
