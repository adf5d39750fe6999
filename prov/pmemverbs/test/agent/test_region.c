/* SPDX-License-Identifier: BSD-2-Clause */
/* test_region.c -- which ranges are in a region, and when a region may go */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "test/support/dice.h"
#include "agent/region.h"

#define KEY 17
#define START UINT64_C(0x40000)
#define SIZE 1000

static char memory[SIZE];
static struct pmv_regions regions;

static struct pmv_region *make(uint32_t key, enum pmv_persist persist, unsigned use, uint64_t start,
			       const struct iovec *iov, size_t count)
{
	const struct pmv_region_attr attr = {
		.key = key,
		.persist = persist,
		.use = use,
		.start = start,
		.iov = iov,
		.iov_count = count,
	};

	return pmv_region_add(&regions, &attr);
}

static struct pmv_region *add(uint64_t start)
{
	struct iovec iov = {memory, SIZE};
	struct pmv_region *region = make(KEY, PMV_DMP, PMV_REGION_REMOTE, start, &iov, 1);

	cr_assert_not_null(region);
	return region;
}

/* Is the range in the region?  If so, at that offset? */
static bool is_in(uint32_t key, uint64_t addr, uint64_t len, uint64_t expected)
{
	uint64_t offset = 0;
	struct pmv_region *region = pmv_region_get(&regions, key, addr, len, &offset);

	if (!region)
		return false;
	cr_expect_eq(offset, expected);
	cr_expect_eq(region->users, 1);
	pmv_region_put(&regions, region);
	cr_expect_eq(region->users, 0);
	return true;
}

static void setup(void)
{
	pmv_regions_init(&regions);
}

static void teardown(void)
{
	pmv_regions_destroy(&regions);
}

TestSuite(region, .init = setup, .fini = teardown);

Test(region, has_the_ranges_within_it)
{
	add(START);
	cr_expect(is_in(KEY, START, SIZE, 0));
	cr_expect(is_in(KEY, START, 1, 0));
	cr_expect(is_in(KEY, START + 300, 200, 300));
	cr_expect(is_in(KEY, START + SIZE - 1, 1, SIZE - 1));
}

Test(region, has_no_range_that_sticks_out)
{
	add(START);
	cr_expect_not(is_in(KEY, START - 1, 1, 0));
	cr_expect_not(is_in(KEY, START - 1, SIZE, 0));
	cr_expect_not(is_in(KEY, START - 1, SIZE + 2, 0));
	cr_expect_not(is_in(KEY, START, SIZE + 1, 0));
	cr_expect_not(is_in(KEY, START + 1, SIZE, 0));
	cr_expect_not(is_in(KEY, START + SIZE, 1, 0));
	cr_expect_not(is_in(KEY, START + SIZE + 1, 0, 0));
	cr_expect_not(is_in(KEY, 0, 1, 0));
	cr_expect_not(is_in(KEY, UINT64_MAX, 1, 0));
}

Test(region, is_not_fooled_by_ranges_that_wrap_around)
{
	add(START);
	cr_expect_not(is_in(KEY, START, UINT64_MAX, 0));
	cr_expect_not(is_in(KEY, START + 1, UINT64_MAX, 0));
	cr_expect_not(is_in(KEY, START + 10, UINT64_MAX - START, 0));
	cr_expect_not(is_in(KEY, START + SIZE, UINT64_MAX, 0));
	cr_expect_not(is_in(KEY, UINT64_MAX - 10, START + 20, 0));
	cr_expect_not(is_in(KEY, START - 8, UINT64_MAX - 7, 0));
}

Test(region, may_start_at_zero)
{
	add(0);
	cr_expect(is_in(KEY, 0, SIZE, 0));
	cr_expect(is_in(KEY, 5, 7, 5));
	cr_expect_not(is_in(KEY, 5, SIZE - 4, 0));
	cr_expect_not(is_in(KEY, UINT64_MAX, 2, 0));
}

Test(region, has_empty_ranges_up_to_its_end)
{
	add(START);
	cr_expect(is_in(KEY, START, 0, 0));
	cr_expect(is_in(KEY, START + SIZE, 0, SIZE));
	cr_expect_not(is_in(KEY, START - 1, 0, 0));
}

