/* SPDX-License-Identifier: BSD-2-Clause */
/* direct_path.c -- what a path is for direct I/O; direct_path.h has the rules */
#include "memory/direct_path.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "memory/platform.h"
#include "memory/sysfs.h"

#define CHECKSUMS "checksums blocks, and the memory may change while one is written"
#define IN_MEMORY "is in memory"

/* By the numbers of statfs(2); those without a reason are taken. */
static const struct {
	unsigned long magic;
	const char *name;
	const char *why_not;
} file_systems[] = {
	{EXT4_SUPER_MAGIC, "ext4", NULL},
	{XFS_SUPER_MAGIC, "xfs", NULL},
	{BTRFS_SUPER_MAGIC, "btrfs", CHECKSUMS},
	{0x2fc12fc1, "zfs", CHECKSUMS},
	{0xca451a4e, "bcachefs", CHECKSUMS},
	{TMPFS_MAGIC, "tmpfs", IN_MEMORY},
	{RAMFS_MAGIC, "ramfs", IN_MEMORY},
	{HUGETLBFS_MAGIC, "hugetlbfs", IN_MEMORY},
	{OVERLAYFS_SUPER_MAGIC, "overlay",
	 "may copy the file: use a directory of the file system below (in a "
	 "container, a volume)"},
};

static int refuse(const char *name, struct pmv_mem *mem, const char *fs, const char *why)
{
	return pmv_mem_refuse(mem, FI_EOPNOTSUPP,
			      "%.80s: %s%s%s; direct I/O is for files on ext4 and XFS", name, fs,
			      *fs ? " " : "", why);
}

static int check_file_system(int fd, const char *name, struct pmv_direct_path *path,
			     struct pmv_mem *mem)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return pmv_mem_refuse(mem, FI_EIO, "%.80s: %m", name);
	for (size_t i = 0; i < sizeof(file_systems) / sizeof(file_systems[0]); i++) {
		if ((unsigned long) fs.f_type != file_systems[i].magic)
			continue;
		snprintf(path->file_system, sizeof(path->file_system), "%s", file_systems[i].name);
		return file_systems[i].why_not
			       ? refuse(name, mem, file_systems[i].name, file_systems[i].why_not)
			       : 0;
	}
	return refuse(name, mem, "",
		      "its file system is not known to take direct I/O from memory "
		      "that changes");
}

/* queue_number -- an attribute of a disk's queue; of a partition that of its disk.  -1: unknown */
static int queue_number(const char *device, const char *attribute)
{
	static const char *const formats[] = {"queue/%s", "../queue/%s"};
	int number = -1;

	for (size_t i = 0; i < 2 && number < 0; i++) {
		char name[64], value[32];

		snprintf(name, sizeof(name), formats[i], attribute);
		if (!pmv_sysfs_read(device, name, value, sizeof(value)) ||
		    sscanf(value, "%d", &number) != 1)
			number = -1;
	}
	return number;
}

/* describe_device -- also: does it need memory that does not change while it is written? */
static bool describe_device(dev_t dev, struct pmv_direct_path *path)
{
	char *device = pmv_platform_device(dev);
	int sector, stable;

	if (!device)
		return true;
	sector = queue_number(device, "physical_block_size");
	stable = queue_number(device, "stable_writes");
	path->sector_size = sector > 0 ? (uint32_t) sector : 0;
	path->fua = queue_number(device, "fua");
	snprintf(path->device, sizeof(path->device), "%.31s", strrchr(device, '/') + 1);
	free(device);
	return stable;
}

/* takes_direct_io -- the kernel may do it through the page cache, without saying so */
static bool takes_direct_io(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) && (stx.stx_mask & STATX_DIOALIGN))
		return stx.stx_dio_offset_align && stx.stx_dio_offset_align <= 4096 &&
		       stx.stx_dio_mem_align <= 4096;
#endif
	return fd >= 0;
}

/* check_medium -- does the disk keep what is written and flushed? */
static int check_medium(const struct stat *st, const char *name, struct pmv_mem *mem)
{
	char real[PATH_MAX];
	const struct pmv_mapped mapped = {st->st_dev, st->st_ino, .shared = true,
					  .path = realpath(name, real) ? real : name};
	int ret = pmv_mapping_detect(&mapped, mem);

	if (!ret && mem->persist != PMV_PAGE)
		ret = refuse(name, mem, "", "it has to be on a disk");
	return ret;
}

int pmv_direct_path_check(int fd, const char *name, struct pmv_direct_path *path,
			  struct pmv_mem *mem)
{
	struct stat st;
	bool stable;
	int ret;

	*path = (struct pmv_direct_path){.fua = -1};
	*mem = (struct pmv_mem){.numa_node = -1};
	if (fstat(fd, &st))
		return pmv_mem_refuse(mem, FI_EIO, "%.80s: %m", name);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return pmv_mem_refuse(mem, FI_EINVAL, "%.80s is no plain file", name);
	ret = check_file_system(fd, name, path, mem);
	if (ret)
		return ret;
	stable = describe_device(st.st_dev, path);
	ret = check_medium(&st, name, mem);
	if (ret)
		return ret;
	if (stable)
		return refuse(name, mem, "",
			      "its device needs memory that does not change while it is written "
			      "(RAID with parity, or a checksum on the way), or sysfs does not say "
			      "whether it does");
	if (S_ISREG(st.st_mode) && !takes_direct_io(fd))
		return refuse(name, mem, "",
			      "the kernel writes it through the page cache (data=journal, "
			      "encryption, or compression)");
	return 0;
}

int pmv_direct_path_query(const char *name, struct pmv_direct_path *path, struct pmv_mem *mem)
{
	char copy[PATH_MAX];
	int ret, fd = open(name, O_PATH | O_CLOEXEC);

	*path = (struct pmv_direct_path){.fua = -1};
	*mem = (struct pmv_mem){.numa_node = -1};
	if (fd < 0 && errno == ENOENT) {
		snprintf(copy, sizeof(copy), "%s", name);
		name = dirname(copy);
		fd = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return pmv_mem_refuse(mem, errno, "%.80s: %m", name);
	ret = pmv_direct_path_check(fd, name, path, mem);
	close(fd);
	return ret;
}
