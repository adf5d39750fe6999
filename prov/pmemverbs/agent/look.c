/* SPDX-License-Identifier: BSD-2-Clause */
/* look.c -- which mailboxes the agent looks into; look.h says how that is decided */
#include "agent/look.h"

#include <rdma/fi_domain.h>

#include "agent/receiver.h"

#define LEAST_WINDOW_NS 50000
#define LONGEST_WINDOW_NS 5000000
/*
 * A hint may overtake its request by this much: the data before the request take time.  The
 * sender waits about twice as long for every further hint, up to a bound (sender.c).
 */
#define EXPECT_NS 10000000
#define LONGEST_EXPECT_NS 200000000
/* Who sends so many without a request is not believed until one comes, or time has passed. */
#define MOST_VAIN 16
#define FORGIVE_NS 50000000
#define MOST_ASKS 10

void pmv_look_init(struct pmv_looks *looks)
{
	TAILQ_INIT(&looks->warm);
	TAILQ_INIT(&looks->cold);
	looks->bound_ns = LEAST_WINDOW_NS;
}

void pmv_look_bound(struct pmv_looks *looks, int64_t ns)
{
	looks->bound_ns = ns < LEAST_WINDOW_NS     ? LEAST_WINDOW_NS
			  : ns > LONGEST_WINDOW_NS ? LONGEST_WINDOW_NS
						   : ns;
}

/* warm_up -- look into it until then, at least */
static void warm_up(struct pmv_looks *looks, struct pmv_receiver *receiver, int64_t until_ns)
{
	struct pmv_look *look = &receiver->look;

	if (look->cold) {
		TAILQ_REMOVE(&looks->cold, receiver, next);
		TAILQ_INSERT_HEAD(&looks->warm, receiver, next);
	}
	look->cold = false;
	if (until_ns > look->until_ns)
		look->until_ns = until_ns;
	if (until_ns > atomic_load(&looks->until_ns))
		atomic_store(&looks->until_ns, until_ns);
}

static void set_hinted(struct pmv_looks *looks, struct pmv_receiver *receiver, bool hinted)
{
	if (receiver->look.hinted && !hinted)
		looks->unhinted++;
	else if (!receiver->look.hinted && hinted)
		looks->unhinted--;
	receiver->look.hinted = hinted;
}

void pmv_look_add(struct pmv_looks *looks, struct pmv_receiver *receiver)
{
	receiver->look = (struct pmv_look){
		.window_ns = LEAST_WINDOW_NS,
		/* A peer that listens to no hints can't answer, but sends them. */
		.hinted = pmv_link_listens(receiver->link) && !receiver->link->peer.port,
	};
	looks->unhinted += !receiver->look.hinted;
	TAILQ_INSERT_HEAD(&looks->warm, receiver, next);
}

void pmv_look_remove(struct pmv_looks *looks, struct pmv_receiver *receiver)
{
	set_hinted(looks, receiver, true);
	if (receiver->look.cold)
		TAILQ_REMOVE(&looks->cold, receiver, next);
	else
		TAILQ_REMOVE(&looks->warm, receiver, next);
}

/* adapt -- the window to the time between the last request and this one */
static void adapt(const struct pmv_looks *looks, struct pmv_look *look, int64_t gap)
{
	if (gap <= look->window_ns / 2)
		return;
	if (gap <= looks->bound_ns / 2)
		look->window_ns = 2 * gap;
	else
		look->window_ns /= 2;
	if (look->window_ns < LEAST_WINDOW_NS)
		look->window_ns = LEAST_WINDOW_NS;
}

void pmv_look_served(struct pmv_looks *looks, struct pmv_receiver *receiver, int64_t now)
{
	struct pmv_look *look = &receiver->look;

	adapt(looks, look, now - look->served_ns);
	look->served_ns = now;
	look->expect_ns = look->waits_ns = 0;
	look->vain = 0;
	warm_up(looks, receiver, now + look->window_ns);
}

