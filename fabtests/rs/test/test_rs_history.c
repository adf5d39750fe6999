/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rs_history.c -- the checker of histories: some made by hand, and random ones, for each of
 * which all orders are tried
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "rs/rs_history.h"

#define MOST 7U

#define WRITE(value, begin, end)                                                                   \
	{                                                                                          \
		1, value, begin, end, true                                                         \
	}
#define READ(value, begin, end)                                                                    \
	{                                                                                          \
		1, value, begin, end, false                                                        \
	}
#define HISTORY(...) ((struct rs_operation[]){__VA_ARGS__})
#define JUDGE(...)                                                                                 \
	rs_judge_history(HISTORY(__VA_ARGS__),                                                     \
			 sizeof(HISTORY(__VA_ARGS__)) / sizeof(struct rs_operation))               \
		.wrong

Test(rs_history, right_ones)
{
	cr_assert(!JUDGE(WRITE(5, 1, 2), READ(5, 3, 4)));
	cr_assert(!JUDGE(READ(0, 1, 2)), "nobody has written yet");
	cr_assert(!JUDGE(WRITE(5, 1, 4), READ(0, 2, 3)), "the write comes later");
	cr_assert(!JUDGE(WRITE(5, 1, 4), READ(5, 2, 3)), "the write comes earlier");
	cr_assert(!JUDGE(WRITE(5, 1, 9), READ(0, 2, 3), READ(5, 4, 5), READ(5, 6, 7)));
	cr_assert(!JUDGE(WRITE(5, 1, 9), WRITE(6, 1, 9), READ(6, 2, 3), READ(5, 4, 5)));
	cr_assert(!JUDGE(WRITE(5, 1, 2), READ(5, 2, 3), WRITE(6, 3, 4), READ(6, 4, 5)),
		  "at the same time is neither before nor after");
}

Test(rs_history, of_writes_that_nobody_was_told_of)
{
	cr_assert(!JUDGE(WRITE(5, 1, 2), WRITE(6, 3, RS_NEVER), READ(5, 4, 5), READ(5, 8, 9)),
		  "it was not made");
	cr_assert(!JUDGE(WRITE(5, 1, 2), WRITE(6, 3, RS_NEVER), READ(5, 4, 5), READ(6, 8, 9)),
		  "it was made late");
	cr_assert(JUDGE(WRITE(5, 1, 2), WRITE(6, 3, RS_NEVER), READ(6, 4, 5), READ(5, 8, 9)),
		  "it was made, and lost");
	cr_assert(JUDGE(READ(6, 1, 2), WRITE(6, 3, RS_NEVER)), "not before it was begun");
}

Test(rs_history, wrong_ones)
{
	cr_assert(JUDGE(WRITE(5, 1, 2), READ(0, 3, 4)), "a write is lost");
	cr_assert(JUDGE(WRITE(5, 1, 2), WRITE(6, 3, 4), READ(5, 5, 6)), "an old value");
	cr_assert(JUDGE(READ(7, 1, 2)), "nobody's value");
	cr_assert(JUDGE(READ(5, 1, 2), WRITE(5, 3, 4)), "a value of the future");
	cr_assert(JUDGE(WRITE(5, 1, 2), WRITE(5, 3, 4)), "the same value twice");
	cr_assert(JUDGE(WRITE(5, 1, 9), READ(5, 2, 3), READ(0, 4, 5)),
		  "read, then not: no write-back");
	cr_assert(
		JUDGE(WRITE(5, 1, 9), WRITE(6, 1, 9), READ(5, 2, 3), READ(6, 4, 5), READ(5, 6, 7)));
	cr_assert(JUDGE(WRITE(5, 1, 2), WRITE(6, 3, 4), READ(6, 5, 6), READ(5, 7, 8)));
	cr_assert(JUDGE(WRITE(5, 1, 20), READ(5, 2, 3), WRITE(6, 5, 6), READ(5, 9, 10)),
		  "a whole write within the time of another value");
}

Test(rs_history, blocks_are_judged_apart)
{
	cr_assert(!JUDGE({1, 5, 1, 2, true}, {2, 6, 3, 4, true}, {1, 5, 5, 6, false}));
	cr_assert(JUDGE({1, 5, 1, 2, true}, {2, 6, 3, 4, true}, {1, 6, 5, 6, false}));
	cr_assert(JUDGE({1, 5, 1, 2, true}, {2, 6, 3, 4, true}, {2, 6, 5, 6, false},
			{2, 0, 7, 8, false}));
}

/* ---- all orders ---- */

/* may_be_next -- none of those that are left has ended before it began */
static bool may_be_next(const struct rs_operation *all, size_t count, unsigned int done,
			size_t next)
{
	for (size_t i = 0; i < count; i++) {
		if (!(done & 1U << i) && all[i].end < all[next].begin)
			return false;
	}
	return true;
}

/* is_possible -- an order of those that are left; writes that nobody was told of may be left out */
static bool is_possible(const struct rs_operation *all, size_t count, unsigned int done,
			uint64_t value)
{
	bool left = false;

	for (size_t i = 0; i < count; i++) {
		if (done & 1U << i)
			continue;
		left |= all[i].end != RS_NEVER;
		if (!may_be_next(all, count, done, i) ||
		    (!all[i].is_write && all[i].value != value))
			continue;
		if (is_possible(all, count, done | 1U << i, all[i].value))
			return true;
	}
	return !left;
}

/* make -- operations at random times; reads find the value of a write, or 0 */
static size_t make(struct rs_operation *all)
{
	size_t count = 1 + (size_t) rand() % MOST, writes = 1 + (size_t) rand() % count;
	uint64_t span = 2 + (uint64_t) rand() % 24;

	for (size_t i = 0; i < count; i++) {
		uint64_t begin = 1 + (uint64_t) rand() % span;

		all[i] = (struct rs_operation){
			.block = 1,
			.is_write = i < writes,
			.value = i < writes ? i + 1 : (uint64_t) rand() % (writes + 1),
			.begin = begin,
			.end = begin + (uint64_t) rand() % 8,
		};
		if (all[i].is_write && rand() % 8 == 0)
			all[i].end = RS_NEVER;
	}
	return count;
}

Test(rs_history, each_verdict_is_that_of_all_orders)
{
	unsigned int right = 0, wrong = 0;

	srand(1);
	for (unsigned int i = 0; i < 100000; i++) {
		struct rs_operation all[MOST];
		size_t count = make(all);
		bool possible = is_possible(all, count, 0, 0);

		cr_assert_eq(rs_judge_history(all, count).wrong, !possible, "history %u", i);
		right += possible;
		wrong += !possible;
	}
	cr_assert_gt(right, 10000);
	cr_assert_gt(wrong, 10000);
}
