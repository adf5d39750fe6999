/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h -- FI_PMEMVERBS_COMMIT=all: one flush for many writes
 *
 * A write or atomic to persistent memory that does not ask for a commit is posted
 * at once, and its completion is held back until a flush that was posted behind
 * it is done.  Whoever reads the CQ, and so begins to wait, posts that flush, for
 * all that was written by then: a burst of writes pays one.  An endpoint has one
 * under way; what is written meanwhile waits for the next one.
 */
#ifndef PMV_COVER_H
#define PMV_COVER_H

#include "commit/commit.h"

/* pmv_covers -- does the setting concern an operation that modifies memory with this key? */
bool pmv_covers(struct pmv_ep *ep, uint64_t key);

/* pmv_cover -- like pmv_commit, and as much of a promise */
ssize_t pmv_cover(struct pmv_ep *ep, struct pmv_commit *commit);

/* pmv_cover_done -- a flush has ended: with it those that it covers */
void pmv_cover_done(struct pmv_ep *ep, struct pmv_commit_op *flush);

/*
 * pmv_cover_next -- post a flush if one is waited for and none is under way; holds
 * the endpoint's lock
 */
void pmv_cover_next(struct pmv_ep *ep, bool looking);

/* pmv_cover_pending -- what covered operations wait for; holds the endpoint's lock */
enum pmv_pending pmv_cover_pending(struct pmv_ep *ep);

/* pmv_cover_is_idle -- is no operation held back? */
bool pmv_cover_is_idle(struct pmv_ep *ep);

/* pmv_cover_drop -- no flush will come any more; holds the endpoint's lock */
void pmv_cover_drop(struct pmv_ep *ep);

#endif /* PMV_COVER_H */
