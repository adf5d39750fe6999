/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service.h -- rounds: requests are taken from mailboxes, carried out, acknowledged
 *
 * A round looks into every mailbox once.  Each connection gets its slice of the
 * round (writeback.h); what does not fit stays with its mailbox until the next round,
 * and nothing else is taken from that mailbox meanwhile, so that the requests of one
 * connection are done, and acknowledged, in their order.
 *
 * One thread at a time serves; it holds `serving`.  It holds `lock` as well while it
 * looks at mailboxes and endpoints, and never while it flushes: whoever opens or closes
 * something waits for no write-back.  An endpoint that is closed meanwhile leaves its
 * requests to themselves; a CQ that is closed waits for the thread to come out of it.
 *
 * What can't be carried out yet is no work, and keeps nobody awake: a request that
 * has arrived in part, or one that asks for a notice for which the application's
 * queue has no room.
 */
#ifndef PMV_SERVICE_H
#define PMV_SERVICE_H

#include <stdbool.h>

struct pmv_agent;
struct pmv_mailbox;

/* pmv_service_round -- true: there was something to do.  The caller holds `serving`. */
bool pmv_service_round(struct pmv_agent *agent);

/* pmv_service_waits -- is there a request that could be taken now?  Holds the lock. */
bool pmv_service_waits(const struct pmv_agent *agent);

/* pmv_service_forget -- what is under way for a mailbox that is no more; holds the lock */
void pmv_service_forget(struct pmv_agent *agent, struct pmv_mailbox *mailbox);

/*
 * pmv_service_pin, pmv_service_unpin -- CQs that are used without the lock, each once:
 * of all mailboxes, or of those that need their cores called.  The CQs' list is the
 * serving thread's.
 */
void pmv_service_pin(struct pmv_agent *agent, bool all);
void pmv_service_unpin(struct pmv_agent *agent);

#endif /* PMV_SERVICE_H */
