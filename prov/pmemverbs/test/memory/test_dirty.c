/* SPDX-License-Identifier: BSD-2-Clause */
/* test_dirty.c -- what was written, against a plain map of all bytes */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "test/support/dice.h"
#include "memory/dirty.h"

#define LINE 64
#define MAX_TAKEN 4096

static struct pmv_range taken[MAX_TAKEN];

static unsigned int take(struct pmv_dirty *dirty, uint32_t key, bool all)
{
	unsigned int count = pmv_dirty_count(dirty, key, all);

	cr_assert_leq(count, MAX_TAKEN);
	cr_assert_eq(pmv_dirty_take(dirty, key, all, taken), count);
	cr_assert_eq(pmv_dirty_count(dirty, key, all), 0, "taken is clean");
	return count;
}

/* Is this one of those that were just taken? */
static bool has(unsigned int count, uint32_t key, uint64_t addr, uint64_t len)
{
	for (unsigned int i = 0; i < count; i++) {
		if (taken[i].key == key && taken[i].addr == addr && taken[i].len == len)
			return true;
	}
	return false;
}

/* By hand */

Test(dirty, is_nothing_at_first)
{
	struct pmv_dirty dirty = {0};

	cr_expect_eq(pmv_dirty_count(&dirty, 1, false), 0);
	cr_expect_eq(pmv_dirty_count(&dirty, 0, true), 0);
	cr_expect_eq(take(&dirty, 1, false), 0);
	cr_expect_eq(take(&dirty, 0, true), 0);
	pmv_dirty_free(&dirty);
}

Test(dirty, writes_of_nothing_leave_nothing)
{
	struct pmv_dirty dirty = {0};

	pmv_dirty_add(&dirty, 1, 0x1000, 0);
	pmv_dirty_add(&dirty, 1, 0, 0);
	pmv_dirty_add(&dirty, 1, UINT64_MAX, 0);
	cr_expect_eq(pmv_dirty_count(&dirty, 0, true), 0);
	pmv_dirty_add(&dirty, 1, 0x1000, 8);
	pmv_dirty_add(&dirty, 1, 0x9000, 0);
	cr_expect_eq(take(&dirty, 1, false), 1);
	cr_expect(has(1, 1, 0x1000, 8));
	pmv_dirty_free(&dirty);
}

Test(dirty, ranges_are_not_widened_to_cache_lines)
{
	struct pmv_dirty dirty = {0};

	/* Beyond what was written the region may end. */
	pmv_dirty_add(&dirty, 1, 0x1003, 5);
	cr_expect_eq(take(&dirty, 1, false), 1);
	cr_expect(has(1, 1, 0x1003, 5));
	pmv_dirty_free(&dirty);
}

Test(dirty, the_same_line_is_one_range)
{
	struct pmv_dirty dirty = {0};

	pmv_dirty_add(&dirty, 1, 0x1000, 1);
	pmv_dirty_add(&dirty, 1, 0x103f, 1);
	pmv_dirty_add(&dirty, 1, 0x1010, 4);
	cr_expect_eq(take(&dirty, 1, false), 1);
	cr_expect(has(1, 1, 0x1000, 0x40));
	pmv_dirty_free(&dirty);
}

Test(dirty, adjacent_lines_are_one_range)
{
	struct pmv_dirty dirty = {0};

	/* In either order, the far ends of two lines. */
	pmv_dirty_add(&dirty, 1, 0x1000, 1);
	pmv_dirty_add(&dirty, 1, 0x107f, 1);
	pmv_dirty_add(&dirty, 2, 0x107f, 1);
	pmv_dirty_add(&dirty, 2, 0x1000, 1);
	cr_expect_eq(take(&dirty, 0, true), 2);
	cr_expect(has(2, 1, 0x1000, 0x80));
	cr_expect(has(2, 2, 0x1000, 0x80));
	pmv_dirty_free(&dirty);
}

