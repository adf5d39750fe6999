/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_service.c -- the agent: told by hand, with many connections, and with threads
 *
 * What becomes of an initiator's commits is in test_flush_request.c and
 * test_ordering_agent.c.
 */
#include "test/support/pair.h"
#include "commit/run.h"

#include <string.h>
#include <unistd.h>

/* Told by hand */

Test(agent, flushes_exactly_what_is_named_then_drains_then_acknowledges)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message = {
		.count = 3,
		.ranges = {pair_range(pair, DMP, 3, 5), pair_range(pair, DMP, PAIR_SIZE - 1, 1),
			   pair_range(pair, DMP, 9, 4096)},
	};

	pair_serve(pair);
	expect_done(pair, "");
	pair_tell(pair, &message);
	pair_serve(pair);
	expect_done(pair, "F F F D K");
	cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 3, 5));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 1), DMP, 9, 4096));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 2), DMP, PAIR_SIZE - 1, 1));
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pair_serve(pair);
	expect_done(pair, "");
	pair_close(pair);
}

/* Its thread looks often as long as something can't be made durable without it. */
Test(agent, is_needed_by_the_regions_that_only_it_flushes)
{
	struct pair *pair = pair_open(NULL);
	atomic_int *needed = &pair_agent(pair)->needed;
	int all = atomic_load(needed);

	for (int memory = 0; memory < PAIR_MEMORIES; memory++) {
		bool needs = memory != READ_DMP && memory != MHP;

		pair_unregister(pair, memory);
		all -= needs;
		cr_expect_eq(atomic_load(needed), all, "memory %d", memory);
	}
	cr_expect_eq(all, 0);
	pair_close(pair);
}

Test(agent, flushes_a_region_of_several_pieces_piece_by_piece)
{
	struct pair *pair = pair_open(NULL);
	struct iovec iov[] = {{pair->memory[DMP], 100}, {pair->memory[MHP] + 4096, 100}};
	const struct pmv_region_attr attr = {
		.key = 5,
		.persist = PMV_DMP,
		.use = PMV_REGION_REMOTE,
		.iov = iov,
		.iov_count = 2,
		.needs_agent = true,
	};
	struct pmv_region *region;

	accepted(pmv_agent_add_region(pair_agent(pair), &attr, -1, &region));
	pair_tell_range(pair, (struct pmv_range){90, 30, 5});
	pair_serve(pair);
	expect_done(pair, "F F D K");
	cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 90, 10));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 1), MHP, 4096, 20));
	pmv_agent_remove_region(pair_agent(pair), region);
	pair_close(pair);
}

Test(agent, syncs_each_region_once_in_a_batch)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message first = {
		.count = 3,
		.ranges = {pair_range(pair, PAGE, 5000, 10), pair_range(pair, PAGE_TOO, 9000, 10),
			   pair_range(pair, PAGE, 3000, 10)},
	};
	struct pmv_flush_message second = {
		.count = 2,
		.ranges = {pair_range(pair, PAGE, 20000, 7), pair_range(pair, DMP, 100, 10)},
	};
	const struct pair_event *one, *other;

	pair_tell(pair, &first);
	pair_tell(pair, &second);
	pair_serve(pair);
	expect_done(pair, "F Y Y D K");
	one = pair_event(pair, 'Y', 0);
	other = pair_event(pair, 'Y', 1);
	if (pair_is(pair, one, PAGE_TOO, 9000, 10)) {
		other = one;
		one = pair_event(pair, 'Y', 1);
	}
	cr_expect(pair_is(pair, one, PAGE, 3000, 20007 - 3000));
	cr_expect(pair_is(pair, other, PAGE_TOO, 9000, 10));
	pair_expect_ack(pair, 2, PMV_FAULT_NONE);
	pair_close(pair);
}

Test(agent, has_no_need_to_flush_caches_that_persist)
{
	struct pair *pair = pair_open(NULL);

	pair_tell_of(pair, MHP, 0, 100);
	pair_serve(pair);
	expect_done(pair, "D K");
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pair_close(pair);
}

