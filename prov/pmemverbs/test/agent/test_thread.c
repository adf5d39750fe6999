/* SPDX-License-Identifier: BSD-2-Clause */
/* test_thread.c -- the agent: with many connections, and with threads */
#include "test/support/pair.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <sys/mman.h>
#include <unistd.h>

#include "objects/cq.h"

/* Many connections */

static void leave(struct pmv_ep *ep)
{
	accepted(fi_close(&ep->ep_fid.fid));
}

/* fill_mailbox -- as soon as it is served, until it is full */
static void fill_mailbox(struct pair *pair, struct pmv_ep *ep)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;
	struct pmv_flush_message message = {.count = 1, .ranges = {pair_range(pair, DMP, 0, 8)}};

	for (int i = 1; i <= PMV_SLOTS; i++) {
		message.envelope.number = mailbox->receiver.served + i;
		message_encode(mailbox->link.block +
				       message.envelope.number % PMV_SLOTS * PMV_MESSAGE_SIZE,
			       &message, &mailbox->receiver.message_in);
	}
}

#define CROWD 10

/* Whoever always asks must not keep it from the others. */
static void expect_all_served(struct pair *pair, struct pmv_ep **eps, int count)
{
	uint64_t before[CROWD];

	for (int i = 0; i < count; i++)
		before[i] = eps[i]->mailbox.receiver.served;
	for (int round = 0; round < count; round++) {
		for (int i = 0; i < count; i++)
			fill_mailbox(pair, eps[i]);
		pair_serve(pair);
	}
	for (int i = 0; i < count; i++)
		cr_expect_gt(eps[i]->mailbox.receiver.served, before[i], "mailbox %d of %d", i,
			     count);
}

Test(agent, serves_all_in_turn_whoever_comes_and_goes)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_ep *eps[CROWD];

	pair->forgets_events = true;
	for (int i = 0; i < CROWD; i++) {
		eps[i] = pair_join(pair);
		expect_all_served(pair, eps, i + 1);
	}
	/* Whatever their places are by now. */
	for (int count = CROWD; count > 1; count--) {
		leave(eps[--count]);
		expect_all_served(pair, eps, count);
		eps[count++] = pair_join(pair);
		expect_all_served(pair, eps, count);
		leave(eps[0]);
		eps[0] = eps[count - 1];
		expect_all_served(pair, eps, count - 1);
	}
	leave(eps[0]);
	pair_close(pair);
}

/* reads_of_a_pass -- of the core's CQs */
static int reads_of_a_pass(struct pair *pair)
{
	int before = pair->away->fake.cq_reads;

	pmv_agent_progress(pair_agent(pair));
	return pair->away->fake.cq_reads - before;
}

Test(agent, reads_a_queue_once_however_many_endpoints_share_it)
{
	struct pair *pair = pair_open(&(struct pair_options){.away = {.own_rx_cq = true}});
	struct pmv_ep *eps[CROWD];
	int few, served;

	/* Data move in calls only. */
	pair->away->core.manual_progress = true;
	few = reads_of_a_pass(pair);
	cr_expect_eq(few, 2);
	pair_tell_of(pair, DMP, 0, 8);
	served = reads_of_a_pass(pair);
	cr_expect_gt(served, few, "what was posted is to be reaped");
	for (int i = 0; i < CROWD; i++)
		eps[i] = pair_join(pair);
	cr_expect_eq(reads_of_a_pass(pair), few);
	for (int i = 0; i < 4; i++)
		fill_mailbox(pair, eps[i]);
	cr_expect_eq(reads_of_a_pass(pair), served);
	for (int i = 0; i < CROWD; i++)
		leave(eps[i]);
	pair_close(pair);
}

/* The region is about to be closed while a flush of it is under way. */

static struct pair *busy_pair;
static atomic_int closing; /* 1: about to be, 2: closed */

static void *close_region(void *arg)
{
	(void) arg;
	atomic_store(&closing, 1);
	accepted(fi_close(&busy_pair->mr[DMP]->fid));
	atomic_store(&closing, 2);
	return NULL;
}

static pthread_t closer;

static void slow_flush(const void *addr, size_t len)
{
	(void) addr, (void) len;
	cr_assert_eq(pthread_create(&closer, NULL, close_region, NULL), 0);
	while (!atomic_load(&closing))
		usleep(1000);
	usleep(50000);
	cr_expect_eq(atomic_load(&closing), 1, "closed while it is being flushed");
}

static void no_drain(void)
{
}

Test(agent, region_is_not_closed_while_it_is_flushed, .timeout = 30)
{
	static const struct pmv_flush_ops slow = {.flush = slow_flush, .drain = no_drain};
	struct pair *pair = pair_open(NULL);

	busy_pair = pair;
	pmv_flush = &slow;
	pair_tell_of(pair, DMP, 0, 8);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	pthread_join(closer, NULL);
	cr_expect_eq(atomic_load(&closing), 2);
	pair->mr[DMP] = NULL;
	pair_close(pair);
}