Test(dirty, lines_with_a_clean_one_between_are_two_ranges)
{
	struct pmv_dirty dirty = {0};

	pmv_dirty_add(&dirty, 1, 0x103f, 1);
	pmv_dirty_add(&dirty, 1, 0x1080, 1);
	cr_expect_eq(take(&dirty, 1, false), 2);
	cr_expect(has(2, 1, 0x103f, 1));
	cr_expect(has(2, 1, 0x1080, 1));
	pmv_dirty_free(&dirty);
}

Test(dirty, a_write_across_ranges_joins_them)
{
	struct pmv_dirty dirty = {0};

	for (uint64_t i = 0; i < 10; i++)
		pmv_dirty_add(&dirty, 1, 0x1000 + i * 0x100, 8);
	pmv_dirty_add(&dirty, 1, 0x1204, 0x300);
	cr_expect_eq(take(&dirty, 1, false), 7);
	cr_expect(has(7, 1, 0x1200, 0x308), "from the third's start to the sixth's end");
	cr_expect(has(7, 1, 0x1100, 8));
	cr_expect(has(7, 1, 0x1600, 8));
	pmv_dirty_free(&dirty);
}

Test(dirty, keys_are_kept_apart)
{
	struct pmv_dirty dirty = {0};

	pmv_dirty_add(&dirty, 7, 0x1000, 8);
	pmv_dirty_add(&dirty, UINT32_MAX, 0x1008, 8);
	pmv_dirty_add(&dirty, 0, 0x1010, 8);
	cr_expect_eq(pmv_dirty_count(&dirty, 7, false), 1);
	cr_expect_eq(pmv_dirty_count(&dirty, 8, false), 0);
	cr_expect_eq(pmv_dirty_count(&dirty, 8, true), 3);
	cr_expect_eq(take(&dirty, UINT32_MAX, false), 1);
	cr_expect(has(1, UINT32_MAX, 0x1008, 8));
	cr_expect_eq(take(&dirty, 0, true), 2);
	cr_expect(has(2, 7, 0x1000, 8));
	cr_expect(has(2, 0, 0x1010, 8));
	pmv_dirty_free(&dirty);
}

Test(dirty, starts_afresh_after_it_was_taken)
{
	struct pmv_dirty dirty = {0};

	pmv_dirty_add(&dirty, 1, 0x1000, 8);
	take(&dirty, 1, false);
	pmv_dirty_add(&dirty, 1, 0x1008, 8);
	cr_expect_eq(take(&dirty, 1, false), 1);
	cr_expect(has(1, 1, 0x1008, 8));
	pmv_dirty_free(&dirty);
}

Test(dirty, reaches_from_the_first_address_to_the_last)
{
	struct pmv_dirty dirty = {0};

	pmv_dirty_add(&dirty, 1, 0, 1);
	pmv_dirty_add(&dirty, 1, UINT64_MAX - 8, 8);
	cr_expect_eq(take(&dirty, 1, false), 2);
	cr_expect(has(2, 1, 0, 1));
	cr_expect(has(2, 1, UINT64_MAX - 8, 8));
	/* All there is; and more than there is ends at the end. */
	pmv_dirty_add(&dirty, 1, 0, UINT64_MAX);
	pmv_dirty_add(&dirty, 2, UINT64_MAX - 100, 200);
	pmv_dirty_add(&dirty, 2, 64, UINT64_MAX);
	cr_expect_eq(take(&dirty, 0, true), 2);
	cr_expect(has(2, 1, 0, UINT64_MAX));
	cr_expect(has(2, 2, 64, UINT64_MAX - 64));
	pmv_dirty_free(&dirty);
}

Test(dirty, the_smallest_gap_is_closed_when_there_are_too_many)
{
	struct pmv_dirty dirty = {0};

	/* The gaps are all wider than that between the 40th and the next. */
	for (uint64_t i = 0; i <= PMV_DIRTY_RANGES; i++)
		pmv_dirty_add(&dirty, 1, 0x10000 + i * 0x1000 - (i > 40 ? 64 : 0), 64);
	cr_expect_eq(take(&dirty, 1, false), PMV_DIRTY_RANGES);
	cr_expect(has(PMV_DIRTY_RANGES, 1, 0x10000 + 40 * 0x1000, 0x1000));
	cr_expect(has(PMV_DIRTY_RANGES, 1, 0x10000, 64));
	cr_expect(has(PMV_DIRTY_RANGES, 1, 0x10000 + 64 * 0x1000 - 64, 64));
	pmv_dirty_free(&dirty);
}

