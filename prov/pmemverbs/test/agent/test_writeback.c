/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_writeback.c -- one peer costs a bounded share of the agent
 *
 * Requests that take many rounds, and endpoints and regions that are opened and closed while
 * memory is being written back.  What the thread does then is in test_thread_share.c.
 */
#include "slices.h"

#include <string.h>

/* Turns */

Test(writeback, what_is_named_again_is_flushed_once)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, NULL);
	struct pmv_flush_message message = {
		.count = 6,
		.ranges = {{4096, 100, BIG_KEY},
			   {0, 1000, BIG_KEY},
			   {1000, 24, BIG_KEY},
			   {500, 600, BIG_KEY},
			   {4096, 100, BIG_KEY},
			   {4000, 97, BIG_KEY}},
	};

	pair_tell(shared->pair, &message);
	pair_serve(shared->pair);
	pair_expect_ack(shared->pair, 1, PMV_FAULT_NONE);
	cr_expect_eq(done.flushed, 1100 + 196, "%d", (int) done.flushed);
	end_sharing(shared);
}

Test(writeback, small_commit_does_not_wait_for_a_large_one)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, NULL);
	struct pair *pair = shared->pair;

	for (int i = 0; i < 4; i++)
		tell_of(shared, 0, BIG_LEN);
	for (int round = 1; round <= 4 * SLICES; round++) {
		ask_for(shared, 64, 8);
		pair_serve(pair);
		cr_expect_eq(shared->other->mailbox.receiver.posted_acks, round, "round %d", round);
		cr_expect_eq(pair->to->mailbox.receiver.posted_acks, round / SLICES, "round %d",
			     round);
		cr_expect_eq(done.drains, round, "each round has one");
	}
	cr_expect_eq(done.flushed, 4 * BIG_LEN + UINT64_C(4) * SLICES * 8);
	cr_expect_leq(done.most, PMV_LINE_SLICE);
	for (int i = 1; i <= 4; i++)
		pair_expect_ack(pair, i, PMV_FAULT_NONE);
	end_sharing(shared);
}

/* What follows a large request on its connection waits for it. */
Test(writeback, requests_of_one_connection_stay_in_their_order)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, NULL);
	struct pair *pair = shared->pair;

	for (int i = 0; i < 3; i++)
		tell_of(shared, 0, 8);
	tell_of(shared, 0, PMV_LINE_SLICE + 1);
	tell_of(shared, 64, 8);
	pair_tell(pair, &(struct pmv_flush_message){.count = 1, .ranges = {{0, 8, 0xdead}}});
	pair_serve(pair);
	pair_expect_ack(pair, 3, PMV_FAULT_NONE);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	pair_serve(pair);
	pair_expect_ack(pair, 4, PMV_FAULT_NONE);
	pair_serve(pair);
	pair_expect_ack(pair, 5, PMV_FAULT_NONE);
	pair_expect_ack(pair, 6, PMV_FAULT_ACCESS);
	end_sharing(shared);
}

/* As many as there are places in a batch, all of which have much to do. */
Test(writeback, all_get_their_turn_though_everybody_asks_for_much)
{
	enum { CROWD = PMV_WRITEBACK_WORKS + 8 };
	struct shared *shared = share(PMV_DMP, BIG_LEN, NULL);
	struct pmv_flush_message message = {.count = 1, .ranges = {{0, BIG_LEN, BIG_KEY}}};
	struct pmv_ep *eps[CROWD];

	for (int i = 0; i < CROWD; i++) {
		eps[i] = pair_join(shared->pair);
		ask_at(&eps[i]->mailbox, &message, 1);
	}
	/* Each misses fewer rounds than there are connections. */
	for (int round = 0; round < SLICES + CROWD + 2; round++)
		pair_serve(shared->pair);
	for (int i = 0; i < CROWD; i++) {
		cr_expect_eq(eps[i]->mailbox.receiver.posted_acks, 1, "connection %d", i);
		accepted(fi_close(&eps[i]->ep_fid.fid));
	}
	end_sharing(shared);
}

