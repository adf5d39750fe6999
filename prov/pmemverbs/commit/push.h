/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * push.h -- whoever reads one of the endpoint's queues carries on what waits there: for
 * acknowledgements, for room, for a flush
 */
#ifndef PMV_PUSH_H
#define PMV_PUSH_H

#include "commit/initiator.h"

/* pmv_push_init -- have the endpoint's queues and operations call in here */
void pmv_push_init(struct pmv_initiator *ini);

/* pmv_push_pending -- what is waited for; holds the initiator's lock */
enum pmv_pending pmv_push_pending(struct pmv_initiator *ini);

/* pmv_push -- carry on; returns what is left to wait for.  looking: for an application */
enum pmv_pending pmv_push(struct pmv_initiator *ini, bool looking);

/* pmv_push_drop_all -- the endpoint is being closed: give up what is not posted or answered */
void pmv_push_drop_all(struct pmv_initiator *ini);

/*
 * pmv_push_abandon -- operations that the core did not complete before its endpoint was
 * closed; the caller tells the application.  Nobody reads the queues meanwhile.
 */
struct pmv_op_list pmv_push_abandon(struct pmv_initiator *ini);

#endif /* PMV_PUSH_H */
