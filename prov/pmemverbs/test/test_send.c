/* SPDX-License-Identifier: BSD-2-Clause */
/* test_send.c -- commits of messages, from both ends */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "objects/ep.h"
#include "dice.h"
#include "objects/cq.h"
#include "objects/mr.h"
#include "pair.h"

/* Not persistent, and not registered either. */
static char volatile_memory[4096];

static void receive_volatile(struct pair *pair, size_t len)
{
	accepted(fi_recv(pair->away->ep, volatile_memory, len, NULL, 0, NULL));
}

/* survives -- as pair_survives; what has arrived in caches that persist does so at once */
static bool survives(struct pair *pair, enum pair_memory memory, size_t offset, size_t len)
{
	if (memory == MHP)
		return !memcmp(pair->memory[MHP] + offset, pair->source + offset, len);
	return pair_survives(pair, memory, offset, len);
}

static uint64_t number_of(struct pair *pair, size_t n)
{
	struct pmv_message message;

	pair_expect_message(pair, n, &message);
	return message.messages ? message.data : UINT64_MAX;
}

static struct pmv_receive_tracker *kept(struct pair *pair)
{
	return &pair->to->receives;
}

/* The simplest commit */

static void commit_one(enum pair_memory memory, const char *done, bool offsets)
{
	struct pair *pair = pair_open(&(struct pair_options){.offsets = offsets});
	struct pmv_message message;

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
	cr_expect_eq(kept(pair)->size, 0, "and costs no memory");
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
	struct pmv_message message = {.count = 1};
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
	pmv_queue_progress(&pmv_to_cq(pair->home->cq)->queue);
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
		cr_expect_eq(pair->from->mailbox.peer.relaxed, side == 0);
		pair->from->mailbox.peer.relaxed = side == 1;
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

/* What goes wrong */

static void expect_refused(struct pair *pair)
{
	pair_receive(pair, DMP, 0, 64);
	refused(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT), FI_EOPNOTSUPP);
	refused(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT | FI_FENCE), FI_EOPNOTSUPP);
	expect_sent(pair, "");
	accepted(pair_send(pair, 0, 64, CONTEXT(1), 0));
	expect_sent(pair, "S");
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect_nothing(pair->home);
}

Test(refusal, of_messages_to_an_older_peer_leaves_all_else_working)
{
	struct pair *pair = pair_open(&(struct pair_options){.older = true});

	expect_refused(pair);
	accepted(pair_put(pair, DMP, 512, 64, CONTEXT(2), FI_COMMIT));
	pair_round(pair);
	cr_expect(survives(pair, DMP, 512, 64));
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(refusal, of_messages_where_there_is_no_agent)
{
	struct pair *pair = pair_open(&(struct pair_options){.no_agent = true});

	expect_refused(pair);
	pair_close(pair);
}

Test(refusal, of_messages_that_are_to_give_notice)
{
	struct pair *pair = pair_open(NULL);

	refused(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT | FI_IMMED), FI_EINVAL);
	refused(pair_send(pair, 0, 64, CONTEXT(1), FI_IMMED), FI_EINVAL);
	expect_sent(pair, "");
	pair_close(pair);
}

Test(refusal, of_messages_where_receives_are_shared)
{
	struct rig *rig = rig_open(&(struct rig_options){.not_enabled = true});
	struct pmv_ep *ep = pmv_to_ep(rig->ep);
	uint8_t buf[PMV_HANDSHAKE_SIZE];
	struct pmv_handshake handshake;

	pmv_setting.agent = PMV_AGENT_PROGRESS;
	/* As binding one does, which the fake core does not know. */
	ep->srx = true;
	atomic_store(&ep->receives.on, false);
	accepted(pmv_mailbox_open(&ep->mailbox));
	pmv_mailbox_handshake(&ep->mailbox, buf);
	pmv_handshake_decode(buf, sizeof(buf), &handshake);
	cr_expect(handshake.agent);
	cr_expect_not(handshake.messages);
	rig_close(rig);
}

