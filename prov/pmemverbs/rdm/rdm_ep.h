/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_ep.h -- endpoints of FI_EP_RDM: RxM's, some of whose functions are replaced
 *
 * RxM's endpoint for a peer is one of our own FI_EP_MSG.  It is told here what RxM
 * does not tell it: whether what it is given is what the application is posting.
 */
#ifndef PMV_RDM_EP_H
#define PMV_RDM_EP_H

#include <stdbool.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "objects/fabric.h"
#include "commit/hooks.h"
#include "commit/lost_writes.h"
#include "rdm/table.h"

struct pmv_deferred;

struct pmv_rdm_ep {
	TABLE(fi_ops) ops;
	TABLE(fi_ops_msg) msg;
	TABLE(fi_ops_tagged) tagged;
	TABLE(fi_ops_rma) rma;
	TABLE(fi_ops_atomic) atomic;
	const struct fi_ops *rxm_ops;
	const struct fi_ops_msg *rxm_msg;
	const struct fi_ops_tagged *rxm_tagged;
	const struct fi_ops_rma *rxm_rma;
	const struct fi_ops_atomic *rxm_atomic;
	size_t inject_size;
	uint64_t tx_op_flags; /* the application's */
	bool selective;
	bool counts; /* a counter would count an atomic that is held */
	struct fid_cq *tx_cq;
	struct fid_av *av;
	struct pmv_lost_writes_list peers;
};

#define PMV_RDM_OF(fid, member) pmv_container_of((fid)->member, struct pmv_rdm_ep, member)

/*
 * pmv_rdm_ep_wrap -- have this endpoint of RxM's do what was promised; inject_size is
 * RxM's, op_flags are the application's
 */
int pmv_rdm_ep_wrap(struct fid_ep *ep, size_t inject_size, uint64_t op_flags);

/* pmv_rdm_peer_at -- as long as the endpoint */
struct pmv_lost_writes *pmv_rdm_peer_at(struct pmv_rdm_ep *rdm, fi_addr_t dest);

/* pmv_rdm_find_connection -- that the atomic will be sent on: fills in how many were lost */
ssize_t pmv_rdm_find_connection(struct fid_ep *fid, struct pmv_deferred *held);

/* pmv_rdm_commit_held -- post what commits an atomic that was executed; see held.h */
ssize_t pmv_rdm_commit_held(struct pmv_deferred *held);

/* What connected endpoints ask, when RxM has opened them; called while RxM posts. */
extern const struct pmv_hooks pmv_rdm_ep_hooks;

/* pmv_rdm_may_commit -- like pmv_lost_writes_may_commit; -FI_ECONNRESET after a warning: no */
ssize_t pmv_rdm_may_commit(struct pmv_lost_writes *peer, const uint32_t *keys, size_t count,
			   bool all);

#endif /* PMV_RDM_EP_H */
