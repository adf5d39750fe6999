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

#include "base/container.h"
#include "base/inline.h"
#include "commit/initiator.h"
#include "commit/plan.h"
#include "commit/submission.h"

struct pmv_flush_request;

/* The messages with which a run asks the agent: request.h. */
struct pmv_request {
	uint64_t first, last; /* their numbers, once they are sent */
	bool relies;          /* it promises that all earlier requests succeed */
};

struct pmv_run {
	struct pmv_op op;                        /* first */
	const struct pmv_submission *submission; /* until its data are posted */
	struct pmv_plan plan;
	uint64_t place_addr; /* at the target: what a flush reads */
	uint64_t place_len;  /* ... or an RDMA FLUSH that is posted alone makes durable ... */
	uint64_t place_key;  /* the application's, or the core's; or where small data go: small.h */
	uint64_t immediate;  /* immediate data, if the plan has a step for them */
	/* What it keeps until it ends: */
	struct pmv_flush_request *request;
	struct pmv_submission *kept; /* a copy, for PMV_STEP_PLAN: it is `submission`, then */
	atomic_bool *under_way;      /* of a run of our own: the flag that it is under way */
	uint8_t at;                  /* the next step */
	bool counted;                /* by the counter for its kind */
	bool commits;
	bool bare;                /* a write, and the READ or FLUSH behind it, are all of it */
	bool fetches;             /* counted in ordering.reads while it is in flight */
	bool unacked;             /* counted in mailbox.sender.unacked */
	bool flushes;             /* counted in ordering.flushes: a commit by RDMA FLUSH */
	bool tail;                /* counted in tails */
	uint16_t num_regions;     /* with hooks: how many of `regions` */
	struct pmv_sample sample; /* while it is free, and of what is no commit: weight is 0 */
	struct pmv_request asked; /* of one that asks the agent */
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

	return pmv_container_of(owner, struct pmv_initiator, owner);
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
	run->op.told.ordinary &= !fetches;
	atomic_fetch_add(&pmv_run_initiator(run)->ordering.reads, fetches ? 1 : -1);
}

static inline void pmv_run_set_flushes(struct pmv_run *run, bool flushes)
{
	if (run->flushes == flushes)
		return;
	run->flushes = flushes;
	run->op.told.ordinary &= !flushes;
	atomic_fetch_add(&pmv_run_initiator(run)->ordering.flushes, flushes ? 1 : -1);
}

static inline void pmv_run_set_unacked(struct pmv_run *run, bool unacked)
{
	if (run->unacked == unacked)
		return;
	run->unacked = unacked;
	atomic_fetch_add(&pmv_run_initiator(run)->mailbox->sender.unacked, unacked ? 1 : -1);
}

/*
 * pmv_run_take -- a run of which all but the submission and the completion is set; the caller sets
 * the owner at last: others look for it.  NULL: none is left
 */
static inline struct pmv_run *pmv_run_take(struct pmv_initiator *ini, enum pmv_op_most most,
					   const struct pmv_told *told, bool counted, bool commits)
{
	struct pmv_run *run = pmv_to_run(pmv_op_take(&ini->owner, most, told));

	if (!run)
		return NULL;
	run->request = NULL;
	run->kept = NULL;
	run->under_way = NULL;
	atomic_store_explicit(&run->op.quiet_write, false, memory_order_relaxed);
	atomic_store_explicit(&run->op.quiet_list, false, memory_order_relaxed);
	run->at = 0;
	run->counted = counted;
	run->commits = commits;
	run->bare = run->fetches = run->unacked = run->flushes = run->tail = false;
	run->num_regions = 0;
	return run;
}

/*
 * pmv_run_get -- one for a submission, or NULL; completes: the application is told of its end, if
 * it asks for that; commits: the operation is a commit
 * pmv_run_get_own -- one of our own; the flag, which may be NULL, is set until it ends
 */
PMV_ALWAYS_INLINE struct pmv_run *pmv_run_get(struct pmv_initiator *ini,
					      const struct pmv_submission *submission,
					      uint64_t what, bool completes, bool commits)
{
	bool asked = submission->flags & FI_COMPLETION;
	const struct pmv_told *told = what & FI_RECV ? ini->rx_told : ini->tx_told;
	struct pmv_run *run = pmv_run_take(ini, PMV_OP_APPLICATION, &told[asked], true, commits);

	if (!run)
		return NULL;
	if (!completes)
		run->op.told.audience = PMV_TELL_NOBODY;
	run->op.context = submission->context;
	run->op.flags = what;
	run->submission = submission;
	pmv_op_set_owner(&run->op, &ini->owner);
	return run;
}

struct pmv_run *pmv_run_get_own(struct pmv_initiator *ini, atomic_bool *under_way);

/*
 * pmv_run_end -- the run's plan is done, or given up after an error (a positive fi_errno)
 * pmv_run_end_all -- of these runs
 * pmv_run_refuse -- it was not accepted: the application learns that from the call
 */
void pmv_run_end(struct pmv_run *run, int err);
void pmv_run_end_all(struct pmv_op_list *runs, int err, int prov_errno);
void pmv_run_refuse(struct pmv_run *run);

#endif /* PMV_RUN_H */