void pmv_look_promised(struct pmv_looks *looks, struct pmv_receiver *receiver, int64_t now)
{
	warm_up(looks, receiver, now + receiver->look.window_ns);
}

/* expect -- a request until the next hint, at least */
static void expect(struct pmv_look *look, int64_t now)
{
	int64_t ns;

	if (!look->waits_ns)
		look->waits_ns = now;
	ns = 2 * (now - look->waits_ns);
	look->expect_ns = now + (ns < EXPECT_NS           ? EXPECT_NS
				 : ns > LONGEST_EXPECT_NS ? LONGEST_EXPECT_NS
							  : ns);
}

bool pmv_look_hinted(struct pmv_looks *looks, struct pmv_receiver *receiver, bool asks, int64_t now)
{
	struct pmv_look *look = &receiver->look;
	int64_t forgiven = (now - look->vain_ns) / FORGIVE_NS;

	look->vain -= forgiven < look->vain ? (unsigned int) forgiven : look->vain;
	if (look->vain == MOST_VAIN)
		return false;
	look->vain++;
	look->vain_ns = now;
	set_hinted(looks, receiver, true);
	if (asks)
		return true;
	expect(look, now);
	warm_up(looks, receiver, now + LEAST_WINDOW_NS);
	return true;
}

void pmv_look_asked(struct pmv_looks *looks, struct pmv_receiver *receiver)
{
	if (pmv_link_listens(receiver->link) && receiver->link->hint_peer.len &&
	    ++receiver->look.asks >= MOST_ASKS && !receiver->look.served_ns)
		set_hinted(looks, receiver, true);
}

/* is_unfinished -- something of it is under way, and goes on in the next rounds */
static bool is_unfinished(const struct pmv_receiver *receiver)
{
	return receiver->working || receiver->num_queued || (receiver->refused && !receiver->ended);
}

void pmv_look_cool(struct pmv_looks *looks, int64_t now)
{
	struct pmv_receiver *receiver, *after;

	looks->unfinished = looks->expecting = false;
	for (receiver = TAILQ_FIRST(&looks->warm); receiver; receiver = after) {
		after = TAILQ_NEXT(receiver, next);
		looks->unfinished |= is_unfinished(receiver);
		looks->expecting |= now < receiver->look.expect_ns;
		/*
		 * Where data are moved in calls no hints are sent, and only the queues of warm
		 * mailboxes are called.  Reading the queue kicks the agent, but sends no hint.
		 */
		if (!receiver->look.hinted || now < receiver->look.until_ns ||
		    now < receiver->look.expect_ns || is_unfinished(receiver) ||
		    receiver->lacks_room || receiver->events.owes)
			continue;
		receiver->look.cold = true;
		TAILQ_REMOVE(&looks->warm, receiver, next);
		TAILQ_INSERT_TAIL(&looks->cold, receiver, next);
	}
}

void pmv_look_everywhere(struct pmv_looks *looks, int64_t now)
{
	struct pmv_receiver *receiver, *after;
	struct pmv_message message;

	for (receiver = TAILQ_FIRST(&looks->cold); receiver; receiver = after) {
		after = TAILQ_NEXT(receiver, next);
		/* Anybody can write something there that looks like one. */
		if (!pmv_receiver_has_message(receiver) ||
		    pmv_receiver_look(receiver, &message) == PMV_NOT_YET)
			continue;
		set_hinted(looks, receiver, false);
		warm_up(looks, receiver, now + LEAST_WINDOW_NS);
	}
}

static struct pmv_receiver *find(const struct pmv_receiver_list *list, uint32_t key)
{
	struct pmv_receiver *receiver;

	TAILQ_FOREACH(receiver, list, next)
	{
		if ((uint32_t) fi_mr_key(receiver->link->mr) == key)
			return receiver;
	}
	return NULL;
}

struct pmv_receiver *pmv_look_find(const struct pmv_looks *looks, uint32_t key)
{
	struct pmv_receiver *receiver = find(&looks->cold, key);

	return receiver ? receiver : find(&looks->warm, key);
}
