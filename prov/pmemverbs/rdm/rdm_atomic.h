/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_atomic.h -- atomics of FI_EP_RDM, which RxM makes messages of */
#ifndef PMV_RDM_ATOMIC_H
#define PMV_RDM_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_endpoint.h>

#include "commit/lost_writes.h"

struct pmv_rdm_ep;

/*
 * pmv_rdm_check_atomic -- RxM has the target's processor execute atomics, out of a
 * message.  May one to memory with this key be said to be durable when the answer
 * is there?  NULL, or a sentence that says why not.
 */
const char *pmv_rdm_check_atomic(uint64_t key, uint64_t flags);

/* pmv_rdm_holds_atomic -- does one to memory with this key complete when the agent says so? */
bool pmv_rdm_holds_atomic(uint64_t key, uint64_t flags);

/* pmv_rdm_may_send -- RxM's endpoint is given a message, perhaps an atomic that commits */
ssize_t pmv_rdm_may_send(const struct pmv_lost_writes *peer);

/* pmv_rdm_replace_atomics -- in RxM's endpoint, which has some */
void pmv_rdm_replace_atomics(struct fid_ep *ep, struct pmv_rdm_ep *rdm);

#endif /* PMV_RDM_ATOMIC_H */
