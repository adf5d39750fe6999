/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * submit.h -- an application's call, on its way to the core
 *
 * There are two ways.  A call that is no operation of ours goes to the core alone, and completes
 * to the application (post.h); what it writes is remembered.  All others get a run, which takes
 * the steps of its plan (run.h): commits, what the target's application is told of, and what has
 * to be counted.
 */
#ifndef PMV_SUBMIT_H
#define PMV_SUBMIT_H

#include "commit/initiator.h"
#include "commit/submission.h"

/*
 * pmv_submit -- post the operation, and what makes it durable if it commits.  A negative
 * fi_errno: nothing of it was posted.  0: it is accepted, and completes exactly once.
 */
ssize_t pmv_submit(struct pmv_initiator *ini, const struct pmv_submission *submission);

/* pmv_submit_is_open -- may something new be posted?  Else something has to come first. */
bool pmv_submit_is_open(struct pmv_initiator *ini);

#endif /* PMV_SUBMIT_H */
