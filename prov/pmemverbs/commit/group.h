/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h -- group commit: one flush for many writes (FI_PMEMVERBS_COMMIT=all)
 *
 * A write or atomic to persistent memory that does not ask for a commit is posted at once.
 * Its completion is kept back until a flush that was posted behind it is done.  That flush is
 * posted by whoever reads the completion queue, and so begins to wait: it covers everything
 * that was written by then, so a burst of writes pays for one flush.  An endpoint has one
 * flush under way; what is written meanwhile waits for the next one.
 *
 * A member joins after it was posted, and the flush takes all members as it is posted: so
 * each of them was posted before.  A READ makes durable what came before on the connection,
 * whatever region it reads (method.h).  A flush request names the regions that only the
 * agent can flush.
 *
 * All but pmv_group_takes and pmv_group_is_idle hold the initiator's lock.
 */
#ifndef PMV_GROUP_H
#define PMV_GROUP_H

#include "commit/run.h"

/* pmv_group_takes -- is the operation to be durable though the call does not say so? */
bool pmv_group_takes(const struct pmv_initiator *ini, const struct pmv_submission *submission);

/* pmv_group_join -- true: it is the first one, and somebody has to look after it */
bool pmv_group_join(struct pmv_initiator *ini, struct pmv_run *run);

/* pmv_group_next -- post a flush if one is waited for and none is under way */
void pmv_group_next(struct pmv_initiator *ini, bool looking);

/* pmv_group_flushed -- the flush has ended, and with it its members; needs no lock */
void pmv_group_flushed(struct pmv_initiator *ini, struct pmv_run *flush);

/* pmv_group_pending -- what members wait for */
enum pmv_pending pmv_group_pending(struct pmv_initiator *ini);

/* pmv_group_is_idle -- is no operation kept back? */
bool pmv_group_is_idle(struct pmv_initiator *ini);

/*
 * pmv_group_drop -- no further flush will be posted.
 * pmv_group_abandon -- nor will anybody hear of the one that is under way
 */
void pmv_group_drop(struct pmv_initiator *ini);
void pmv_group_abandon(struct pmv_initiator *ini);

#endif /* PMV_GROUP_H */
