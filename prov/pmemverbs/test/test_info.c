/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info.c -- between what an application asks for and what the core offers */
#include <criterion/criterion.h>
#include <string.h>

#include <rdma/fi_endpoint.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "objects/domain.h"
#include "objects/unwrap.h"
#include "engine/info.h"
#include "base/log.h"
#include "base/setting.h"
#include "rdm/rdm_atomic.h"

#define OWN (FI_PMEM | FI_FENCE)

static const struct pmv_core core = {.name = "fake"};

static struct fi_info *new_info(void)
{
	struct fi_info *info = fi_allocinfo();

	cr_assert_not_null(info);
	return info;
}

/* Hints of an application that wants durable writes. */
static struct fi_info *new_hints(uint64_t caps)
{
	struct fi_info *info = new_info();

	info->caps = caps;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_LOCAL;
	return info;
}

/* What a core offers: everything, and some of its own. */
static struct fi_info *new_offer(void)
{
	struct fi_info *info = new_info();

	info->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_TAGGED | FI_READ | FI_WRITE | FI_SEND |
		     FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
	info->tx_attr->caps =
		FI_MSG | FI_RMA | FI_ATOMIC | FI_TAGGED | FI_READ | FI_WRITE | FI_SEND;
	info->rx_attr->caps =
		FI_MSG | FI_RMA | FI_TAGGED | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
	info->tx_attr->size = 400;
	info->rx_attr->size = 300;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	info->domain_attr->mr_key_size = 4;
	info->domain_attr->threading = FI_THREAD_SAFE;
	return info;
}

/* To the core */

Test(strip, takes_away_what_the_core_does_not_know)
{
	static const uint64_t caps = FI_MSG | FI_RMA | FI_RMA_EVENT | FI_SOURCE;
	static const uint64_t op_flags = FI_COMPLETION | FI_INJECT;
	struct fi_info *info = new_info();

	info->caps = caps | OWN;
	info->tx_attr->caps = caps | OWN;
	info->rx_attr->caps = caps | OWN;
	info->domain_attr->caps = FI_LOCAL_COMM | OWN;
	info->tx_attr->op_flags = op_flags | FI_COMMIT;
	pmv_info_strip(info);
	cr_expect_eq(info->caps, caps);
	cr_expect_eq(info->tx_attr->caps, caps);
	cr_expect_eq(info->rx_attr->caps, caps);
	cr_expect_eq(info->domain_attr->caps, FI_LOCAL_COMM);
	cr_expect_eq(info->tx_attr->op_flags, op_flags);
	fi_freeinfo(info);
}

Test(strip, leaves_what_has_nothing_to_do_with_persistence)
{
	struct fi_info *info = new_info();

	info->caps = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
	info->tx_attr->caps = FI_RMA | FI_WRITE;
	info->rx_attr->caps = FI_RMA | FI_REMOTE_WRITE;
	info->tx_attr->size = 100;
	info->rx_attr->size = 50;
	pmv_info_strip(info);
	cr_expect_eq(info->caps, FI_RMA | FI_WRITE | FI_REMOTE_WRITE);
	cr_expect_eq(info->tx_attr->caps, FI_RMA | FI_WRITE);
	cr_expect_eq(info->rx_attr->caps, FI_RMA | FI_REMOTE_WRITE);
	cr_expect_eq(info->tx_attr->size, 100);
	cr_expect_eq(info->rx_attr->size, 50);
	fi_freeinfo(info);
}

/* A flush is a READ: whoever may write has to be able to read. */
Test(strip, asks_for_reads_where_there_are_writes_to_flush)
{
	struct fi_info *info = new_info();

	info->caps = FI_RMA | FI_PMEM | FI_WRITE;
	info->tx_attr->caps = FI_RMA | FI_WRITE;
	pmv_info_strip(info);
	cr_expect_eq(info->caps, FI_RMA | FI_WRITE | FI_READ);
	cr_expect_eq(info->tx_attr->caps, FI_RMA | FI_WRITE | FI_READ);
	cr_expect_eq(info->rx_attr->caps, 0);
	fi_freeinfo(info);

	info = new_info();
	info->caps = FI_RMA | FI_PMEM | FI_REMOTE_WRITE;
	info->rx_attr->caps = FI_RMA | FI_REMOTE_WRITE;
	pmv_info_strip(info);
	cr_expect_eq(info->caps, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_READ);
	cr_expect_eq(info->rx_attr->caps, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_READ);
	cr_expect_eq(info->tx_attr->caps, 0);
	fi_freeinfo(info);

	info = new_info();
	info->caps = FI_RMA | FI_PMEM;
	pmv_info_strip(info);
	cr_expect_eq(info->caps, FI_RMA, "all directions are asked for by none");
	fi_freeinfo(info);
}