/* Some always ask for as much as fits a batch, and in front of them are many that are idle. */
Test(writeback, few_that_ask_for_much_let_others_in)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message nothing = {0};
	struct pmv_ep *eps[40];

	/* The last one to come is the first in the list, and pair->to the last one. */
	for (int i = 0; i < 40; i++)
		eps[i] = pair_join(pair);
	pair_tell(pair, &nothing);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++) {
			for (uint64_t n = 1; n <= PMV_WINDOW; n++)
				ask_at(&eps[i]->mailbox, &nothing,
				       eps[i]->mailbox.receiver.served + n);
		}
		pair_serve(pair);
	}
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	for (int i = 0; i < 40; i++)
		accepted(fi_close(&eps[i]->ep_fid.fid));
	pair_close(pair);
}

Test(writeback, pages_that_lie_far_apart_are_not_synced_as_one)
{
	struct shared *shared = share(PMV_PAGE, 4 * PMV_PAGE_SLICE, NULL);
	struct pmv_flush_message message = {
		.count = 3,
		.ranges = {{0, 10, BIG_KEY},
			   {3 * PMV_PAGE_SLICE, 10, BIG_KEY},
			   {PMV_SYNC_COST / 2, 10, BIG_KEY}},
	};

	pair_tell(shared->pair, &message);
	pair_serve(shared->pair);
	pair_expect_ack(shared->pair, 1, PMV_FAULT_NONE);
	cr_expect_eq(done.syncs, 2);
	cr_expect_eq(done.synced, PMV_SYNC_COST / 2 + 20, "%d", (int) done.synced);
	end_sharing(shared);
}

static int fail_the_first_sync(void)
{
	return done.syncs == 1 ? -FI_EIO : 0;
}

/* More extents of pages than a batch has room for, so some are synced before the others. */
enum { PEERS = 7, EACH = 12 };

static void sync_many(int (*on_sync)(void), uint64_t syncs, uint64_t refused)
{
	struct shared *shared = share(PMV_PAGE, PEERS * EACH * PMV_PAGE_SLICE, NULL);
	struct pmv_ep *eps[PEERS];

	cr_assert_gt(PEERS * EACH, PMV_MAX_SYNCS);
	for (uint64_t i = 0; i < PEERS; i++) {
		struct pmv_flush_message message = {.count = EACH};

		for (uint64_t n = 0; n < EACH; n++)
			message.ranges[n] =
				(struct pmv_range){(i * EACH + n) * PMV_PAGE_SLICE, 10, BIG_KEY};
		eps[i] = pair_join(shared->pair);
		ask_at(&eps[i]->mailbox, &message, 1);
	}
	done.on_sync = on_sync;
	pair_serve(shared->pair);
	cr_expect_eq(done.syncs, syncs);
	cr_expect_eq(done.synced, 10 * (uint64_t) done.syncs);
	cr_expect_eq(shared->domain->agent.counts.refused, refused);
	for (int i = 0; i < PEERS; i++) {
		cr_expect_eq(eps[i]->mailbox.receiver.posted_acks, 1, "connection %d", i);
		accepted(fi_close(&eps[i]->ep_fid.fid));
	}
	end_sharing(shared);
}

Test(writeback, pages_of_many_connections_are_all_synced_in_one_round)
{
	sync_many(NULL, PEERS * EACH, 0);
}

/* The region is lost then, so nothing of it is synced any more. */
Test(writeback, pages_of_many_connections_fail_with_the_first_of_many_syncs)
{
	sync_many(fail_the_first_sync, 1, PEERS);
}

Test(writeback, pages_are_synced_in_slices)
{
	struct shared *shared = share(PMV_PAGE, 2 * PMV_PAGE_SLICE, NULL);
	int rounds = 0;

	tell_of(shared, 0, 2 * PMV_PAGE_SLICE);
	while (!shared->pair->to->mailbox.receiver.posted_acks) {
		uint64_t before = done.synced;

		ask_for(shared, 5, 8);
		pair_serve(shared->pair);
		cr_expect_eq(shared->other->mailbox.receiver.posted_acks, ++rounds);
		cr_assert_gt(done.synced, before);
		cr_expect_leq(done.synced - before, PMV_PAGE_SLICE + 13);
	}
	pair_expect_ack(shared->pair, 1, PMV_FAULT_NONE);
	cr_expect_gt(rounds, 2);
	end_sharing(shared);
}

