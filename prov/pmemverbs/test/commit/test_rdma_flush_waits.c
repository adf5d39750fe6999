/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdma_flush_waits.c -- what waits for an RDMA FLUSH that is under way */
#include "test/support/flush_rig.h"

#include <pthread.h>
#include <sched.h>

#include "test/objects/chain.h"

/* What waits for FLUSHes: each of them is accepted when the FLUSH has ended. */
enum late {
	FENCED_COMMIT,
	FENCED_WRITE,
	FENCED_SEND,
	NOTICE,
	BY_AGENT,
	SMALL_BY_AGENT,
	ATOMIC,
	LATE
};

static ssize_t do_late(struct pair *pair, enum late what)
{
	switch (what) {
	case FENCED_COMMIT:
		return pair_put(pair, DMP, 0, 64, CONTEXT(2), FI_COMMIT | FI_FENCE);
	case FENCED_WRITE:
		return pair_put(pair, MHP, 0, 64, CONTEXT(2), FI_FENCE);
	case FENCED_SEND:
		return pair_send(pair, 0, 8, CONTEXT(2), FI_FENCE);
	case NOTICE:
		return pair_put(pair, DMP, 0, 64, CONTEXT(2), FI_COMMIT | FI_IMMED);
	case BY_AGENT:
		return pair_put(pair, PAGE, 0, PAIR_LARGE, CONTEXT(2), FI_COMMIT);
	case SMALL_BY_AGENT:
		return pair_put(pair, PAGE, 0, 64, CONTEXT(2), FI_COMMIT);
	case ATOMIC:
		return pair_fetch(pair, DMP, 0, CONTEXT(2), FI_COMMIT);
	case LATE:
		break;
	}
	return -FI_EINVAL;
}

/* lets_pass_late -- whoever holds fenced requests back: none of them waits for a FLUSH */
static void lets_pass_late(struct pair *(*open)(void) )
{
	for (enum late what = FENCED_COMMIT; what < LATE; what++) {
		struct pair *pair = open();

		/* Its key is known: it could be an ordinary one. */
		accepted(
			pair_put(pair, PAGE, 0, PAIR_LARGE, CONTEXT(9), FI_COMMIT | FI_COMPLETION));
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(9), RIG_WRITTEN);
		pair_posted(pair);
		accepted(flush_rig_commit(pair, 0, 64, 1));
		cr_expect_eq(do_late(pair, what), -FI_EAGAIN, "%d", what);
		/* Or others would keep it waiting for ever. */
		cr_expect_eq(flush_rig_commit(pair, 0, 64, 3), -FI_EAGAIN, "%d", what);
		expect_sent(pair, "W R");
		flush_rig_expect_done(pair, 1);
		cr_expect_eq(do_late(pair, what), 0, "%d", what);
		pair_close(pair);
	}
}

Test(rdma_flush, lets_nothing_pass_that_counts_on_it)
{
	lets_pass_late(flush_rig_open);
}

Test(rdma_flush, lets_nothing_pass_where_the_core_holds_nothing_back)
{
	lets_pass_late(flush_rig_open_fenceless);
}

Test(rdma_flush, behind_a_fence_waits_for_reads_that_the_core_does_not_wait_for)
{
	struct pair *pair = flush_rig_open_fenceless();

	accepted(rig_read(pair->home, KEY_MHP, CONTEXT(2)));
	refused(pair_put(pair, DMP, 64, 64, CONTEXT(3), FI_COMMIT | FI_FENCE), FI_EAGAIN);
	expect_sent(pair, "R");
	pair_deliver(pair);
	accepted(pair_put(pair, DMP, 64, 64, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W R");
	flush_rig_expect(pair, 64, 64);
	pair_close(pair);
}

Test(rdma_flush, that_is_waited_for_in_vain_keeps_nobody)
{
	struct pair *pair = flush_rig_open();

	accepted(flush_rig_commit(pair, 0, 64, 1));
	refused(do_late(pair, FENCED_WRITE), FI_EAGAIN);
	flush_rig_expect_done(pair, 1);
	accepted(flush_rig_commit(pair, 0, 64, 2));
	accepted(flush_rig_commit(pair, 0, 64, 3));
	expect_sent(pair, "W R W R W R");
	pair_close(pair);
}

Test(rdma_flush, is_what_a_fenced_commit_is_made_by_if_nothing_is_left)
{
	struct pair *pair = flush_rig_open();

	accepted(flush_rig_commit(pair, 0, 64, 1));
	flush_rig_expect_done(pair, 1);
	accepted(rig_read(pair->home, KEY_MHP, CONTEXT(2)));
	accepted(pair_put(pair, DMP, 64, 64, CONTEXT(3), FI_COMMIT | FI_FENCE));
	expect_sent(pair, "W R R fW R");
	pair_close(pair);
}

/* Two threads */

/* What counts on a record, and has found no FLUSH under way. */
struct late_caller {
	struct pair *pair;
	ssize_t (*call)(struct pair *pair);
	ssize_t ret;
};

static ssize_t swing(struct pair *pair)
{
	return pair_put(pair, MHP, 0, 8, CONTEXT(3), FI_COMMIT | FI_FENCE | FI_COMPLETION);
}

static ssize_t swing_by_chain(struct pair *pair)
{
	static uint64_t one = 1;
	struct fi_pmemverbs_step step = chain_at(
		pair, STEP(WRITE, .flags = FI_PMEMVERBS_STEP_COMMIT, .len = 8, .operand = &one),
		DMP, 4096);

	return chain_post(pair, &step, 1, CONTEXT(3));
}

static void *call_late(void *arg)
{
	struct late_caller *caller = arg;

	caller->ret = caller->call(caller->pair);
	return NULL;
}

/* own_lock -- whoever holds the endpoint's lock can make calls */
static void own_lock(struct pmv_initiator *ini)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_destroy(&ini->lock);
	cr_assert_eq(pthread_mutex_init(&ini->lock, &attr), 0);
	pthread_mutexattr_destroy(&attr);
}

/* overtake -- the call has looked, and waits for the lock; a FLUSH then takes the record */
static void overtake(ssize_t (*call)(struct pair *pair))
{
	struct pair *pair = flush_rig_open();
	struct late_caller caller = {pair, call, 0};
	struct pmv_initiator *ini = &pair->from->initiator;
	uint_fast64_t head;
	size_t taken;
	pthread_t thread;

	own_lock(ini);
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(9), 0));
	head = atomic_load(&ini->owner.stack->head);
	taken = atomic_load(&ini->owner.pool->taken);
	pthread_mutex_lock(&ini->lock);
	cr_assert_eq(pthread_create(&thread, NULL, call_late, &caller), 0);
	/* It takes a run when it has looked. */
	while (atomic_load(&ini->owner.stack->head) == head &&
	       atomic_load(&ini->owner.pool->taken) == taken)
		sched_yield();
	accepted(flush_rig_commit(pair, 128, 64, 1));
	flush_rig_expect(pair, 0, 192);
	pthread_mutex_unlock(&ini->lock);
	pthread_join(thread, NULL);
	cr_expect_eq(caller.ret, -FI_EAGAIN);
	expect_sent(pair, "W W R");
	flush_rig_expect_done(pair, 1);
	cr_expect_eq(call(pair), 0);
	pair_close(pair);
}

Test(rdma_flush, lets_no_fenced_commit_pass_that_has_looked_before_it, .timeout = 60)
{
	overtake(swing);
}

Test(rdma_flush, lets_no_chain_pass_that_has_looked_before_it, .timeout = 60)
{
	overtake(swing_by_chain);
}
