/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info_memory.c -- what fi_pmem_info says of memory and methods */
#include "machine.h"

Test(machine, adr_needs_the_agent)
{
	region(REGION0, "memory_controller", "0");
	put(REGION0, "size", "17179869184");
	put(REGION0 "/namespace0.0", "mode", "dax");
	put(REGION0 "/namespace0.0", "size", "17179869184");
	put(REGION0 "/namespace0.1", "mode", "raw");
	put(REGION0 "/namespace0.1", "size", "0");
	rnic(true, false, "0");
	look(NULL);
	expect_text("memory/0/kind", "NVDIMM region");
	expect_text("memory/0/domain", "dmp");
	expect_text("memory/0/mode", "devdax");
	expect_text("memory/0/bytes", "17179869184");
	expect_text("memory/0/node", "0");
	expect_text("memory/0/from",
		    "bus/nd/devices/region0/persistence_domain: memory_controller");
	expect_text("memory/0/ways/0/devices/0", "verbs " MLX5);
	expect_text(VERBS "commit", "agent");
	expect_in(VERBS "commit_why", "FI_PMEMVERBS_DDIO=off");
	expect_text(VERBS "send", "agent");
	expect_text(VERBS "send_with_recv_mr", "agent");
	expect_in(VERBS "chains", "agent: ");
	expect_text("devices/0/ddio/state", "on");
	expect_in("devices/0/ddio/from", "perfctrlsts_0 of root port 0000:3a:00.0");
	expect_text("devices/0/kind", "RNIC, RoCE");
	cr_expect(find(VERBS "faster", "0000:3a:00.0"));
	cr_expect_not(info_loses_data(model));
}

Test(machine, adr_without_ddio_needs_it_declared)
{
	region(REGION0, "memory_controller", "0");
	rnic(false, false, "0");
	look(NULL);
	expect_text("devices/0/ddio/state", "off");
	expect_text(VERBS "commit", "agent");
	cr_expect(find(VERBS "faster", "set FI_PMEMVERBS_DDIO=off"));
	cr_expect_not(info_loses_data(model));
}

Test(machine, adr_is_committed_by_reads_where_ddio_is_off)
{
	region(REGION0, "memory_controller", "0");
	rnic(false, false, "0");
	pmv_setting.ddio_declared = true;
	pmv_setting.ddio = false;
	/* Over tcp that would lose data. */
	pmv_setting.core = "verbs";
	look(NULL);
	expect_text(VERBS "commit", "read");
	expect_in(VERBS "commit_why", "bypasses the caches");
	expect_in(VERBS "immediate", "empty write behind the READ");
	expect_text(VERBS "send", "agent");
	expect_text(VERBS "send_with_recv_mr", "read");
	cr_expect_not(info_loses_data(model));
}

Test(machine, eadr_needs_no_agent_but_over_tcp)
{
	region(REGION0, "cpu_cache", "0");
	rnic(true, false, "0");
	look(NULL);
	expect_text("memory/0/domain", "mhp");
	expect_text(VERBS "commit", "read");
	expect_in(VERBS "commit_why", "caches persist");
	expect_text(TCP "commit", "agent");
	cr_expect(find(TCP "faster", "use an RDMA device"));
	cr_expect_not(info_loses_data(model));
}

Test(machine, cxl_is_known_and_gpf_is_not)
{
	region(REGION0, "memory_controller", "1");
	put(NDBUS, "provider", "CXL");
	rnic(true, false, "1");
	look(NULL);
	expect_text("memory/0/kind", "CXL region");
	expect_text("memory/0/domain", "dmp");
	cr_expect(find(VERBS "faster", "FI_PMEMVERBS_DOMAIN=mhp"));
	cr_expect_not(info_loses_data(model));
}

/* Nobody but the administrator knows it. */
Test(machine, cxl_with_gpf_is_declared)
{
	region(REGION0, "memory_controller", "1");
	put(NDBUS, "provider", "CXL");
	rnic(true, false, "1");
	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_MHP;
	look(NULL);
	expect_text(VERBS "commit", "read");
	cr_expect(find("warnings", "GPF"));
	cr_expect_not(find(VERBS "faster", "GPF"), "what was done is not advised");
	cr_expect_not(info_loses_data(model));
}

Test(machine, e820_memory_is_refused)
{
	region("devices/platform/e820_pmem/ndbus0/region0", "cpu_cache", "0");
	rnic(true, false, "0");
	look(NULL);
	expect_text("memory/0/domain", "refused");
	expect_in("memory/0/what", "e820");
	cr_expect_null(get("memory/0/ways"));
	/* Nobody has said that it is to be used. */
	cr_expect_not(info_loses_data(model));
}

Test(machine, device_dax_is_looked_at_without_opening_it)
{
	region(REGION0, "memory_controller", "0");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	rnic(true, false, "0");
	look("/dev/dax0.0");
	expect_text("memory/1/kind", "device DAX");
	expect_text("memory/1/domain", "dmp");
	expect_in("memory/1/what", "region0 memory_controller");
}

Test(machine, iwarp_has_no_buffers_that_persist)
{
	region(REGION0, "cpu_cache", "0");
	rnic(true, false, "0");
	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_WSP;
	look(NULL);
	expect_text(VERBS "commit", "write");
	expect_text(VERBS "immediate", "write: it comes with the data");
	again();
	offers.iwarp = true;
	look(NULL);
	expect_text(VERBS "commit", "read");
}

Test(machine, without_an_agent_commits_are_refused)
{
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	pmv_setting.agent = PMV_AGENT_OFF;
	look(NULL);
	expect_text(VERBS "commit", "refused");
	expect_in(VERBS "commit_why", "the agent is switched off");
	expect_in(VERBS "chains", "refused: the agent is switched off");
	cr_expect(find("warnings", "Commits are refused"));
	cr_expect_not(info_loses_data(model), "they fail, and say so");
}

Test(machine, where_every_call_commits_there_are_no_chains)
{
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	pmv_setting.commit_all = true;
	look(NULL);
	expect_text(VERBS "commit", "agent");
	expect_in(VERBS "chains", "FI_PMEMVERBS_COMMIT");
}

Test(machine, a_path_without_order_needs_the_agent)
{
	region(REGION0, "cpu_cache", "0");
	rnic(true, true, "0");
	pmv_setting.relaxed = true;
	look(NULL);
	expect_text(VERBS "commit", "agent");
	expect_text(VERBS "send", "refused");
	expect_in(VERBS "send_why", "FI_PMEMVERBS_ORDERING");
	expect_in(VERBS "chains", "refused: writes may be placed out of order");
	cr_expect(find(VERBS "faster", "unset FI_PMEMVERBS_ORDERING"));
	/* It has been declared. */
	cr_expect_null(find("warnings", "relax the order"));
}
