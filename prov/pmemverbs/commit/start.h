/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * start.h -- a run begins: its method is chosen, it is planned, and its data are posted
 *
 * An operation is accepted when its data are posted, or when a request to the agent that has
 * to come before the data is made.  The call returns failures from before that.  The completion
 * tells all others.
 */
#ifndef PMV_START_H
#define PMV_START_H

#include "commit/run.h"

/*
 * pmv_start -- carry out a submission.  fenced: behind all that is under way; grouped: a
 * later flush covers it.  A negative fi_errno: it is not accepted, and the run is gone.
 */
ssize_t pmv_start(struct pmv_run *run, const struct pmv_submission *submission, bool fenced,
		  bool grouped);

/*
 * pmv_start_go_on -- the data were posted, and ret says why the next step was not, or 0
 * pmv_start_refuse -- nothing of it was posted that counts: the call tells the application
 */
void pmv_start_go_on(struct pmv_run *run, ssize_t ret);
void pmv_start_refuse(struct pmv_run *run);

/*
 * pmv_start_pause_stores -- something else has to wait until the agent has stored small data, so
 * data and requests are posted apart for a while
 */
void pmv_start_pause_stores(struct pmv_initiator *ini);

/*
 * pmv_start_kept -- PMV_STEP_PLAN: the kept operation itself, now that everything before it
 * is durable.  -FI_EAGAIN: not now.  Holds the lock.
 */
ssize_t pmv_start_kept(struct pmv_run *run);

/*
 * pmv_start_flush -- nothing but a flush: of these regions by the agent; with read, by a
 * READ at the run's place, too.  Holds the lock.
 */
void pmv_start_flush(struct pmv_run *run, const struct pmv_submission *regions, bool read);

#endif /* PMV_START_H */