Test(strip, makes_room_for_all_parts_of_a_commit_however_it_is_asked_for)
{
	for (int way = 0; way < 5; way++) {
		struct fi_info *info = new_info();

		info->tx_attr->size = 100;
		info->rx_attr->size = 50;
		if (way == 0)
			info->caps = FI_RMA | FI_PMEM;
		else if (way == 1)
			info->tx_attr->caps = FI_RMA | FI_PMEM;
		else if (way == 2)
			info->rx_attr->caps = FI_RMA | FI_PMEM;
		else if (way == 3)
			info->tx_attr->op_flags = FI_COMMIT;
		cr_expect_eq(pmv_info_is_pmem(info), way < 4);
		pmv_info_strip(info);
		cr_expect_eq(info->tx_attr->size, way < 4 ? 100 * PMV_INFO_MAX_REQUESTS : 100,
			     "way %d", way);
		cr_expect_eq(info->rx_attr->size, 50);
		fi_freeinfo(info);
	}
}

Test(strip, asks_for_a_thread_safe_core_where_only_objects_are_serialized)
{
	static const struct {
		enum fi_threading asked;
		enum fi_threading core;
	} cases[] = {
		{FI_THREAD_UNSPEC, FI_THREAD_UNSPEC},
		{FI_THREAD_SAFE, FI_THREAD_SAFE},
		{FI_THREAD_FID, FI_THREAD_SAFE},
		{FI_THREAD_ENDPOINT, FI_THREAD_SAFE},
		{FI_THREAD_COMPLETION, FI_THREAD_COMPLETION},
		{FI_THREAD_DOMAIN, FI_THREAD_DOMAIN},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fi_info *info = new_info();

		info->domain_attr->threading = cases[i].asked;
		pmv_info_strip(info);
		cr_expect_eq(info->domain_attr->threading, cases[i].core, "%d", cases[i].asked);
		fi_freeinfo(info);
	}
}

Test(to_core, is_a_copy_in_the_cores_name)
{
	struct fi_info *info = new_hints(FI_RMA | FI_PMEM);
	struct fi_info *copy;

	info->fabric_attr->prov_name = strdup(PMV_NAME);
	info->fabric_attr->prov_version = FI_VERSION(0, 1);
	info->fabric_attr->api_version = FI_VERSION(1, 9);
	info->fabric_attr->name = strdup("10.0.0.0/8");
	info->domain_attr->name = strdup("rnic0");
	info->tx_attr->size = 100;
	copy = pmv_info_to_core(&core, info);
	cr_assert_not_null(copy);
	cr_expect_str_eq(copy->fabric_attr->prov_name, "fake");
	cr_expect_str_eq(copy->fabric_attr->name, "10.0.0.0/8");
	cr_expect_str_eq(copy->domain_attr->name, "rnic0");
	cr_expect_eq(copy->fabric_attr->prov_version, 0);
	cr_expect_eq(copy->fabric_attr->api_version, FI_VERSION(1, 9));
	cr_expect_eq(copy->caps, FI_RMA);
	/* What the application holds has not changed. */
	cr_expect_str_eq(info->fabric_attr->prov_name, PMV_NAME);
	cr_expect_eq(info->caps, FI_RMA | FI_PMEM);
	cr_expect_eq(info->tx_attr->size, 100);
	fi_freeinfo(copy);
	fi_freeinfo(info);
}

Test(to_core, never_asks_for_a_newer_api_than_is_known_here)
{
	struct fi_info *info = new_hints(FI_RMA);
	struct fi_info *copy;

	info->fabric_attr->api_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION + 3);
	copy = pmv_info_to_core(&core, info);
	cr_assert_not_null(copy);
	cr_expect_eq(copy->fabric_attr->api_version,
		     FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));
	fi_freeinfo(copy);
	fi_freeinfo(info);
}

Test(to_core, shows_the_core_its_own_objects)
{
	struct fid_fabric core_fabric;
	struct fid_domain core_domain;
	struct pmv_fabric fabric = {.core_fid = &core_fabric};
	struct pmv_domain domain = {.engine.domain_fid = &core_domain};
	struct fid core_handle = {.fclass = FI_CLASS_CONNREQ};
	struct fi_info *info = new_hints(FI_RMA);
	struct fi_info *copy;

	info->fabric_attr->fabric = &fabric.fabric_fid;
	info->domain_attr->domain = &domain.domain_fid;
	info->handle = &core_handle;
	copy = pmv_unwrap_info(&core, info);
	cr_assert_not_null(copy);
	cr_expect_eq(copy->fabric_attr->fabric, &core_fabric);
	cr_expect_eq(copy->domain_attr->domain, &core_domain);
	cr_expect_eq(copy->handle, &core_handle);
	fi_freeinfo(copy);
	fi_freeinfo(info);
}