static void expect_unknown(struct fake *fake, uint64_t key, void *arg)
{
	struct pmv_agent *agent = arg;
	uint64_t offset;

	(void) fake;
	cr_expect_null(pmv_region_get(&agent->regions, (uint32_t) key,
				      (uintptr_t) busy_pair->memory[DMP], 8, &offset),
		       "the core's region goes first");
}

/* The key may be another region's as soon as the core has closed it. */
Test(agent, forgets_a_region_before_the_core_closes_it)
{
	struct pair *pair = pair_open(NULL);

	busy_pair = pair;
	pair->away->fake.on_mr_close_arg = pair_agent(pair);
	pair->away->fake.on_mr_close = expect_unknown;
	pair_unregister(pair, DMP);
	pair->away->fake.on_mr_close = NULL;
	pair_close(pair);
}

/* With threads */

Test(agent, serves_from_its_thread, .timeout = 60)
{
	struct pair *pair = pair_open(&(struct pair_options){.thread = true, .automatic = true});
	int completed = 0;

	for (int i = 0; completed < 1000;) {
		struct fi_cq_tagged_entry entry;
		ssize_t ret = -FI_EAGAIN;

		if (i < 1000)
			ret = pair_put(pair, DMP, (size_t) i % 1000 * 64, 64, CONTEXT(i),
				       FI_COMMIT | (i % 7 ? 0 : FI_FENCE));
		cr_assert(!ret || ret == -FI_EAGAIN);
		i += !ret;
		ret = fi_cq_read(pair->home->cq, &entry, 1);
		cr_assert(ret == 1 || ret == -FI_EAGAIN);
		if (ret == 1)
			cr_assert_eq(entry.op_context, CONTEXT(completed++));
	}
	cr_expect(pair_survives(pair, DMP, 0, 64000));
	pair_close(pair);
}

/* await_entry -- or an error: what fi_cq_read says */
static ssize_t await_entry(struct pair *pair, struct fi_cq_tagged_entry *entry)
{
	ssize_t ret;

	do
		ret = fi_cq_read(pair->home->cq, entry, 1);
	while (ret == -FI_EAGAIN);
	return ret;
}

/* commit_to_lost_page -- a peer commits to memory that has lost a page; the thread touches it */
static struct pair *commit_to_lost_page(void)
{
	struct pair *pair = pair_open(&(struct pair_options){.thread = true, .automatic = true});
	int fd = memfd_create("empty", MFD_CLOEXEC);

	pair_unregister(pair, DMP);
	cr_assert(!ftruncate(fd, 4096));
	cr_assert_neq(mmap(pair->memory[DMP] + 8192, 4096, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED, fd, 0),
		      MAP_FAILED);
	pmv_setting.domain = PMV_DMP;
	pmv_setting.ddio = true;
	accepted(fi_mr_reg(pair->away->domain, pair->memory[DMP], PAIR_SIZE,
			   FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 0, FI_PMEM, &pair->mr[DMP], NULL));
	pair_inject(pair, DMP, 8192, 8);
	cr_assert(!ftruncate(fd, 0));
	close(fd);
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	return pair;
}

/* The thread has no other signals, but this one is about what it does itself. */
Test(agent, thread_outlives_a_page_without_memory, .timeout = 20)
{
	struct pair *pair = commit_to_lost_page();
	struct fi_cq_tagged_entry entry;

	cr_assert_eq(await_entry(pair, &entry), -FI_EAVAIL);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	accepted(pair_put(pair, PAGE, 0, 8, CONTEXT(2), FI_COMMIT));
	cr_assert_eq(await_entry(pair, &entry), 1);
	cr_expect_eq(entry.op_context, CONTEXT(2));
	pair_close(pair);
}

/* FI_PMEMVERBS_SIGBUS=off: nothing is claimed durable, as nobody lives to do so. */
Test(agent, thread_ends_the_process_without_a_handler, .timeout = 20, .signal = SIGBUS)
{
	struct fi_cq_tagged_entry entry;

	pmv_setting.leaves_sigbus = true;
	/* A library that libfabric loads may have a handler: signals.h. */
	signal(SIGBUS, SIG_DFL);
	await_entry(commit_to_lost_page(), &entry);
}

#define HANDLED 7

static void end_process(int signo)
{
	(void) signo;
	_exit(HANDLED);
}

