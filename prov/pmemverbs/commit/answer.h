/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.h -- the agent's acknowledgements, and what is done when none comes */
#ifndef PMV_ANSWER_H
#define PMV_ANSWER_H

#include "commit/initiator.h"

/*
 * pmv_answer_take -- the acknowledgements that have arrived: runs that await them carry on
 * pmv_answer_probe -- if nothing was heard for some time: post a READ, which fails if the
 * peer is gone, and repeat a message that somebody may have overwritten (agent/wire.h, Repair)
 * Both hold the lock.
 */
void pmv_answer_take(struct pmv_initiator *ini);
void pmv_answer_probe(struct pmv_initiator *ini);

#endif /* PMV_ANSWER_H */
