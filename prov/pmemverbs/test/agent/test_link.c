/* SPDX-License-Identifier: BSD-2-Clause */
/* test_link.c -- messages that have no entry when they were sent, where the core lets us choose */
#include "agent/link.h"
#include "commit/push.h"
#include "base/clock.h"
#include "test/support/pair.h"

static struct pair *open_quiet(void)
{
	return pair_open(&(struct pair_options){.home = {.no_fence = true, .quiet = true},
						.away = {.no_fence = true, .quiet = true}});
}

static void commit(struct pair *pair, int n)
{
	accepted(pair_put(pair, DMP, 100, 50, CONTEXT(n), FI_COMMIT));
}

/* last_ack_is_told -- has away's last acknowledgement an entry when it was sent? */
static bool last_ack_is_told(struct pair *pair)
{
	const struct fake *away = &pair->away->fake;

	return away->posts[away->num_posts - 1].op.reported;
}

Test(quiet, a_commit_ends_with_its_acknowledgement)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.home = {.no_fence = true, .quiet = true, .tx_op_flags = FI_COMPLETION},
		.away = {.no_fence = true, .quiet = true, .tx_op_flags = FI_COMPLETION}});

	commit(pair, 1);
	expect_sent(pair, "W M");
	cr_expect_not(pair_post(pair, 0)->op.reported);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pair_serve(pair);
	cr_expect_not(last_ack_is_told(pair));
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* What a peer does not take uses up memory here: it may acknowledge what it has not read. */
Test(quiet, some_messages_are_waited_for)
{
	struct pair *pair = open_quiet();
	int told = 0;

	for (int i = 1; i <= 2 * PMV_SIGNAL_EVERY; i++) {
		commit(pair, i);
		told += pair_post(pair, 0)->op.reported;
		if (!pair_post(pair, 0)->op.reported) {
			pair_round(pair);
			rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
			continue;
		}
		/* Its write has its entry, and it is acknowledged. */
		fake_complete(&pair->home->fake, 1);
		fake_deliver(&pair->home->fake, 1);
		pair_serve(pair);
		rig_expect_nothing(pair->home);
		fake_complete(&pair->home->fake, 1);
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	}
	cr_expect_eq(told, 2);
	pair_close(pair);
}

Test(quiet, a_message_that_fails_fails_its_commit)
{
	struct pair *pair = open_quiet();
	const struct fake_post *message;

	commit(pair, 1);
	message = pair_post(pair, 0);
	cr_assert_not(message->op.reported);
	fake_complete(&pair->home->fake, 1);
	cr_assert(fake_fail(&pair->home->fake, FI_ECANCELED, 0));
	rig_expect_nothing(pair->home);
	/* A READ finds out whose it was. */
	pair->from->initiator.heard_ns = pmv_clock_ns() - INT64_C(1000000000);
	rig_expect_nothing(pair->home);
	cr_assert_gt(fake_fail_all(&pair->home->fake, FI_ECANCELED, 0), 0);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(quiet, few_acknowledgements_are_left_with_a_peer_that_takes_none)
{
	struct pair *pair = open_quiet();
	struct fake *away = &pair->away->fake;
	size_t before = fake_under_way(away), left;

	for (unsigned int i = 0; i < 3 * PMV_SLOTS; i++) {
		pair_tell_of(pair, DMP, 0, 8);
		pmv_agent_serve(pair_agent(pair));
	}
	left = fake_under_way(away) - before;
	cr_expect_geq(left, PMV_SLOTS);
	cr_expect_lt(left, PMV_SLOTS + PMV_SIGNAL_EVERY);
	/* It has taken them: then it hears of all that were served. */
	fake_complete(away, left);
	pmv_agent_serve(pair_agent(pair));
	pmv_agent_serve(pair_agent(pair));
	cr_expect_gt(fake_under_way(away), before);
	fake_complete(away, 2 * PMV_SLOTS);
	pair_close(pair);
}

/* The connection may be ended behind it: not before it was sent. */
Test(quiet, an_acknowledgement_with_a_fault_is_waited_for)
{
	struct pair *pair = open_quiet();
	struct pmv_range range = pair_range(pair, DMP, 0, 8);

	pair_tell_of(pair, DMP, 0, 8);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	cr_expect_not(last_ack_is_told(pair));
	range.addr += PAIR_SIZE;
	pair_tell_range(pair, range);
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_ACCESS);
	cr_expect(last_ack_is_told(pair));
	pair_close(pair);
}