Test(agent, thread_calls_the_applications_handler, .timeout = 20, .exit_code = HANDLED)
{
	struct fi_cq_tagged_entry entry;
	struct sigaction action;

	pmv_setting.leaves_sigbus = true;
	signal(SIGBUS, end_process);
	await_entry(commit_to_lost_page(), &entry);
	cr_assert(!sigaction(SIGBUS, NULL, &action));
	cr_assert_eq(action.sa_handler, end_process, "the provider has installed one");
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * Who looks for a lost connection now and then takes 200 ms for each of WAITS; on a busy
 * machine some of those that are woken take as long.
 */
#define WAITS 20

static void expect_woken(int quick)
{
	cr_expect_geq(quick, WAITS / 4, "%d of %d were woken", quick, WAITS);
}

Test(agent, thread_wakes_who_waits_for_an_acknowledgement, .timeout = 300)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.thread = true,
		.automatic = true,
		.home = {.wait_obj = FI_WAIT_FD},
	});
	struct fi_cq_tagged_entry entry;
	int quick = 0;

	for (int i = 0; i < WAITS; i++) {
		int64_t start = now_ms();

		accepted(pair_put(pair, DMP, 0, 64, CONTEXT(i), FI_COMMIT));
		cr_assert_eq(fi_cq_sread(pair->home->cq, &entry, 1, NULL, 10000), 1);
		cr_assert_eq(entry.op_context, CONTEXT(i));
		quick += now_ms() - start < 150;
	}
	expect_woken(quick);
	pair_close(pair);
}

/* Long after the thread has looked for the first time. */
static void *answer_late(void *arg)
{
	struct pair *pair = arg;

	usleep(20000);
	pair_deliver(pair);
	while (!fake_complete(&pair->away->fake, SIZE_MAX))
		usleep(100);
	return NULL;
}

Test(agent, thread_wakes_who_waits_for_long, .timeout = 300)
{
	struct pair *pair = pair_open(&(struct pair_options){
		.thread = true,
		.home = {.wait_obj = FI_WAIT_FD},
	});
	struct fi_cq_tagged_entry entry;
	pthread_t answering;
	int quick = 0;

	for (int i = 0; i < WAITS; i++) {
		int64_t start = now_ms();

		accepted(pair_put(pair, DMP, 0, 64, CONTEXT(i), FI_COMMIT));
		cr_assert_eq(pthread_create(&answering, NULL, answer_late, pair), 0);
		cr_assert_eq(fi_cq_sread(pair->home->cq, &entry, 1, NULL, 10000), 1);
		cr_assert_eq(entry.op_context, CONTEXT(i));
		pthread_join(answering, NULL);
		quick += now_ms() - start < 150;
	}
	expect_woken(quick);
	pair_close(pair);
}

/*
 * One thread posts a fenced write, which the endpoint has to note; meanwhile
 * another one posts a deferred commit.  Both need both locks of the endpoint.
 */
static void *commit_large(void *arg)
{
	struct pair *pair = arg;
	struct fi_cq_tagged_entry entry;

	accepted(pair_put(pair, DMP, 4096, PAIR_LARGE, CONTEXT(3), FI_COMMIT | FI_FENCE));
	pair_round(pair);
	while (fi_cq_read(pair->home->cq, &entry, 1) == 1)
		;
	return NULL;
}

static pthread_t committer;

static void commit_meanwhile(struct fake *fake, const struct fake_post *post, void *arg)
{
	if (post->op.context != CONTEXT(2))
		return;
	fake->on_post = NULL;
	cr_assert_eq(pthread_create(&committer, NULL, commit_large, arg), 0);
	usleep(200000);
}

Test(fence, may_be_posted_while_another_thread_posts_what_was_deferred, .timeout = 10)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), 0));
	pair->home->fake.on_post = commit_meanwhile;
	pair->home->fake.on_post_arg = pair;
	accepted(pair_put(pair, DMP, 512, 8, CONTEXT(2), FI_FENCE));
	pthread_join(committer, NULL);
	pair_close(pair);
}

