/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wake.h -- the agent's thread sleeps, and is woken up
 *
 * A core that moves data only in calls needs the thread even where no memory needs the
 * agent: a peer's flush READ has to be answered.  There the thread sleeps on the queues'
 * descriptors, so data that has to be moved wakes it.  A queue is left out while it is
 * full, since nothing is taken from the core then; the application's next read wakes the
 * thread.  If no memory needs the agent and the application polls a queue all the time,
 * these calls move the data, and the thread only checks now and then that they go on.
 *
 * A descriptor may stay ready although no call changes anything, for instance when a
 * message has come and no receive is posted.  And an edge-triggered event may be gone
 * although there is more data: a core may stop before its socket is empty.  So while a
 * descriptor is ready the thread calls the cores again, a limited number of times, and
 * then sleeps until there is a new event.  The limit falls while descriptors stay ready.
 *
 * Other cores place data without any event.  There the thread looks into the mailboxes
 * at intervals, which are short enough that no commit takes a millisecond.
 */
#ifndef PMV_WAKE_H
#define PMV_WAKE_H

#include <stdbool.h>
#include <stdint.h>

struct pmv_agent;

/* A thread's state between rounds. */
struct pmv_rest {
	int64_t spin_until_ns;
	int64_t sleep_ns;      /* the next sleep without descriptors */
	int sleep_ms;          /* ... and with them */
	bool asked;            /* a peer has sent a request */
	unsigned int patience; /* calls without effect before a sleep */
	unsigned int calls;    /* since the last one */
};

void pmv_rest_begin(struct pmv_rest *rest);

/* pmv_rest -- after a round; busy: it had something to do */
void pmv_rest(struct pmv_agent *agent, struct pmv_rest *rest, bool busy);

#endif /* PMV_WAKE_H */
