/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_mailbox.c -- what somebody else writes to the memory that two endpoints lend
 * each other: it proves nothing, and at worst ends their connection
 */
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "commit/answer.h"
#include "commit/push.h"
#include "objects/handshake.h"
#include "test/support/pair.h"

/* wait_long -- nothing has been heard of the agent for so long that home asks */
static void wait_long(struct pair *pair)
{
	pair->from->initiator.heard_ns = pmv_clock_ns() - INT64_C(1000000000);
	rig_expect_nothing(pair->home);
}

static uint8_t *mailbox(struct pair *pair, uint64_t number)
{
	return pair->to->mailbox.link.block + number % PMV_SLOTS * PMV_MESSAGE_SIZE;
}

static uint8_t *ack_slot(struct pair *pair, uint64_t number)
{
	return pair->from->mailbox.link.block + pmv_ack_at(number);
}

static void commit_one(struct pair *pair)
{
	accepted(pair_put(pair, DMP, 100, 50, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	pair_posted(pair);
}

Test(repair, brings_back_a_request_that_was_overwritten)
{
	static const size_t lens[] = {8, 16, 32, PMV_MESSAGE_SIZE};

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct pair *pair = pair_open(NULL);

		commit_one(pair);
		memset(mailbox(pair, 1), 0x5a, lens[i]);
		pair_serve(pair);
		expect_done(pair, "");
		wait_long(pair);
		/* A READ that fails if nobody is there, the request, an empty one behind it. */
		expect_sent(pair, "R M M");
		pair_round(pair);
		cr_expect(pair_survives(pair, DMP, 100, 50));
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect_nothing(pair->home);
		pair_close(pair);
	}
}

Test(repair, sends_nothing_that_the_agent_would_do_again)
{
	struct pair *pair = pair_open(NULL);

	commit_one(pair);
	pair_serve(pair);
	expect_done(pair, "F D K");
	/* Its acknowledgement has arrived, but home has not looked yet. */
	pair->from->initiator.heard_ns = 0;
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	expect_sent(pair, "");
	accepted(pair_put(pair, DMP, 100, 50, CONTEXT(2), FI_COMMIT));
	pair_deliver(pair);
	/* As if the agent were slow: what it takes it takes once. */
	wait_long(pair);
	pair_round(pair);
	expect_done(pair, "F D K");
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(repair, asks_once_and_again_when_that_is_answered)
{
	struct pair *pair = pair_open(NULL);

	commit_one(pair);
	wait_long(pair);
	expect_sent(pair, "R M M");
	pair_deliver(pair);
	for (int i = 0; i < 5; i++) {
		wait_long(pair);
		expect_sent(pair, "R M");
		pair_deliver(pair);
	}
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT));
	expect_sent(pair, "W M");
	pair_deliver(pair);
	wait_long(pair);
	expect_sent(pair, "R M M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(repair, has_room_for_its_question_when_the_mailbox_is_full)
{
	struct pair *pair = pair_open(NULL);

	for (int i = 0; i < PMV_WINDOW; i++)
		accepted(pair_put(pair, DMP, (size_t) i * 64, 8, CONTEXT(i), FI_COMMIT));
	pair_deliver(pair);
	pair_posted(pair);
	wait_long(pair);
	expect_sent(pair, "R M M");
	for (int i = 0; i < 8; i++)
		pair_round(pair);
	rig_expect_each(pair->home, 0, PMV_WINDOW - 1, RIG_WRITTEN);
	pair_close(pair);
}

/* Its request is not in the list of those that await an answer: it has not been sent as a whole. */
Test(repair, asks_behind_a_request_that_has_more_messages_than_the_mailbox)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_initiator *ini = &pair->from->initiator;
	int64_t begin;

	for (uint32_t key = 0; key < 21; key++) {
		for (uint64_t i = 0; i < PMV_DIRTY_RANGES; i++)
			accepted(fi_write(pair->home->ep, pair->source, 8, NULL, 0, i * 1024,
					  rig_key(0x100 + key, PMV_DMP, true), CONTEXT(1)));
		fake_complete(&pair->home->fake, SIZE_MAX);
		for (int i = 0; i < PMV_DIRTY_RANGES; i++)
			rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		pair_posted(pair);
	}
	begin = pmv_clock_ns();
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT | FI_FENCE));
	pair_posted(pair);
	fake_complete(&pair->home->fake, SIZE_MAX);
	cr_assert_eq(pair->from->mailbox.sender.sent, PMV_WINDOW);
	cr_assert(STAILQ_EMPTY(&ini->awaiting));
	cr_expect_geq(ini->heard_ns, begin, "it is not silent for long yet");
	ini->heard_ns += INT64_C(1000000000000);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "");
	wait_long(pair);
	expect_sent(pair, "R M M");
	/* Nobody is asked for what is given up. */
	fake_complete(&pair->home->fake, SIZE_MAX);
	rig_expect_nothing(pair->home);
	atomic_store(&ini->broken, true);
	ini->heard_ns = 0;
	pmv_answer_probe(ini);
	expect_sent(pair, "");
	pair_close(pair);
}

