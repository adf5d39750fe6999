/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run.h -- the interpreter: one operation on its way through the steps of its plan
 *
 * A run knows which step is next, how many of its work requests are in flight, its first
 * error, and who is to be told.  Until its plan is done it holds one of op.pending itself,
 * so the operation ends when the plan is done and nothing is in flight.
 *
 * A run whose next step finds no room in the core waits in the initiator's list `stalled`,
 * in order.  Meanwhile the endpoint takes nothing new.  A run that has asked the agent waits
 * in the list `awaiting`.  Reading one of the endpoint's completion queues calls
 * pmv_run_push, which takes acknowledgements and carries on.
 *
 * After an error the target's application must not hear of success.  But later requests to
 * the agent rely on earlier ones, and on the READs in front of them.  So these are still
 * posted, and the agent neither stores nor notifies for them.
 */
#ifndef PMV_RUN_H
#define PMV_RUN_H

#include "base/container.h"
#include "commit/plan.h"
#include "commit/submit.h"

struct pmv_flush_request;

/* Operations that nobody asked for. */
enum pmv_run_role {
	PMV_RUN_NORMAL,
	PMV_RUN_PROBE,  /* a READ that finds out whether the peer is still there */
	PMV_RUN_REPEAT, /* a message to the agent, once more */
	PMV_RUN_GROUP,  /* a group's flush */
};

/* A submission that is kept until it is executed. */
struct pmv_kept {
	struct pmv_submission submission;
	struct pmv_wr *wr; /* in a block of its own */
	struct fi_rma_iov to[];
};

struct pmv_run {
	struct pmv_op op; /* first */
	struct pmv_plan plan;
	unsigned int at; /* the next step */
	enum pmv_run_role role;
	bool counted; /* by the counter for its kind */
	bool fetches; /* counted in ordering.reads while it is in flight */
	bool unacked; /* counted in mailbox.unacked */
	struct pmv_flush_request *request;
	struct pmv_kept *kept;      /* a copy of the submission, for PMV_STEP_PLAN */
	uint64_t place_addr;        /* at the target: what a flush reads */
	uint64_t place_key;         /* the application's, or the core's */
	uint64_t data;              /* immediate data */
	struct pmv_op_list members; /* of a group's flush: the operations that it covers */
	/* with hooks: lost_writes.h */
	uint64_t writes;
	uint32_t regions[PMV_HOOKS_REGIONS];
	unsigned int num_regions;
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

/* Counting: before the core can complete it, and back if it was not posted */

static inline void pmv_run_posting(struct pmv_run *run, size_t count)
{
	atomic_fetch_add(&run->op.pending, (int) count);
}

static inline void pmv_run_not_posted(struct pmv_run *run, size_t count)
{
	atomic_fetch_sub(&run->op.pending, (int) count);
}

static inline void pmv_run_hold_unacked(struct pmv_run *run)
{
	run->unacked = true;
	atomic_fetch_add(&pmv_run_initiator(run)->mailbox->unacked, 1);
}

static inline void pmv_run_release_unacked(struct pmv_run *run)
{
	if (run->unacked)
		atomic_fetch_sub(&pmv_run_initiator(run)->mailbox->unacked, 1);
	run->unacked = false;
}

static inline bool pmv_run_is_grouped(const struct pmv_run *run)
{
	return run->plan.steps[run->plan.count - 1].kind == PMV_STEP_JOIN;
}

/*
 * pmv_run_get -- a run that completes as the submission asks; NULL: none is left
 * pmv_run_new -- the same, for a commit: it also knows the writes that it makes durable
 */
struct pmv_run *pmv_run_get(struct pmv_initiator *ini, const struct pmv_submission *submission);
struct pmv_run *pmv_run_new(struct pmv_initiator *ini, const struct pmv_submission *submission);

/* pmv_run_end -- the run's plan is done, or given up after an error (a positive fi_errno) */
void pmv_run_end(struct pmv_run *run, int err);

/* pmv_run_release -- what it keeps besides itself */
void pmv_run_release(struct pmv_run *run);

/*
 * pmv_run_carry_on -- take steps.  0: the plan is done.  PMV_RUN_PARKED: it waits for the
 * agent or for a flush.  -FI_EAGAIN: there is no room; it stays at this step.
 * pmv_run_carry_on_in_order -- the same, but runs that already wait for room go first.  It
 * ends the run, or lists it as stalled.  Holds the lock.
 */
#define PMV_RUN_PARKED 1
ssize_t pmv_run_carry_on(struct pmv_run *run);
void pmv_run_carry_on_in_order(struct pmv_run *run);

void pmv_run_free_request(struct pmv_run *run);
void pmv_run_free_kept(struct pmv_run *run);

/* pmv_run_ended -- pmv_op_owner's `ended` */
void pmv_run_ended(struct pmv_op_owner *owner, struct pmv_op *op);

/* pmv_run_answered -- what it has asked of the agent is done, or failed; holds the lock */
void pmv_run_answered(struct pmv_run *run, int err);

/* pmv_run_push -- carry on; returns what is left to wait for.  looking: for an application */
enum pmv_pending pmv_run_push(struct pmv_initiator *ini, bool looking);

#endif /* PMV_RUN_H */
