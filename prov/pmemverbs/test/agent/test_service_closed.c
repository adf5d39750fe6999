/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_service_closed.c -- regions and endpoints that are closed while requests are served
 *
 * The agent holds no region from one round to the next, nor while others are synced.  What it finds
 * closed at a later step is not durable, so the request fails.  Nothing is stored for an endpoint
 * that is closed: its peer may have written newer data since, on another connection.
 */
#include "test/support/pair.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "agent/agent.h"
#include "agent/chain_message.h"

/* The region of that memory is closed at the first flush of another one. */
struct closing {
	struct pair *pair;
	enum pair_memory memory;
	pthread_t thread;
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
	struct closing closing = {.pair = pair_open(NULL), .memory = PAGE};

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
Test(agent, stores_nothing_to_a_region_that_is_closed_while_others_are_synced)
{
	struct closing closing = {.pair = pair_open(NULL), .memory = READ_DMP};
	struct pmv_flush_message message = {
		.count = 2,
		.ordered = true,
		.ranges = {pair_range(closing.pair, PAGE, 0, 10),
			   pair_range(closing.pair, READ_DMP, 0, 5)},
	};

	message_carry(&message, "handshake");
	pair_tell(closing.pair, &message);
	close_meanwhile(&closing);
	pair_serve(closing.pair);
	expect_done(closing.pair, "Y D K");
	pair_expect_ack(closing.pair, 1, PMV_FAULT_ACCESS);
	cr_expect_eq(closing.pair->memory[READ_DMP][0], 0);
	pair_close(closing.pair);
}

static void *close_now(void *arg)
{
	struct closing *closing = arg;

	pair_unregister(closing->pair, closing->memory);
	return NULL;
}

/* close_in_thread -- another thread begins to, and waits */
static void close_in_thread(void *arg)
{
	struct closing *closing = arg;

	closing->pair->on_event = NULL;
	cr_assert_eq(pthread_create(&closing->thread, NULL, close_now, closing), 0);
	while (!atomic_load(&pair_agent(closing->pair)->regions.removing))
		sched_yield();
}

/* Where data are to be stored a region stays until they are. */
Test(agent, stores_to_a_region_before_it_is_closed)
{
	struct closing closing = {.pair = pair_open(NULL), .memory = READ_DMP};
	struct pmv_flush_message message = {
		.count = 2,
		.ranges = {pair_range(closing.pair, DMP, 0, 10),
			   pair_range(closing.pair, READ_DMP, 0, 5)},
	};

	message_carry(&message, "handshake");
	pair_tell(closing.pair, &message);
	closing.pair->on_event = close_in_thread;
	closing.pair->on_event_arg = &closing;
	pair_serve(closing.pair);
	pthread_join(closing.thread, NULL);
	expect_done(closing.pair, "F S F D K");
	pair_expect_ack(closing.pair, 1, PMV_FAULT_NONE);
	cr_expect_arr_eq(closing.pair->memory[READ_DMP], "hands", 5);
	pair_close(closing.pair);
}

/*
 * The second request may rely on what an earlier one of its batch has named in that region; with
 * a fault among them, each region is looked up again.
 */
Test(agent, fails_what_names_a_region_that_is_closed_after_another_fault)
{
	struct closing closing = {.pair = pair_open(NULL), .memory = MHP};

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

/* Endpoints */

#define NEWER 7

/* close_and_write -- the peer goes on, on another connection */
static void close_and_write(struct pair *target)
{
	rig_close_ep(target->away);
	target->memory[PAGE][0] = NEWER;
}

/* The last moment before the lock is taken under which data are stored: at pages of a file. */
static struct pair *closed_at_pages;

void __real_pmv_region_fault_in(const struct pmv_region *region, uint64_t offset, uint64_t len,
				bool writes);
void __wrap_pmv_region_fault_in(const struct pmv_region *region, uint64_t offset, uint64_t len,
				bool writes);

void __wrap_pmv_region_fault_in(const struct pmv_region *region, uint64_t offset, uint64_t len,
				bool writes)
{
	struct pair *target = closed_at_pages;

	__real_pmv_region_fault_in(region, offset, len, writes);
	closed_at_pages = NULL;
	if (target)
		close_and_write(target);
}

static void close_before_it_stores(struct pair *target, struct pmv_flush_message *message)
{
	pair_tell(target, message);
	closed_at_pages = target;
	pair_serve(target);
	cr_expect_null(target->away->ep);
	cr_expect_eq(target->memory[PAGE][0], NEWER);
	pair_close(target);
}

Test(agent, stores_no_data_of_an_endpoint_that_was_closed)
{
	struct pair *target = pair_open(NULL);
	struct pmv_flush_message message = {.count = 1, .ranges = {pair_range(target, PAGE, 0, 5)}};

	message_carry(&message, "older");
	close_before_it_stores(target, &message);
}

Test(agent, executes_no_step_for_an_endpoint_that_was_closed)
{
	struct pair *target = pair_open(NULL);
	struct pmv_range place = pair_range(target, PAGE, 0, 8);
	struct pmv_chain chain = {.count = 1};
	struct pmv_flush_message message = {.count = 1, .store = true, .chain = true};

	chain.steps[0] = (struct pmv_chain_step){.head = {.kind = PMV_CHAIN_WRITE,
							  .len = 8,
							  .addr = place.addr,
							  .key = (uint32_t) place.key},
						 .operand = (const uint8_t *) "older data"};
	message.ranges[0].len =
		pmv_chain_encode((uint8_t *) (message.ranges + 1), PMV_STORE_ROOM(1), &chain);
	close_before_it_stores(target, &message);
}

/* Another thread closes the endpoint while its data are being stored. */
struct closer {
	struct pair *target;
	pthread_t thread;
	bool started;
	atomic_bool closed;
};

static void *close_beside(void *arg)
{
	struct closer *closer = arg;

	rig_close_ep(closer->target->away);
	atomic_store(&closer->closed, true);
	return NULL;
}

/* is_held -- by another thread */
static bool is_held(pthread_mutex_t *lock)
{
	bool held = pthread_mutex_trylock(lock) == EBUSY;

	if (!held)
		pthread_mutex_unlock(lock);
	return held;
}

/*
 * begin_to_close -- until it is done, or waits for the store that calls this: then it has the lock
 * for good, and not for a moment
 */
static void begin_to_close(void *arg)
{
	struct closer *closer = arg;
	struct pair *target = closer->target;
	int open = target->away->fake.open_objects, held = 0;

	if (closer->started)
		return;
	closer->started = true;
	cr_assert_eq(pthread_create(&closer->thread, NULL, close_beside, closer), 0);
	while (!atomic_load(&closer->closed) && held < 1000) {
		bool waits = target->away->fake.open_objects != open &&
			     is_held(&pair_agent(target)->lock);

		held = waits ? held + 1 : 0;
		sched_yield();
	}
	cr_expect_not(atomic_load(&closer->closed));
}

Test(agent, closes_no_endpoint_while_it_stores_its_data, .timeout = 60)
{
	struct closer closer = {.target = pair_open(NULL)};
	struct pmv_flush_message message = {.count = 1,
					    .ranges = {pair_range(closer.target, DMP, 0, 5)}};

	message_carry(&message, "older");
	pair_tell(closer.target, &message);
	closer.target->on_event = begin_to_close;
	closer.target->on_event_arg = &closer;
	pair_serve(closer.target);
	cr_assert(closer.started);
	pthread_join(closer.thread, NULL);
	cr_expect_arr_eq(closer.target->memory[DMP], "older", 5);
	pair_close(closer.target);
}
