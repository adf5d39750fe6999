/* SPDX-License-Identifier: BSD-2-Clause */
/* test_free_list.c -- buffers are given out when nobody can see them any more */
#include <criterion/criterion.h>

#include "agent/free_list.h"

#define COUNT 5
#define START UINT64_C(0x1000)

static struct pmv_chains chains;
static struct pmv_free_list *list;

static void open_list(void)
{
	const struct pmv_free_list attr = {.key = 1, .start = START, .size = 16, .count = COUNT};

	pmv_chains_init(&chains);
	list = pmv_free_list_open(&chains, &attr);
	cr_assert_not_null(list);
	cr_assert_eq(pmv_free_list_find(&chains, list->number), list);
}

static void close_list(void)
{
	uint32_t number = list->number;

	pmv_free_list_close(&chains, list);
	cr_expect_null(pmv_free_list_find(&chains, number));
	pmv_chains_destroy(&chains);
}

static bool put(size_t buffer)
{
	return pmv_free_list_put(&chains, list, START + 16 * buffer);
}

static void expect_taken(size_t expected)
{
	size_t buffer = SIZE_MAX;

	cr_assert(pmv_free_list_take(&chains, list, &buffer));
	cr_assert_eq(buffer, expected);
}

static void expect_empty(void)
{
	size_t buffer;

	cr_assert(!pmv_free_list_take(&chains, list, &buffer));
}

Test(free_list, begins_with_all_buffers_in_use)
{
	open_list();
	expect_empty();
	for (size_t round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT; i++)
			cr_assert(put(i));
		for (size_t i = 0; i < COUNT; i++)
			cr_assert(!put(i), "twice");
		for (size_t i = 0; i < COUNT; i++)
			expect_taken(i);
		expect_empty();
	}
	close_list();
}

Test(free_list, knows_what_is_a_buffer)
{
	open_list();
	cr_expect(!put(COUNT));
	cr_expect(!pmv_free_list_put(&chains, list, START + 1));
	cr_expect(!pmv_free_list_put(&chains, list, START - 16));
	cr_expect(!pmv_free_list_put(&chains, list, 0));
	cr_expect(!pmv_free_list_put(&chains, list, UINT64_MAX));
	expect_empty();
	close_list();
}

Test(free_list, buffer_waits_for_all_chains_that_had_begun)
{
	struct pmv_chain_ticket first, second, third;

	open_list();
	pmv_chains_begin(&chains, &first);
	pmv_chains_begin(&chains, &second);
	cr_assert(put(0));
	pmv_chains_begin(&chains, &third);
	cr_assert(put(1));
	expect_empty();
	pmv_chains_end(&chains, &first);
	expect_empty();
	pmv_chains_end(&chains, &second);
	/* The third one has begun behind the first buffer, and before the other. */
	expect_taken(0);
	expect_empty();
	pmv_chains_end(&chains, &third);
	expect_taken(1);
	close_list();
}

Test(free_list, chains_may_end_in_any_order)
{
	struct pmv_chain_ticket first, second;

	open_list();
	pmv_chains_begin(&chains, &first);
	pmv_chains_begin(&chains, &second);
	cr_assert(put(0));
	pmv_chains_end(&chains, &second);
	expect_empty();
	pmv_chains_end(&chains, &first);
	expect_taken(0);
	close_list();
}

Test(free_list, lists_are_apart)
{
	const struct pmv_free_list attr = {.start = START, .size = 16, .count = 1};
	struct pmv_free_list *other;

	open_list();
	other = pmv_free_list_open(&chains, &attr);
	cr_assert_not_null(other);
	cr_assert_neq(other->number, list->number);
	cr_assert(pmv_free_list_put(&chains, other, START));
	expect_empty();
	pmv_free_list_close(&chains, other);
	close_list();
}
