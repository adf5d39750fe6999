/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tx_history.c -- the checker of histories: some made by hand, and random ones, for each of
 * which all orders are tried
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tx/tx_history.h"

#define MOST 6U
#define KEYS 3U

#define TX(from, to, ...)                                                                          \
	{                                                                                          \
		.begin = (from), .end = (to),                                                      \
		.count = sizeof((struct tx_event[]){__VA_ARGS__}) / sizeof(struct tx_event),       \
		.events = {                                                                        \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
#define JUDGE(...)                                                                                 \
	tx_judge_history((struct tx_transaction[]){__VA_ARGS__},                                   \
			 sizeof((struct tx_transaction[]){__VA_ARGS__}) /                          \
				 sizeof(struct tx_transaction))                                    \
		.wrong

Test(tx_history, right_ones)
{
	cr_assert(!JUDGE(TX(1, 2, {1, 0, 5}), TX(3, 4, {1, 5, 6}), TX(5, 6, {1, 6, 0})));
	cr_assert(!JUDGE(TX(1, 2, {1, 0, 5}, {2, 0, 6}), TX(3, 4, {1, 5, 0}, {2, 6, 0})));
	cr_assert(!JUDGE(TX(1, 9, {1, 0, 5}), TX(2, 3, {1, 0, 0}), TX(4, 5, {1, 5, 0})));
	cr_assert(!JUDGE(TX(1, 9, {1, 0, 0}, {2, 0, 6}), TX(2, 8, {1, 0, 5}, {2, 6, 0})),
		  "one is before the other, if both overlap");
}

Test(tx_history, wrong_ones)
{
	cr_assert(JUDGE(TX(1, 2, {1, 0, 5}), TX(3, 4, {1, 0, 0})), "a write is lost");
	cr_assert(JUDGE(TX(1, 9, {1, 0, 5}), TX(1, 9, {1, 0, 6})), "a lost update");
	cr_assert(JUDGE(TX(1, 9, {1, 0, 5}, {2, 0, 6}), TX(1, 9, {1, 5, 0}, {2, 0, 0})), "half");
	cr_assert(JUDGE(TX(1, 9, {1, 0, 0}, {2, 0, 6}), TX(1, 9, {1, 0, 5}, {2, 0, 0})),
		  "write skew");
	cr_assert(JUDGE(TX(1, 2, {1, 7, 0})), "nobody's value");
	cr_assert(JUDGE(TX(1, 2, {1, 5, 6}), TX(3, 4, {1, 0, 5})), "a value of the future");
	cr_assert(JUDGE(TX(1, 9, {1, 5, 6}), TX(1, 9, {1, 6, 5})), "of each other");
	cr_assert(JUDGE(TX(1, 9, {1, 0, 5}), TX(1, 9, {1, 5, 5})), "the same value twice");
	cr_assert(JUDGE(TX(1, 20, {1, 0, 0}, {2, 0, 6}), TX(2, 3, {1, 0, 5}), TX(4, 5, {2, 0, 0})),
		  "only time says so");
	cr_assert(!JUDGE(TX(1, 20, {1, 0, 0}, {2, 0, 6}), TX(2, 3, {1, 0, 5}), TX(3, 5, {2, 0, 0})),
		  "at the same time is neither before nor after");
}

Test(tx_history, of_transactions_that_nobody_was_told_of)
{
	cr_assert(!JUDGE(TX(1, TX_NEVER, {1, 0, 5}), TX(3, 4, {1, 0, 6})), "it was not made");
	cr_assert(!JUDGE(TX(1, TX_NEVER, {1, 0, 5}), TX(3, 4, {1, 5, 6})), "it was made");
	cr_assert(
		!JUDGE(TX(1, TX_NEVER, {1, 0, 5}), TX(2, TX_NEVER, {1, 5, 6}), TX(3, 4, {1, 6, 0})),
		"two of them");
	cr_assert(JUDGE(TX(1, TX_NEVER, {1, 0, 5}, {2, 0, 6}), TX(3, 4, {1, 5, 0}),
			TX(5, 6, {2, 0, 0})),
		  "a half of it");
	cr_assert(JUDGE({.begin = 1, .end = 2, .aborted = true, .count = 1, .events = {{1, 0, 5}}},
			TX(3, 4, {1, 5, 0})),
		  "it was aborted");
}

/* ---- all orders ---- */

static bool may_be_next(const struct tx_transaction *all, size_t count, unsigned int done,
			size_t next)
{
	for (size_t i = 0; i < count; i++) {
		if (!(done & 1U << i) && !all[i].aborted && all[i].end < all[next].begin)
			return false;
	}
	return true;
}

/* apply -- false: it has not read what is there */
static bool apply(const struct tx_transaction *one, const uint64_t *before, uint64_t *after)
{
	memcpy(after, before, KEYS * sizeof(*after));
	for (unsigned int j = 0; j < one->count; j++) {
		const struct tx_event *event = &one->events[j];

		if (before[event->key] != event->read)
			return false;
		if (event->written)
			after[event->key] = event->written;
	}
	return true;
}

/* is_possible -- an order of those that are left, without those that were aborted; if nobody was
 * told of one it may be left out */
static bool is_possible(const struct tx_transaction *all, size_t count, unsigned int done,
			const uint64_t *values)
{
	uint64_t after[KEYS];
	bool left = false;

	for (size_t i = 0; i < count; i++) {
		if (done & 1U << i || all[i].aborted)
			continue;
		left |= all[i].end != TX_NEVER;
		if (may_be_next(all, count, done, i) && apply(&all[i], values, after) &&
		    is_possible(all, count, done | 1U << i, after))
			return true;
	}
	return !left;
}

/* draw -- transactions at random times.  They are executed in an order that may be a wrong one, and
 * now and then one reads what was there before. */
static size_t draw(struct tx_transaction *all)
{
	uint64_t values[KEYS] = {0}, older[KEYS] = {0}, written = 0;
	size_t count = 2 + (size_t) rand() % (MOST - 1);
	uint64_t at = 1;

	for (size_t i = 0; i < count; i++) {
		unsigned int first = (unsigned int) rand() % KEYS;
		struct tx_transaction *one = &all[i];

		at += (uint64_t) rand() % 4;
		*one = (struct tx_transaction){.begin = at,
					       .end = at + (uint64_t) rand() % 8,
					       .count = 1 + (unsigned int) rand() % KEYS};
		if (rand() % 6 == 0)
			one->end = TX_NEVER;
		one->aborted = one->end != TX_NEVER && rand() % 12 == 0;
		for (unsigned int j = 0; j < one->count; j++) {
			unsigned int key = (first + j) % KEYS;
			bool old = rand() % 8 == 0;

			one->events[j] = (struct tx_event){key, old ? older[key] : values[key],
							   rand() % 2 ? ++written : 0};
			if (one->events[j].written && rand() % 8) {
				older[key] = values[key];
				values[key] = one->events[j].written;
			}
		}
	}
	return count;
}

/* swap -- two transactions' times, so that those are seldom in their order */
static void swap(struct tx_transaction *one, struct tx_transaction *other)
{
	uint64_t begin = one->begin, end = one->end;

	if (one->end == TX_NEVER || other->end == TX_NEVER)
		return;
	one->begin = other->begin;
	one->end = other->end;
	other->begin = begin;
	other->end = end;
}

Test(tx_history, each_verdict_is_that_of_all_orders)
{
	const uint64_t zeros[KEYS] = {0};
	unsigned int right = 0, wrong = 0;

	srand(1);
	for (unsigned int i = 0; i < 200000; i++) {
		struct tx_transaction all[MOST];
		size_t count = draw(all);
		bool possible;

		if (rand() % 2)
			swap(&all[rand() % (int) count], &all[rand() % (int) count]);
		possible = is_possible(all, count, 0, zeros);
		cr_assert_eq(tx_judge_history(all, count).wrong, !possible, "history %u: %s", i,
			     tx_judge_history(all, count).why);
		right += possible;
		wrong += !possible;
	}
	cr_assert_gt(right, 20000);
	cr_assert_gt(wrong, 20000);
}
