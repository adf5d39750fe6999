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

/* pmv_rdm_ep_wrap -- RxM's endpoint, with RxM's inject_size and the application's op_flags */
int pmv_rdm_ep_wrap(struct fid_ep *ep, size_t inject_size, uint64_t op_flags);

#endif /* PMV_RDM_EP_H */
