/* SPDX-License-Identifier: BSD-2-Clause */
/* test_msg.c -- commits of messages, from both ends */
#include "test_msg.h"

#include "objects/ep.h"
#include "objects/cq.h"

/* Not persistent, and not registered either. */
static char volatile_memory[4096];

static void receive_volatile(struct pair *pair, size_t len)
{
	accepted(fi_recv(pair->away->ep, volatile_memory, len, NULL, 0, NULL));
}

static uint64_t number_of(struct pair *pair, size_t n)
{
	struct pmv_flush_message message;

	pair_expect_message(pair, n, &message);
	return message.messages ? message.data : UINT64_MAX;
}

/* The simplest commit */

static void commit_one(enum pair_memory memory, const char *done, bool offsets)
{
	struct pair *pair = pair_open(&(struct pair_options){.offsets = offsets});
	struct pmv_flush_message message;

	pair_receive(pair, memory, 100, 50);
	accepted(pair_send(pair, 100, 50, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "S M");
	cr_expect_not(pair_post(pair, 0)->op.flags & FI_FENCE);
	pair_expect_message(pair, 0, &message);
	cr_expect(message.messages && message.data == 1);
	cr_expect_eq(message.count, 0);
	rig_expect_nothing(pair->home);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	cr_expect_eq(survives(pair, memory, 100, 50), memory == MHP);
	pair_serve(pair);
	expect_done(pair, done);
	cr_expect(survives(pair, memory, 100, 50));
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect_nothing(pair->home);
	rig_expect(pair->away, NULL, RIG_RECEIVED);
	rig_expect_nothing(pair->away);
	expect_sent(pair, "");
	pair_close(pair);
}

Test(send, is_committed_by_a_message_behind_it)
{
	commit_one(DMP, "F D K", false);
	commit_one(READ_DMP, "F D K", false);
	commit_one(PAGE, "Y D K", false);
	commit_one(MHP, "D K", false);
}

Test(send, is_committed_where_peers_address_by_offsets)
{
	commit_one(DMP, "F D K", true);
	commit_one(PAGE, "Y D K", true);
}

Test(send, into_volatile_memory_is_acknowledged_once_it_is_there)
{
	struct pair *pair = pair_open(NULL);

	receive_volatile(pair, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pair_serve(pair);
	expect_done(pair, "K");
	cr_expect_arr_eq(volatile_memory, pair->source, 64);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	cr_expect_null(kept(pair)->ring, "and costs no memory");
	pair_close(pair);
}

Test(send, of_nothing_is_committed_too)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 0);
	accepted(pair_send(pair, 0, 0, CONTEXT(1), FI_COMMIT));
	expect_sent(pair, "S0 M");
	pair_round(pair);
	expect_done(pair, "K");
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	pair_close(pair);
}

Test(send, commit_needs_its_completion_and_the_acknowledgement)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(fake_deliver(&pair->home->fake, SIZE_MAX), 2);
	pair_serve(pair);
	rig_expect_parts(pair->home, 2, CONTEXT(1), RIG_SENT);
	pair_close(pair);
}

/* Where it was received */