Test(send, on_a_medium_that_fails_is_an_io_error_once)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	pair_receive(pair, PAGE, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_SENT, FI_EIO);
	rig_expect_nothing(pair->home);
	/* No file that was there is trusted any more. */
	pair->sync_fails = false;
	pair_receive(pair, PAGE_TOO, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(2), FI_COMMIT));
	pair_receive(pair, DMP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(3), FI_COMMIT));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(2), RIG_SENT, FI_EIO);
	rig_expect(pair->home, CONTEXT(3), RIG_SENT);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(send, into_a_region_that_was_closed_since_fails_once)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	pair_receive(pair, MHP, 64, 64);
	pair_receive(pair, PAGE, 128, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(0), 0));
	accepted(pair_send(pair, 64, 64, CONTEXT(1), 0));
	accepted(pair_send(pair, 128, 64, CONTEXT(2), FI_COMMIT));
	pair_deliver(pair);
	pair_unregister(pair, DMP);
	pair_serve(pair);
	expect_done(pair, "Y D K");
	cr_expect(survives(pair, PAGE, 128, 64), "the others are flushed all the same");
	rig_expect(pair->home, CONTEXT(0), RIG_SENT);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	rig_expect_error(pair->home, CONTEXT(2), RIG_SENT, FI_EACCES);
	rig_expect_nothing(pair->home);

	pair_receive(pair, MHP, 64, 64);
	accepted(pair_send(pair, 64, 64, CONTEXT(3), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(3), RIG_SENT);
	pair_close(pair);
}

Test(send, into_memory_that_was_registered_anew_is_durable)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	accepted(fi_close(&pair->mr[DMP]->fid));
	pmv_setting.domain = PMV_DMP;
	accepted(fi_mr_reg(pair->away->domain, pair->memory[DMP], 100, FI_REMOTE_WRITE, 0, 0,
			   FI_PMEM, &pair->mr[DMP], NULL));
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	cr_expect(survives(pair, DMP, 0, 64));
	pair_close(pair);
}

Test(send, fails_once_when_any_part_of_it_does)
{
	for (size_t part = 0; part < 2; part++) {
		struct pair *pair = pair_open(NULL);

		pair_send_and_lose(pair, DMP, part);
		pair_close(pair);
	}
}

