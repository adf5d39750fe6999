/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rma_event.c -- FI_RMA_EVENT: the target's application is told of what peers write
 *
 * What is refused, and what others than the peer do, is in test_rma_event_limits.c.
 */
#include "test_rma_event.h"

#include <string.h>

/* What is posted, and when who is told */

Test(rma_event, of_a_write_comes_behind_its_data_and_before_its_completion)
{
	struct told told = told_open((struct pair_options){0});
	struct pmv_flush_message message;

	accepted(pair_put(told.pair, DMP, 64, 100, CONTEXT(1), 0));
	expect_sent(told.pair, "W M");
	pair_expect_message(told.pair, 0, &message);
	cr_expect_eq(message.event, PMV_EVENT_WRITE);
	cr_expect_eq(message.count, 1);
	cr_expect_eq(message.ranges[0].key, (uint32_t) pair_key(told.pair, DMP) | PMV_RANGE_EVENT);
	cr_expect_eq(message.ranges[0].addr, pair_addr(told.pair, DMP, 64));
	cr_expect_eq(message.ranges[0].len, 100);
	/* Only the data have arrived. */
	fake_deliver(&told.pair->home->fake, 1);
	expect_told(&told, 0, 0);
	fake_deliver(&told.pair->home->fake, 1);
	expect_told(&told, 1, 1);
	rig_expect(told.pair->away, NULL, FI_RMA | FI_REMOTE_WRITE);
	rig_expect_nothing(told.pair->away);
	/* The acknowledgement is under way. */
	fake_complete(&told.pair->home->fake, SIZE_MAX);
	rig_expect_nothing(told.pair->home);
	fake_complete(&told.pair->away->fake, SIZE_MAX);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	/* Nobody has asked for durability. */
	expect_done(told.pair, "K");
	told_close(&told);
}

/* count_early -- memory is being written back, and until it is nobody may have been told */
static void count_early(void *arg)
{
	const struct told *told = arg;

	if (pair_survives(told->pair, DMP, 0, 100))
		return;
	cr_assert_eq(fi_cntr_read(told->ep), 0);
	cr_assert_eq(fi_cntr_read(told->mr), 0);
}

Test(rma_event, of_a_commit_by_the_agent_comes_when_it_is_durable)
{
	struct told told = told_open((struct pair_options){0});

	told.pair->expects_notice = true;
	told.pair->on_event = count_early;
	told.pair->on_event_arg = &told;
	accepted(pair_put(told.pair, DMP, 0, 100, CONTEXT(1), FI_COMMIT));
	expect_sent(told.pair, "W M");
	pair_deliver(told.pair);
	pmv_agent_progress(&pmv_to_domain(told.pair->away->domain)->agent);
	told.pair->on_event = NULL;
	expect_done(told.pair, "F D K");
	cr_expect(pair_survives(told.pair, DMP, 0, 100));
	expect_told(&told, 1, 1);
	rig_expect(told.pair->away, NULL, FI_RMA | FI_REMOTE_WRITE);
	rig_expect_nothing(told.pair->away);
	fake_complete(&told.pair->away->fake, SIZE_MAX);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	told_close(&told);
}

/* The request must not overtake the READ that makes the data durable; every time again. */
Test(rma_event, of_a_commit_by_a_read_is_fenced_behind_it)
{
	struct told told = told_open((struct pair_options){0});

	for (int i = 1; i <= 4; i++) {
		accepted(pair_put(told.pair, MHP, 8, 100, CONTEXT(i), FI_COMMIT));
		expect_sent(told.pair, "W R fM");
		/* The flush reads what was written. */
		cr_expect_eq(pair_post(told.pair, 1)->op.addr, pair_addr(told.pair, MHP, 8));
		pair_deliver(told.pair);
		rig_expect_nothing(told.pair->home);
		pair_serve(told.pair);
		rig_expect(told.pair->home, CONTEXT(i), RIG_WRITTEN);
		expect_told_region(&told, MHP, i, i);
	}
	expect_entries(&told, 4, FI_RMA | FI_REMOTE_WRITE);
	told_close(&told);
}