static int fail_to_sync(void)
{
	return -FI_EIO;
}

/* ... though its last pages are written. */
Test(writeback, slice_that_can_not_be_synced_fails_its_request)
{
	struct shared *shared = share(PMV_PAGE, 2 * PMV_PAGE_SLICE, NULL);

	tell_of(shared, 0, 2 * PMV_PAGE_SLICE);
	done.on_sync = fail_to_sync;
	pair_serve(shared->pair);
	done.on_sync = NULL;
	for (int i = 0; i < 4; i++)
		pair_serve(shared->pair);
	pair_expect_ack(shared->pair, 1, PMV_FAULT_IO);
	end_sharing(shared);
}

/* Carried data follow what takes many rounds. */
Test(writeback, data_are_stored_when_all_slices_before_them_are_durable)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, NULL);
	struct pair *pair = shared->pair;
	struct pmv_range to = {pair_addr(pair, DMP, 0), 5, (uint32_t) pair_key(pair, DMP)};
	struct pmv_flush_message message = {
		.count = 2, .ranges = {{0, BIG_LEN, BIG_KEY}, to}, .ordered = true};
	struct pmv_flush_message bad = {.count = 1, .ranges = {{0, 8, 0xdead}}};

	message_carry(&message, "handshake");
	pair_tell(pair, &message);
	for (int round = 1; round < SLICES; round++) {
		pair_serve(pair);
		cr_expect_eq(pair->memory[DMP][0], 0);
	}
	pair_serve(pair);
	cr_expect_eq(memcmp(pair->memory[DMP], "handshake", 5), 0);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);

	/* A fault is remembered, although it is acknowledged rounds before. */
	memset(pair->memory[DMP], 0, 5);
	/* Number 3, whose sender has the acknowledgement of number 1 only. */
	message.envelope.unacked = 1;
	pair_tell(pair, &bad);
	pair_tell(pair, &message);
	for (int round = 0; round < SLICES + 1; round++)
		pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_ACCESS);
	pair_expect_ack(pair, 3, PMV_FAULT_IO);
	cr_expect_eq(pair->memory[DMP][0], 0);
	end_sharing(shared);
}

/* Who opens and closes */

Test(writeback, region_may_go_between_two_slices)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, NULL);

	tell_of(shared, 0, BIG_LEN);
	pair_serve(shared->pair);
	pmv_agent_remove_region(&shared->domain->agent, shared->region);
	/* Another one that has got the same key is not what was meant. */
	shared->region = add_big(shared, PMV_DMP, BIG_LEN);
	for (int i = 0; i < SLICES; i++)
		pair_serve(shared->pair);
	pair_expect_ack(shared->pair, 1, PMV_FAULT_ACCESS);
	cr_expect_eq(done.flushed, PMV_LINE_SLICE);
	end_sharing(shared);
}

static struct shared *current;
static struct pmv_ep *opened;

/* All that somebody may do while memory is flushed, in this thread: nothing of it waits. */
static void open_and_close(void)
{
	struct shared *shared = current;

	done.on_flush = NULL;
	accepted(fi_close(&shared->other->ep_fid.fid));
	shared->other = NULL;
	opened = pair_join(shared->pair);
	rig_close_ep(shared->pair->away);
	pair_unregister(shared->pair, DMP);
}

