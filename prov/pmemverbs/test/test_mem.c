/* SPDX-License-Identifier: BSD-2-Clause */
/* test_mem.c -- what is promised of which memory: fabricated systems, and this process's own */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>
#include <rdma/fi_errno.h>

#include "memory/mem.h"
#include "memory/platform.h"

#define BASE UINT64_C(0x7f0000000000)
#define MIB UINT64_C(0x100000)

/* Device numbers of the fabricated system, as smaps writes them. */
#define DEVTMPFS "00:06"
#define TMPFS "00:1b"
#define DAX0 "fc:00"
#define DAX1 "fc:01"
#define PMEM0 "103:00"
#define PMEM1 "103:01"
#define DISK "08:01"

/* A directory with a sysfs, mountinfo and smaps; and what stat would say. */
static char top[] = "/tmp/test_mem.XXXXXX";
static char smaps[PATH_MAX], mountinfo[PATH_MAX], sysfs[PATH_MAX];
static struct {
	char path[PATH_MAX];
	struct pmv_node node;
} nodes[16];
static size_t num_nodes;
static bool extents, processor;

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

static void make_parents(const char *path)
{
	char dir[PATH_MAX];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(dir, sizeof(dir), "%.*s", (int) (slash - path), path);
		mkdir(dir, 0700);
	}
}

__attribute__((format(printf, 2, 3))) static void append(const char *path, const char *fmt, ...)
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
static void put(const char *dir, const char *name, const char *value)
{
	char path[PATH_MAX];

	cr_assert(snprintf(path, sizeof(path), "%s/%s/%s", sysfs, dir, name) < PATH_MAX);
	make_parents(path);
	unlink(path);
	append(path, "%s\n", value);
}

/* point -- a symbolic link; both are relative to the sysfs */
static void point(const char *from, const char *to)
{
	char path[PATH_MAX], target[PATH_MAX];

	cr_assert(snprintf(path, sizeof(path), "%s/%s", sysfs, from) < PATH_MAX);
	cr_assert(snprintf(target, sizeof(target), "%s/%s", sysfs, to) < PATH_MAX);
	make_parents(path);
	cr_assert(!symlink(target, path), "%s", path);
}

static dev_t parse_dev(const char *dev)
{
	unsigned int maj, min;

	cr_assert_eq(sscanf(dev, "%x:%x", &maj, &min), 2);
	return makedev(maj, min);
}

static struct pmv_node *node(const char *path, const char *dev, ino_t ino, mode_t mode,
			     const char *rdev)
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

static void mount_fs(unsigned int id, const char *dev, const char *where, const char *tail)
{
	dev_t number = parse_dev(dev);

	append(mountinfo, "%u 1 %u:%u / %s rw,relatime shared:1 - %s\n", id, major(number),
	       minor(number), where, tail);
}

static void begin(void)
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
}

static void end(void)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -r %s", top);
	cr_assert(!system(command));
}

TestSuite(mem, .init = begin, .fini = end);

#define NDBUS "devices/LNXSYSTM:00/ACPI0012:00/ndbus0"
#define REGION0 NDBUS "/region0"
#define REGION1 NDBUS "/region1"

/* region -- domain NULL: the attribute is missing */
static void region(const char *dir, const char *domain, const char *numa)
{
	char link[PATH_MAX];

	put(dir, "devtype", "nd_pmem");
	put(dir, "numa_node", numa);
	if (domain)
		put(dir, "persistence_domain", domain);
	snprintf(link, sizeof(link), "bus/nd/devices/%s", strrchr(dir, '/') + 1);
	point(link, dir);
}

static void device(const char *type, const char *dev, const char *dir)
{
	dev_t number = parse_dev(dev);
	char link[PATH_MAX];

	snprintf(link, sizeof(link), "dev/%s/%u:%u", type, major(number), minor(number));
	put(dir, "uevent", "");
	point(link, dir);
}

/* dax -- a device DAX node /dev/NAME whose inode number is its device's minor + 100 */
static void dax(const char *dir, const char *dev)
{
	char path[PATH_MAX];

	device("char", dev, dir);
	snprintf(path, sizeof(path), "%s/subsystem", dir);
	point(path, "bus/dax");
	snprintf(path, sizeof(path), "/dev/%s", strrchr(dir, '/') + 1);
	node(path, DEVTMPFS, 100 + minor(parse_dev(dev)), S_IFCHR, dev);
}

static void pmem_disk(void)
{
	device("block", PMEM0, REGION0 "/namespace0.0/block/pmem0");
	device("block", PMEM1, REGION1 "/namespace1.0/block/pmem1");
}

static void slave(const char *of, const char *name, const char *dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/slaves/%s", of, name);
	point(path, dir);
}

/* vma -- append a mapping, len MiB at BASE + at MiB */
static void vma(uint64_t at, uint64_t len, const char *perms, const char *dev, ino_t ino,
		const char *path, const char *flags)
{
	append(smaps,
	       "%" PRIx64 "-%" PRIx64 " %s 00000000 %s %ju %40s\n"
	       "Size:               1024 kB\nKernelPageSize:        4 kB\n"
	       "AnonHugePages:         0 kB\nProtectionKey:         0\nVmFlags: %s \n",
	       BASE + at * MIB, BASE + (at + len) * MIB, perms, dev, (uintmax_t) ino, path, flags);
}

#define FLAGS "rd wr sh mr mw me ms mm"

static void file(uint64_t at, const char *dev, const char *path)
{
	vma(at, 1, "rw-s", dev, 7, path, FLAGS);
}

static void sync_file(uint64_t at, const char *dev, const char *path)
{
	vma(at, 1, "rw-s", dev, 7, path, FLAGS " sf");
}

static struct pmv_mem mem;

static int detect(uint64_t at, uint64_t len)
{
	int ret = pmv_mem_detect((void *) (uintptr_t) (BASE + at * MIB), len * MIB, &mem);

	cr_assert((ret == 0) == (mem.persist != PMV_NONE));
	cr_assert(*mem.what);
	return ret;
}

#define expect(at, len, domain, back)                                                              \
	do {                                                                                       \
		int ret_ = detect(at, len);                                                        \
		cr_assert_eq(ret_, 0, "%d: %s", ret_, mem.what);                                   \
		cr_assert_eq(mem.persist, domain, "%d: %s", mem.persist, mem.what);                \
		cr_assert_eq(mem.backing, back, "%d: %s", mem.backing, mem.what);                  \
	} while (0)

