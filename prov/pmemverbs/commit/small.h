/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * small.h -- a small ordinary commit whose data the agent stores
 *
 * Its request is one message.  It is made in the mailbox's slot, out of the application's buffer,
 * and posted before the call returns.  So there is nothing to plan, and nothing to keep but where
 * the data go: they are the run's `place`.  The agent's acknowledgement ends the run.
 */
#ifndef PMV_SMALL_H
#define PMV_SMALL_H

#include "commit/run.h"

/*
 * pmv_small_post -- the run awaits the acknowledgement; holds the lock.  A negative fi_errno:
 * nothing was posted.  -FI_EAGAIN: the data may travel apart from the request, unless the endpoint
 * is closed.
 */
ssize_t pmv_small_post(struct pmv_initiator *ini, struct pmv_run *run);

#endif /* PMV_SMALL_H */
