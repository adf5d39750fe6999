/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_flush.h -- commits by RDMA FLUSH: a WRITE and a persistent FLUSH behind it, in one list; or,
 * behind a fence, a FLUSH of what was written before, an ATOMIC WRITE, and a FLUSH of that
 *
 * A FLUSH makes a range durable, and says nothing of other data.  So what was written to the
 * region before, and is not durable yet, has to be in its range.
 *  - What the agent has not been told of is known (dirty.h): the range spans all of that.  Where
 *    it spans too much besides, the commit is the agent's.
 *  - What the agent has been asked for is not known any more.  So until it has acknowledged all of
 *    it, commits are the agent's.  If it never does, they fail.
 *  - What earlier FLUSHes cover is durable when this one completes, as the requests of a
 *    connection complete in their order.
 *
 * An ATOMIC WRITE waits for every FLUSH in front of it, at the target.  If one of them fails, it is
 * never executed: the connection is in error then.  So a fenced commit of 8 aligned bytes is posted
 * at once, behind commits by FLUSH that are under way, too.  All that the agent has not been told
 * of has to be in its region; else it is the agent's, as any fenced commit.
 *
 * A WRITE behind an ATOMIC WRITE may pass it.  So the endpoint takes nothing but other tails until
 * it has completed, as behind a payload for the agent (submit.c).
 *
 * Nothing else is sure to wait for a FLUSH: a fence may not, nor may a message to the agent.  So
 * other fenced operations, and requests to the agent, are posted only when no FLUSH is under way.
 * That is checked under the lock: another thread's FLUSH may just have taken the ranges that they
 * have to follow.
 *
 * The lock is held from when the range is found, and is dirty no longer, until the list is posted.
 * So whatever another thread posts finds the range dirty, or stands behind the FLUSH.
 */
#ifndef PMV_RDMA_FLUSH_H
#define PMV_RDMA_FLUSH_H

#include "commit/run.h"

/*
 * pmv_rdma_flush_may_be -- can such a commit be one?  Holds the lock.
 * pmv_rdma_flush_may_be_tail -- can a fenced one be an ATOMIC WRITE, by its form and its key?
 * pmv_rdma_flush_covers_all -- ... behind a FLUSH of all that was written before?  Holds the lock.
 */
bool pmv_rdma_flush_may_be(struct pmv_initiator *ini, const struct pmv_submission *submission);
bool pmv_rdma_flush_may_be_tail(struct pmv_initiator *ini, const struct pmv_submission *submission);
bool pmv_rdma_flush_covers_all(struct pmv_initiator *ini, const struct pmv_submission *submission);

/* pmv_rdma_flush_meets_tail -- may a tail that is under way go there, too?  Holds the lock. */
bool pmv_rdma_flush_meets_tail(struct pmv_initiator *ini, const struct fi_rma_iov *to);

/*
 * pmv_rdma_flush_is_alone -- nothing earlier is left to be covered, and nobody waits for the end of
 * FLUSHes.  The order of the looks matters: when a request takes what wrote_agent says, unacked
 * counts it already; when it ends without an acknowledgement, wrote_agent is set again, or the
 * connection is broken.
 */
static inline bool pmv_rdma_flush_is_alone(struct pmv_initiator *ini)
{
	return !atomic_load(&ini->ordering.wrote_agent) &&
	       !atomic_load(&ini->mailbox->sender.unacked) &&
	       !atomic_load(&ini->ordering.wrote_agent) && !atomic_load(&ini->broken) &&
	       !atomic_load(&ini->awaits_flushes);
}

/* pmv_rdma_flush_begin -- of a run that was planned so; 0 */
static inline ssize_t pmv_rdma_flush_begin(struct pmv_run *run)
{
	pmv_run_set_flushes(run, true);
	run->bare = true;
	return 0;
}

/*
 * pmv_rdma_flush_post -- all of it, as pmv_post_steps; locked: the caller holds the lock.  Without
 * it nothing earlier is covered: pmv_rdma_flush_is_alone.
 * pmv_rdma_flush_post_late -- the device has taken the WRITE alone: the FLUSH.  Holds the lock.
 */
ssize_t pmv_rdma_flush_post(struct pmv_run *run, bool locked);
ssize_t pmv_rdma_flush_post_late(struct pmv_run *run);

#endif /* PMV_RDMA_FLUSH_H */