#define expect_refused(at, len, err, back, why)                                                    \
	do {                                                                                       \
		int ret_ = detect(at, len);                                                        \
		cr_assert_eq(ret_, -(err), "%d: %s", ret_, mem.what);                              \
		cr_assert_eq(mem.backing, back, "%d: %s", mem.backing, mem.what);                  \
		cr_assert(strstr(mem.what, why), "%s", mem.what);                                  \
	} while (0)

/* ---- device DAX ------------------------------------------------------- */

Test(mem, devdax_adr)
{
	region(REGION0, "memory_controller", "1");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
	cr_assert_eq(mem.numa_node, 1);
	cr_assert_str_eq(mem.what, "device DAX /dev/dax0.0, region0 memory_controller");
}

Test(mem, devdax_eadr)
{
	region(REGION0, "cpu_cache", "0");
	region(REGION1, "cpu_cache", "0");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect(0, 2, PMV_MHP, PMV_DEVDAX);
}

Test(mem, caches_persist_only_if_every_region_says_so)
{
	region(REGION0, "cpu_cache", "0");
	region(REGION1, "memory_controller", "0");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
	put(REGION1, "persistence_domain", "");
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
	put(REGION1, "persistence_domain", "cpu_cache");
	expect(0, 2, PMV_MHP, PMV_DEVDAX);
	region(NDBUS "/region2", NULL, "0");
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
}

/* A container may not see them. */
Test(mem, caches_persist_only_if_every_region_is_seen)
{
	put(REGION0, "devtype", "nd_pmem");
	put(REGION0, "persistence_domain", "cpu_cache");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
}

Test(mem, devdax_of_unknown_domain)
{
	region(REGION0, NULL, "1");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect_refused(0, 2, FI_EOPNOTSUPP, PMV_DEVDAX, "FI_PMEMVERBS_DOMAIN");
	cr_assert_eq(mem.numa_node, 1);
	put(REGION0, "persistence_domain", "");
	expect_refused(0, 2, FI_EOPNOTSUPP, PMV_DEVDAX, "unknown persistence domain");
	put(REGION0, "persistence_domain", "cpu_cache_and_more");
	expect_refused(0, 2, FI_EOPNOTSUPP, PMV_DEVDAX, "unknown persistence domain");
}

Test(mem, devdax_without_an_nvdimm_region)
{
	dax("devices/platform/hmem.0/dax0.0", DAX0);
	put("devices/platform/hmem.0/dax0.0", "numa_node", "3");
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect_refused(0, 2, FI_EOPNOTSUPP, PMV_DEVDAX, "no NVDIMM region");
	cr_assert_eq(mem.numa_node, 3);
}

Test(mem, a_cxl_region_is_no_nvdimm_region)
{
	dax("devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0", DAX0);
	put("devices/platform/ACPI0017:00/root0/decoder0.0/region0", "persistence_domain",
	    "memory_controller");
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect_refused(0, 2, FI_EOPNOTSUPP, PMV_DEVDAX, "no NVDIMM region");
}

Test(mem, a_volatile_region_has_no_use_for_its_domain)
{
	region(REGION0, "memory_controller", "0");
	put(REGION0, "devtype", "nd_volatile");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect_refused(0, 2, FI_EOPNOTSUPP, PMV_DEVDAX, "volatile");
}

Test(mem, e820_proves_nothing)
{
	region("devices/platform/e820_pmem/ndbus0/region0", "memory_controller", "0");
	dax("devices/platform/e820_pmem/ndbus0/region0/dax0.0/dax0.0", DAX0);
	device("block", PMEM0,
	       "devices/platform/e820_pmem/ndbus0/region0/namespace0.0/block/pmem0");
	vma(0, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	sync_file(1, PMEM0, "/mnt/pmem/a");
	file(2, PMEM0, "/mnt/pmem/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_DEVDAX, "e820");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_FSDAX, "e820");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "e820");
}

Test(mem, a_device_is_known_by_its_number_not_its_name)
{
	region(REGION0, "memory_controller", "0");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	node("/dev/pmem-of-mine", DEVTMPFS, 9, S_IFCHR, DAX0);
	vma(0, 1, "rw-s", DEVTMPFS, 9, "/dev/pmem-of-mine", FLAGS);
	expect(0, 1, PMV_DMP, PMV_DEVDAX);

	device("char", "01:01", "devices/virtual/mem/mem");
	point("devices/virtual/mem/mem/subsystem", "class/mem");
	node("/dev/dax9.0", DEVTMPFS, 8, S_IFCHR, "01:01");
	vma(1, 1, "rw-s", DEVTMPFS, 8, "/dev/dax9.0", FLAGS);
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "not device DAX");
}

Test(mem, a_node_that_was_replaced_says_nothing)
{
	region(REGION0, "memory_controller", "0");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 1, "rw-s", DEVTMPFS, 101, "/dev/dax0.0", FLAGS);
	vma(1, 1, "rw-s", TMPFS, 100, "/dev/dax0.0", FLAGS);
	vma(2, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0 (deleted)", FLAGS);
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "devtmpfs");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "tmpfs");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "devtmpfs");
}

Test(mem, the_processor_must_be_able_to_write_back)
{
	region(REGION0, "memory_controller", "0");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	processor = false;
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_DEVDAX, "processor");
	put(REGION0, "persistence_domain", "cpu_cache");
	expect(0, 1, PMV_MHP, PMV_DEVDAX);
}

/* ---- file system DAX -------------------------------------------------- */

Test(mem, fsdax)
{
	region(REGION0, "memory_controller", "1");
	pmem_disk();
	sync_file(0, PMEM0, "/mnt/pmem/a");
	expect(0, 1, PMV_DMP, PMV_FSDAX);
	cr_assert_eq(mem.numa_node, 1);
	cr_assert_str_eq(mem.what, "MAP_SYNC file /mnt/pmem/a, region0 memory_controller");
	put(REGION0, "persistence_domain", "cpu_cache");
	expect(0, 1, PMV_MHP, PMV_FSDAX);
	put(REGION0, "persistence_domain", "");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "unknown persistence domain");
}

Test(mem, without_map_sync_a_dax_file_needs_msync)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	file(0, PMEM0, "/mnt/pmem/a");
	vma(1, 1, "rw-s", PMEM0, 7, "/mnt/pmem/sf", "rd wr sh mr sfx s f");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert(strstr(mem.what, "MAP_SYNC"), "%s", mem.what);
	expect(1, 1, PMV_PAGE, PMV_FILE);
	put(REGION0, "persistence_domain", "");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert(!strstr(mem.what, "MAP_SYNC"), "%s", mem.what);
}

