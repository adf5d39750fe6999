/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stand_in.h -- who acts as the agent's thread while that syncs pages
 *
 * A quick disk is synced by the agent's thread itself: another thread would have to be woken, and
 * then this one.  But a sync may take long, or for ever.  So a timer is set before.  When it
 * expires, a second thread acts in its place, until it comes back.  Whoever acts holds `acting`.
 */
#ifndef PMV_STAND_IN_H
#define PMV_STAND_IN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct pmv_agent;

struct pmv_stand_in {
	pthread_mutex_t acting;
	atomic_bool away;    /* the agent's thread syncs */
	atomic_bool returns; /* it is back, and waits until it may act again */
	bool started, failed;
	int timer_fd;
	pthread_t thread;
};

/*
 * pmv_stand_in_begin, pmv_stand_in_end -- called by the agent's thread.  False: there is no second
 * thread, and will be none.
 */
bool pmv_stand_in_begin(struct pmv_agent *agent);
void pmv_stand_in_end(struct pmv_agent *agent);

/* pmv_stand_in_leave, pmv_stand_in_return -- around what may take long; the same thread */
void pmv_stand_in_leave(struct pmv_agent *agent);
void pmv_stand_in_return(struct pmv_agent *agent);

/* pmv_stand_in_round -- of whoever acts: one look at the mailboxes; true: it had something to do */
bool pmv_stand_in_round(struct pmv_agent *agent);

#endif /* PMV_STAND_IN_H */
