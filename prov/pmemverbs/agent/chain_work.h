/* SPDX-License-Identifier: BSD-2-Clause */
/* chain_work.h -- a chain on its way from the mailbox to its reply */
#ifndef PMV_CHAIN_WORK_H
#define PMV_CHAIN_WORK_H

#include "agent/writeback.h"

struct pmv_receiver;

/*
 * pmv_chain_work_begin -- its request was taken, and is valid.  If it commits, it names the regions
 * of its steps, without a byte: so it belongs to a group of their disk, and fails if one of them is
 * lost.
 */
enum pmv_fault pmv_chain_work_begin(struct pmv_regions *regions, struct pmv_work *work);

/* pmv_chain_work_end -- the reply comes before the acknowledgement; holds the agent's lock */
void pmv_chain_work_end(struct pmv_receiver *receiver, struct pmv_work *work);

#endif /* PMV_CHAIN_WORK_H */
