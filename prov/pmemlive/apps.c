/* SPDX-License-Identifier: BSD-2-Clause */
/* apps.c -- the applications of a world: who posts, who waits, and in which way */
#include "world.h"

#include <poll.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "objects/cq.h"

/* Reading */

/* hear -- the target's application of a commit that is durable; the others may wait on */
static void hear(void)
{
	sched_trace("a notice is heard");
	world.heard++;
	world.told_ns = sched_now_ns;
	world.told_excused_ns = world_stopped_ns();
}

/* end -- what the context stands for: a receive, or an operation */
static void end(struct party *party, void *context, int err)
{
	struct conn *conns = party->conns;

	if (context >= (void *) conns && context < (void *) (conns + WORLD_CONNS))
		messages_received(context, err);
	else
		ops_end(party, context, err);
}

/* take -- what a read has returned; true: there was something */
static bool take(struct party *party, const struct fi_cq_entry *entries, ssize_t ret)
{
	struct fi_cq_err_entry error = {0};

	if (ret == -FI_EAVAIL) {
		if (fi_cq_readerr(party->cq, &error, 0) == 1)
			end(party, error.op_context, error.err);
		return true;
	}
	if (ret < 0 && ret != -FI_EAGAIN)
		sched_fail("a read of the queue fails: %s", fi_strerror((int) -ret));
	for (ssize_t i = 0; i < ret; i++) {
		if (!entries[i].op_context)
			hear();
		else
			end(party, entries[i].op_context, 0);
	}
	return ret > 0;
}

bool apps_read(struct party *party)
{
	struct fi_cq_entry entries[4];

	return take(party, entries, fi_cq_read(party->cq, entries, 1 + sched_dice(4)));
}

void apps_rest(void)
{
	/* Whoever polls for seconds takes many steps. */
	if (world.silences)
		sched_sleep(sched_between(1000, 500000));
	else
		sched_spend(sched_between(100, 3000));
}

/* is_elsewhere -- it may sleep, and computes: peers' operations end in their time all the same */
static bool is_elsewhere(const struct party *party)
{
	return world.elsewhere && !world.idles && party == &world.target && sched_one_in(8);
}

/* sleep_on_descriptor -- as fi_trywait(3) says */
static void sleep_on_descriptor(struct party *party)
{
	struct pollfd fd = {.events = POLLIN};
	int ret = pmv_cq_trywait(pmv_to_cq(party->cq));

	sure(fi_control(&party->cq->fid, FI_GETWAIT, &fd.fd), "a descriptor");
	if (ret && world.silences)
		apps_rest();
	else if (!ret && is_elsewhere(party))
		sched_sleep(2 * world.bound_ns);
	else if (!ret)
		poll(&fd, 1, -1);
}

void apps_await(struct party *party)
{
	struct fi_cq_entry entries[4];
	uint64_t wanted;

	switch (party->waits) {
	case WAITS_SREAD:
	case WAITS_SREAD_MS:
		take(party, entries,
		     fi_cq_sread(party->cq, entries, 4, NULL,
				 party->waits == WAITS_SREAD ? -1 : (int) sched_between(1, 20)));
		break;
	case WAITS_DESCRIPTOR:
		if (!apps_read(party))
			sleep_on_descriptor(party);
		break;
	case WAITS_COUNTER:
		wanted = fi_cntr_read(party->cntr) + 1;
		while (apps_read(party))
			;
		if (ops_under_way(party))
			fi_cntr_wait(party->cntr, wanted, 100);
		break;
	default:
		if (!apps_read(party))
			apps_rest();
	}
}

/* Bursts */

struct passing {
	const struct party *party;
	uint64_t ended; /* when this began */
	unsigned int under_way;
};

static bool has_ended(void *arg)
{
	const struct passing *passing = arg;
	unsigned int under_way = ops_under_way(passing->party);

	/* Some, or all, may have been given up meanwhile: nobody waits for what is left of them. */
	return passing->party->ended != passing->ended || !under_way ||
	       under_way != passing->under_way;
}

