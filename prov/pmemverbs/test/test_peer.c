/* SPDX-License-Identifier: BSD-2-Clause */
/* test_peer.c -- what is remembered of a peer over the loss of a connection */
#include <string.h>

#include <criterion/criterion.h>

#include "commit/lost_writes.h"

static struct pmv_lost_writes_list peers;
static struct pmv_lost_writes *peer;

static void setup(void)
{
	pmv_lost_writes_list_init(&peers);
	peer = pmv_lost_writes_list_get(&peers, "a", 1);
}

static void teardown(void)
{
	pmv_lost_writes_list_destroy(&peers);
}

TestSuite(peer, .init = setup, .fini = teardown);

static bool may_commit(uint32_t key)
{
	return pmv_lost_writes_may_commit(peer, &key, 1, false);
}

static void commit(uint32_t key)
{
	pmv_lost_writes_committed(peer, key, pmv_lost_writes_writes(peer));
}

Test(peer, has_lost_nothing_at_first)
{
	pmv_lost_writes_lost(peer);
	cr_assert(may_commit(1));
	cr_assert(pmv_lost_writes_may_commit(peer, NULL, 0, true));
}

Test(peer, may_commit_while_the_connection_lasts)
{
	pmv_lost_writes_wrote(peer, 1);
	cr_assert(may_commit(1));
}

Test(peer, tells_once_what_was_lost)
{
	pmv_lost_writes_wrote(peer, 1);
	pmv_lost_writes_lost(peer);
	cr_assert_not(may_commit(1));
	cr_assert(may_commit(1));
	pmv_lost_writes_lost(peer);
	cr_assert(may_commit(1), "it was told");
}

Test(peer, tells_of_every_region_by_itself)
{
	const uint32_t keys[] = {1, 2};

	pmv_lost_writes_wrote(peer, 1);
	pmv_lost_writes_wrote(peer, 2);
	pmv_lost_writes_wrote(peer, 3);
	pmv_lost_writes_lost(peer);
	cr_assert(may_commit(4));
	cr_assert_not(pmv_lost_writes_may_commit(peer, keys, 2, false));
	cr_assert(may_commit(1));
	cr_assert(may_commit(2), "both were told");
	cr_assert_not(may_commit(3));
}

Test(peer, tells_a_fence_of_all)
{
	const uint32_t key = 4;

	pmv_lost_writes_wrote(peer, 1);
	pmv_lost_writes_wrote(peer, 2);
	pmv_lost_writes_lost(peer);
	cr_assert_not(pmv_lost_writes_may_commit(peer, &key, 1, true));
	cr_assert(may_commit(1));
	cr_assert(may_commit(2));
}

Test(peer, forgets_what_is_committed)
{
	pmv_lost_writes_wrote(peer, 1);
	pmv_lost_writes_wrote(peer, 2);
	commit(1);
	pmv_lost_writes_lost(peer);
	cr_assert(may_commit(1));
	cr_assert_not(may_commit(2));
}

Test(peer, knows_what_a_commit_came_before)
{
	uint64_t first, second;

	pmv_lost_writes_wrote(peer, 1);
	first = pmv_lost_writes_writes(peer);
	pmv_lost_writes_wrote(peer, 1);
	second = pmv_lost_writes_writes(peer);
	/* They may complete in any order. */
	pmv_lost_writes_committed(peer, 1, second);
	pmv_lost_writes_committed(peer, 1, first);
	pmv_lost_writes_lost(peer);
	cr_assert(may_commit(1));

	pmv_lost_writes_wrote(peer, 1);
	first = pmv_lost_writes_writes(peer);
	pmv_lost_writes_wrote(peer, 1);
	pmv_lost_writes_committed(peer, 1, first);
	pmv_lost_writes_lost(peer);
	cr_assert_not(may_commit(1));
}

Test(peer, remembers_over_several_losses)
{
	pmv_lost_writes_wrote(peer, 1);
	pmv_lost_writes_lost(peer);
	/* On the next connection, but nothing of the one before. */
	pmv_lost_writes_wrote(peer, 1);
	commit(1);
	pmv_lost_writes_lost(peer);
	cr_assert_not(may_commit(1));
}

Test(peer, is_told_from_others)
{
	struct pmv_lost_writes *other = pmv_lost_writes_list_get(&peers, "b", 1);

	cr_assert_neq(other, peer);
	cr_assert_neq(pmv_lost_writes_list_get(&peers, "ab", 2), peer);
	cr_assert_eq(pmv_lost_writes_list_get(&peers, "a", 1), peer);
	pmv_lost_writes_wrote(other, 1);
	pmv_lost_writes_lost(other);
	cr_assert(may_commit(1));
}

/* Who has no place of his own can't be told from others: nothing is promised any more. */
Test(peer, that_is_not_known_never_commits)
{
	static const char addr[PMV_LOST_WRITES_ADDR_SIZE + 1] = "long";
	struct pmv_lost_writes *known = peer;

	peer = pmv_lost_writes_list_get(&peers, addr, sizeof(addr));
	cr_assert_not(may_commit(1));
	cr_assert_not(may_commit(1));
	peer = pmv_lost_writes_list_get(&peers, "new", 3);
	cr_assert_not(may_commit(1), "it may have been there before");
	peer = known;
	cr_assert(may_commit(1));
	cr_assert_eq(pmv_lost_writes_list_get(&peers, "a", 1), known);
}

/* Programs that register what they are about to use have ever new keys. */
Test(peer, forgets_regions_that_are_committed)
{
	pmv_lost_writes_wrote(peer, 1);
	pmv_lost_writes_lost(peer);
	pmv_lost_writes_wrote(peer, 2);
	for (uint32_t key = 3; key < 2 * PMV_LOST_WRITES_REGIONS; key++) {
		pmv_lost_writes_wrote(peer, key);
		commit(key);
		cr_assert_lt(peer->num_regions, 2048);
	}
	cr_expect_not(may_commit(1), "what was lost is not forgotten");
	cr_expect(may_commit(3));
	pmv_lost_writes_lost(peer);
	cr_expect_not(may_commit(2), "nor what nothing has committed");
	cr_expect(may_commit(3));
}

Test(peer, with_more_regions_than_it_remembers_proves_nothing_after_a_loss)
{
	for (uint32_t key = 0; key <= PMV_LOST_WRITES_REGIONS; key++)
		pmv_lost_writes_wrote(peer, key);
	cr_expect_eq(peer->num_regions, PMV_LOST_WRITES_REGIONS);
	cr_expect(may_commit(PMV_LOST_WRITES_REGIONS));
	pmv_lost_writes_lost(peer);
	cr_expect_not(may_commit(PMV_LOST_WRITES_REGIONS));
	cr_expect_not(may_commit(PMV_LOST_WRITES_REGIONS));
}

Test(peer, is_asked_without_being_told)
{
	const uint32_t key = 1;

	cr_expect_not(pmv_lost_writes_has_lost(peer, &key, 1));
	pmv_lost_writes_wrote(peer, key);
	pmv_lost_writes_lost(peer);
	cr_expect(pmv_lost_writes_has_lost(peer, &key, 1));
	cr_expect(pmv_lost_writes_has_lost(peer, &key, 1));
	cr_expect_not(may_commit(key));
	cr_expect_not(pmv_lost_writes_has_lost(peer, &key, 1));
}
