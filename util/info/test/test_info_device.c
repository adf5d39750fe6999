/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info_device.c -- what fi_pmem_info says of devices */
#include "machine.h"

Test(machine, who_is_not_root_sees_64_bytes)
{
	rnic(true, true, "0");
	config(ROOT_PORT, XEON_PORT, 64, true, false);
	config(RNIC, 0x1017, 64, false, true);
	look(NULL);
	expect_text("devices/0/ddio/state", "unknown");
	expect_in("devices/0/ddio/from", "setpci -s 0000:3a:00.0 180.b");
	expect_text("devices/0/relaxed_ordering/state", "unknown");
	expect_in("devices/0/relaxed_ordering/from", "lspci -vv -s 0000:3b:00.0");
}

Test(machine, another_root_port_has_another_switch)
{
	rnic(true, false, "0");
	config(ROOT_PORT, 0x347a, 4096, true, false);
	look(NULL);
	expect_text("devices/0/ddio/state", "unknown");
	expect_in("devices/0/ddio/from", "8086:347a");
	expect_in("devices/0/ddio/from", "BIOS");
}

/* A list of capabilities that is a circle, and one that leaves the space. */
Test(machine, broken_configuration_space_is_survived)
{
	char path[2 * PATH_MAX], space[256] = {[0x34] = 0x40, [0x41] = 0x40};

	rnic(true, false, "0");
	snprintf(path, sizeof(path), "%s/%s/config", sysfs, RNIC);
	store(path, space, sizeof(space));
	look(NULL);
	expect_text("devices/0/relaxed_ordering/state", "unknown");
	expect_in("devices/0/relaxed_ordering/from", "no PCI Express capability");
	again();
	space[0x34] = (char) 0xfc;
	space[0xfc] = 0x10;
	store(path, space, sizeof(space));
	look(NULL);
	expect_text("devices/0/relaxed_ordering/state", "unknown");
}

Test(machine, relaxed_ordering_is_warned_of)
{
	rnic(true, true, "0");
	look(NULL);
	expect_text("devices/0/relaxed_ordering/state", "on");
	cr_expect(find("warnings", "relax the order"));
	cr_expect_not(info_loses_data(model));
}

Test(machine, a_device_that_is_not_offered_is_shown)
{
	rnic(true, false, "0");
	offers.rnic = NULL;
	region(REGION0, "cpu_cache", "0");
	look(NULL);
	expect_text("devices/0/device", MLX5);
	expect_text("devices/0/offered", "false");
	cr_expect(find("warnings", "offers nothing on this device"));
	expect_text("memory/0/ways/0/devices/0", "tcp all interfaces");
}

Test(machine, two_nodes_are_compared)
{
	put("devices/system/node/node0", "cpulist", "0-15");
	put("devices/system/node/node1", "cpulist", "16-31");
	region(REGION0, "cpu_cache", "1");
	rnic(true, false, "0");
	look(NULL);
	expect_text("machine/nodes", "2");
	cr_expect(find(VERBS "faster", "H1"));
	again();
	put(RNIC, "numa_node", "1");
	look(NULL);
	cr_expect_null(find(VERBS "faster", "H1"));
}