/* The kernel reports a failure once, to whoever syncs first, whatever region lost its data. */
Test(agent, never_trusts_files_again_that_were_there_when_one_could_not_be_synced)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	pair_tell_of(pair, PAGE, 0, 10);
	pair_tell_of(pair, DMP, 0, 10);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	pair_expect_ack(pair, 2, PMV_FAULT_NONE);
	pair->sync_fails = false;
	pair_tell_of(pair, PAGE, 4096, 10);
	pair_tell_of(pair, PAGE_TOO, 4096, 10);
	pair_tell_of(pair, DMP, 4096, 10);
	pair_serve(pair);
	pair_expect_ack(pair, 3, PMV_FAULT_IO);
	pair_expect_ack(pair, 4, PMV_FAULT_IO);
	pair_expect_ack(pair, 5, PMV_FAULT_NONE);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	pair_close(pair);
}

Test(agent, fails_all_messages_of_a_batch_whose_sync_failed)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	pair_tell_of(pair, PAGE, 0, 10);
	pair_tell_of(pair, PAGE, 8192, 10);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	pair_expect_ack(pair, 2, PMV_FAULT_IO);
	pair_close(pair);
}

Test(agent, stores_data_only_after_a_sync_that_succeeded)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message = {
		.count = 2,
		.ranges = {pair_range(pair, PAGE, 0, 10), pair_range(pair, DMP, 0, 5)},
		.ordered = true,
	};

	message_carry(&message, "handshake");
	pair->sync_fails = true;
	pair_tell(pair, &message);
	pair_serve(pair);
	expect_done(pair, "Y D K");
	cr_expect_eq(pair->memory[DMP][0], 0);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	pair_close(pair);
}

Test(agent, flushes_what_there_is_of_a_message_with_a_fault)
{
	struct pair *pair = pair_open(NULL);
	const struct pmv_range bad[] = {
		{pair_addr(pair, DMP, 0), 10, 0xdead},
		pair_range(pair, DMP, PAIR_SIZE - 5, 6),
		pair_range(pair, DMP, PAIR_SIZE + 1, 0),
		pair_range(pair, DMP, (size_t) -1, 1),
		pair_range(pair, DMP, 0, SIZE_MAX),
		{UINT64_MAX, 1, (uint32_t) pair_key(pair, DMP)},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pmv_flush_message message = {
			.count = 3,
			.ranges = {pair_range(pair, DMP, 64, 8), bad[i],
				   pair_range(pair, DMP, 256, 9)},
		};

		pair->num_events = pair->shown_events = 0;
		pair_tell(pair, &message);
		pair_serve(pair);
		expect_done(pair, "F F D K");
		cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 64, 8));
		cr_expect(pair_is(pair, pair_event(pair, 'F', 1), DMP, 256, 9));
		pair_expect_ack(pair, i + 1, PMV_FAULT_ACCESS);
	}
	pair_close(pair);
}

Test(agent, stores_nothing_where_nobody_may)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message = {
		.count = 2,
		.ranges = {pair_range(pair, DMP, 64, 8), pair_range(pair, DMP, PAIR_SIZE - 4, 5)},
	};

	message_carry(&message, "handshake");
	pair_tell(pair, &message);
	pair_serve(pair);
	expect_done(pair, "F D K");
	pair_expect_ack(pair, 1, PMV_FAULT_ACCESS);
	cr_expect_eq(pair->memory[DMP][PAIR_SIZE - 4], 0);
	pair_close(pair);
}

/* Whole, but with one byte that no message has. */
static void spoil_at(struct pair *pair, uint64_t number, size_t at, uint8_t value)
{
	struct pmv_mailbox *mailbox = &pair->to->mailbox;
	uint8_t *slot = mailbox->link.block + number % PMV_SLOTS * PMV_MESSAGE_SIZE;
	size_t len = slot[16] + 256U * slot[17];

	slot[at] = value;
	reseal(slot, len, &mailbox->receiver.message_in);
}

static void spoil(struct pair *pair, uint64_t number)
{
	spoil_at(pair, number, offsetof(struct pmv_flush_message, flags), 0x80);
}

