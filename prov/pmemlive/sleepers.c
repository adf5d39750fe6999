/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sleepers.c -- threads that sleep until something comes: into a queue, or an event queue
 *
 * Endpoints may have two queues, with a thread asleep on each.  Or two threads sleep on one queue:
 * while one of them computes, the other has to be woken for all that is left.
 */
#include "world.h"

#include <stdio.h>

#include <rdma/fi_cm.h>

#include "base/setting.h"

/* Who has which */

static bool sleeps(enum waits waits)
{
	return waits == WAITS_SREAD || waits == WAITS_DESCRIPTOR;
}

void sleepers_choose(struct party *party)
{
	bool target = party == &world.target;

	/* Behind fi_trywait nobody naps who lacks a receive. */
	party->rx_waits = world.naps || sched_one_in(2) ? WAITS_SREAD : WAITS_DESCRIPTOR;
	party->splits = sched_one_in(4) && !(target && (world.elsewhere || !sleeps(party->waits)));
	/* Nobody takes what the other one waits for but those two. */
	party->twins = sched_one_in(3) && pmv_setting.agent == PMV_AGENT_THREAD &&
		       party->waits == WAITS_SREAD && !party->splits &&
		       (target ? !world.reads_late : party->reaps);
}

void sleepers_describe(const struct party *party)
{
	if (party->splits)
		printf("  it receives into another queue: %s\n",
		       party->rx_waits == WAITS_SREAD ? "fi_cq_sread" : "fi_trywait and poll");
	if (party->twins)
		puts("  two threads sleep on its queue");
}

/* Those that sleep while nothing is to be done */

/* look_now_and_then -- into the queue, but for when all are to be idle */
static void look_now_and_then(struct party *party)
{
	if (world.idles)
		sched_sleep(INT64_C(1000000000));
	else if (!apps_read(party))
		sched_sleep(sched_between(1000, sched_one_in(4) ? 2000000 : 20000));
}

/* be_late -- for longer than the queue has room, perhaps */
static void be_late(void)
{
	world.late_since_ns = sched_now_ns;
	sched_sleep(sched_between(10000, 5000000));
	world.late_ns += sched_now_ns - world.late_since_ns;
	world.late_since_ns = 0;
}

void sleepers_be_busy(struct party *party)
{
	if (!party->twins || party->is_busy || !sched_one_in(2))
		return;
	party->is_busy = true;
	sched_sleep(2 * world.bound_ns);
	party->is_busy = false;
}

/* answer -- what was heard, or not */
static void answer(struct party *party)
{
	struct op *op = ops_find_free(party);

	if (world.answers && party == &world.target && world.heard != world.answered && op &&
	    !party->ends && sched_one_in(2))
		ops_begin(party, op);
	world.answered = world.heard;
}

/*
 * goes_on -- until all of the party's operations have ended, unless they end in another queue; its
 * twin may be computing
 */
static bool goes_on(const struct sleeper *sleeper)
{
	return !sleeper->ends || sleeper->party->is_busy ||
	       (sleeper != &sleeper->party->rx_sleeper && ops_under_way(sleeper->party));
}

static void *sleep_on_queue(void *arg)
{
	const struct sleeper *sleeper = arg;
	struct party *party = sleeper->party;
	bool hears = party == &world.target && sleeper->cq == party->rx_cq;

	while (goes_on(sleeper)) {
		if (sleeper->waits == WAITS_POLLING)
			look_now_and_then(party);
		else
			apps_await(party, sleeper->cq, sleeper->waits);
		if (hears)
			answer(party);
		if (hears && world.reads_late && sched_one_in(4))
			be_late();
	}
	/* Its twin may wait for what this one has taken. */
	if (party->twins)
		sure(fi_cq_signal(sleeper->cq), "a signal");
	return NULL;
}

static void *watch(void *arg)
{
	struct party *party = arg;
	struct fi_eq_cm_entry entry;
	uint32_t event;
	ssize_t ret;

	do {
		ret = fi_eq_sread(party->eq, &event, &entry, sizeof(entry), -1, 0);
		sched_trace("event %d: %d", (int) event, (int) ret);
		if (ret > 0 && event == FI_CONNREQ)
			callers_answer(entry.info);
		if (ret <= 0 || event != FI_SHUTDOWN)
			continue;
		conns_heard_end(party, entry.fid);
		callers_end(entry.fid);
	} while (ret < 0 || event != FI_NOTIFY);
	return NULL;
}

/* Beginning and ending */

static void start(struct sleeper *sleeper, struct party *party, const char *name, struct fid_cq *cq,
		  enum waits waits)
{
	*sleeper = (struct sleeper){.party = party, .cq = cq, .waits = waits};
	sleeper->task = sched_spawn(&party->process, name, sleep_on_queue, sleeper);
}

static void stop(struct sleeper *sleeper)
{
	sleeper->ends = true;
	if (!sleeper->task)
		return;
	if (sleeper->waits != WAITS_POLLING)
		sure(fi_cq_signal(sleeper->cq), "a signal");
	sched_join(sleeper->task);
	sleeper->task = NULL;
}

static void start_watcher(struct party *party)
{
	if (!party->watches || party->watcher)
		return;
	party->watches_ns = sched_now_ns;
	party->watcher = sched_spawn(&party->process, "watcher", watch, party);
}

/* stop_watcher -- unless it is there as long as another thread */
static void stop_watcher(struct party *party)
{
	struct fi_eq_entry none = {0};

	if (!party->watcher || party->rx_sleeper.task)
		return;
	fi_eq_write(party->eq, FI_NOTIFY, &none, sizeof(none), 0);
	sched_join(party->watcher);
	party->watcher = NULL;
}

void sleepers_start(struct party *party)
{
	bool target = party == &world.target;

	party->ends = party->received = false;
	if (sleeps(party->waits) || (party->waits == WAITS_POLLING && target))
		start(&party->sleeper, party, "sleeper", party->cq, party->waits);
	if (party->twins)
		start(&party->twin, party, "twin", party->cq, party->waits);
	if (world.sends && target)
		party->receiver = sched_spawn(&party->process, "receiver", messages_receive, party);
	start_watcher(party);
}

void sleepers_stop(struct party *party)
{
	party->ends = true;
	party->twin.ends = true;
	stop(&party->sleeper);
	stop(&party->twin);
	/* Until then acknowledgements may be behind a message that needs a receive. */
	party->received = true;
	if (party->receiver)
		sched_join(party->receiver);
	party->receiver = NULL;
	stop_watcher(party);
}

void sleepers_start_rx(struct party *party)
{
	if (!party->splits)
		return;
	start(&party->rx_sleeper, party, "rx sleeper", party->rx_cq, party->rx_waits);
	start_watcher(party);
}

void sleepers_stop_rx(struct party *party)
{
	stop(&party->rx_sleeper);
	stop_watcher(party);
}
