/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post.h -- what goes to the core: the application's requests, and steps that are one each
 *
 * FLUSH_BEFORE, DATA, FLUSH and IMMEDIATE are one work request each.  Those that stand side by
 * side in a plan are posted one behind the other.  What DATA, or a request without a run, writes
 * is remembered before and after it is posted (ordering.h).
 */
#ifndef PMV_POST_H
#define PMV_POST_H

#include "commit/rdma_flush.h"
#include "commit/run.h"

/* What the caller holds already. */
enum pmv_post_locks {
	PMV_POST_UNLOCKED,
	PMV_POST_LOCKED, /* the initiator's lock */
	PMV_POST_FENCED, /* the ordering lock, too: behind all that is under way */
};

/*
 * pmv_post_steps -- the run's next step and those beside it; run->at moves on by as many as were
 * posted.  0, or why the next one was not.  PMV_POSTED_ALL: these were the last steps of the plan,
 * and the run's own share of op.pending was given to them: it may be gone.
 */
#define PMV_POSTED_ALL 1

ssize_t pmv_post_bare(struct pmv_run *run);
ssize_t pmv_post_any(struct pmv_run *run, enum pmv_post_locks locks);

static inline ssize_t pmv_post_steps(struct pmv_run *run, enum pmv_post_locks locks)
{
	if (run->bare)
		return run->flushes ? pmv_rdma_flush_post(run, locks != PMV_POST_UNLOCKED)
				    : pmv_post_bare(run);
	return pmv_post_any(run, locks);
}

/*
 * pmv_post_alone -- a request that completes to the application, without a run; fenced: behind all
 * that is under way
 */
ssize_t pmv_post_alone(struct pmv_initiator *ini, const struct pmv_submission *submission,
		       bool fenced);

/* pmv_post_plain -- the same without a fence; a write has one place */
ssize_t pmv_post_write(struct pmv_initiator *ini, const struct pmv_submission *submission);
ssize_t pmv_post_send(struct pmv_initiator *ini, const struct pmv_submission *submission);

static inline ssize_t pmv_post_plain(struct pmv_initiator *ini,
				     const struct pmv_submission *submission)
{
	if (submission->what == (FI_RMA | FI_WRITE))
		return pmv_post_write(ini, submission);
	if (submission->what == (FI_MSG | FI_SEND))
		return pmv_post_send(ini, submission);
	return pmv_post_alone(ini, submission, false);
}

/*
 * pmv_post_gone -- on an endpoint that is closed: -FI_ESHUTDOWN.  But a layer above handles what
 * has arrived there, and stops with the first answer that fails (objects/ep_close.c): its requests,
 * and its receives, are cancelled instead, and what it injects is lost with the connection.
 */
ssize_t pmv_post_gone(struct pmv_initiator *ini, const struct pmv_submission *submission);

/* pmv_post_read -- a READ into the scratch page, which run->op.pending counts already */
ssize_t pmv_post_read(struct pmv_run *run, uint64_t addr, size_t len, uint64_t core_key);

#endif /* PMV_POST_H */
