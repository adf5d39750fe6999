/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c -- regions of persistent memory, and what was named */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "info.h"
#include "memory/blocks.h"
#include "memory/direct_path.h"
#include "memory/mapping.h"
#include "memory/platform.h"

static struct info_memory *add(struct info *info, const char *name)
{
	struct info_memory *memory;

	if (info->num_memories == INFO_MOST)
		return NULL;
	memory = &info->memories[info->num_memories++];
	*memory = (struct info_memory){.mem = {.numa_node = -1}};
	snprintf(memory->name, sizeof(memory->name), "%s", name);
	return memory;
}

/* Regions */

/* is_cxl -- does CXL's driver provide the bus of this region? */
static bool is_cxl(const char *region)
{
	char path[PATH_MAX], real[PATH_MAX], provider[64] = "";
	FILE *file;
	char *bus;

	snprintf(path, sizeof(path), "%s/bus/nd/devices/%s", pmv_platform.sysfs, region);
	if (!realpath(path, real))
		return false;
	bus = strstr(real, "/ndbus");
	if (!bus || strlen(real) + sizeof("/provider") > sizeof(real))
		return false;
	bus = strchrnul(bus + 1, '/');
	strcpy(bus, "/provider");
	file = fopen(real, "re");
	if (!file)
		return false;
	if (!fgets(provider, sizeof(provider), file))
		*provider = '\0';
	fclose(file);
	return !strncmp(provider, "CXL", 3);
}

/* add_mode -- of a namespace; ndctl's names for what sysfs calls otherwise */
static void add_mode(char *modes, size_t size, const char *mode)
{
	static const char *const names[][2] = {
		{"memory", "fsdax"}, {"dax", "devdax"}, {"safe", "sector"}, {"raw", "raw"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(mode, names[i][0]) && !strstr(modes, names[i][1]))
			snprintf(modes + strlen(modes), size - strlen(modes), "%s%s",
				 *modes ? ", " : "", names[i][1]);
	}
}

static void find_modes(const char *region, struct info_memory *memory)
{
	char pattern[PATH_MAX], mode[32], size[32];
	glob_t spaces = {0};

	snprintf(pattern, sizeof(pattern), "%s/bus/nd/devices/%s/namespace*", pmv_platform.sysfs,
		 region);
	if (glob(pattern, 0, NULL, &spaces))
		spaces.gl_pathc = 0;
	for (size_t i = 0; i < spaces.gl_pathc; i++) {
		const char *name = basename(spaces.gl_pathv[i]);

		/* The seed of the next one is empty. */
		if (!info_attribute(size, sizeof(size), "bus/nd/devices/%s/%s/size", region,
				    name) ||
		    !strtoull(size, NULL, 0))
			continue;
		if (info_attribute(mode, sizeof(mode), "bus/nd/devices/%s/%s/mode", region, name))
			add_mode(memory->mode, sizeof(memory->mode), mode);
	}
	globfree(&spaces);
}

static void add_region(struct info *info, const char *name)
{
	struct info_memory *memory = add(info, name);
	char size[32], domain[64];

	if (!memory)
		return;
	memory->cxl = is_cxl(name);
	memory->kind = memory->cxl ? "CXL region" : "NVDIMM region";
	memory->err = pmv_mapping_detect_region(name, &memory->mem);
	if (info_attribute(size, sizeof(size), "bus/nd/devices/%s/size", name))
		memory->size = strtoull(size, NULL, 0);
	find_modes(name, memory);
	info_attribute(domain, sizeof(domain), "bus/nd/devices/%s/persistence_domain", name);
	snprintf(memory->from, sizeof(memory->from), "bus/nd/devices/%s/persistence_domain: %s",
		 name, *domain ? domain : "(none)");
}

void info_regions(struct info *info)
{
	char pattern[PATH_MAX];
	glob_t regions = {0};

	snprintf(pattern, sizeof(pattern), "%s/bus/nd/devices/region[0-9]*", pmv_platform.sysfs);
	if (glob(pattern, 0, NULL, &regions))
		regions.gl_pathc = 0;
	for (size_t i = 0; i < regions.gl_pathc; i++)
		add_region(info, basename(regions.gl_pathv[i]));
	globfree(&regions);
}

/* What was named */

/* map_file -- with MAP_SYNC, if that can be had */
static void *map_file(int fd, size_t len)
{
	void *at = mmap(NULL, len, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);

	return at == MAP_FAILED ? mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0) : at;
}