Test(region, is_found_by_its_key_alone)
{
	struct pmv_region *region = add(START);
	struct iovec iov = {memory, SIZE};

	cr_expect_not(is_in(KEY + 1, START, 1, 0));
	cr_expect_null(make(KEY, PMV_PAGE, PMV_REGION_REMOTE, 0, &iov, 1), "the key is known");
	cr_expect(is_in(KEY, START, 1, 0), "and the first one is still there");
	pmv_region_remove(&regions, region);
	cr_expect_not(is_in(KEY, START, 1, 0));
	add(0);
	cr_expect(is_in(KEY, 0, 1, 0), "a key may be used again");
}

Test(region, of_several_pieces_has_ranges_across_them)
{
	static char one[100], other[50], last[10];
	struct iovec iov[] = {{one, 100}, {NULL, 0}, {other, 50}, {last, 10}};
	struct pmv_region *region = make(KEY, PMV_DMP, PMV_REGION_REMOTE, START, iov, 4);
	const struct {
		uint64_t offset, asked;
		const char *at;
		uint64_t len; /* up to the end of the piece */
	} cases[] = {
		{0, 160, one, 100},        {99, 2, one + 99, 1},    {100, 60, other, 50},
		{140, 20, other + 40, 10}, {120, 3, other + 20, 3}, {150, 10, last, 10},
		{159, 1, last + 9, 1},
	};

	cr_assert_not_null(region);
	cr_expect_eq(region->len, 160);
	cr_expect(is_in(KEY, START, 160, 0));
	cr_expect_not(is_in(KEY, START, 161, 0));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t len = cases[i].asked;

		cr_expect_eq(pmv_region_piece(region, cases[i].offset, &len), cases[i].at,
			     "offset %d", (int) cases[i].offset);
		cr_expect_eq(len, cases[i].len, "offset %d", (int) cases[i].offset);
	}
}

Test(region, of_many_is_the_right_one)
{
	struct pmv_region *all[500];
	struct iovec iov = {memory, SIZE};

	for (uint32_t i = 0; i < 500; i++) {
		all[i] = make(i * 2654435761U, PMV_DMP, PMV_REGION_REMOTE, i, &iov, 1);
		cr_assert_not_null(all[i]);
	}
	for (uint32_t i = 0; i < 500; i += 2)
		pmv_region_remove(&regions, all[i]);
	for (uint32_t i = 0; i < 500; i++)
		cr_expect_eq(is_in(i * 2654435761U, i + 3, 4, 3), i % 2);
}

Test(region, that_peers_may_not_write_is_none_of_theirs)
{
	struct iovec iov = {memory, SIZE};

	cr_assert_not_null(make(KEY, PMV_DMP, PMV_REGION_PMEM, START, &iov, 1));
	cr_expect_not(is_in(KEY, START, 1, 0));
}

Test(region, without_a_key_gets_one_of_its_own)
{
	struct iovec iov = {memory, SIZE};
	struct pmv_region *all[4];

	/* One that peers can reach keeps its key, whatever that is. */
	all[0] = make(PMV_REGION_NO_KEY, PMV_DMP, PMV_REGION_REMOTE, START, &iov, 1);
	all[1] = make(PMV_REGION_NO_KEY - 1, PMV_DMP, PMV_REGION_READ, START, &iov, 1);
	all[2] = make(PMV_REGION_NO_KEY, PMV_DMP, PMV_REGION_PMEM, START, &iov, 1);
	all[3] = make(PMV_REGION_NO_KEY, PMV_DMP, PMV_REGION_PMEM, START, &iov, 1);
	cr_expect(is_in(PMV_REGION_NO_KEY, START, 1, 0));
	for (int i = 0; i < 4; i++) {
		cr_assert_not_null(all[i]);
		cr_assert_eq(pmv_region_hold(&regions, all[i]->attr.key, all[i]->serial), all[i]);
		pmv_region_put(&regions, all[i]);
		cr_expect_eq(is_in(all[i]->attr.key, START, 1, 0), i == 0);
	}
	for (int i = 0; i < 4; i++)
		pmv_region_remove(&regions, all[i]);
}

/* Persistent memory by address, where regions overlap, touch and go */

#define PLAIN_REGIONS 12

static uint64_t state = 1;

static struct pmv_region *random_region(uint32_t key)
{
	struct iovec iov[2];
	size_t first = dice(&state, SIZE / 2), second = first + dice(&state, SIZE / 2);