Test(mem, fsdax_on_a_partition)
{
	region(REGION0, "memory_controller", "0");
	device("block", PMEM0, REGION0 "/namespace0.0/block/pmem0/pmem0p1");
	put(REGION0 "/namespace0.0/block/pmem0/pmem0p1", "partition", "1");
	sync_file(0, PMEM0, "/mnt/pmem/a");
	expect(0, 1, PMV_DMP, PMV_FSDAX);
}

#define DM "devices/virtual/block/dm-0"

static void mapper(void)
{
	device("block", "fd:00", DM);
	mount_fs(30, "fd:00", "/mnt/dm", "xfs /dev/mapper/dm rw,dax=always");
	pmem_disk();
}

Test(mem, fsdax_on_device_mapper_takes_the_weakest_slave)
{
	region(REGION0, "cpu_cache", "0");
	region(REGION1, "cpu_cache", "1");
	mapper();
	slave(DM, "pmem0", REGION0 "/namespace0.0/block/pmem0");
	slave(DM, "pmem1", REGION1 "/namespace1.0/block/pmem1");
	sync_file(0, "fd:00", "/mnt/dm/a");
	expect(0, 1, PMV_MHP, PMV_FSDAX);
	cr_assert_eq(mem.numa_node, -1);
	put(REGION1, "persistence_domain", "memory_controller");
	expect(0, 1, PMV_DMP, PMV_FSDAX);
	put(REGION1, "persistence_domain", "");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "region1");
}

Test(mem, fsdax_on_device_mapper_partly_on_a_disk)
{
	region(REGION0, "memory_controller", "0");
	mapper();
	device("block", DISK, "devices/pci0/sda");
	slave(DM, "pmem0", REGION0 "/namespace0.0/block/pmem0");
	slave(DM, "sda", "devices/pci0/sda");
	sync_file(0, "fd:00", "/mnt/dm/a");
	file(1, "fd:00", "/mnt/dm/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "sda");
	expect(1, 1, PMV_PAGE, PMV_FILE);
}

Test(mem, device_mapper_on_device_mapper_partitions)
{
	region(REGION0, "memory_controller", "0");
	mapper();
	device("block", "fd:01", "devices/virtual/block/dm-1");
	put("devices/virtual/block/md0/md0p1", "partition", "1");
	slave(DM, "dm-1", "devices/virtual/block/dm-1");
	slave("devices/virtual/block/dm-1", "md0p1", "devices/virtual/block/md0/md0p1");
	slave("devices/virtual/block/md0", "pmem0", REGION0 "/namespace0.0/block/pmem0");
	sync_file(0, "fd:00", "/mnt/dm/a");
	expect(0, 1, PMV_DMP, PMV_FSDAX);
}

Test(mem, slaves_that_cannot_be_followed)
{
	region(REGION0, "memory_controller", "0");
	mapper();
	slave(DM, "pmem0", REGION0 "/namespace0.0/block/pmem0");
	sync_file(0, "fd:00", "/mnt/dm/a");
	expect(0, 1, PMV_DMP, PMV_FSDAX);
	slave(DM, "gone", "devices/gone");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "can't be followed");
}

Test(mem, device_mapper_in_a_circle)
{
	mapper();
	slave(DM, "dm-0", DM);
	sync_file(0, "fd:00", "/mnt/dm/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "can't be followed");
}

Test(mem, xfs_may_keep_data_on_another_device)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	mount_fs(30, PMEM1, "/mnt/x", "xfs /dev/pmem1 rw,rtdev=/dev/sdb,noquota");
	region(REGION1, "memory_controller", "0");
	sync_file(0, PMEM1, "/mnt/x/a");
	file(1, PMEM1, "/mnt/x/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "real-time");
	expect(1, 1, PMV_PAGE, PMV_FILE);
}

Test(mem, fsdax_whose_device_is_not_in_sysfs)
{
	sync_file(0, PMEM0, "/mnt/pmem/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "can't be found");
}

/* ---- files ------------------------------------------------------------ */

Test(mem, plain_file)
{
	device("block", DISK, "devices/pci0/0000:00:01.0/ata1/block/sda/sda1");
	put("devices/pci0/0000:00:01.0/ata1/block/sda/sda1", "partition", "1");
	put("devices/pci0/0000:00:01.0", "numa_node", "1");
	file(0, DISK, "/data/a file with spaces");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert_eq(mem.numa_node, 1);
	cr_assert_str_eq(mem.what, "/data/a file with spaces on ext4, sda, durable by msync");
}

Test(mem, plain_file_without_sysfs)
{
	file(0, DISK, "/data/a");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert_eq(mem.numa_node, -1);
}

/* Another file may have been given the name by now, and one may really be called so. */
Test(mem, deleted_file)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	file(0, DISK, "/data/a (deleted)");
	file(1, TMPFS, "/data/a (deleted)");
	sync_file(2, PMEM0, "/mnt/pmem/a (deleted)");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "is unlinked");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "tmpfs");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_FSDAX, "is unlinked");
	node("/data/a (deleted)", DISK, 8, S_IFREG, "00:00");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "is unlinked");
	node("/data/b (deleted)", DISK, 7, S_IFREG, "00:00");
	file(3, DISK, "/data/b (deleted)");
	expect(3, 1, PMV_PAGE, PMV_FILE);
}