Test(writeback, who_opens_or_closes_waits_for_no_flush, .timeout = 30)
{
	struct shared *shared = current = share(PMV_DMP, BIG_LEN, NULL);

	tell_of(shared, 0, BIG_LEN);
	ask_for(shared, 0, 8);
	done.on_flush = open_and_close;
	for (int i = 0; i < SLICES; i++)
		pair_serve(shared->pair);
	cr_expect_null(done.on_flush);
	/* What closed endpoints have asked for is dropped. */
	cr_expect_leq(done.flushed, PMV_LINE_SLICE + 8);
	pair_expect_ack(shared->pair, 0, PMV_FAULT_NONE);
	shared->other = opened;
	shared->told = 0;
	ask_for(shared, 0, 8);
	pair_serve(shared->pair);
	cr_expect_eq(opened->mailbox.receiver.posted_acks, 1);
	end_sharing(shared);
}

static void fail_to_close(void)
{
	done.on_flush = NULL;
	current->pair->away->fake.on_close = FAKE_CLOSE_IS_BUSY;
	refused(fi_close(&current->pair->away->ep->fid), FI_EBUSY);
	current->pair->away->fake.on_close = FAKE_CLOSE_CANCELS;
}

Test(writeback, endpoint_that_can_not_be_closed_is_served_on)
{
	struct shared *shared = current = share(PMV_DMP, BIG_LEN, NULL);

	tell_of(shared, 0, BIG_LEN);
	done.on_flush = fail_to_close;
	for (int i = 0; i <= SLICES; i++)
		pair_serve(shared->pair);
	pair_expect_ack(shared->pair, 1, PMV_FAULT_NONE);
	end_sharing(shared);
}

/* Messages, and losses */

/*
 * Receives are handed over once: a request that commits messages is flushed, and then
 * acknowledged, also behind one that takes many rounds.
 */
static void expect_messages_flushed(struct shared *shared, struct pmv_flush_message *first)
{
	struct pair *pair = shared->pair;
	uint64_t before;

	pair_receive(pair, DMP, 0, 64);
	pair_tell(pair, first);
	pair_tell(pair, &(struct pmv_flush_message){.messages = true, .data = 1});
	before = done.flushed;
	for (int i = 0; i < 20; i++)
		pair_serve(pair);
	cr_expect_eq(pair->to->mailbox.receiver.served, 2);
	cr_expect_eq(pair->to->mailbox.receiver.faulted, 0);
	cr_expect_eq(done.flushed - before, 64, "%d bytes", (int) (done.flushed - before));
	end_sharing(shared);
}

Test(writeback, messages_behind_a_large_request_are_flushed)
{
	struct shared *shared = share(PMV_PAGE, 2 * PMV_PAGE_SLICE, NULL);

	expect_messages_flushed(shared, &(struct pmv_flush_message){
						.count = 1,
						.ranges = {{0, 2 * PMV_PAGE_SLICE, BIG_KEY}},
					});
}

Test(writeback, messages_behind_scattered_ranges_are_flushed)
{
	struct shared *shared = share(PMV_PAGE, 64 * PMV_SYNC_COST, NULL);
	struct pmv_flush_message first = {.count = PMV_MAX_RANGES};

	for (unsigned int i = 0; i < PMV_MAX_RANGES; i++)
		first.ranges[i] = (struct pmv_range){i * 3 * PMV_SYNC_COST, 8, BIG_KEY};
	expect_messages_flushed(shared, &first);
}

/* The second one names no byte of the region that is lost, and goes on for some rounds. */
Test(writeback, loss_in_the_first_of_several_rounds_is_not_forgotten)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, NULL);
	struct pair *pair = shared->pair;
	struct pmv_range page = {pair_addr(pair, PAGE, 0), 8, (uint32_t) pair_key(pair, PAGE)};
	struct pmv_flush_message first = {.count = 1, .ranges = {page}};
	struct pmv_flush_message second = {.count = 2, .ranges = {page, {0, BIG_LEN, BIG_KEY}}};

	second.ranges[0].len = 0;
	pair_tell(pair, &first);
	pair_tell(pair, &second);
	done.on_sync = fail_to_sync;
	pair_serve(pair);
	done.on_sync = NULL;
	for (int round = 0; round < SLICES + 1; round++)
		pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	pair_expect_ack(pair, 2, PMV_FAULT_IO);
	end_sharing(shared);
}
