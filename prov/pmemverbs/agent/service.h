/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service.h -- rounds: take requests from mailboxes, carry them out, acknowledge them
 *
 * A round looks into every active mailbox once.  Each connection gets its slice of the round
 * (writeback.h).  A request that needs more goes on in the next round.  Until it is done, no other
 * one is taken from that mailbox.  So a connection's requests are done, and acknowledged, in order.
 *
 * One thread at a time serves.  It holds `serving`.  While it looks at mailboxes and endpoints it
 * also holds `lock`, but never while it flushes.  So nobody who opens or closes something waits for
 * a write-back.  If an endpoint is closed meanwhile, its requests are dropped: that waits for one
 * store at most (writeback.h).
 *
 * Some requests can't be carried out yet: those that have arrived only in part, and those that want
 * a notice while the application has not read as many of that connection's as its queue holds. They
 * keep no thread awake.
 */
#ifndef PMV_SERVICE_H
#define PMV_SERVICE_H

#include <stdbool.h>

#include "agent/writeback.h"

struct pmv_agent;

/*
 * pmv_service_round -- slice: of each connection.  True: there was something to do.  The
 * caller holds `serving`.
 */
bool pmv_service_round(struct pmv_agent *agent, struct pmv_slice slice);

/*
 * pmv_service_waits -- is there a request that could be taken now?
 * pmv_service_glance -- the same, but what looks like a request may prove to be none
 * Both hold the lock.
 */
bool pmv_service_waits(const struct pmv_agent *agent);
bool pmv_service_glance(const struct pmv_agent *agent);

#endif /* PMV_SERVICE_H */