Test(dirty, stays_small_for_any_number_of_writes)
{
	struct pmv_dirty dirty = {0};

	for (uint64_t i = 0; i < 100000; i++)
		pmv_dirty_add(&dirty, (uint32_t) (i % 3), i * 8192, 64);
	cr_expect_leq(pmv_dirty_count(&dirty, 1, false), PMV_DIRTY_RANGES);
	cr_expect_leq(pmv_dirty_count(&dirty, 0, true), 3 * PMV_DIRTY_RANGES);
	cr_expect_not(dirty.lost);
	pmv_dirty_free(&dirty);
}

Test(dirty, many_regions_are_all_remembered)
{
	struct pmv_dirty dirty = {0};

	for (uint32_t key = 0; key < 1000; key++)
		pmv_dirty_add(&dirty, key * 2654435761U, key, 1);
	cr_expect_eq(take(&dirty, 0, true), 1000);
	for (uint32_t key = 0; key < 1000; key++)
		cr_expect(has(1000, key * 2654435761U, key, 1));
	pmv_dirty_free(&dirty);
}

/* Against the map */

#define KEYS 3
#define WINDOW 65536
#define ROUNDS DICE_RUNS(6000)

struct map {
	uint64_t base;
	bool written[WINDOW];
	bool flushed[WINDOW];
	unsigned int writes;
};

static uint64_t state;

/* With every window somewhere else, and some at the ends of all addresses. */
static uint64_t random_base(void)
{
	switch (dice(&state, 4)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - WINDOW;
	case 2:
		return (uint64_t) dice(&state, 1 << 30) * 4096;
	default:
		return ((uint64_t) dice(&state, 1 << 30) << 32) + dice(&state, 1 << 30);
	}
}

static void write_somewhere(struct pmv_dirty *dirty, uint32_t key, struct map *map, int style)
{
	static uint64_t cursor;
	uint64_t len = dice(&state, 8) ? dice(&state, 130) : dice(&state, 3000);
	uint64_t at;

	switch (style) {
	case 0: /* scattered */
		at = dice(&state, WINDOW);
		break;
	case 1: /* one behind the other, more or less */
		at = cursor;
		cursor = (cursor + dice(&state, 200)) % WINDOW;
		break;
	case 2: /* lines of one small place */
		at = dice(&state, 4096);
		break;
	default: /* short, far apart: more than there is room for */
		at = dice(&state, WINDOW / 256) * 256 + dice(&state, 64);
		len = 1 + dice(&state, 16);
	}
	if (len > WINDOW - at)
		len = WINDOW - at;
	pmv_dirty_add(dirty, key, map->base + at, len);
	memset(map->written + at, true, len);
	map->writes++;
}

/* The ranges of one key, in the order of the addresses. */
static int compare_ranges(const void *a, const void *b)
{
	const struct pmv_range *one = a, *other = b;

	if (one->key != other->key)
		return one->key < other->key ? -1 : 1;
	return one->addr < other->addr ? -1 : one->addr > other->addr;
}

static uint64_t lowest(const struct map *map)
{
	return (const bool *) memchr(map->written, true, WINDOW) - map->written;
}

static uint64_t highest(const struct map *map)
{
	return (const bool *) memrchr(map->written, true, WINDOW) - map->written;
}

/* The ranges as they would be without any limit; those of up to so many writes have to be these. */
static unsigned int exact_ranges(const struct map *map, struct pmv_range *ranges)
{
	unsigned int count = 0;

	for (uint64_t i = 0; i < WINDOW; i++) {
		uint64_t addr = map->base + i;
		struct pmv_range *last = count ? &ranges[count - 1] : NULL;

		if (!map->written[i])
			continue;
		if (last && addr / LINE <= (last->addr + last->len - 1) / LINE + 1)
			last->len = addr + 1 - last->addr;
		else
			ranges[count++] = (struct pmv_range){.addr = addr, .len = 1};
	}
	return count;
}

