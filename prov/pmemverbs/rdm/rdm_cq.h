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
 */
#ifndef PMV_RDM_CQ_H
#define PMV_RDM_CQ_H

#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "progress/op.h"

struct pmv_deferred {
	struct pmv_op op; /* its owner: RxM's endpoint; NULL: that is closed */
	STAILQ_ENTRY(pmv_deferred) next;
	/* once it was executed; under guard.  0, -FI_EAGAIN without room, or why it is refused */
	ssize_t (*commit)(struct pmv_deferred *deferred);
	struct fid_ep *ep; /* RxM's */
	fi_addr_t dest;
	uint64_t addr; /* what the atomic changes */
	uint64_t key;
	size_t len;
	uint64_t losses; /* how many connections to the peer were lost before it was sent */
	bool executed;   /* the commit comes next */
};

/* pmv_rdm_cq_wrap -- let a CQ that RxM has just opened, with these attributes, be read here */
int pmv_rdm_cq_wrap(struct fid_cq *cq, const struct fi_cq_attr *attr);

/* pmv_rdm_cq_is -- is it a CQ of FI_EP_RDM? */
bool pmv_rdm_cq_is(const struct fid *fid);

/* pmv_rdm_cq_pool -- where its deferred atomics are; NULL: it is no CQ that defers any */
struct pmv_op_pool *pmv_rdm_cq_pool(const struct fid *fid);

/* pmv_rdm_cq_drop -- the endpoint is being closed and commits nothing any more */
void pmv_rdm_cq_drop(struct fid_cq *cq, struct pmv_op_owner *owner);

/* pmv_rdm_cq_trywait -- -FI_EAGAIN: it defers atomics, and has some to commit or to report */
int pmv_rdm_cq_trywait(struct fid *fid);

#endif /* PMV_RDM_CQ_H */
