/* SPDX-License-Identifier: BSD-2-Clause */
/* world_time.c -- the world, the time in which nobody had to do anything, and the bounds */
#include "world.h"

#include "base/setting.h"

/* An operation on a connection that is lost: until a probe, and whoever looks for its end. */
#define LOST_BOUND_NS INT64_C(1500000000)

struct world world;

int64_t world_stopped_ns(void)
{
	int64_t stopped = world.stops_since_ns ? sched_now_ns - world.stops_since_ns : 0;
	int64_t late = world.late_since_ns ? sched_now_ns - world.late_since_ns : 0;

	return world.stopped_ns + world.late_ns + stopped + late;
}

int64_t world_synced_ns(void)
{
	return world.synced_ns + (world.syncs ? sched_now_ns - world.syncs_since_ns : 0);
}

/* silent_deadline_of -- the peer is not to be reached any more */
static int64_t silent_deadline_of(const struct op *op)
{
	int64_t known = silences_known_ns(op->conn, op->begin_ns);

	if (silences_excuse(op->conn))
		return SCHED_NEVER;
	if (op->begin_ns > known)
		known = op->begin_ns;
	return known + LOST_BOUND_NS + world_stopped_ns() - op->excused_ns;
}

/* end_deadline_ns -- when who sleeps in the event queue must know that a peer is silent */
static int64_t end_deadline_ns(const struct party *party)
{
	int64_t next = SCHED_NEVER;

	for (unsigned int i = 0; party->watcher && core_rules.sockets && i < party->num_conns;
	     i++) {
		const struct conn *conn = &party->conns[i];
		int64_t known = silences_known_ns(conn, 0);

		if (!conn->silent_ns || !conn->open || conn->heard_ns || silences_excuse(conn))
			continue;
		if (known < party->watches_ns)
			known = party->watches_ns;
		if (known + LOST_BOUND_NS < next)
			next = known + LOST_BOUND_NS;
	}
	return next;
}

/* heard_deadline_of -- the application knows that the connection is lost */
static int64_t heard_deadline_of(const struct op *op)
{
	const struct conn *conn = op->conn;
	int64_t from = conn->heard_ns;

	if (from < conn->party->back_ns)
		from = conn->party->back_ns;
	if (from < op->begin_ns)
		from = op->begin_ns;
	return from + world.bound_ns + world_stopped_ns() - conn->heard_excused_ns;
}

static int64_t deadline_of(const struct op *op)
{
	const struct conn *conn = op->conn;
	int64_t bound = conn->cut ? LOST_BOUND_NS : world.bound_ns;

	if (conn->heard_ns && !conn->given_up)
		return heard_deadline_of(op);
	if (conn->silent_ns)
		return silent_deadline_of(op);
	/* Nobody waits for what is on a connection that is given up: closing it ends that. */
	if ((messages_are_stuck(conn) || conn->given_up) && !conn->cut)
		return SCHED_NEVER;
	if (op->on_page)
		bound += world_synced_ns() - op->synced_ns;
	return op->begin_ns + bound + world_stopped_ns() - op->excused_ns +
	       messages_stuck_ns(conn) - op->stuck_ns;
}

/* notice_deadline_ns -- when the target's application must have heard of the next commit */
static int64_t notice_deadline_ns(void)
{
	if (world.told <= world.heard || world.unread || world.target.ends)
		return SCHED_NEVER;
	return world.told_ns + world.bound_ns + world_stopped_ns() - world.told_excused_ns;
}

/*
 * answer_deadline_ns -- when nothing may wait for the peer's agent any more: which operation does
 * is not known
 */
static int64_t answer_deadline_ns(const struct conn *conn)
{
	int64_t last = 0;

	if (!conns_are_awaited(conn))
		return SCHED_NEVER;
	for (unsigned int i = 0; i < WORLD_OPS; i++) {
		const struct op *op = &conn->party->ops[i];
		int64_t one = op->under_way && op->conn == conn ? deadline_of(op) : 0;

		last = one > last ? one : last;
	}
	return last ? last : SCHED_NEVER;
}

/* reaction_deadline_ns -- of who does not read how its operations have ended */
static int64_t reaction_deadline_ns(const struct party *party)
{
	int64_t next = SCHED_NEVER;

	for (unsigned int i = 0; party->reacts && i < party->num_conns; i++) {
		int64_t one = answer_deadline_ns(&party->conns[i]);

		next = one < next ? one : next;
	}
	return next;
}

static int64_t op_deadline_ns(const struct party *party)
{
	int64_t next = SCHED_NEVER;

	for (unsigned int i = 0; !party->is_away && i < WORLD_OPS; i++) {
		int64_t one = party->ops[i].under_way ? deadline_of(&party->ops[i]) : SCHED_NEVER;

		next = one < next ? one : next;
	}
	return next;
}

static int64_t next_deadline_of(const struct party *party)
{
	int64_t next = end_deadline_ns(party), one = op_deadline_ns(party);

	next = one < next ? one : next;
	one = reaction_deadline_ns(party);
	return one < next ? one : next;
}

/* find_deadline -- when something must have happened */
static int64_t find_deadline(void)
{
	int64_t next = notice_deadline_ns(), one = callers_deadline_ns();

	messages_note_all();
	next = one < next ? one : next;
	one = next_deadline_of(&world.target);
	next = one < next ? one : next;
	for (unsigned int i = 0; i < world.num_initiators; i++) {
		one = next_deadline_of(&world.initiators[i]);
		next = one < next ? one : next;
	}
	return next;
}

static void check_ops(const struct party *party)
{
	for (unsigned int i = 0; i < WORLD_OPS; i++) {
		if (party->ops[i].under_way && deadline_of(&party->ops[i]) < sched_now_ns)
			sched_fail("operation %u of %s does not end in its time", i,
				   party->process.name);
	}
}

void world_check_read(const struct party *party)
{
	/* Only who reads the other queue hears that a read has ended, or a flush of a group. */
	if ((!core_rules.nic || world.fences) && !pmv_setting.commit_all)
		check_ops(party);
}

/* check -- nothing of a process is late */
static void check(const struct party *party)
{
	if (!party->is_away)
		check_ops(party);
	if (reaction_deadline_ns(party) < sched_now_ns)
		sched_fail("who sleeps on the other queue of %s does not go on with its operations",
			   party->process.name);
	if (end_deadline_ns(party) < sched_now_ns)
		sched_fail("%s does not hear in time that a peer is silent", party->process.name);
}

static int64_t deadline_ns;

int64_t world_deadline_ns(void)
{
	return deadline_ns;
}

void world_check(void)
{
	deadline_ns = find_deadline();
	if (deadline_ns >= sched_now_ns)
		return;
	if (notice_deadline_ns() < sched_now_ns)
		sched_fail("the target's application does not hear of a commit in time");
	if (callers_deadline_ns() < sched_now_ns)
		sched_fail("the target does not hear in time that a peer has gone");
	check(&world.target);
	for (unsigned int i = 0; i < world.num_initiators; i++)
		check(&world.initiators[i]);
}
