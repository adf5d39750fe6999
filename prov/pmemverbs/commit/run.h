/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run.h -- the interpreter: one operation on its way through the steps of its plan
 *
 * A run knows which step is next, how many of its work requests are in flight, its first
 * error, and who is to be told.  Until its plan is done it holds one of op.pending itself,
 * so the operation ends when the plan is done and nothing is in flight.
 *
 * A run whose next step finds no room in the core waits in the initiator's list `stalled`, and
 * the endpoint takes nothing new; one that has asked the agent waits in the list `awaiting`.
 * Who reads one of the endpoint's completion queues calls pmv_run_push, which carries on.
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

struct pmv_run {
	struct pmv_op op; /* first */
	/* What has to be seen to when it ends: */
	struct pmv_flush_request *request;
	struct pmv_submission *kept; /* a copy, for PMV_STEP_PLAN */
	atomic_bool *under_way;      /* of one that nobody asked for: the flag for that */
	unsigned int num_regions;    /* with hooks: how many of `regions` */
	bool counted;                /* by the counter for its kind */
	bool event_only; /* it commits nothing, but the target's application is told of it */
	bool fetches;    /* counted in ordering.reads while it is in flight */
	bool unacked;    /* counted in mailbox.sender.unacked */
	/* An ordinary one (quick.h) does not use the rest. */
	struct pmv_plan plan;
	unsigned int at;            /* the next step */
	uint64_t place_addr;        /* at the target: what a flush reads */
	uint64_t place_key;         /* the application's, or the core's */
	uint64_t data;              /* immediate data */
	struct pmv_op_list members; /* of a group's flush: the operations that it covers */
	/* with hooks: lost_writes.h */
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

/* Counting: before the core can complete it, and back if it was not posted */

static inline void pmv_run_posting(struct pmv_run *run, int count)
{
	atomic_fetch_add(&run->op.pending, count);
}

static inline void pmv_run_set_fetches(struct pmv_run *run, bool fetches)
{
	if (run->fetches == fetches)
		return;
	run->fetches = fetches;
	atomic_fetch_add(&pmv_run_initiator(run)->ordering.reads, fetches ? 1 : -1);
}

static inline void pmv_run_set_unacked(struct pmv_run *run, bool unacked)
{
	if (run->unacked == unacked)
		return;
	run->unacked = unacked;
	atomic_fetch_add(&pmv_run_initiator(run)->mailbox->sender.unacked, unacked ? 1 : -1);
}

/* The others are ours, which have no flags, or plain ones that are counted or told of. */
static inline bool pmv_run_is_commit(const struct pmv_run *run)
{
	return run->op.flags && !run->op.single && !run->event_only;
}

static inline bool pmv_run_is_grouped(const struct pmv_run *run)
{
	return run->plan.steps[run->plan.count - 1].kind == PMV_STEP_JOIN;
}

/*
 * pmv_run_get -- a run that completes as the submission asks; NULL: none is left
 * pmv_run_get_own -- one that nobody asked for; the flag is set until it ends.  It may be NULL.
 */
struct pmv_run *pmv_run_get(struct pmv_initiator *ini, const struct pmv_submission *submission);
struct pmv_run *pmv_run_get_own(struct pmv_initiator *ini, atomic_bool *under_way);

/*
 * pmv_run_end -- the run's plan is done, or given up after an error (a positive fi_errno)
 * pmv_run_release -- what it keeps besides itself
 * pmv_run_free_request -- of that, its request to the agent
 */
void pmv_run_end(struct pmv_run *run, int err);
void pmv_run_release(struct pmv_run *run);
void pmv_run_free_request(struct pmv_run *run);

/*
 * pmv_run_carry_on -- take steps.  0: the plan is done.  PMV_RUN_PARKED: it waits for the
 * agent or for a flush.  -FI_EAGAIN: there is no room; it stays at this step.
 * pmv_run_carry_on_in_order -- the same, but runs that already wait for room go first.  It
 * ends the run, or lists it as stalled.  Holds the lock.
 */
#define PMV_RUN_PARKED 1
ssize_t pmv_run_carry_on(struct pmv_run *run);
void pmv_run_carry_on_in_order(struct pmv_run *run);

/*
 * pmv_run_ended -- pmv_op_owner's `ended`
 * pmv_run_answered -- what it has asked of the agent is done, or failed; holds the lock
 */
void pmv_run_ended(struct pmv_op_owner *owner, struct pmv_op *op);
void pmv_run_answered(struct pmv_run *run, int err);

/* pmv_run_push -- carry on; returns what is left to wait for.  looking: for an application */
enum pmv_pending pmv_run_push(struct pmv_initiator *ini, bool looking);

/*
 * pmv_answer_take -- the acknowledgements that have arrived: runs that await them carry on
 * pmv_answer_probe -- if nothing was heard for some time: post a READ, which fails if the
 * peer is gone, and repeat a message that somebody may have overwritten (agent/wire.h, Repair)
 * Both hold the lock.
 */
void pmv_answer_take(struct pmv_initiator *ini);
void pmv_answer_probe(struct pmv_initiator *ini);

/* pmv_run_drop_all -- the endpoint is being closed: give up what is not posted or answered */
void pmv_run_drop_all(struct pmv_initiator *ini);

#endif /* PMV_RUN_H */
