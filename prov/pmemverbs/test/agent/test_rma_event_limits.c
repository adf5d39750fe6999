/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rma_event_limits.c -- events that find no room, that nobody wants, that others
 * send; and what is refused
 */
#include "test_rma_event.h"

#include <string.h>

#include "base/clock.h"
#include "objects/cq.h"

/* Queues */

/* The queue has room for 2.  Nobody waits for its reader, and no event is lost. */
Test(rma_event, that_finds_no_room_in_the_queue_is_told_when_there_is_some)
{
	struct told told = told_open((struct pair_options){.away = {.cq_size = 2}});
	struct pmv_looks *looks = &pmv_to_domain(told.pair->away->domain)->agent.looks;

	for (int i = 1; i <= 100; i++) {
		accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(i), i % 2 ? FI_COMMIT : 0));
		pair_round(told.pair);
		rig_expect(told.pair->home, CONTEXT(i), RIG_WRITTEN);
	}
	expect_told(&told, 100, 100);
	cr_expect_eq(atomic_load(&pmv_to_cq(told.pair->away->cq)->queue.num_ready), 2);
	/* The agent does not forget the mailbox, though its peer sends hints, and nothing more. */
	pmv_look_hinted(looks, &told.pair->to->mailbox.receiver, false, pmv_clock_ns());
	pmv_look_park(looks, pmv_clock_ns() + INT64_C(1000000000));
	expect_entries(&told, 100, FI_RMA | FI_REMOTE_WRITE);
	told_close(&told);
}

/* A notice has data, and can't be counted only: it waits, as without events. */
Test(rma_event, does_not_replace_a_notice_that_finds_no_room)
{
	struct told told = told_open((struct pair_options){.away = {.cq_size = 1}});

	for (int i = 1; i <= 2; i++) {
		accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(i), FI_COMMIT | FI_IMMED));
		pair_round(told.pair);
	}
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(told.pair->home);
	expect_told(&told, 1, 1);
	for (int i = 1; i <= 2; i++) {
		rig_expect(told.pair->away, NULL, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		pair_round(told.pair);
	}
	rig_expect_nothing(told.pair->away);
	rig_expect(told.pair->home, CONTEXT(2), RIG_WRITTEN);
	expect_told(&told, 2, 2);
	told_close(&told);
}

Test(rma_event, leaves_room_for_no_more_notices_in_a_round_than_there_is)
{
	struct told told = told_open((struct pair_options){.away = {.cq_size = 2}});

	for (int i = 1; i <= 3; i++)
		accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(i), FI_COMMIT | FI_IMMED));
	pair_round(told.pair);
	rig_expect_each(told.pair->home, 1, 2, RIG_WRITTEN);
	rig_expect_nothing(told.pair->home);
	expect_told(&told, 2, 2);
	rig_expect(told.pair->away, NULL, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	pair_round(told.pair);
	rig_expect(told.pair->home, CONTEXT(3), RIG_WRITTEN);
	told_close(&told);
}

/* FI_COMPLETION is the initiator's, so a queue bound selectively gets no entries. */
Test(rma_event, makes_no_entry_in_a_selective_queue)
{
	struct told told = told_open((struct pair_options){.away = {.selective = true}});

	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT | FI_COMPLETION));
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(2), FI_COMPLETION));
	pair_round(told.pair);
	expect_told(&told, 2, 2);
	rig_expect_nothing(told.pair->away);
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(3), FI_COMMIT | FI_IMMED));
	pair_round(told.pair);
	expect_entries(&told, 1, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	told_close(&told);
}

/* Others than the peer */

/* mailbox_tell -- as the peer of that endpoint away would */
static void mailbox_tell(struct pmv_ep *ep, struct pmv_flush_message *message, uint64_t number)
{
	message->envelope.number = number;
	message_encode(ep->mailbox.link.block + number % PMV_SLOTS * PMV_MESSAGE_SIZE, message,
		       &ep->mailbox.receiver.message_in);
}

static struct pmv_flush_message told_of(struct pair *pair, enum pmv_rma_event event, uint64_t mark)
{
	return (struct pmv_flush_message){
		.event = event,
		.count = 1,
		.ranges = {{pair_addr(pair, DMP, 0), 8, (uint32_t) pair_key(pair, DMP) | mark}},
	};
}