Test(mem, file_systems_without_barriers)
{
	static const struct {
		const char *type;
		const char *options;
		bool safe;
	} rows[] = {
		{"ext4", "rw,nobarrier", false},
		{"ext4", "rw,nobarrier,data=ordered", false},
		{"ext4", "rw,barrier", true},
		{"ext4", "rw,nobarrierx", true},
		{"ext3", "rw,barrier=0", false},
		{"ext3", "rw,barrier=1", true},
		{"xfs", "rw,nobarrier,inode64", false},
		{"btrfs", "rw,nobarrier", false},
		{"nilfs2", "rw,nobarrier", false},
		{"gfs2", "rw,nobarrier", false},
		{"f2fs", "rw,nobarrier", false},
		{"f2fs", "rw,fsync_mode=nobarrier", false},
		{"f2fs", "rw,fsync_mode=posix", true},
		{"bcachefs", "rw,journal_flush_disabled", false},
		{"reiserfs", "rw,barrier=none", false},
		{"reiserfs", "rw", true},
		{"ocfs2", "rw", false},
		{"ocfs2", "rw,barrier=1", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char dev[16], tail[96];

		snprintf(dev, sizeof(dev), "08:%zx", 0x60 + i);
		snprintf(tail, sizeof(tail), "%s /dev/sdx %s", rows[i].type, rows[i].options);
		mount_fs((unsigned int) (60 + i), dev, "/mnt/x", tail);
		file(i, dev, "/mnt/x/a");
		if (rows[i].safe)
			expect(i, 1, PMV_PAGE, PMV_FILE);
		else
			expect_refused(i, 1, FI_EOPNOTSUPP, PMV_FILE, "the drive's cache");
	}
}

Test(mem, the_path_of_another_file_is_not_believed)
{
	node("/data/a", DISK, 7, S_IFREG, "00:00");
	file(0, TMPFS, "/data/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "tmpfs");
	file(1, "00:55", "/data/a");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "not mounted here");
}

Test(mem, file_systems)
{
	static const struct {
		const char *type;
		enum pmv_persist persist;
		enum pmv_backing backing;
	} rows[] = {
		{"ext4", PMV_PAGE, PMV_FILE},
		{"xfs", PMV_PAGE, PMV_FILE},
		{"btrfs", PMV_PAGE, PMV_FILE},
		{"zfs", PMV_PAGE, PMV_FILE},
		{"nfs", PMV_PAGE, PMV_FILE},
		{"nfs4", PMV_PAGE, PMV_FILE},
		{"cifs", PMV_NONE, PMV_UNKNOWN},
		{"9p", PMV_NONE, PMV_UNKNOWN},
		{"jfs", PMV_NONE, PMV_UNKNOWN},
		{"fuse", PMV_NONE, PMV_UNKNOWN},
		{"fuse.sshfs", PMV_NONE, PMV_UNKNOWN},
		{"fuseblk", PMV_NONE, PMV_UNKNOWN},
		{"virtiofs", PMV_NONE, PMV_UNKNOWN},
		{"ext5", PMV_NONE, PMV_UNKNOWN},
		{"ext", PMV_NONE, PMV_UNKNOWN},
		{"tmpfs", PMV_NONE, PMV_VOLATILE_FS},
		{"ramfs", PMV_NONE, PMV_VOLATILE_FS},
		{"rootfs", PMV_NONE, PMV_VOLATILE_FS},
		{"hugetlbfs", PMV_NONE, PMV_VOLATILE_FS},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char dev[16], tail[64];

		snprintf(dev, sizeof(dev), "00:%zx", 0x60 + i);
		snprintf(tail, sizeof(tail), "%s source rw", rows[i].type);
		mount_fs((unsigned int) (60 + i), dev, "/mnt/x", tail);
		file(i, dev, "/mnt/x/a");
		if (rows[i].persist)
			expect(i, 1, rows[i].persist, rows[i].backing);
		else
			expect_refused(i, 1, FI_EOPNOTSUPP, rows[i].backing, rows[i].type);
	}
}

Test(mem, a_disk_may_be_made_of_memory)
{
	static const char *const names[] = {"ram0", "zram12", "nullb1"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char dev[16], dir[64];

		snprintf(dev, sizeof(dev), "fe:%zx", i);
		snprintf(dir, sizeof(dir), "devices/virtual/block/%s", names[i]);
		device("block", dev, dir);
		mount_fs((unsigned int) (60 + i), dev, "/mnt/x", "ext4 /dev/x rw");
		file(i, dev, "/mnt/x/a");
		expect_refused(i, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "RAM disk");
	}
	mapper();
	region(REGION0, "memory_controller", "0");
	slave(DM, "pmem0", REGION0 "/namespace0.0/block/pmem0");
	slave(DM, "zram12", "devices/virtual/block/zram12");
	file(10, "fd:00", "/mnt/dm/a");
	expect_refused(10, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "zram12");
}

Test(mem, a_volatile_region_as_a_disk)
{
	region(REGION0, "memory_controller", "0");
	put(REGION0, "devtype", "nd_volatile");
	pmem_disk();
	file(0, PMEM0, "/mnt/pmem/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "region0");
}

Test(mem, a_loop_device_keeps_what_its_file_keeps)
{
	device("block", "07:00", "devices/virtual/block/loop0");
	mount_fs(60, "07:00", "/mnt/loop", "ext4 /dev/loop0 rw");
	file(0, "07:00", "/mnt/loop/a");
	node("/data/image", DISK, 50, S_IFREG, "00:00");
	node("/dev/shm/image", TMPFS, 50, S_IFREG, "00:00");
	node("/mnt/loop/image", "07:00", 50, S_IFREG, "00:00");

	put("devices/virtual/block/loop0", "loop/backing_file", "/data/image");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	put("devices/virtual/block/loop0", "loop/backing_file", "/dev/shm/image");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "loop0");
	put("devices/virtual/block/loop0", "loop/backing_file", "/data/image (deleted)");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	put("devices/virtual/block/loop0", "loop/backing_file", "/mnt/loop/image");
	expect(0, 1, PMV_PAGE, PMV_FILE);
}

Test(mem, btrfs)
{
	device("block", DISK, "devices/pci0/sda");
	device("block", "fe:00", "devices/virtual/block/zram0");
	node("/dev/sda", DEVTMPFS, 4, S_IFBLK, DISK);
	node("/dev/zram0", DEVTMPFS, 5, S_IFBLK, "fe:00");
	mount_fs(60, "00:30", "/mnt/b", "btrfs /dev/sda rw,subvolid=5");
	mount_fs(61, "00:31", "/mnt/z", "btrfs /dev/zram0 rw,subvolid=5");

	/* stat has a number of the subvolume's own */
	node("/mnt/b/a", "00:40", 7, S_IFREG, "00:00")->mount = 60;
	file(0, "00:30", "/mnt/b/a");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert(strstr(mem.what, "sda"), "%s", mem.what);
	file(1, "00:31", "/mnt/z/a");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "zram0");

	/* Another file system, whose source is a device of the same number, but no disk. */
	mount_fs(62, "00:32", "/mnt/c", "zfs /dev/char rw");
	node("/dev/char", DEVTMPFS, 6, S_IFCHR, "fe:00");
	file(2, "00:32", "/mnt/c/a");
	expect(2, 1, PMV_PAGE, PMV_FILE);

	/* SUSE's kernels have it in smaps too, but not in mountinfo. */
	file(3, "00:40", "/mnt/b/a");
	expect(3, 1, PMV_PAGE, PMV_FILE);
}

