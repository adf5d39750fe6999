/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.h -- the agent's acknowledgements, and what is done when none comes */
#ifndef PMV_ANSWER_H
#define PMV_ANSWER_H

#include "commit/initiator.h"

/*
 * pmv_answer_take -- the acknowledgements that have arrived: of the runs that awaited them those
 * with more steps are `stalled` now, and the others end.  If the connection is broken all fail.
 * pmv_answer_probe -- while messages are unanswered: repeat a hint that may have been lost.  If
 * nothing was heard for some time, post a READ, which fails once the core gives the peer up, and
 * repeat messages that somebody may have overwritten (agent/wire.h, Repair).
 * Both hold the lock.
 */
void pmv_answer_take(struct pmv_initiator *ini);
void pmv_answer_probe_now(struct pmv_initiator *ini);

static inline void pmv_answer_probe(struct pmv_initiator *ini)
{
	const struct pmv_sender *sender = &ini->mailbox->sender;

	if (!atomic_load(&ini->broken) && sender->acked != sender->sent)
		pmv_answer_probe_now(ini);
}

#endif /* PMV_ANSWER_H */
