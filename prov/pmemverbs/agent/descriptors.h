/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * descriptors.h -- the descriptors that an agent's thread sleeps on where the core moves data
 * in calls only
 *
 * Such a core needs the thread even where no memory needs the agent: a peer's flush READ
 * has to be answered.  The thread sleeps on the queues' descriptors, so data that has to
 * be moved wakes it.  A queue is left out while it is full, since nothing is taken from
 * the core then; the application's next read wakes the thread.  If no memory needs the
 * agent and the application polls a queue all the time, these calls move the data, and the
 * thread only checks now and then that they go on.
 *
 * A descriptor may stay ready although no call changes anything, for instance when a
 * message has come and no receive is posted.  And an edge-triggered event may be gone
 * although there is more data: a core may stop before its socket is empty.  So while a
 * descriptor is ready the thread calls the cores again, a limited number of times, and
 * then sleeps until there is a new event.  The limit falls while descriptors stay ready.
 */
#ifndef PMV_DESCRIPTORS_H
#define PMV_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/idle_plan.h"

struct pmv_agent;

/* pmv_descriptors_find -- must a core be called again before the thread can sleep on descriptors?
 */
enum pmv_descriptors pmv_descriptors_find(struct pmv_agent *agent);

/* pmv_descriptors_wait -- sleep until an event or a kick comes; false: neither came in this time */
bool pmv_descriptors_wait(struct pmv_agent *agent, int64_t ns);

#endif /* PMV_DESCRIPTORS_H */
