/* SPDX-License-Identifier: BSD-2-Clause */
/* test_look.c -- which mailboxes are looked into, and for how long */
#include <criterion/criterion.h>

#include "agent/mailbox.h"
#include "test/support/pair.h"

#define SECOND INT64_C(1000000000)

static void serve_at(struct pair *pair, int64_t now)
{
	pmv_look_served(&pair->to->domain->agent.looks, &pair->to->mailbox.receiver, now);
}

Test(look, window_follows_the_time_between_requests)
{
	struct pair *pair = pair_open(&(struct pair_options){.hints = true});
	struct pmv_looks *looks = &pair->to->domain->agent.looks;
	const struct pmv_look *look = &pair->to->mailbox.receiver.look;
	int64_t now = 100 * SECOND;

	looks->bound_ns = SECOND / 1000;
	serve_at(pair, now);
	cr_expect_eq(look->expect.window_ns, 50000);
	cr_expect_eq(looks->until_ns, now + 50000);
	/* It grows to twice the time, up to the bound ... */
	serve_at(pair, now += 100000);
	cr_expect_eq(look->expect.window_ns, 200000);
	serve_at(pair, now += 500000);
	cr_expect_eq(look->expect.window_ns, 1000000);
	cr_expect_eq(look->expect.until_ns, now + 1000000);
	/* ... also where that is less: a peer counts on three quarters of it ... */
	serve_at(pair, now += 750000);
	cr_expect_eq(look->expect.window_ns, 1000000);
	/* ... stays while requests come sooner ... */
	serve_at(pair, now += 1000);
	cr_expect_eq(look->expect.window_ns, 1000000);
	/* ... and shrinks where they come too late for any window. */
	for (int64_t window = 500000; window > 50000; window /= 2) {
		serve_at(pair, now += SECOND);
		cr_expect_eq(look->expect.window_ns, window);
	}
	serve_at(pair, now += SECOND);
	serve_at(pair, now += SECOND);
	cr_expect_eq(look->expect.window_ns, 50000);
	serve_at(pair, now += 750001);
	cr_expect_eq(look->expect.window_ns, 50000);
	serve_at(pair, now += 750000);
	cr_expect_eq(look->expect.window_ns, 1000000);
	pair_close(pair);
}

Test(look, stays_active_without_hints_and_while_there_is_work)
{
	struct pair *pair = pair_open(&(struct pair_options){.hints = true});
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pmv_mailbox *to = &pair->to->mailbox;

	pmv_look_park(&agent->looks, 10 * SECOND);
	cr_expect_not(to->receiver.look.parked, "no hint has come");
	pmv_look_hinted(&agent->looks, &to->receiver, false, 10 * SECOND);
	pmv_look_park(&agent->looks, 10 * SECOND);
	cr_expect_not(to->receiver.look.parked, "its time is not over");
	pmv_receiver_queue_ack(&to->receiver, 1, PMV_FAULT_NONE);
	pmv_look_park(&agent->looks, 11 * SECOND);
	cr_expect_not(to->receiver.look.parked, "an acknowledgement is to be sent");
	cr_expect(agent->looks.unfinished);
	to->receiver.num_queued = 0;
	to->receiver.lacks_room = true;
	pmv_look_park(&agent->looks, 11 * SECOND);
	cr_expect_not(to->receiver.look.parked, "it waits for room");
	cr_expect_not(agent->looks.unfinished, "... and is told of it");
	to->receiver.lacks_room = false;
	to->receiver.events.has_pending = true;
	pmv_look_park(&agent->looks, 11 * SECOND);
	cr_expect_not(to->receiver.look.parked, "events wait for room");
	to->receiver.events.has_pending = false;
	pmv_look_park(&agent->looks, 11 * SECOND);
	cr_expect(to->receiver.look.parked);
	cr_expect_eq(pmv_look_find(&agent->looks, pair->from->mailbox.link.peer.key),
		     &to->receiver);
	cr_expect_null(pmv_look_find(&agent->looks, pair->from->mailbox.link.peer.key + 1000));
	pair_close(pair);
}
