/* SPDX-License-Identifier: BSD-2-Clause */
/* test_push.c -- what an endpoint waits for, and who sleeps meanwhile */
#include "test_flush_request.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "agent/receiver.h"
#include "commit/push.h"
#include "objects/cq.h"

static struct pair *open_pair(void)
{
	return pair_open(&(struct pair_options){
		.home = {.wait_obj = FI_WAIT_FD, .own_rx_cq = true},
	});
}

/* fill_mailbox -- and one commit more, which waits for an acknowledgement to be sent */
static void fill_mailbox(struct pair *pair)
{
	commit_some(pair, PMV_WINDOW + 1);
	/* However long this takes, nobody asks whether the peer is there. */
	pair->from->initiator.heard_ns += INT64_C(1000000000000);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pair_posted(pair);
	cr_assert_not(STAILQ_EMPTY(&pair->from->initiator.stalled));
}

/* drain -- what fill_mailbox has posted ends */
static void drain(struct pair *pair)
{
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	for (int i = 0; i < 8; i++) {
		pair_round(pair);
		pmv_push(&pair->from->initiator, false);
	}
	rig_expect_each(pair->home, 0, PMV_WINDOW, RIG_WRITTEN);
	pair_close(pair);
}

static struct pmv_agent *home_agent(struct pair *pair)
{
	return &pmv_to_domain(pair->home->domain)->agent;
}

/* play_thread_over -- as if home's agent had one, which sleeps */
static void play_thread_over(struct pair *pair, bool on, bool manual_progress)
{
	struct pmv_agent *agent = home_agent(pair);

	pmv_setting.agent = on ? PMV_AGENT_THREAD : PMV_AGENT_PROGRESS;
	pair->home->core.manual_progress = on && manual_progress;
	atomic_store(&agent->running, on);
	atomic_store(&agent->asleep, on);
	/* Nobody is woken only to see whether the peer is there. */
	agent->woke_ns = on ? INT64_MAX : 0;
}

/* play_thread -- over a core that moves data in calls */
static void play_thread(struct pair *pair, bool on)
{
	play_thread_over(pair, on, true);
}

/* is_kicked -- and that is forgotten */
static bool is_kicked(struct pair *pair)
{
	uint64_t kicks;

	return read(home_agent(pair)->kick_fd, &kicks, sizeof(kicks)) > 0;
}

