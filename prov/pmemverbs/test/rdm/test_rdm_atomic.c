/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdm_atomic.c -- which atomics of FI_EP_RDM are durable, and which have to wait for the agent
 */
#include <criterion/criterion.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "base/setting.h"
#include "memory/key.h"
#include "rdm/rdm_atomic.h"

static uint64_t key_for(enum pmv_persist persist, bool pmem, bool relaxed)
{
	return pmv_key_pack(1, &(struct pmv_attr){
				       .persist = persist,
				       .pmem = pmem,
				       .relaxed = relaxed,
				       .readable = true,
				       .writable = true,
			       });
}

/* The target's processor executes them, and leaves them in its caches. */
Test(rdm_atomic, is_committed_where_caches_persist)
{
	static const bool safe[] = {
		[PMV_NONE] = true, [PMV_PAGE] = false, [PMV_DMP] = false,
		[PMV_MHP] = true,  [PMV_WSP] = true,
	};

	for (enum pmv_persist persist = PMV_NONE; persist <= PMV_WSP; persist++) {
		uint64_t key = key_for(persist, persist != PMV_NONE, false);

		pmv_setting.commit_all = false;
		cr_expect_eq(!pmv_rdm_atomic_check(key, FI_COMMIT), safe[persist]);
		cr_expect_null(pmv_rdm_atomic_check(key, 0));
		cr_expect_null(pmv_rdm_atomic_check(key, FI_FENCE), "nothing was promised");
		cr_expect_not_null(pmv_rdm_atomic_check(key, FI_COMMIT | FI_FENCE));
		pmv_setting.commit_all = true;
		cr_expect_eq(!pmv_rdm_atomic_check(key, FI_COMMIT), safe[persist]);
		cr_expect_eq(!pmv_rdm_atomic_check(key, 0), safe[persist]);
		key = key_for(persist, false, false);
		cr_expect_null(pmv_rdm_atomic_check(key, 0), "it is volatile");
		key = key_for(persist, true, true);
		cr_expect_not_null(pmv_rdm_atomic_check(key, 0));
	}
	cr_expect_null(pmv_rdm_atomic_check(42, 0));
	cr_expect_not_null(pmv_rdm_atomic_check(42, FI_COMMIT));
}

/* Elsewhere the agent makes them durable behind RxM, but only one by one and in order. */
Test(rdm_atomic, waits_for_the_agent_where_caches_do_not_persist)
{
	for (enum pmv_persist persist = PMV_NONE; persist <= PMV_WSP; persist++) {
		uint64_t key = key_for(persist, persist != PMV_NONE, false);
		bool deferred = persist == PMV_DMP || persist == PMV_PAGE;

		pmv_setting.commit_all = false;
		cr_expect_not(pmv_rdm_atomic_is_deferred(key, FI_COMMIT));
		pmv_setting.commit_all = true;
		cr_expect_eq(pmv_rdm_atomic_is_deferred(key, 0), deferred);
		cr_expect_eq(pmv_rdm_atomic_is_deferred(key, FI_COMMIT), deferred);
		cr_expect_not(pmv_rdm_atomic_is_deferred(key, FI_FENCE));
		cr_expect_not(pmv_rdm_atomic_is_deferred(key_for(persist, false, false), 0));
		cr_expect_not(pmv_rdm_atomic_is_deferred(key_for(persist, true, true), 0));
	}
	cr_expect_not(pmv_rdm_atomic_is_deferred(42, 0));
}