/* As another thread may, between the moment when a write is noted and that when it is posted. */
static void commit_before_it(struct fake *fake, const struct fake_post *post, void *arg)
{
	struct pair *pair = arg;

	(void) post;
	fake->on_post = NULL;
	accepted(pair_put(pair, DMP, 0, 0, CONTEXT(2), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
}

Test(commit_by_agent, covers_a_write_that_an_earlier_one_has_named_too_early)
{
	for (int atomic = 0; atomic < 2; atomic++) {
		struct pair *pair = pair_open(NULL);

		pair->home->fake.on_post = commit_before_it;
		pair->home->fake.on_post_arg = pair;
		accepted(atomic ? pair_fetch(pair, DMP, 0, CONTEXT(1), 0)
				: pair_put(pair, DMP, 0, 8, CONTEXT(1), 0));
		cr_expect_null(pair->home->fake.on_post);
		pair_deliver(pair);
		rig_expect(pair->home, CONTEXT(1),
			   atomic ? FI_ATOMIC | FI_READ : (uint64_t) RIG_WRITTEN);
		cr_expect_arr_neq(pair->durable[DMP], pair->memory[DMP], 8);
		accepted(pair_put(pair, DMP, 0, 0, CONTEXT(3), FI_COMMIT));
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(3), RIG_WRITTEN);
		cr_expect_arr_eq(pair->durable[DMP], pair->memory[DMP], 8);
		pair_close(pair);
	}
}

static bool is_kicked(struct pmv_agent *agent)
{
	uint64_t kicks;

	return read(agent->kick_fd, &kicks, sizeof(kicks)) == sizeof(kicks);
}

/* Of what other calls move into a mailbox no descriptor tells the thread that sleeps. */
Test(agent, is_woken_for_a_message_that_others_have_moved)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_domain *domain = pmv_to_domain(pair->away->domain);
	static char buf[8];

	/* It starts no thread later. */
	accepted(fi_recv(pair->away->ep, buf, sizeof(buf), NULL, 0, NULL));
	/* As if there were a thread. */
	pmv_setting.agent = PMV_AGENT_THREAD;
	pair->away->core.manual_progress = true;
	atomic_store(&domain->agent.asleep, true);
	rig_expect_nothing(pair->away);
	cr_expect_not(is_kicked(&domain->agent));
	pair_tell_of(pair, DMP, 0, 8);
	rig_expect_nothing(pair->away);
	cr_expect(is_kicked(&domain->agent));

	/* Somebody holds the lock: it may have looked, and be about to sleep. */
	pthread_mutex_lock(&domain->agent.lock);
	rig_expect_nothing(pair->away);
	cr_expect(is_kicked(&domain->agent));
	pthread_mutex_unlock(&domain->agent.lock);

	/* A receive is posted: what has waited for it is taken, and all behind that. */
	accepted(fi_recv(pair->away->ep, buf, sizeof(buf), NULL, 0, NULL));
	cr_expect(is_kicked(&domain->agent));

	atomic_store(&domain->agent.asleep, false);
	rig_expect_nothing(pair->away);
	cr_expect_not(is_kicked(&domain->agent), "it is awake");
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pair_serve(pair);
	expect_done(pair, "F D K");
	pair_close(pair);
}

/* Nor does one tell who sleeps of an acknowledgement that another call has moved. */
Test(agent, wakes_who_sleeps_for_an_acknowledgement_that_others_have_moved)
{
	struct pair *pair = pair_open(&(struct pair_options){.home = {.wait_obj = FI_WAIT_FD}});
	struct pmv_domain *domain = pmv_to_domain(pair->home->domain);
	struct pmv_cq *cq = pmv_to_cq(pair->home->cq);
	struct pollfd fd = {.fd = cq->queue.epoll_fd, .events = POLLIN};

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	/* As if there were a thread, which has looked already. */
	pmv_setting.agent = PMV_AGENT_THREAD;
	pair->home->core.manual_progress = true;
	atomic_store(&domain->agent.running, true);
	atomic_store(&domain->agent.asleep, true);
	/* Nobody is woken only to see whether the peer is there. */
	domain->agent.woke_ns = INT64_MAX;
	accepted(pmv_cq_trywait(cq));
	pmv_agent_nudge(&domain->agent);
	cr_expect_eq(poll(&fd, 1, 0), 0);

	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pair_serve(pair);
	pmv_setting.agent = PMV_AGENT_THREAD;
	cr_expect_eq(poll(&fd, 1, 0), 0);
	pmv_agent_nudge(&domain->agent);
	cr_expect_eq(poll(&fd, 1, 0), 1);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	atomic_store(&domain->agent.asleep, false);
	atomic_store(&domain->agent.running, false);
	pair_close(pair);
}

/* watcher_kicks -- who sleeps until an acknowledgement comes wakes the thread, to look for it */
static bool watcher_kicks(bool manual_progress)
{
	struct pair *pair = pair_open(&(struct pair_options){.home = {.wait_obj = FI_WAIT_FD}});
	struct pmv_agent *agent = &pmv_to_domain(pair->home->domain)->agent;
	bool kicked;

	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pmv_setting.agent = PMV_AGENT_THREAD;
	pair->home->core.manual_progress = manual_progress;
	atomic_store(&agent->running, true);
	atomic_store(&agent->asleep, true);
	accepted(pmv_cq_trywait(pmv_to_cq(pair->home->cq)));
	kicked = is_kicked(agent);
	atomic_store(&agent->asleep, false);
	atomic_store(&agent->running, false);
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
	return kicked;
}

Test(agent, is_woken_to_look_for_an_acknowledgement_that_comes_without_a_call)
{
	cr_expect(watcher_kicks(false));
	cr_expect_not(watcher_kicks(true));
}
