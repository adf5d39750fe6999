/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_thread_share.c -- what the agent's thread does about requests that it can't serve yet, about
 * notices without room, and when the process, or a child of it, ends
 */
#include "slices.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objects/cq.h"
#include "agent/service.h"

/* What is no work */

/* wait_for_sleeps -- whoever is kept awake never gets there */
static void wait_for_sleeps(struct pmv_agent *agent, unsigned long count)
{
	unsigned long before = atomic_load(&agent->sleeps);

	while (atomic_load(&agent->sleeps) < before + count)
		usleep(100);
}

Test(thread, thread_sleeps_though_a_request_has_come_in_part, .timeout = 60)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, &(struct pair_options){.thread = true});
	struct pmv_mailbox *mailbox = &shared->pair->to->mailbox;
	uint8_t *slot = mailbox->link.block + PMV_MESSAGE_SIZE;
	uint64_t check;

	/* It arrives without its check. */
	tell_of(shared, 0, 8);
	memcpy(&check, slot + 8, sizeof(check));
	memset(slot + 8, 0, sizeof(check));
	wait_for_sleeps(&shared->domain->agent, 20);
	cr_expect_eq(mailbox->receiver.served, 0);
	memcpy(slot + 8, &check, sizeof(check));
	pmv_agent_kick(&shared->domain->agent);
	while (!fake_complete(&shared->pair->away->fake, 1))
		usleep(100);
	pair_expect_ack(shared->pair, 1, PMV_FAULT_NONE);
	end_sharing(shared);
}

/* Notices */

/* fill_cq -- with entries of this connection */
static void fill_cq(struct pair *pair)
{
	struct pmv_queue *queue = &pmv_to_cq(pair->away->rx_cq)->queue;

	for (size_t i = 0; i < queue->size; i++)
		pmv_queue_add_for(queue, pair->to->mailbox.receiver.events.unread,
				  pmv_comp_success(queue, NULL));
}

Test(thread, notice_without_room_keeps_nobody_waiting_or_awake, .timeout = 60)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, &(struct pair_options){.thread = true});
	struct pair *pair = shared->pair;
	struct pmv_flush_message notice = {
		.count = 1, .ranges = {{0, 8, BIG_KEY}}, .notify = true, .data = 7};
	struct fi_cq_tagged_entry entry;

	fill_cq(pair);
	pair_tell(pair, &notice);
	wait_for_sleeps(&shared->domain->agent, 20);
	ask_for(shared, 0, 8);
	pmv_agent_kick(&shared->domain->agent);
	while (!fake_complete(&pair->away->fake, 1))
		usleep(100);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	/* Reading one makes room for it. */
	cr_assert_eq(fi_cq_read(pair->away->cq, &entry, 1), 1);
	while (!fake_complete(&pair->away->fake, 1))
		usleep(100);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	do
		cr_assert_eq(fi_cq_read(pair->away->cq, &entry, 1), 1);
	while (entry.data != 7);
	end_sharing(shared);
}

Test(thread, reading_kicks_the_thread_that_waits_for_room)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, NULL);
	struct pair *pair = shared->pair;
	struct pmv_flush_message notice = {
		.count = 1, .ranges = {{0, 8, BIG_KEY}}, .notify = true, .data = 7};
	struct fi_cq_tagged_entry entry;
	uint64_t kicks;

	fill_cq(pair);
	pair_tell(pair, &notice);
	pair_serve(pair);
	pair_expect_ack(pair, 0, PMV_FAULT_NONE);
	cr_expect_not(pmv_service_waits(&shared->domain->agent), "it is no work yet");
	/* As if there were a thread. */
	pmv_setting.agent = PMV_AGENT_THREAD;
	atomic_store(&shared->domain->agent.asleep, true);
	cr_assert_eq(fi_cq_read(pair->away->cq, &entry, 1), 1);
	cr_expect_eq(read(shared->domain->agent.kick_fd, &kicks, sizeof(kicks)), sizeof(kicks));
	cr_expect(pmv_service_waits(&shared->domain->agent));
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	end_sharing(shared);
}

/* The process ends */

static atomic_bool stuck, let_go;

static void never_return(void)
{
	done.on_flush = NULL;
	atomic_store(&stuck, true);
	while (!atomic_load(&let_go))
		usleep(1000);
}

Test(thread, end_of_the_process_waits_for_no_flush_and_no_lock, .timeout = 60)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, &(struct pair_options){.thread = true});
	struct pmv_agent *agent = &shared->domain->agent;

	done.on_flush = never_return;
	tell_of(shared, 0, 8);
	while (!atomic_load(&stuck))
		usleep(1000);
	/* As if a handler that interrupted who holds it had called exit(). */
	pthread_mutex_lock(&agent->lock);
	pmv_agent_stop_all();
	pthread_mutex_unlock(&agent->lock);
	atomic_store(&let_go, true);
	/* It was left behind; it ends when it can. */
	cr_expect(atomic_load(&agent->running));
	pthread_join(agent->thread, NULL);
	end_sharing(shared);
}

/* The thread sanitizer ends a child that starts a thread. */
#ifndef __SANITIZE_THREAD__

/* again -- a thread of the child's, which may get the memory of one that is not there */
static void *again(void *arg)
{
	return arg;
}

/* exit_as_child -- 0: it ends without its parent's threads, and its own are its own */
static int exit_as_child(struct pmv_agent *agent)
{
	pthread_t thread;
	void *result = NULL;

	if (pthread_create(&thread, NULL, again, agent))
		return 1;
	pmv_agent_stop_all();
	pmv_agent_stop(agent);
	if (atomic_load(&agent->stop))
		return 2;
	return pthread_join(thread, &result) || result != agent ? 3 : 0;
}

static atomic_int forks;
static pthread_t ending;
static struct pmv_agent *ended;

/* fork_in_handler -- as any program's may */
static void fork_in_handler(int signal)
{
	pid_t child = fork();
	int status = -1;

	(void) signal;
	if (!child)
		_exit(0);
	if (waitpid(child, &status, 0) == child && !status)
		atomic_fetch_add(&forks, 1);
}

/* interrupt_end -- of the process, while it waits for this thread */
static void interrupt_end(void)
{
	done.on_flush = NULL;
	atomic_store(&stuck, true);
	while (!atomic_load(&ended->stop))
		usleep(1000);
	pthread_kill(ending, SIGUSR1);
	while (!atomic_load(&let_go))
		usleep(1000);
}

Test(thread, end_of_the_process_may_be_interrupted_by_who_forks, .timeout = 60)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, &(struct pair_options){.thread = true});

	ended = &shared->domain->agent;
	ending = pthread_self();
	signal(SIGUSR1, fork_in_handler);
	done.on_flush = interrupt_end;
	tell_of(shared, 0, 8);
	while (!atomic_load(&stuck))
		usleep(1000);
	pmv_agent_stop_all();
	while (!atomic_load(&forks))
		usleep(1000);
	atomic_store(&let_go, true);
	pthread_join(ended->thread, NULL);
	end_sharing(shared);
}

Test(thread, is_not_waited_for_at_the_end_of_a_child, .timeout = 60)
{
	struct shared *shared = share(PMV_DMP, BIG_LEN, &(struct pair_options){.thread = true});
	struct pmv_agent *agent = &shared->domain->agent;
	int status = -1;
	pid_t child = fork();

	if (!child)
		_exit(exit_as_child(agent));
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0, "%#x", status);
	/* The parent's goes on. */
	tell_of(shared, 0, 8);
	end_sharing(shared);
}

#endif