Test(send, that_waits_is_told_of_when_the_endpoint_is_closed)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	pair_receive(pair, DMP, 64, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	accepted(pair_send(pair, 64, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
	pair_deliver(pair);
	rig_close_ep(pair->home);
	rig_expect_error(pair->home, CONTEXT(1), RIG_SENT, FI_ECANCELED);
	rig_expect_error(pair->home, CONTEXT(2), RIG_SENT, FI_ECANCELED);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(send, commit_without_room_for_its_message_waits_for_it)
{
	struct pair *pair = pair_open(NULL);

	pair_send_without_room(pair, DMP, "M");
	pair_close(pair);
}

static void expect_held(void *arg)
{
	struct pair *pair = arg;
	struct pmv_mr *mr = pmv_container_of(pair->mr[PAGE], struct pmv_mr, mr_fid);

	/* A sync comes first in each round. */
	cr_expect_eq(mr->region->users,
		     !pair->num_events || pair->events[pair->num_events - 1].what == 'K');
}

Test(send, region_is_held_while_it_is_synced)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_mr *mr = pmv_container_of(pair->mr[PAGE], struct pmv_mr, mr_fid);

	pair->on_event = expect_held;
	pair->on_event_arg = pair;
	for (size_t i = 0; i < 3; i++) {
		pair_receive(pair, PAGE, 128 * i, 64);
		pair_receive(pair, PAGE, 128 * i + 64, 64);
		accepted(pair_send(pair, 128 * i, 64, CONTEXT(i), 0));
		accepted(pair_send(pair, 128 * i + 64, 64, CONTEXT(i), FI_COMMIT));
		pair_round(pair);
		expect_done(pair, "Y D K");
		cr_expect_eq(mr->region->users, 0);
	}
	pair_close(pair);
}

/* Peers that can't be believed */

static void tell_number(struct pair *pair, uint64_t number, enum pmv_fault fault)
{
	pair_tell(pair, &(struct pmv_message){.messages = true, .data = number});
	pair_serve(pair);
	pair_expect_ack(pair, pair->told, fault);
}

Test(agent, refuses_numbers_of_messages_that_can_not_be)
{
	struct pair *pair = pair_open(NULL);

	for (size_t i = 0; i < 5; i++)
		pair_receive(pair, DMP, 64 * i, 64);
	tell_number(pair, 6, PMV_FAULT_MESSAGE);
	tell_number(pair, UINT64_MAX, PMV_FAULT_MESSAGE);
	expect_done(pair, "K K");
	cr_expect_eq(kept(pair)->count, 5);
	tell_number(pair, 0, PMV_FAULT_NONE);
	tell_number(pair, 3, PMV_FAULT_NONE);
	tell_number(pair, 3, PMV_FAULT_NONE);
	expect_done(pair, "K F D K K");
	tell_number(pair, 2, PMV_FAULT_MESSAGE);
	tell_number(pair, 6, PMV_FAULT_MESSAGE);
	expect_done(pair, "K K");
	tell_number(pair, 5, PMV_FAULT_NONE);
	expect_done(pair, "F D K");
	pair_close(pair);
}

Test(agent, refuses_messages_where_no_receives_are_kept)
{
	struct pair *pair = pair_open(NULL);

	pair_receive(pair, DMP, 0, 64);
	atomic_store(&pair->to->receives.on, false);
	tell_number(pair, 0, PMV_FAULT_MESSAGE);
	tell_number(pair, 1, PMV_FAULT_MESSAGE);
	expect_done(pair, "K K");
	pair_close(pair);
}

/* Receives that are no more */

Test(cancel, makes_more_durable_and_never_less)
{
	struct pair *pair = pair_open(NULL);
	struct fid_ep *away = pair->away->ep;

	for (size_t i = 0; i < 6; i++)
		accepted(fi_recv(away, pair->memory[DMP] + 64 * i, 64, NULL, 0, CONTEXT(i)));
	accepted(pair_send(pair, 0, 64, CONTEXT(0), FI_COMMIT));
	pair_round(pair);
	expect_done(pair, "F D K");
	accepted(fi_cancel(&away->fid, CONTEXT(1)));
	refused(fi_cancel(&away->fid, CONTEXT(99)), FI_ENOENT);
	/* The second message is in the third buffer. */
	accepted(pair_send(pair, 128, 64, CONTEXT(2), FI_COMMIT));
	pair_round(pair);
	expect_done(pair, "F D K");
	cr_expect(survives(pair, DMP, 128, 64));
	for (size_t i = 3; i < 6; i++) {
		accepted(pair_send(pair, 64 * i, 64, CONTEXT(i), FI_COMMIT));
		pair_round(pair);
		cr_expect(survives(pair, DMP, 64 * i, 64));
	}
	pair_close(pair);
}

/* Bounds */

static void fill_ring(struct pair *pair, size_t count)
{
	pair->forgets_events = true;
	for (size_t i = 0; i < count; i++)
		pair_receive(pair, i % 2 ? DMP : MHP, 64 * (i % 512), 64);
}

Test(bounds, what_does_not_fit_is_made_durable_as_a_whole)
{
	struct pair *pair = pair_open(NULL);

	fill_ring(pair, 300);
	cr_expect_eq(kept(pair)->count, 64);
	for (size_t i = 0; i < 300; i++) {
		accepted(pair_send(pair, 64 * i, 64, CONTEXT(i), i % 7 ? 0 : FI_COMMIT));
		pair_round(pair);
		if (i % 7)
			continue;
		for (size_t before = i < 6 ? 0 : i - 6; before <= i; before++)
			cr_assert(survives(pair, before % 2 ? DMP : MHP, 64 * before, 64));
	}
	cr_expect_eq(kept(pair)->old_end, 0, "it is forgotten in the end");
	cr_expect_eq(kept(pair)->old_pieces, 0);
	pair_close(pair);
}

Test(bounds, who_never_commits_messages_costs_no_more_and_more_memory)
{
	struct pair *pair = pair_open(NULL);

	pair->forgets_events = true;
	for (size_t i = 0; i < 20000; i++) {
		pair_receive(pair, DMP, 64 * (i * 7 % 1000), 64);
		accepted(fi_inject(pair->home->ep, pair->source + 64 * (i * 7 % 1000), 64, 0));
		if (i % 100 == 99) {
			struct fi_cq_tagged_entry entry;

			pair_deliver(pair);
			while (fi_cq_read(pair->away->cq, &entry, 1) == 1)
				;
		}
	}
	cr_expect_eq(kept(pair)->size, 64);
	cr_expect_leq(kept(pair)->old_pieces, 1);
	pair_receive(pair, DMP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	cr_expect(survives(pair, DMP, 0, 64000));
	cr_expect_eq(kept(pair)->old_end, 0);
	pair_close(pair);
}

Test(bounds, ring_grows_with_the_depth_of_the_receive_queue)
{
	struct pair *pair = pair_open(&(struct pair_options){.away = {.rx_size = 300}});

	fill_ring(pair, 1024);
	cr_expect_eq(kept(pair)->count, 1024);
	cr_expect_eq(kept(pair)->old_end, 0);
	fill_ring(pair, 1);
	cr_expect_eq(kept(pair)->count, 1024);
	cr_expect_eq(kept(pair)->old_end, 1);
	pair_close(pair);
}

Test(bounds, too_many_pieces_of_memory_fail_commits_until_they_are_used_up)
{
	struct pair *pair = pair_open(NULL);
	struct fid_mr *mr;

	pair->forgets_events = true;
	pmv_setting.domain = PMV_DMP;
	for (size_t i = 0; i < 1200; i++) {
		/* Each one is a new piece. */
		accepted(fi_mr_reg(pair->away->domain, pair->memory[DMP] + i * 8, 8, FI_RECV, 0, 0,
				   FI_PMEM, &mr, NULL));
		if (!i) {
			pair_unregister(pair, DMP);
		}
		pair_receive(pair, DMP, i * 8, 8);
		accepted(fi_close(&mr->fid));
	}
	pair_receive(pair, MHP, 0, 64);
	for (size_t i = 0; i < 1199; i++)
		accepted(fi_inject(pair->home->ep, pair->source, 8, 0));
	accepted(pair_send(pair, 0, 8, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_SENT, FI_ENOMEM);
	accepted(pair_send(pair, 0, 64, CONTEXT(2), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_SENT);
	pair_close(pair);
}

/* All of it, at random */

static uint64_t state = 88172645463325252;

/* A message and the buffer it went to; all of them are elsewhere. */
struct sent {
	enum pair_memory memory;
	size_t offset;
	size_t len;
	bool lost; /* an immediate used it up, or it was cancelled */
};

struct random_run {
	struct pair *pair;
	struct sent receives[2000]; /* as they were posted */
	size_t posted, used;
	size_t offsets[PAIR_MEMORIES];
	size_t committed[2000]; /* by number of the commit: how many were used */
	size_t commits, completed;
};

static void random_receive(struct random_run *run)
{
	enum pair_memory memory = (enum pair_memory) dice(&state, PAIR_MEMORIES);
	size_t len = 1 + dice(&state, 90), offset = run->offsets[memory],
	       half = dice(&state, len + 1);
	char *at = run->pair->memory[memory] + offset;
	struct iovec iov[] = {{at, half}, {at + half, len - half}};

	if (offset + len > PAIR_SIZE)
		return;
	run->offsets[memory] = offset + len + dice(&state, 100);
	run->receives[run->posted] = (struct sent){memory, offset, len, false};
	accepted(fi_recvv(run->pair->away->ep, iov, NULL, 2, 0, CONTEXT(run->posted)));
	run->posted++;
}

static bool skip_lost(struct random_run *run)
{
	while (run->used < run->posted && run->receives[run->used].lost)
		run->used++;
	return run->used < run->posted;
}

static void random_send(struct random_run *run, bool commit)
{
	struct sent *to = &run->receives[run->used];
	uint64_t flags = commit ? FI_COMMIT | FI_COMPLETION | (dice(&state, 4) ? 0 : FI_FENCE) : 0;

	if (pair_send(run->pair, to->offset, to->len, CONTEXT(run->commits), flags))
		return;
	run->used++;
	if (commit)
		run->committed[run->commits++] = run->used;
}

static void random_immediate(struct random_run *run, bool imm_receives)
{
	struct pair *pair = run->pair;

	if (fi_inject_writedata(pair->home->ep, pair->source, 8, DATA, 0, ADDR, KEY_MHP))
		return;
	if (imm_receives)
		run->receives[run->used++].lost = true;
}

static void random_cancel(struct random_run *run)
{
	size_t which = run->used + dice(&state, run->posted - run->used);

	/* What is on its way has not been used up yet. */
	pair_deliver(run->pair);
	if (!run->receives[which].lost && !fi_cancel(&run->pair->away->ep->fid, CONTEXT(which)))
		run->receives[which].lost = true;
}

static void take_completions(struct random_run *run)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = {0};

	while (fi_cq_read(run->pair->away->cq, &entry, 1) == 1 ||
	       fi_cq_readerr(run->pair->away->cq, &err, 0) == 1)
		;
	while (fi_cq_read(run->pair->home->cq, &entry, 1) == 1) {
		cr_assert_eq(entry.op_context, CONTEXT(run->completed));
		for (size_t i = 0; i < run->committed[run->completed]; i++) {
			const struct sent *sent = &run->receives[i];

			cr_assert(sent->lost || survives(run->pair, sent->memory, sent->offset,
							 sent->len),
				  "receive %zu, commit %zu", i, run->completed);
		}
		run->completed++;
	}
}

static void run_at_random(uint64_t seed, bool imm_receives)
{
	struct random_run *run = calloc(1, sizeof(*run));
	struct rig_options options = {.imm_receives = imm_receives, .selective = true};

	state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	run->pair = pair_open(&(struct pair_options){.home = options, .away = options});
	run->pair->forgets_events = true;
	for (int step = 0; step < 1500; step++) {
		unsigned int what = dice(&state, 100);

		if (what < 35)
			random_receive(run);
		else if (what < 55)
			fake_complete(&run->pair->home->fake, 1 + dice(&state, 3));
		else if (what < 70)
			pair_serve(run->pair);
		else if (what < 80)
			take_completions(run);
		else if (skip_lost(run)) {
			if (what < 90)
				random_send(run, false);
			else if (what < 97)
				random_send(run, true);
			else if (what < 99)
				random_immediate(run, imm_receives);
			else if (seed % 2)
				random_cancel(run);
		}
	}
	for (int i = 0; i < 2000 && run->completed < run->commits; i++) {
		pair_round(run->pair);
		take_completions(run);
	}
	cr_assert_eq(run->completed, run->commits);
	pair_close(run->pair);
	free(run);
}

/* Under the thread sanitizer, on a busy machine, it takes minutes. */
Test(send, is_durable_whatever_happens, .timeout = 900)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		run_at_random(seed, true);
		run_at_random(seed, false);
	}
}

/* Threads */

#define THREADS 3
#define PER_THREAD 400
#define ALL (THREADS * PER_THREAD)

static atomic_int completed;

static void take_one(struct pair *pair)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_read(pair->home->cq, &entry, 1);

	cr_assert_neq(ret, -FI_EAVAIL);
	if (ret == 1)
		atomic_fetch_add(&completed, 1);
}

static void *send_many(void *arg)
{
	struct pair *pair = arg;

	for (int i = 0; i < PER_THREAD; i++) {
		while (pair_send(pair, 0, 8, CONTEXT(i), i % 5 ? 0 : FI_COMMIT) == -FI_EAGAIN)
			take_one(pair);
		take_one(pair);
	}
	return NULL;
}

Test(send, is_counted_by_threads_that_share_an_endpoint, .timeout = 60)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.thread = true,
		.automatic = true,
		/* All of them are kept one by one, so none is flushed before it is used. */
		.away = {.rx_size = ALL},
	});
	pthread_t threads[THREADS];

	pair->forgets_events = true;
	for (size_t i = 0; i <= ALL; i++)
		pair_receive(pair, DMP, 8 * i, 8);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, send_many, pair);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(atomic_load(&pair->from->initiator.sends), ALL);
	accepted(pair_send(pair, 0, 8, CONTEXT(0), FI_COMMIT));
	while (atomic_load(&completed) < ALL + 1)
		take_one(pair);
	rig_expect_nothing(pair->home);
	for (size_t i = 0; i <= ALL; i++)
		cr_assert_arr_eq(pair->durable[DMP] + 8 * i, pair->source, 8);
	pair_close(pair);
}