/* mountinfo has a blank as \040 and a backslash as \134. */
Test(mem, names_with_blanks)
{
	char source[400];

	device("block", DISK, "devices/pci0/sda");
	device("block", "fe:00", "devices/virtual/block/zram0");
	mount_fs(60, "00:30", "/mnt/my\\040files", "btrfs /dev/disk/by-label/my\\134x20disk rw");
	mount_fs(61, "00:31", "/mnt/-\\040-\\040tmpfs", "btrfs /dev/mapper/my\\040-\\040swap rw");
	node("/dev/disk/by-label/my\\x20disk", DEVTMPFS, 4, S_IFBLK, DISK);
	node("/dev/mapper/my - swap", DEVTMPFS, 5, S_IFBLK, "fe:00");
	file(0, "00:30", "/mnt/my files/a");
	file(1, "00:31", "/mnt/- - tmpfs/a");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	cr_assert(strstr(mem.what, "sda"), "%s", mem.what);
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "zram0");

	/* The beginning of a long one is another device's name. */
	memset(source, 'x', sizeof(source));
	memcpy(source, "btrfs /", strlen("btrfs /"));
	strcpy(source + sizeof(source) - strlen(" rw") - 1, " rw");
	mount_fs(62, "00:32", "/mnt/long", source);
	source[strlen("btrfs ") + 255] = '\0';
	node(source + strlen("btrfs "), DEVTMPFS, 6, S_IFBLK, DISK);
	file(2, "00:32", "/mnt/long/a");
	expect(2, 1, PMV_PAGE, PMV_FILE);
	cr_assert(!strstr(mem.what, "sda"), "%s", mem.what);
}

Test(mem, overlayfs)
{
	mount_fs(60, "00:30", "/o", "overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w");
	node("/o/a", "00:30", 7, S_IFREG, "00:00")->mount = 60;
	node("/o/other-numbers", "00:41", 8, S_IFREG, "00:00")->mount = 60;
	file(0, "00:30", "/o/a");
	file(1, "00:30", "/o/a (deleted)");
	file(2, "00:30", "/o/other-numbers");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "overlayfs");
	expect(2, 1, PMV_PAGE, PMV_FILE);

	/* hidden below another mount */
	node("/o/hidden", DISK, 9, S_IFREG, "00:00")->mount = 23;
	file(3, "00:30", "/o/hidden");
	expect_refused(3, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "overlayfs");
	extents = false;
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "overlayfs");
}

Test(mem, overlayfs_that_ignores_msync)
{
	mount_fs(60, "00:30", "/o", "overlay overlay rw,lowerdir=/l,upperdir=/u,volatile");
	mount_fs(61, "00:31", "/p", "overlay overlay rw,volatiles,lowerdir=/volatile");
	node("/o/a", "00:30", 7, S_IFREG, "00:00")->mount = 60;
	node("/p/a", "00:31", 7, S_IFREG, "00:00")->mount = 61;
	file(0, "00:30", "/o/a");
	file(1, "00:31", "/p/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "volatile");
	expect(1, 1, PMV_PAGE, PMV_FILE);

	/* A quotation mark in a name begins no quote. */
	mount_fs(62, "00:32", "/q", "overlay overlay rw,lowerdir=/l,upperdir=/u\",volatile");
	node("/q/a", "00:32", 7, S_IFREG, "00:00")->mount = 62;
	file(2, "00:32", "/q/a");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "volatile");
}

/* Linux 6.1: smaps has the numbers of the layer below, which in a container isn't mounted. */
Test(mem, overlayfs_mapped_as_the_layer_below)
{
	mount_fs(60, "00:30", "/o", "overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w");
	node("/o/a", "00:30", 7, S_IFREG, "00:00")->mount = 60;
	node("/o/b", "00:30", 8, S_IFREG, "00:00")->mount = 60;
	file(0, "00:50", "/o/a");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	file(1, "00:50", "/o/b");
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "not mounted here");
	file(2, TMPFS, "/o/a");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "tmpfs");
	device("block", "08:11", "devices/pci0/sdb");
	file(3, "08:11", "/o/b");
	expect(3, 1, PMV_PAGE, PMV_FILE);
}

Test(mem, a_mapped_block_device)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	device("block", "fe:00", "devices/virtual/block/zram0");
	node("/dev/pmem0", DEVTMPFS, 7, S_IFBLK, PMEM0);
	node("/dev/zram0", DEVTMPFS, 8, S_IFBLK, "fe:00");
	node("/dev/gone", DEVTMPFS, 9, S_IFBLK, "fe:01");
	vma(0, 1, "rw-s", DEVTMPFS, 7, "/dev/pmem0", FLAGS);
	vma(1, 1, "rw-s", DEVTMPFS, 8, "/dev/zram0", FLAGS);
	vma(2, 1, "rw-s", DEVTMPFS, 9, "/dev/gone", FLAGS);
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "RAM disk");
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "sysfs");
}

Test(mem, private_and_anonymous)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	vma(0, 1, "rw-p", "00:00", 0, "", "rd wr mr mw me ac");
	vma(1, 1, "rw-p", "00:00", 0, "[heap]", "rd wr mr mw me ac");
	vma(2, 1, "rw-p", PMEM0, 7, "/mnt/pmem/a", "rd wr mr mw me sf");
	vma(3, 1, "rw-s", "00:01", 7, "/dev/zero (deleted)", FLAGS);
	vma(4, 1, "rw-s", "00:01", 7, "/SYSV00000000 (deleted)", FLAGS);
	vma(5, 1, "rw-s", "00:0f", 7, "/anon_hugepage (deleted)", FLAGS);
	vma(6, 1, "rw-s", "00:01", 7, "[anon_shmem:name]", FLAGS);
	vma(7, 1, "rw-s", "00:01", 7, "/memfd:name (deleted)", FLAGS);
	vma(8, 1, "rw-s", "00:11", 7, "anon_inode:[io_uring]", FLAGS);
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	node("anon_inode:[io_uring]", "00:11", 7, S_IFCHR, DAX0); /* in the current directory */
	expect_refused(0, 1, FI_EINVAL, PMV_ANON, "anonymous");
	expect_refused(1, 1, FI_EINVAL, PMV_ANON, "[heap]");
	expect_refused(2, 1, FI_EINVAL, PMV_PRIVATE, "MAP_SHARED");
	for (uint64_t at = 3; at <= 6; at++)
		expect_refused(at, 1, FI_EINVAL, PMV_ANON, "shared anonymous");
	expect_refused(7, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "volatile");
	expect_refused(8, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "not mounted");
}

