/* SPDX-License-Identifier: BSD-2-Clause */
/* choose.h -- the method for a submission, out of what its keys and the endpoint say */
#ifndef PMV_CHOOSE_H
#define PMV_CHOOSE_H

#include "commit/submit.h"

struct pmv_chosen {
	struct pmv_choice choice;
	const struct fi_rma_iov *at; /* where a flush reads; of a message: nowhere */
	unsigned notes;              /* what has to be remembered: ordering.h */
};

/*
 * pmv_choose -- one method for all places of the submission: the strongest that one of
 * them needs.  0, or a negative fi_errno after a warning: it can't be committed.
 */
ssize_t pmv_choose(struct pmv_initiator *ini, const struct pmv_submission *submission,
		   struct pmv_chosen *chosen);

#endif /* PMV_CHOOSE_H */
