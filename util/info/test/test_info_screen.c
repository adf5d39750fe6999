/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info_screen.c -- the screen shows all of the model */
#include "machine.h"

#include <stdlib.h>

Test(machine, the_screen_shows_the_model)
{
	char *screen;

	region(REGION0, "memory_controller", "1");
	put(NDBUS, "provider", "CXL");
	sysfs_disk("sda", DISK, "write through");
	file(0, DISK, "/data/log");
	node("/data/log", DISK, 7, S_IFREG, "0:0");
	rnic(true, true, "0");
	put("devices/system/node/node0", "cpulist", "0-15");
	put("devices/system/node/node1", "cpulist", "16-31");
	look("/data/log");
	screen = screen_of(model);
	for (char *line = screen; *line; line = strchrnul(line, '\n'), line += *line == '\n')
		cr_expect_leq(strcspn(line, "\n"), 100, "%.120s", line);
	squeeze(screen);
	expect_all_shown(screen, model);
	free(screen);
}
