/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_track.h -- operations of RxM's that complete to one of ours: rdm_cq.h says which, and why */
#ifndef PMV_RDM_TRACK_H
#define PMV_RDM_TRACK_H

#include "rdm/rdm_cq.h"
#include "rdm/rdm_ep.h"

/*
 * pmv_rdm_track -- an operation with these flags and this context is about to be posted; 0: what
 * its context becomes.  reports: the application is told of it, if the flags say so.  -FI_EAGAIN:
 * something has to end first, a negative fi_errno: it must not be posted
 * pmv_rdm_untrack -- it was not posted
 */
ssize_t pmv_rdm_track(struct fid_ep *fid, fi_addr_t dest, enum pmv_rdm_kind kind, uint64_t flags,
		      void *context, bool reports, struct pmv_rdm_op **op);
void pmv_rdm_untrack(struct pmv_rdm_op *op);

/*
 * pmv_rdm_track_calls -- all calls that post, but atomics, of an endpoint that has FI_FENCE; what
 * they were is what they become
 */
void pmv_rdm_track_calls(struct pmv_rdm_ep *rdm);

#endif /* PMV_RDM_TRACK_H */
