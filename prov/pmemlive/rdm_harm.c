/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_harm.c -- accidents of processes, machines and connections, and what must be done by when */
#include "rdm_world.h"

#include <rdma/fi_errno.h>

/* A call to a peer that is there, since whatever there was has ended. */
#define CONNECT_BOUND_NS (3 * RDM_SECOND_NS)
/* The same for what was posted; and so long after a harm it may be met by it. */
#define LOST_BOUND_NS (3 * RDM_SECOND_NS / 2)
/* What was lost arrives so late at most when a link is back. */
#define MENDED_NS INT64_C(250000000)

struct rdm_world rdm_world;

struct rdm_link *rdm_link_of(const struct rdm_party *party, int place)
{
	return &rdm_world.links[party->place == RDM_TARGET ? place : party->place];
}

int64_t rdm_stopped_ns(void)
{
	return rdm_world.stopped_ns +
	       (rdm_world.stops_since_ns ? sched_now_ns - rdm_world.stops_since_ns : 0);
}

/* Bounds */

static int64_t timeout_ns(void)
{
	return rdm_world.timeout_s * RDM_SECOND_NS;
}

/* least_silence_ns -- after which somebody may be given up */
static int64_t least_silence_ns(void)
{
	return timeout_ns() * 3 / 5;
}

/* silent_ns -- until a connection that is silent is given up: the last probe was answered */
static int64_t silent_ns(void)
{
	int64_t between = (rdm_world.timeout_s + 1) / 2 * RDM_SECOND_NS;

	return between + silences_bound_ns(rdm_world.timeout_s);
}

static bool was_harmed(const struct rdm_party *party, const struct rdm_op *op,
		       const struct rdm_link *link)
{
	return link->bad_since_ns || op->harms != link->harms ||
	       party->settled[op->place] != link->harms ||
	       (link->harms && op->begin_ns - link->harmed_ns < LOST_BOUND_NS);
}

static int64_t most(int64_t one, int64_t other)
{
	return one > other ? one : other;
}

static int64_t deadline_of(const struct rdm_party *party, const struct rdm_op *op)
{
	const struct rdm_link *link = rdm_link_of(party, op->place);
	int64_t from = most(op->begin_ns, link->harmed_ns), bound = CONNECT_BOUND_NS;

	if (op->accepted && !was_harmed(party, op, link))
		bound = rdm_world.bound_ns;
	else if (op->accepted)
		bound = LOST_BOUND_NS;
	if (link->bad_since_ns && link->silent)
		bound += silent_ns();
	if (link->bad_since_ns && !op->accepted)
		bound += timeout_ns();
	return from + bound + rdm_stopped_ns() - op->excused_ns;
}

static int64_t deadline_in(const struct rdm_party *party)
{
	int64_t next = SCHED_NEVER;

	for (int i = 0; !party->away && !party->killed && i < RDM_DEPTH; i++) {
		int64_t one = party->ops[i].used ? deadline_of(party, &party->ops[i]) : SCHED_NEVER;

		next = one < next ? one : next;
	}
	return next;
}

static int64_t deadline_ns;

int64_t rdm_deadline_ns(void)
{
	return deadline_ns;
}

void rdm_check(void)
{
	deadline_ns = SCHED_NEVER;
	for (int i = 0; i < rdm_world.num_lives; i++) {
		int64_t one = deadline_in(&rdm_world.lives[i]);

		deadline_ns = one < deadline_ns ? one : deadline_ns;
	}
	if (deadline_ns < sched_now_ns)
		sched_fail("an operation does not end in its time");
}

/* bad_ns -- so long they could not reach each other, since an operation succeeded or shortly before
 */
static int64_t bad_ns(const struct rdm_party *party, const struct rdm_op *op)
{
	const struct rdm_link *link = rdm_link_of(party, op->place);
	int64_t from = link->bad_from_ns;

	/* Whoever has called since shortly before was still about to connect. */
	if (party->settled[op->place] + 1 < link->harms && op->begin_ns < from &&
	    from - op->begin_ns < CONNECT_BOUND_NS)
		from = op->begin_ns;
	if (link->bad_since_ns)
		return sched_now_ns - from;
	if (sched_now_ns - link->bad_to_ns > CONNECT_BOUND_NS &&
	    party->settled[op->place] == link->harms)
		return 0;
	return link->bad_to_ns - link->bad_from_ns;
}

/* is_given_up -- may the connection, which another one has not replaced yet, have been so before?
 */
static bool is_given_up(const struct rdm_party *party, const struct rdm_op *op)
{
	uint64_t known = party->settled[op->place] > party->born[op->place]
				 ? party->settled[op->place]
				 : party->born[op->place];

	return op->accepted && known < rdm_link_of(party, op->place)->gone_harms;
}

bool rdm_is_there(const struct rdm_party *party, const struct rdm_op *op)
{
	const struct rdm_link *link = rdm_link_of(party, op->place);

	return !link->bad_since_ns && op->begin_ns - link->harmed_ns > CONNECT_BOUND_NS;
}

void rdm_judge(const struct rdm_party *party, const struct rdm_op *op, int err)
{
	const struct rdm_link *link = rdm_link_of(party, op->place);
	bool stops = rdm_world.longest_stop_ns >= least_silence_ns();

	/* Whoever is stopped accepts nobody; and a call that was lost is repeated too late. */
	if (err == FI_ETIMEDOUT && !op->accepted &&
	    (stops || (link->harms && timeout_ns() <= CORE_REPEAT_NS)))
		return;
	if (!was_harmed(party, op, link) && err != FI_ECONNRESET)
		sched_fail("an operation fails: %s", fi_strerror(err));
	/* What was lost is told by the next commit, which may come late. */
	if (!link->harms)
		sched_fail("a connection is said to be lost");
	if (err == FI_ETIMEDOUT && bad_ns(party, op) < least_silence_ns() && !stops &&
	    !is_given_up(party, op))
		sched_fail("a peer is given up that was there");
}

