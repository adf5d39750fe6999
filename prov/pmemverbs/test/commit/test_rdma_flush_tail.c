/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdma_flush_tail.c -- fenced commits by ATOMIC WRITE, behind RDMA FLUSHes */
#include "test/support/flush_rig.h"

#include "commit/rdma_flush.h"

#define TAIL 32

static struct pair *opened(void)
{
	flush_rig.ways |= PMEMRDMA_ATOMIC_WRITES;
	return flush_rig_open();
}

static ssize_t put_tail(struct pair *pair, size_t offset, size_t len, int context)
{
	return pair_put(pair, DMP, offset, len, CONTEXT(context),
			FI_COMMIT | FI_FENCE | FI_COMPLETION);
}

static ssize_t append(struct pair *pair, size_t offset, int context)
{
	accepted(pair_put(pair, DMP, offset, 64, CONTEXT(99), 0));
	return put_tail(pair, TAIL, 8, context);
}

Test(rdma_flush_tail, is_one_list_with_the_flush_of_its_record_and_its_own)
{
	struct pair *pair = opened();

	/* However far the record is from the tail. */
	accepted(append(pair, 20000, 1));
	cr_expect_eq(flush_rig.doorbells, 1);
	cr_expect_eq(flush_rig.atomic_writes, 1);
	expect_sent(pair, "W W0 W R");
	flush_rig_expect(pair, 20000, 64);
	flush_rig_expect(pair, TAIL, 8);
	/* Success is told once, by the last one. */
	for (int i = 0; i < 3; i++)
		rig_end_part(pair->home, 0);
	rig_expect_nothing(pair->home);
	rig_end_part(pair->home, 0);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	/* All of that is durable, so nothing is left. */
	accepted(put_tail(pair, TAIL, 8, 2));
	expect_sent(pair, "W R");
	cr_expect_eq(flush_rig.atomic_writes, 2);
	flush_rig_expect(pair, TAIL, 8);
	flush_rig_expect_done(pair, 2);
	pair_close(pair);
}

Test(rdma_flush_tail, waits_for_no_flush_under_way)
{
	struct pair *pair = opened();

	accepted(flush_rig_commit(pair, 0, 64, 0));
	for (int i = 1; i < 10; i++)
		accepted(put_tail(pair, TAIL + 8 * (size_t) (i % 3), 8, i));
	cr_expect_eq(flush_rig.atomic_writes, 9);
	pair_deliver(pair);
	rig_expect_each(pair->home, 0, 9, RIG_WRITTEN);
	pair_close(pair);
}

/* refused_behind -- what may pass an ATOMIC WRITE waits for it, and keeps others from prolonging
 * that */
static void refused_behind(struct pair *pair, ssize_t ret)
{
	cr_expect_eq(ret, -FI_EAGAIN);
	refused(put_tail(pair, TAIL, 8, 3), FI_EAGAIN);
	expect_sent(pair, "W R");
	flush_rig_expect_done(pair, 1);
	accepted(put_tail(pair, TAIL, 8, 3));
	pair_close(pair);
}

static struct pair *with_tail(void)
{
	struct pair *pair = opened();

	/* Its key is known. */
	accepted(flush_rig_commit(pair, 0, 64, 4));
	flush_rig_expect_done(pair, 4);
	pair_posted(pair);
	accepted(put_tail(pair, TAIL, 8, 1));
	return pair;
}

Test(rdma_flush_tail, lets_nothing_pass)
{
	struct pair *pair = with_tail();

	refused_behind(pair, pair_put(pair, DMP, TAIL, 8, CONTEXT(2), 0));
	pair = with_tail();
	refused_behind(pair, pair_put(pair, DMP, 1000, 64, CONTEXT(2), 0));
	pair = with_tail();
	refused_behind(pair, flush_rig_commit(pair, TAIL, 8, 2));
	pair = with_tail();
	refused_behind(pair, pair_send(pair, 0, 8, CONTEXT(2), 0));
	pair = with_tail();
	refused_behind(pair, rig_read(pair->home, KEY_MHP, CONTEXT(2)));
}

/* Whoever was refused may not come back, and the application may read nothing until this is
 * accepted.
 */