Test(send, into_several_buffers_is_flushed_where_these_persist)
{
	struct pair *pair = pair_open(NULL);
	struct iovec iov[] = {
		{volatile_memory, 100},          {pair->memory[DMP] + 100, 100}, {NULL, 0},
		{pair->memory[PAGE] + 200, 100}, {pair->memory[MHP] + 300, 100},
	};

	accepted(fi_recvv(pair->away->ep, iov, NULL, 5, 0, NULL));
	accepted(pair_send(pair, 0, 400, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	expect_done(pair, "F Y D K");
	cr_expect(survives(pair, DMP, 100, 100));
	cr_expect(survives(pair, PAGE, 200, 100));
	cr_expect(survives(pair, MHP, 300, 100));
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	pair_close(pair);
}

Test(send, into_a_buffer_that_persists_in_part_flushes_that_part)
{
	struct pair *pair = pair_open(NULL);
	struct fid_mr *mr[2];

	pair_unregister(pair, DMP);
	pmv_setting.domain = PMV_DMP;
	for (int i = 0; i < 2; i++)
		accepted(fi_mr_reg(pair->away->domain, pair->memory[DMP] + 100 + 200 * i, 100,
				   FI_RECV, 0, 0, FI_PMEM, &mr[i], NULL));
	pair_receive(pair, DMP, 50, 400);
	accepted(pair_send(pair, 50, 400, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	expect_done(pair, "F F D K");
	cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 100, 100));
	cr_expect(pair_is(pair, pair_event(pair, 'F', 1), DMP, 300, 100));
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	for (int i = 0; i < 2; i++)
		accepted(fi_close(&mr[i]->fid));
	pair_close(pair);
}

Test(send, memory_that_is_only_received_in_is_not_for_writes_of_peers)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message = {.count = 1};
	struct fid_mr *mr;

	pmv_setting.domain = PMV_DMP;
	accepted(fi_mr_reg(pair->away->domain, pair->memory[DMP], 4096, FI_RECV, 0, 0, FI_PMEM, &mr,
			   NULL));
	message.ranges[0] = (struct pmv_range){(uintptr_t) pair->memory[DMP], 64,
					       (uint32_t) pmv_key_core(fi_mr_key(mr))};
	pair_tell(pair, &message);
	pair_serve(pair);
	expect_done(pair, "K");
	pair_expect_ack(pair, 1, PMV_FAULT_ACCESS);
	accepted(fi_close(&mr->fid));
	pair_close(pair);
}

Test(send, commit_covers_all_messages_before_it)
{
	struct pair *pair = pair_open(NULL);
	struct fid_ep *ep = pair->home->ep;
	struct iovec iov = {pair->source + 200, 100};

	for (size_t i = 0; i < 9; i++)
		pair_receive(pair, DMP, 100 * i, 100);
	accepted(fi_send(ep, pair->source, 100, NULL, 0, CONTEXT(0)));
	accepted(fi_inject(ep, pair->source + 100, 100, 0));
	accepted(fi_sendv(ep, &iov, NULL, 1, 0, CONTEXT(2)));
	accepted(fi_senddata(ep, pair->source + 300, 100, NULL, DATA, 0, CONTEXT(3)));
	accepted(fi_injectdata(ep, pair->source + 400, 100, DATA, 0));
	accepted(pair_send(pair, 500, 100, CONTEXT(5), 0));
	accepted(pair_send(pair, 600, 100, CONTEXT(6), FI_FENCE));
	expect_sent(pair, "S S S Si Si S S");
	pair_deliver(pair);
	accepted(pair_send(pair, 700, 100, CONTEXT(7), FI_COMMIT));
	cr_expect_eq(number_of(pair, 0), 8);
	pair_round(pair);
	cr_expect(survives(pair, DMP, 0, 800));
	/* Once is enough. */
	pair_done(pair);
	accepted(pair_send(pair, 800, 100, CONTEXT(8), FI_COMMIT));
	cr_expect_eq(number_of(pair, 0), 9);
	pair_round(pair);
	expect_done(pair, "F D K");
	cr_expect(survives(pair, DMP, 800, 100));
	pair_close(pair);
}

Test(send, of_which_nothing_was_posted_is_not_counted)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	pair->home->fake.room = 0;
	refused(pair_send(pair, 0, 64, CONTEXT(1), 0), FI_EAGAIN);
	refused(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT), FI_EAGAIN);
	refused(fi_inject(pair->home->ep, pair->source, 64, 0), FI_EAGAIN);
	pair->home->fake.room = -1;
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(number_of(pair, 0), 1);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* What else uses up receives */