/* What is behind it may be anything: nothing more is served, and the peer is told so first. */
static void expect_end_at(size_t at, uint8_t value)
{
	struct pair *pair = pair_open(NULL);

	pair_tell_of(pair, DMP, 0, 8);
	pair_tell_of(pair, DMP, 64, 8);
	pair_tell_of(pair, DMP, 128, 8);
	spoil_at(pair, 2, at, value);
	pmv_agent_progress(pair_agent(pair));
	expect_done(pair, "F D K K");
	pmv_agent_progress(pair_agent(pair));
	cr_expect_eq(pair->away->fake.shutdowns, 0, "the acknowledgement is under way");
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pair_expect_ack(pair, 2, PMV_FAULT_MESSAGE);
	for (int i = 0; i < 3; i++)
		pair_serve(pair);
	cr_expect_eq(pair->away->fake.shutdowns, 1);
	pair_tell_of(pair, DMP, 192, 8);
	pair_serve(pair);
	expect_done(pair, "");
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	pair_close(pair);
}

Test(agent, ends_the_connection_of_a_message_that_makes_no_sense)
{
	expect_end_at(offsetof(struct pmv_flush_message, flags), 0x80);
	expect_end_at(offsetof(struct pmv_envelope, content), PMV_CONTENT_FLUSH + 1);
	/* An empty one contains nothing. */
	expect_end_at(offsetof(struct pmv_envelope, content), PMV_CONTENT_NONE);
}

/* The peer may read nothing any more, so that nothing is ever sent. */
Test(agent, ends_the_connection_though_the_acknowledgement_is_never_sent)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_agent *agent = pair_agent(pair);

	pair_tell_of(pair, DMP, 0, 8);
	spoil(pair, 1);
	pmv_agent_progress(agent);
	pmv_agent_progress(agent);
	cr_expect_eq(pair->away->fake.shutdowns, 0, "the acknowledgement is under way");
	pair->to->initiator.mailbox->receiver.end_by_ns = 1;
	pmv_agent_progress(agent);
	cr_expect_eq(pair->away->fake.shutdowns, 1);
	pair_close(pair);
}

/* Such a peer need not answer what it is asked. */
Test(agent, ends_the_connection_also_while_a_request_to_that_peer_is_under_way)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_run *request = pmv_run_get_own(&pair->to->initiator, NULL);
	struct pmv_op *commit = pmv_op_get(&pair->to->initiator.owner, PMV_OP_APPLICATION);

	cr_assert(request && commit);
	/* One of an application that reads no queue for it. */
	commit->flags = FI_RMA | FI_WRITE;
	commit->told.ordinary = true;
	pair_tell_of(pair, DMP, 0, 8);
	spoil(pair, 1);
	for (int i = 0; i < 3; i++)
		pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_MESSAGE);
	cr_expect_eq(pair->away->fake.shutdowns, 1);
	pmv_op_done(pair->to->initiator.owner.pool, commit, 0, 0);
	pmv_op_done(pair->to->initiator.owner.pool, &request->op, 0, 0);
	pair_close(pair);
}

Test(agent, takes_messages_in_their_order_only)
{
	struct pair *pair = pair_open(NULL);

	pair->told = 1;
	pair_tell_of(pair, DMP, 0, 8);
	pair_serve(pair);
	expect_done(pair, "");
	pair->told = 0;
	pair_tell_of(pair, DMP, 64, 8);
	pair_serve(pair);
	expect_done(pair, "F F D K");
	cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 64, 8));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 1), DMP, 0, 8));
	/* Once more the same one. */
	pair->told = 1;
	pair_tell_of(pair, DMP, 0, 8);
	pair_serve(pair);
	expect_done(pair, "");
	pair_close(pair);
}

Test(agent, takes_a_message_when_all_of_it_has_arrived)
{
	struct pair *pair = pair_open(NULL);
	uint8_t *slot = pair->to->mailbox.link.block + PMV_MESSAGE_SIZE;

	pair_tell_of(pair, DMP, 0, 8);
	slot[40] ^= 1;
	pair_serve(pair);
	expect_done(pair, "");
	slot[40] ^= 1;
	pair_serve(pair);
	expect_done(pair, "F D K");
	pair_close(pair);
}