Test(rdma_flush_tail, is_not_held_up_for_ever_by_what_it_waits_for)
{
	struct pair *pair = with_tail();

	refused(pair_put(pair, DMP, 1000, 64, CONTEXT(2), 0), FI_EAGAIN);
	refused(put_tail(pair, TAIL, 8, 3), FI_EAGAIN);
	pair_deliver(pair);
	accepted(put_tail(pair, TAIL, 8, 3));
	pair_close(pair);
}

/* As behind a payload: where the application needs no order, but never to its place. */
Test(rdma_flush_tail, lets_writes_to_other_places_pass_on_demand)
{
	struct pair *pair = with_tail();

	atomic_store(&pair->from->initiator.passes, true);
	accepted(pair_put(pair, DMP, 1000, 64, CONTEXT(2), 0));
	accepted(put_tail(pair, TAIL, 8, 2));
	accepted(put_tail(pair, TAIL + 16, 8, 3));
	flush_rig.shown += 2;
	flush_rig_expect(pair, 1000, 64);
	accepted(pair_put(pair, DMP, TAIL - 8, 8, CONTEXT(5), 0));
	accepted(pair_put(pair, DMP, TAIL + 24, 8, CONTEXT(5), 0));
	accepted(pair_put(pair, MHP, TAIL, 8, CONTEXT(5), 0));
	refused(pair_put(pair, DMP, TAIL + 4, 8, CONTEXT(5), 0), FI_EAGAIN);
	pair_close(pair);
	pair = with_tail();
	atomic_store(&pair->from->initiator.passes, true);
	refused(pair_put(pair, DMP, TAIL, 8, CONTEXT(5), 0), FI_EAGAIN);
	refused(flush_rig_commit(pair, 1000, 8, 5), FI_EAGAIN);
	pair_close(pair);
}

Test(rdma_flush_tail, lets_no_write_pass_to_the_place_of_one_of_two_regions)
{
	struct pair *pair = opened();
	struct pmv_attr attr;
	uint64_t *key = &pair->mr[READ_DMP]->key;

	cr_assert(pmv_key_unpack(*key, &attr));
	attr.ddio = attr.flushable = attr.atomic_write = true;
	*key = pmv_key_pack((uint32_t) pmv_key_core(*key), &attr);
	atomic_store(&pair->from->initiator.passes, true);
	accepted(put_tail(pair, TAIL, 8, 1));
	accepted(pair_put(pair, READ_DMP, TAIL, 8, CONTEXT(2), FI_COMMIT | FI_FENCE));
	cr_assert_eq(flush_rig.atomic_writes, 2);
	refused(pair_put(pair, DMP, TAIL, 8, CONTEXT(3), 0), FI_EAGAIN);
	pair_close(pair);
}

/* What is not 8 aligned bytes may pass a FLUSH, so it waits. */
Test(rdma_flush_tail, is_8_aligned_bytes)
{
	static const struct {
		size_t offset, len;
	} others[] = {{TAIL + 4, 8}, {TAIL, 4}, {TAIL, 16}, {TAIL + 1, 8}};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct pair *pair = opened();

		accepted(flush_rig_commit(pair, 0, 64, 1));
		refused(put_tail(pair, others[i].offset, others[i].len, 2), FI_EAGAIN);
		flush_rig_expect_done(pair, 1);
		accepted(put_tail(pair, others[i].offset, others[i].len, 2));
		cr_expect_eq(flush_rig.atomic_writes, 0);
		expect_sent(pair, "W R W R");
		pair_close(pair);
		pair = opened();
		accepted(pair_put(pair, DMP, 20000, 64, CONTEXT(99), 0));
		accepted(put_tail(pair, others[i].offset, others[i].len, 2));
		/* Its agent makes the record durable first. */
		expect_sent(pair, "W M");
		pair_close(pair);
	}
}

/* The core takes no other. */
Test(rdma_flush_tail, is_of_one_buffer)
{
	struct pair *pair = opened();
	const struct iovec iov[2] = {{pair->source, 8}, {pair->source, 0}};
	const struct fi_rma_iov to = {pair_addr(pair, DMP, TAIL), 8, pair_key(pair, DMP)};
	const struct fi_msg_rma msg = {
		.msg_iov = iov,
		.iov_count = 2,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = CONTEXT(1),
	};

	accepted(fi_writemsg(pair->home->ep, &msg, FI_COMMIT | FI_FENCE | FI_COMPLETION));
	cr_expect_eq(flush_rig.atomic_writes, 0);
	expect_sent(pair, "W R");
	pair_close(pair);
}

