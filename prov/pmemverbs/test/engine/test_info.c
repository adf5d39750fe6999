/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info.c -- between what an application asks for and what the core offers */
#include "test_info.h"

/* To the core */

Test(strip, takes_away_what_the_core_does_not_know)
{
	static const uint64_t caps = FI_MSG | FI_RMA | FI_SOURCE;
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

Test(from_core, offers_events_to_who_asks_for_them)
{
	for (int way = 0; way < 3; way++) {
		struct fi_info *hints = new_hints(FI_RMA | (way == 1 ? FI_RMA_EVENT : 0));
		struct fi_info *info;
		uint64_t events = way ? FI_RMA_EVENT : 0;

		hints->rx_attr->caps = way == 2 ? FI_RMA | FI_RMA_EVENT : 0;
		info = offered_for(hints);
		cr_expect_eq(info->caps & FI_RMA_EVENT, events);
		cr_expect_eq(info->tx_attr->caps & FI_RMA_EVENT, 0);
		cr_expect_eq(info->rx_attr->caps & FI_RMA_EVENT, events);
		cr_expect_eq(info->caps & FI_PMEM, 0);
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
