/* SPDX-License-Identifier: BSD-2-Clause */
/* platform.c -- what devices keep in a power failure, from sysfs */
#include "memory/platform.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "memory/dimm.h"
#include "memory/drive.h"
#include "memory/sysfs.h"

/* find_device -- the sysfs directory of a device number; the caller frees it, or NULL */
static char *find_device(const char *type, dev_t dev)
{
	char name[64];

	snprintf(name, sizeof(name), "dev/%s/%u:%u", type, major(dev), minor(dev));
	return pmv_sysfs_resolve(pmv_platform.sysfs, name);
}

/* find_block -- a block device's directory by an attribute; the caller frees it, or NULL */
static char *find_block(const char *names, const char *attribute, const char *value)
{
	char *pattern = pmv_sysfs_path(pmv_platform.sysfs, names), *dir = NULL;
	char said[NAME_MAX + 1];
	glob_t found = {0};

	if (!pattern || glob(pattern, 0, NULL, &found))
		found.gl_pathc = 0;
	for (size_t i = 0; i < found.gl_pathc && !dir; i++) {
		if (pmv_sysfs_read(found.gl_pathv[i], attribute, said, sizeof(said)) &&
		    !strcmp(said, value))
			dir = realpath(found.gl_pathv[i], NULL);
	}
	globfree(&found);
	free(pattern);
	return dir;
}

char *pmv_platform_device(dev_t dev)
{
	char *dir = find_device("block", dev);
	char number[32];

	if (dir)
		return dir;
	/* Podman and CRI-O hide dev/block in containers, and nothing else of it. */
	snprintf(number, sizeof(number), "%u:%u", major(dev), minor(dev));
	return find_block("class/block/*", "dev", number);
}

/* add_medium -- add a device that holds part of the data: the weakest counts */
__attribute__((format(printf, 4, 5))) static void add_medium(struct pmv_medium *sum,
							     enum pmv_persist persist, int node,
							     const char *fmt, ...)
{
	va_list args;

	if (!sum->known)
		sum->numa_node = node;
	else if (sum->numa_node != node)
		sum->numa_node = -1;
	if (sum->known && sum->persist <= persist)
		return;

	sum->known = true;
	sum->persist = persist;
	va_start(args, fmt);
	vsnprintf(sum->what, sizeof(sum->what), fmt, args);
	va_end(args);
}

/* add_unread -- a device that may be volatile */
static void add_unread(struct pmv_medium *sum, const char *name)
{
	add_medium(sum, PMV_NONE, -1, "%.50s, which sysfs failed to describe (%m)", name);
}

/* has_domain -- is it the persistence domain of a region? */
static bool has_domain(const char *region, const char *domain)
{
	char value[32];

	return pmv_sysfs_read(region, "persistence_domain", value, sizeof(value)) &&
	       !strcmp(value, domain);
}

/*
 * every_region_keeps_caches -- on one board all caches survive or none does.  So if
 * one region says that they do not, the others are not believed either.
 */
static bool every_region_keeps_caches(void)
{
	char *pattern = pmv_sysfs_path(pmv_platform.sysfs, "bus/nd/devices/region[0-9]*");
	glob_t regions = {0};
	bool caches = pattern && !glob(pattern, GLOB_ERR, NULL, &regions);

	for (size_t i = 0; i < regions.gl_pathc; i++)
		caches = caches && has_domain(regions.gl_pathv[i], "cpu_cache");
	globfree(&regions);
	free(pattern);
	return caches;
}

/* to_region -- from a device up to its NVDIMM region; regions of CXL have the same names */
static bool to_region(char *dir)
{
	char *bus = strstr(dir, "/ndbus");
	int len = 0;

	if (bus)
		sscanf(bus, "/ndbus%*u/region%*u%n", &len);
	if (!len)
		return false;
	bus[len] = '\0';
	return true;
}

/* add_dimms -- false: all of the region's DIMMs are sound */
static bool add_dimms(struct pmv_medium *sum, const char *dir)
{
	const char *name = basename(dir);
	char what[80];

	switch (pmv_dimm_check(dir, what, sizeof(what))) {
	case PMV_DIMM_SOUND:
		return false;
	case PMV_DIMM_LOSES:
		add_medium(sum, PMV_NONE, pmv_sysfs_node(dir),
			   "%s, whose DIMM %s (ndctl list -DH tells more)", name, what);
		return true;
	case PMV_DIMM_UNKNOWN:
		break;
	}
	add_unread(sum, name);
	return true;
}

