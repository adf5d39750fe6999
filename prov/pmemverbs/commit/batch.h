/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batch.h -- steps that are one work request each, posted together
 *
 * FLUSH_BEFORE, DATA, FLUSH and IMMEDIATE are one work request each.  Those that stand side
 * by side in a plan are handed to the engine in one list.
 */
#ifndef PMV_BATCH_H
#define PMV_BATCH_H

#include "commit/run.h"

/* pmv_batch_read -- post a READ into the scratch page, which run->op.pending counts already */
ssize_t pmv_batch_read(struct pmv_run *run, uint64_t addr, size_t len, uint64_t core_key);

/*
 * pmv_batch_post -- the run's next step and those beside it; run->at moves on by as many as
 * were posted.  submission and notes (ordering.h) are for DATA, else NULL and 0; held: the
 * caller has the ordering lock.  0, or why the next one was not posted.
 */
ssize_t pmv_batch_post(struct pmv_run *run, const struct pmv_submission *submission, unsigned notes,
		       bool held);

#endif /* PMV_BATCH_H */
