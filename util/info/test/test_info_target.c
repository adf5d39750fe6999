/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info_target.c -- what fi_pmem_info says of a target */
#include "machine.h"

#include <stdlib.h>

static struct info_answer answer;

static void set_answer(void)
{
	answer = (struct info_answer){
		.core = "verbs",
		.transport = PMV_TRANSPORT_IB,
		.count = PMV_STATUS_COUNTERS + sizeof(struct fi_pmemverbs_counters) / 8,
	};
	for (size_t i = PMV_STATUS_COUNTERS; i < answer.count; i++)
		answer.values[i] = 1000 + i - PMV_STATUS_COUNTERS;
}

Test(machine, a_target_has_regions_and_counters)
{
	char *screen;

	set_answer();
	answer.values[PMV_STATUS_REGIONS + PMV_DMP] = 3;
	answer.values[PMV_STATUS_REGIONS + PMV_MHP] = 1;
	answer.values[PMV_STATUS_DDIO] = 1;
	model = info_target("target.example", "7471", &answer);
	expect_text("target/address", "target.example:7471");
	expect_text("target/memory/0/domain", "dmp");
	expect_text("target/memory/0/regions", "3");
	expect_text("target/memory/0/answer/commit", "agent");
	expect_text("target/memory/1/answer/commit", "read");
	expect_text("target/counters/endpoints", "1000");
	expect_text("target/counters/wakes", "1016");
	screen = screen_of(model);
	squeeze(screen);
	expect_all_shown(screen, model);
	cr_expect(strstr(screen, "wakes1016"));
	free(screen);
}

/* One that knows fewer counters, and one that lies. */
Test(machine, a_target_is_not_trusted)
{
	set_answer();
	answer.count = PMV_STATUS_COUNTERS + 2;
	answer.values[PMV_STATUS_AGENT] = UINT64_MAX;
	answer.values[PMV_STATUS_DECLARED] = UINT64_MAX;
	model = info_target("target.example", "7471", &answer);
	expect_text("target/offers/agent", "unknown");
	expect_text("target/offers/domain", "unknown");
	cr_expect_eq(json_object_object_length(get("target/counters")), 2);
	json_object_put(model);
	answer.count = 0;
	model = info_target("target.example", "7471", &answer);
	cr_expect_eq(json_object_array_length(get("target/memory")), 0);
	json_object_put(model);
	answer.refused = true;
	model = info_target("target.example", "7471", &answer);
	expect_in("target/refused", "FI_PMEMVERBS_ANSWER=on");
	cr_expect_null(get("target/counters"));
}