static void check_key(struct map *map, const struct pmv_range *ranges, unsigned int count)
{
	static struct pmv_range exact[WINDOW];

	cr_assert_leq(count, PMV_DIRTY_RANGES);
	memset(map->flushed, false, sizeof(map->flushed));
	for (unsigned int i = 0; i < count; i++) {
		uint64_t start = ranges[i].addr - map->base;

		cr_assert_gt(ranges[i].len, 0);
		cr_assert(start >= lowest(map) && start + ranges[i].len <= highest(map) + 1,
			  "nothing outside of what was written");
		if (i)
			cr_assert_gt(ranges[i].addr / LINE,
				     (ranges[i - 1].addr + ranges[i - 1].len - 1) / LINE + 1,
				     "ranges that touch are joined");
		memset(map->flushed + start, true, ranges[i].len);
	}
	for (uint64_t i = 0; i < WINDOW; i++)
		cr_assert(map->flushed[i] || !map->written[i], "byte %zu is missing", (size_t) i);
	if (map->writes <= PMV_DIRTY_RANGES) {
		cr_assert_eq(count, exact_ranges(map, exact), "no more is flushed than needed");
		for (unsigned int i = 0; i < count; i++)
			cr_assert(ranges[i].addr == exact[i].addr && ranges[i].len == exact[i].len);
	}
	memset(map->written, false, sizeof(map->written));
	map->writes = 0;
	map->base = random_base();
}

static void check_taken(struct map *maps, unsigned int count, uint32_t key, bool all)
{
	unsigned int at = 0;

	qsort(taken, count, sizeof(taken[0]), compare_ranges);
	for (uint32_t k = 0; k < KEYS; k++) {
		unsigned int of_key = 0;

		while (at + of_key < count && taken[at + of_key].key == k)
			of_key++;
		if (all || k == key)
			check_key(&maps[k], taken + at, of_key);
		else
			cr_assert_eq(of_key, 0, "a region that was not asked for");
		at += of_key;
	}
	cr_assert_eq(at, count, "a region that was never written");
}

Test(dirty, never_leaves_out_what_was_written, .timeout = 120)
{
	struct map *maps = calloc(KEYS, sizeof(*maps));
	struct pmv_dirty dirty = {0};

	cr_assert_not_null(maps);
	state = 20240229;
	for (uint32_t key = 0; key < KEYS; key++)
		maps[key].base = random_base();
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t writes = dice(&state, 4) ? dice(&state, 70) : dice(&state, 600);
		int style = (int) dice(&state, 4);
		uint32_t key = dice(&state, KEYS);
		bool all = !dice(&state, 3);

		while (writes--) {
			uint32_t k = dice(&state, KEYS);

			write_somewhere(&dirty, k, &maps[k], style);
		}
		check_taken(maps, take(&dirty, key, all), key, all);
	}
	pmv_dirty_free(&dirty);
	free(maps);
}

/* Regions that come and go */

Test(dirty, regions_that_are_clean_are_forgotten_but_for_a_few)
{
	struct pmv_dirty dirty = {0};

	for (uint32_t key = 0; key < 100000; key++) {
		pmv_dirty_add(&dirty, key, 0x1000, 8);
		pmv_dirty_add(&dirty, key, 0x9000, 8);
		cr_assert_eq(dirty.num_regions, 1);
		cr_assert_eq(take(&dirty, key, key % 2), 2);
		cr_assert(has(2, key, 0x1000, 8));
		cr_assert_eq(dirty.num_regions, 0);
		cr_assert_leq(dirty.num_clean, PMV_DIRTY_CLEAN);
	}
	/* Also several at once. */
	for (uint32_t key = 0; key < 1000; key++)
		pmv_dirty_add(&dirty, key, 0x1000, 8);
	cr_assert_eq(dirty.num_regions, 1000);
	cr_assert_eq(take(&dirty, 0, true), 1000);
	cr_assert_eq(dirty.num_regions, 0);
	cr_assert_leq(dirty.num_clean, PMV_DIRTY_CLEAN);
	cr_assert_not(dirty.lost);
	pmv_dirty_free(&dirty);
	cr_assert_eq(dirty.num_clean, 0);
}