/* check_calls -- whoever is not there is not called without pause */
static void check_calls(const struct rdm_party *party)
{
	uint64_t harms = 1, most_calls;

	for (int i = 1; i < rdm_world.num_places; i++)
		harms += rdm_world.links[i].harms;
	most_calls = (harms + (uint64_t) (sched_now_ns / RDM_SECOND_NS)) * 6 *
		     (uint64_t) rdm_world.num_places;
	if (party->core.calls > most_calls)
		sched_fail("%s has called %d times", party->process.name, (int) party->core.calls);
}

void rdm_check_calls(void)
{
	for (int i = 0; i < rdm_world.num_lives; i++)
		check_calls(&rdm_world.lives[i]);
}

/* Accidents */

static void harm(struct rdm_link *link)
{
	link->harms++;
	link->harmed_ns = sched_now_ns;
}

static void turn_bad(struct rdm_link *link, bool silent)
{
	harm(link);
	if (!link->bad_since_ns)
		link->bad_since_ns = sched_now_ns;
	if (!link->bad_to_ns || sched_now_ns - link->bad_to_ns > CONNECT_BOUND_NS)
		link->bad_from_ns = sched_now_ns;
	link->bad_harms = link->harms;
	link->silent = silent;
}

static void turn_good(struct rdm_link *link, bool silent)
{
	(void) silent;
	if (sched_now_ns - link->bad_from_ns >= least_silence_ns())
		link->gone_harms = link->bad_harms;
	harm(link);
	link->bad_to_ns = sched_now_ns;
	link->bad_since_ns = 0;
}

static void for_links(int place, void (*call)(struct rdm_link *link, bool silent), bool silent)
{
	for (int i = 1; i < rdm_world.num_places; i++) {
		if (place == RDM_TARGET || place == i)
			call(&rdm_world.links[i], silent);
	}
}

static int any_place(void)
{
	return (int) sched_dice((uint64_t) rdm_world.num_places);
}

static int place_of(const struct core_domain *core)
{
	for (int i = 0; i < rdm_world.num_places; i++) {
		if (&rdm_world.at[i]->core == core)
			return i;
	}
	return -1;
}

/* cut -- one of the target's connections */
static void cut(void)
{
	struct core_ep *ep;

	TAILQ_FOREACH(ep, &rdm_world.at[RDM_TARGET]->core.eps, next)
	{
		int place = ep->peer && !ep->dead ? place_of(ep->peer->domain) : -1;

		if (place <= 0 || sched_one_in(2))
			continue;
		sched_trace("a connection to place %d is cut", place);
		harm(&rdm_world.links[place]);
		core_cut(&ep->core.fid, sched_one_in(2));
		return;
	}
}

/* for_a_while -- so short that nobody is given up, or until all are */
static int64_t for_a_while(bool silent)
{
	if (sched_one_in(2))
		return sched_between(1000, timeout_ns() / 5);
	return timeout_ns() + CONNECT_BOUND_NS + (silent ? silent_ns() : 0) +
	       sched_between(0, RDM_SECOND_NS);
}

static void kill_and_restart(int place)
{
	struct rdm_party *party = rdm_world.at[place];
	bool works = party->burst && !rdm_world.idles;

	if (rdm_world.num_lives == RDM_LIVES)
		return;
	rdm_kill(party);
	for_links(place, turn_bad, false);
	sched_sleep(for_a_while(false));
	rdm_open(place);
	for_links(place, turn_good, false);
	if (place == RDM_TARGET)
		rdm_start_sleep(rdm_world.at[place]);
	if (works)
		rdm_start_burst(rdm_world.at[place]);
}

static void fall_silent(int place)
{
	struct core_domain *core = &rdm_world.at[place]->core;

	sched_trace("%s is cut off", rdm_world.at[place]->process.name);
	links_cut(core, sched_one_in(2));
	for_links(place, turn_bad, true);
	sched_sleep(for_a_while(true));
	sched_trace("%s is back", rdm_world.at[place]->process.name);
	links_mend(core);
	sched_sleep(MENDED_NS);
	for_links(place, turn_good, true);
}

static void stop(struct rdm_party *party, int64_t ns)
{
	sched_trace("%s is stopped for %d us", party->process.name, (int) (ns / 1000));
	rdm_world.stops_since_ns = sched_now_ns;
	rdm_world.longest_stop_ns = most(rdm_world.longest_stop_ns, ns);
	party->process.stopped_until_ns = sched_now_ns + ns;
	sched_sleep(ns);
	rdm_world.stopped_ns += sched_now_ns - rdm_world.stops_since_ns;
	rdm_world.stops_since_ns = 0;
}

static void have_accident(void)
{
	switch (sched_dice(4)) {
	case 0:
		if (rdm_world.cuts)
			cut();
		break;
	case 1:
		if (rdm_world.kills)
			kill_and_restart(sched_one_in(2) ? RDM_TARGET : any_place());
		break;
	case 2:
		if (rdm_world.silences)
			fall_silent(any_place());
		break;
	default:
		if (rdm_world.stops)
			stop(rdm_world.at[any_place()],
			     sched_between(100000, sched_one_in(4) ? 2 * timeout_ns() : 50000000));
	}
}

void *rdm_have_accidents(void *arg)
{
	while (!rdm_world.accidents_end) {
		sched_sleep(sched_between(100000, sched_one_in(4) ? RDM_SECOND_NS : 20000000));
		have_accident();
	}
	return arg;
}