Test(rma_event, of_several_peers_adds_up_for_the_region_and_not_for_the_endpoint)
{
	struct told told = told_open((struct pair_options){0});
	struct pmv_ep *other;
	struct pmv_flush_message message = told_of(told.pair, PMV_EVENT_WRITE, PMV_RANGE_EVENT);

	told.pair->away->options.not_enabled = false;
	other = pair_join(told.pair);
	for (int i = 1; i <= 3; i++)
		mailbox_tell(other, &message, i);
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), 0));
	pair_round(told.pair);
	pair_round(told.pair);
	expect_told(&told, 1, 4);
	expect_entries(&told, 4, FI_RMA | FI_REMOTE_WRITE);
	accepted(fi_close(&other->ep_fid.fid));
	told_close(&told);
}

/* Whoever does not keep to the rules loses the connection; others go on. */
Test(rma_event, that_is_malformed_ends_the_connection_and_no_other)
{
	struct told told = told_open((struct pair_options){0});
	struct pmv_flush_message message = told_of(told.pair, PMV_EVENT_WRITE, 0);
	struct pmv_flush_message good = told_of(told.pair, PMV_EVENT_WRITE, PMV_RANGE_EVENT);
	struct pmv_ep *hostile;

	told.pair->away->options.not_enabled = false;
	hostile = pair_join(told.pair);
	mailbox_tell(hostile, &message, 1);
	mailbox_tell(hostile, &good, 2);
	for (int i = 0; i < 4; i++)
		pair_serve(told.pair);
	cr_expect_eq(told.pair->away->fake.shutdowns, 1);
	expect_told(&told, 0, 0);
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), 0));
	pair_round(told.pair);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	expect_told(&told, 1, 1);
	accepted(fi_close(&hostile->ep_fid.fid));
	told_close(&told);
}

/* The message before it is a part of the same request, and met a page that is lost. */
Test(rma_event, that_is_malformed_behind_a_part_that_failed_is_no_event)
{
	struct told told = told_open((struct pair_options){0});
	struct pmv_flush_message message = told_of(told.pair, PMV_EVENT_WRITE, PMV_RANGE_EVENT);
	struct pmv_ep *hostile;

	told.pair->away->options.not_enabled = false;
	hostile = pair_join(told.pair);
	hostile->mailbox.receiver.part_fault = PMV_FAULT_IO;
	message.zero = 1;
	mailbox_tell(hostile, &message, 1);
	for (int i = 0; i < 4; i++)
		pair_serve(told.pair);
	cr_expect_eq(told.pair->away->fake.shutdowns, 1);
	cr_expect_eq(fi_cntr_readerr(told.mr), 0);
	accepted(fi_close(&hostile->ep_fid.fid));
	told_close(&told);
}

/* A flood fills its own mailbox, a part of which is served in a round: others get their turn. */
Test(rma_event, of_who_floods_delays_nobody_by_more_than_its_share)
{
	struct told told = told_open((struct pair_options){0});
	struct pmv_flush_message message = told_of(told.pair, PMV_EVENT_WRITE, PMV_RANGE_EVENT);
	struct pmv_ep *flooding;

	told.pair->away->options.not_enabled = false;
	flooding = pair_join(told.pair);
	for (int i = 1; i <= PMV_WINDOW; i++)
		mailbox_tell(flooding, &message, i);
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), 0));
	pair_round(told.pair);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	cr_expect_leq(fi_cntr_read(told.mr), PMV_WINDOW);
	accepted(fi_close(&flooding->ep_fid.fid));
	told_close(&told);
}

/*
 * Somebody is owed more entries than there is room for, and nobody reads the queue.  Others get
 * what they need, an event and a commit with a notice.
 */
