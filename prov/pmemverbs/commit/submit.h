/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * submit.h -- an application's call, on its way to the core
 *
 * What has to be remembered, planned, counted or refused comes here: commits, fenced operations,
 * several places, whatever PMV_SLOW_* says.  All other calls go straight to the engine.
 */
#ifndef PMV_SUBMIT_H
#define PMV_SUBMIT_H

#include <rdma/fi_ext_pmemverbs.h>

#include "commit/initiator.h"

struct pmv_submission {
	uint64_t what;               /* FI_RMA | FI_WRITE, FI_ATOMIC | ..., FI_MSG | FI_SEND */
	const struct fi_rma_iov *to; /* places at the target, with the application's keys */
	size_t num_to;               /* 0: it is a message */
	void *context;
	uint64_t data;    /* immediate data */
	uint64_t flags;   /* the application's */
	struct pmv_wr wr; /* the operation, with the core's keys; without context and flags */
	size_t changed;   /* the length at `to`, if the target's processor writes there: hooks.h */
	bool no_completion; /* of a call that never completes (fi_inject) */
	bool event_only;    /* it does not commit; only the target's application is told of it */
};

/* pmv_submission_copy -- it and all that it points to, in one block to be freed; NULL: no memory */
struct pmv_submission *pmv_submission_copy(const struct pmv_submission *submission);

/* pmv_submission_notifies -- does immediate data follow it?  A message takes its data along. */
static inline bool pmv_submission_notifies(const struct pmv_submission *submission)
{
	return !(submission->what & FI_MSG) && (submission->flags & (FI_REMOTE_CQ_DATA | FI_IMMED));
}

/*
 * pmv_submit -- post the operation, and what makes it durable if it commits.  A negative
 * fi_errno: nothing of it was posted.  0: it is accepted, and completes exactly once.
 */
ssize_t pmv_submit(struct pmv_initiator *ini, const struct pmv_submission *submission);

/* pmv_submit_is_open -- may something new be posted?  Else something has to come first. */
bool pmv_submit_is_open(struct pmv_initiator *ini);

#endif /* PMV_SUBMIT_H */
