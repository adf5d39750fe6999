/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service.h -- rounds: take requests from mailboxes, carry them out, acknowledge them
 *
 * A round looks into every mailbox once.  Each connection gets its slice of the round
 * (writeback.h).  A request that does not fit is continued in the next round, and no other
 * one is taken from that mailbox before.  So a connection's requests are done, and
 * acknowledged, in their order.
 *
 * One thread at a time serves, and holds `serving`.  It also holds `lock` while it looks at
 * mailboxes and endpoints, but never while it flushes: nobody who opens or closes something
 * waits for a write-back.  The requests of an endpoint that is closed meanwhile are dropped.
 *
 * Requests that have arrived only in part, or want a notice for which the application's
 * queue has no room, can't be carried out yet.  They keep no thread awake.
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

/*
 * pmv_service_pin -- list the queues of all mailboxes, or of those whose cores need calls,
 * each once, for the thread that serves: they can be used without the lock and are not closed
 */
void pmv_service_pin(struct pmv_agent *agent, bool all);
void pmv_service_unpin(struct pmv_agent *agent);

#endif /* PMV_SERVICE_H */
