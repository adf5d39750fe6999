/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interpreter.h -- takes the steps of a run's plan, one by one
 *
 * A run whose next step finds no room (in the core, or in the peer's mailbox) waits in the
 * initiator's list `stalled`, and the endpoint takes nothing new.  One that has asked the agent
 * waits in the list `awaiting`. One that a flush is to cover waits among the group's members.
 * push.h carries on.
 *
 * An operation is accepted when its data are posted, or when a request to the agent that has
 * to come before the data is made.  The call returns failures from before that.  The completion
 * tells all others.
 *
 * After an error the target's application must not hear of success.  But later requests to
 * the agent rely on earlier ones, and on the READs in front of them.  So these are still
 * posted, and the agent neither stores nor notifies for them.
 */
#ifndef PMV_INTERPRETER_H
#define PMV_INTERPRETER_H

#include "commit/post.h"
#include "commit/run.h"

/* pmv_interpreter_take_ranges -- what its request is to name; holds the lock */
ssize_t pmv_interpreter_take_ranges(struct pmv_run *run);

/*
 * pmv_interpreter_accept -- take the first steps of a run that was prepared, until it is accepted.
 * A negative fi_errno: it is not.  PMV_POSTED_ALL: the plan is done, and the run may be gone.
 */
ssize_t pmv_interpreter_accept_part(struct pmv_run *run, ssize_t err);

static inline ssize_t pmv_interpreter_accept(struct pmv_run *run, enum pmv_post_locks locks)
{
	ssize_t ret;

	/* A request comes first. */
	if (!run->bare && run->plan.data == PMV_MAX_STEPS)
		return pmv_interpreter_take_ranges(run);
	ret = pmv_post_steps(run, locks);
	return ret < 0 ? pmv_interpreter_accept_part(run, ret) : ret;
}

/*
 * pmv_interpreter_go_on -- take the steps of a run that was accepted, unless others wait for room
 * already.  True: it waits for something now.
 * pmv_interpreter_push -- the same for those that wait for room, in their order
 * pmv_interpreter_answered -- what it has asked of the agent is done, or failed
 * pmv_interpreter_lacks_slot -- the first of those that wait for room lacks it in the peer's
 * mailbox: that is, an acknowledgement
 * pmv_interpreter_gate -- may the endpoint take something new?  After any of the others.
 * All hold the lock.
 */
bool pmv_interpreter_go_on(struct pmv_run *run);
void pmv_interpreter_push(struct pmv_initiator *ini);
void pmv_interpreter_answered(struct pmv_run *run, int err);
bool pmv_interpreter_lacks_slot(struct pmv_initiator *ini);
void pmv_interpreter_gate(struct pmv_initiator *ini);

/* pmv_interpreter_ended -- pmv_op_owner's `ended` */
void pmv_interpreter_ended(struct pmv_op_owner *owner, struct pmv_op *op);

/* pmv_interpreter_release -- what a run keeps besides itself */
void pmv_interpreter_release(struct pmv_run *run);

#endif /* PMV_INTERPRETER_H */