Test(rma_event, that_is_owed_a_thousand_times_holds_up_nobody_else)
{
	struct told told = told_open((struct pair_options){.away = {.cq_size = 2}});
	struct pmv_flush_message message = told_of(told.pair, PMV_EVENT_WRITE, PMV_RANGE_EVENT);
	struct pmv_rma_events *events = &told.pair->to->mailbox.receiver.events;
	struct fi_cq_tagged_entry entry;
	struct pmv_ep *flooding;

	told.pair->away->options.not_enabled = false;
	flooding = pair_join(told.pair);
	flooding->mailbox.receiver.events.pending[PMV_RMA_EVENT_WRITE] = 1000;
	mailbox_tell(flooding, &message, 1);
	pair_serve(told.pair);
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), 0));
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT | FI_IMMED));
	pair_round(told.pair);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(told.pair->home, CONTEXT(2), RIG_WRITTEN);
	cr_expect_not(events->has_pending);
	cr_expect(flooding->mailbox.receiver.events.has_pending);
	cr_expect_eq(atomic_load(&events->queue->num_ready), 2 + 2);
	/* Its own entries make room for it when they are read. */
	for (int i = 0; i < 6; i++)
		cr_assert_eq(fi_cq_read(told.pair->away->cq, &entry, 1), 1);
	cr_expect_lt(flooding->mailbox.receiver.events.pending[PMV_RMA_EVENT_WRITE], 999);
	cr_expect_gt(flooding->mailbox.receiver.events.pending[PMV_RMA_EVENT_WRITE], 990);
	accepted(fi_close(&flooding->ep_fid.fid));
	told_close(&told);
}

/* A peer may name places in any order: what is not one is flushed, wherever it stands. */
Test(rma_event, of_a_place_leaves_no_range_unflushed)
{
	for (unsigned int place = 0; place < 3; place++) {
		struct told told = told_open((struct pair_options){0});
		struct pmv_flush_message message = told_of(told.pair, PMV_EVENT_WRITE, 0);

		message.count = 3;
		for (unsigned int i = 0; i < 3; i++) {
			message.ranges[i] = message.ranges[0];
			message.ranges[i].addr = pair_addr(told.pair, DMP, i * 1024);
		}
		message.ranges[place].key |= PMV_RANGE_EVENT;
		pair_tell(told.pair, &message);
		pair_serve(told.pair);
		pair_expect_ack(told.pair, 1, PMV_FAULT_NONE);
		expect_done(told.pair, "F F D K");
		for (unsigned int i = 0, n = 0; i < 3; i++) {
			if (i != place)
				cr_expect(pair_is(told.pair, pair_event(told.pair, 'F', n++), DMP,
						  i * 1024, message.ranges[i].len));
		}
		expect_told(&told, 1, 1);
		told_close(&told);
	}
}

/* It names memory that is not there, or not for it: nobody is told, and its sender knows. */
Test(rma_event, of_memory_that_peers_may_not_write_is_none)
{
	struct told told = told_open((struct pair_options){0});
	struct pmv_flush_message beyond = told_of(told.pair, PMV_EVENT_WRITE, PMV_RANGE_EVENT);
	struct pmv_flush_message unknown = beyond;

	beyond.ranges[0].len = PAIR_SIZE + 1;
	unknown.ranges[0].key = 0x7fffffff | PMV_RANGE_EVENT;
	pair_tell(told.pair, &beyond);
	pair_tell(told.pair, &unknown);
	pair_serve(told.pair);
	pair_expect_ack(told.pair, 1, PMV_FAULT_ACCESS);
	pair_expect_ack(told.pair, 2, PMV_FAULT_ACCESS);
	expect_told(&told, 0, 0);
	rig_expect_nothing(told.pair->away);
	told_close(&told);
}

/* What is asked for, and what is refused */

static struct fid_mr *register_at(struct rig *rig, void *buf, uint64_t access, uint64_t flags)
{
	struct fid_mr *mr;

	accepted(fi_mr_reg(rig->domain, buf, 64, access, 0, 0, flags, &mr, NULL));
	return mr;
}

static bool says_events(struct fid_mr *mr)
{
	struct pmv_attr attr;

	cr_assert(pmv_key_unpack(fi_mr_key(mr), &attr));
	return attr.events;
}

