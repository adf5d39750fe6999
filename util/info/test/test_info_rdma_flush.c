/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info_rdma_flush.c -- what fi_pmem_info says of RDMA FLUSH */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "machine.h"

/* look_native -- at ADR and an RNIC through the core that can post FLUSHes; ret: of registering */
static void look_native(int ret)
{
	pmv_setting.core = "native";
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	look(NULL);
	json_object_put(model);
	info_flush_bit(&info->devices[0].flush, ret, "fi_mr_regattr");
	model = info_model(info);
}

Test(machine, rdma_flush_commits_without_the_agent)
{
	look_native(-FI_EINVAL);
	expect_text("devices/0/rdma_flush/state", "on");
	expect_text(VERBS "commit", "flush");
	expect_in(VERBS "commit_why", "RDMA FLUSH");
	expect_in(VERBS "immediate", "agent");
	cr_expect_not(find(VERBS "faster", "DDIO"));
	cr_expect_not(find(VERBS "faster", "FLUSH"));
	/* Nobody here knows where a message is received. */
	expect_text(VERBS "send_with_recv_mr", "agent");
}

Test(machine, without_rdma_flush_the_agent_commits)
{
	look_native(-FI_EOPNOTSUPP);
	expect_text("devices/0/rdma_flush/state", "off");
	expect_text(VERBS "commit", "agent");
	cr_expect(find(VERBS "faster", "DDIO"));
}

Test(machine, rdma_flush_that_is_switched_off)
{
	pmv_setting.no_flush = true;
	look_native(0);
	expect_text("settings/flush", "off");
	expect_text("devices/0/rdma_flush/state", "on");
	expect_text(VERBS "commit", "agent");
	cr_expect(find(VERBS "faster", "FI_PMEMVERBS_FLUSH=off"));
}

Test(machine, rdma_flush_is_unknown_if_there_is_no_domain)
{
	struct info_bit flush = {.state = INFO_ON};

	info_flush_bit(&flush, -FI_ENODATA, "fi_domain");
	cr_expect_eq(flush.state, INFO_UNKNOWN);
	cr_expect(strstr(flush.from, "fi_domain: "));
}

Test(machine, over_verbs_the_native_core_is_named)
{
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	look(NULL);
	cr_expect(find(VERBS "faster", "FI_PMEMVERBS_CORE=native"));
	cr_expect_not(find(TCP "faster", "FI_PMEMVERBS_CORE=native"));
	cr_expect_not(get("devices/0/rdma_flush"));
}

/* default_core -- at ADR and an RNIC, and nobody has chosen a core */
static void default_core(bool flushes)
{
	pmv_setting.core = "native,verbs,tcp";
	pmv_setting.native_flushes = true;
	offers.flushes = flushes;
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	look(NULL);
}

Test(machine, native_is_shown_by_default_where_it_flushes)
{
	default_core(true);
	expect_text("devices/0/core", "pmemrdma");
	expect_text("devices/1/core", "verbs");
	expect_text("devices/2/core", "tcp");
}

Test(machine, native_is_not_shown_by_default_where_it_does_not_flush)
{
	default_core(false);
	expect_text("devices/0/core", "verbs");
	expect_text("devices/1/core", "tcp");
	/* There is nothing to be set. */
	cr_expect_not(find(VERBS "faster", "FI_PMEMVERBS_CORE=native"));
}

Test(machine, rdma_flush_is_shown)
{
	char *screen;

	look_native(0);
	screen = screen_of(model);
	cr_expect(strstr(screen, "RDMA FLUSH: on (from what registering memory says)"));
	free(screen);
}
