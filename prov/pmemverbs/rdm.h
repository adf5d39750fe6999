/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm.h -- FI_EP_RDM: libfabric's RxM (ofi_rxm) over our own FI_EP_MSG
 *
 * RxM opens this provider's MSG endpoints, one for each peer, and hands flags,
 * keys and registrations on to them.  So the application is given RxM's own
 * objects; of their tables of functions those are replaced that RxM would answer
 * otherwise than was promised: see rdm.c.
 */
#ifndef PMV_RDM_H
#define PMV_RDM_H

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include "fabric.h"
#include "peer.h"

/* pmv_rdm_tune -- once, before there are endpoints of RxM */
void pmv_rdm_tune(void);

/* pmv_rdm_ask -- what is offered as FI_EP_RDM; hints are an application's, complete */
struct fi_info *pmv_rdm_ask(uint32_t version, const char *node, const char *service, uint64_t flags,
			    const struct fi_info *hints);

/*
 * pmv_rdm_calls_rxm -- is it RxM that calls, because it was called from here?
 * pmv_rdm_wants_pmem -- and on behalf of somebody who wants FI_RMA_PMEM?
 */
bool pmv_rdm_calls_rxm(void);
bool pmv_rdm_wants_pmem(void);

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

/*
 * pmv_rdm_may_commit_held -- on the connection that the peer has now?  -FI_ECONNRESET
 * after a warning: no
 */
ssize_t pmv_rdm_may_commit_held(struct pmv_peer *peer);

/*
 * pmv_rdm_changed -- is it the commit of an atomic?  So many bytes there are to become
 * durable, then: the target's processor has changed them.
 */
size_t pmv_rdm_changed(const struct fi_rma_iov *to);

/* pmv_rdm_commit_held -- post it; see held.h */
struct pmv_held;
ssize_t pmv_rdm_commit_held(struct pmv_held *held);

/* pmv_rdm_holds_atomic -- does one to memory with this key complete when the agent says so? */
bool pmv_rdm_holds_atomic(uint64_t key, uint64_t flags);

/* pmv_rdm_may_commit -- like pmv_peer_may_commit; -FI_ECONNRESET after a warning: no */
ssize_t pmv_rdm_may_commit(struct pmv_peer *peer, const uint32_t *keys, size_t count, bool all);

/* pmv_rdm_may_send -- RxM's endpoint is given a message, perhaps an atomic that commits */
ssize_t pmv_rdm_may_send(const struct pmv_peer *peer);

/* What a fabric does for FI_EP_RDM. */
int pmv_rdm_domain_open(struct pmv_fabric *fabric, struct fi_info *info,
			struct fid_domain **domain_fid, void *context);
int pmv_rdm_wait_open(struct pmv_fabric *fabric, struct fi_wait_attr *attr,
		      struct fid_wait **waitset);
int pmv_rdm_trywait(struct pmv_fabric *fabric, struct fid *fid);
int pmv_rdm_fabric_close(struct pmv_fabric *fabric);

/*
 * pmv_rdm_check_atomic -- RxM has the target's processor execute atomics, out of a
 * message.  May one to memory with this key be said to be durable when the answer
 * is there?  NULL, or a sentence that says why not.
 */
const char *pmv_rdm_check_atomic(uint64_t key, uint64_t flags);

#endif /* PMV_RDM_H */
