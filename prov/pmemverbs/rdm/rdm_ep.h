/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_ep.h -- endpoints of FI_EP_RDM: RxM's, with some of their functions replaced
 *
 * RxM's connection to a peer is an FI_EP_MSG of this provider.  That endpoint asks
 * through pmv_rdm_ep_hooks what RxM does not tell it: whether a request that RxM posts
 * is what the application is posting.
 */
#ifndef PMV_RDM_EP_H
#define PMV_RDM_EP_H

#include <stdbool.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "base/container.h"
#include "commit/hooks.h"
#include "commit/lost_writes.h"
#include "progress/op.h"
#include "engine/atomic.h"

struct pmv_deferred;

struct pmv_rdm_ep {
	PMV_TABLE(fi_ops) ops;
	PMV_TABLE(fi_ops_msg) msg;
	PMV_TABLE(fi_ops_tagged) tagged;
	PMV_TABLE(fi_ops_rma) rma;
	struct pmv_atomic_calls atomic;
	const struct fi_ops *rxm_ops;
	const struct fi_ops_msg *rxm_msg;
	const struct fi_ops_tagged *rxm_tagged;
	const struct fi_ops_rma *rxm_rma;
	const struct fi_ops_atomic *rxm_atomic;
	size_t inject_size;
	uint64_t tx_op_flags; /* the application's */
	bool selective;
	bool counts;                  /* a counter would count a deferred atomic */
	struct pmv_op_owner deferred; /* its pool is of tx_cq; or NULL: it defers none */
	struct fid_cq *tx_cq;
	struct fid_av *av;
	struct pmv_lost_writes_list lost_writes;
};

#define PMV_RDM_OF(fid, member) pmv_container_of((fid)->member, struct pmv_rdm_ep, member)

/*
 * pmv_rdm_ep_wrap -- replace functions of an endpoint of RxM's; inject_size is RxM's,
 * op_flags are the application's
 */
int pmv_rdm_ep_wrap(struct fid_ep *ep, size_t inject_size, uint64_t op_flags);

/* pmv_rdm_ep_tracker -- the writes to this peer; kept as long as the endpoint */
struct pmv_lost_writes *pmv_rdm_ep_tracker(struct pmv_rdm_ep *rdm, fi_addr_t dest);

/*
 * pmv_rdm_ep_find_connection -- find out on which connection the atomic will be sent: fills
 * in how many connections were lost before
 */
ssize_t pmv_rdm_ep_find_connection(struct fid_ep *fid, struct pmv_deferred *deferred);

/* pmv_rdm_ep_commit -- post the commit of an atomic that was executed */
ssize_t pmv_rdm_ep_commit(struct pmv_deferred *deferred);

/* For the MSG endpoints that RxM opens; called while RxM posts. */
extern const struct pmv_hooks pmv_rdm_ep_hooks;

/* pmv_rdm_ep_may_commit -- 0, or -FI_ECONNRESET after a warning: see pmv_lost_writes_may_commit */
ssize_t pmv_rdm_ep_may_commit(struct pmv_lost_writes *tracker, const uint32_t *keys, size_t count,
			      bool all);

/* rdm_atomic.c: atomics, which RxM sends as messages */

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

#endif /* PMV_RDM_EP_H */