static void by_agent(struct pair *pair)
{
	accepted(append(pair, 20000, 1));
	expect_sent(pair, "W M");
	cr_expect_eq(flush_rig.atomic_writes, 0);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

Test(rdma_flush_tail, needs_a_peer_that_takes_it)
{
	struct pair *pair = flush_rig_open();

	/* The key does not say so. */
	flush_rig.ways |= PMEMRDMA_ATOMIC_WRITES;
	pmv_initiator_established(&pair->from->initiator);
	by_agent(pair);
}

Test(rdma_flush_tail, needs_a_core_that_has_it)
{
	struct pair *pair = opened();

	flush_rig.ways &= ~(unsigned) PMEMRDMA_ATOMIC_WRITES;
	pmv_initiator_established(&pair->from->initiator);
	by_agent(pair);
}

/* A FLUSH covers one region, and is posted to none on a guess. */
Test(rdma_flush_tail, is_the_agents_behind_writes_to_another_region)
{
	struct pair *pair = opened();

	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(99), 0));
	expect_sent(pair, "W");
	by_agent(pair);
	pair = opened();
	accepted(pair_put(pair, READ_DMP, 0, 64, CONTEXT(99), 0));
	accepted(append(pair, 20000, 1));
	cr_expect_eq(flush_rig.atomic_writes, 0);
	pair_close(pair);
}

/* What it was asked for is remembered no more, and no fence of a NIC waits for it. */
Test(rdma_flush_tail, is_the_agents_behind_what_it_was_asked_for)
{
	struct pair *pair = opened();

	accepted(pair_put(pair, PAGE, 0, PAIR_LARGE, CONTEXT(2), FI_COMMIT | FI_COMPLETION));
	accepted(put_tail(pair, TAIL, 8, 1));
	cr_expect_eq(flush_rig.atomic_writes, 0);
	expect_sent(pair, "W M M");
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	accepted(put_tail(pair, TAIL, 8, 1));
	cr_expect_eq(flush_rig.atomic_writes, 1);
	pair_close(pair);
}

Test(rdma_flush_tail, is_none_behind_what_is_lost)
{
	struct pair *pair = opened();

	pair->from->initiator.dirty.lost = FI_EIO;
	put_tail(pair, TAIL, 8, 1);
	cr_expect_eq(flush_rig.atomic_writes, 0);
	pair_close(pair);
}

Test(rdma_flush_tail, is_the_agents_behind_records_that_are_far_apart)
{
	struct pair *pair = opened();

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(99), 0));
	expect_sent(pair, "W");
	by_agent(pair);
}

Test(rdma_flush_tail, of_another_regions_waits_for_flushes_under_way)
{
	struct pair *pair = opened();

	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(99), 0));
	accepted(flush_rig_commit(pair, 0, 64, 1));
	refused(put_tail(pair, TAIL, 8, 2), FI_EAGAIN);
	refused(flush_rig_commit(pair, 0, 64, 3), FI_EAGAIN);
	flush_rig_expect_done(pair, 1);
	accepted(put_tail(pair, TAIL, 8, 2));
	cr_expect_eq(flush_rig.atomic_writes, 0);
	pair_close(pair);
}

Test(rdma_flush_tail, is_behind_reads_where_the_core_holds_nothing_back)
{
	struct pair *pair;

	flush_rig.ways |= PMEMRDMA_ATOMIC_WRITES;
	pair = flush_rig_open_fenceless();
	accepted(rig_read(pair->home, KEY_MHP, CONTEXT(2)));
	refused(put_tail(pair, TAIL, 8, 1), FI_EAGAIN);
	pair_deliver(pair);
	accepted(put_tail(pair, TAIL, 8, 1));
	cr_expect_eq(flush_rig.atomic_writes, 1);
	pair_close(pair);
}

Test(rdma_flush_tail, carries_the_fence_of_reads_before)
{
	struct pair *pair = opened();

	accepted(rig_read(pair->home, KEY_MHP, CONTEXT(2)));
	accepted(append(pair, 20000, 1));
	expect_sent(pair, "R W W0 fW R");
	pair_close(pair);
}

