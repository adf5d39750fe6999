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

#include "objects/ep.h"

#define AHEAD 8
/* Whoever never reads the queue has posted all of them. */
#define ALL_AHEAD 400
/* Whoever posts one more for what has come ends with so many. */
#define MOST_AHEAD 600
#define RECEIVE_LEN 20000
/* Of who sleeps where a receive is missing (objects/cq_wait.c). */
#define LONGEST_NAP_NS INT64_C(10000000)

/* The time in which a connection is stuck */

/* is_unread -- a notice more than the queue has room for waits, and all requests behind it */
static bool is_unread(const struct conn *conn)
{
	return world.unread && conn->notices > world.target_size;
}

static struct fid_ep *core_of(struct fid_ep *ep)
{
	return pmv_to_ep(ep)->engine.fid;
}

/* waiting -- messages that were sent on a connection, and are not received */
static uint64_t waiting(const struct conn *target)
{
	return target->open ? target->other->sent - core_received(core_of(target->ep)) : 0;
}

/* lacks_shared -- may a message of this connection be one that finds no receive? */
static bool lacks_shared(const struct conn *conn)
{
	const struct conn *target = conn->party == &world.target ? conn : conn->other;
	uint64_t all = 0;

	if (!waiting(target))
		return false;
	for (unsigned int i = 0; i < world.target.num_conns; i++)
		all += waiting(&world.target.conns[i]);
	return all > core_receives(core_of(world.srx));
}

/* lacks_receive -- does a message of this connection? */
static bool lacks_receive(const struct conn *conn)
{
	if (world.srx)
		return lacks_shared(conn);
	return conn->sent > conn->other->posted || conn->other->sent > conn->posted;
}

bool messages_lack(const struct conn *conn)
{
	return lacks_receive(conn) || is_unread(conn) || is_unread(conn->other);
}

bool messages_are_stuck(const struct conn *conn)
{
	return messages_lack(conn) || conn->party->away || conn->other->party->away;
}

int64_t messages_stuck_ns(const struct conn *conn)
{
	return conn->stuck_ns + (conn->stuck_since_ns ? sched_now_ns - conn->stuck_since_ns : 0);
}

int64_t messages_stuck_before_ns(const struct conn *conn)
{
	int64_t left = conn->naps_until_ns - sched_now_ns;

	return messages_stuck_ns(conn) - (left > 0 ? left : 0);
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
		/* The next hint comes when the peer has waited for twice as long. */
		if (core_rules.nic)
			conn->stuck_ns += sched_now_ns - conn->stuck_since_ns;
		/* Nothing tells who naps that there is a receive. */
		if (world.plain) {
			conn->stuck_ns += LONGEST_NAP_NS;
			conn->naps_until_ns = sched_now_ns + LONGEST_NAP_NS;
		}
		conn->stuck_since_ns = 0;
	}
}

static void note(struct conn *conn)
{
	note_end(conn);
	note_end(conn->other);
}

/* has_survived -- a silence in which nothing was sent; nobody posts receives there any more */
static bool has_survived(const struct conn *conn)
{
	return conn->silent_ns && !conn->party->silent && !conn->other->party->silent;
}

void messages_note(struct conn *conn)
{
	note(conn);
	if (messages_lack(conn) &&
	    (is_unread(conn) || is_unread(conn->other) || conn->receives == RECEIVES_NEVER ||
	     conn->other->receives == RECEIVES_NEVER || has_survived(conn)))
		conn->given_up = conn->other->given_up = true;
}

