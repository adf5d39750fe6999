/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info_layer.c -- info.c: a layer between the application and this provider, and the way down
 * and up */
#include "test/engine/test_info.h"

/* A layer: RxM, and what it says of our own endpoints */

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

/* It has to follow each operation to its end, which is for those who ask for it. */
Test(rxm, fences_for_whom_asks_for_it)
{
	for (int by_tx_attr = 0; by_tx_attr < 2; by_tx_attr++) {
		struct fi_info *hints = new_hints(FI_RMA | (by_tx_attr ? 0 : FI_FENCE));
		struct fi_info *info = new_offer();

		hints->tx_attr->caps = by_tx_attr ? FI_RMA | FI_FENCE : 0;
		cr_expect(pmv_info_has_fence(hints));
		pmv_info_from_layer(info, hints);
		cr_expect(info->caps & FI_FENCE);
		cr_expect(info->tx_attr->caps & FI_FENCE);
		cr_expect(!(info->rx_attr->caps & FI_FENCE));
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

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