/*
 * A request of two messages, of which the first one fails, and the question comes between them.
 * The target's application must not hear of a commit that is not durable.
 */
Test(repair, asks_in_the_middle_of_a_request_that_fails_all_the_same)
{
	struct pair *pair = pair_open(NULL);
	struct iovec iov = {pair->source, 16};
	struct fi_rma_iov to[] = {
		{pair_addr(pair, PAGE, 0), 8, pair_key(pair, PAGE)},
		{pair_addr(pair, DMP, 0), 8, pair_key(pair, DMP)},
	};
	struct fi_msg_rma msg = {&iov, NULL, 1, 0, to, 2, CONTEXT(99), DATA};

	for (int i = 0; i < PMV_WINDOW - 1; i++)
		accepted(pair_put(pair, PAGE_TOO, (size_t) i * 64, 8, CONTEXT(i), FI_COMMIT));
	for (int i = 1; i <= PMV_MAX_RANGES; i++)
		accepted(pair_put(pair, DMP, (size_t) i * 1024, 8, CONTEXT(100), 0));
	pair->sync_fails = true;
	accepted(fi_writemsg(pair->home->ep, &msg, FI_COMMIT | FI_IMMED));
	pair_posted(pair);
	pair->from->initiator.heard_ns = 0;
	pmv_push(&pair->from->initiator, false);
	expect_sent(pair, "R M M");
	for (int i = 0; i < 8; i++) {
		pair_round(pair);
		pmv_push(&pair->from->initiator, false);
	}
	expect_sent(pair, "M");
	cr_expect_eq(atomic_load(&pair->from->initiator.mailbox->sender.unacked), 0);
	rig_expect_nothing(pair->away);
	pair_close(pair);
}