/* Nothing that is remembered makes a later one quick, or a commit cover less. */
Test(rma_event, of_all_writes_comes_also_when_the_region_is_known)
{
	struct told told = told_open((struct pair_options){0});
	struct pmv_flush_message message;

	for (int i = 1; i <= 3; i++) {
		accepted(fi_write(told.pair->home->ep, told.pair->source + i * 256, 8, NULL, 0,
				  pair_addr(told.pair, DMP, i * 256), pair_key(told.pair, DMP),
				  CONTEXT(i)));
		expect_sent(told.pair, "W M");
	}
	accepted(pair_put(told.pair, DMP, 4096, 8, CONTEXT(4), FI_COMMIT));
	expect_sent(told.pair, "W M");
	pair_expect_message(told.pair, 0, &message);
	for (int i = 1; i <= 3; i++)
		cr_expect(pair_names(told.pair, &message, DMP, i * 256, 8), "%d", i);
	pair_round(told.pair);
	rig_expect_each(told.pair->home, 1, 4, RIG_WRITTEN);
	for (int i = 1; i <= 3; i++)
		cr_expect(pair_survives(told.pair, DMP, i * 256, 8));
	expect_told(&told, 4, 4);
	expect_entries(&told, 4, FI_RMA | FI_REMOTE_WRITE);
	told_close(&told);
}

Test(rma_event, of_a_fenced_commit_comes_when_the_agent_has_stored_it)
{
	struct told told = told_open((struct pair_options){0});

	accepted(pair_put(told.pair, DMP, 0, 100, CONTEXT(1), 0));
	accepted(pair_put(told.pair, DMP, 4096, 100, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(told.pair, "W M M");
	pair_round(told.pair);
	expect_done(told.pair, "F D S F D K");
	expect_told(&told, 2, 2);
	expect_entries(&told, 2, FI_RMA | FI_REMOTE_WRITE);
	rig_expect_each(told.pair->home, 1, 2, RIG_WRITTEN);
	told_close(&told);
}

/* The core sees no write of it at all. */
Test(rma_event, of_small_data_comes_when_the_agent_has_stored_it)
{
	struct told told = told_open((struct pair_options){.stores = true});

	told.pair->expects_notice = true;
	told.pair->on_event = count_early;
	told.pair->on_event_arg = &told;
	accepted(pair_put(told.pair, DMP, 0, 100, CONTEXT(1), FI_COMMIT));
	expect_sent(told.pair, "M");
	pair_deliver(told.pair);
	pmv_agent_progress(&pmv_to_domain(told.pair->away->domain)->agent);
	told.pair->on_event = NULL;
	expect_done(told.pair, "S F D K");
	cr_expect(pair_survives(told.pair, DMP, 0, 100));
	expect_told(&told, 1, 1);
	expect_entries(&told, 1, FI_RMA | FI_REMOTE_WRITE);
	fake_complete(&told.pair->away->fake, SIZE_MAX);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	told_close(&told);
}

Test(rma_event, of_small_data_that_do_not_commit_comes_behind_a_write)
{
	struct told told = told_open((struct pair_options){.stores = true});

	accepted(pair_put(told.pair, DMP, 0, 100, CONTEXT(1), 0));
	expect_sent(told.pair, "W M");
	pair_round(told.pair);
	expect_done(told.pair, "K");
	expect_told(&told, 1, 1);
	told_close(&told);
}

/* Whoever is told relies on all that was written before. */
Test(rma_event, of_small_data_is_an_error_behind_some_that_were_not_stored)
{
	struct told told = told_open((struct pair_options){.stores = true});

	told.pair->sync_fails = true;
	accepted(pair_put(told.pair, PAGE, 0, 20, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(told.pair, DMP, 0, 20, CONTEXT(2), FI_COMMIT));
	expect_sent(told.pair, "M M");
	pair_round(told.pair);
	cr_expect_eq(fi_cntr_read(told.ep), 0);
	for (int i = 0; i < 2; i++)
		rig_expect_error(told.pair->away, NULL, FI_RMA | FI_REMOTE_WRITE, FI_EIO);
	rig_expect_nothing(told.pair->away);
	rig_expect_error(told.pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_error(told.pair->home, CONTEXT(2), RIG_WRITTEN, FI_EIO);
	told_close(&told);
}

/* It takes two round trips, and is told of in the second. */
Test(rma_event, of_a_large_fenced_commit_comes_once)
{
	struct told told = told_open((struct pair_options){0});

	accepted(pair_put(told.pair, DMP, 0, 100, CONTEXT(1), 0));
	accepted(pair_put(told.pair, DMP, 4096, PAIR_LARGE, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(told.pair, "W M M");
	pair_round(told.pair);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(told.pair->home);
	expect_told(&told, 1, 1);
	expect_sent(told.pair, "W M");
	pair_round(told.pair);
	rig_expect(told.pair->home, CONTEXT(2), RIG_WRITTEN);
	expect_told(&told, 2, 2);
	expect_entries(&told, 2, FI_RMA | FI_REMOTE_WRITE);
	cr_expect(pair_survives(told.pair, DMP, 4096, PAIR_LARGE));
	told_close(&told);
}

/* Where writes may pass each other nothing else shows that they are there. */
Test(rma_event, over_a_path_without_order_comes_behind_a_read_of_the_data)
{
	struct told told = told_open((struct pair_options){0});
	const struct fake_post *read;

	pmv_setting.relaxed = true;
	accepted(pair_put(told.pair, MHP, 8, 100, CONTEXT(1), 0));
	expect_sent(told.pair, "W R fM");
	read = pair_post(told.pair, 1);
	cr_expect_eq(read->op.addr, pair_addr(told.pair, MHP, 8));
	cr_expect_eq(read->op.len, 100);
	pair_round(told.pair);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	expect_told_region(&told, MHP, 1, 1);
	told_close(&told);
}

Test(rma_event, waits_for_room_as_a_commit_does)
{
	struct told told = told_open((struct pair_options){0});

	told.pair->home->fake.room = 1;
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), 0));
	expect_sent(told.pair, "W");
	pair_expect_stalled(told.pair);
	pair_deliver(told.pair);
	rig_expect_nothing(told.pair->home);
	told.pair->home->fake.room = -1;
	rig_expect_nothing(told.pair->home);
	expect_sent(told.pair, "M");
	pair_round(told.pair);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	expect_told(&told, 1, 1);
	told_close(&told);
}

/* What is an event, and of which kind */

/* The queue is told by the data; counters count all the same, and once. */
Test(rma_event, with_immediate_data_makes_one_entry)
{
	const uint64_t flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
	struct told told = told_open((struct pair_options){0});

	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), FI_REMOTE_CQ_DATA));
	expect_sent(told.pair, "Wi M");
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT | FI_IMMED));
	expect_sent(told.pair, "W M");
	accepted(pair_put(told.pair, MHP, 0, 8, CONTEXT(3), FI_COMMIT | FI_IMMED));
	expect_sent(told.pair, "W R fM");
	pair_round(told.pair);
	expect_told(&told, 3, 2);
	expect_entries(&told, 3, flags);
	told_close(&told);
}

