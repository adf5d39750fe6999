/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * links.c -- machines that are cut off, for a while or for good
 *
 * What is on its way then has not arrived, and arrives when the link is back: it is sent again
 * until then.  Over a core like tcp the kernels try for ever, or until somebody asks them (tcp.c).
 * A NIC gives the connection up by itself, if it has a request that nobody answers.
 */
#include "core.h"

#include "scheduler.h"
#include "testcore/fid.h"

/* What was lost is sent again so late, at most. */
#define MOST_RESEND_NS INT64_C(200000000)

bool links_reach(const struct core_ep *ep)
{
	const struct core_domain *other = ep->peer ? ep->peer->domain : ep->called_domain;

	return !ep->domain->cut_off && (!other || !other->cut_off);
}

void links_sent(struct core_ep *ep, int64_t arrives_ns)
{
	if (core_rules.sockets)
		tcp_sent(ep, arrives_ns);
}

/* Cut off, and back */

/* hold -- what is on its way to an endpoint that can't be reached */
static void hold(struct core_ep *ep)
{
	struct core_message *message;

	if (links_reach(ep))
		return;
	STAILQ_FOREACH(message, &ep->in, next) {
		if (message->arrives_ns > sched_now_ns)
			message->arrives_ns = SCHED_NEVER;
	}
	if (ep->last_arrival_ns > sched_now_ns)
		ep->last_arrival_ns = sched_now_ns;
	if (core_rules.sockets)
		tcp_cut(ep);
}

void links_cut(struct core_domain *domain, bool near)
{
	domain->cut_off = true;
	domain->near = near;
	core_for_each(hold);
}

/* let_go -- what was held on its way to an endpoint that can be reached again */
static void let_go(struct core_ep *ep)
{
	int64_t at = sched_now_ns + sched_between(0, MOST_RESEND_NS);
	struct core_message *message;

	if (!links_reach(ep))
		return;
	STAILQ_FOREACH(message, &ep->in, next) {
		if (message->arrives_ns != SCHED_NEVER)
			continue;
		at += sched_between(core_rules.least_delay_ns, core_rules.most_delay_ns);
		message->arrives_ns = ep->last_arrival_ns = at;
	}
	if (core_rules.sockets && ep->peer)
		tcp_mend(ep->peer, at);
}

void links_mend(struct core_domain *domain)
{
	domain->cut_off = false;
	core_for_each(let_go);
}

/* Standing still */

static int64_t paused_ns;

static void move_on(struct core_ep *ep)
{
	struct core_message *message;

	STAILQ_FOREACH(message, &ep->in, next) {
		if (message->arrives_ns > sched_now_ns && message->arrives_ns != SCHED_NEVER)
			message->arrives_ns += paused_ns;
	}
	if (ep->last_arrival_ns > sched_now_ns)
		ep->last_arrival_ns += paused_ns;
	if (ep->unanswered_ns != SCHED_NEVER)
		ep->unanswered_ns += paused_ns;
	if (core_rules.sockets)
		tcp_pause(ep, paused_ns);
}

void links_pause(int64_t ns)
{
	paused_ns = ns;
	core_for_each(move_on);
}

/* What happens by itself */

static int64_t next;

/* is_unanswered -- a request of a NIC, which will give it up */
static bool is_unanswered(const struct core_ep *ep)
{
	return core_rules.nic && !ep->dead && ep->peer && !STAILQ_EMPTY(&ep->sent) &&
	       (!links_reach(ep) || ep->peer->dead);
}

static void find_next(struct core_ep *ep)
{
	int64_t one = SCHED_NEVER;

	if (core_rules.sockets)
		one = tcp_next_ns(ep);
	else if (is_unanswered(ep) && ep->unanswered_ns != SCHED_NEVER)
		one = ep->unanswered_ns + core_rules.retry_ns;
	if (one < next)
		next = one > sched_now_ns ? one : sched_now_ns + 1;
}

static int64_t next_ns(void)
{
	next = SCHED_NEVER;
	if (core_rules.sockets || core_rules.retry_ns)
		core_for_each(find_next);
	return next;
}

static void advance_one(struct core_ep *ep)
{
	if (core_rules.sockets) {
		tcp_advance(ep);
	} else if (!is_unanswered(ep)) {
		ep->unanswered_ns = SCHED_NEVER;
	} else if (ep->unanswered_ns == SCHED_NEVER) {
		ep->unanswered_ns = sched_now_ns;
	} else if (sched_now_ns - ep->unanswered_ns >= core_rules.retry_ns) {
		sched_trace("the NIC gives a connection up");
		/* verbs of libfabric 2.1 tells then, that of 1.17 does not. */
		core_end(ep, core_rules.moves_all);
	}
}

static void advance(void)
{
	if (core_rules.sockets || core_rules.retry_ns)
		core_for_each(advance_one);
}

void links_start(void)
{
	static struct sched_clockwork links = {
		.next_ns = next_ns, .advance = advance, .every_ns = SCHED_RARELY_NS};

	sched_add(&links);
}
