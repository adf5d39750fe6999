/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deferred.h -- atomics of FI_EP_RDM that complete when the target's agent says so
 *
 * RxM completes an atomic when the target's processor has executed it.  Where it is
 * to be durable, and the caches there are not, more has to follow: a write of no
 * bytes that commits, and tells the agent what the atomic has changed.  That is
 * posted when the application reads the atomic's completion from RxM's CQ, and the
 * application is handed the completion of what was posted instead.  If the connection
 * was lost meanwhile, that is an error: whoever is at the other end now may have
 * started after the caches there were.
 *
 * Only a CQ that such atomics may complete to is read through the functions here.
 * What is held is known by its context: its address lies in a range of the CQ's own.
 */
#ifndef PMV_DEFERRED_H
#define PMV_DEFERRED_H

#include <stdbool.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_endpoint.h>

struct pmv_deferred {
	struct pmv_deferred *next;
	struct fid_ep *ep; /* RxM's; NULL: it is closed, or nothing is held here */
	fi_addr_t dest;
	uint64_t addr; /* what the atomic changes */
	uint64_t key;
	size_t len;
	uint64_t losses; /* of connections to the peer, before the one that it was sent on */
	void *context;   /* the application's */
	bool report;     /* it wants a completion */
	bool executed;   /* what commits it comes next */
	uint64_t flags;  /* of the completion */
	int err;         /* a positive fi_errno: what commits it could not be posted */
};

/* pmv_deferred_wrap -- have one of RxM's CQs, with these attributes, read through here */
int pmv_deferred_wrap(struct fid_cq *cq, const struct fi_cq_attr *attr);

/* pmv_deferred_is_cq -- is it one? */
bool pmv_deferred_is_cq(const struct fid *fid);

/* pmv_deferred_get -- to be filled, and the atomic's context; NULL: none is left */
struct pmv_deferred *pmv_deferred_get(struct fid_cq *cq, struct fid_ep *ep);
void pmv_deferred_put(struct fid_cq *cq, struct pmv_deferred *held);

/* pmv_deferred_drop -- the endpoint is being closed, and commits nothing any more */
void pmv_deferred_drop(struct fid_cq *cq, struct fid_ep *ep);

/* pmv_deferred_trywait -- -FI_EAGAIN: something can be done without waiting */
int pmv_deferred_trywait(struct fid_cq *cq);

#endif /* PMV_DEFERRED_H */