static void with_immediates(bool imm_receives)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.home = {.imm_receives = imm_receives},
		.away = {.imm_receives = imm_receives},
		.no_notices = true,
	});
	struct fid_ep *ep = pair->home->ep;
	uint64_t addr = pair_addr(pair, MHP, 0), key = pair_key(pair, MHP);
	size_t used = imm_receives ? 5 : 0;

	for (size_t i = 0; i < 10; i++)
		pair_receive(pair, DMP, 100 * i, 100);
	accepted(fi_writedata(ep, pair->source, 8, NULL, DATA, 0, addr, key, CONTEXT(0)));
	accepted(fi_inject_writedata(ep, pair->source, 8, DATA, 0, addr, key));
	accepted(pair_put(pair, MHP, 0, 8, CONTEXT(0), FI_REMOTE_CQ_DATA));
	/* A notice behind the READ; and one once the agent has answered. */
	accepted(pair_put(pair, MHP, 0, 8, CONTEXT(0), FI_COMMIT | FI_IMMED));
	accepted(pair_put(pair, DMP, 2000, 8, CONTEXT(0), FI_COMMIT | FI_IMMED));
	pair_round(pair);
	pmv_queue_progress(&pmv_to_cq(pair->home->cq)->queue, false);
	pair_deliver(pair);
	cr_expect_eq(fake_receives(&pair->away->fake), 10 - used);
	pair_done(pair);
	accepted(pair_send(pair, 100 * used, 100, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(number_of(pair, 0), used + 1);
	pair_round(pair);
	cr_expect(survives(pair, DMP, 100 * used, 100));
	cr_expect_eq(kept(pair)->count, 10 - (used + 1), "no more and no less is forgotten");
	accepted(pair_send(pair, 100 * (used + 1), 100, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	cr_expect(survives(pair, DMP, 100 * (used + 1), 100));
	pair_close(pair);
}

Test(send, is_counted_with_immediate_data_where_these_use_receives)
{
	with_immediates(true);
}

Test(send, is_counted_without_immediate_data_where_these_use_none)
{
	with_immediates(false);
}

Test(send, takes_its_own_immediate_data_along)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT | FI_REMOTE_CQ_DATA));
	expect_sent(pair, "Si M");
	cr_expect_eq(pair_post(pair, 1)->op.data, DATA);
	pair_round(pair);
	expect_done(pair, "F D K");
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect(pair->away, NULL, RIG_RECEIVED);
	rig_expect_nothing(pair->away);
	pair_close(pair);
}

/* Fences */

Test(fence, message_with_nothing_before_it_is_a_plain_commit)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "S M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	pair_close(pair);
}

Test(fence, message_is_posted_when_earlier_messages_are_durable)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	pair_receive(pair, PAGE, 64, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), 0));
	accepted(pair_send(pair, 64, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "S M");
	cr_expect_eq(number_of(pair, 0), 1);
	refused(pair_send(pair, 0, 8, CONTEXT(9), 0), FI_EAGAIN);
	refused(pair_send(pair, 0, 8, CONTEXT(9), FI_COMMIT), FI_EAGAIN);
	refused(fi_inject(pair->home->ep, pair->source, 8, 0), FI_EAGAIN);
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "");
	pair_serve(pair);
	cr_expect(survives(pair, DMP, 0, 64));
	rig_expect_nothing(pair->home);
	expect_sent(pair, "S M");
	cr_expect_eq(number_of(pair, 0), 2);
	pair_round(pair);
	cr_expect(survives(pair, PAGE, 64, 64));
	rig_expect(pair->home, CONTEXT(2), RIG_SENT);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(fence, message_is_posted_when_earlier_writes_are_durable)
{
	struct pair *pair = pair_open(NULL);

	for (int committed = 0; committed < 2; committed++) {
		pair_receive(pair, MHP, 0, 64);
		accepted(pair_put(pair, DMP, 512, 64, CONTEXT(1), committed ? FI_COMMIT : 0));
		accepted(pair_send(pair, 0, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
		expect_sent(pair, committed ? "W M M" : "W M");
		pair_round(pair);
		cr_expect(survives(pair, DMP, 512, 64));
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect_nothing(pair->home);
		expect_sent(pair, "S M");
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(2), RIG_SENT);
		memset(pair->durable[DMP], 0, PAIR_SIZE);
	}
	pair_close(pair);
}

Test(fence, message_is_held_behind_a_read_where_that_flushes)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	accepted(pair_put(pair, READ_DMP, 0, 64, CONTEXT(1), 0));
	accepted(pair_send(pair, 0, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W R fS M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_SENT);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(fence, message_waits_for_data_that_ride)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	accepted(pair_put(pair, DMP, 512, 64, CONTEXT(1), 0));
	accepted(pair_put(pair, DMP, 1024, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	accepted(pair_send(pair, 0, 64, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W M M");
	pair_round(pair);
	rig_expect_each(pair->home, 1, 2, RIG_WRITTEN);
	expect_sent(pair, "S M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(3), RIG_SENT);
	pair_close(pair);
}

Test(fence, message_is_not_sent_after_a_commit_that_fails)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, PAGE, 0, 64);
	pair_receive(pair, DMP, 64, 64);
	pair->sync_fails = true;
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_send(pair, 64, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "S M M");
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_SENT, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(2), RIG_SENT, FI_EIO);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "");
	pair_close(pair);
}

Test(fence, message_that_is_injected_may_be_changed_at_once)
{
	struct pair *pair = pair_open(NULL);
	char expected[64], mine[64];
	struct iovec iov[] = {{mine, 30}, {mine + 30, 34}};
	struct fi_msg msg = {iov, NULL, 2, 0, CONTEXT(2), 0};

	memcpy(expected, pair->source + 64, 64);
	memcpy(mine, expected, 64);
	pair_receive(pair, DMP, 0, 64);
	pair_receive(pair, DMP, 64, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), 0));
	accepted(fi_sendmsg(pair->home->ep, &msg, FI_COMMIT | FI_FENCE | FI_INJECT));
	memset(mine, 0, 64);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect_nothing(pair->home);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_SENT);
	cr_expect(survives(pair, DMP, 64, 64));
	pair_close(pair);
}

