/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * look.h -- which mailboxes the agent looks into
 *
 * A mailbox is active while a request is likely (idle_plan.h), and is looked into in every round.
 * After that it is parked, and its peer has to send a hint.  A peer's hints may not arrive: that is
 * assumed until its first one has come, and again if a request comes without one.  Then its mailbox
 * stays active.  Only what is atomic is read without the agent's lock.
 */
#ifndef PMV_LOOK_H
#define PMV_LOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/idle_plan.h"

struct pmv_receiver;

TAILQ_HEAD(pmv_receiver_list, pmv_receiver);

/* Of an agent. */
struct pmv_looks {
	struct pmv_receiver_list active; /* looked into in every round */
	struct pmv_receiver_list parked; /* after a hint only, and now and then */
	atomic_uint unhinted;            /* mailboxes whose peers' hints have not come */
	atomic_uint num_parked;          /* mailboxes in that list */
	bool unfinished;                 /* something goes on in the next rounds */
	bool held_up;                    /* one of them may wait for its core: pmv_queues_pin */
	bool expecting;                  /* a request may still come behind its hint */
	int64_t bound_ns;                /* no window is longer */
	atomic_int_fast64_t until_ns;    /* the end of the last window */
};

/* Of a mailbox. */
struct pmv_look {
	bool parked;
	bool hinted; /* hints of its peer arrive */
	struct pmv_expectation expect;
};

void pmv_look_init(struct pmv_looks *looks);

/* pmv_look_add, pmv_look_remove -- a mailbox that is served from now on, or no more */
void pmv_look_add(struct pmv_looks *looks, struct pmv_receiver *receiver);
void pmv_look_remove(struct pmv_looks *looks, struct pmv_receiver *receiver);

/* pmv_look_acknowledged -- its peer was told that the agent looks for more */
void pmv_look_acknowledged(struct pmv_looks *looks, struct pmv_receiver *receiver, int64_t now);
/* pmv_look_served -- a request was taken from it */
void pmv_look_served(struct pmv_looks *looks, struct pmv_receiver *receiver, int64_t now);

/* pmv_look_hinted, pmv_look_asked -- pmv_idle_plan_hinted and pmv_idle_plan_asked, of a mailbox */
bool pmv_look_hinted(struct pmv_looks *looks, struct pmv_receiver *receiver, bool asks,
		     int64_t now);
void pmv_look_asked(struct pmv_looks *looks, struct pmv_receiver *receiver);

/* pmv_look_park -- look no more into the mailboxes whose windows are over */
void pmv_look_park(struct pmv_looks *looks, int64_t now);

/* pmv_look_everywhere -- find requests whose hints were lost; dropped: here, by ourselves */
void pmv_look_everywhere(struct pmv_looks *looks, bool dropped, int64_t now);

/* pmv_look_find -- the mailbox with this key of its block, or NULL */
struct pmv_receiver *pmv_look_find(const struct pmv_looks *looks, uint32_t key);

#endif /* PMV_LOOK_H */