Test(repair, fails_commits_whose_acknowledgement_was_overwritten)
{
	struct pair *pair = pair_open(NULL);

	commit_one(pair);
	pair_serve(pair);
	memset(ack_slot(pair, 1), 0, PMV_ACK_SIZE);
	wait_long(pair);
	expect_sent(pair, "R M M");
	pair_round(pair);
	/* It may have been a fault, so success can't be told. */
	rig_expect_nothing(pair->home);
	wait_long(pair);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	wait_long(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(repair, takes_acknowledgements_that_come_in_another_order)
{
	struct pair *pair = pair_open(NULL);

	commit_one(pair);
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT));
	pair_deliver(pair);
	pair_answer(pair, 2, 2, PMV_FAULT_NONE);
	wait_long(pair);
	rig_expect_nothing(pair->home);
	pair_answer(pair, 1, 1, PMV_FAULT_NONE);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

/* A core sends from where the message is when its turn comes: the slot may have the next by then.
 */
Test(repair, sends_what_it_repeats_and_not_what_has_its_slot_now)
{
	struct pair *pair = pair_open(NULL);
	size_t left;

	for (int i = 1; i <= PMV_WINDOW; i++)
		accepted(pair_put(pair, DMP, (size_t) i * 64, 8, CONTEXT(i), FI_COMMIT));
	wait_long(pair);
	/* The link is slow: only two of them have got through. */
	fake_complete(&pair->home->fake, 4);
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	left = fake_under_way(&pair->home->fake);
	accepted(pair_put(pair, DMP, 60000, 8, CONTEXT(99), FI_COMMIT));
	/* All but that write, and its message. */
	fake_complete(&pair->home->fake, left);
	for (int i = 0; i < 8; i++)
		pair_serve(pair);
	cr_expect_leq(pair->to->mailbox.receiver.served, PMV_SLOTS,
		      "it was told of what is not there yet");
	for (int i = 0; i < 8; i++)
		pair_round(pair);
	cr_expect(pair_survives(pair, DMP, 60000, 8));
	for (int i = 3; i <= PMV_WINDOW; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(99), RIG_WRITTEN);
	pair_close(pair);
}

Test(repair, gives_up_what_is_spoilt_here)
{
	struct pair *pair = pair_open(NULL);

	commit_one(pair);
	/* As a peer can where every region has all rights. */
	memset(pair->from->mailbox.link.outbox + PMV_MESSAGE_SIZE, 0x5a, 64);
	memset(mailbox(pair, 1), 0x5a, 64);
	wait_long(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	pair_close(pair);
}

/* Everything that can be had without the secret. */
Test(seals, no_acknowledgement_of_a_stranger_completes_a_commit)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_mailbox *mailbox = &pair->from->mailbox;
	const struct pmv_seal strangers[] = {
		{{0}},
		pmv_seal(0, 0, PMV_SEALED_ACK),
		pmv_seal(mailbox->link.peer.secret, 0, PMV_SEALED_ACK),
		pmv_seal(0, mailbox->link.secret, PMV_SEALED_ACK),
		pmv_seal(mailbox->link.secret, mailbox->link.peer.secret, PMV_SEALED_ACK),
		pmv_seal(mailbox->link.peer.secret, mailbox->link.secret, PMV_SEALED_MESSAGE),
	};

	commit_one(pair);
	for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
		struct pmv_ack ack = {.number = 1, .done = 1};

		ack_encode(ack_slot(pair, 1), &ack, &strangers[i]);
		rig_expect_nothing(pair->home);
	}
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

Test(seals, no_request_of_a_stranger_is_served)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_mailbox *to = &pair->to->mailbox;
	const struct pmv_seal strangers[] = {
		{{0}},
		pmv_seal(0, 0, PMV_SEALED_MESSAGE),
		pmv_seal(to->link.peer.secret, 0, PMV_SEALED_MESSAGE),
		pmv_seal(0, to->link.secret, PMV_SEALED_MESSAGE),
		/* What the agent itself has sent can't be sent back to it. */
		pmv_seal(to->link.secret, to->link.peer.secret, PMV_SEALED_MESSAGE),
		pmv_seal(to->link.peer.secret, to->link.secret, PMV_SEALED_ACK),
	};

	for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
		struct pmv_flush_message message = {.envelope.number = 1};

		message_encode(mailbox(pair, 1), &message, &strangers[i]);
		pair_serve(pair);
		expect_done(pair, "");
	}
	commit_one(pair);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* is_allowed -- at an endpoint away, by a READ or a write of its peer at home */
static bool is_allowed(struct pair *pair, uint64_t what, uint64_t addr, uint32_t key)
{
	char byte = 0;
	unsigned int before = pair->away->fake.denied;
	bool allowed;

	if (what == FI_READ)
		accepted(fi_read(pair->home->ep, &byte, 1, NULL, 0, addr, key, NULL));
	else
		accepted(fi_write(pair->home->ep, &byte, 1, NULL, 0, addr, key, NULL));
	pair_deliver(pair);
	allowed = pair->away->fake.denied == before;
	pair->away->fake.denied = 0;
	rig_expect(pair->home, NULL, what == FI_READ ? (FI_RMA | FI_READ) : RIG_WRITTEN);
	return allowed;
}

