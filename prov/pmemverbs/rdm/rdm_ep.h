/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_ep.h -- endpoints of FI_EP_RDM: RxM's, with some of their functions replaced */
#ifndef PMV_RDM_EP_H
#define PMV_RDM_EP_H

#include <stdbool.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "base/container.h"
#include "commit/lost_writes.h"
#include "engine/atomic.h"
#include "progress/op.h"
#include "rdm/rdm_fence.h"

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
	bool ends_atomics;           /* that RxM forgets: rdm_forgotten.h */
	bool counts;                 /* a counter would count a deferred atomic */
	struct pmv_op_owner tracked; /* its pool is of tx_cq; or NULL: there are none */
	struct pmv_op_list dropped;  /* when it is closed */
	struct fid_cq *tx_cq;
	struct fid_av *av;
	struct pmv_lost_writes_list lost_writes;
	bool fences; /* it has FI_FENCE; else nothing below is used */
	struct pmv_rdm_fence fence;
	/* What its calls become (rdm_track.h): the calls of one that has no FI_FENCE. */
	struct fi_ops_msg plain_msg;
	struct fi_ops_tagged plain_tagged;
	struct fi_ops_rma plain_rma;
};

#define PMV_RDM_OF(fid, member) pmv_container_of((fid)->member, struct pmv_rdm_ep, member)

/*
 * pmv_rdm_ep_wrap -- RxM's endpoint, with RxM's inject_size, the application's op_flags, and
 * perhaps FI_FENCE; pmem: its atomics may commit
 */
int pmv_rdm_ep_wrap(struct fid_ep *ep, size_t inject_size, uint64_t op_flags, bool fences,
		    bool pmem);

#endif /* PMV_RDM_EP_H */