/* pass_time -- until something may have ended: another thread reads the queue, or this one */
static void pass_time(struct party *party)
{
	struct passing passing = {party, party->ended, ops_under_way(party)};

	if (party->reaps)
		sched_block("waits for who reads the queue", has_ended, &passing, SCHED_NEVER);
	else
		apps_await(party);
}

/* be_back -- the application has looked at nothing since then */
static void be_back(struct party *party, int64_t since_ns)
{
	party->is_away = false;
	for (unsigned int i = 0; i < WORLD_OPS; i++)
		party->ops[i].begin_ns += sched_now_ns - since_ns;
}

static void pause_for(struct party *party, int64_t ns)
{
	int64_t begin = sched_now_ns;

	party->is_away = true;
	sched_sleep(ns);
	be_back(party, begin);
}

/* reopen -- one of its connections, in mid-life */
static void reopen(struct party *party)
{
	struct conn *conn = &party->conns[sched_dice(party->num_conns)];
	int64_t begin = sched_now_ns;

	if (!conn->open || conn->cut)
		return;
	party->is_away = !party->reaps;
	conns_reopen(conn);
	if (!party->reaps)
		be_back(party, begin);
}

void *apps_burst(void *arg)
{
	struct party *party = arg;
	uint64_t left = 10 + sched_dice(60);
	struct op *op;

	while (left--) {
		bool wait_for_all = sched_one_in(4);

		if (party->most_pause_ns && sched_one_in(8))
			pause_for(party, sched_between(1000, party->most_pause_ns));
		if (world.reopens && sched_one_in(12))
			reopen(party);
		while (!(op = ops_find_free(party)))
			pass_time(party);
		ops_begin(party, op);
		while (wait_for_all && ops_under_way(party))
			pass_time(party);
	}
	while (ops_under_way(party))
		pass_time(party);
	return NULL;
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

/* answer -- what was heard, or not */
static void answer(struct party *party)
{
	struct op *op = ops_find_free(party);

	if (world.answers && party == &world.target && world.heard != world.answered && op &&
	    sched_one_in(2))
		ops_begin(party, op);
	world.answered = world.heard;
}

static void *sleep_on_queue(void *arg)
{
	struct party *party = arg;

	while (!party->ends || ops_under_way(party)) {
		if (party->waits == WAITS_POLLING)
			look_now_and_then(party);
		else
			apps_await(party);
		answer(party);
		if (world.reads_late && party == &world.target && sched_one_in(4))
			be_late();
	}
	return NULL;
}

void apps_count_unread(void)
{
	while (world.unread && apps_read(&world.target))
		;
	if (world.unread && world.heard > world.opened * world.target_size)
		sched_fail("%d notices of %u connections are kept for a target that never reads",
			   (int) world.heard, world.opened);
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

static bool has_sleeper(const struct party *party)
{
	return party->waits == WAITS_SREAD || party->waits == WAITS_DESCRIPTOR ||
	       (party->waits == WAITS_POLLING && party == &world.target);
}

void apps_start(struct party *party)
{
	party->ends = false;
	if (has_sleeper(party))
		party->sleeper = sched_spawn(&party->process, "sleeper", sleep_on_queue, party);
	if (world.sends && party == &world.target)
		party->receiver = sched_spawn(&party->process, "receiver", messages_receive, party);
	party->watches_ns = sched_now_ns;
	if (party->watches)
		party->watcher = sched_spawn(&party->process, "watcher", watch, party);
}

void apps_stop(struct party *party)
{
	struct fi_eq_entry none = {0};

	party->ends = true;
	if (party->sleeper) {
		if (party->waits != WAITS_POLLING)
			sure(fi_cq_signal(party->cq), "a signal");
		sched_join(party->sleeper);
	}
	if (party->receiver)
		sched_join(party->receiver);
	if (party->watcher) {
		fi_eq_write(party->eq, FI_NOTIFY, &none, sizeof(none), 0);
		sched_join(party->watcher);
	}
	party->sleeper = party->watcher = party->receiver = NULL;
}
