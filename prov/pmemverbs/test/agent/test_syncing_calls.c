/* SPDX-License-Identifier: BSD-2-Clause */
/* test_syncing_calls.c -- groups, where the test does what threads do */
#include "disks.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "agent/service.h"
#include "agent/syncing.h"
#include "objects/domain.h"

struct stage {
	struct pair *pair;
	struct pmv_agent *agent;
	struct pmv_receiver *receiver;
};

static struct stage begin(void)
{
	struct stage stage = {.pair = pair_open(NULL)};

	stage.agent = pair_agent(stage.pair);
	stage.receiver = &stage.pair->to->mailbox.receiver;
	pmv_syncing_begin(stage.agent);
	return stage;
}

static void end(struct stage *stage)
{
	pmv_syncing_end(stage->agent);
	pair_close(stage->pair);
}

static void round_of(struct stage *stage, struct pmv_slice slice)
{
	pthread_mutex_lock(&stage->agent->serving);
	pmv_service_round(stage->agent, slice);
	pthread_mutex_unlock(&stage->agent->serving);
}

static bool waits(struct stage *stage)
{
	bool waits;

	pthread_mutex_lock(&stage->agent->lock);
	waits = pmv_service_waits(stage->agent);
	pthread_mutex_unlock(&stage->agent->lock);
	return waits;
}

Test(groups, keep_the_thread_awake_that_is_to_sync_them)
{
	struct stage stage = begin();
	struct pmv_sync_disk *taken;
	uint64_t kicks;

	pair_tell_of(stage.pair, PAGE, 0, 8);
	/* It may have fallen asleep, and a call of the application serves. */
	atomic_store(&stage.agent->asleep, true);
	round_of(&stage, PMV_WHOLE_SLICE);
	cr_expect_eq(read(stage.agent->kick_fd, &kicks, sizeof(kicks)), sizeof(kicks));
	expect_done(stage.pair, "");
	cr_expect(waits(&stage));
	taken = pmv_syncing_take_group(stage.agent);
	cr_assert_not_null(taken);
	cr_expect_not(waits(&stage));
	pmv_syncing_carry_out(stage.agent, taken);
	cr_expect(waits(&stage), "it is to be concluded");
	round_of(&stage, PMV_WHOLE_SLICE);
	expect_done(stage.pair, "Y D K");
	cr_expect_not(waits(&stage));
	end(&stage);
}

Test(groups, of_two_disks_are_not_synced_one_after_the_other, .timeout = 60)
{
	struct stage stage;
	struct pmv_sync_disk *taken;

	open_target_with(false);
	stage = (struct stage){.pair = pair, .agent = pair_agent(pair)};
	pmv_syncing_begin(stage.agent);
	ask_for(0, PAGE, 0);
	ask_for(1, PAGE_TOO, 0);
	round_of(&stage, PMV_WHOLE_SLICE);
	taken = pmv_syncing_take_group(stage.agent);
	cr_assert_not_null(taken);
	cr_expect_null(pmv_syncing_take_group(stage.agent), "a thread does that");
	pmv_syncing_carry_out(stage.agent, taken);
	while (!look_at(0).acks || !look_at(1).acks) {
		round_of(&stage, PMV_WHOLE_SLICE);
		/* The disk's thread needs the lock. */
		usleep(100);
	}
	pmv_syncing_end(stage.agent);
	close_target();
}

/* As the acknowledgement is posted */

static uint64_t counted;

static void look_at_counts(struct fake *fake, const struct fake_post *post, void *arg)
{
	struct stage *stage = arg;

	(void) fake, (void) post;
	counted = atomic_load(&stage->agent->batch->counts.syncs);
}

Test(groups, are_counted_before_their_peers_hear_of_them)
{
	struct stage stage = begin();

	pair_tell_of(stage.pair, PAGE, 0, 8);
	round_of(&stage, PMV_WHOLE_SLICE);
	pmv_syncing_carry_out(stage.agent, pmv_syncing_take_group(stage.agent));
	stage.pair->away->fake.on_post = look_at_counts;
	stage.pair->away->fake.on_post_arg = &stage;
	round_of(&stage, PMV_WHOLE_SLICE);
	cr_expect_eq(counted, 1);
	stage.pair->away->fake.on_post = NULL;
	end(&stage);
}

/* In one line after the other, as if its requests took several rounds. */
#define LITTLE ((struct pmv_slice){16 << 10, 1})

/*
 * make_group_behind_ack -- one request is done, but can't be acknowledged yet; the next one, which
 * takes several rounds, is in a group
 */
static void make_group_behind_ack(struct stage *stage)
{
	stage->pair->away->fake.room = 0;
	pair_tell_of(stage->pair, DMP, 0, 8);
	pair_tell_of(stage->pair, PAGE, 0, 8);
	stage->agent->syncing.begun = false;
	round_of(stage, LITTLE);
	cr_assert(stage->receiver->working && stage->receiver->num_queued);
	stage->agent->syncing.begun = true;
	round_of(stage, PMV_WHOLE_SLICE);
	cr_assert(stage->receiver->syncing && stage->receiver->num_queued);
	pair_done(stage->pair);
}

/* The core refuses the acknowledgement for good. */
static void refuse_ack(struct stage *stage)
{
	stage->pair->away->fake.room = -1;
	stage->pair->away->fake.fail_in = 1;
	stage->pair->away->fake.fail_err = FI_EIO;
	round_of(stage, PMV_WHOLE_SLICE);
	cr_assert(stage->receiver->refused);
}

Test(groups, of_who_cannot_be_answered_are_dropped)
{
	struct stage stage = begin();

	make_group_behind_ack(&stage);
	refuse_ack(&stage);
	cr_expect_not(stage.receiver->syncing);
	cr_expect_null(pmv_syncing_take_group(stage.agent), "nobody is to hear of it");
	cr_expect_not(waits(&stage));
	end(&stage);
}

Test(groups, of_who_can_no_more_be_answered_end_without_an_answer)
{
	struct stage stage = begin();
	struct pmv_sync_disk *taken;
	uint64_t acks;

	make_group_behind_ack(&stage);
	taken = pmv_syncing_take_group(stage.agent);
	cr_assert_not_null(taken);
	refuse_ack(&stage);
	acks = stage.receiver->posted_acks;
	pmv_syncing_carry_out(stage.agent, taken);
	round_of(&stage, PMV_WHOLE_SLICE);
	cr_expect_eq(stage.receiver->posted_acks, acks);
	cr_expect_not(stage.receiver->working);
	cr_expect_not(waits(&stage));
	end(&stage);
}

/* Signals */

static atomic_int bus_blocked, user_blocked; /* -1: not known */

static void look_at_signals(void *arg)
{
	sigset_t mask;

	(void) arg;
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	atomic_store(&bus_blocked, sigismember(&mask, SIGBUS));
	atomic_store(&user_blocked, sigismember(&mask, SIGUSR1));
}

Test(groups, of_a_disks_thread_are_not_interrupted_by_signals, .timeout = 60)
{
	struct stage stage = begin();

	atomic_store(&user_blocked, -1);
	pair_tell_of(stage.pair, PAGE, 0, 8);
	stage.pair->on_event = look_at_signals;
	/* A call of the application starts the thread. */
	stage.agent->syncing.all_beside = true;
	round_of(&stage, PMV_WHOLE_SLICE);
	while (atomic_load(&user_blocked) < 0)
		usleep(100);
	cr_expect_eq(atomic_load(&user_blocked), 1);
	cr_expect_eq(atomic_load(&bus_blocked), 0, "a page may be lost: guard.h");
	end(&stage);
}
