/* SPDX-License-Identifier: BSD-2-Clause */
/* chain_work.h -- a chain on its way from the mailbox to its reply */
#ifndef PMV_CHAIN_WORK_H
#define PMV_CHAIN_WORK_H

#include "agent/writeback.h"

struct pmv_receiver;

/*
 * A connection remembers what its chains have stored and not committed.  The next one that commits
 * names that first, as other requests name ranges: so it is flushed in slices before the chain is
 * executed.  If there are too many parts, those of a region are joined, with what is between them.
 */

/*
 * pmv_chain_work_waits -- this chain commits, and a chain of its connection is in the batch: it
 * can't be taken before it is known what that one has stored
 */
bool pmv_chain_work_waits(const struct pmv_writeback_batch *batch,
			  const struct pmv_receiver *receiver, const struct pmv_work *work);

/*
 * pmv_chain_work_begin -- its request was taken, and is valid.  It belongs to a group of the disk
 * of all regions that its steps use, as it may wait for their pages.  If it commits, it also names
 * them, without a byte: so it fails if one of them is lost.  Holds the agent's lock.
 */
enum pmv_fault pmv_chain_work_begin(struct pmv_regions *regions, struct pmv_work *work);

/* pmv_chain_work_end -- the reply comes before the acknowledgement; holds the agent's lock */
void pmv_chain_work_end(struct pmv_receiver *receiver, struct pmv_work *work);

#endif /* PMV_CHAIN_WORK_H */
