/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * strangers.h -- who connects and asks for nothing
 *
 * tcp keeps each connection that it has accepted until its peer ends it, or asks.  Each takes a
 * descriptor, so a few hundred that say nothing would let nobody else in.  When three quarters of
 * the descriptors are in use, those end that have been silent for 10 seconds; when nearly all are,
 * those that have been for one.
 */
#ifndef PMV_STRANGERS_H
#define PMV_STRANGERS_H

#include "objects/eq.h"

/* The shortest silence that counts; whoever sleeps on the queue wakes so often for that. */
#define PMV_STRANGERS_LOOK_MS 1000

/*
 * pmv_strangers_look -- with the queue's lock, when the core has no event: so we know all who have
 * asked.  Not more often than PMV_STRANGERS_LOOK_MS.
 */
void pmv_strangers_look(struct pmv_eq *eq);

/*
 * pmv_strangers_leave_room -- or can no connection be accepted?  tcp tries again and again then,
 * without a sleep, since its listening socket is ready.
 */
bool pmv_strangers_leave_room(struct pmv_eq *eq);

/*
 * pmv_strangers_fill -- can no connection be accepted?  For whoever is about to wait for the
 * queue's descriptor, with the queue's lock.  While there was room, it looks again after 10 ms
 * only.
 */
bool pmv_strangers_fill(struct pmv_eq *eq);

/* pmv_strangers_pause -- until there may be room again; 0, or a negative errno: a signal came */
int pmv_strangers_pause(void);

#endif /* PMV_STRANGERS_H */