Test(fence, small_data_ride_behind_a_message_that_is_durable)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_put(pair, DMP, 512, 8, CONTEXT(2), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "S M M");
	pair_round(pair);
	expect_done(pair, "F D S F D K");
	cr_expect(pair_is(pair, pair_event(pair, 'F', 0), DMP, 0, 64));
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(relaxed, message_is_refused)
{
	for (int side = 0; side < 2; side++) {
		struct pair *pair;

		pmv_setting.relaxed = side == 0;
		pair = pair_open(NULL);
		/* The peer has said it. */
		cr_expect_eq(pair->from->mailbox.link.peer.relaxed, side == 0);
		pair->from->mailbox.link.peer.relaxed = side == 1;
		pair_receive(pair, DMP, 0, 64);
		refused(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT), FI_EOPNOTSUPP);
		expect_sent(pair, "");
		rig_expect_nothing(pair->home);
		pair_close(pair);
		pmv_setting.relaxed = false;
	}
}

/* Defaults */

Test(send, commits_by_default_with_op_flags)
{
	struct pair *pair = pair_open(
		&(struct pair_options){.home = {.tx_op_flags = FI_COMMIT | FI_COMPLETION}});
	struct fid_ep *ep = pair->home->ep;
	struct iovec iov[] = {{pair->source + 64, 30}, {pair->source + 94, 34}};

	for (size_t i = 0; i < 6; i++)
		pair_receive(pair, DMP, 64 * i, 64);
	accepted(fi_send(ep, pair->source, 64, NULL, 0, CONTEXT(0)));
	accepted(fi_sendv(ep, iov, NULL, 2, 0, CONTEXT(1)));
	accepted(fi_senddata(ep, pair->source + 128, 64, NULL, DATA, 0, CONTEXT(2)));
	expect_sent(pair, "S M S M Si M");
	accepted(fi_inject(ep, pair->source + 192, 64, 0));
	accepted(pair_send(pair, 256, 64, CONTEXT(4), 0));
	expect_sent(pair, "S S");
	pair_round(pair);
	cr_expect(survives(pair, DMP, 0, 192));
	cr_expect_not(survives(pair, DMP, 192, 64));
	accepted(fi_send(ep, pair->source + 320, 64, NULL, 0, CONTEXT(5)));
	pair_round(pair);
	cr_expect(survives(pair, DMP, 192, 192));
	/* The core's entry comes first. */
	rig_expect(pair->home, CONTEXT(4), RIG_SENT);
	for (int i = 0; i < 6; i += i == 2 ? 3 : 1)
		rig_expect(pair->home, CONTEXT(i), RIG_SENT);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(send, is_counted_when_it_is_durable)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.home = {.not_enabled = true},
		.away = {.not_enabled = true},
	});
	struct fid_cntr *sent = rig_count(pair->home, FI_SEND);
	struct fid_cntr *received = rig_count(pair->away, FI_RECV);

	pair_receive(pair, DMP, 0, 64);
	pair_receive(pair, DMP, 64, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(fi_inject(pair->home->ep, pair->source + 64, 64, 0));
	pair_deliver(pair);
	cr_expect_eq(fi_cntr_read(sent), 1, "the injected one");
	pair_serve(pair);
	cr_expect_eq(fi_cntr_read(sent), 2);
	cr_expect_eq(fi_cntr_read(received), 2);
	rig_close_ep(pair->home);
	accepted(fi_close(&sent->fid));
	rig_close_ep(pair->away);
	accepted(fi_close(&received->fid));
	pair_close(pair);
}
