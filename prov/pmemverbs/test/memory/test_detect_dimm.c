/* SPDX-License-Identifier: BSD-2-Clause */
/* test_detect_dimm.c -- NVDIMMs that say that they lose data */
#include "test/support/mem_system.h"

#include <stdio.h>
#include <unistd.h>

/* dimms -- region0 and region1, each of two DIMMs, all of which have nothing to say */
static void dimms(void)
{
	region(REGION0, "memory_controller", "0");
	region(REGION1, "memory_controller", "0");
	put(REGION0, "mappings", "2");
	put(REGION0, "mapping0", "nmem0,0,268435456,0");
	put(REGION0, "mapping1", "nmem1,0,268435456,1");
	put(REGION1, "mappings", "2");
	put(REGION1, "mapping0", "nmem2,0,268435456,0");
	put(REGION1, "mapping1", "nmem13,0,268435456,1");
	put(NDBUS "/nmem0", "nfit/flags", "");
	put(NDBUS "/nmem1", "nfit/flags", "");
	put(NDBUS "/nmem2", "papr/flags", "");
	put(NDBUS "/nmem13", "state", "idle");
}

/* ranges -- device DAX on region0, and files with and without MAP_SYNC on each region */
static void ranges(void)
{
	pmem_disk();
	mount_fs(31, PMEM1, "/mnt/pmem1", "ext4 /dev/pmem1 rw");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	vma(0, 1, "rw-s", DEVTMPFS, 100, "/dev/dax0.0", FLAGS);
	sync_file(1, PMEM0, "/mnt/pmem/a");
	file(2, PMEM0, "/mnt/pmem/a");
	sync_file(3, PMEM1, "/mnt/pmem1/a");
	file(4, PMEM1, "/mnt/pmem1/a");
}

#define expect_region(name, err)                                                                   \
	cr_assert_eq(pmv_mapping_detect_region(name, &mem), err, "%s", mem.what)

Test(detect, a_region_of_dimms_that_lose_data_promises_nothing)
{
	static const char *const flags[] = {"not_armed", "save_fail", "flush_fail", "restore_fail",
					    "map_fail"};

	dimms();
	ranges();
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		char value[64], said[64];

		snprintf(value, sizeof(value), "smart_event %s smart_notify ", flags[i]);
		snprintf(said, sizeof(said), "region0, whose DIMM nmem1 says %s (", flags[i]);
		put(NDBUS "/nmem1", "nfit/flags", value);
		expect_refused(0, 1, FI_EOPNOTSUPP, PMV_DEVDAX, said);
		expect_refused(1, 1, FI_EOPNOTSUPP, PMV_FSDAX, said);
		expect_refused(2, 1, FI_EOPNOTSUPP, PMV_FILE, said);
		cr_assert(strstr(mem.what, "FI_PMEMVERBS_DOMAIN"), "%s", mem.what);
		expect_region("region0", -FI_EOPNOTSUPP);
		cr_assert(strstr(mem.what, said), "%s", mem.what);
		expect(3, 1, PMV_DMP, PMV_FSDAX);
		expect_region("region1", 0);
	}
	put(NDBUS "/nmem1", "nfit/flags", "save_fail not_armed ");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_DEVDAX, "nmem1 says save_fail not_armed (");
}

Test(detect, what_dimms_say_on_power_counts_as_well)
{
	dimms();
	ranges();
	put(NDBUS "/nmem2", "papr/flags", "not_armed encrypted");
	expect_refused(3, 1, FI_EOPNOTSUPP, PMV_FSDAX, "nmem2 says not_armed");
	expect_refused(4, 1, FI_EOPNOTSUPP, PMV_FILE, "nmem2 says not_armed");
	expect(0, 1, PMV_DMP, PMV_DEVDAX);
}

Test(detect, other_words_of_dimms_are_no_loss)
{
	dimms();
	ranges();
	put(NDBUS "/nmem0", "nfit/flags", "smart_event smart_notify ");
	put(NDBUS "/nmem1", "nfit/flags", "not_armed_yet save_failure");
	put(NDBUS "/nmem2", "papr/flags", "encrypted smart_notify scrubbed locked ");
	expect(0, 1, PMV_DMP, PMV_DEVDAX);
	expect(2, 1, PMV_PAGE, PMV_FILE);
	expect(3, 1, PMV_DMP, PMV_FSDAX);
	expect_region("region0", 0);
}

Test(detect, dimms_that_can_not_be_found_or_read_promise_nothing)
{
	char path[PATH_MAX];

	dimms();
	ranges();
	expect(0, 1, PMV_DMP, PMV_DEVDAX);
	put(REGION0, "mapping1", "nmem7,0,268435456,1");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_DEVDAX, "sysfs failed");
	put(REGION0, "mapping1", "nmem1,0,268435456,1");
	expect(0, 1, PMV_DMP, PMV_DEVDAX);
	put(REGION0, "mappings", "3");
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_DEVDAX, "sysfs failed");
	put(REGION0, "mappings", "2");
	cr_assert(snprintf(path, sizeof(path), "%s/" NDBUS "/nmem1/nfit/flags", sysfs) < PATH_MAX);
	unlink(path);
	cr_assert(!mkdir(path, 0700));
	expect_refused(0, 1, FI_EOPNOTSUPP, PMV_DEVDAX, "sysfs failed");
	/* virtio has none */
	put(REGION0, "mappings", "0");
	expect(0, 1, PMV_DMP, PMV_DEVDAX);
}