Test(complete, has_all_attributes_whatever_there_was)
{
	struct fi_info empty = {.caps = FI_RMA};
	struct fi_tx_attr tx_attr = {.size = 7};
	struct fi_info some = {.caps = FI_MSG, .tx_attr = &tx_attr, .next = &empty};
	const struct fi_info *const infos[] = {NULL, &empty, &some};

	for (size_t i = 0; i < 3; i++) {
		struct fi_info *copy = pmv_info_complete(infos[i]);

		cr_assert_not_null(copy);
		cr_expect_not_null(copy->tx_attr);
		cr_expect_not_null(copy->rx_attr);
		cr_expect_not_null(copy->ep_attr);
		cr_expect_not_null(copy->domain_attr);
		cr_expect_not_null(copy->fabric_attr);
		cr_expect_null(copy->next);
		cr_expect_eq(copy->caps, infos[i] ? infos[i]->caps : 0);
		cr_expect_eq(copy->tx_attr->size, i == 2 ? 7 : 0);
		fi_freeinfo(copy);
	}
}

/* From the core */

static struct fi_info *offered_for(const struct fi_info *hints)
{
	struct fi_info *info = new_offer();

	pmv_info_from_core(info, hints);
	return info;
}

Test(from_core, offers_persistence_to_who_asks_for_it_or_for_anything)
{
	static const struct {
		uint64_t asked;
		bool offered;
	} cases[] = {
		{0, true},
		{FI_RMA | FI_PMEM, true},
		{FI_RMA, false},
		{FI_MSG, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fi_info *hints = new_hints(cases[i].asked);
		struct fi_info *info = offered_for(hints);
		uint64_t pmem = cases[i].offered ? FI_PMEM : 0;

		cr_expect_eq(info->caps & FI_PMEM, pmem, "case %zu", i);
		cr_expect_eq(info->tx_attr->caps & FI_PMEM, pmem, "case %zu", i);
		cr_expect_eq(info->rx_attr->caps & FI_PMEM, pmem, "case %zu", i);
		cr_expect_eq(info->tx_attr->size, pmem ? 400 / PMV_INFO_MAX_REQUESTS : 400,
			     "case %zu", i);
		cr_expect_eq(info->rx_attr->size, 300);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

Test(from_core, offers_no_persistence_where_the_core_has_no_rma)
{
	struct fi_info *hints = new_hints(0);
	struct fi_info *info = new_offer();

	info->caps &= ~FI_RMA;
	info->tx_attr->caps &= ~FI_RMA;
	info->rx_attr->caps &= ~FI_RMA;
	pmv_info_from_core(info, hints);
	cr_expect(!((info->caps | info->tx_attr->caps | info->rx_attr->caps) & FI_PMEM));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

Test(from_core, always_offers_a_fence_to_what_is_sent)
{
	struct fi_info *hints = new_hints(FI_MSG);
	struct fi_info *info = offered_for(hints);

	cr_expect(info->caps & FI_FENCE);
	cr_expect(info->tx_attr->caps & FI_FENCE);
	cr_expect(!(info->rx_attr->caps & FI_FENCE));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

Test(from_core, hides_tagged_messages)
{
	struct fi_info *hints = new_hints(0);
	struct fi_info *info = offered_for(hints);

	cr_expect(!((info->caps | info->tx_attr->caps | info->rx_attr->caps) & FI_TAGGED));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* The READs of flushes are not the application's. */
Test(from_core, hides_directions_that_only_flushes_need)
{
	static const uint64_t directions = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	static const struct {
		uint64_t asked;
		uint64_t hidden;
	} cases[] = {
		{FI_RMA | FI_PMEM, 0},
		{FI_RMA | FI_PMEM | FI_WRITE, FI_READ | FI_REMOTE_READ},
		{FI_RMA | FI_PMEM | FI_REMOTE_WRITE, FI_READ | FI_REMOTE_READ},
		{FI_RMA | FI_PMEM | FI_WRITE | FI_READ, FI_REMOTE_READ},
		{FI_RMA | FI_PMEM | FI_WRITE | FI_READ | FI_REMOTE_READ | FI_REMOTE_WRITE, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fi_info *hints = new_hints(cases[i].asked);
		struct fi_info *info = offered_for(hints);

		cr_expect_eq(info->caps & directions, directions & ~cases[i].hidden, "case %zu", i);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

Test(from_core, makes_keys_the_providers_where_the_application_allows_it)
{
	static const struct {
		const char *what;
		int core;
		int allowed;
		int mr_mode;
		size_t key_size;
	} cases[] = {
		{"verbs", FI_MR_PROV_KEY | FI_MR_LOCAL, FI_MR_PROV_KEY | FI_MR_LOCAL,
		 FI_MR_PROV_KEY | FI_MR_LOCAL, 8},
		{"tcp, allowed", 0, FI_MR_PROV_KEY, FI_MR_PROV_KEY, 8},
		{"tcp, allowed with others", FI_MR_ALLOCATED, FI_MR_PROV_KEY | FI_MR_ALLOCATED,
		 FI_MR_PROV_KEY | FI_MR_ALLOCATED, 8},
		{"tcp, not allowed", 0, 0, 0, 4},
		{"basic", PMV_MR_BASIC, PMV_MR_BASIC, PMV_MR_BASIC, 8},
		{"scalable", PMV_MR_SCALABLE, PMV_MR_SCALABLE, PMV_MR_SCALABLE, 4},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fi_info *hints = new_hints(FI_RMA);
		struct fi_info *info = new_offer();

		hints->domain_attr->mr_mode = cases[i].allowed;
		info->domain_attr->mr_mode = cases[i].core;
		pmv_info_from_core(info, hints);
		cr_expect_eq(info->domain_attr->mr_mode, cases[i].mr_mode, "%s: %#x", cases[i].what,
			     info->domain_attr->mr_mode);
		cr_expect_eq(info->domain_attr->mr_key_size, cases[i].key_size, "%s",
			     cases[i].what);
		cr_expect_eq(pmv_info_is_keyed(info->domain_attr->mr_mode), cases[i].key_size == 8);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

Test(from_core, answers_with_the_threading_that_was_asked_for)
{
	static const enum fi_threading asked[] = {FI_THREAD_UNSPEC, FI_THREAD_FID, FI_THREAD_DOMAIN,
						  FI_THREAD_SAFE};

	for (size_t i = 0; i < 4; i++) {
		struct fi_info *hints = new_hints(FI_RMA);
		struct fi_info *info;

		hints->domain_attr->threading = asked[i];
		info = offered_for(hints);
		cr_expect_eq(info->domain_attr->threading, i ? asked[i] : FI_THREAD_SAFE);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

Test(from_core, commits_by_default_only_if_that_was_asked_for)
{
	for (int asked = 0; asked < 2; asked++) {
		struct fi_info *hints = new_hints(FI_RMA | FI_PMEM);
		struct fi_info *info = new_offer();

		/* Some cores have it among their own defaults. */
		info->tx_attr->op_flags = FI_COMPLETION | FI_COMMIT;
		hints->tx_attr->op_flags = asked ? FI_COMMIT : 0;
		pmv_info_from_core(info, hints);
		cr_expect_eq(info->tx_attr->op_flags, FI_COMPLETION | (asked ? FI_COMMIT : 0));
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

Test(from_core, takes_hints_without_attributes)
{
	struct fi_info hints = {.caps = FI_RMA | FI_PMEM};
	struct fi_info *info = new_offer();

	pmv_info_from_core(info, &hints);
	cr_expect(info->caps & FI_PMEM);
	cr_expect_eq(info->domain_attr->mr_key_size, 8);
	fi_freeinfo(info);
}

Test(from_core, shows_none_of_the_cores_objects)
{
	struct fid_fabric core_fabric;
	struct fid_domain core_domain;
	struct fi_info *hints = new_hints(FI_RMA);
	struct fi_info *info = new_offer();

	info->fabric_attr->fabric = &core_fabric;
	info->domain_attr->domain = &core_domain;
	pmv_info_from_core(info, hints);
	cr_expect_null(info->fabric_attr->fabric);
	cr_expect_null(info->domain_attr->domain);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* FI_EP_RDM: what RxM says of our own endpoints */

Test(rxm, is_not_shown_what_it_does_not_know)
{
	struct fi_info *info = new_info();

	info->caps = FI_RMA | FI_TAGGED | FI_WRITE | FI_REMOTE_WRITE | OWN;
	info->tx_attr->caps = FI_RMA | FI_WRITE | OWN;
	info->tx_attr->size = 100;
	info->tx_attr->op_flags = FI_COMPLETION | FI_COMMIT;
	info->domain_attr->threading = FI_THREAD_FID;
	pmv_info_strip_own(info);
	cr_expect_eq(info->caps,
		     FI_RMA | FI_TAGGED | FI_WRITE | FI_REMOTE_WRITE | FI_READ | FI_REMOTE_READ);
	cr_expect_eq(info->tx_attr->caps, FI_RMA | FI_WRITE | FI_READ);
	cr_expect_eq(info->tx_attr->op_flags, FI_COMPLETION);
	/* What it asks of us is asked of the core with room for commits. */
	cr_expect_eq(info->tx_attr->size, 100);
	cr_expect_eq(info->domain_attr->threading, FI_THREAD_FID);
	fi_freeinfo(info);
}

Test(rxm, gets_the_capability_but_no_fence)
{
	static const uint64_t asked[] = {FI_RMA | FI_PMEM, FI_RMA, 0};

	for (size_t i = 0; i < 3; i++) {
		struct fi_info *hints = new_hints(asked[i]);
		struct fi_info *info = new_offer();

		hints->tx_attr->op_flags = i ? 0 : FI_COMMIT;
		info->domain_attr->mr_key_size = 8;
		pmv_info_from_layer(info, hints);
		/* Without any hints everything is offered. */
		cr_expect_eq(!!(info->caps & FI_PMEM), i != 1);
		cr_expect_eq(!!(info->tx_attr->caps & FI_PMEM), i != 1);
		cr_expect_eq(!!(info->rx_attr->caps & FI_PMEM), i != 1);
		cr_expect_eq(info->tx_attr->op_flags & FI_COMMIT, i ? 0 : FI_COMMIT);
		cr_expect(!(info->caps & FI_FENCE));
		cr_expect(info->caps & FI_TAGGED);
		cr_expect_eq(info->tx_attr->size, 400, "its own queue");
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

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

/* The target's processor executes them: what leaves them in its caches must not be durable there.
 */
Test(rxm, may_execute_committed_atomics_where_caches_persist)
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
Test(rxm, has_the_agent_commit_atomics_where_caches_do_not_persist)
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

/* And back */

/* A core that grants what it is asked for, or has so much if it is asked for nothing. */
static struct fi_info *grant(const struct fi_info *hints, size_t most)
{
	struct fi_info *stripped = pmv_info_to_core(&core, hints);
	struct fi_info *info = new_offer();

	cr_assert_not_null(stripped);
	info->tx_attr->size = stripped->tx_attr->size ? stripped->tx_attr->size : most;
	fi_freeinfo(stripped);
	pmv_info_from_core(info, hints);
	return info;
}

Test(round_trip, grants_the_queue_that_was_asked_for)
{
	struct fi_info *hints = new_hints(FI_RMA | FI_PMEM);
	struct fi_info *info;

	hints->tx_attr->size = 77;
	info = grant(hints, 0);
	cr_expect_eq(info->tx_attr->size, 77);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* fi_endpoint with what fi_getinfo returned must not ask for more than the core has. */
Test(round_trip, never_asks_for_a_longer_queue_than_was_offered)
{
	static const uint64_t asked[] = {0, FI_RMA, FI_RMA | FI_PMEM, FI_RMA | FI_PMEM | FI_WRITE};

	for (size_t i = 0; i < 4; i++) {
		for (size_t most = PMV_INFO_MAX_REQUESTS; most < 1030; most++) {
			struct fi_info *hints = new_hints(asked[i]);
			struct fi_info *info = grant(hints, most);
			struct fi_info *again = pmv_info_to_core(&core, info);

			cr_assert_not_null(again);
			cr_assert_leq(again->tx_attr->size, most, "%zu of %zu",
				      again->tx_attr->size, most);
			cr_assert_gt(info->tx_attr->size, 0, "no queue at all of %zu", most);
			fi_freeinfo(again);
			fi_freeinfo(info);
			fi_freeinfo(hints);
		}
	}
}

Test(round_trip, asks_the_core_for_reads_although_they_were_hidden)
{
	struct fi_info *hints = new_hints(FI_RMA | FI_PMEM | FI_WRITE);
	struct fi_info *info = grant(hints, 400);
	struct fi_info *again;

	cr_expect(!(info->caps & FI_READ));
	again = pmv_info_to_core(&core, info);
	cr_assert_not_null(again);
	cr_expect(again->caps & FI_READ);
	cr_expect(again->tx_attr->caps & FI_READ);
	fi_freeinfo(again);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}
