/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * submit.h -- an application's call, on its way to the core
 *
 * There are two ways.  A call that is no operation of ours goes to the core alone, and completes
 * to the application (post.h); what it writes is remembered.  All others get a run, which takes
 * the steps of its plan (run.h): commits, what the target's application is told of, and what has
 * to be counted.
 */
#ifndef PMV_SUBMIT_H
#define PMV_SUBMIT_H

#include "base/inline.h"
#include "commit/ordering.h"
#include "commit/post.h"
#include "commit/prepare.h"

/* pmv_submit_slow -- of PMV_SLOW_*, what concerns an operation that does not commit */
static inline unsigned pmv_submit_slow(uint64_t what)
{
	unsigned slow = PMV_SLOW_NOWHERE | PMV_SLOW_CLOSED | PMV_SLOW_COUNT_TX | PMV_SLOW_SHARES;

	if (what & FI_RECV)
		return PMV_SLOW_GONE | PMV_SLOW_COUNT_RX;
	if (what & FI_READ)
		return slow | PMV_SLOW_READS;
	if (what & FI_SEND)
		return slow | PMV_SLOW_FENCE_NEXT;
	return slow | PMV_SLOW_FENCE_NEXT | PMV_SLOW_ALL | PMV_SLOW_HOOKS;
}

/* pmv_submit_is_plain -- it is only posted, and remembered: nothing else has to be looked at */
static inline bool pmv_submit_is_plain(struct pmv_initiator *ini,
				       const struct pmv_submission *submission)
{
	return !(submission->what & FI_ATOMIC) &&
	       ((submission->what & FI_MSG) || submission->num_to == 1) &&
	       pmv_initiator_is_fast(ini, pmv_submit_slow(submission->what)) &&
	       !((submission->what & FI_WRITE) && (pmv_ordering_known(ini, submission->to->key) &
						   (PMV_NOTE_EVENT | PMV_NOTE_MISFIT)));
}

/*
 * pmv_submit_one_sided -- of an ordinary commit (prepare.h) that needs no more than a READ
 * pmv_submit_assisted -- of any other ordinary commit
 * pmv_submit_any -- of all else
 */
ssize_t pmv_submit_one_sided(struct pmv_initiator *ini, const struct pmv_submission *submission,
			     unsigned known);
ssize_t pmv_submit_assisted(struct pmv_initiator *ini, const struct pmv_submission *submission,
			    unsigned known);
ssize_t pmv_submit_any(struct pmv_initiator *ini, struct pmv_submission *submission);

/*
 * pmv_submit -- post the operation, and what makes it durable if it commits.  A negative
 * fi_errno: nothing of it was posted.  0: it is accepted, and completes exactly once.
 * Most calls need no more than this looks at.  It is inlined, since each caller knows what it is.
 */
PMV_ALWAYS_INLINE ssize_t pmv_submit(struct pmv_initiator *ini, struct pmv_submission *submission)
{
	unsigned known;

	if (!(submission->flags & (FI_COMMIT | FI_IMMED | FI_FENCE | FI_DELIVERY_COMPLETE))) {
		if (pmv_submit_is_plain(ini, submission))
			return pmv_post_plain(ini, submission);
	} else if (pmv_prepare_is_ordinary(ini, submission, &known)) {
		return known / PMV_NOTE_METHOD <= PMV_METHOD_READ
			       ? pmv_submit_one_sided(ini, submission, known)
			       : pmv_submit_assisted(ini, submission, known);
	}
	return pmv_submit_any(ini, submission);
}

/* pmv_submit_chain -- the same of a chain, which is gone after this, whatever it returns */
ssize_t pmv_submit_chain(struct pmv_initiator *ini, const struct pmv_submission *submission,
			 struct pmv_chain_request *chain);

/* pmv_submit_is_open -- may something new be posted?  Else something has to come first. */
bool pmv_submit_is_open(struct pmv_initiator *ini);

#endif /* PMV_SUBMIT_H */
