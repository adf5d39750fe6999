/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_calls.h -- calls over FI_EP_RDM that are RxM's, under guard
 *
 * When an application reads a counter, RxM executes what has arrived, as it does when a queue is
 * read (rdm_cq.h).  Poll sets read both by the same calls.  RxM does so in calls that post, too, if
 * there is no room.  A page of the memory that it touches may be gone: memory/guard.h.
 */
#ifndef PMV_RDM_CALLS_H
#define PMV_RDM_CALLS_H

#include <stdbool.h>

#include <rdma/fi_eq.h>

struct pmv_rdm_ep;

/* pmv_rdm_calls_guard -- replace the calls of an endpoint for which nothing else is done */
void pmv_rdm_calls_guard(struct pmv_rdm_ep *rdm);

/* pmv_rdm_calls_guard_cntr -- those of a counter that RxM has just opened; 0 or -FI_ENOMEM */
int pmv_rdm_calls_guard_cntr(struct fid_cntr *cntr);

/* pmv_rdm_calls_is_foreign -- is it a queue or a counter, but none of FI_EP_RDM? */
bool pmv_rdm_calls_is_foreign(const struct fid *fid);

#endif /* PMV_RDM_CALLS_H */
