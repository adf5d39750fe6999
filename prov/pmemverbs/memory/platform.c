/* SPDX-License-Identifier: BSD-2-Clause */
/* platform.c -- what devices keep in a power failure, from sysfs */
#include "memory/platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifdef __aarch64__
#include <sys/auxv.h>
#endif

/* Devices on top of devices: more than anybody uses, few enough for recursive calls. */
#define MAX_DEPTH 8

/* A device, and all devices below it, are added to a sum. */
struct search {
	const struct pmv_platform *platform;
	pmv_durable_fn durable;
	struct pmv_medium *sum;
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* to_parent -- false: there is none */
static bool to_parent(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash)
		return false;
	*slash = '\0';
	return *path;
}

/* is_numbered -- is it "region0" for "region"? */
static bool is_numbered(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);

	return !strncmp(name, prefix, len) && name[len] &&
	       name[len + strspn(name + len, "0123456789")] == '\0';
}

static bool join(char path[PATH_MAX], const char *dir, const char *name)
{
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

/*
 * is_absent -- did a call fail because there is no such file, or none that this
 * process may see?  Otherwise the file may exist: for instance, no descriptor was left.
 */
static bool is_absent(void)
{
	return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EPERM;
}

/* read_attribute -- its first line; false, and empty, if it does not exist or can't be read */
static bool read_attribute(const char *dir, const char *name, char *value, int size)
{
	char path[PATH_MAX];
	FILE *file;
	bool read;

	*value = '\0';
	file = join(path, dir, name) ? fopen(path, "re") : NULL;
	if (!file)
		return false;
	if (!fgets(value, size, file))
		*value = '\0';
	read = !ferror(file);
	fclose(file);
	value[strcspn(value, "\n")] = '\0';
	return read;
}

static bool has_attribute(const char *dir, const char *name)
{
	char path[PATH_MAX];

	return join(path, dir, name) && !access(path, F_OK);
}

static bool resolve_link(const char *dir, const char *name, char target[PATH_MAX])
{
	char path[PATH_MAX];

	return join(path, dir, name) && realpath(path, target);
}

/* find_device -- the sysfs directory of a device number */
static bool find_device(const struct pmv_platform *platform, const char *type, dev_t dev,
			char dir[PATH_MAX])
{
	char name[64];

	snprintf(name, sizeof(name), "dev/%s/%u:%u", type, major(dev), minor(dev));
	return resolve_link(platform->sysfs, name, dir);
}

/* numa_node -- the node of the device, or of the nearest device that it is part of */
static int numa_node(const char *device)
{
	char dir[PATH_MAX];
	char value[16];

	snprintf(dir, sizeof(dir), "%s", device);
	do {
		if (read_attribute(dir, "numa_node", value, sizeof(value)) && *value)
			return atoi(value);
	} while (to_parent(dir));
	return -1;
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
static void add_unread(const struct search *search, const char *name)
{
	add_medium(search->sum, PMV_NONE, -1, "%.50s, which sysfs failed to describe (%m)", name);
}

/*
 * every_region_keeps_caches -- on one board all caches survive or none does.  So if
 * one region says that they do not, the others are not believed either.
 */
static bool every_region_keeps_caches(const struct pmv_platform *platform)
{
	char all[PATH_MAX], region[PATH_MAX], domain[32];
	bool caches = true;
	struct dirent *entry;
	DIR *dir;

	dir = join(all, platform->sysfs, "bus/nd/devices") ? opendir(all) : NULL;
	if (!dir)
		return false;
	while (caches && (entry = readdir(dir))) {
		if (!is_numbered(entry->d_name, "region"))
			continue;
		caches = join(region, all, entry->d_name) &&
			 read_attribute(region, "persistence_domain", domain, sizeof(domain)) &&
			 !strcmp(domain, "cpu_cache");
	}
	closedir(dir);
	return caches;
}

/* to_region -- from a device up to its NVDIMM region; regions of CXL have the same names */
static bool to_region(char *dir)
{
	do {
		char bus[PATH_MAX];

		snprintf(bus, sizeof(bus), "%s", dir);
		if (is_numbered(base_name(dir), "region") && to_parent(bus) &&
		    is_numbered(base_name(bus), "ndbus"))
			return true;
	} while (to_parent(dir));
	return false;
}

static void add_region(const struct search *search, const char *dir)
{
	struct pmv_medium *sum = search->sum;
	const char *name = base_name(dir);
	int node = numa_node(dir);
	char value[32];

	/* These regions have a persistence domain, too: the firmware's. */
	if (!read_attribute(dir, "devtype", value, sizeof(value)) && !is_absent()) {
		add_unread(search, name);
		return;
	}
	if (!strcmp(value, "nd_volatile")) {
		add_medium(sum, PMV_NONE, node, "%s, which is volatile", name);
		return;
	}
	/* This is mostly DRAM that was set aside with memmap=. */
	if (strstr(dir, "/e820_pmem/")) {
		add_medium(sum, PMV_NONE, node, "%s, which only the e820 map calls persistent",
			   name);
		return;
	}

	read_attribute(dir, "persistence_domain", value, sizeof(value));
	if (!strcmp(value, "memory_controller"))
		add_medium(sum, PMV_DMP, node, "%s %s", name, value);
	else if (strcmp(value, "cpu_cache"))
		add_medium(sum, PMV_PAGE, node, "%s of unknown persistence domain", name);
	else if (every_region_keeps_caches(search->platform))
		add_medium(sum, PMV_MHP, node, "%s %s", name, value);
	else
		add_medium(sum, PMV_DMP, node, "%s %s, but another region says otherwise", name,
			   value);
}

/* is_ram_disk -- block devices in memory; nullb, made for tests, may be one */
static bool is_ram_disk(const char *name)
{
	return is_numbered(name, "ram") || is_numbered(name, "zram") || is_numbered(name, "nullb");
}

/*
 * add_loop -- a loop device keeps what its file keeps.  If the file can't be found
 * (deleted, or in another mount namespace), the device counts as a drive.
 */
static bool add_loop(const struct search *search, const char *device, unsigned int depth)
{
	const char *name = base_name(device);
	struct pmv_node node;
	char path[PATH_MAX];
	int numa;

	if (depth >= MAX_DEPTH)
		return false;
	if (!read_attribute(device, "loop/backing_file", path, sizeof(path))) {
		if (is_absent())
			return false;
		add_unread(search, name);
		return true;
	}
	if (search->platform->stat(path, &node))
		return false;
	if (search->durable(search->platform, path, &node, depth + 1, &numa))
		add_medium(search->sum, PMV_PAGE, numa, "%s", name);
	else
		add_medium(search->sum, PMV_NONE, numa, "%s, whose file %.40s may be volatile",
			   name, base_name(path));
	return true;
}

static void add_block(const struct search *search, const char *device, unsigned int depth);

static void add_slave(const struct search *search, const char *slaves, const char *name,
		      unsigned int depth)
{
	char slave[PATH_MAX];

	if (depth < MAX_DEPTH && resolve_link(slaves, name, slave))
		add_block(search, slave, depth + 1);
	else
		add_medium(search->sum, PMV_PAGE, -1, "%.60s, which can't be followed", name);
}

/* add_slaves -- the devices below a device of device mapper or md; false: there are none */
static bool add_slaves(const struct search *search, const char *device, unsigned int depth)
{
	struct dirent *entry;
	char slaves[PATH_MAX];
	bool any = false;
	DIR *dir;

	dir = join(slaves, device, "slaves") ? opendir(slaves) : NULL;
	if (!dir) {
		if (is_absent())
			return false;
		add_unread(search, base_name(device));
		return true;
	}
	while (errno = 0, (entry = readdir(dir))) {
		if (*entry->d_name == '.')
			continue;
		any = true;
		add_slave(search, slaves, entry->d_name, depth);
	}
	if (errno) {
		add_unread(search, base_name(device));
		any = true;
	}
	closedir(dir);
	return any;
}

static void add_block(const struct search *search, const char *device, unsigned int depth)
{
	char dir[PATH_MAX], region[PATH_MAX];
	const char *name;

	snprintf(dir, sizeof(dir), "%s", device);
	if (has_attribute(dir, "partition"))
		to_parent(dir);
	name = base_name(dir);
	snprintf(region, sizeof(region), "%s", dir);

	if (add_slaves(search, dir, depth) || add_loop(search, dir, depth))
		return;
	if (is_ram_disk(name))
		add_medium(search->sum, PMV_NONE, numa_node(dir), "%s, a RAM disk", name);
	else if (to_region(region))
		add_region(search, region);
	else
		add_medium(search->sum, PMV_PAGE, numa_node(dir), "%s", name);
}

bool pmv_platform_block(const struct pmv_platform *platform, dev_t dev, unsigned int depth,
			pmv_durable_fn durable, struct pmv_medium *medium)
{
	const struct search search = {platform, durable, medium};
	char dir[PATH_MAX];

	*medium = (struct pmv_medium){.numa_node = -1};
	if (!find_device(platform, "block", dev, dir))
		return false;
	add_block(&search, dir, depth);
	return true;
}

bool pmv_platform_dax(const struct pmv_platform *platform, dev_t dev, struct pmv_medium *medium)
{
	const struct search search = {.platform = platform, .sum = medium};
	char dir[PATH_MAX], subsystem[PATH_MAX];
	int node;

	*medium = (struct pmv_medium){.numa_node = -1};
	if (!find_device(platform, "char", dev, dir) ||
	    !resolve_link(dir, "subsystem", subsystem) || strcmp(base_name(subsystem), "dax"))
		return false;

	node = numa_node(dir);
	if (to_region(dir))
		add_region(&search, dir);
	else
		add_medium(medium, PMV_NONE, node, "no NVDIMM region (it may be volatile)");
	return true;
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

#if defined(__x86_64__)
/* clflush is part of the architecture. */
static bool writes_back(void)
{
	return true;
}
#elif defined(__aarch64__)
/* DC CVAP */
static bool writes_back(void)
{
	return getauxval(AT_HWCAP) & HWCAP_DCPOP;
}
#else
static bool writes_back(void)
{
	return false;
}
#endif

/* Those of the process (/proc/self) disappear when its first thread ends. */
const struct pmv_platform pmv_platform = {
	.smaps = "/proc/thread-self/smaps",
	.maps = "/proc/thread-self/maps",
	.mountinfo = "/proc/thread-self/mountinfo",
	.sysfs = "/sys",
	.stat = stat_path,
	.has_extents = has_extents,
	.writes_back = writes_back,
};