Test(seals, peers_read_nothing_but_the_flush_page_and_do_not_write_there)
{
	struct pair *pair = pair_open(NULL);
	const struct pmv_mailbox *mailbox = &pair->to->mailbox;
	const struct pmv_handshake *away = &pair->from->mailbox.link.peer;

	cr_expect_not(is_allowed(pair, FI_READ, away->addr, away->key));
	cr_expect(is_allowed(pair, FI_WRITE, away->addr + PMV_BLOCK_SIZE - 1, away->key));
	cr_expect(is_allowed(pair, FI_READ, pmv_handshake_flush_addr(away), away->flush_key));
	cr_expect_not(is_allowed(pair, FI_WRITE, pmv_handshake_flush_addr(away), away->flush_key));
	if (mailbox->link.out_mr) {
		uint32_t key = (uint32_t) fi_mr_key(mailbox->link.out_mr);

		cr_expect_not(is_allowed(pair, FI_READ, (uintptr_t) mailbox->link.outbox, key));
		cr_expect_not(is_allowed(pair, FI_WRITE, (uintptr_t) mailbox->link.outbox, key));
	}
	pair_close(pair);
}

Test(seals, are_the_same_whether_a_side_hears_or_speaks_first)
{
	struct rig *rig = rig_open(NULL);
	const struct pmv_handshake handshake = {.known = true, .secret = 0x123456789abc};
	struct pmv_ep *first = pmv_to_ep(rig->ep), *then = pmv_to_ep(rig_ep(rig, rig->cq));
	struct pmv_seal in, out;

	accepted(pmv_mailbox_open(&first->mailbox));
	pmv_handshake_connect(first, &handshake);
	in = pmv_seal(handshake.secret, first->mailbox.link.secret, PMV_SEALED_MESSAGE);
	cr_expect_arr_eq(&first->mailbox.receiver.message_in, &in, sizeof(in));

	/* Whoever accepts has heard before it has anything of its own. */
	pmv_handshake_connect(then, &handshake);
	accepted(pmv_mailbox_open(&then->mailbox));
	cr_expect_neq(then->mailbox.link.secret, 0);
	cr_expect_neq(then->mailbox.link.secret, first->mailbox.link.secret);
	in = pmv_seal(handshake.secret, then->mailbox.link.secret, PMV_SEALED_MESSAGE);
	out = pmv_seal(then->mailbox.link.secret, handshake.secret, PMV_SEALED_ACK);
	cr_expect_arr_eq(&then->mailbox.receiver.message_in, &in, sizeof(in));
	cr_expect_arr_eq(&then->mailbox.receiver.ack_out, &out, sizeof(out));
	accepted(fi_close(&then->ep_fid.fid));
	rig_close(rig);
}

static bool is_mapped(void *memory)
{
	return !msync(memory, PMV_BLOCK_ALIGN, MS_ASYNC);
}

/* Over tcp a peer of another connection may have begun to write there, and go on at any time. */
Test(block, of_a_closed_endpoint_becomes_another_block_or_nothing)
{
	struct rig *rig = rig_open(NULL);
	uint8_t *block = NULL;

	for (int i = 0; i < 2; i++) {
		struct pmv_ep *ep = pmv_to_ep(rig_ep(rig, rig->cq));

		accepted(pmv_mailbox_open(&ep->mailbox));
		if (block)
			cr_expect_eq(ep->mailbox.link.block, block);
		block = ep->mailbox.link.block;
		cr_expect_eq(block[0], 0);
		block[0] = 1;
		accepted(fi_close(&ep->ep_fid.fid));
		cr_assert(is_mapped(block));
	}
	rig_close(rig);
	cr_expect_not(is_mapped(block));
}
