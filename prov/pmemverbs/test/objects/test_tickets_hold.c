/* SPDX-License-Identifier: BSD-2-Clause */
/* test_tickets_hold.c -- a core that holds connections lets one go when the target is known */
#include "stage.h"

#include <string.h>

#include "pmemrdma/pmemrdma_post.h"

TestSuite(tickets_hold, .init = stage_setup, .fini = stage_teardown);

/* What the core has been told, in order. */
static char told[64];
static int establishes; /* what that returns */

static void note(const char *what)
{
	strcat(told, what);
}

static void core_holds(struct fid_ep *ep)
{
	(void) ep;
	note(client.rig->fake.connects ? "late " : "hold ");
}

static int core_establishes(struct fid_ep *ep)
{
	(void) ep;
	note("establish ");
	return establishes;
}

static unsigned core_flushes(struct fid_ep *ep)
{
	(void) ep;
	return 0;
}

static const struct pmemrdma_post_ops holding = {.size = sizeof(holding),
						 .flushes = core_flushes,
						 .hold = core_holds,
						 .establish = core_establishes};

/* answer -- the target accepts, and its answer arrives; changed: not all of it is as it was sent */
static void answer(bool changed)
{
	struct fake *fake = &target.rig->fake;

	pmv_to_ep(client.rig->ep)->engine.lists = &holding;
	await_ticket();
	raise_sent();
	expect_request();
	accepted(accept_ep());
	fake->sent[sizeof(SAYS) + 3] ^= changed;
	cr_expect_str_eq(told, "hold ");
	raise_connected(fake->sent, fake->sent_len);
}

Test(tickets_hold, ends_when_the_target_has_proved_its_key)
{
	union event event;
	uint32_t what;

	answer(false);
	cr_assert_gt(read_event(&client, &what, &event), 0);
	cr_expect_eq(what, FI_CONNECTED);
	cr_expect_str_eq(told, "hold establish ");
}

Test(tickets_hold, does_not_end_for_a_false_target)
{
	answer(true);
	await_error(FI_ECONNREFUSED);
	cr_expect_str_eq(told, "hold ");
	cr_expect_eq(client.rig->fake.shutdowns, 1);
}

Test(tickets_hold, ends_in_an_error_if_the_connection_can_not_begin)
{
	establishes = -FI_ENOMEM;
	answer(false);
	await_error(FI_ECONNREFUSED);
	cr_expect_eq(client.rig->fake.shutdowns, 1);
}
