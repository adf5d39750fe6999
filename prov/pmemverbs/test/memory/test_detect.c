/* SPDX-License-Identifier: BSD-2-Clause */
/* test_detect.c -- what is promised of DAX, and of ranges over several mappings */
#include "test/support/mem_system.h"

#include <stdio.h>
#include <unistd.h>
#include <sys/sysmacros.h>

/* ---- device DAX ------------------------------------------------------- */

Test(detect, devdax_adr)
{
	region(REGION0, "memory_controller", "1");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
	cr_assert_eq(mem.numa_node, 1);
	cr_assert_str_eq(mem.what, "device DAX /dev/dax0.0, region0 memory_controller");
}

Test(detect, devdax_eadr)
{
	region(REGION0, "cpu_cache", "0");
	region(REGION1, "cpu_cache", "0");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect(0, 2, PMV_MHP, PMV_DEVDAX);
}

Test(detect, caches_persist_only_if_every_region_says_so)
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
Test(detect, caches_persist_only_if_every_region_is_seen)
{
	put(REGION0, "devtype", "nd_pmem");
	put(REGION0, "persistence_domain", "cpu_cache");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect(0, 2, PMV_DMP, PMV_DEVDAX);
}

Test(detect, devdax_of_unknown_domain)
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

Test(detect, devdax_without_an_nvdimm_region)
{
	dax("devices/platform/hmem.0/dax0.0", DAX0);
	put("devices/platform/hmem.0/dax0.0", "numa_node", "3");
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect_refused(0, 2, FI_EOPNOTSUPP, PMV_DEVDAX, "no NVDIMM region");
	cr_assert_eq(mem.numa_node, 3);
}

Test(detect, a_cxl_region_is_no_nvdimm_region)
{
	dax("devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0", DAX0);
	put("devices/platform/ACPI0017:00/root0/decoder0.0/region0", "persistence_domain",
	    "memory_controller");
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect_refused(0, 2, FI_EOPNOTSUPP, PMV_DEVDAX, "no NVDIMM region");
}

Test(detect, a_volatile_region_has_no_use_for_its_domain)
{
	region(REGION0, "memory_controller", "0");
	put(REGION0, "devtype", "nd_volatile");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 2, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	expect_refused(0, 2, FI_EOPNOTSUPP, PMV_DEVDAX, "volatile");
}

Test(detect, e820_proves_nothing)
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
	expect_refused(2, 1, FI_EOPNOTSUPP, PMV_FILE, "e820");
}

Test(detect, a_device_is_known_by_its_number_not_its_name)
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

Test(detect, a_node_that_was_replaced_says_nothing)
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

Test(detect, the_processor_must_be_able_to_write_back)
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

Test(detect, fsdax)
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

Test(detect, without_map_sync_a_dax_file_needs_msync)
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

/* With 0, Linux leaves what a sync should write in the CPU's caches. */
Test(detect, a_dax_file_whose_sync_writes_no_caches_back)
{
	static const char disk[] = REGION0 "/namespace0.0/block/pmem0";

	region(REGION0, "memory_controller", "0");
	pmem_disk();
	mapper();
	slave(DM, "sda", "devices/pci0/sda");
	slave(DM, "pmem0", disk);
	file(0, PMEM0, "/mnt/pmem/a");
	file(1, "fd:00", "/mnt/dm/a");
	sync_file(2, PMEM0, "/mnt/pmem/b");
	put(disk, "dax/write_cache", "1");
	expect(0, 1, PMV_PAGE, PMV_FILE);
	expect(1, 1, PMV_PAGE, PMV_FILE);
	put(disk, "dax/write_cache", "0");
	for (uint64_t i = 0; i < 2; i++)
		expect_refused(i, 1, FI_EOPNOTSUPP, PMV_FILE,
			       "pmem0, for which a sync writes no CPU caches back: write 1 to "
			       "/sys/block/pmem0/dax/write_cache");
	expect(2, 1, PMV_DMP, PMV_FSDAX);
	put(REGION0, "persistence_domain", "");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FILE, "pmem0, for which a sync");
	/* Here the caches need not be written back. */
	put(REGION0, "persistence_domain", "cpu_cache");
	expect(0, 1, PMV_PAGE, PMV_FILE);
}

