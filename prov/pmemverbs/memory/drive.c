/* SPDX-License-Identifier: BSD-2-Clause */
/* drive.c -- what a block device with nothing below it is, and whether flushes reach its cache */
#include "memory/drive.h"

#include <fnmatch.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "memory/sysfs.h"

#define SAID 32

/* ask -- for an attribute, which is empty if there is none; false: sysfs failed to say */
static bool ask(const char *device, const char *attribute, char said[SAID])
{
	return pmv_sysfs_read(device, attribute, said, SAID) || pmv_sysfs_absent();
}

static bool begins(const char *said, const char *value)
{
	return !strncmp(said, value, strlen(value));
}

/* says -- an attribute: 1 if it begins like this, 0 if not or if there is none, -1 on failure */
static int says(const char *device, const char *attribute, const char *value)
{
	char said[SAID];

	return ask(device, attribute, said) ? begins(said, value) : -1;
}

/* scsi_says -- the same of a SCSI or ATA disk, which has "write back, no read (daft)", too */
static int scsi_says(const char *device, const char *value)
{
	char *pattern = pmv_sysfs_path(device, "device/scsi_disk/[0-9]*");
	glob_t disks = {0};
	int said = 0;

	if (!pattern)
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
	free(pattern);
	return said;
}

/* has_cache -- a drive that gets no flushes: 1: it has a volatile cache, -1: failure */
static int has_cache(const char *device)
{
	int said = scsi_says(device, "write back");

	if (!said)
		said = says(device, "cache_type", "write back");
	return said ? said : says(device, "queue/fua", "1");
}

/*
 * The kernel drops flushes to a device whose queue says "write through", also for what is below.
 * The drivers of SCSI and virtio show what the drive says.  FUA, which NVMe has as well, is a way
 * around a volatile cache: the kernel has it only where the driver has found such a cache.
 */
enum pmv_flush pmv_drive_flush(const char *device, bool *cached)
{
	bool below = *cached;
	char said[SAID];
	int cache;

	if (!ask(device, "queue/write_cache", said))
		return PMV_FLUSH_UNKNOWN;
	*cached = begins(said, "write back");
	if (!begins(said, "write through"))
		return PMV_FLUSH_SENT;
	cache = below ? 1 : has_cache(device);
	return !cache ? PMV_FLUSH_SENT : cache > 0 ? PMV_FLUSH_DROPPED : PMV_FLUSH_UNKNOWN;
}

static bool matches(const char *name, const char *const patterns[])
{
	while (*patterns && fnmatch(*patterns, name, 0))
		patterns++;
	return *patterns;
}

/* is_ram -- block devices in memory: 1, or -1 on failure; nullb, made for tests, may be one */
static int is_ram(const char *device, const char *name)
{
	static const char *const names[] = {"ram[0-9]*", "zram[0-9]*", "nullb[0-9]*", NULL};
	/* The kernel's own SCSI disks in memory; the target's may be on another machine. */
	static const char *const models[] = {"scsi_debug*", "RAMDISK-MCP*", NULL};
	char model[SAID];

	if (matches(name, names))
		return 1;
	return ask(device, "device/model", model) ? matches(model, models) : -1;
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
 * passes_flushes -- software that is as good as a disk: volumes of ZFS, and nbd, whose servers must
 * not answer a flush before the data is on stable storage, if they take flushes at all
 */
static bool passes_flushes(const char *device, const char *name)
{
	static const char *const names[] = {"zd[0-9]*", "nbd[0-9]*", NULL};

	return matches(name, names) && says(device, "queue/write_cache", "write back") > 0;
}

enum pmv_drive pmv_drive_kind(const char *device)
{
	const char *name = basename(device);
	int ram = is_ram(device, name);

	if (ram)
		return ram > 0 ? PMV_DRIVE_RAM : PMV_DRIVE_FAILED;
	if (is_software(device) && !passes_flushes(device, name))
		return PMV_DRIVE_UNKNOWN;
	return PMV_DRIVE_DISK;
}
