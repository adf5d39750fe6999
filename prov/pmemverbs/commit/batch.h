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

/* Room for what a work request of our own points to. */
struct pmv_batch_room {
	struct fi_msg_rma msg;
	struct iovec iov;
	struct fi_rma_iov to;
};

/* pmv_batch_read -- fill in a READ into the scratch page; key: the core's */
void pmv_batch_read(struct pmv_initiator *ini, struct pmv_run *run, struct pmv_wr *wr,
		    struct pmv_batch_room *room, uint64_t addr, size_t len, uint64_t key);

/*
 * pmv_batch_post -- the run's next step and those beside it; run->at moves on by as many as
 * were posted.  submission and notes (ordering.h) are for DATA, else NULL and 0; held: the
 * caller has the ordering lock.  0, or why the next one was not posted.
 */
ssize_t pmv_batch_post(struct pmv_run *run, const struct pmv_submission *submission, unsigned notes,
		       bool held);

#endif /* PMV_BATCH_H */