static void add_region(struct pmv_medium *sum, const char *dir)
{
	const char *name = basename(dir);
	int node = pmv_sysfs_node(dir);
	char type[32];

	if (add_dimms(sum, dir))
		return;
	if (!pmv_sysfs_read(dir, "devtype", type, sizeof(type)) && !pmv_sysfs_absent())
		add_unread(sum, name);
	/* These regions have a persistence domain, too: the firmware's. */
	else if (!strcmp(type, "nd_volatile"))
		add_medium(sum, PMV_NONE, node, "%s, which is volatile", name);
	/* This is mostly DRAM that was set aside with memmap=. */
	else if (strstr(dir, "/e820_pmem/"))
		add_medium(sum, PMV_NONE, node, "%s, which only the e820 map calls persistent",
			   name);
	else if (has_domain(dir, "memory_controller"))
		add_medium(sum, PMV_DMP, node, "%s memory_controller", name);
	else if (!has_domain(dir, "cpu_cache"))
		add_medium(sum, PMV_PAGE, node, "%s of unknown persistence domain", name);
	else if (every_region_keeps_caches())
		add_medium(sum, PMV_MHP, node, "%s cpu_cache", name);
	else
		add_medium(sum, PMV_DMP, node, "%s cpu_cache, but another region says otherwise",
			   name);
}

/* What the devices below a block device keep, as far as it was followed. */
struct walk {
	struct pmv_medium *sum;
	pmv_platform_durable is_durable;
	bool caches; /* flushes have to reach one of these devices */
};

/* add_lost -- a device that may be volatile: what is below it can't be found */
static void add_lost(struct pmv_medium *sum, const char *name, const char *why)
{
	add_medium(sum, PMV_NONE, -1, "%.50s, %s", name, why);
}

/* add_loop -- a loop device keeps what its file keeps; false: it has none */
static bool add_loop(struct walk *walk, const char *device, unsigned int depth)
{
	const char *name = basename(device);
	char *path = malloc(PATH_MAX);
	struct pmv_node node;
	int numa;

	if (!path || !pmv_sysfs_read(device, "loop/backing_file", path, PATH_MAX)) {
		bool absent = path && pmv_sysfs_absent();

		if (!absent)
			add_unread(walk->sum, name);
		free(path);
		return !absent;
	}
	if (depth >= PMV_PLATFORM_DEPTH) {
		add_lost(walk->sum, name, "which can't be followed");
	} else if (pmv_platform.stat(path, &node)) {
		/* deleted, or in another mount namespace */
		add_lost(walk->sum, name, "whose file can't be found here");
	} else if (walk->is_durable(path, &node, depth + 1, &numa)) {
		/* A flush is a sync of the file. */
		walk->caches = true;
		add_medium(walk->sum, PMV_PAGE, numa, "%s", name);
	} else {
		add_medium(walk->sum, PMV_NONE, numa, "%s, whose file %.40s may be volatile", name,
			   basename(path));
	}
	free(path);
	return true;
}

static void add_block(struct walk *walk, char *device, unsigned int depth);

static int is_visible(const struct dirent *entry)
{
	return *entry->d_name != '.';
}

/* add_links -- the devices to which a directory's links lead, for one of name; false: none */
static bool add_links(struct walk *walk, const char *links, const char *name, unsigned int depth)
{
	struct dirent **entries = NULL;
	int count = scandir(links, &entries, is_visible, alphasort);

	if (count < 0 && pmv_sysfs_absent())
		return false;
	if (count < 0)
		add_unread(walk->sum, name);
	for (int i = 0; i < count; i++) {
		const char *link = entries[i]->d_name;
		char *device = depth < PMV_PLATFORM_DEPTH ? pmv_sysfs_resolve(links, link) : NULL;

		if (device)
			add_block(walk, device, depth + 1);
		else
			add_lost(walk->sum, link, "which can't be followed");
		free(device);
		free(entries[i]);
	}
	free(entries);
	return count;
}

/* add_slaves -- the devices below device mapper's and md's; false: there are none */
static bool add_slaves(struct walk *walk, const char *device, unsigned int depth)
{
	char *slaves = pmv_sysfs_path(device, "slaves");
	bool found = true;

	if (slaves)
		found = add_links(walk, slaves, basename(device), depth);
	else
		add_unread(walk->sum, basename(device));
	free(slaves);
	return found;
}

/*
 * add_pmem -- a disk of a region.  Without MAP_SYNC, the kernel is to write the CPU's caches back,
 * and does so only where write_cache is not 0.
 */