Test(rma_event, is_wanted_by_the_keys_of_all_memory_that_peers_may_write)
{
	for (int volatile_only = 0; volatile_only < 2; volatile_only++) {
		struct rig *rig = rig_open(&(struct rig_options){
			.events = true, .virt_addr = true, .volatile_only = volatile_only});
		static char buf[64];
		struct fid_mr *mrs[] = {
			register_at(rig, buf, FI_REMOTE_WRITE, 0),
			register_at(rig, buf, FI_REMOTE_WRITE | FI_REMOTE_READ, FI_RMA_EVENT),
			register_at(rig, buf, FI_REMOTE_READ, 0),
			register_at(rig, buf, FI_RECV, FI_RMA_EVENT),
		};

		for (int i = 0; i < 4; i++) {
			cr_expect_eq(says_events(mrs[i]), i < 2, "%d", i);
			accepted(fi_mr_enable(mrs[i]));
			accepted(fi_close(&mrs[i]->fid));
		}
		rig_close(rig);
	}
}

Test(rma_event, of_others_is_not_wanted)
{
	struct rig *rig = rig_open(&(struct rig_options){.virt_addr = true, .not_enabled = true});
	struct fid_cntr *cntr = rig_cntr(rig);
	static char buf[64];
	struct fid_mr *mr = register_at(rig, buf, FI_REMOTE_WRITE | FI_REMOTE_READ, 0);

	cr_expect_not(says_events(mr));
	refused(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), FI_ENOSYS);
	refused(fi_ep_bind(rig->ep, &cntr->fid, FI_REMOTE_WRITE), FI_ENOSYS);
	accepted(fi_close(&mr->fid));
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

Test(rma_event, is_counted_by_one_counter_of_each_kind)
{
	struct rig *rig = rig_open(
		&(struct rig_options){.events = true, .virt_addr = true, .not_enabled = true});
	struct fid_cntr *cntr = rig_cntr(rig), *other = rig_cntr(rig);
	static char buf[64];
	struct fid_mr *mr = register_at(rig, buf, FI_REMOTE_WRITE, 0);
	struct fid_mr *for_reads = register_at(rig, buf, FI_REMOTE_READ, 0);

	refused(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_READ), FI_EINVAL);
	refused(fi_mr_bind(mr, &cntr->fid, 0), FI_EINVAL);
	refused(fi_mr_bind(for_reads, &cntr->fid, FI_REMOTE_WRITE), FI_EINVAL);
	refused(fi_ep_bind(rig->ep, &cntr->fid, FI_REMOTE_READ), FI_ENOSYS);
	accepted(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	accepted(fi_ep_bind(rig->ep, &cntr->fid, FI_REMOTE_WRITE));
	refused(fi_mr_bind(mr, &other->fid, FI_REMOTE_WRITE), FI_EINVAL);
	refused(fi_ep_bind(rig->ep, &other->fid, FI_REMOTE_WRITE), FI_EINVAL);
	/* As long as it is bound it stays. */
	refused(fi_close(&cntr->fid), FI_EBUSY);
	rig_close_ep(rig);
	refused(fi_close(&cntr->fid), FI_EBUSY);
	accepted(fi_close(&mr->fid));
	accepted(fi_close(&cntr->fid));
	accepted(fi_close(&for_reads->fid));
	accepted(fi_close(&other->fid));
	rig_close(rig);
}

/* Without an agent, or without knowing who chooses the keys, nobody could tell. */
Test(rma_event, is_refused_where_it_can_not_be_told)
{
	struct rig *rig = rig_open(NULL);
	struct fid_domain *domain;
	struct fid_ep *ep;

	rig->info->caps |= FI_RMA_EVENT;
	refused(fi_endpoint(rig->domain, rig->info, &ep, NULL), FI_EINVAL);
	pmv_setting.agent = PMV_AGENT_OFF;
	refused(pmv_domain_open(&rig->fabric.fabric_fid, rig->info, &domain, NULL), FI_EINVAL);
	pmv_setting.agent = PMV_AGENT_THREAD;
	rig->info->domain_attr->mr_mode = 0;
	refused(pmv_domain_open(&rig->fabric.fabric_fid, rig->info, &domain, NULL), FI_EINVAL);
	rig_close(rig);
}

/* An endpoint that was opened without the capability gets nothing, in whatever domain. */
Test(rma_event, comes_only_to_endpoints_that_asked_for_it)
{
	struct told told = told_open((struct pair_options){0});

	told.pair->to->mailbox.receiver.events.wanted = false;
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), 0));
	pair_round(told.pair);
	rig_expect(told.pair->home, CONTEXT(1), RIG_WRITTEN);
	expect_told(&told, 0, 0);
	rig_expect_nothing(told.pair->away);
	told_close(&told);
}

