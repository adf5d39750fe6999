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

#include "fabric.h"
#include "peer.h"
#include "table.h"

struct pmv_held;

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
	struct pmv_peers peers;
};

#define PMV_RDM_OF(fid, member) pmv_container_of((fid)->member, struct pmv_rdm_ep, member)

/*
 * pmv_rdm_ep_wrap -- have this endpoint of RxM's do what was promised; inject_size is
 * RxM's, op_flags are the application's
 */
int pmv_rdm_ep_wrap(struct fid_ep *ep, size_t inject_size, uint64_t op_flags);

/* pmv_rdm_peer_at -- as long as the endpoint */
struct pmv_peer *pmv_rdm_peer_at(struct pmv_rdm_ep *rdm, fi_addr_t dest);

/*
 * pmv_rdm_posts -- RxM's endpoint is given this write: is it the one that the
 * application is posting?  RxM may do other things as well meanwhile.
 * pmv_rdm_peer -- then: to whom; as long as RxM's endpoint
 */
bool pmv_rdm_posts(const struct fi_rma_iov *to);
struct pmv_peer *pmv_rdm_peer(void);

/*
 * pmv_rdm_looks -- is it a write of nothing, which is to go no further: to find out
 * which endpoint of RxM's is the peer's?
 * pmv_rdm_found -- this one, with the peer that pmv_rdm_peer has told
 */
bool pmv_rdm_looks(const struct fi_rma_iov *to);
void pmv_rdm_found(struct pmv_peer *peer);

/* pmv_rdm_find_connection -- that the atomic will be sent on: fills in how many were lost */
ssize_t pmv_rdm_find_connection(struct fid_ep *fid, struct pmv_held *held);

/* pmv_rdm_commit_held -- post what commits an atomic that was executed; see held.h */
ssize_t pmv_rdm_commit_held(struct pmv_held *held);

/*
 * pmv_rdm_changed -- is it the commit of an atomic?  So many bytes there are to become
 * durable, then: the target's processor has changed them.
 */
size_t pmv_rdm_changed(const struct fi_rma_iov *to);

/*
 * pmv_rdm_may_commit_held -- on the connection that the peer has now?  -FI_ECONNRESET
 * after a warning: no
 */
ssize_t pmv_rdm_may_commit_held(struct pmv_peer *peer);

/* pmv_rdm_may_commit -- like pmv_peer_may_commit; -FI_ECONNRESET after a warning: no */
ssize_t pmv_rdm_may_commit(struct pmv_peer *peer, const uint32_t *keys, size_t count, bool all);

#endif /* PMV_RDM_EP_H */
