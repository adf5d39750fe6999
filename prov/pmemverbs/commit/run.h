/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run.h -- a run: one operation on its way through the steps of its plan
 *
 * A run knows which step is next, how many of its work requests are in flight, its first
 * error, and who is to be told.  Until its plan is done it holds one of op.pending itself,
 * so the operation ends when the plan is done and nothing is in flight.  interpreter.h says
 * who takes the steps.
 */
#ifndef PMV_RUN_H
#define PMV_RUN_H

#include "commit/initiator.h"
#include "commit/plan.h"
#include "commit/submission.h"

struct pmv_request;

struct pmv_run {
	struct pmv_op op;                        /* first */
	const struct pmv_submission *submission; /* until its data are posted */
	struct pmv_plan plan;
	unsigned int at;     /* the next step */
	uint64_t place_addr; /* at the target: what a flush reads */
	uint64_t place_key;  /* the application's, or the core's */
	uint64_t immediate;  /* immediate data */
	/* What has to be seen to when it ends: */
	struct pmv_request *request;
	struct pmv_submission *kept; /* a copy, for PMV_STEP_PLAN: it is `submission`, then */
	atomic_bool *under_way;      /* of one that nobody asked for: the flag for that */
	unsigned int num_regions;    /* with hooks: how many of `regions` */
	bool counted;                /* by the counter for its kind */
	bool commits;
	bool bare;    /* a write and the READ behind it are all of it */
	bool fetches; /* counted in ordering.reads while it is in flight */
	bool unacked; /* counted in mailbox.sender.unacked */
	/* Of a group's flush: the operations that it covers. */
	struct pmv_op_list members;
	/* With hooks (lost_writes.h): */
	uint64_t writes;
	uint32_t regions[PMV_HOOKS_REGIONS];
};

static inline struct pmv_run *pmv_to_run(struct pmv_op *op)
{
	return (struct pmv_run *) op;
}

static inline struct pmv_initiator *pmv_run_initiator(struct pmv_run *run)
{
	struct pmv_op_owner *owner = atomic_load_explicit(&run->op.owner, memory_order_relaxed);

	return container_of(owner, struct pmv_initiator, owner);
}

static inline bool pmv_run_has_failed(struct pmv_run *run)
{
	return atomic_load(&run->op.error);
}

/*
 * pmv_run_posting -- so many more work requests are going to be in flight: before the core can
 * complete them
 * pmv_run_not_posting -- so many were not posted after all.  Another thread may have seen all
 * others complete by then: the run may be gone behind this.
 */
static inline void pmv_run_posting(struct pmv_run *run, size_t count)
{
	atomic_fetch_add(&run->op.pending, (int) count);
}

void pmv_run_not_posting(struct pmv_run *run, size_t count);

static inline void pmv_run_set_fetches(struct pmv_run *run, bool fetches)
{
	if (run->fetches == fetches)
		return;
	run->fetches = fetches;
	run->op.ordinary &= !fetches;
	atomic_fetch_add(&pmv_run_initiator(run)->ordering.reads, fetches ? 1 : -1);
}

static inline void pmv_run_set_unacked(struct pmv_run *run, bool unacked)
{
	if (run->unacked == unacked)
		return;
	run->unacked = unacked;
	atomic_fetch_add(&pmv_run_initiator(run)->mailbox->sender.unacked, unacked ? 1 : -1);
}

/*
 * pmv_run_get -- a run that completes as the submission asks; NULL: none is left
 * pmv_run_get_own -- one that nobody asked for; the flag is set until it ends.  It may be NULL.
 */
struct pmv_run *pmv_run_get(struct pmv_initiator *ini, const struct pmv_submission *submission);
struct pmv_run *pmv_run_get_own(struct pmv_initiator *ini, atomic_bool *under_way);

/*
 * pmv_run_end -- the run's plan is done, or given up after an error (a positive fi_errno)
 * pmv_run_end_all -- of these runs
 * pmv_run_refuse -- nothing of it was posted that counts: the call tells the application
 */
void pmv_run_end(struct pmv_run *run, int err);
void pmv_run_end_all(struct pmv_op_list *runs, int err, int prov_errno);
void pmv_run_refuse(struct pmv_run *run);

#endif /* PMV_RUN_H */
