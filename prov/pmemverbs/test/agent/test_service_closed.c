/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_service_closed.c -- regions that are closed while requests that name them are served
 *
 * The agent holds no region from one slice to the next.  What it finds closed at a later step
 * is not durable, so the request fails.
 */
#include "test/support/pair.h"

/* The region of that memory is closed at the first flush of another one. */
struct closing {
	struct pair *pair;
	enum pair_memory memory;
};

static void close_region(void *arg)
{
	struct closing *closing = arg;

	closing->pair->on_event = NULL;
	pair_unregister(closing->pair, closing->memory);
}

static void close_meanwhile(struct closing *closing)
{
	closing->pair->on_event = close_region;
	closing->pair->on_event_arg = closing;
}

/* The pages are to be synced at the end of the round. */
Test(agent, fails_what_names_pages_that_are_closed_before_they_are_synced)
{
	struct closing closing = {pair_open(NULL), PAGE};

	pair_tell_of(closing.pair, PAGE, 0, 10);
	pair_tell_of(closing.pair, DMP, 0, 10);
	close_meanwhile(&closing);
	pair_serve(closing.pair);
	expect_done(closing.pair, "F D K K");
	pair_expect_ack(closing.pair, 1, PMV_FAULT_ACCESS);
	pair_expect_ack(closing.pair, 2, PMV_FAULT_NONE);
	pair_close(closing.pair);
}

/* The store would go to memory that may be unmapped, or somebody else's. */
Test(agent, stores_nothing_to_a_region_that_is_closed_meanwhile)
{
	struct closing closing = {pair_open(NULL), READ_DMP};
	struct pmv_flush_message message = {
		.count = 2,
		.ranges = {pair_range(closing.pair, DMP, 0, 10),
			   pair_range(closing.pair, READ_DMP, 0, 5)},
	};

	message_carry(&message, "handshake");
	pair_tell(closing.pair, &message);
	close_meanwhile(&closing);
	pair_serve(closing.pair);
	expect_done(closing.pair, "F D K");
	pair_expect_ack(closing.pair, 1, PMV_FAULT_ACCESS);
	cr_expect_eq(closing.pair->memory[READ_DMP][0], 0);
	pair_close(closing.pair);
}

/*
 * The second request may rely on what an earlier one of its batch has named in that region; with
 * a fault among them, each region is looked up again.
 */
Test(agent, fails_what_names_a_region_that_is_closed_after_another_fault)
{
	struct closing closing = {pair_open(NULL), MHP};

	pair_tell_of(closing.pair, MHP, 0, 0);
	pair_tell_range(closing.pair, (struct pmv_range){0, 1, 0xdead});
	pair_tell_of(closing.pair, DMP, 0, 10);
	close_meanwhile(&closing);
	pair_serve(closing.pair);
	pair_expect_ack(closing.pair, 1, PMV_FAULT_ACCESS);
	pair_expect_ack(closing.pair, 2, PMV_FAULT_ACCESS);
	pair_expect_ack(closing.pair, 3, PMV_FAULT_NONE);
	pair_close(closing.pair);
}
