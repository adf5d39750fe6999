/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wake.h -- the agent's thread sleeps, and is woken up
 *
 * On a core that moves data in calls only, every sleep is on the descriptors of the
 * CQs, so that whatever has to be moved wakes the thread: also where memory needs no
 * agent and a flush READ is all that peers send.  A CQ is left out while the
 * application has not read what is there for it, since nothing is taken from the core
 * then; reading wakes the thread.  Where no memory needs the agent and the application
 * reads a CQ over and over, the data are moved by that, and the thread only looks now
 * and then whether it still does.
 *
 * A descriptor may be ready although no call changes anything: a message has come for
 * which no receive is posted.  And one may be quiet although there is more to be moved,
 * if each event were told of once only: a core may stop before its socket is empty.
 * So the thread looks whether any descriptor is ready, and has the cores called again,
 * a number of times; then it sleeps until something new happens.  Descriptors that
 * stay ready get fewer and fewer calls.
 *
 * Other cores place data by themselves and tell of nothing: there the thread looks now
 * and then, and never so seldom that a commit takes a millisecond.
 */
#ifndef PMV_WAKE_H
#define PMV_WAKE_H

#include <stdbool.h>
#include <stdint.h>

struct pmv_agent;

/* What a thread knows of its rest. */
struct pmv_rest {
	int64_t spin_until_ns;
	int64_t sleep_ns;      /* the next sleep without descriptors */
	int sleep_ms;          /* ... and with them */
	bool asked;            /* by some peer, at some time */
	unsigned int patience; /* calls for nothing before a sleep */
	unsigned int calls;    /* since the last one */
};

void pmv_rest_begin(struct pmv_rest *rest);

/* pmv_rest -- after a round; busy: it had something to do */
void pmv_rest(struct pmv_agent *agent, struct pmv_rest *rest, bool busy);

#endif /* PMV_WAKE_H */