Test(detect, fsdax_on_a_partition)
{
	region(REGION0, "memory_controller", "0");
	device("block", PMEM0, REGION0 "/namespace0.0/block/pmem0/pmem0p1");
	put(REGION0 "/namespace0.0/block/pmem0/pmem0p1", "partition", "1");
	sync_file(0, PMEM0, "/mnt/pmem/a");
	expect(0, 1, PMV_DMP, PMV_FSDAX);
}

Test(detect, fsdax_on_device_mapper_takes_the_weakest_slave)
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

Test(detect, fsdax_on_device_mapper_partly_on_a_disk)
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

Test(detect, device_mapper_on_device_mapper_partitions)
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

Test(detect, slaves_that_cannot_be_followed)
{
	region(REGION0, "memory_controller", "0");
	mapper();
	slave(DM, "pmem0", REGION0 "/namespace0.0/block/pmem0");
	sync_file(0, "fd:00", "/mnt/dm/a");
	expect(0, 1, PMV_DMP, PMV_FSDAX);
	slave(DM, "gone", "devices/gone");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "can't be followed");
}

Test(detect, device_mapper_in_a_circle)
{
	mapper();
	slave(DM, "dm-0", DM);
	sync_file(0, "fd:00", "/mnt/dm/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "can't be followed");
}

Test(detect, xfs_may_keep_data_on_another_device)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	mount_fs(30, PMEM1, "/mnt/x", "xfs /dev/pmem1 rw,rtdev=/dev/sdb,noquota");
	node("/dev/sdb", DEVTMPFS, 4, S_IFBLK, DISK);
	region(REGION1, "memory_controller", "0");
	sync_file(0, PMEM1, "/mnt/x/a");
	file(1, PMEM1, "/mnt/x/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "real-time");
	expect(1, 1, PMV_PAGE, PMV_FILE);
}

Test(detect, fsdax_whose_device_is_not_in_sysfs)
{
	sync_file(0, PMEM0, "/mnt/pmem/a");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_FSDAX, "can't be found");
}

/* ---- ranges ----------------------------------------------------------- */

Test(detect, several_mappings_the_weakest_counts)
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

Test(detect, one_file_cut_into_many_mappings)
{
	region(REGION0, "memory_controller", "0");
	pmem_disk();
	vma(0, 1, "rw-s", PMEM0, 7, "/mnt/pmem/a", FLAGS " sf");
	vma(1, 1, "r--s", PMEM0, 7, "/mnt/pmem/a", FLAGS " sf");
	vma(2, 1, "rw-p", PMEM0, 7, "/mnt/pmem/a", FLAGS " sf");
	expect(0, 2, PMV_DMP, PMV_FSDAX);
	expect_refused(0, 3, FI_EINVAL, PMV_PRIVATE, "private");
}

Test(detect, msync_does_nothing_for_device_dax)
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

Test(detect, the_range_may_begin_and_end_within_a_mapping)
{
	vma(0, 1, "rw-p", "00:00", 0, "", "rd wr");
	vma(1, 4, "rw-s", DISK, 7, "/data/a", FLAGS);
	vma(5, 1, "rw-p", "00:00", 0, "", "rd wr");
	expect(1, 4, PMV_PAGE, PMV_FILE);
	expect(2, 1, PMV_PAGE, PMV_FILE);
	cr_assert_eq(pmv_detect((void *) (BASE + MIB), 1, &mem), 0);
	cr_assert_eq(pmv_detect((void *) (BASE + 5 * MIB - 1), 1, &mem), 0);
	cr_assert_eq(pmv_detect((void *) (BASE + 5 * MIB - 1), 2, &mem), -FI_EINVAL);
	cr_assert_eq(pmv_detect((void *) (BASE + MIB - 1), 2, &mem), -FI_EINVAL);
}

Test(detect, holes)
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

Test(detect, no_range)
{
	file(0, DISK, "/data/a");
	expect_refused(0, 0, FI_EINVAL, PMV_UNKNOWN, "not a memory region");
	cr_assert_eq(pmv_detect((void *) BASE, SIZE_MAX, &mem), -FI_EINVAL);
	cr_assert_eq(pmv_detect((void *) BASE, 0 - BASE, &mem), -FI_EINVAL);
}
