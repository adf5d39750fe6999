/* SPDX-License-Identifier: BSD-2-Clause */
/* test_replay.c -- what is taken once, and when; the table as it fills */
#include "auth/replay.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#define S UINT64_C(1000000000)
#define NOW (1000000 * S)
#define WINDOW (PMV_REPLAY_WINDOW_S * S)
#define AHEAD (PMV_REPLAY_AHEAD_S * S)

static uint64_t since;

static struct pmv_replay *table(void)
{
	struct pmv_replay *replay = calloc(1, sizeof(*replay));

	cr_assert_not_null(replay);
	since = NOW - 1000 * S;
	return replay;
}

/* check -- a key of that number, in that set */
static enum pmv_replay_verdict check(struct pmv_replay *replay, uint64_t now, uint64_t made,
				     uint32_t number, uint32_t set)
{
	uint8_t key[PMV_NOISE_KEY] = {0};

	memcpy(key, &number, sizeof(number));
	memcpy(key + 16, &set, sizeof(set));
	return pmv_replay_check(replay, since, now, made, key);
}

Test(replay, takes_a_request_once)
{
	struct pmv_replay *replay = table();

	cr_expect_eq(check(replay, NOW, NOW, 1, 7), PMV_REPLAY_NEW);
	cr_expect_eq(check(replay, NOW, NOW, 1, 7), PMV_REPLAY_REPEATED);
	cr_expect_eq(check(replay, NOW + WINDOW, NOW, 1, 7), PMV_REPLAY_REPEATED);
	cr_expect_eq(check(replay, NOW, NOW, 2, 7), PMV_REPLAY_NEW, "another one");
	free(replay);
}

Test(replay, takes_what_was_made_within_the_window)
{
	struct pmv_replay *replay = table();

	cr_expect_eq(check(replay, NOW, NOW - WINDOW, 1, 0), PMV_REPLAY_NEW);
	cr_expect_eq(check(replay, NOW, NOW + AHEAD, 2, 0), PMV_REPLAY_NEW);
	cr_expect_eq(check(replay, NOW, NOW - WINDOW - 1, 3, 0), PMV_REPLAY_SKEWED);
	cr_expect_eq(check(replay, NOW, NOW + AHEAD + 1, 4, 0), PMV_REPLAY_SKEWED);
	cr_expect_eq(check(replay, NOW, 0, 5, 0), PMV_REPLAY_SKEWED);
	cr_expect_eq(check(replay, NOW, UINT64_MAX, 6, 0), PMV_REPLAY_SKEWED);
	free(replay);
}

Test(replay, takes_nothing_that_was_made_before)
{
	struct pmv_replay *replay = table();

	since = NOW - 10 * S;
	cr_expect_eq(check(replay, NOW, NOW - 10 * S, 1, 0), PMV_REPLAY_BEFORE);
	cr_expect_eq(check(replay, NOW, NOW - 10 * S + 1, 1, 0), PMV_REPLAY_NEW);
	free(replay);
}

/* More than a set holds: what has made room is refused as too old, and so is all before it. */
Test(replay, takes_nothing_twice_when_it_is_full)
{
	struct pmv_replay *replay = table();
	const uint32_t count = 3 * PMV_REPLAY_WAYS;

	for (uint32_t n = 0; n < count; n++)
		cr_assert_eq(check(replay, NOW, NOW + n, n, 5), PMV_REPLAY_NEW, "%u", n);
	for (uint32_t n = 0; n < count; n++)
		cr_expect_eq(check(replay, NOW, NOW + n, n, 5),
			     n < count - PMV_REPLAY_WAYS ? PMV_REPLAY_CROWDED : PMV_REPLAY_REPEATED,
			     "%u", n);
	cr_expect_eq(check(replay, NOW, NOW - 1, count, 5), PMV_REPLAY_CROWDED, "an old one");
	cr_expect_eq(check(replay, NOW, NOW + count, count, 5), PMV_REPLAY_NEW, "a newer one");
	cr_expect_eq(check(replay, NOW, NOW - 1, count + 1, 6), PMV_REPLAY_NEW, "another set");
	free(replay);
}

/* In any order: whatever was taken is never taken again. */
Test(replay, takes_nothing_twice_in_any_order)
{
	struct pmv_replay *replay = table();
	bool taken[400] = {false};

	srand(1);
	for (int i = 0; i < 20000; i++) {
		uint32_t n = (uint32_t) rand() % 400;
		/* Its time is its own. */
		uint64_t made = NOW + n * 7919 % 400;

		if (check(replay, NOW, made, n, n % 2) != PMV_REPLAY_NEW)
			continue;
		cr_assert_not(taken[n], "%u", n);
		taken[n] = true;
	}
	free(replay);
}