/* Nothing is written of which the target's application would not be told. */
Test(rma_event, that_nobody_could_tell_of_fails_the_write)
{
	struct told told = told_open((struct pair_options){.no_agent = true});
	struct pair *pair = told.pair;

	refused(pair_put(pair, DMP, 0, 8, CONTEXT(1), 0), FI_EOPNOTSUPP);
	refused(pair_put(pair, MHP, 0, 8, CONTEXT(1), FI_COMMIT), FI_EOPNOTSUPP);
	pair->from->mailbox.link.connected = false;
	pair->from->mailbox.link.peer.agent = true;
	refused(pair_put(pair, DMP, 0, 8, CONTEXT(1), 0), FI_EOPNOTSUPP);
	pair->from->mailbox.link.connected = true;
	expect_sent(pair, "");
	rig_expect_nothing(pair->home);
	told_close(&told);
}

Test(rma_event, counts_for_a_region_from_the_time_of_binding)
{
	struct told told = told_open((struct pair_options){0});
	struct fid_cntr *late;

	accepted(pair_put(told.pair, PAGE, 0, 8, CONTEXT(1), 0));
	pair_round(told.pair);
	late = told_bind(&told, PAGE);
	accepted(pair_put(told.pair, PAGE, 0, 8, CONTEXT(2), 0));
	pair_round(told.pair);
	rig_expect_each(told.pair->home, 1, 2, RIG_WRITTEN);
	expect_told(&told, 2, 0);
	cr_expect_eq(fi_cntr_read(late), 1);
	pair_unregister(told.pair, PAGE);
	accepted(fi_close(&late->fid));
	told_close(&told);
}

/* Where all is committed each operation is, alone. */
Test(rma_event, of_what_is_committed_unasked_comes_when_it_is_durable)
{
	struct told told;

	pmv_setting.commit_all = true;
	told = told_open((struct pair_options){0});
	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), 0));
	accepted(pair_put(told.pair, MHP, 0, 8, CONTEXT(2), 0));
	expect_sent(told.pair, "W M W R fM");
	pair_round(told.pair);
	rig_expect_each(told.pair->home, 1, 2, RIG_WRITTEN);
	expect_told(&told, 2, 1);
	cr_expect(pair_survives(told.pair, DMP, 0, 8));
	told_close(&told);
}

/* The application that sleeps is woken, by the agent's thread. */
Test(rma_event, wakes_who_waits)
{
	struct told told = told_open((struct pair_options){
		.away = {.wait_obj = FI_WAIT_FD}, .thread = true, .automatic = true});
	struct fi_cq_tagged_entry entry;

	accepted(pair_put(told.pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(fi_cq_sread(told.pair->away->cq, &entry, 1, NULL, -1), 1);
	cr_expect_eq(entry.flags, FI_RMA | FI_REMOTE_WRITE);
	accepted(fi_cntr_wait(told.ep, 1, -1));
	accepted(fi_cntr_wait(told.mr, 1, -1));
	told_close(&told);
}

/* Where nothing can be read back, the word of it could pass the data. */
Test(rma_event, is_refused_where_nothing_orders_it_behind_its_data)
{
	struct told told = told_open((struct pair_options){0});
	struct pmv_attr attr;
	struct fi_rma_iov to = {pair_addr(told.pair, DMP, 0), 8, 0};
	struct fi_msg_rma msg = {.rma_iov = &to, .rma_iov_count = 1, .context = CONTEXT(1)};

	cr_assert(pmv_key_unpack(pair_key(told.pair, DMP), &attr));
	attr.readable = false;
	to.key = pmv_key_pack((uint32_t) pair_key(told.pair, DMP), &attr);
	accepted(fi_writemsg(told.pair->home->ep, &msg, 0));
	attr.relaxed = true;
	to.key = pmv_key_pack((uint32_t) pair_key(told.pair, DMP), &attr);
	expect_sent(told.pair, "W0 M");
	refused(fi_writemsg(told.pair->home->ep, &msg, 0), FI_EOPNOTSUPP);
	expect_sent(told.pair, "");
	pair_round(told.pair);
	told_close(&told);
}
