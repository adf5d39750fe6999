/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * messages.c -- the target's receives, and notices that it never reads
 *
 * A message that finds no receive stops all that is behind it on its connection, as tcp and a NIC
 * do: acknowledgements, too, so the target's own operations wait there as well.  A commit whose
 * notice finds no room stops the requests behind it.  Meanwhile no time counts there; on other
 * connections it does.
 */
#include "world.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#define AHEAD 8
/* Whoever never reads the queue has posted all of them. */
#define ALL_AHEAD 400
#define RECEIVE_LEN 20000

/* The time in which a connection is stuck */

/* is_unread -- a notice more than the queue has room for waits, and all requests behind it */
static bool is_unread(const struct conn *conn)
{
	return world.unread && conn->notices > world.target_size;
}

bool messages_are_stuck(const struct conn *conn)
{
	return conn->sent > conn->other->posted || conn->other->sent > conn->posted ||
	       is_unread(conn) || is_unread(conn->other);
}

int64_t messages_stuck_ns(const struct conn *conn)
{
	return conn->stuck_ns + (conn->stuck_since_ns ? sched_now_ns - conn->stuck_since_ns : 0);
}

/* note_end -- of this end: has it begun, or is it over? */
static void note_end(struct conn *conn)
{
	bool stuck = messages_are_stuck(conn);

	if (stuck && !conn->stuck_since_ns) {
		sched_trace("a connection of %s is stuck", conn->party->process.name);
		conn->stuck_since_ns = sched_now_ns;
	} else if (!stuck && conn->stuck_since_ns) {
		conn->stuck_ns = messages_stuck_ns(conn);
		conn->stuck_since_ns = 0;
	}
}

static void note(struct conn *conn)
{
	note_end(conn);
	note_end(conn->other);
}

void messages_note(struct conn *conn)
{
	note(conn);
	if (messages_are_stuck(conn) &&
	    (is_unread(conn) || conn->other->receives == RECEIVES_NEVER))
		conn->given_up = conn->other->given_up = true;
}

/* Posting */

static enum memory choose_memory(const struct conn *conn)
{
	if (conn->one_kind)
		return MEMORY_DMP;
	if (conn->other->party->uses_page && sched_one_in(3))
		return MEMORY_PAGE;
	return sched_one_in(5) ? MEMORY_NONE : MEMORY_DMP;
}

void messages_post(struct conn *conn)
{
	char *memory = world.memory[choose_memory(conn)];
	ssize_t ret;

	if (!conns_enter(conn))
		return;
	ret = fi_recv(conn->ep, memory, RECEIVE_LEN, NULL, 0, conn);
	conns_leave(conn);
	if (ret && !conn->cut)
		sched_fail("a receive is refused: %s", fi_strerror((int) -ret));
	conn->posted++;
	note(conn);
}

void messages_choose(struct conn *conn)
{
	static const enum receives kinds[] = {RECEIVES_AHEAD, RECEIVES_AHEAD, RECEIVES_LATE,
					      RECEIVES_NEVER};

	conn->receives = kinds[sched_dice(4)];
	conn->one_kind = sched_one_in(4);
	if (conn->one_kind)
		sure(fi_setopt(&conn->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR,
			       &world.mr[MEMORY_DMP], sizeof(struct fid_mr *)),
		     "the kind of its receives");
}

void messages_open(struct conn *conn)
{
	uint64_t count = sched_dice(4);

	if (conn->receives == RECEIVES_AHEAD)
		count = world.target.waits == WAITS_ASIDE ? ALL_AHEAD : AHEAD;
	while (count--)
		messages_post(conn);
}

void messages_received(struct conn *conn, int err)
{
	sched_trace("a receive ends: %s", err ? fi_strerror(err) : "ok");
	if (!err && !conn->cut && conn->receives == RECEIVES_AHEAD)
		messages_post(conn);
}

/* Receiving late */

static bool is_wanted_of(const struct conn *conn)
{
	return !conn->cut && conn->receives == RECEIVES_LATE && messages_are_stuck(conn->other);
}

static bool is_wanted(void *arg)
{
	const struct party *party = arg;

	for (unsigned int i = 0; i < party->num_conns; i++) {
		if (is_wanted_of(&party->conns[i]))
			return true;
	}
	return party->ends;
}

void *messages_receive(void *arg)
{
	struct party *party = arg;

	while (sched_block("waits for messages", is_wanted, party, SCHED_NEVER) && !party->ends) {
		sched_sleep(sched_between(1000, 8000000));
		for (unsigned int i = 0; i < party->num_conns; i++) {
			if (is_wanted_of(&party->conns[i]))
				messages_post(&party->conns[i]);
		}
	}
	return NULL;
}
