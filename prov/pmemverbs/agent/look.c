/* SPDX-License-Identifier: BSD-2-Clause */
/* look.c -- which mailboxes the agent looks into; look.h has the rules */
#include "agent/look.h"

#include <rdma/fi_domain.h>

#include "agent/receiver.h"

void pmv_look_init(struct pmv_looks *looks)
{
	TAILQ_INIT(&looks->active);
	TAILQ_INIT(&looks->parked);
	looks->bound_ns = PMV_IDLE_LEAST_WINDOW_NS;
}

/* activate -- look into it until then, at least */
static void activate(struct pmv_looks *looks, struct pmv_receiver *receiver, int64_t until_ns)
{
	struct pmv_look *look = &receiver->look;

	if (look->parked) {
		looks->num_parked--;
		TAILQ_REMOVE(&looks->parked, receiver, next);
		TAILQ_INSERT_HEAD(&looks->active, receiver, next);
	}
	look->parked = false;
	if (until_ns > look->expect.until_ns)
		look->expect.until_ns = until_ns;
	if (until_ns > atomic_load(&looks->until_ns))
		atomic_store(&looks->until_ns, until_ns);
}

static void set_hinted(struct pmv_looks *looks, struct pmv_receiver *receiver, bool hinted)
{
	looks->unhinted += (unsigned int) receiver->look.hinted - hinted;
	receiver->look.hinted = hinted;
}

void pmv_look_add(struct pmv_looks *looks, struct pmv_receiver *receiver)
{
	receiver->look = (struct pmv_look){
		.expect.window_ns = PMV_IDLE_LEAST_WINDOW_NS,
		/* A peer that listens to no hints can't answer, but sends them. */
		.hinted = pmv_link_listens(receiver->link) && !receiver->link->peer.port,
	};
	looks->unhinted += !receiver->look.hinted;
	looks->held_up = true;
	TAILQ_INSERT_HEAD(&looks->active, receiver, next);
}

void pmv_look_remove(struct pmv_looks *looks, struct pmv_receiver *receiver)
{
	set_hinted(looks, receiver, true);
	looks->num_parked -= receiver->look.parked;
	if (receiver->look.parked)
		TAILQ_REMOVE(&looks->parked, receiver, next);
	else
		TAILQ_REMOVE(&looks->active, receiver, next);
}

void pmv_look_acknowledged(struct pmv_looks *looks, struct pmv_receiver *receiver, int64_t now)
{
	activate(looks, receiver, now + receiver->look.expect.window_ns);
}

void pmv_look_served(struct pmv_looks *looks, struct pmv_receiver *receiver, int64_t now)
{
	pmv_idle_plan_served(&receiver->look.expect, looks->bound_ns, now);
	pmv_look_acknowledged(looks, receiver, now);
}

bool pmv_look_hinted(struct pmv_looks *looks, struct pmv_receiver *receiver, bool asks, int64_t now)
{
	if (!pmv_idle_plan_hinted(&receiver->look.expect, asks, now))
		return false;
	set_hinted(looks, receiver, true);
	if (!asks)
		activate(looks, receiver, now + PMV_IDLE_LEAST_WINDOW_NS);
	return true;
}

void pmv_look_asked(struct pmv_looks *looks, struct pmv_receiver *receiver)
{
	if (pmv_link_listens(receiver->link) && receiver->link->hint_peer.len &&
	    pmv_idle_plan_asked(&receiver->look.expect))
		set_hinted(looks, receiver, true);
}

/* is_unfinished -- something of it is under way, and goes on in the next rounds */
static bool is_unfinished(const struct pmv_receiver *receiver)
{
	return receiver->working || receiver->num_queued || (receiver->refused && !receiver->ended);
}

/* has_request -- a genuine one, of a peer that is not refused */
static bool has_request(const struct pmv_receiver *receiver)
{
	struct pmv_message message;

	return !receiver->refused && pmv_receiver_has_message(receiver) &&
	       pmv_receiver_look(receiver, &message);
}

void pmv_look_park(struct pmv_looks *looks, int64_t now)
{
	struct pmv_receiver *receiver, *after;

	looks->unfinished = looks->expecting = false;
	for (receiver = TAILQ_FIRST(&looks->active); receiver; receiver = after) {
		after = TAILQ_NEXT(receiver, next);
		looks->unfinished |= is_unfinished(receiver);
		looks->expecting |= now < receiver->look.expect.expect_ns;
		/*
		 * Where data are moved in calls no hints are sent, so all mailboxes are active.
		 * Reading the queue kicks the agent, but sends no hint.  No hint follows a
		 * request that has come in its window.  If one was heard, the next is late.
		 */
		if (!receiver->look.hinted ||
		    pmv_idle_plan_is_likely(&receiver->look.expect, now) ||
		    is_unfinished(receiver) || receiver->syncing || receiver->lacks_room ||
		    receiver->events.has_pending || has_request(receiver))
			continue;
		receiver->look.parked = true;
		looks->num_parked++;
		TAILQ_REMOVE(&looks->active, receiver, next);
		TAILQ_INSERT_TAIL(&looks->parked, receiver, next);
	}
}

void pmv_look_everywhere(struct pmv_looks *looks, bool dropped, int64_t now)
{
	struct pmv_receiver *receiver, *after;

	for (receiver = TAILQ_FIRST(&looks->parked); receiver; receiver = after) {
		after = TAILQ_NEXT(receiver, next);
		if (!has_request(receiver))
			continue;
		if (!dropped)
			set_hinted(looks, receiver, false);
		activate(looks, receiver, now + PMV_IDLE_LEAST_WINDOW_NS);
	}
}

struct pmv_receiver *pmv_look_find(const struct pmv_looks *looks, uint32_t key)
{
	const struct pmv_receiver_list *const lists[] = {&looks->parked, &looks->active};
	struct pmv_receiver *receiver;

	for (int i = 0; i < 2; i++) {
		TAILQ_FOREACH(receiver, lists[i], next)
		{
			if ((uint32_t) fi_mr_key(receiver->link->mr) == key)
				return receiver;
		}
	}
	return NULL;
}
