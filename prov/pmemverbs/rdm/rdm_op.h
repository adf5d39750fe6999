/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_op.h -- operations that RxM completes to us: rdm_cq.h says which, and why */
#ifndef PMV_RDM_OP_H
#define PMV_RDM_OP_H

#include <rdma/fi_endpoint.h>

#include "progress/op.h"
#include "rdm/rdm_fence.h"

struct pmv_rdm_op {
	struct pmv_op op; /* its owner: RxM's endpoint; NULL: that is closed */
	STAILQ_ENTRY(pmv_rdm_op) next;
	struct pmv_rdm_ticket ticket; /* it has ended when the application may be told */
	/*
	 * Of an atomic that was sent, and is answered by a message.  RxM forgets it with the
	 * connection; NULL: RxM tells of its end in any case.
	 */
	const struct pmv_lost_writes *peer;
	uint64_t losses; /* how many connections to the peer were lost before it was sent */
	bool forgotten;  /* it was, if RxM has nothing more to tell */
	bool left;       /* its endpoint is closed, and it is put back with others of that */
	/*
	 * NULL: it is not deferred, and has nothing of what is below.  Else once it was executed;
	 * under guard.  0, -FI_EAGAIN without room, or why it is refused
	 */
	ssize_t (*commit)(struct pmv_rdm_op *deferred);
	struct fid_ep *ep; /* RxM's */
	fi_addr_t dest;
	uint64_t addr; /* what the atomic changes */
	uint64_t key;
	size_t len;
	bool executed; /* the commit comes next */
};

/*
 * pmv_rdm_op_context -- for RxM.  It says which life of the operation this is, for the case that
 * RxM does tell of its end, after it was given up.  No context but ours lies in the pool.
 */
#define PMV_RDM_OP_LIVES 256

static inline void *pmv_rdm_op_context(struct pmv_rdm_op *op)
{
	_Static_assert(sizeof(*op) >= PMV_RDM_OP_LIVES, "an operation has so many addresses");
	return (char *) op + op->op.lives % PMV_RDM_OP_LIVES;
}

STAILQ_HEAD(pmv_rdm_op_list, pmv_rdm_op);

#endif /* PMV_RDM_OP_H */
