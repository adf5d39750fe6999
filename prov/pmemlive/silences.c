/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * silences.c -- machines that are cut off without a word: for good, or for so short that nobody is
 * given up; and processes that are stopped for long, whose machines answer
 */
#include "world.h"

#include <stdio.h>

#include "base/setting.h"
#include "objects/ep.h"

#define SECOND_NS INT64_C(1000000000)
/* What was lost arrives so late at most when a link is back. */
#define MENDED_NS INT64_C(250000000)
/* A NIC's requests: until somebody posts one that fails. */
#define PROBED_NS INT64_C(500000000)

void silences_choose(void)
{
	world.silences = sched_one_in(10);
	if (!world.silences)
		return;
	world.cuts = false;
	/* Over a NIC agents look on while a request is likely: many steps. */
	world.timeout_s = core_rules.nic ? 1 : 1 << sched_dice(4);
	core_rules.sockets = !core_rules.nic;
	core_rules.retry_ns = core_rules.nic ? sched_between(100000000, SECOND_NS) : 0;
	pmv_setting.timeout = core_rules.sockets ? world.timeout_s : 0;
}

void silences_restrict(struct party *party)
{
	/* Whoever polls for seconds takes many steps. */
	if (world.silences && (party->waits == WAITS_POLLING || party->waits == WAITS_COUNTER))
		party->waits = party == &world.target ? WAITS_ASIDE : WAITS_SREAD_MS;
}

void silences_describe(void)
{
	if (world.silences)
		printf("machines are cut off; peers are given up after %d s\n",
		       core_rules.nic ? 0 : world.timeout_s);
}

/* Bounds */

/* bound_ns -- until the provider knows, if something is under way */
static int64_t bound_ns(void)
{
	int64_t between = (world.timeout_s + 1) / 2 * SECOND_NS;

	if (core_rules.nic)
		return core_rules.retry_ns + PROBED_NS;
	return between + silences_bound_ns(world.timeout_s);
}

int64_t silences_bound_ns(int timeout_s)
{
	int64_t timeout = timeout_s * SECOND_NS, look = timeout / 5;
	int64_t idle = timeout / 2 < SECOND_NS ? timeout / 2 : SECOND_NS;

	/* A look while nobody owed anything, and one more. */
	return timeout + (idle > look ? idle : look) + look + SECOND_NS / 20;
}

bool silences_excuse(const struct conn *conn)
{
	bool silent = conn->party->silent || conn->other->party->silent;

	/*
	 * The core reads nothing behind a message without a receive, and the kernel asks rarely; a
	 * NIC repeats the message for ever, if it is answered.  For what was given up nobody looks.
	 */
	return conn->given_up || (messages_lack(conn) && (core_rules.sockets || !silent));
}

int64_t silences_known_ns(const struct conn *conn, int64_t begin_ns)
{
	if (!core_rules.nic)
		return conn->silent_ns + bound_ns();
	return (begin_ns > conn->silent_ns ? begin_ns : conn->silent_ns) + bound_ns();
}

/* Accidents */

static void for_conns(struct party *party, void (*call)(struct conn *conn))
{
	for (unsigned int i = 0; i < party->num_conns; i++)
		call(&party->conns[i]);
}

static void set_away(struct party *party, bool away)
{
	party->away = away;
	for_conns(party, messages_note);
}

static bool has_unanswered(void *arg)
{
	const struct party *party = arg;
	const struct core_ep *ep;

	TAILQ_FOREACH(ep, &party->core.eps, next)
	{
		if (ep->socket.num_acks)
			return true;
	}
	return false;
}

/* cut_off -- while messages are under way, perhaps */
static void cut_off(struct party *party)
{
	if (sched_one_in(2))
		sched_block("waits for messages", has_unanswered, party, sched_now_ns + 5000000);
	links_cut(&party->core, sched_one_in(2));
}

/* crawl -- all messages take long, and each arrives */
static void crawl(void)
{
	int64_t least = core_rules.least_delay_ns, most = core_rules.most_delay_ns;
	int64_t slow = world.timeout_s * SECOND_NS / 5;

	sched_trace("the network is slow");
	for (unsigned int i = 0; i < world.num_initiators; i++)
		set_away(&world.initiators[i], true);
	core_rules.least_delay_ns = slow / 2;
	core_rules.most_delay_ns = slow;
	sched_sleep(4 * world.timeout_s * SECOND_NS);
	core_rules.least_delay_ns = least;
	core_rules.most_delay_ns = most;
	sched_sleep(2 * slow);
	for (unsigned int i = 0; i < world.num_initiators; i++)
		set_away(&world.initiators[i], false);
}

/* pass -- the machine is back before anybody is given up; pauses: and all stand still meanwhile */
static void pass(struct party *party, bool pauses)
{
	int64_t most = core_rules.nic ? core_rules.retry_ns / 2 : world.timeout_s * SECOND_NS / 5;
	int64_t ns = sched_between(SECOND_NS / 1000, most);

	sched_trace("%s is cut off for %d ms", party->process.name, (int) (ns / 1000000));
	set_away(party, true);
	cut_off(party);
	sched_sleep(ns);
	if (pauses) {
		sched_trace("all stand still");
		links_pause(2 * world.timeout_s * SECOND_NS);
		world_stop(NULL, 2 * world.timeout_s * SECOND_NS);
	}
	links_mend(&party->core);
	sched_sleep(MENDED_NS);
	set_away(party, false);
}

void silences_flag(struct conn *conn)
{
	conn->cut = conn->other->cut = true;
	conn->silent_ns = conn->other->silent_ns = sched_now_ns;
	if (silences_excuse(conn))
		conn->given_up = conn->other->given_up = true;
}

static void check_end(struct conn *conn)
{
	const struct pmv_ep *ep = pmv_to_ep(conn->ep);

	if (conn->open && conn->silent_ns && !silences_excuse(conn) &&
	    !atomic_load(&ep->silence.given_up))
		sched_fail("%s does not give a silent peer up in time", conn->party->process.name);
}

static void check(struct conn *conn)
{
	check_end(conn);
	check_end(conn->other);
}

static void fall_silent(struct party *party)
{
	sched_trace("%s is cut off", party->process.name);
	party->silent = true;
	for_conns(party, silences_flag);
	cut_off(party);
	sched_sleep(bound_ns());
	if (core_rules.sockets)
		for_conns(party, check);
	sched_sleep(sched_between(0, 2 * SECOND_NS));
	sched_trace("%s is back", party->process.name);
	party->silent = false;
	links_mend(&party->core);
}

void silences_happen(struct party *party)
{
	switch (sched_dice(7)) {
	case 0:
		pass(party, false);
		break;
	case 1:
		pass(party, true);
		break;
	case 2:
		/* Its machine answers. */
		world_stop(party, core_rules.nic
					  ? SECOND_NS
					  : sched_between(1, 8 * world.timeout_s) * SECOND_NS);
		break;
	case 3:
		if (core_rules.sockets)
			crawl();
		break;
	default:
		fall_silent(party);
	}
}