Test(agent, acknowledges_when_there_is_room_and_serves_only_once)
{
	struct pair *pair = pair_open(NULL);

	pair->away->fake.room = 0;
	pair_tell_of(pair, DMP, 0, 8);
	pair_serve(pair);
	pair_serve(pair);
	cr_expect_eq(pair->away->fake.num_posts, 0);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	/* The acknowledgement that waits is posted first. */
	pair_tell_of(pair, DMP, PAIR_SIZE, 8);
	pair_tell_of(pair, DMP, PAIR_SIZE, 8);
	pair_serve(pair);
	pair->away->fake.room = 2;
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pair_serve(pair);
	pair->away->fake.room = -1;
	pair_serve(pair);
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_ACCESS);
	pair_expect_ack(pair, 3, PMV_FAULT_ACCESS);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	cr_expect_eq(pair_event(pair, 'F', 0), pair->events, "the first thing that was done");
	for (size_t i = 1; i < pair->num_events; i++)
		cr_expect_neq(pair->events[i].what, 'F', "was done once");
	pair_close(pair);
}

Test(agent, does_not_care_for_a_peer_that_is_gone)
{
	struct pair *pair = pair_open(NULL);

	pair->away->fake.fail_in = 1;
	pair->away->fake.fail_err = FI_ENOTCONN;
	pair_tell_of(pair, DMP, 0, 8);
	pair_serve(pair);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	rig_expect_nothing(pair->away);
	pair_close(pair);
}

Test(agent, application_does_not_hear_of_acknowledgements_that_fail)
{
	struct pair *pair = pair_open(NULL);

	pair_tell_of(pair, DMP, 0, 8);
	pmv_agent_progress(pair_agent(pair));
	cr_expect_eq(fake_under_way(&pair->away->fake), 1);
	fake_fail_all(&pair->away->fake, FI_EIO, 5);
	rig_expect_nothing(pair->away);
	pair_close(pair);
}

Test(agent, serves_at_any_read_of_a_queue)
{
	struct pair *pair = pair_open(NULL);

	pair_tell_of(pair, DMP, 0, 8);
	rig_expect_nothing(pair->away);
	expect_done(pair, "F D K");
	pair_close(pair);
}

Test(agent, knows_nothing_of_a_region_that_was_closed)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_range range = pair_range(pair, DMP, 0, 8);

	pair_unregister(pair, DMP);
	pair_tell_range(pair, range);
	pair_serve(pair);
	expect_done(pair, "K");
	pair_expect_ack(pair, 1, PMV_FAULT_ACCESS);
	pair_close(pair);
}

Test(agent, never_looks_at_a_mailbox_that_was_closed)
{
	struct pair *pair = pair_open(NULL);

	pair_tell_of(pair, DMP, 0, 8);
	rig_close_ep(pair->away);
	pair_serve(pair);
	expect_done(pair, "");
	pair_close(pair);
}

/* Each of its acknowledgements is an operation of the domain, which others need as well. */
Test(agent, leaves_few_acknowledgements_with_a_peer_that_takes_none)
{
	struct pair *pair = pair_open(NULL);
	struct fake *away = &pair->away->fake;
	size_t before = fake_under_way(away);

	for (unsigned int i = 0; i < 3 * PMV_SLOTS; i++) {
		pair_tell_of(pair, DMP, 0, 8);
		pmv_agent_serve(pair_agent(pair));
	}
	cr_expect_eq(fake_under_way(away) - before, PMV_SLOTS);
	/* It has taken some: then it hears of all that were served. */
	cr_expect_eq(fake_complete(away, 10), 10);
	pmv_agent_serve(pair_agent(pair));
	pmv_agent_serve(pair_agent(pair));
	cr_expect_gt(fake_under_way(away) - before, PMV_SLOTS - 10);
	fake_complete(away, 2 * PMV_SLOTS);
	pair_close(pair);
}
