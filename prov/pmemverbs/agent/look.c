/* SPDX-License-Identifier: BSD-2-Clause */
/* look.c -- which mailboxes the agent looks into; look.h says how that is decided */
#include "agent/look.h"

#include <rdma/fi_domain.h>

#include "agent/mailbox.h"

#define LEAST_WINDOW_NS 50000
#define LONGEST_WINDOW_NS 5000000
/*
 * A hint may overtake its request by this much: the data before the request take time.  The
 * sender waits about twice as long for every further hint, up to a bound (mailbox.c).
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
static void warm_up(struct pmv_looks *looks, struct pmv_mailbox *mailbox, int64_t until_ns)
{
	struct pmv_look *look = &mailbox->look;

	if (look->cold) {
		TAILQ_REMOVE(&looks->cold, mailbox, next);
		TAILQ_INSERT_HEAD(&looks->warm, mailbox, next);
	}
	look->cold = false;
	if (until_ns > look->until_ns)
		look->until_ns = until_ns;
	if (until_ns > atomic_load(&looks->until_ns))
		atomic_store(&looks->until_ns, until_ns);
}

static void set_hinted(struct pmv_looks *looks, struct pmv_mailbox *mailbox, bool hinted)
{
	if (mailbox->look.hinted && !hinted)
		looks->unhinted++;
	else if (!mailbox->look.hinted && hinted)
		looks->unhinted--;
	mailbox->look.hinted = hinted;
}

void pmv_look_add(struct pmv_looks *looks, struct pmv_mailbox *mailbox)
{
	mailbox->look = (struct pmv_look){
		.window_ns = LEAST_WINDOW_NS,
		/* A peer that listens to no hints can't answer, but sends them. */
		.hinted = pmv_mailbox_listens(mailbox) && !mailbox->peer.port,
	};
	looks->unhinted += !mailbox->look.hinted;
	TAILQ_INSERT_HEAD(&looks->warm, mailbox, next);
}

void pmv_look_remove(struct pmv_looks *looks, struct pmv_mailbox *mailbox)
{
	set_hinted(looks, mailbox, true);
	if (mailbox->look.cold)
		TAILQ_REMOVE(&looks->cold, mailbox, next);
	else
		TAILQ_REMOVE(&looks->warm, mailbox, next);
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

void pmv_look_served(struct pmv_looks *looks, struct pmv_mailbox *mailbox, int64_t now)
{
	struct pmv_look *look = &mailbox->look;

	adapt(looks, look, now - look->served_ns);
	look->served_ns = now;
	look->expect_ns = look->waits_ns = 0;
	look->vain = 0;
	warm_up(looks, mailbox, now + look->window_ns);
}

void pmv_look_promised(struct pmv_looks *looks, struct pmv_mailbox *mailbox, int64_t now)
{
	warm_up(looks, mailbox, now + mailbox->look.window_ns);
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

bool pmv_look_hinted(struct pmv_looks *looks, struct pmv_mailbox *mailbox, bool asks, int64_t now)
{
	struct pmv_look *look = &mailbox->look;
	int64_t forgiven = (now - look->vain_ns) / FORGIVE_NS;

	look->vain -= forgiven < look->vain ? (unsigned int) forgiven : look->vain;
	if (look->vain == MOST_VAIN)
		return false;
	look->vain++;
	look->vain_ns = now;
	set_hinted(looks, mailbox, true);
	if (asks)
		return true;
	expect(look, now);
	warm_up(looks, mailbox, now + LEAST_WINDOW_NS);
	return true;
}

void pmv_look_asked(struct pmv_looks *looks, struct pmv_mailbox *mailbox)
{
	if (pmv_mailbox_listens(mailbox) && mailbox->hint_peer.len &&
	    ++mailbox->look.asks >= MOST_ASKS && !mailbox->look.served_ns)
		set_hinted(looks, mailbox, true);
}

/* is_unfinished -- something of it is under way, and goes on in the next rounds */
static bool is_unfinished(const struct pmv_mailbox *mailbox)
{
	return mailbox->working || mailbox->num_owed || (mailbox->refused && !mailbox->ended);
}

void pmv_look_cool(struct pmv_looks *looks, int64_t now)
{
	struct pmv_mailbox *mailbox, *after;

	looks->unfinished = looks->expecting = false;
	for (mailbox = TAILQ_FIRST(&looks->warm); mailbox; mailbox = after) {
		after = TAILQ_NEXT(mailbox, next);
		looks->unfinished |= is_unfinished(mailbox);
		looks->expecting |= now < mailbox->look.expect_ns;
		/*
		 * Where data are moved in calls no hints are sent, and only the queues of warm
		 * mailboxes are called.  Reading the queue kicks the agent, but sends no hint.
		 */
		if (!mailbox->look.hinted || now < mailbox->look.until_ns ||
		    now < mailbox->look.expect_ns || is_unfinished(mailbox) ||
		    mailbox->lacks_room || mailbox->events.owes)
			continue;
		mailbox->look.cold = true;
		TAILQ_REMOVE(&looks->warm, mailbox, next);
		TAILQ_INSERT_TAIL(&looks->cold, mailbox, next);
	}
}

void pmv_look_everywhere(struct pmv_looks *looks, int64_t now)
{
	struct pmv_mailbox *mailbox, *after;
	struct pmv_message message;

	for (mailbox = TAILQ_FIRST(&looks->cold); mailbox; mailbox = after) {
		after = TAILQ_NEXT(mailbox, next);
		/* Anybody can write something there that looks like one. */
		if (!pmv_mailbox_has_message(mailbox) ||
		    pmv_mailbox_look(mailbox, &message) == PMV_NOT_YET)
			continue;
		set_hinted(looks, mailbox, false);
		warm_up(looks, mailbox, now + LEAST_WINDOW_NS);
	}
}

static struct pmv_mailbox *find(const struct pmv_mailbox_list *list, uint32_t key)
{
	struct pmv_mailbox *mailbox;

	TAILQ_FOREACH(mailbox, list, next)
	{
		if ((uint32_t) fi_mr_key(mailbox->mr) == key)
			return mailbox;
	}
	return NULL;
}

struct pmv_mailbox *pmv_look_find(const struct pmv_looks *looks, uint32_t key)
{
	struct pmv_mailbox *mailbox = find(&looks->cold, key);

	return mailbox ? mailbox : find(&looks->warm, key);
}
