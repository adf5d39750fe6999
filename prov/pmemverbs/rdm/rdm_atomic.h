/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_atomic.h -- atomics of FI_EP_RDM
 *
 * RxM sends a message; the target's processor executes the atomic and answers.  Then the
 * result is in the target's caches, and so is everything that came before on the
 * connection.  If caches persist, all of it is durable.  If they do not, the agent makes
 * it durable with FI_PMEMVERBS_COMMIT=all (see rdm_cq.h); else such commits are refused.
 */
#ifndef PMV_RDM_ATOMIC_H
#define PMV_RDM_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "rdm/rdm_ep.h"

/*
 * pmv_rdm_atomic_check -- is one to memory with this key durable when it has answered?  NULL, or
 * a sentence that says why not
 */
const char *pmv_rdm_atomic_check(uint64_t key, uint64_t flags);

/* pmv_rdm_atomic_is_deferred -- must one to memory with this key wait for the agent to complete? */
bool pmv_rdm_atomic_is_deferred(uint64_t key, uint64_t flags);

/* pmv_rdm_atomic_replace -- in an endpoint of RxM's that has atomics */
void pmv_rdm_atomic_replace(struct fid_ep *ep, struct pmv_rdm_ep *rdm);

#endif /* PMV_RDM_ATOMIC_H */
