/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h -- group commit: one flush for many writes (FI_PMEMVERBS_COMMIT=all)
 *
 * A write or atomic to persistent memory that does not ask for a commit is posted at once.
 * Its completion waits for a flush behind it, which is posted when the application reads the
 * completion queue, that is when it begins to wait.  So a burst of writes pays for one flush.
 * An endpoint has one flush under way.  Later writes wait for the next one.
 *
 * An operation joins the group after it was posted, and the flush takes all members when it
 * is posted, so it stands behind each of them.  A READ makes all of them durable (method.h).
 * For regions that only the agent can flush there is a flush request, which names them.
 *
 * All but pmv_group_takes and pmv_group_is_idle hold the initiator's lock.
 */
#ifndef PMV_GROUP_H
#define PMV_GROUP_H

#include "commit/run.h"

/* pmv_group_takes -- must the operation be durable although the call does not ask for it? */
bool pmv_group_takes(const struct pmv_initiator *ini, const struct pmv_submission *submission);

/* pmv_group_next -- post a flush if one is waited for and none is under way */
void pmv_group_next(struct pmv_initiator *ini, bool looking);

/* pmv_group_pending -- what members wait for */
static inline enum pmv_pending pmv_group_pending(struct pmv_initiator *ini)
{
	if (atomic_load(&ini->group.flushing))
		return PMV_PENDING_FLUSH;
	return STAILQ_EMPTY(&ini->group.members) ? PMV_PENDING_NONE : PMV_PENDING_POSTS;
}

/* pmv_group_is_idle -- is no operation kept back? */
bool pmv_group_is_idle(struct pmv_initiator *ini);

#endif /* PMV_GROUP_H */
