/* SPDX-License-Identifier: BSD-2-Clause */
/* apps.c -- the applications of a world: who posts, who waits, and in which way */
#include "world.h"

#include <poll.h>

#include <rdma/fi_errno.h>

#include "objects/cq.h"

/* Whoever polls in vain halves its pace after so many looks, and so many times at most. */
#define RESTS_ALIKE 256
#define MOST_LONGER 7

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
static bool take(struct party *party, struct fid_cq *cq, const struct fi_cq_entry *entries,
		 ssize_t ret)
{
	struct fi_cq_err_entry error = {0};

	if (ret == -FI_EAVAIL) {
		if (fi_cq_readerr(cq, &error, 0) == 1)
			end(party, error.op_context, error.err);
		party->rests = 0;
		return true;
	}
	if (ret < 0 && ret != -FI_EAGAIN)
		sched_fail("a read of the queue fails: %s", fi_strerror((int) -ret));
	if (ret > 0)
		party->rests = 0;
	for (ssize_t i = 0; i < ret; i++) {
		if (!entries[i].op_context)
			hear();
		else
			end(party, entries[i].op_context, 0);
	}
	return ret > 0;
}

static bool read_queue(struct party *party, struct fid_cq *cq)
{
	struct fi_cq_entry entries[4];

	return take(party, cq, entries, fi_cq_read(cq, entries, 1 + sched_dice(4)));
}

bool apps_read(struct party *party)
{
	return read_queue(party, party->cq);
}

void apps_rest(struct party *party)
{
	/* Whoever polls for long takes many steps: it is elsewhere for longer and longer. */
	unsigned int longer = party->rests++ / RESTS_ALIKE;

	longer = longer < MOST_LONGER ? longer : MOST_LONGER;
	if (world.silences)
		sched_sleep(sched_between(1000, 500000));
	else if (longer)
		sched_sleep(sched_between(1000, INT64_C(3000) << longer));
	else
		sched_spend(sched_between(100, 3000));
}

/* is_elsewhere -- it may sleep, and computes: peers' operations end in their time all the same */
static bool is_elsewhere(const struct party *party)
{
	return world.elsewhere && !world.idles && party == &world.target && sched_one_in(8);
}

/* sleep_on_descriptor -- as fi_trywait(3) says */
static void sleep_on_descriptor(struct party *party, struct fid_cq *cq)
{
	struct pollfd fd = {.events = POLLIN};
	int ret = pmv_cq_trywait(pmv_to_cq(cq));

	sure(fi_control(&cq->fid, FI_GETWAIT, &fd.fd), "a descriptor");
	if (ret)
		apps_rest(party);
	else if (!ret && is_elsewhere(party))
		sched_sleep(2 * world.bound_ns);
	else if (!ret)
		poll(&fd, 1, -1);
}

static void await_in_call(struct party *party, struct fid_cq *cq, int timeout)
{
	/* Of two threads one may take less than there is: the rest is for the other. */
	size_t count = party->twins ? 1 + sched_dice(2) : 4;
	struct fi_cq_entry entries[4];

	if (take(party, cq, entries, fi_cq_sread(cq, entries, count, NULL, timeout)))
		sleepers_be_busy(party);
}

void apps_await(struct party *party, struct fid_cq *cq, enum waits waits)
{
	uint64_t wanted;

	switch (waits) {
	case WAITS_SREAD:
	case WAITS_SREAD_MS:
		await_in_call(party, cq, waits == WAITS_SREAD ? -1 : (int) sched_between(1, 20));
		break;
	case WAITS_DESCRIPTOR:
		if (!read_queue(party, cq))
			sleep_on_descriptor(party, cq);
		break;
	case WAITS_COUNTER:
		wanted = fi_cntr_read(party->cntr) + 1;
		while (read_queue(party, cq))
			;
		if (ops_under_way(party))
			fi_cntr_wait(party->cntr, wanted, 100);
		break;
	default:
		if (!read_queue(party, cq))
			apps_rest(party);
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
		apps_await(party, party->cq, party->waits);
}

/* be_back -- the application has looked at nothing since then */
static void be_back(struct party *party, int64_t since_ns)
{
	party->is_away = false;
	party->back_ns = sched_now_ns;
	for (unsigned int i = 0; i < WORLD_OPS; i++)
		party->ops[i].begin_ns += sched_now_ns - since_ns;
}

/* catch_up -- whoever sleeps on the other queue has gone on with all operations meanwhile */
static void catch_up(struct party *party)
{
	if (!party->splits || party->reaps)
		return;
	while (apps_read(party))
		;
	world_check_read(party);
}

static void pause_for(struct party *party, int64_t ns)
{
	int64_t begin = sched_now_ns;

	party->is_away = true;
	sched_sleep(ns);
	catch_up(party);
	be_back(party, begin);
}

static bool has_reacted(void *arg)
{
	const struct party *party = arg;

	for (unsigned int i = 0; i < party->num_conns; i++) {
		const struct conn *conn = &party->conns[i];

		if (conns_are_awaited(conn) && !messages_are_stuck(conn))
			return false;
	}
	return true;
}

/* react -- to what the operations cause at the target: who waits for that reads nothing else */
static void react(struct party *party)
{
	int64_t begin = sched_now_ns;

	party->is_away = party->reacts = true;
	if (world.cuts && !party->was_cut && !has_reacted(party)) {
		party->was_cut = true;
		world_cut_one(party);
	}
	sched_block("waits for the target's reaction", has_reacted, party, SCHED_NEVER);
	party->reacts = false;
	catch_up(party);
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
		if (party->splits && !party->reaps && sched_one_in(6))
			react(party);
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

void apps_count_unread(void)
{
	while (world.unread && apps_read(&world.target))
		;
	if (world.unread && world.heard > world.opened * world.target_size)
		sched_fail("%d notices of %u connections are kept for a target that never reads",
			   (int) world.heard, world.opened);
}