	iov[0] = (struct iovec){memory + first, dice(&state, 100)};
	iov[1] = (struct iovec){memory + second, dice(&state, SIZE - second)};
	return make(key, PMV_DMP, PMV_REGION_PMEM, 0, iov, 2);
}

/* regions_at -- how many have the byte there */
static unsigned int regions_at(struct pmv_region **all, const char *at)
{
	unsigned int count = 0;

	for (int i = 0; i < PLAIN_REGIONS; i++) {
		for (size_t n = 0; all[i] && n < all[i]->attr.iov_count; n++) {
			const char *base = all[i]->iov[n].iov_base;

			count += at >= base && at < base + all[i]->iov[n].iov_len;
		}
	}
	return count;
}

static void look_up(struct pmv_region **all)
{
	size_t start = dice(&state, SIZE), len = dice(&state, SIZE - start + 1);
	size_t first = start;
	struct pmv_span span;
	struct iovec rest = {memory + start, len};
	bool found = pmv_regions_find(&regions, &rest, false, &span);
	uint64_t piece;

	while (first < start + len && !regions_at(all, memory + first))
		first++;
	cr_assert_eq(found, first < start + len);
	if (!found)
		return;
	cr_assert_eq(span.start, (uintptr_t) memory + first);
	cr_assert(span.len && first + span.len <= start + len);
	cr_expect_eq(rest.iov_base, memory + first + span.len);
	cr_expect_eq(rest.iov_len, start + len - first - span.len);
	piece = span.len;
	cr_assert_eq(pmv_region_piece(span.region, span.offset, &piece), memory + first);
	cr_assert_eq(piece, span.len);
}

Test(region, with_an_address_is_found)
{
	struct pmv_region *all[PLAIN_REGIONS] = {NULL};

	for (int i = 0; i < 20000; i++) {
		unsigned int n = dice(&state, PLAIN_REGIONS);

		if (dice(&state, 20)) {
			look_up(all);
			continue;
		}
		if (all[n])
			pmv_region_remove(&regions, all[n]);
		all[n] = dice(&state, 3) ? random_region(n) : NULL;
	}
}

Test(region, with_an_address_is_held)
{
	struct iovec iov = {memory, SIZE};
	struct pmv_region *region = make(KEY, PMV_DMP, PMV_REGION_PMEM, 0, &iov, 1);
	struct iovec rest = {memory, SIZE_MAX};
	struct pmv_span span;

	cr_assert(pmv_regions_find(&regions, &rest, true, &span));
	cr_expect_eq(span.len, SIZE);
	cr_expect_eq(region->users, 1);
	pmv_region_put(&regions, region);
	cr_expect_not(pmv_regions_find(&regions, &(struct iovec){memory, 0}, true, &span));
	cr_expect_eq(region->users, 0);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				  const struct timespec *until);

static atomic_int timeouts;

/* The time that it waits is over at once. */
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				  const struct timespec *until)
{
	struct timespec now;

	(void) cond, (void) mutex;
	clock_gettime(clock, &now);
	cr_expect_eq(clock, CLOCK_MONOTONIC);
	cr_expect_gt(until->tv_sec, now.tv_sec);
	atomic_fetch_add(&timeouts, 1);
	return ETIMEDOUT;
}

static atomic_bool removed;

static void *remove_it(void *region)
{
	pmv_region_remove(&regions, region);
	atomic_store(&removed, true);
	return NULL;
}

Test(region, is_not_removed_while_somebody_uses_it, .timeout = 30)
{
	struct pmv_region *region = add(START);
	pthread_t thread;
	uint64_t offset;

	cr_assert_eq(pmv_region_get(&regions, KEY, START, 1, &offset), region);
	cr_assert_eq(pmv_region_get(&regions, KEY, START, 1, &offset), region);
	cr_assert_eq(pthread_create(&thread, NULL, remove_it, region), 0);
	/* From some time on nobody new gets it. */
	while (pmv_region_get(&regions, KEY, START, 1, &offset)) {
		pmv_region_put(&regions, region);
		sched_yield();
	}
	cr_expect_not(atomic_load(&removed));
	pmv_region_put(&regions, region);
	usleep(50000);
	cr_expect_not(atomic_load(&removed));
	pmv_region_put(&regions, region);
	pthread_join(thread, NULL);
	cr_expect(atomic_load(&removed));
	/* That it takes long is said once. */
	cr_expect_eq(atomic_load(&timeouts), 1);
}