int info_detect_file(const char *path, struct pmv_mem *mem)
{
	size_t len = (size_t) sysconf(_SC_PAGESIZE);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), ret;
	void *at = fd < 0 ? MAP_FAILED : map_file(fd, len);

	/* Nothing is read there: the file may be shorter. */
	if (at == MAP_FAILED)
		ret = pmv_mem_refuse(mem, errno, "%.200s can't be mapped: %m", path);
	else
		ret = pmv_detect(at, len, mem);
	if (at != MAP_FAILED)
		munmap(at, len);
	if (fd >= 0)
		close(fd);
	return ret;
}

static const char *const kinds[] = {
	[PMV_UNKNOWN] = "unknown",
	[PMV_ANON] = "memory without a file",
	[PMV_PRIVATE] = "private mapping",
	[PMV_VOLATILE_FS] = "file in memory",
	[PMV_FILE] = "file, through the page cache",
	[PMV_FSDAX] = "file on DAX, mapped with MAP_SYNC",
	[PMV_DEVDAX] = "device DAX",
};

/* detect_device -- as if it were mapped: that needs no right to open it */
static int detect_device(const char *path, const struct pmv_node *node, struct pmv_mem *mem)
{
	const struct pmv_mapped mapped = {
		.dev = node->dev, .ino = node->ino, .shared = true, .path = path};

	return pmv_mapping_detect(&mapped, mem);
}

/* detect_in -- what a file in a directory would be: one is made for a moment */
static int detect_in(const char *path, int (*detect)(const char *path, struct pmv_mem *mem),
		     struct pmv_mem *mem)
{
	char file[PATH_MAX];
	int ret, fd;

	if (snprintf(file, sizeof(file), "%s/.fi_pmem_info.XXXXXX", path) >= (int) sizeof(file))
		return pmv_mem_refuse(mem, ENAMETOOLONG, "%.200s: the name is too long", path);
	fd = mkstemp(file);
	if (fd < 0 || ftruncate(fd, sysconf(_SC_PAGESIZE)))
		ret = pmv_mem_refuse(mem, errno, "no file can be made in %.200s: %m", path);
	else
		ret = detect(file, mem);
	if (fd >= 0) {
		unlink(file);
		close(fd);
	}
	return ret;
}

void info_path(struct info *info, const char *path,
	       int (*detect)(const char *path, struct pmv_mem *mem))
{
	struct info_memory *memory = add(info, path);
	struct pmv_node node;

	if (!memory)
		return;
	memory->named = true;
	snprintf(memory->from, sizeof(memory->from),
		 "the provider, which looked at the mapped file");
	if (pmv_platform.stat(path, &node)) {
		memory->err = pmv_mem_refuse(&memory->mem, errno, "%.200s: %m", path);
	} else if (S_ISCHR(node.mode) || S_ISBLK(node.mode)) {
		memory->err = detect_device(path, &node, &memory->mem);
		snprintf(memory->from, sizeof(memory->from),
			 "the provider, which looked at the device");
	} else if (S_ISREG(node.mode)) {
		memory->err = detect(path, &memory->mem);
	} else if (S_ISDIR(node.mode)) {
		memory->err = detect_in(path, detect, &memory->mem);
		snprintf(memory->from, sizeof(memory->from),
			 "the provider, which looked at a file that was made there");
	} else {
		memory->err = pmv_mem_refuse(&memory->mem, FI_EINVAL,
					     "%.200s is no file, directory or device", path);
	}
	memory->kind = kinds[memory->mem.backing];
	if (!memory->err && memory->mem.persist == PMV_PAGE)
		info_cache_of(S_ISBLK(node.mode) ? node.rdev : node.dev, &memory->cache);
}

void info_direct(struct info *info, const char *path)
{
	struct info_memory *memory =
		info->num_memories ? &info->memories[info->num_memories - 1] : NULL;
	struct pmv_direct_path direct;
	struct pmv_mem mem;

	if (!memory || memory->mem.backing == PMV_DEVDAX)
		return;
	if (pmv_direct_path_query(path, &direct, &mem))
		snprintf(memory->direct, sizeof(memory->direct), "no: %.500s", mem.what);
	else
		snprintf(memory->direct, sizeof(memory->direct),
			 "yes: blocks of %u bytes on %s (%s, sectors of %u bytes), %s",
			 (unsigned int) PMV_BLOCK, *direct.device ? direct.device : "a disk",
			 direct.file_system, direct.sector_size,
			 direct.fua == 1 ? "each durable by itself (FUA)"
					 : "a flush of the drive behind each round of them");
}