static void add_pmem(struct walk *walk, const char *device, const char *region)
{
	struct pmv_medium own = {.numa_node = -1};
	const char *name = basename(device);
	char cache[8] = "";
	bool lost; /* what is in the caches */

	add_region(&own, region);
	lost = own.persist == PMV_DMP || own.persist == PMV_PAGE;
	if (lost && !pmv_sysfs_read(device, "dax/write_cache", cache, sizeof(cache)) &&
	    !pmv_sysfs_absent())
		add_unread(walk->sum, name);
	else
		add_medium(walk->sum, own.persist, own.numa_node, "%s", own.what);
	if (lost && !strcmp(cache, "0"))
		snprintf(walk->sum->unsynced, sizeof(walk->sum->unsynced),
			 "%.20s, for which a sync writes no CPU caches back: write 1 to "
			 "/sys/block/%.20s/dax/write_cache",
			 name, name);
}

static void add_drive(struct walk *walk, const char *device)
{
	const char *name = basename(device);

	switch (pmv_drive_kind(device)) {
	case PMV_DRIVE_RAM:
		add_medium(walk->sum, PMV_NONE, pmv_sysfs_node(device), "%s, a RAM disk", name);
		break;
	case PMV_DRIVE_UNKNOWN:
		add_lost(walk->sum, name, "below which no device can be found");
		break;
	case PMV_DRIVE_FAILED:
		add_unread(walk->sum, name);
		break;
	case PMV_DRIVE_DISK:
		add_medium(walk->sum, PMV_PAGE, pmv_sysfs_node(device), "%s", name);
	}
}

/* add_leaf -- a device with nothing below it */
static void add_leaf(struct walk *walk, const char *device)
{
	const char *name = basename(device);
	char *region = strdup(device);

	if (!region)
		add_unread(walk->sum, name);
	else if (to_region(region))
		add_pmem(walk, device, region);
	else
		add_drive(walk, device);
	free(region);
}

/* add_block -- device: its directory in sysfs; of a partition it becomes that of the disk */
static void add_block(struct walk *walk, char *device, unsigned int depth)
{
	bool beside = walk->caches;
	const char *name;

	if (pmv_sysfs_has(device, "partition"))
		pmv_sysfs_parent(device);
	name = basename(device);
	walk->caches = false;
	if (!add_slaves(walk, device, depth) && !add_loop(walk, device, depth))
		add_leaf(walk, device);
	switch (pmv_drive_flush(device, &walk->caches)) {
	case PMV_FLUSH_SENT:
		break;
	case PMV_FLUSH_DROPPED:
		add_medium(walk->sum, PMV_NONE, walk->sum->numa_node,
			   "%.20s, whose cache the kernel does not flush: write \"write back\" to "
			   "/sys/block/%.20s/queue/write_cache",
			   name, name);
		break;
	case PMV_FLUSH_UNKNOWN:
		add_unread(walk->sum, name);
	}
	walk->caches |= beside;
}

/* add_btrfs -- all devices of the btrfs of which this one is a part; device: as for add_block */
static void add_btrfs(struct walk *walk, char *device, unsigned int depth)
{
	const char *name = basename(device);
	char names[NAME_MAX + 1], *pattern;
	glob_t found = {0};
	bool shown;
	int ret;

	snprintf(names, sizeof(names), "fs/btrfs/*/devices/%.200s", name);
	pattern = pmv_sysfs_path(pmv_platform.sysfs, names);
	ret = pattern ? glob(pattern, GLOB_ERR, NULL, &found) : GLOB_NOSPACE;
	shown = !ret && pmv_sysfs_parent(found.gl_pathv[0]) &&
		add_links(walk, found.gl_pathv[0], name, depth);
	if (!shown && ret != GLOB_NOSPACE && (ret != GLOB_ABORTED || pmv_sysfs_absent())) {
		/* systemd-nspawn hides them.  If this one keeps nothing, that is what is said. */
		add_block(walk, device, depth);
		add_medium(walk->sum, PMV_NONE, -1,
			   "a btrfs on %.50s, whose other devices can't be seen", name);
	} else if (!shown) {
		add_unread(walk->sum, name);
	}
	globfree(&found);
	free(pattern);
}

