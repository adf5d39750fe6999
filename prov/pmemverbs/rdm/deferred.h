/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deferred.h -- atomics of FI_EP_RDM whose completion waits for the target's agent
 *
 * RxM completes an atomic when the target's processor has executed it.  If the atomic is
 * to be durable, and the target's caches do not persist, more has to follow: a write of
 * no bytes that commits, and that tells the agent what the atomic has changed.  It is
 * posted when the application reads the atomic's completion from RxM's CQ.  The
 * application gets the completion of that write instead.  If the connection was lost in
 * between, it gets an error: the process at the other end may have started only after
 * the caches lost what the atomic wrote.
 *
 * Only a CQ to which such atomics may complete is read through the functions here.  A
 * deferred atomic is recognised by its context, whose address lies in a range that
 * belongs to the CQ.
 */
#ifndef PMV_DEFERRED_H
#define PMV_DEFERRED_H

#include <stdbool.h>
#include <sys/queue.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

struct pmv_deferred {
	STAILQ_ENTRY(pmv_deferred) next;
	struct fid_ep *ep; /* RxM's; NULL: it is closed, or this is free */
	fi_addr_t dest;
	uint64_t addr; /* what the atomic changes */
	uint64_t key;
	size_t len;
	uint64_t losses; /* how many connections to the peer were lost before it was sent */
	void *context;   /* the application's */
	bool report;     /* the application wants a completion */
	bool executed;   /* the commit comes next */
	uint64_t flags;  /* of the completion */
	int err;         /* a positive fi_errno: the commit could not be posted */
};

/* pmv_deferred_wrap -- let one of RxM's CQs, with these attributes, be read through here */
int pmv_deferred_wrap(struct fid_cq *cq, const struct fi_cq_attr *attr);

/* pmv_deferred_is_cq -- is it such a CQ? */
bool pmv_deferred_is_cq(const struct fid *fid);

/* pmv_deferred_get -- a context for an atomic, for the caller to fill; NULL: none is left */
struct pmv_deferred *pmv_deferred_get(struct fid_cq *cq, struct fid_ep *ep);
void pmv_deferred_put(struct fid_cq *cq, struct pmv_deferred *deferred);

/* pmv_deferred_drop -- the endpoint is being closed and commits nothing any more */
void pmv_deferred_drop(struct fid_cq *cq, struct fid_ep *ep);

/* pmv_deferred_trywait -- -FI_EAGAIN: something can be done without waiting */
int pmv_deferred_trywait(struct fid_cq *cq);

#endif /* PMV_DEFERRED_H */