Test(mem, a_long_path_leaves_room_for_the_reason)
{
	char path[1024] = "/";

	memset(path + 1, 'x', sizeof(path) - 5);
	strcpy(path + sizeof(path) - 5, "/end");
	file(0, TMPFS, path);
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "xx/end is on tmpfs");
	cr_assert(strstr(mem.what, "FI_PMEMVERBS_DOMAIN"));
}

/* ---- ranges ----------------------------------------------------------- */

Test(mem, several_mappings_the_weakest_counts)
{
	region(REGION0, "memory_controller", "0");
	region(REGION1, "memory_controller", "1");
	pmem_disk();
	sync_file(0, PMEM0, "/mnt/pmem/a");
	file(1, PMEM0, "/mnt/pmem/a");
	sync_file(2, PMEM0, "/mnt/pmem/a");
	sync_file(3, PMEM1, "/mnt/pmem1/a");
	vma(4, 1, "rw-p", "00:00", 0, "", "rd wr");
	expect(0, 1, PMV_DMP, PMV_FSDAX);
	cr_assert_eq(mem.numa_node, 0);
	expect(0, 2, PMV_PAGE, PMV_FILE);
	cr_assert_eq(mem.numa_node, 0);
	expect(1, 2, PMV_PAGE, PMV_FILE);
	expect(0, 3, PMV_PAGE, PMV_FILE);
	expect(2, 2, PMV_DMP, PMV_FSDAX);
	cr_assert_eq(mem.numa_node, -1);
	expect_refused(0, 5, FI_EINVAL, PMV_ANON, "anonymous");
	expect_refused(3, 2, FI_EINVAL, PMV_ANON, "anonymous");
}

Test(mem, one_file_cut_into_many_mappings)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	vma(0, 1, "rw-s", PMEM0, 7, "/mnt/pmem/a", FLAGS " sf");
	vma(1, 1, "r--s", PMEM0, 7, "/mnt/pmem/a", FLAGS " sf");
	vma(2, 1, "rw-p", PMEM0, 7, "/mnt/pmem/a", FLAGS " sf");
	expect(0, 2, PMV_DMP, PMV_FSDAX);
	expect_refused(0, 3, FI_EINVAL, PMV_PRIVATE, "private");
}

Test(mem, msync_does_nothing_for_device_dax)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	sync_file(1, PMEM0, "/mnt/pmem/a");
	file(2, DISK, "/data/a");
	vma(3, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
	expect(1, 2, PMV_PAGE, PMV_FILE);
	expect_refused(0, 3, FI_EOPNOTSUPP, PMV_UNKNOWN, "separately");
	expect_refused(1, 3, FI_EOPNOTSUPP, PMV_UNKNOWN, "separately");
	expect_refused(2, 2, FI_EOPNOTSUPP, PMV_UNKNOWN, "separately");
}

Test(mem, the_range_may_begin_and_end_within_a_mapping)
{
	vma(0, 1, "rw-p", "00:00", 0, "", "rd wr");
	vma(1, 4, "rw-s", DISK, 7, "/data/a", FLAGS);
	vma(5, 1, "rw-p", "00:00", 0, "", "rd wr");
	expect(1, 4, PMV_PAGE, PMV_FILE);
	expect(2, 1, PMV_PAGE, PMV_FILE);
	cr_assert_eq(pmv_mem_detect((void *) (BASE + MIB), 1, &mem), 0);
	cr_assert_eq(pmv_mem_detect((void *) (BASE + 5 * MIB - 1), 1, &mem), 0);
	cr_assert_eq(pmv_mem_detect((void *) (BASE + 5 * MIB - 1), 2, &mem), -FI_EINVAL);
	cr_assert_eq(pmv_mem_detect((void *) (BASE + MIB - 1), 2, &mem), -FI_EINVAL);
}

Test(mem, holes)
{
	file(1, DISK, "/data/a");
	file(3, DISK, "/data/a");
	expect(1, 1, PMV_PAGE, PMV_FILE);
	expect_refused(0, 1, FI_EFAULT, PMV_UNKNOWN, "not mapped");
	expect_refused(0, 2, FI_EFAULT, PMV_UNKNOWN, "0x7f0000000000 to 0x7f0000100000");
	expect_refused(1, 2, FI_EFAULT, PMV_UNKNOWN, "0x7f0000200000 to 0x7f0000300000");
	expect_refused(1, 3, FI_EFAULT, PMV_UNKNOWN, "not mapped");
	expect_refused(3, 2, FI_EFAULT, PMV_UNKNOWN, "0x7f0000400000 to 0x7f0000500000");
	expect_refused(4, 1, FI_EFAULT, PMV_UNKNOWN, "not mapped");
}

Test(mem, no_range)
{
	file(0, DISK, "/data/a");
	expect_refused(0, 0, FI_EINVAL, PMV_UNKNOWN, "not a memory region");
	cr_assert_eq(pmv_mem_detect((void *) BASE, SIZE_MAX, &mem), -FI_EINVAL);
	cr_assert_eq(pmv_mem_detect((void *) BASE, 0 - BASE, &mem), -FI_EINVAL);
}

/* ---- reading smaps ---------------------------------------------------- */

Test(mem, many_mappings)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	for (uint64_t i = 0; i < 5000; i++)
		vma(2 * i, 1, "rw-p", "00:00", 0, "", "rd wr sf");
	sync_file(10001, PMEM0, "/mnt/pmem/a");
	file(10002, DISK, "/data/a");
	for (uint64_t i = 5002; i < 10000; i++)
		vma(2 * i, 1, "rw-p", "00:00", 0, "", "rd wr sf");
	expect(10001, 1, PMV_DMP, PMV_FSDAX);
	expect(10001, 2, PMV_PAGE, PMV_FILE);
	expect(10002, 1, PMV_PAGE, PMV_FILE);
}

Test(mem, what_lies_behind_the_range_is_not_read)
{
	file(0, DISK, "/data/a");
	append(smaps, "nonsense\n");
	expect(0, 1, PMV_PAGE, PMV_FILE);
}