Test(rma_event, with_immediate_data_that_the_agent_can_not_give_makes_one_entry)
{
	struct told told = told_open((struct pair_options){.no_notices = true});

	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT | FI_IMMED));
	pair_round(told.pair);
	rig_expect_nothing(told.pair->home);
	expect_sent(told.pair, "W M fW0i");
	expect_told(&told, 1, 1);
	rig_expect_nothing(told.pair->away);
	pair_round(told.pair);
	expect_entries(&told, 1, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	told_close(&told);
}

Test(rma_event, of_an_injected_write_comes_although_it_never_completes)
{
	struct told told = told_open((struct pair_options){0});

	pair_inject(told.pair, DMP, 0, 8);
	expect_sent(told.pair, "W M");
	pair_round(told.pair);
	rig_expect_nothing(told.pair->home);
	expect_told(&told, 1, 1);
	expect_entries(&told, 1, FI_RMA | FI_REMOTE_WRITE);
	told_close(&told);
}

static ssize_t atomic_at(struct told *told, enum fi_op op, bool fetch, bool inject, void *context)
{
	static uint64_t operand = 1, old;
	struct fid_ep *ep = told->pair->home->ep;
	uint64_t addr = pair_addr(told->pair, DMP, 0), key = pair_key(told->pair, DMP);

	if (inject)
		return fi_inject_atomic(ep, &operand, 1, 0, addr, key, FI_UINT64, op);
	if (fetch)
		return fi_fetch_atomic(ep, &operand, 1, NULL, &old, NULL, 0, addr, key, FI_UINT64,
				       op, context);
	return fi_atomic(ep, &operand, 1, NULL, 0, addr, key, FI_UINT64, op, context);
}

/* As fi_endpoint(3) has it, one that fetches is a remote read; a region counts whatever modifies
 * it. */
