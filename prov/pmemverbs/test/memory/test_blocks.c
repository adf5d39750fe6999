/* SPDX-License-Identifier: BSD-2-Clause */
/* test_blocks.c -- from ranges to blocks, and what is remembered of those that failed */
#include "memory/blocks.h"

#include <stdbool.h>
#include <string.h>

#include <criterion/criterion.h>

#define B(first, last)                                                                             \
	{                                                                                          \
		(first) * PMV_BLOCK, ((last) + 1) * PMV_BLOCK                                      \
	}

static bool same(const struct pmv_blocks *a, const struct pmv_blocks *b, size_t count)
{
	return !memcmp(a, b, count * sizeof(*a));
}

Test(blocks, are_all_that_a_range_has_a_part_of)
{
	static const struct {
		uint64_t offset, len;
		struct pmv_blocks are;
	} cases[] = {
		{0, 1, B(0, 0)},    {4095, 1, B(0, 0)}, {4096, 1, B(1, 1)},   {4095, 2, B(0, 1)},
		{0, 4096, B(0, 0)}, {0, 4097, B(0, 1)}, {100, 8192, B(0, 2)}, {8192, 8192, B(2, 3)},
	};
	struct pmv_blocks none = pmv_blocks_of(5000, 0);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pmv_blocks are = pmv_blocks_of(cases[i].offset, cases[i].len);

		cr_expect(same(&are, &cases[i].are, 1), "%zu", i);
	}
	cr_expect_eq(none.start, none.end);
}

Test(blocks, are_written_once_though_several_ranges_have_them)
{
	struct pmv_blocks runs[] = {B(9, 9), B(2, 4), {4096, 4096}, B(3, 3),
				    B(5, 6), B(4, 4), B(0, 0)};
	const struct pmv_blocks joined[] = {B(0, 0), B(2, 6), B(9, 9)};

	cr_assert_eq(pmv_blocks_join(runs, 7), 3);
	cr_expect(same(runs, joined, 3));
	cr_expect_eq(pmv_blocks_join(runs, 0), 0);
}

Test(blocks, that_failed_are_remembered)
{
	struct pmv_bad bad = {0};
	const struct pmv_blocks are[] = {B(1, 2), B(7, 7)};

	pmv_bad_add(&bad, (struct pmv_blocks) B(7, 7));
	pmv_bad_add(&bad, (struct pmv_blocks) B(1, 1));
	pmv_bad_add(&bad, (struct pmv_blocks) B(2, 2));
	pmv_bad_add(&bad, (struct pmv_blocks) B(7, 7));
	cr_assert_eq(bad.count, 2);
	cr_expect(same(bad.runs, are, 2));
}

/* Every other block, then two that are closer: these are joined, and nothing is forgotten. */
Test(blocks, that_failed_are_remembered_even_if_they_are_many)
{
	struct pmv_bad bad = {0};

	for (uint64_t i = 0; i < PMV_BAD_RUNS; i++)
		pmv_bad_add(&bad, (struct pmv_blocks) B(10 * i, 10 * i));
	cr_expect_eq(bad.count, PMV_BAD_RUNS);
	pmv_bad_add(&bad, (struct pmv_blocks) B(303, 303));
	cr_assert_eq(bad.count, PMV_BAD_RUNS);
	cr_expect(same(&bad.runs[30], &(struct pmv_blocks) B(300, 303), 1));
	cr_expect(same(&bad.runs[31], &(struct pmv_blocks) B(310, 310), 1));
	cr_expect(same(&bad.runs[63], &(struct pmv_blocks) B(630, 630), 1));
	pmv_bad_add(&bad, (struct pmv_blocks) B(0, 1000));
	cr_expect_eq(bad.count, 1);
}
