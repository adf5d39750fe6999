/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parts.h -- requests, and the parts of commits: posted, waited for, completed
 *
 * Each part completes to one request, errors included; the last one completes
 * the commit.  Nothing may be taken back once the write is posted, so parts
 * for which the core has no room then wait on the endpoint (`stalled`) and are
 * posted when its CQ is read.  Until then the endpoint takes nothing new.
 */
#ifndef PMV_PARTS_H
#define PMV_PARTS_H

#include "objects/ep.h"

/*
 * pmv_op_part_done -- drop a reference: a part has completed or never will;
 * err is 0 or a positive fi_errno.  True: it was the last one.
 */
bool pmv_op_part_done(struct pmv_op *req, int err, int prov_errno);

/* pmv_op_finish -- count the request, fill its entry; false: nothing to report, it is gone */
bool pmv_op_finish(struct pmv_op_pool *pool, struct pmv_op *req);

/* pmv_op_drop -- a poster's reference; the request may end here if the core was faster */
void pmv_op_drop(struct pmv_ep *ep, struct pmv_op *req, int err);

/* pmv_cntr_of -- the counter of such operations, or NULL */
struct pmv_cntr *pmv_cntr_of(struct pmv_ep *ep, uint64_t what);

/*
 * pmv_post_parts -- post what a request still has to post, in order.  -FI_EAGAIN:
 * the core has no room.  0: nothing is left, posted or given up after an error.
 * The caller holds a reference, so the request does not end in here, and with a
 * letter the endpoint's lock.
 */
ssize_t pmv_post_parts(struct pmv_ep *ep, struct pmv_op *req);

/*
 * pmv_post_or_queue -- post a request's parts, or keep it with its reference until
 * the core and the agent take them; holds the endpoint's lock
 */
void pmv_post_or_queue(struct pmv_ep *ep, struct pmv_op *req);

/* pmv_flush_at_page -- the peer's flush page: a READ of it pushes as any other */
void pmv_flush_at_page(struct pmv_ep *ep, struct pmv_op *req);

/*
 * pmv_flush_ordered -- data written before the READ becomes durable with it; from
 * here on a fence waits for the READ instead of posting one.  Holds order_lock.
 */
ssize_t pmv_flush_ordered(struct pmv_ep *ep, struct pmv_op *req);

/*
 * pmv_ep_push -- take acknowledgements, and post what is to be posted; returns what
 * is left.  looking: it is the application that reads the CQ.
 */
enum pmv_pending pmv_ep_push(struct pmv_ep *ep, bool looking);

/* pmv_ep_break -- the connection is lost: fail what waits for the agent */
void pmv_ep_break(struct pmv_ep *ep);

/* pmv_ep_stall -- have it pushed whenever one of its CQs is read */
void pmv_ep_stall(struct pmv_ep *ep);

/* pmv_ep_drop_pending -- give up what is not posted or acknowledged, when the endpoint is closed */
void pmv_ep_drop_pending(struct pmv_ep *ep);

#endif /* PMV_PARTS_H */
