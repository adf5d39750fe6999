/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quick.h -- the ordinary one-sided commit: a WRITE, and a READ behind it
 *
 * To choose a method and to plan takes longer than to post the two.  So once a commit to a
 * region has had that plan, and nothing has to be remembered of it, the next ones to the same
 * region are posted without it, and take the steps that it would have.  Whatever is out of
 * the ordinary goes through pmv_submit: other flags, several buffers or places, something
 * that waits for room, a fence that is due.
 */
#ifndef PMV_QUICK_H
#define PMV_QUICK_H

#include "commit/submit.h"
#include "commit/ordering.h"

#define PMV_QUICK_SLOW (PMV_SLOW_GONE | PMV_SLOW_CLOSED | PMV_SLOW_FENCE_NEXT | PMV_SLOW_ALL)

/* pmv_quick_may_commit -- of one buffer, to one place of the same length */
static inline bool pmv_quick_may_commit(const struct pmv_initiator *ini, uint64_t key,
					uint64_t flags)
{
	const struct pmv_ordering *ordering = &ini->ordering;

	return (flags & ~FI_COMPLETION) == FI_COMMIT && pmv_ordering_is_quiet(ini, key) &&
	       atomic_load_explicit(&ordering->flush_key, memory_order_acquire) == key &&
	       !atomic_load(&ordering->wrote_ordered) && pmv_initiator_is_fast(ini, PMV_QUICK_SLOW);
}

/* pmv_quick_commit -- as pmv_submit */
ssize_t pmv_quick_commit(struct pmv_initiator *ini, const struct fi_msg_rma *msg, uint64_t flags);

#endif /* PMV_QUICK_H */
