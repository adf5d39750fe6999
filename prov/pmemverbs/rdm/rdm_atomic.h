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

#include "rdm/rdm_ep.h"

/* What becomes of an atomic. */
enum pmv_rdm_atomic_way {
	PMV_RDM_ATOMIC_PLAIN,
	PMV_RDM_ATOMIC_COMMITS,  /* it is durable when it has answered */
	PMV_RDM_ATOMIC_DEFERRED, /* it completes when the agent has made it durable */
	PMV_RDM_ATOMIC_REFUSED,  /* why: a sentence */
};

/* pmv_rdm_atomic_way -- to memory with this key */
enum pmv_rdm_atomic_way pmv_rdm_atomic_way(uint64_t key, uint64_t flags, const char **why);

/* pmv_rdm_atomic_replace -- in an endpoint of RxM's that has atomics */
void pmv_rdm_atomic_replace(struct fid_ep *ep, struct pmv_rdm_ep *rdm);

#endif /* PMV_RDM_ATOMIC_H */
