/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info_advice.c -- set-ups that lose data, which fi_pmem_info warns of */
#include "machine.h"

Test(machine, ddio_declared_off_but_on_is_data_loss)
{
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	pmv_setting.core = "verbs";
	pmv_setting.ddio_declared = true;
	pmv_setting.ddio = false;
	look(NULL);
	cr_expect(find("warnings", "DDIO is on for mlx5_0"));
	cr_expect(info_loses_data(model));
	/* Where the caches persist it does not matter. */
	again();
	put(REGION0, "persistence_domain", "cpu_cache");
	look(NULL);
	expect_text("memory/0/domain", "mhp");
	cr_expect_not(info_loses_data(model));
}

/* A request that Soft-RoCE repeats waits for itself, if it is fenced. */
Test(machine, soft_roce_fences_nothing)
{
	const struct pmv_core *verbs = pmv_core_next(0);

	rnic(true, false, "0");
	soft_rnic();
	cr_assert_str_eq(verbs->name, "verbs");
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_IB, MLX5), PMV_ENGINE_FENCE);
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_IB, "gone"), PMV_ENGINE_FENCE);
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_IB, "rxe0"), 0);
	/* Soft-iWARP does, and a target may answer a READ later than it executes what follows. */
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_LOCAL, "rxe0"), PMV_ENGINE_FENCE);
	pmv_setting.nic_fences = true;
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_IB, "rxe0"), PMV_ENGINE_FENCE);
}

Test(machine, ddio_declared_off_where_software_places_data_is_data_loss)
{
	region(REGION0, "memory_controller", "0");
	soft_rnic();
	pmv_setting.core = "verbs";
	pmv_setting.ddio_declared = true;
	pmv_setting.ddio = false;
	look(NULL);
	expect_text("devices/0/kind", "software RDMA");
	cr_expect(find("warnings", "through rxe0 software places data"));
	cr_expect(info_loses_data(model));
}

/* A peer without RDMA may come over tcp. */
Test(machine, ddio_declared_off_does_not_hold_for_tcp)
{
	region(REGION0, "memory_controller", "0");
	rnic(false, false, "0");
	pmv_setting.ddio_declared = true;
	pmv_setting.ddio = false;
	look(NULL);
	cr_expect(find("warnings", "through tcp software places data"));
	cr_expect(info_loses_data(model));
}

Test(machine, a_declaration_beyond_what_is_found_is_data_loss)
{
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_MHP;
	look(NULL);
	expect_text("memory/0/domain", "mhp");
	expect_text("memory/0/declared", "true");
	expect_in("memory/0/what", "memory_controller");
	cr_expect(find("warnings", "FI_PMEMVERBS_DOMAIN=mhp"));
	cr_expect(info_loses_data(model));
	/* Less than was found is slower, and safe. */
	again();
	pmv_setting.domain = PMV_DMP;
	look(NULL);
	cr_expect_not(info_loses_data(model));
}

Test(machine, a_provider_that_is_not_found_is_data_loss)
{
	look(NULL);
	cr_expect_not(info_loses_data(model));
	json_object_put(model);
	info->found = false;
	model = info_model(info);
	cr_expect(find("warnings", "FI_PROVIDER_PATH"));
	cr_expect(info_loses_data(model));
}

Test(machine, a_wrong_setting_is_data_loss)
{
	pmv_setting.bad = "FI_PMEMVERBS_COMIT is not a setting";
	look(NULL);
	cr_expect(find("warnings", "COMIT"));
	cr_expect(info_loses_data(model));
}