static void post_each_kind(struct rig *rig, char *buf)
{
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_writemsg(rig, KEY_DMP_DDIO, CONTEXT(2), 0));
	accepted(rig_sendmsg(rig, CONTEXT(3), 0));
	accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(4), 0));
	accepted(rig_fetch(rig, KEY_MHP, CONTEXT(5), 0));
	/* Where nothing is remembered of a write it takes another way. */
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(6), 0));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(7), 0));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(8), FI_COMPLETION));
	accepted(fi_recv(rig->ep, buf, 1, NULL, 0, CONTEXT(9)));
}

/* The application's own operations are told as they ever were. */
Test(quiet, the_applications_operations_are_told)
{
	for (unsigned int selective = 0; selective < 4; selective++) {
		uint64_t tx = selective & 1 ? FI_SELECTIVE_COMPLETION : 0;
		uint64_t rx = selective & 2 ? FI_SELECTIVE_COMPLETION : 0;
		struct rig *rig = rig_open(&(struct rig_options){
			.no_fence = true, .quiet = true, .no_cq = true, .not_enabled = true});
		char byte;

		accepted(fi_ep_bind(rig->ep, &rig->cq->fid, FI_TRANSMIT | tx));
		accepted(fi_ep_bind(rig->ep, &rig->cq->fid, FI_RECV | rx));
		accepted(fi_enable(rig->ep));
		post_each_kind(rig, &byte);
		fake_complete(&rig->fake, SIZE_MAX);
		fake_receive(&rig->fake, 0);
		if (!tx) {
			rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
			rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
			rig_expect(rig, CONTEXT(3), RIG_SENT);
			rig_expect(rig, CONTEXT(4), FI_RMA | FI_READ);
			rig_expect(rig, CONTEXT(5), FI_ATOMIC | FI_READ);
			rig_expect(rig, CONTEXT(6), RIG_WRITTEN);
			rig_expect(rig, CONTEXT(7), RIG_WRITTEN);
		}
		rig_expect(rig, CONTEXT(8), RIG_WRITTEN);
		if (!rx)
			rig_expect(rig, CONTEXT(9), RIG_RECEIVED);
		rig_expect_nothing(rig);
		rig_close(rig);
	}
}

static struct rig *open_unbound(void)
{
	return rig_open(&(struct rig_options){
		.no_fence = true, .quiet = true, .no_cq = true, .not_enabled = true});
}

/* The core is bound in two steps: a call that is refused has taken neither. */
Test(quiet, a_queue_that_is_refused_is_not_bound)
{
	struct rig *rig = open_unbound();
	struct fid *cq = &rig->cq->fid;
	char byte;

	accepted(fi_ep_bind(rig->ep, cq, FI_RECV));
	refused(fi_ep_bind(rig->ep, cq, FI_TRANSMIT | FI_RECV), FI_EINVAL);
	refused(fi_ep_bind(rig->ep, cq, FI_TRANSMIT | FI_READ), FI_EBADFLAGS);
	accepted(fi_ep_bind(rig->ep, cq, FI_TRANSMIT));
	accepted(fi_enable(rig->ep));
	post_each_kind(rig, &byte);
	rig_close(rig);
}

/* What is bound stays as it is: with FI_SELECTIVE_COMPLETION. */
Test(quiet, a_queue_that_is_bound_again_tells_no_more)
{
	struct rig *rig = open_unbound();
	struct fid *cq = &rig->cq->fid;

	accepted(fi_ep_bind(rig->ep, cq, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	refused(fi_ep_bind(rig->ep, cq, FI_TRANSMIT), FI_EINVAL);
	accepted(fi_enable(rig->ep));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(2), FI_COMPLETION));
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_expect_nothing(rig);
	rig_close(rig);
}
