/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_cq.h -- RxM's completion queues
 *
 * They are read under guard (memory/guard.h): when the application reads one, RxM executes
 * what has arrived.  It copies messages and executes atomics, in memory that may have lost
 * its file.
 *
 * With FI_PMEMVERBS_COMMIT=all, atomics are deferred, too.  RxM completes an atomic when the
 * target's processor has executed it.  If the atomic is to be durable, and the target's
 * caches do not persist, more has to follow: a write of no bytes that commits, and that
 * tells the agent what the atomic has changed.  It is posted when the application reads the
 * atomic's completion from RxM's CQ.  The application gets the completion of that write
 * instead.  If the connection was lost in between, it gets an error: the process at the
 * other end may have started only after the caches lost what the atomic wrote.
 *
 * An endpoint that has FI_FENCE needs to know when each of its operations has ended
 * (rdm_fence.h), also those of which the application is told nothing.  So RxM completes all of
 * them, to operations of ours, and what the application is not to see is dropped here.  A fenced
 * operation that waits has the queue read.  What is found for the application is kept, and
 * handed out when the application reads.
 */
#ifndef PMV_RDM_CQ_H
#define PMV_RDM_CQ_H

#include <rdma/fi_eq.h>

#include "rdm/rdm_op.h"

/*
 * pmv_rdm_cq_wrap -- let a CQ that RxM has just opened, with these attributes, be read here;
 * under: this provider's domain below RxM's
 */
int pmv_rdm_cq_wrap(struct fid_cq *cq, const struct fi_cq_attr *attr,
		    const struct fid_domain *under);

/* pmv_rdm_cq_is -- is it a CQ of FI_EP_RDM? */
bool pmv_rdm_cq_is(const struct fid *fid);

/*
 * pmv_rdm_cq_track -- its operations may be ours from now on; 0, -FI_ENOMEM, or -FI_ENOSYS: it is
 * in a wait set, which would not see what is kept
 * pmv_rdm_cq_pool -- where those are; NULL: it is no CQ that has any
 */
int pmv_rdm_cq_track(const struct fid *fid);
struct pmv_op_pool *pmv_rdm_cq_pool(const struct fid *fid);

/* pmv_rdm_cq_pull -- read what there is, and keep it for the application */
void pmv_rdm_cq_pull(struct fid_cq *fid);

/*
 * pmv_rdm_cq_lock, pmv_rdm_cq_unlock -- meanwhile none of its operations ends.  Before RxM's locks
 */
void pmv_rdm_cq_lock(struct fid_cq *cq);
void pmv_rdm_cq_unlock(struct fid_cq *cq);

/*
 * pmv_rdm_cq_drop -- the endpoint is being closed, and commits and counts nothing any more: its
 *   operations are added to these
 * pmv_rdm_cq_leave -- it is closed: put them back when RxM has told all there is
 */
void pmv_rdm_cq_drop(struct fid_cq *cq, struct pmv_op_owner *owner, struct pmv_op_list *ops);
void pmv_rdm_cq_leave(struct fid_cq *cq, struct pmv_op_list *ops);

/* pmv_rdm_cq_trywait -- -FI_EAGAIN: it has atomics to commit, or something to report */
int pmv_rdm_cq_trywait(struct fid *fid);

#endif /* PMV_RDM_CQ_H */