static bool is_ready(struct fid_cq *cq)
{
	struct pollfd fd = {.fd = pmv_to_cq(cq)->queue.epoll_fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static int is_pending(struct fid_cq *cq)
{
	return pmv_queue_pending(&pmv_to_cq(cq)->queue);
}

/* drain_into_room -- the core has some again: the message that waited is sent, and all ends */
static void drain_into_room(struct pair *pair)
{
	pair->home->fake.room = -1;
	pmv_push(&pair->from->initiator, false);
	expect_sent(pair, "M");
	for (int i = 0; i < 8; i++)
		pair_round(pair);
	rig_expect_each(pair->home, 1, PMV_WINDOW, RIG_WRITTEN);
	pair_close(pair);
}

Test(push, waits_for_an_acknowledgement_if_the_mailbox_is_full)
{
	struct pair *pair = open_pair();

	fill_mailbox(pair);
	cr_expect_eq(is_pending(pair->home->cq), PMV_PENDING_ACKS);
	cr_expect_eq(is_pending(pair->home->rx_cq), PMV_PENDING_ACKS);
	rig_expect_nothing(pair->home);
	cr_expect_eq(is_pending(pair->home->cq), PMV_PENDING_ACKS);
	/* Now it is the core that has no room. */
	pair_expect_stalled(pair);
	pair->home->fake.room = 0;
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(0), RIG_WRITTEN);
	cr_expect_eq(is_pending(pair->home->cq), PMV_PENDING_POSTS);
	drain_into_room(pair);
}

/* The agent's thread, or the application, has read the first one, and does not come back. */
Test(push, has_who_sleeps_on_the_other_queue_look_for_room)
{
	struct pair *pair = open_pair();

	fill_mailbox(pair);
	play_thread(pair, true);
	accepted(pmv_cq_trywait(pmv_to_cq(pair->home->rx_cq)));
	play_thread(pair, false);
	pair_expect_stalled(pair);
	pair->home->fake.room = 0;
	pair_serve(pair);
	cr_expect_not(is_ready(pair->home->rx_cq));
	rig_expect(pair->home, CONTEXT(0), RIG_WRITTEN);
	cr_expect(is_ready(pair->home->rx_cq));
	cr_expect_eq(is_pending(pair->home->rx_cq), PMV_PENDING_POSTS);
	drain_into_room(pair);
}

Test(push, has_who_sleeps_on_the_first_queue_look_for_room_that_the_other_one_lacked)
{
	struct pair *pair = open_pair();
	struct fi_cq_tagged_entry entry;

	fill_mailbox(pair);
	pair_expect_stalled(pair);
	pair->home->fake.room = 0;
	pair_serve(pair);
	refused(fi_cq_read(pair->home->rx_cq, &entry, 1), FI_EAGAIN);
	cr_expect_eq(is_pending(pair->home->cq), PMV_PENDING_POSTS);
	rig_expect(pair->home, CONTEXT(0), RIG_WRITTEN);
	drain_into_room(pair);
}

Test(push, waits_to_post_if_the_core_has_no_room_for_a_message)
{
	struct pair *pair = open_pair();

	pair->home->fake.room = 1;
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(is_pending(pair->home->cq), PMV_PENDING_POSTS);
	pair->home->fake.room = -1;
	rig_expect_nothing(pair->home);
	cr_expect_eq(is_pending(pair->home->cq), PMV_PENDING_ACKS);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* Whoever reads one of the queues goes on, so those are woken who sleep on any of them. */
static void expect_woken(bool tx, bool rx)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = home_agent(pair);

	fill_mailbox(pair);
	play_thread(pair, true);
	if (tx)
		accepted(pmv_cq_trywait(pmv_to_cq(pair->home->cq)));
	if (rx)
		accepted(pmv_cq_trywait(pmv_to_cq(pair->home->rx_cq)));
	pmv_agent_nudge(agent);
	cr_expect_not(tx && is_ready(pair->home->cq));
	cr_expect_not(rx && is_ready(pair->home->rx_cq));
	play_thread(pair, false);
	pair_serve(pair);
	play_thread(pair, true);
	pmv_agent_nudge(agent);
	cr_expect(!tx || is_ready(pair->home->cq));
	cr_expect(!rx || is_ready(pair->home->rx_cq));
	play_thread(pair, false);
	drain(pair);
}

/* A call that finds another one looking leaves it to that, which then looks again. */
Test(push, has_one_of_many_calls_look_for_a_thread_that_sleeps)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = home_agent(pair);

	play_thread(pair, true);
	atomic_store(&agent->nudging, true);
	pmv_agent_nudge(agent);
	atomic_store(&agent->nudging, false);
	cr_expect_not(is_kicked(pair));
	cr_expect(atomic_load(&agent->nudged));
	pmv_agent_nudge(agent);
	cr_expect_not(is_kicked(pair));
	cr_expect_not(atomic_load(&agent->nudged));
	/* The thread has looked, perhaps, and is falling asleep. */
	pthread_mutex_lock(&agent->lock);
	pmv_agent_nudge(agent);
	pthread_mutex_unlock(&agent->lock);
	cr_expect(is_kicked(pair));
	play_thread(pair, false);
	pair_close(pair);
}

/* Others nudge it in each look, which takes the time if somebody is watched. */
static struct {
	struct pmv_agent *agent;
	unsigned int looks;
} nudges;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (nudges.agent && ++nudges.looks < 1000) {
		atomic_store(&nudges.agent->nudged, true);
		atomic_store(&nudges.agent->watched, true);
	}
	return __real_clock_gettime(clock, time);
}

/* look_amid_others -- how often a call looks that others nudge without end */
static unsigned int look_amid_others(struct pair *pair)
{
	struct pmv_agent *agent = home_agent(pair);

	atomic_store(&agent->watched, true);
	nudges.looks = 0;
	nudges.agent = agent;
	pmv_agent_nudge(agent);
	nudges.agent = NULL;
	atomic_store(&agent->watched, false);
	return nudges.looks;
}

Test(push, has_a_call_end_that_looks_for_others)
{
	struct pair *pair = open_pair();
	struct pmv_receiver *receiver = TAILQ_FIRST(&home_agent(pair)->looks.active);

	play_thread(pair, true);
	cr_expect_lt(look_amid_others(pair), 100);
	/* What is left is the thread's. */
	cr_expect(is_kicked(pair));
	cr_expect_not(atomic_load(&home_agent(pair)->nudging));
	/* It is not kept waiting for what has been found. */
	receiver->working = true;
	cr_expect_eq(look_amid_others(pair), 1);
	receiver->working = false;
	cr_expect(is_kicked(pair));
	play_thread(pair, false);
	pair_close(pair);
}

