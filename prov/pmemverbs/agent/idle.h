/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle.h -- what the agent's thread does between its rounds
 *
 * idle_plan.h decides; this finds the facts, sleeps, reads hints, and asks for them.
 *
 * A core that moves data in calls only needs the thread even where no memory needs the agent: a
 * peer's flush READ has to be answered.  There the thread sleeps on the queues' descriptors, so
 * data that have to be moved wake it.
 *
 * A descriptor may stay ready although no call changes anything, for instance when a message has
 * come and no receive is posted.  And an edge-triggered event may be gone although there are more
 * data.  So while a descriptor is ready the thread calls the cores again, a limited number of
 * times, and then sleeps until there is a new event.
 */
#ifndef PMV_IDLE_H
#define PMV_IDLE_H

#include "agent/idle_plan.h"

struct pmv_agent;

/* pmv_idle_prepare_thread -- of each thread that calls pmv_idle; pmv_idle_begin does it, too */
void pmv_idle_prepare_thread(void);
void pmv_idle_begin(struct pmv_agent *agent, struct pmv_idle_plan *plan);

/* pmv_idle -- after a round; busy: it had something to do */
void pmv_idle(struct pmv_agent *agent, struct pmv_idle_plan *plan, bool busy);

/*
 * pmv_idle_listen -- read the hints that have come, a limited number of them.  False: all of
 * them were forged, so it is better not to listen for a while.
 */
bool pmv_idle_listen(struct pmv_agent *agent, int64_t now);

/* pmv_idle_ask_for_hints -- ask the peers whose hints have not come; holds the lock */
void pmv_idle_ask_for_hints(struct pmv_agent *agent);

#endif /* PMV_IDLE_H */
