/* SPDX-License-Identifier: BSD-2-Clause */
/* mem_system.c -- a fabricated system; mem_system.h says what it has */
#include "mem_system.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A directory with a sysfs, mountinfo and smaps; and what stat would say. */
static char top[] = "/tmp/test_detect.XXXXXX";
char smaps[PATH_MAX], mountinfo[PATH_MAX], sysfs[PATH_MAX];
static struct {
	char path[PATH_MAX];
	struct pmv_node node;
} nodes[16];
size_t num_nodes;
bool extents, processor;

static int fake_stat(const char *path, struct pmv_node *node)
{
	for (size_t i = 0; i < num_nodes; i++) {
		if (!strcmp(nodes[i].path, path)) {
			*node = nodes[i].node;
			return 0;
		}
	}
	return -1;
}

static bool fake_has_extents(const char *path)
{
	struct pmv_node node;

	return extents && !fake_stat(path, &node);
}

static bool fake_writes_back(void)
{
	return processor;
}

static const struct pmv_platform fake = {
	.smaps = smaps,
	.mountinfo = mountinfo,
	.sysfs = sysfs,
	.stat = fake_stat,
	.has_extents = fake_has_extents,
	.writes_back = fake_writes_back,
};

void make_parents(const char *path)
{
	char dir[PATH_MAX];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(dir, sizeof(dir), "%.*s", (int) (slash - path), path);
		mkdir(dir, 0700);
	}
}

void append(const char *path, const char *fmt, ...)
{
	FILE *file = fopen(path, "a");
	va_list args;

	cr_assert(file, "%s", path);
	va_start(args, fmt);
	vfprintf(file, fmt, args);
	va_end(args);
	fclose(file);
}

/* put -- a sysfs attribute; path is relative to the sysfs */
void put(const char *dir, const char *name, const char *value)
{
	char path[PATH_MAX];

	cr_assert(snprintf(path, sizeof(path), "%s/%s/%s", sysfs, dir, name) < PATH_MAX);
	make_parents(path);
	if (unlink(path))
		rmdir(path);
	append(path, "%s\n", value);
}

/* point -- a symbolic link, also in place of one; both are relative to the sysfs */
void point(const char *from, const char *to)
{
	char path[PATH_MAX], target[PATH_MAX];

	cr_assert(snprintf(path, sizeof(path), "%s/%s", sysfs, from) < PATH_MAX);
	cr_assert(snprintf(target, sizeof(target), "%s/%s", sysfs, to) < PATH_MAX);
	make_parents(path);
	unlink(path);
	cr_assert(!symlink(target, path), "%s", path);
}

static dev_t parse_dev(const char *dev)
{
	unsigned int maj, min;

	cr_assert_eq(sscanf(dev, "%x:%x", &maj, &min), 2);
	return makedev(maj, min);
}

struct pmv_node *node(const char *path, const char *dev, ino_t ino, mode_t mode, const char *rdev)
{
	cr_assert_lt(num_nodes, sizeof(nodes) / sizeof(nodes[0]));
	snprintf(nodes[num_nodes].path, PATH_MAX, "%s", path);
	nodes[num_nodes].node = (struct pmv_node){
		.dev = parse_dev(dev),
		.ino = ino,
		.mode = mode,
		.rdev = parse_dev(rdev),
	};
	return &nodes[num_nodes++].node;
}

void mount_fs(unsigned int id, const char *dev, const char *where, const char *tail)
{
	dev_t number = parse_dev(dev);

	append(mountinfo, "%u 1 %u:%u / %s rw,relatime shared:1 - %s\n", id, major(number),
	       minor(number), where, tail);
}

void mem_system_begin(void)
{
	strcpy(strrchr(top, '.'), ".XXXXXX");
	cr_assert(mkdtemp(top));
	snprintf(smaps, sizeof(smaps), "%s/smaps", top);
	snprintf(mountinfo, sizeof(mountinfo), "%s/mountinfo", top);
	snprintf(sysfs, sizeof(sysfs), "%s/sys", top);
	num_nodes = 0;
	extents = true;
	processor = true;
	pmv_platform = fake;

	append(smaps, "%s", "");
	put("devices", "uevent", "");
	put("bus/dax", "uevent", "");
	put("class/mem", "uevent", "");
	mount_fs(20, DEVTMPFS, "/dev", "devtmpfs devtmpfs rw,size=1024k");
	mount_fs(21, TMPFS, "/dev/shm", "tmpfs tmpfs rw");
	mount_fs(22, PMEM0, "/mnt/pmem", "ext4 /dev/pmem0 rw,dax=always");
	mount_fs(23, DISK, "/", "ext4 /dev/sda1 rw,discard");
	device("block", DISK, "devices/pci0/sda");
}