Test(rma_event, of_an_atomic_comes_to_whom_it_concerns)
{
	const uint64_t flags = FI_ATOMIC | FI_REMOTE_WRITE;
	struct told told = told_open((struct pair_options){0});

	accepted(atomic_at(&told, FI_SUM, false, false, CONTEXT(1)));
	expect_sent(told.pair, "A fM");
	pair_round(told.pair);
	expect_told(&told, 1, 1);
	accepted(atomic_at(&told, FI_SUM, false, true, NULL));
	expect_sent(told.pair, "A fM");
	pair_round(told.pair);
	expect_told(&told, 2, 2);
	expect_entries(&told, 2, flags);
	accepted(atomic_at(&told, FI_SUM, true, false, CONTEXT(2)));
	expect_sent(told.pair, "A fM");
	pair_round(told.pair);
	expect_told(&told, 2, 3);
	rig_expect_nothing(told.pair->away);
	rig_expect(told.pair->home, CONTEXT(1), FI_ATOMIC | FI_WRITE);
	rig_expect(told.pair->home, CONTEXT(2), FI_ATOMIC | FI_READ);
	/* It changes nothing. */
	accepted(atomic_at(&told, FI_ATOMIC_READ, true, false, CONTEXT(3)));
	expect_sent(told.pair, "A");
	fake_fail_all(&told.pair->home->fake, FI_EIO, 5);
	rig_expect_error(told.pair->home, CONTEXT(3), FI_ATOMIC | FI_READ, FI_EIO);
	told_close(&told);
}

Test(rma_event, of_several_places_is_one_and_counts_once_in_each_region)
{
	struct told told = told_open((struct pair_options){0});
	struct iovec iov = {told.pair->source, 24};
	struct fi_rma_iov to[] = {
		{pair_addr(told.pair, DMP, 0), 8, pair_key(told.pair, DMP)},
		{pair_addr(told.pair, PAGE, 0), 8, pair_key(told.pair, PAGE)},
		{pair_addr(told.pair, DMP, 64), 8, pair_key(told.pair, DMP)},
	};
	struct fi_msg_rma msg = {&iov, NULL, 1, 0, to, 3, CONTEXT(1), 0};

	for (int i = 1; i <= 2; i++) {
		accepted(fi_writemsg(told.pair->home->ep, &msg, i == 2 ? FI_COMMIT : 0));
		expect_sent(told.pair, "W M");
		pair_round(told.pair);
		expect_told(&told, i, i);
		rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	}
	expect_entries(&told, 2, FI_RMA | FI_REMOTE_WRITE);
	told_close(&told);
}

/* More ranges than a message has room for: all places are in the last one. */
Test(rma_event, of_a_commit_of_many_ranges_is_told_with_the_last)
{
	struct told told = told_open((struct pair_options){.home = {.selective = true}});
	struct pmv_flush_message message;
	int sent = 0;

	for (int ranges = PMV_MAX_RANGES - 2; ranges <= PMV_MAX_RANGES + 2; ranges++) {
		for (int i = 1; i < ranges; i++, sent++)
			accepted(pair_put(told.pair, DMP, (size_t) i * 1024, 8, NULL, 0));
		accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT | FI_COMPLETION));
		sent++;
		pair_expect_message(told.pair, 0, &message);
		cr_expect_eq(message.event, PMV_EVENT_WRITE, "%d ranges", ranges);
		pair_posted(told.pair);
		pair_round(told.pair);
		pair_round(told.pair);
		rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
		expect_told(&told, sent, sent);
		for (int i = 0; i < ranges; i++)
			cr_assert(pair_survives(told.pair, DMP, (size_t) i * 1024, 8));
	}
	told_close(&told);
}

/* Failures */

/* The medium has failed: that is told as an error, and never as a success. */
Test(rma_event, of_a_commit_that_is_not_durable_is_an_error)
{
	struct told told = told_open((struct pair_options){0});
	struct fi_cq_tagged_entry entry;

	told.pair->sync_fails = true;
	for (int i = 1; i <= 2; i++) {
		uint64_t notify = i == 2 ? FI_IMMED : 0;

		accepted(pair_put(told.pair, PAGE, 0, 8, CONTEXT(i), FI_COMMIT | notify));
		pair_round(told.pair);
		rig_expect_error(told.pair->home, CONTEXT(i), RIG_WRITTEN, FI_EIO);
		cr_expect_eq(fi_cntr_read(told.ep), 0);
		cr_expect_eq(fi_cntr_readerr(told.ep), (uint64_t) i);
		cr_assert_eq(fi_cq_read(told.pair->away->cq, &entry, 1), -FI_EAVAIL);
		rig_expect_error(told.pair->away, NULL, FI_RMA | FI_REMOTE_WRITE, FI_EIO);
		rig_expect_nothing(told.pair->away);
	}
	/* No promise was broken for what does not commit. */
	accepted(pair_put(told.pair, PAGE, 0, 8, CONTEXT(3), 0));
	pair_round(told.pair);
	cr_expect_eq(fi_cntr_read(told.ep), 1);
	told_close(&told);
}

