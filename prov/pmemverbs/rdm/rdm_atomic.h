/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_atomic.h -- atomics of FI_EP_RDM, which RxM sends as messages */
#ifndef PMV_RDM_ATOMIC_H
#define PMV_RDM_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_endpoint.h>

struct pmv_lost_writes;
struct pmv_rdm_ep;

/*
 * pmv_rdm_atomic_check -- the target's processor executes RxM's atomics.  Is one to memory
 * with this key durable when it has answered?  NULL, or a sentence that says why not.
 */
const char *pmv_rdm_atomic_check(uint64_t key, uint64_t flags);

/* pmv_rdm_atomic_is_deferred -- must one to memory with this key wait for the agent to complete? */
bool pmv_rdm_atomic_is_deferred(uint64_t key, uint64_t flags);

/* pmv_rdm_atomic_may_send -- RxM's endpoint is given a message, perhaps an atomic that commits */
ssize_t pmv_rdm_atomic_may_send(const struct pmv_lost_writes *tracker);

/* pmv_rdm_atomic_replace -- in an endpoint of RxM's that has atomics */
void pmv_rdm_atomic_replace(struct fid_ep *ep, struct pmv_rdm_ep *rdm);

#endif /* PMV_RDM_ATOMIC_H */