Test(mem, the_flags_of_another_mapping_do_not_count)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	append(smaps, "%" PRIx64 "-%" PRIx64 " rw-s 00000000 %s 7 /mnt/pmem/a\n", BASE, BASE + MIB,
	       PMEM0);
	append(smaps, "7f0000100000-broken\nVmFlags: rd wr sh sf\n");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect_refused(1, 1, FI_EIO, PMV_UNKNOWN, "broken");
	expect_refused(0, 2, FI_EIO, PMV_UNKNOWN, "broken");
}

Test(mem, mappings_out_of_order)
{
	file(0, DISK, "/data/a");
	vma(0, 1, "rw-p", "00:00", 0, "", "rd wr");
	file(1, DISK, "/data/a");
	expect(0, 2, PMV_PAGE, PMV_FILE);
}

Test(mem, fields_without_a_mapping)
{
	append(smaps, "VmFlags: rd wr sh sf\nSize: 4 kB\n");
	expect_refused(0, 1, FI_EFAULT, PMV_UNKNOWN, "not mapped");
}

Test(mem, smaps_missing)
{
	unlink(smaps);
	expect_refused(0, 1, FI_EIO, PMV_UNKNOWN, smaps);
	mkdir(smaps, 0700);
	expect_refused(0, 1, FI_EIO, PMV_UNKNOWN, smaps);
}

static size_t load(const char *path, char *buf, size_t size)
{
	FILE *in = fopen(path, "r");
	size_t len = fread(buf, 1, size, in);

	cr_assert_lt(len, size);
	fclose(in);
	return len;
}

/* store -- as a new file: ext4 writes one that was truncated to disk when it is closed */
static void store(const char *path, const char *buf, size_t len)
{
	FILE *out;

	unlink(path);
	out = fopen(path, "w");
	cr_assert_eq(fwrite(buf, 1, len, out), len);
	fclose(out);
}

Test(mem, mountinfo_missing)
{
	unlink(mountinfo);
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	sync_file(0, PMEM0, "/mnt/pmem/a");
	file(1, PMEM0, "/mnt/pmem/a");
	file(2, TMPFS, "/dev/shm/a");
	vma(3, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	/* How it is mounted counts. */
	for (uint64_t at = 0; at < 3; at++)
		expect_refused(at, 1, FI_EIO, PMV_UNKNOWN, mountinfo);
	expect(3, 1, PMV_DMP, PMV_DEVDAX);
}

Test(mem, lines_of_mountinfo_that_are_not_understood)
{
	static const char *const lines[] = {
		"60 1 8:17 / /mnt/x rw,relatime shared:1 ext4 /dev/sdb1 rw,nobarrier",
		"60 1 8:17 / /mnt/x rw,relatime shared:1 - ext4",
		"60 1 8-17 / /mnt/x rw,relatime shared:1 - ext4 /dev/sdb1 rw",
		"60 1 8:17",
		"8:17",
	};
	static char whole[8192];
	size_t len = load(mountinfo, whole, sizeof(whole));

	device("block", "08:11", "devices/pci0/sdb");
	file(0, DISK, "/data/a");
	file(1, "08:11", "/mnt/x/a");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		store(mountinfo, whole, len);
		append(mountinfo, "%s\n", lines[i]);
		expect(0, 1, PMV_PAGE, PMV_FILE);
		expect_refused(1, 1, FI_EIO, PMV_UNKNOWN, mountinfo);
	}
	/* libmount takes it for a kind of fstab. */
	store(mountinfo, "", 0);
	append(mountinfo, "/dev/sdb1 /mnt/x ext4 rw 0 0\n");
	expect_refused(1, 1, FI_EIO, PMV_UNKNOWN, mountinfo);
}

Test(mem, paths_that_do_not_fit)
{
	char path[PATH_MAX + 100];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	strcpy(path + sizeof(path) - strlen(" (deleted)") - 1, " (deleted)");
	file(0, DISK, "/data/a");
	file(1, DISK, path);
	file(2, DISK, "/data/b");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect_refused(1, 1, FI_EOPNOTSUPP, PMV_UNKNOWN, "too long");
	expect(2, 1, PMV_PAGE, PMV_FILE);
}

/* unreadable -- it exists, but opening or, if it is a directory, reading it fails */
static void unreadable(const char *dir, const char *name, bool directory)
{
	char path[PATH_MAX];

	cr_assert(snprintf(path, sizeof(path), "%s/%s/%s", sysfs, dir, name) < PATH_MAX);
	make_parents(path);
	unlink(path);
	cr_assert(directory ? !mkdir(path, 0700) : !symlink(path, path));
}

Test(mem, what_sysfs_fails_to_tell_may_be_volatile)
{
	static const char *const devices[] = {"devices/virtual/block/dm-1",
					      "devices/virtual/block/loop0",
					      REGION0 "/namespace0.0/block/pmem0"};

	region(REGION0, "memory_controller", "0");
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		char dev[16];

		snprintf(dev, sizeof(dev), "fe:%zx", i);
		device("block", dev, devices[i]);
		file(i, dev, "/mnt/x/a");
		expect(i, 1, PMV_PAGE, PMV_FILE);
	}
	for (int directory = 0; directory < 2; directory++) {
		unreadable("devices/virtual/block/dm-1", "slaves", false);
		unreadable("devices/virtual/block/loop0", "loop/backing_file", directory);
		unreadable(REGION0, "devtype", directory);
		for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
			expect_refused(i, 1, FI_EOPNOTSUPP, PMV_VOLATILE_FS, "sysfs failed");
	}
}