void messages_note_all(void)
{
	for (unsigned int i = 0; world.srx && i < world.target.num_conns; i++)
		messages_note(&world.target.conns[i]);
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

static void post_shared(void)
{
	char *memory = world.memory[sched_one_in(5) ? MEMORY_NONE : MEMORY_DMP];

	sure((int) fi_recv(world.srx, memory, RECEIVE_LEN, NULL, 0, &world.target.conns[0]),
	     "a receive of a shared context");
}

void messages_post(struct conn *conn)
{
	char *memory = world.memory[choose_memory(conn)];
	ssize_t ret;

	if (world.srx) {
		post_shared();
		return;
	}
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

	conn->receives = world.srx ? world.shared : kinds[sched_dice(4)];
	if (world.srx)
		return;
	conn->one_kind = sched_one_in(4);
	if (conn->one_kind)
		sure(fi_setopt(&conn->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR,
			       &world.mr[MEMORY_DMP], sizeof(struct fid_mr *)),
		     "the kind of its receives");
}

void messages_start(void)
{
	uint64_t count = sched_dice(4);
	struct fi_rx_attr attr = {0};

	if (!world.shares)
		return;
	sure(fi_srx_context(world.target.domain, &attr, &world.srx, NULL), "a shared context");
	if (world.shared == RECEIVES_AHEAD)
		count = world.target.waits == WAITS_ASIDE ? WORLD_CONNS * ALL_AHEAD : AHEAD;
	while (count--)
		post_shared();
}

void messages_end(void)
{
	if (world.srx)
		sure(fi_close(&world.srx->fid), "to close a shared context");
	world.srx = NULL;
}

void messages_bind(struct fid_ep *ep)
{
	if (world.srx)
		sure(fi_ep_bind(ep, &world.srx->fid, 0), "a shared context");
}

void messages_open(struct conn *conn)
{
	uint64_t count = sched_dice(4);

	if (world.srx)
		return;
	if (conn->receives == RECEIVES_AHEAD)
		count = world.target.waits == WAITS_ASIDE ? ALL_AHEAD : AHEAD;
	while (count--)
		messages_post(conn);
}

void messages_received(struct conn *conn, int err)
{
	sched_trace("a receive ends: %s", err ? fi_strerror(err) : "ok");
	if (!err && world.srx ? world.shared == RECEIVES_AHEAD
			      : !err && !conn->cut && conn->receives == RECEIVES_AHEAD)
		messages_post(conn);
}

/* Receiving late */

static bool is_wanted_of(const struct conn *conn)
{
	return !conn->cut && conn->receives == RECEIVES_LATE && lacks_receive(conn);
}

static bool is_wanted(void *arg)
{
	const struct party *party = arg;

	for (unsigned int i = 0; i < party->num_conns; i++) {
		if (is_wanted_of(&party->conns[i]))
			return true;
	}
	return party->received;
}

static bool may_have_more(const struct conn *conn)
{
	return conn->open && !conn->cut && conn->receives == RECEIVES_AHEAD &&
	       conn->posted < conn->other->sent + MOST_AHEAD;
}

/* is_to_post -- something has come there: whoever posts a receive moves it */
static bool is_to_post(const struct conn *conn)
{
	return may_have_more(conn) && core_is_ready(core_to_ep(&core_of(conn->ep)->fid));
}

static bool any_is_to_post(void *arg)
{
	const struct party *party = arg;

	for (unsigned int i = 0; i < party->num_conns; i++) {
		if (is_to_post(&party->conns[i]))
			return true;
	}
	return is_wanted(arg);
}

/* post_ahead -- whoever reads the queue, and so whether or not there is an entry */
static void post_ahead(struct party *party)
{
	while (sched_block("waits for data", any_is_to_post, party, SCHED_NEVER) &&
	       !party->received) {
		for (unsigned int i = 0; i < party->num_conns; i++) {
			if (is_wanted_of(&party->conns[i]) || is_to_post(&party->conns[i]))
				messages_post(&party->conns[i]);
		}
		sched_sleep(sched_between(1000, 20000));
	}
}

void *messages_receive(void *arg)
{
	struct party *party = arg;

	if (world.posts)
		post_ahead(party);
	while (sched_block("waits for messages", is_wanted, party, SCHED_NEVER) &&
	       !party->received) {
		sched_sleep(sched_between(1000, 8000000));
		for (unsigned int i = 0; i < party->num_conns; i++) {
			if (is_wanted_of(&party->conns[i]))
				messages_post(&party->conns[i]);
		}
	}
	return NULL;
}