/* follow -- with one of these functions, from a device on */
static bool follow(dev_t dev, unsigned int depth, pmv_platform_durable is_durable,
		   struct pmv_medium *medium,
		   void (*add)(struct walk *walk, char *device, unsigned int depth))
{
	struct walk walk = {.sum = medium, .is_durable = is_durable};
	char *device = pmv_platform_device(dev);
	bool found = device;

	*medium = (struct pmv_medium){.numa_node = -1};
	if (found)
		add(&walk, device, depth);
	free(device);
	return found;
}

bool pmv_platform_block(dev_t dev, unsigned int depth, pmv_platform_durable is_durable,
			struct pmv_medium *medium)
{
	return follow(dev, depth, is_durable, medium, add_block);
}

bool pmv_platform_btrfs(dev_t dev, unsigned int depth, pmv_platform_durable is_durable,
			struct pmv_medium *medium)
{
	return follow(dev, depth, is_durable, medium, add_btrfs);
}

bool pmv_platform_named(const char *path, dev_t *dev)
{
	static const char mapper[] = "/dev/mapper/", nodes[] = "/dev/";
	char name[NAME_MAX + 1], value[32], *dir;
	unsigned int maj, min;
	bool found;

	if (!strncmp(path, mapper, strlen(mapper))) {
		dir = find_block("class/block/dm-*", "dm/name", path + strlen(mapper));
	} else {
		if (strncmp(path, nodes, strlen(nodes)) ||
		    snprintf(name, sizeof(name), "class/block/%s", path + strlen(nodes)) >=
			    (int) sizeof(name))
			return false;
		/* sysfs writes cciss/c0d0 like this. */
		for (char *at = name + strlen("class/block/"); *at; at++)
			*at = *at == '/' ? '!' : *at;
		dir = pmv_sysfs_resolve(pmv_platform.sysfs, name);
	}
	found = dir && pmv_sysfs_read(dir, "dev", value, sizeof(value)) &&
		sscanf(value, "%u:%u", &maj, &min) == 2;
	free(dir);
	if (found)
		*dev = makedev(maj, min);
	return found;
}

bool pmv_platform_dax(dev_t dev, struct pmv_medium *medium)
{
	char *dir = find_device("char", dev);
	char *subsystem = dir ? pmv_sysfs_resolve(dir, "subsystem") : NULL;
	bool dax = subsystem && !strcmp(basename(subsystem), "dax");

	*medium = (struct pmv_medium){.numa_node = -1};
	if (dax && to_region(dir))
		add_region(medium, dir);
	else if (dax)
		add_medium(medium, PMV_NONE, pmv_sysfs_node(dir),
			   "no NVDIMM region (it may be volatile)");
	free(subsystem);
	free(dir);
	return dax;
}

bool pmv_platform_region(const char *name, struct pmv_medium *medium)
{
	char link[64], *dir;
	bool found;

	*medium = (struct pmv_medium){.numa_node = -1};
	snprintf(link, sizeof(link), "bus/nd/devices/%s", name);
	dir = pmv_sysfs_resolve(pmv_platform.sysfs, link);
	found = dir && to_region(dir);
	if (found)
		add_region(medium, dir);
	free(dir);
	return found;
}

static int stat_path(const char *path, struct pmv_node *node)
{
	struct statx stx;

	if (statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_MNT_ID, &stx))
		return -1;
	*node = (struct pmv_node){
		.dev = makedev(stx.stx_dev_major, stx.stx_dev_minor),
		.ino = stx.stx_ino,
		.mode = stx.stx_mode,
		.rdev = makedev(stx.stx_rdev_major, stx.stx_rdev_minor),
		.mount = stx.stx_mask & STATX_MNT_ID ? stx.stx_mnt_id : 0,
	};
	return 0;
}

static bool has_extents(const char *path)
{
	struct fiemap map = {.fm_length = FIEMAP_MAX_OFFSET};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int ret;

	if (fd < 0)
		return false;
	ret = ioctl(fd, FS_IOC_FIEMAP, &map);
	close(fd);
	return !ret;
}

static bool writes_back(void)
{
#if defined(__x86_64__)
	return true; /* clflush is part of the architecture. */
#elif defined(__aarch64__)
	return getauxval(AT_HWCAP) & HWCAP_DCPOP; /* DC CVAP */
#else
	return false;
#endif
}

/* Those of the process (/proc/self) disappear when its first thread ends. */
struct pmv_platform pmv_platform = {
	.smaps = "/proc/thread-self/smaps",
	.maps = "/proc/thread-self/maps",
	.mountinfo = "/proc/thread-self/mountinfo",
	.sysfs = "/sys",
	.stat = stat_path,
	.has_extents = has_extents,
	.writes_back = writes_back,
};
