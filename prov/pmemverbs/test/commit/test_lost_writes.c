/* SPDX-License-Identifier: BSD-2-Clause */
/* test_lost_writes.c -- which writes are tracked, and what a lost connection does to commits */
#include <string.h>

#include <criterion/criterion.h>

#include "commit/lost_writes.h"

static struct pmv_lost_writes_list list;
static struct pmv_lost_writes *tracker;

static void setup(void)
{
	pmv_lost_writes_list_init(&list);
	tracker = pmv_lost_writes_list_get(&list, "a", 1);
}

static void teardown(void)
{
	pmv_lost_writes_list_destroy(&list);
}

TestSuite(lost_writes, .init = setup, .fini = teardown);

static bool may_commit(uint32_t key)
{
	return pmv_lost_writes_may_commit(tracker, &key, 1, false);
}

static void commit(uint32_t key)
{
	pmv_lost_writes_committed(tracker, key, pmv_lost_writes_number(tracker));
}

Test(lost_writes, has_lost_nothing_at_first)
{
	pmv_lost_writes_disconnected(tracker);
	cr_assert(may_commit(1));
	cr_assert(pmv_lost_writes_may_commit(tracker, NULL, 0, true));
}

Test(lost_writes, may_commit_while_the_connection_lasts)
{
	pmv_lost_writes_add(tracker, 1);
	cr_assert(may_commit(1));
}

Test(lost_writes, tells_once_what_was_lost)
{
	pmv_lost_writes_add(tracker, 1);
	pmv_lost_writes_disconnected(tracker);
	cr_assert_not(may_commit(1));
	cr_assert(may_commit(1));
	pmv_lost_writes_disconnected(tracker);
	cr_assert(may_commit(1), "it was told");
}

Test(lost_writes, tells_of_every_region_by_itself)
{
	const uint32_t keys[] = {1, 2};

	pmv_lost_writes_add(tracker, 1);
	pmv_lost_writes_add(tracker, 2);
	pmv_lost_writes_add(tracker, 3);
	pmv_lost_writes_disconnected(tracker);
	cr_assert(may_commit(4));
	cr_assert_not(pmv_lost_writes_may_commit(tracker, keys, 2, false));
	cr_assert(may_commit(1));
	cr_assert(may_commit(2), "both were told");
	cr_assert_not(may_commit(3));
}

Test(lost_writes, tells_a_fence_of_all)
{
	const uint32_t key = 4;

	pmv_lost_writes_add(tracker, 1);
	pmv_lost_writes_add(tracker, 2);
	pmv_lost_writes_disconnected(tracker);
	cr_assert_not(pmv_lost_writes_may_commit(tracker, &key, 1, true));
	cr_assert(may_commit(1));
	cr_assert(may_commit(2));
}

Test(lost_writes, forgets_what_is_committed)
{
	pmv_lost_writes_add(tracker, 1);
	pmv_lost_writes_add(tracker, 2);
	commit(1);
	pmv_lost_writes_disconnected(tracker);
	cr_assert(may_commit(1));
	cr_assert_not(may_commit(2));
}

Test(lost_writes, knows_what_a_commit_came_before)
{
	uint64_t first, second;

	pmv_lost_writes_add(tracker, 1);
	first = pmv_lost_writes_number(tracker);
	pmv_lost_writes_add(tracker, 1);
	second = pmv_lost_writes_number(tracker);
	/* They may complete in any order. */
	pmv_lost_writes_committed(tracker, 1, second);
	pmv_lost_writes_committed(tracker, 1, first);
	pmv_lost_writes_disconnected(tracker);
	cr_assert(may_commit(1));

	pmv_lost_writes_add(tracker, 1);
	first = pmv_lost_writes_number(tracker);
	pmv_lost_writes_add(tracker, 1);
	pmv_lost_writes_committed(tracker, 1, first);
	pmv_lost_writes_disconnected(tracker);
	cr_assert_not(may_commit(1));
}

Test(lost_writes, remembers_over_several_losses)
{
	pmv_lost_writes_add(tracker, 1);
	pmv_lost_writes_disconnected(tracker);
	/* On the next connection, but nothing of the one before. */
	pmv_lost_writes_add(tracker, 1);
	commit(1);
	pmv_lost_writes_disconnected(tracker);
	cr_assert_not(may_commit(1));
}

Test(lost_writes, is_told_from_others)
{
	struct pmv_lost_writes *other = pmv_lost_writes_list_get(&list, "b", 1);

	cr_assert_neq(other, tracker);
	cr_assert_neq(pmv_lost_writes_list_get(&list, "ab", 2), tracker);
	cr_assert_eq(pmv_lost_writes_list_get(&list, "a", 1), tracker);
	pmv_lost_writes_add(other, 1);
	pmv_lost_writes_disconnected(other);
	cr_assert(may_commit(1));
}

/* Peers without a tracker of their own can't be told apart: nothing is promised to them. */
Test(lost_writes, that_is_not_known_never_commits)
{
	static const char addr[PMV_LOST_WRITES_ADDR_SIZE + 1] = "long";
	struct pmv_lost_writes *known = tracker;

	tracker = pmv_lost_writes_list_get(&list, addr, sizeof(addr));
	cr_assert_not(may_commit(1));
	cr_assert_not(may_commit(1));
	tracker = pmv_lost_writes_list_get(&list, "new", 3);
	cr_assert_not(may_commit(1), "it may have been there before");
	tracker = known;
	cr_assert(may_commit(1));
	cr_assert_eq(pmv_lost_writes_list_get(&list, "a", 1), known);
}

/* Programs that register memory just before they use it have new keys all the time. */
Test(lost_writes, forgets_regions_that_are_committed)
{
	pmv_lost_writes_add(tracker, 1);
	pmv_lost_writes_disconnected(tracker);
	pmv_lost_writes_add(tracker, 2);
	for (uint32_t key = 3; key < 2 * PMV_LOST_WRITES_REGIONS; key++) {
		pmv_lost_writes_add(tracker, key);
		commit(key);
		cr_assert_lt(tracker->num_regions, 2048);
	}
	cr_expect_not(may_commit(1), "what was lost is not forgotten");
	cr_expect(may_commit(3));
	pmv_lost_writes_disconnected(tracker);
	cr_expect_not(may_commit(2), "nor what nothing has committed");
	cr_expect(may_commit(3));
}

Test(lost_writes, with_more_regions_than_it_remembers_proves_nothing_after_a_loss)
{
	for (uint32_t key = 0; key <= PMV_LOST_WRITES_REGIONS; key++)
		pmv_lost_writes_add(tracker, key);
	cr_expect_eq(tracker->num_regions, PMV_LOST_WRITES_REGIONS);
	cr_expect(may_commit(PMV_LOST_WRITES_REGIONS));
	pmv_lost_writes_disconnected(tracker);
	cr_expect_not(may_commit(PMV_LOST_WRITES_REGIONS));
	cr_expect_not(may_commit(PMV_LOST_WRITES_REGIONS));
}

Test(lost_writes, is_asked_without_being_told)
{
	const uint32_t key = 1;

	cr_expect_not(pmv_lost_writes_has_lost(tracker, &key, 1));
	pmv_lost_writes_add(tracker, key);
	pmv_lost_writes_disconnected(tracker);
	cr_expect(pmv_lost_writes_has_lost(tracker, &key, 1));
	cr_expect(pmv_lost_writes_has_lost(tracker, &key, 1));
	cr_expect_not(may_commit(key));
	cr_expect_not(pmv_lost_writes_has_lost(tracker, &key, 1));
}