Test(push, has_an_acknowledgement_wake_who_sleeps)
{
	expect_woken(true, false);
	expect_woken(false, true);
	expect_woken(true, true);
}

Test(push, goes_on_with_a_read_of_the_other_queue)
{
	struct pair *pair = open_pair();
	struct fi_cq_tagged_entry entry;

	fill_mailbox(pair);
	pair_serve(pair);
	refused(fi_cq_read(pair->home->rx_cq, &entry, 1), FI_EAGAIN);
	expect_sent(pair, "M");
	drain(pair);
}

Test(push, wakes_all_who_sleep_when_the_connection_is_lost)
{
	struct pair *pair = open_pair();
	struct fi_cq_err_entry err;

	fill_mailbox(pair);
	play_thread(pair, true);
	accepted(pmv_cq_trywait(pmv_to_cq(pair->home->cq)));
	accepted(pmv_cq_trywait(pmv_to_cq(pair->home->rx_cq)));
	pmv_initiator_break(&pair->from->initiator);
	cr_expect(is_ready(pair->home->cq));
	cr_expect(is_ready(pair->home->rx_cq));
	play_thread(pair, false);
	for (int i = 0; i <= PMV_WINDOW; i++)
		rig_expect_error(pair->home, CONTEXT(i), RIG_WRITTEN, FI_ECANCELED);
	refused(fi_cq_readerr(pair->home->cq, &err, 0), FI_EAGAIN);
	pair_close(pair);
}

/* What was to wake them has been read by whoever is about to sleep. */
Test(push, lets_nobody_fall_asleep_who_waits_on_a_lost_connection)
{
	struct pair *pair = open_pair();

	fill_mailbox(pair);
	play_thread(pair, true);
	pmv_initiator_break(&pair->from->initiator);
	refused(pmv_cq_trywait(pmv_to_cq(pair->home->cq)), FI_EAGAIN);
	refused(pmv_cq_trywait(pmv_to_cq(pair->home->rx_cq)), FI_EAGAIN);
	play_thread(pair, false);
	for (int i = 0; i <= PMV_WINDOW; i++)
		rig_expect_error(pair->home, CONTEXT(i), RIG_WRITTEN, FI_ECANCELED);
	pair_close(pair);
}

/* As a probe that fails finds it, behind the look that would have failed them. */
Test(push, lets_nobody_fall_asleep_before_a_broken_connection_has_failed_all)
{
	struct pair *pair = open_pair();
	struct pmv_initiator *ini = &pair->from->initiator;

	commit_some(pair, 1);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pthread_mutex_lock(&ini->lock);
	cr_expect_eq(pmv_push_pending(ini), PMV_PENDING_ACKS);
	atomic_store(&ini->broken, true);
	cr_expect_eq(pmv_push_pending(ini), PMV_PENDING_POSTS);
	pthread_mutex_unlock(&ini->lock);
	rig_expect_error(pair->home, CONTEXT(0), RIG_WRITTEN, FI_ECANCELED);
	pair_close(pair);
}

/* One has fallen asleep behind a commit whose acknowledgement the reader of the other queue took.
 */
Test(push, has_the_agents_thread_look_for_who_slept_before)
{
	struct pair *pair = open_pair();

	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	play_thread_over(pair, true, false);
	accepted(pmv_cq_trywait(pmv_to_cq(pair->home->rx_cq)));
	cr_assert(is_kicked(pair));
	play_thread(pair, false);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	play_thread_over(pair, true, false);
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(2), FI_COMMIT));
	cr_expect(is_kicked(pair));
	play_thread(pair, false);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

Test(push, has_a_refused_call_look_for_what_it_has_moved)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = home_agent(pair);
	unsigned long before;

	fill_mailbox(pair);
	play_thread(pair, true);
	atomic_store(&agent->calls_look, true);
	before = atomic_load(&agent->looking_calls);
	refused(pair_put(pair, DMP, 0, 8, CONTEXT(0), FI_COMMIT), FI_EAGAIN);
	cr_expect_gt(atomic_load(&agent->looking_calls), before);
	atomic_store(&agent->calls_look, false);
	play_thread(pair, false);
	drain(pair);
}