void mem_system_end(void)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -r %s", top);
	cr_assert(!system(command));
}

TestSuite(detect, .init = mem_system_begin, .fini = mem_system_end);

/* region -- domain NULL: the attribute is missing */
void region(const char *dir, const char *domain, const char *numa)
{
	char link[PATH_MAX];

	put(dir, "devtype", "nd_pmem");
	put(dir, "numa_node", numa);
	if (domain)
		put(dir, "persistence_domain", domain);
	snprintf(link, sizeof(link), "bus/nd/devices/%s", strrchr(dir, '/') + 1);
	point(link, dir);
}

void device(const char *type, const char *dev, const char *dir)
{
	dev_t number = parse_dev(dev);
	char link[PATH_MAX], value[32];

	snprintf(value, sizeof(value), "%u:%u", major(number), minor(number));
	snprintf(link, sizeof(link), "dev/%s/%s", type, value);
	put(dir, "uevent", "");
	put(dir, "dev", value);
	point(link, dir);
	if (strcmp(type, "block"))
		return;
	snprintf(link, sizeof(link), "class/block/%s", strrchr(dir, '/') + 1);
	point(link, dir);
}

void hide(const char *dir)
{
	char from[PATH_MAX], to[PATH_MAX];

	cr_assert(snprintf(from, sizeof(from), "%s/%s", sysfs, dir) < PATH_MAX);
	cr_assert(snprintf(to, sizeof(to), "%s/hidden", sysfs) < PATH_MAX);
	cr_assert(!rename(from, to), "%s", from);
	cr_assert(!mkdir(from, 0700));
}

/* dax -- a device DAX node /dev/NAME whose inode number is its device's minor + 100 */
void dax(const char *dir, const char *dev)
{
	char path[PATH_MAX];

	device("char", dev, dir);
	snprintf(path, sizeof(path), "%s/subsystem", dir);
	point(path, "bus/dax");
	snprintf(path, sizeof(path), "/dev/%s", strrchr(dir, '/') + 1);
	node(path, DEVTMPFS, 100 + minor(parse_dev(dev)), S_IFCHR, dev);
}

void pmem_disk(void)
{
	device("block", PMEM0, REGION0 "/namespace0.0/block/pmem0");
	device("block", PMEM1, REGION1 "/namespace1.0/block/pmem1");
}

void slave(const char *of, const char *name, const char *dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/slaves/%s", of, name);
	point(path, dir);
}

/* vma -- append a mapping, len MiB at BASE + at MiB */
void vma(uint64_t at, uint64_t len, const char *perms, const char *dev, ino_t ino, const char *path,
	 const char *flags)
{
	append(smaps,
	       "%" PRIx64 "-%" PRIx64 " %s 00000000 %s %ju %40s\n"
	       "Size:               1024 kB\nKernelPageSize:        4 kB\n"
	       "AnonHugePages:         0 kB\nProtectionKey:         0\nVmFlags: %s \n",
	       BASE + at * MIB, BASE + (at + len) * MIB, perms, dev, (uintmax_t) ino, path, flags);
}

void file(uint64_t at, const char *dev, const char *path)
{
	vma(at, 1, "rw-s", dev, 7, path, FLAGS);
}

void sync_file(uint64_t at, const char *dev, const char *path)
{
	vma(at, 1, "rw-s", dev, 7, path, FLAGS " sf");
}

struct pmv_mem mem;

int detect(uint64_t at, uint64_t len)
{
	int ret = pmv_detect((void *) (uintptr_t) (BASE + at * MIB), len * MIB, &mem);

	cr_assert((ret == 0) == (mem.persist != PMV_NONE));
	cr_assert(*mem.what);
	return ret;
}

/* btrfs_has -- a device, as sysfs shows it */
void btrfs_has(const char *uuid, const char *name, const char *dir)
{
	char link[128];

	snprintf(link, sizeof(link), "fs/btrfs/%s/devices/%s", uuid, name);
	point(link, dir);
}

void mapper(void)
{
	device("block", "fd:00", DM);
	mount_fs(30, "fd:00", "/mnt/dm", "xfs /dev/mapper/dm rw,dax=always");
	pmem_disk();
}

size_t load(const char *path, char *buf, size_t size)
{
	FILE *in = fopen(path, "r");
	size_t len = fread(buf, 1, size, in);

	cr_assert_lt(len, size);
	fclose(in);
	return len;
}

/* store -- as a new file: ext4 writes one that was truncated to disk when it is closed */
void store(const char *path, const char *buf, size_t len)
{
	FILE *out;

	unlink(path);
	out = fopen(path, "w");
	cr_assert_eq(fwrite(buf, 1, len, out), len);
	fclose(out);
}