Test(dirty, regions_that_are_dirty_are_not_forgotten)
{
	struct pmv_dirty dirty = {0};

	/* Each of every hundredth is left dirty, and written again once it was clean. */
	for (uint32_t key = 0; key < 100000; key++) {
		pmv_dirty_add(&dirty, key, 0x1000, 8);
		take(&dirty, key, false);
		if (key % 100 == 0)
			pmv_dirty_add(&dirty, key, 0x2000 + key, 8);
	}
	cr_assert_eq(dirty.num_regions, 1000);
	cr_assert_eq(take(&dirty, 0, true), 1000);
	for (uint32_t key = 0; key < 100000; key += 100)
		cr_assert(has(1000, key, 0x2000 + key, 8), "%u", key);
	pmv_dirty_free(&dirty);
}

/* Nobody commits them: a commit that came after all would be told that it can't be. */
Test(dirty, regions_that_are_too_many_are_not_forgotten_in_silence)
{
	struct pmv_dirty dirty = {0};

	for (uint32_t key = 0; key < PMV_DIRTY_REGIONS; key++)
		pmv_dirty_add(&dirty, key, 0x1000, 8);
	cr_expect_not(dirty.lost);
	pmv_dirty_add(&dirty, 7, 0x9000, 8);
	cr_expect_not(dirty.lost, "it is one of them");
	cr_expect_eq(pmv_dirty_count(&dirty, 0, true), PMV_DIRTY_REGIONS + 1);
	pmv_dirty_add(&dirty, PMV_DIRTY_REGIONS, 0x1000, 8);
	cr_expect(dirty.lost);
	pmv_dirty_free(&dirty);
}

Test(dirty, region_that_was_looked_at_last_may_be_forgotten)
{
	struct pmv_dirty dirty = {0};

	for (uint32_t key = 0; key < PMV_DIRTY_CLEAN; key++) {
		pmv_dirty_add(&dirty, key, 0x1000, 8);
		take(&dirty, key, false);
	}
	pmv_dirty_add(&dirty, 1000, 0x1000, 8);
	cr_expect_eq(pmv_dirty_count(&dirty, 0, false), 0);
	cr_expect_eq(take(&dirty, 0, true), 1);
	cr_assert_null(dirty.last);
	pmv_dirty_add(&dirty, 0, 0x3000, 8);
	cr_expect_eq(take(&dirty, 0, true), 1);
	cr_expect(has(1, 0, 0x3000, 8));
	pmv_dirty_free(&dirty);
}

Test(dirty, spans_from_the_first_byte_to_the_last)
{
	struct pmv_dirty dirty = {0};
	struct pmv_range span;
	uint64_t gaps;

	cr_expect_not(pmv_dirty_span(&dirty, 1, &span, &gaps));
	pmv_dirty_add(&dirty, 2, 0, 9999);
	cr_expect_not(pmv_dirty_span(&dirty, 1, &span, &gaps));
	pmv_dirty_add(&dirty, 1, 1000, 10);
	cr_assert(pmv_dirty_span(&dirty, 1, &span, &gaps));
	cr_expect(span.addr == 1000 && span.len == 10 && span.key == 1 && !gaps);
	pmv_dirty_add(&dirty, 1, 3000, 10);
	pmv_dirty_add(&dirty, 1, 2000, 10);
	cr_assert(pmv_dirty_span(&dirty, 1, &span, &gaps));
	cr_expect(span.addr == 1000 && span.len == 2010);
	cr_expect_eq(gaps, 2010 - 30U);
	cr_expect_eq(take(&dirty, 1, false), 3);
	cr_expect_not(pmv_dirty_span(&dirty, 1, &span, &gaps));
	pmv_dirty_free(&dirty);
}
