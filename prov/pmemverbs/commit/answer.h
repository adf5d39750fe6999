/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.h -- the agent's acknowledgements, and what is done when none comes */
#ifndef PMV_ANSWER_H
#define PMV_ANSWER_H

#include "commit/initiator.h"

/* Both hold the initiator's lock. */

/* pmv_answer_take -- the acknowledgements that have arrived: runs that await them carry on */
void pmv_answer_take(struct pmv_initiator *ini);

/*
 * pmv_answer_probe -- if nothing was heard for some time: post a READ, which fails if the
 * peer is gone, and repeat a message that somebody may have overwritten (agent/wire.h, Repair)
 */
void pmv_answer_probe(struct pmv_initiator *ini);

#endif /* PMV_ANSWER_H */
