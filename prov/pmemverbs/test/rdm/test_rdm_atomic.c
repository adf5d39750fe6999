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

static enum pmv_rdm_atomic_way way(uint64_t key, uint64_t flags)
{
	const char *why = NULL;
	enum pmv_rdm_atomic_way answer = pmv_rdm_atomic_way(key, flags, &why);

	cr_expect_eq(!!why, answer == PMV_RDM_ATOMIC_REFUSED);
	return answer;
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
		uint64_t relaxed = key_for(persist, persist != PMV_NONE, true);
		bool commits = safe[persist];

		pmv_setting.commit_all = false;
		cr_expect_eq(way(key, FI_COMMIT),
			     commits ? PMV_RDM_ATOMIC_COMMITS : PMV_RDM_ATOMIC_REFUSED);
		cr_expect_eq(way(key, 0), PMV_RDM_ATOMIC_PLAIN);
		cr_expect_eq(way(key, FI_FENCE), PMV_RDM_ATOMIC_PLAIN, "nothing was promised");
		cr_expect_eq(way(key, FI_COMMIT | FI_FENCE), PMV_RDM_ATOMIC_REFUSED);
		cr_expect_eq(way(relaxed, FI_COMMIT), PMV_RDM_ATOMIC_REFUSED);
		pmv_setting.commit_all = true;
		cr_expect_eq(way(key, FI_COMMIT),
			     commits ? PMV_RDM_ATOMIC_COMMITS : PMV_RDM_ATOMIC_DEFERRED);
		cr_expect_eq(way(key_for(persist, false, false), 0), PMV_RDM_ATOMIC_PLAIN,
			     "it is volatile");
		cr_expect_eq(way(key_for(persist, true, true), 0), PMV_RDM_ATOMIC_REFUSED);
	}
	cr_expect_eq(way(42, 0), PMV_RDM_ATOMIC_PLAIN);
	cr_expect_eq(way(42, FI_COMMIT), PMV_RDM_ATOMIC_REFUSED);
}

/* Elsewhere the agent makes them durable behind RxM, but only one by one and in order. */
Test(rdm_atomic, waits_for_the_agent_where_caches_do_not_persist)
{
	for (enum pmv_persist persist = PMV_NONE; persist <= PMV_WSP; persist++) {
		uint64_t key = key_for(persist, persist != PMV_NONE, false);
		bool deferred = persist == PMV_DMP || persist == PMV_PAGE;

		pmv_setting.commit_all = false;
		cr_expect_neq(way(key, FI_COMMIT), PMV_RDM_ATOMIC_DEFERRED);
		pmv_setting.commit_all = true;
		cr_expect_eq(way(key, 0) == PMV_RDM_ATOMIC_DEFERRED, deferred);
		cr_expect_eq(way(key, 0) == PMV_RDM_ATOMIC_COMMITS,
			     !deferred && persist != PMV_NONE);
		cr_expect_eq(way(key, FI_FENCE) == PMV_RDM_ATOMIC_REFUSED, persist != PMV_NONE);
		cr_expect_eq(way(key_for(persist, false, false), FI_COMMIT) ==
				     PMV_RDM_ATOMIC_REFUSED,
			     deferred, "the agent knows nothing of it");
	}
	pmv_setting.relaxed = true;
	cr_expect_eq(way(key_for(PMV_DMP, true, false), 0), PMV_RDM_ATOMIC_REFUSED);
}
