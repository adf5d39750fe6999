/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disk.c -- does the kernel flush the cache of the disk below a file?
 *
 * It does where queue/write_cache says "write back".  Where that says "write through" it sends no
 * flushes: then the drive has no volatile cache, or somebody has told the kernel so.  If the drive
 * contradicts, the provider has refused the file.
 */
#include <dirent.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "info.h"
#include "memory/platform.h"

#define MOST_DEPTH 8

/* below -- the part of a path below sysfs */
static const char *below(const char *path)
{
	char top[PATH_MAX];
	size_t len;

	if (!realpath(pmv_platform.sysfs, top))
		return path;
	len = strlen(top);
	return strncmp(path, top, len) ? path : path + len + 1;
}

/* drive_cache -- what the drive itself says, if it is a SCSI disk */
static void drive_cache(const char *disk, char *type, size_t size)
{
	char dir[PATH_MAX], *at;
	struct dirent **entries = NULL;
	int count;

	*type = '\0';
	snprintf(dir, sizeof(dir), "%s/device/scsi_disk", disk);
	count = scandir(dir, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		at = entries[i]->d_name;
		if (*at != '.')
			info_attribute(type, size, "%s/device/scsi_disk/%s/cache_type", below(disk),
				       at);
		free(entries[i]);
	}
	free(entries);
}

static void look_at(const char *disk, struct info_cache *cache)
{
	char kernel[32], drive[64];

	if (!info_attribute(kernel, sizeof(kernel), "%s/queue/write_cache", below(disk)))
		return;
	drive_cache(disk, drive, sizeof(drive));
	/* The worst one is told of. */
	if (*cache->disk && (cache->unflushed || strcmp(kernel, "write through")))
		return;
	snprintf(cache->disk, sizeof(cache->disk), "%.63s", strrchr(disk, '/') + 1);
	cache->unflushed = !strcmp(kernel, "write through");
	snprintf(cache->from, sizeof(cache->from), "%s/queue/write_cache: %s%s%s", cache->disk,
		 kernel, *drive ? "; the drive: " : "", drive);
}

/* follow -- down to the disks of device mapper and md */
static void follow(const char *device, int depth, struct info_cache *cache)
{
	char slaves[PATH_MAX], path[2 * PATH_MAX], real[PATH_MAX];
	struct dirent **entries = NULL;
	int count, found = 0;

	snprintf(slaves, sizeof(slaves), "%.*s/slaves", PATH_MAX - 16, device);
	count = depth < MOST_DEPTH ? scandir(slaves, &entries, NULL, alphasort) : 0;
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", slaves, entries[i]->d_name);
		if (*entries[i]->d_name != '.' && realpath(path, real)) {
			follow(real, depth + 1, cache);
			found++;
		}
		free(entries[i]);
	}
	free(entries);
	if (found)
		return;
	snprintf(path, sizeof(path), "%s/partition", device);
	if (!access(path, F_OK)) {
		snprintf(real, sizeof(real), "%.*s", PATH_MAX - 1, device);
		*strrchr(real, '/') = '\0';
		look_at(real, cache);
	} else {
		look_at(device, cache);
	}
}

void info_cache_of(dev_t dev, struct info_cache *cache)
{
	char *device = pmv_platform_device(dev);

	*cache = (struct info_cache){.unflushed = false};
	if (device)
		follow(device, 0, cache);
	free(device);
}
