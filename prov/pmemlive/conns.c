/* SPDX-License-Identifier: BSD-2-Clause */
/* conns.c -- connections: how they begin and end */
#include "world.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "objects/ep.h"
#include "test/support/introduce.h"

void conns_bind(struct party *party, struct fid_ep *ep)
{
	sure(fi_ep_bind(ep, &party->cq->fid, FI_TRANSMIT | (party->splits ? 0 : FI_RECV)),
	     "its queue");
	if (party->splits)
		sure(fi_ep_bind(ep, &party->rx_cq->fid, FI_RECV), "its other queue");
	sure(fi_ep_bind(ep, &party->eq->fid, 0), "its event queue");
}

static void open_conn(struct conn *conn)
{
	struct party *party = conn->party;
	struct fid_ep *ep;

	sure(fi_endpoint(party->domain, world.info, &ep, NULL), "an endpoint");
	conns_bind(party, ep);
	if (party->cntr)
		sure(fi_ep_bind(ep, &party->cntr->fid, FI_WRITE | FI_READ | FI_SEND),
		     "its counter");
	if (party == &world.target) {
		events_bind(ep);
		messages_bind(ep);
	}
	sure(fi_enable(ep), "to enable it");
	conn->ep = ep;
	if (world.sends && party == &world.target)
		messages_choose(conn);
	sure(pmv_mailbox_open(&pmv_to_ep(ep)->mailbox), "its mailbox");
}

static struct pmv_agent *agent_of(struct fid_ep *ep)
{
	return &pmv_to_ep(ep)->domain->agent;
}

static void connect_to_target(struct conn *conn)
{
	struct conn *ends[2] = {conn, conn->other};
	struct fid_ep *eps[2];

	for (int i = 0; i < 2; i++) {
		world_in(ends[i]->party);
		open_conn(ends[i]);
		eps[i] = ends[i]->ep;
	}
	for (int i = 0; i < 2; i++) {
		world_in(ends[i]->party);
		sure(pmv_agent_promise(agent_of(eps[i]), &pmv_to_ep(eps[i])->mailbox.receiver),
		     "an agent");
	}
	for (int i = 0; i < 2; i++)
		introduce(eps[i], eps[!i]);
	core_connect(pmv_to_ep(eps[0])->engine.fid, pmv_to_ep(eps[1])->engine.fid);
	for (int i = 0; i < 2; i++) {
		world_in(ends[i]->party);
		sure(pmv_agent_attach(agent_of(eps[i]), &pmv_to_ep(eps[i])->mailbox.receiver),
		     "an agent's mailbox");
		ends[i]->open = true;
	}
	/* The target has the thread that looks for silent peers. */
	for (int i = 1; i >= 0; i--) {
		world_in(ends[i]->party);
		pmv_ep_watch(pmv_to_ep(eps[i]));
	}
	world.opened++;
	if (world.sends)
		messages_open(conn->other);
	messages_note(conn);
	if (conn->party->silent || world.target.silent)
		silences_flag(conn);
}

static struct conn *add_conn(struct party *party)
{
	struct conn *conn = &party->conns[party->num_conns++];

	conn->party = party;
	return conn;
}

void conns_add(struct party *initiator)
{
	struct conn *conn = add_conn(initiator), *other = add_conn(&world.target);

	conn->other = other;
	other->other = conn;
	connect_to_target(conn);
}

/* Ends */

bool conns_enter(struct conn *conn)
{
	if (!conn->open)
		return false;
	conn->calls++;
	return true;
}

void conns_leave(struct conn *conn)
{
	conn->calls--;
}

bool conns_are_awaited(const struct conn *conn)
{
	bool may_hear = conn->heard_ns || (conn->party->watcher && !conn->silent_ns);

	/* A NIC tells of an end in the queue of what was sent, or there is an event. */
	if (!conn->open || conn->given_up || (core_rules.nic && conn->cut && !may_hear))
		return false;
	return atomic_load(&pmv_to_ep(conn->ep)->mailbox.sender.unacked);
}

static bool has_no_call(void *arg)
{
	return !((struct conn *) arg)->calls;
}

/* close_end -- nobody calls the endpoint any more when it is closed */
static void close_end(struct conn *conn)
{
	int64_t begin;

	conn->open = false;
	world_in(conn->party);
	sched_block("waits for calls to end", has_no_call, conn, SCHED_NEVER);
	begin = sched_now_ns - world_stopped_ns();
	sure(fi_close(&conn->ep->fid), "to close an endpoint");
	/* Whatever the other end does, or a disk: what is under way there is not waited for. */
	if (sched_now_ns - world_stopped_ns() - begin > world.bound_ns)
		sched_fail("an endpoint is not closed in time");
}

void conns_heard_end(struct party *party, const struct fid *ep)
{
	for (unsigned int i = 0; i < party->num_conns; i++) {
		const struct conn *conn = &party->conns[i];

		/* One that was closed meanwhile may have had the address of another one. */
		if (&conn->ep->fid != ep || (!conn->cut && !conn->silent_ns))
			continue;
		party->conns[i].heard_ns = sched_now_ns;
		party->conns[i].heard_excused_ns = world_stopped_ns();
	}
}

static bool has_op(const struct conn *conn)
{
	for (unsigned int i = 0; i < WORLD_OPS; i++) {
		if (conn->party->ops[i].under_way && conn->party->ops[i].conn == conn)
			return true;
	}
	return false;
}

/* count_again -- nobody waited for what is on a connection that was given up: now it has to end */
static void count_again(const struct conn *conn)
{
	for (unsigned int i = 0; conn->given_up && i < WORLD_OPS; i++) {
		struct op *op = &conn->party->ops[i];

		if (op->under_way && op->conn == conn)
			op->begin_ns = sched_now_ns;
	}
}

static void close_both(struct conn *conn)
{
	struct conn *ends[2] = {conn, conn->other};
	unsigned int first = (unsigned int) sched_dice(2);

	count_again(conn);
	count_again(conn->other);
	/* Whoever is left may hear of it at any time. */
	conn->cut = conn->other->cut = true;
	close_end(ends[first]);
	if (sched_one_in(2))
		sched_sleep(sched_between(1000, 2000000));
	close_end(ends[!first]);
}

static void await_end(struct conn *conn)
{
	world_in(conn->party);
	while (has_op(conn)) {
		if (conn->party->sleeper.task || !apps_read(conn->party))
			sched_sleep(sched_between(1000, 100000));
	}
}

void conns_reopen(struct conn *conn)
{
	struct sched_process *process = sched_process();
	struct conn *other = conn->other;

	sched_trace("a connection of %s is opened anew", conn->party->process.name);
	close_both(conn);
	await_end(conn);
	await_end(other);
	*conn = (struct conn){.party = conn->party, .other = other};
	*other = (struct conn){.party = other->party, .other = conn};
	connect_to_target(conn);
	sched_enter(process);
}

void conns_renew(void)
{
	for (unsigned int i = 0; i < world.target.num_conns; i++) {
		struct conn *conn = world.target.conns[i].other;

		/* tcp 1.17 does not read that it was cut, behind a message without a receive. */
		if (conn->given_up || conn->silent_ns || (conn->cut && messages_are_stuck(conn)))
			conns_reopen(conn);
	}
}
