/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prepare.h -- before an operation is posted: its method is chosen, it is planned, and the request
 * to the agent is made, if the plan has one
 */
#ifndef PMV_PREPARE_H
#define PMV_PREPARE_H

#include "agent/wire.h"
#include "base/inline.h"
#include "commit/chain_request.h"
#include "commit/ordering.h"
#include "commit/rdma_flush.h"
#include "commit/run.h"

/* How an operation is carried out, besides what its submission says. */
struct pmv_terms {
	bool fenced;  /* behind all that is under way: the caller has both locks */
	bool stored;  /* the agent may store its data: the caller has `lock` */
	bool grouped; /* a later flush covers it */
	bool again;   /* what it was fenced behind is durable now */
	bool flushes; /* an RDMA FLUSH may do it: the caller has `lock` */
	bool tail;    /* ... or an ATOMIC WRITE: it has not waited for FLUSHes under way */
};

/*
 * pmv_prepare -- the run of a submission.  *method: the one that was chosen.  A negative
 * fi_errno, after a warning unless it is -FI_ENOMEM: it can't be committed.
 * pmv_prepare_flush -- nothing but a flush: of these regions by the agent; with read, by a READ at
 * the run's place, too
 */
ssize_t pmv_prepare(struct pmv_run *run, struct pmv_terms terms, enum pmv_method *method);
ssize_t pmv_prepare_flush(struct pmv_run *run, const struct pmv_submission *regions, bool read);

/*
 * pmv_prepare_may_store -- may the agent store the data of such a commit without a fence?  Small
 * data that need it anyway travel in the request, if there is room: one message instead of two.
 * Measured over verbs in the lab, in instructions of both ends and the device: 70,700 for a commit
 * of 456 bytes in the request, 81,500 for 464 bytes apart.
 * pmv_prepare_is_small -- all that has to be asked of an ordinary commit by the agent; known: what
 * is known of its key
 * pmv_prepare_may_start_to_store -- not while unfenced data travel apart (submit.c), nor if ranges
 * are lost: then the commit's completion has to tell of that
 */
static inline bool pmv_prepare_is_small(const struct fi_rma_iov *to, unsigned known)
{
	const unsigned agent = PMV_NOTE_AGENT | PMV_NOTE_PMEM;

	return to->len <= PMV_STORE_ROOM(1) && (known & (agent | PMV_NOTE_UNORDERED)) == agent;
}

static inline bool pmv_prepare_may_start_to_store(const struct pmv_initiator *ini)
{
	return !ini->dirty.lost && ini->mailbox->sender.sent >= ini->stores_from;
}

static inline bool pmv_prepare_may_store(struct pmv_initiator *ini,
					 const struct pmv_submission *submission)
{
	return submission->what == (FI_RMA | FI_WRITE) && submission->num_to == 1 &&
	       submission->to->len &&
	       pmv_prepare_is_small(submission->to, pmv_ordering_known(ini, submission->to->key)) &&
	       !atomic_load(&ini->ordering.wrote_unordered);
}

/*
 * pmv_prepare_is_ordinary -- is it a commit without a fence, an event, immediate data or several
 * places, by a key of which everything is known?  Then its plan is that of its method.  *known: of
 * its key, enum pmv_note
 * pmv_prepare_one_sided, pmv_prepare_assisted -- the same as pmv_prepare, of such a commit that
 * needs no more than a READ, or needs more
 */
PMV_ALWAYS_INLINE bool pmv_prepare_is_ordinary(struct pmv_initiator *ini,
					       const struct pmv_submission *submission,
					       unsigned *known)
{
	enum pmv_method method;

	if (submission->what != (FI_RMA | FI_WRITE) || submission->num_to != 1 ||
	    (submission->flags & ~FI_COMPLETION) != FI_COMMIT || !submission->to->len ||
	    !pmv_initiator_is_fast(ini, PMV_SLOW_NOWHERE | PMV_SLOW_CLOSED | PMV_SLOW_FENCE_NEXT |
						PMV_SLOW_ALL | PMV_SLOW_HOOKS))
		return false;
	*known = pmv_ordering_known(ini, submission->to->key);
	method = *known / PMV_NOTE_METHOD;
	if (method < PMV_METHOD_FLUSH)
		return method != PMV_METHOD_REFUSED;
	if (method == PMV_METHOD_FLUSH)
		return pmv_rdma_flush_is_alone(ini);
	/* One more by the agent would keep a fenced operation waiting. */
	return !atomic_load(&ini->ordering.wrote_unordered) &&
	       !atomic_load(&ini->ordering.flushes) && !atomic_load(&ini->fence_awaits_agent);
}

/* pmv_prepare_chain -- the same of a chain, fenced; if this fails the chain is gone */
ssize_t pmv_prepare_chain(struct pmv_run *run, struct pmv_chain_request *chain);

/* pmv_prepare_request -- the request of one by the agent */
ssize_t pmv_prepare_request(struct pmv_run *run);

static inline void pmv_prepare_one_sided(struct pmv_initiator *ini, struct pmv_run *run,
					 const struct pmv_submission *submission, unsigned known)
{
	const struct fi_rma_iov *at = submission->to;
	enum pmv_method method = known / PMV_NOTE_METHOD;

	run->plan = known & PMV_NOTE_DELIVERED ? ini->delivered : ini->plans[method];
	/*
	 * Such a plan is DATA that complete when they are in place, or DATA and a FLUSH.  There are
	 * data: as many bytes as the place has (length.h), and that is not 0.
	 */
	run->bare = method == PMV_METHOD_READ && pmv_ordering_is_quiet(ini, at->key) &&
		    !atomic_load(&ini->ordering.wrote_ordered);
	if (!run->bare) {
		run->place_addr = at->addr;
		run->place_key = at->key;
	}
}

static inline ssize_t pmv_prepare_assisted(struct pmv_initiator *ini, struct pmv_run *run,
					   enum pmv_method method)
{
	run->plan = ini->plans[method];
	if (method == PMV_METHOD_AGENT)
		return pmv_prepare_request(run);
	return pmv_rdma_flush_begin(run);
}

#endif /* PMV_PREPARE_H */