Test(rdma_flush_tail, without_room_is_refused_and_forgets_nothing)
{
	struct pair *pair = opened();

	accepted(rig_read(pair->home, KEY_MHP, CONTEXT(2)));
	flush_rig.accepts = 2;
	refused(append(pair, 20000, 1), FI_EAGAIN);
	flush_rig.accepts = 3;
	accepted(put_tail(pair, TAIL, 8, 1));
	flush_rig_expect(pair, 20000, 64);
	flush_rig_expect(pair, TAIL, 8);
	expect_sent(pair, "R W W0 fW R");
	/* Only those that were posted keep others waiting. */
	refused(pair_put(pair, DMP, TAIL, 8, CONTEXT(3), 0), FI_EAGAIN);
	pair_deliver(pair);
	accepted(pair_put(pair, DMP, TAIL, 8, CONTEXT(3), 0));
	pair_close(pair);
}

static void commit_meanwhile(struct fake *fake, const struct fake_post *posted, void *arg)
{
	struct pair *pair = arg;

	(void) posted;
	fake->on_post = NULL;
	accepted(put_tail(pair, TAIL, 8, 1));
}

Test(rdma_flush_tail, keeps_what_another_thread_is_posting)
{
	struct pair *pair = opened();

	pair->home->fake.on_post = commit_meanwhile;
	pair->home->fake.on_post_arg = pair;
	accepted(pair_put(pair, DMP, 20000, 64, CONTEXT(99), 0));
	flush_rig_expect(pair, 20000, 64);
	flush_rig_expect(pair, TAIL, 8);
	accepted(put_tail(pair, TAIL, 8, 2));
	flush_rig_expect(pair, 20000, 64);
	pair_close(pair);
}

/* fails_at -- the first that fails tells why, and the last one ends it */
static void fails_at(int which)
{
	struct pair *pair = opened();

	accepted(append(pair, 20000, 1));
	for (int i = 0; i < 4; i++) {
		rig_expect_nothing(pair->home);
		rig_end_part(pair->home, i < which ? 0 : i == which ? FI_EACCES : FI_ECANCELED);
	}
	if (!which) {
		struct fi_cq_err_entry err = {0};

		/* The record's own error is in front. */
		cr_assert_eq(fi_cq_readerr(pair->home->cq, &err, 0), 1);
		cr_expect_eq(err.op_context, CONTEXT(99));
	}
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, which ? FI_EACCES : FI_ECANCELED);
	/* Nobody is told of it twice, and what follows is refused until it is read. */
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(rdma_flush_tail, whose_flush_in_front_fails_ends_with_its_error)
{
	fails_at(1);
}

Test(rdma_flush_tail, that_fails_ends_with_its_error)
{
	fails_at(2);
}

Test(rdma_flush_tail, whose_own_flush_fails_ends_with_its_error)
{
	fails_at(3);
}

Test(rdma_flush_tail, is_refused_behind_a_failure_that_is_not_read)
{
	struct pair *pair = opened();

	accepted(flush_rig_commit(pair, 0, 64, 1));
	rig_end_part(pair->home, FI_EACCES);
	rig_end_part(pair->home, FI_ECANCELED);
	pmv_queue_progress(pair->from->initiator.owner.tx_queue, false);
	refused(put_tail(pair, TAIL, 8, 2), FI_ECANCELED);
	cr_expect_eq(flush_rig.atomic_writes, 0);
	pair_close(pair);
}

Test(rdma_flush_tail, needs_no_agent)
{
	struct pair *pair;

	flush_rig.ways |= PMEMRDMA_ATOMIC_WRITES;
	pair = flush_rig_open_with(
		&(struct pair_options){.home = {.selective = true}, .no_agent = true});
	accepted(append(pair, 20000, 1));
	flush_rig_expect(pair, 20000, 64);
	flush_rig_expect(pair, TAIL, 8);
	flush_rig_expect_done(pair, 1);
	pair_close(pair);
}

Test(rdma_flush_tail, does_not_hide_what_the_agent_was_asked_for_in_vain)
{
	struct pair *pair = opened();

	flush_rig_drop_request(pair);
	accepted(put_tail(pair, TAIL, 8, 3));
	pair_deliver(pair);
	cr_expect_eq(flush_rig.atomic_writes, 0);
	cr_expect_eq(flush_rig.count, 0U);
	rig_expect_error(pair->home, CONTEXT(3), RIG_WRITTEN, FI_ECANCELED);
	pair_close(pair);
}
