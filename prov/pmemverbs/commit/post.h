/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post.h -- what goes to the core: the application's requests, and steps that are one each
 *
 * FLUSH_BEFORE, DATA, FLUSH and IMMEDIATE are one work request each.  Those that stand side by
 * side in a plan are handed to the engine in one list.  What is written by DATA is remembered
 * (ordering.h) around that, and so is what a request without a run writes.
 */
#ifndef PMV_POST_H
#define PMV_POST_H

#include "commit/run.h"

/* What the caller holds already. */
enum pmv_post_locks {
	PMV_POST_UNLOCKED,
	PMV_POST_LOCKED, /* the initiator's lock */
	PMV_POST_FENCED, /* the ordering lock, too: behind all that is under way */
};

/*
 * pmv_post_steps -- the run's next step and those beside it; run->at moves on by as many as were
 * posted.  0, or why the next one was not.  If these were the last steps of the plan, and all were
 * posted, the run's own share of op.pending was given to them: it may be gone.  *done tells.
 */
ssize_t pmv_post_steps(struct pmv_run *run, enum pmv_post_locks locks, bool *done);

/*
 * pmv_post_alone -- a request that completes to the application, without a run; fenced: behind all
 * that is under way
 */
ssize_t pmv_post_alone(struct pmv_initiator *ini, const struct pmv_submission *submission,
		       bool fenced);

/* pmv_post_read -- a READ into the scratch page, which run->op.pending counts already */
ssize_t pmv_post_read(struct pmv_run *run, uint64_t addr, size_t len, uint64_t core_key);

#endif /* PMV_POST_H */
