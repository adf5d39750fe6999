/* SPDX-License-Identifier: BSD-2-Clause */
/* test_stand_in.c -- nobody waits for somebody else's disk, whoever syncs it */
#include "disks.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "objects/cq.h"

/* The thread that has set a timer gets no processor for a while. */
static atomic_bool preempted;

/* The timer never expires, so nobody stands in. */
static atomic_bool no_timer;

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *old);

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	int ret;

	if (atomic_load(&no_timer) && when->it_value.tv_nsec > 1)
		return 0;
	ret = __real_timerfd_settime(fd, flags, when, old);
	if (atomic_load(&preempted) && when->it_value.tv_nsec > 1)
		usleep(5 * PMV_SYNC_QUICK_NS / 1000);
	return ret;
}

Test(stand_in, acts_although_the_timer_expires_before_the_sync_begins, .timeout = 60)
{
	open_target();
	ask_for(1, PAGE_TOO, 0);
	await_end(1);
	atomic_store(&preempted, true);
	begin_sync(PAGE);
	ask_for(1, DMP, 64);
	await_end(1);
	end_sync();
	close_target();
}

/* Two peers without pause */

static bool endless;

/* ask_again -- while one request is synced the next one is there */
static void ask_again(enum pair_memory memory)
{
	static int peer;

	if (endless && memory == PAGE)
		ask_for(peer++ % 2, PAGE, 64);
}

/* begin_endless -- the first two peers ask without pause, until end_endless */
static void begin_endless(void)
{
	watch_syncs(ask_again);
	pthread_mutex_lock(&disk.lock);
	endless = true;
	ask_for(0, PAGE, 0);
	pthread_mutex_unlock(&disk.lock);
	await_begun(PAGE, number_of(disk.begun, PAGE) + 3);
}

static void end_endless(void)
{
	pthread_mutex_lock(&disk.lock);
	endless = false;
	pthread_mutex_unlock(&disk.lock);
	await_end(0);
	await_end(1);
	watch_syncs(NULL);
}

Test(stand_in, is_not_needed_for_a_disk_that_another_one_leaves_no_time, .timeout = 60)
{
	static const enum pair_memory orders[2][2] = {{PAGE, PAGE_TOO}, {PAGE_TOO, PAGE}};

	for (int order = 0; order < 4; order++) {
		open_target();
		/* In this order the agent gets to know its disks. */
		for (int i = 0; i < 2; i++) {
			ask_for(2, orders[order % 2][i], 0);
			await_end(2);
		}
		/* Disks may get threads, or none. */
		only_main = order >= 2;
		begin_endless();
		ask_for(2, PAGE_TOO, 0);
		await_end(2);
		end_endless();
		only_main = false;
		close_target();
		for (int i = 0; i < PEERS; i++)
			asked[i] = 0;
	}
}

/* park -- as if its hints arrived, and none had come for long */
static void park(struct pmv_agent *agent, struct pmv_receiver *receiver)
{
	pthread_mutex_lock(&agent->lock);
	if (!receiver->look.hinted)
		agent->looks.unhinted--;
	receiver->look.hinted = true;
	if (!receiver->look.parked) {
		TAILQ_REMOVE(&agent->looks.active, receiver, next);
		TAILQ_INSERT_TAIL(&agent->looks.parked, receiver, next);
		agent->looks.num_parked++;
	}
	receiver->look.parked = true;
	pthread_mutex_unlock(&agent->lock);
}

Test(stand_in, is_not_needed_to_search_while_others_leave_no_time, .timeout = 60)
{
	open_target();
	/* The agent's thread is alone: no disk gets a thread either. */
	ask_for(2, PAGE_TOO, 0);
	await_end(2);
	atomic_store(&no_timer, true);
	only_main = true;
	begin_endless();
	park(pair_agent(pair), &peers[2]->mailbox.receiver);
	ask_for(2, DMP, 0);
	await_end(2);
	end_endless();
	only_main = false;
	close_target();
}

/* An application that sleeps at the target */

static atomic_bool attended_in_sync;

static void look_at_queue(enum pair_memory memory)
{
	struct pmv_agent *agent = pair_agent(pair);
	bool stands_in;

	(void) memory;
	if (!pthread_equal(pthread_self(), agent->thread) ||
	    !atomic_load(&pmv_to_cq(pair->away->cq)->queue.attended))
		return;
	/* On a busy machine it may act by now; then it attends to the queue. */
	pthread_mutex_lock(&agent->lock);
	stands_in = agent->syncing.all_beside;
	pthread_mutex_unlock(&agent->lock);
	if (!stands_in)
		atomic_store(&attended_in_sync, true);
}

Test(stand_in, is_not_waited_for_by_who_sleeps_on_a_queue, .timeout = 60)
{
	struct pmv_queue *queue;
	int after = 0;

	open_target();
	queue = &pmv_to_cq(pair->away->cq)->queue;
	watch_syncs(look_at_queue);
	while (pmv_cq_trywait(pmv_to_cq(pair->away->cq)))
		rig_expect_nothing(pair->away);
	/* The agent's thread attends to the queue while it is awake. */
	while (after < 100) {
		ask_for(1, PAGE, 0);
		await_end(1);
		after += after || atomic_load(&queue->attended);
	}
	cr_expect_not(atomic_load(&attended_in_sync));
	close_target();
}

/* An acknowledgement has an entry in the queue, which is to wake nobody. */
static atomic_bool attended_at_ack;

static void look_at_ack(struct fake *fake, const struct fake_post *post, void *arg)
{
	struct pmv_queue *queue = arg;

	(void) fake, (void) post;
	atomic_store(&attended_at_ack, atomic_load(&queue->attended));
}

/* await_sleep -- after one that nothing has ended, so no request is likely */
static void await_sleep(struct pmv_agent *agent)
{
	unsigned long slept = atomic_load(&agent->sleeps) - atomic_load(&agent->wakes);

	while (atomic_load(&agent->sleeps) - atomic_load(&agent->wakes) == slept ||
	       !atomic_load(&agent->asleep))
		sched_yield();
}

Test(stand_in, leaves_a_queue_attended_although_the_thread_slept_before_the_sync, .timeout = 60)
{
	struct pmv_agent *agent;
	struct pmv_queue *queue;

	atomic_store(&no_timer, true);
	open_target();
	agent = pair_agent(pair);
	queue = &pmv_to_cq(pair->away->cq)->queue;
	while (pmv_cq_trywait(pmv_to_cq(pair->away->cq)))
		rig_expect_nothing(pair->away);
	pair->away->fake.on_post_arg = queue;
	pair->away->fake.on_post = look_at_ack;
	await_sleep(agent);
	cr_expect_not(atomic_load(&queue->attended));
	/* The first one: if it is slow by chance, the next one is for another thread. */
	begin_sync(PAGE);
	usleep(PMV_IDLE_ATTEND_NS / 1000);
	end_sync();
	cr_expect(atomic_load(&attended_at_ack));
	pair->away->fake.on_post = NULL;
	close_target();
}