/* A region that was written counts the failure as one, too. */
Test(rma_event, of_a_commit_that_is_not_durable_is_an_error_of_its_region)
{
	struct told told = told_open((struct pair_options){0});
	struct fid_cntr *page = told_bind(&told, PAGE);

	told.pair->sync_fails = true;
	accepted(pair_put(told.pair, PAGE, 0, 8, CONTEXT(1), FI_COMMIT));
	pair_round(told.pair);
	rig_expect_error(told.pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	cr_expect_eq(fi_cntr_read(page), 0);
	cr_expect_eq(fi_cntr_readerr(page), 1);
	rig_expect_error(told.pair->away, NULL, FI_RMA | FI_REMOTE_WRITE, FI_EIO);
	rig_close_ep(told.pair->away);
	pair_unregister(told.pair, PAGE);
	accepted(fi_close(&page->fid));
	told_close(&told);
}

/* A request of two messages, of which only the first one fails. */
Test(rma_event, of_a_commit_that_fails_in_part_is_an_error)
{
	struct told told = told_open((struct pair_options){.home = {.selective = true}});
	struct iovec iov = {told.pair->source, 16};
	struct fi_rma_iov to[] = {
		{pair_addr(told.pair, PAGE, 0), 8, pair_key(told.pair, PAGE)},
		{pair_addr(told.pair, DMP, 0), 8, pair_key(told.pair, DMP)},
	};
	struct fi_msg_rma msg = {&iov, NULL, 1, 0, to, 2, CONTEXT(1), DATA};

	for (int i = 1; i <= PMV_MAX_RANGES; i++)
		accepted(pair_put(told.pair, DMP, (size_t) i * 1024, 8, NULL, 0));
	pair_round(told.pair);
	rig_expect_nothing(told.pair->home);
	expect_entries(&told, PMV_MAX_RANGES, FI_RMA | FI_REMOTE_WRITE);
	told.pair->sync_fails = true;
	accepted(fi_writemsg(told.pair->home->ep, &msg, FI_COMMIT | FI_COMPLETION | FI_IMMED));
	pair_round(told.pair);
	pair_round(told.pair);
	rig_expect_error(told.pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	cr_expect_eq(fi_cntr_read(told.ep), PMV_MAX_RANGES);
	cr_expect_eq(fi_cntr_readerr(told.ep), 1);
	rig_expect_error(told.pair->away, NULL, FI_RMA | FI_REMOTE_WRITE, FI_EIO);
	rig_expect_nothing(told.pair->away);
	told_close(&told);
}

/* The READ that would have made it durable has failed, or the data have. */
Test(rma_event, of_a_commit_whose_parts_fail_does_not_come)
{
	for (int part = 0; part < 2; part++) {
		struct told told = told_open((struct pair_options){0});

		told.pair->home->fake.room = 2;
		accepted(pair_put(told.pair, MHP, 0, 8, CONTEXT(1), FI_COMMIT));
		expect_sent(told.pair, "W R");
		fake_complete(&told.pair->home->fake, part);
		fake_fail_all(&told.pair->home->fake, FI_EIO, 5);
		told.pair->home->fake.room = -1;
		rig_expect_error(told.pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
		pair_round(told.pair);
		expect_told(&told, 0, 0);
		rig_expect_nothing(told.pair->away);
		told_close(&told);
	}
}

Test(rma_event, of_a_region_that_was_closed_fails_the_write)
{
	struct told told = told_open((struct pair_options){0});

	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), 0));
	pair_deliver(told.pair);
	pair_unregister(told.pair, DMP);
	pair_serve(told.pair);
	rig_expect_error(told.pair->home, CONTEXT(1), RIG_WRITTEN, FI_EACCES);
	expect_told(&told, 0, 0);
	rig_expect_nothing(told.pair->away);
	told_close(&told);
}
