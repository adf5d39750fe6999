/* SPDX-License-Identifier: BSD-2-Clause */
/* test_msg_errors.c -- commits of messages: what goes wrong, bounds, and at random */
#include "base/container.h"
#include "test_msg.h"

#include <stdlib.h>

#include "objects/ep.h"
#include "test/support/dice.h"
#include "objects/cq.h"

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
	/* It covers the message before it, whose failure nobody has been told yet. */
	accepted(pair_send(pair, 0, 64, CONTEXT(3), FI_COMMIT));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(2), RIG_SENT, FI_EIO);
	rig_expect_error(pair->home, CONTEXT(3), RIG_SENT, FI_EIO);
	pair_receive(pair, DMP, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(4), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(4), RIG_SENT);
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
	pair_tell(pair, &(struct pmv_flush_message){.messages = true, .data = number});
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
	for (size_t i = 0; i < 4000; i++) {
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

/* Each commit is for all messages before it, and nobody knows any more where they are. */
Test(bounds, too_many_pieces_of_memory_fail_all_commits)
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
	rig_expect_error(pair->home, CONTEXT(2), RIG_SENT, FI_ENOMEM);
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

Test(send, is_durable_whatever_happens, .timeout = 300)
{
	for (uint64_t seed = 1; seed <= DICE_RUNS(48); seed++) {
		run_at_random(seed, true);
		run_at_random(seed, false);
	}
}

Test(send, that_waits_for_room_fails_with_an_earlier_message)
{
	struct pair *pair = pair_open(NULL);

	pair->sync_fails = true;
	pair_receive(pair, PAGE, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_receive(pair, DMP, 0, 64);
	pair->home->fake.room = 1;
	accepted(pair_send(pair, 0, 64, CONTEXT(2), FI_COMMIT));
	pair_round(pair);
	pair->home->fake.room = -1;
	rig_expect_error(pair->home, CONTEXT(1), RIG_SENT, FI_EIO);
	rig_expect_nothing(pair->home);
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(2), RIG_SENT, FI_EIO);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}