/* Whatever can't be opened then: a file in memory doesn't become one on a disk. */
Test(mem, without_descriptors_nothing_more_is_promised)
{
	struct rlimit limit;
	bool found = false;

	mapper();
	slave(DM, "loop0", "devices/virtual/block/loop0");
	put("devices/virtual/block/loop0", "loop/backing_file", "/dev/shm/image");
	node("/dev/shm/image", TMPFS, 50, S_IFREG, "00:00");
	file(0, "fd:00", "/mnt/dm/a");
	cr_assert(!getrlimit(RLIMIT_NOFILE, &limit));
	for (limit.rlim_cur = 0; !found; limit.rlim_cur++) {
		cr_assert_lt(limit.rlim_cur, 100);
		cr_assert(!setrlimit(RLIMIT_NOFILE, &limit));
		cr_assert_neq(detect(0, 1), 0, "%s", mem.what);
		found = strstr(mem.what, "whose file image may be volatile");
	}
	limit.rlim_cur = limit.rlim_max;
	cr_assert(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* ---- fuzzing ---------------------------------------------------------- */

static void mixed_range(void)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	sync_file(1, PMEM0, "/mnt/pmem/a");
}

Test(mem, truncated_input_never_promises_more)
{
	const char *const paths[] = {smaps, mountinfo};
	static char whole[8192];

	mixed_range();
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
	for (size_t i = 0; i < 2; i++) {
		size_t len = load(paths[i], whole, sizeof(whole));

		for (size_t cut = 0; cut < len; cut++) {
			store(paths[i], whole, cut);
			detect(0, 2);
			cr_assert_leq(mem.persist, PMV_DMP);
		}
		store(paths[i], whole, len);
	}
}

Test(mem, random_input)
{
	const char *const paths[] = {smaps, mountinfo};
	static char whole[8192], changed[8192];

	mixed_range();
	srandom(1);
	for (size_t i = 0; i < 2; i++) {
		size_t len = load(paths[i], whole, sizeof(whole));

		for (unsigned int round = 0; round < 3000; round++) {
			memcpy(changed, whole, len);
			for (long n = 1 + random() % 12; n; n--)
				changed[random() % len] = round % 2 ? random() : 32 + random() % 96;
			store(paths[i], changed, len);
			detect(0, 2);
			cr_assert_leq(mem.persist, PMV_DMP);
		}
		for (unsigned int round = 0; round < 500; round++) {
			for (size_t at = 0; at < len; at++)
				changed[at] = random();
			store(paths[i], changed, len);
			detect(0, 2);
			cr_assert_leq(mem.persist, PMV_DMP);
		}
		store(paths[i], whole, len);
	}
}

/* ---- this process's own memory ---------------------------------------- */

static void *map(int fd, int flags)
{
	void *addr = mmap(NULL, MIB, PROT_READ | PROT_WRITE, flags, fd, 0);

	cr_assert_neq(addr, MAP_FAILED);
	return addr;
}

#define expect_own(addr, len, err, back)                                                           \
	do {                                                                                       \
		int ret_ = pmv_mem_detect(addr, len, &mem);                                        \
		cr_assert_eq(ret_, -(err), "%d: %s", ret_, mem.what);                              \
		cr_assert_eq(mem.backing, back, "%d: %s", mem.backing, mem.what);                  \
	} while (0)

Test(own, anonymous)
{
	void *heap = calloc(1, 100);
	int on_stack;

	expect_own(heap, 100, FI_EINVAL, PMV_ANON);
	expect_own(&on_stack, sizeof(on_stack), FI_EINVAL, PMV_ANON);
	expect_own(map(-1, MAP_PRIVATE | MAP_ANONYMOUS), MIB, FI_EINVAL, PMV_ANON);
	expect_own(map(-1, MAP_SHARED | MAP_ANONYMOUS), MIB, FI_EINVAL, PMV_ANON);
	free(heap);
}

Test(own, memfd)
{
	int fd = memfd_create("test", 0);

	cr_assert(!ftruncate(fd, MIB));
	expect_own(map(fd, MAP_SHARED), MIB, FI_EOPNOTSUPP, PMV_VOLATILE_FS);
	expect_own(map(fd, MAP_PRIVATE), MIB, FI_EINVAL, PMV_PRIVATE);
	close(fd);
}

Test(own, file)
{
	char path[] = "test_mem.XXXXXX";
	int fd = mkstemp(path);
	struct statfs fs;
	char *addr;

	cr_assert_geq(fd, 0);
	cr_assert(!ftruncate(fd, MIB));
	cr_assert(!fstatfs(fd, &fs));
	addr = map(fd, MAP_SHARED);
	expect_own(map(fd, MAP_PRIVATE), MIB, FI_EINVAL, PMV_PRIVATE);
	switch (fs.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
		expect_own(addr, MIB, 0, PMV_FILE);
		cr_assert_eq(mem.persist, PMV_PAGE);
		cr_assert(strstr(mem.what, path), "%s", mem.what);
		munmap(addr + MIB / 2, MIB / 4);
		expect_own(addr, MIB, FI_EFAULT, PMV_UNKNOWN);
		unlink(path);
		expect_own(addr, MIB / 2, FI_EOPNOTSUPP, PMV_FILE);
		break;
	case OVERLAYFS_SUPER_MAGIC:
		/* Where the upper layer lies is not known here. */
		if (pmv_mem_detect(addr, MIB, &mem))
			cr_assert(strstr(mem.what, "overlayfs"), "%s", mem.what);
		else
			cr_assert_eq(mem.persist, PMV_PAGE);
		break;
	default:
		cr_assert_eq(pmv_mem_detect(addr, MIB, &mem), -FI_EOPNOTSUPP, "%s", mem.what);
	}
	unlink(path);
	close(fd);
}

/* What is behind overlayfs: only files on a disk have extents. */
Test(own, extents)
{
	char path[] = "test_mem.XXXXXX";
	int fd = mkstemp(path);
	struct statfs fs;

	cr_assert_geq(fd, 0);
	cr_assert(!fstatfs(fd, &fs));
	if (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
	    fs.f_type == BTRFS_SUPER_MAGIC)
		cr_assert(pmv_platform.has_extents(path));
	unlink(path);
	close(fd);
	cr_assert(!pmv_platform.has_extents(path), "it is gone");
	cr_assert(!pmv_platform.has_extents("/proc/self/maps"), "it is on no disk");
}

Test(own, what_may_fault)
{
	int fd = memfd_create("test", 0);
	char *addr;

	cr_assert(!ftruncate(fd, MIB));
	addr = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
	cr_assert(!pmv_mem_may_fault(addr, MIB));
	cr_assert(pmv_mem_may_fault(map(fd, MAP_SHARED), MIB));
	munmap(addr + MIB / 2, MIB / 4);
	cr_assert(pmv_mem_may_fault(addr, MIB));
	close(fd);
}

static void *detect_in_thread(void *addr)
{
	static struct pmv_mem found;

	return (void *) (intptr_t) pmv_mem_detect(addr, MIB, &found);
}

Test(own, from_another_thread)
{
	int fd = memfd_create("test", 0);
	pthread_t thread;
	void *ret;

	cr_assert(!ftruncate(fd, MIB));
	pthread_create(&thread, NULL, detect_in_thread, map(fd, MAP_SHARED));
	pthread_join(thread, &ret);
	cr_assert_eq((intptr_t) ret, -FI_EOPNOTSUPP);
	close(fd);
}
