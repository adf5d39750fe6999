/* SPDX-License-Identifier: BSD-2-Clause */
/* ep.h -- endpoints, and shared receives */
#ifndef PMR_EP_H
#define PMR_EP_H

#include <pthread.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "cq.h"
#include "eq.h"

struct pmr_request;

struct pmr_srx {
	struct fid_ep ep_fid;
	struct pmr_domain *domain;
	struct ibv_srq *srq;
	struct pmr_queue *receives;
	size_t iov_limit;
	atomic_uint users;
};

struct pmr_ep {
	struct fid_ep ep_fid;
	struct pmr_domain *domain;
	struct pmr_eq *eq;
	struct pmr_cq *tx_cq;
	struct pmr_cq *rx_cq;
	struct pmr_srx *srx;
	struct fi_info *info;
	struct rdma_cm_id *id;
	struct ibv_qp *qp; /* NULL: it is not enabled */
	/* The same, if it can FLUSH; and how many the peer keeps at a time, once that is known. */
	struct ibv_qp_ex *extended;
	atomic_uint depth;
	pthread_mutex_t send_lock;
	pthread_mutex_t recv_lock;
	struct pmr_queue *sends;
	struct pmr_queue *receives; /* the shared ones, with srx */
	/*
	 * Requests with FI_MORE, which go with the next one: post.h.  They have slots and room.
	 * `listed`: the endpoint is in tx_cq->batches.  `stuck`: the device has refused some of
	 * them for good, and closing tells of them.  The send_lock guards all of it.
	 */
	struct pmr_request *batch;
	unsigned batched;
	bool listed;
	bool stuck;
	LIST_ENTRY(pmr_ep) next_batch;
	size_t inject_size;
	bool always;          /* each request completes, whatever its flags */
	bool plain_wanted;    /* a request without flags completes */
	uint64_t plain_flags; /* of calls without flags */
	bool promised_rx;
	struct pmr_cm_owner owner;
};

static inline struct pmr_ep *pmr_to_ep(struct fid *fid)
{
	return pmv_container_of(fid, struct pmr_ep, ep_fid.fid);
}

int pmr_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int pmr_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
		 void *context);

/* pmr_ep_drop_queues -- and the room for them; the queue pair is gone, or was not made */
void pmr_ep_drop_queues(struct pmr_ep *ep);

/* pmr_ep_enable -- from here on it can receive, and send once it is connected */
int pmr_ep_enable(struct pmr_ep *ep);

/* pmr_ep_establish -- one that is held begins: 0, also if it is not, or a negative fi_errno */
int pmr_ep_establish(struct pmr_ep *ep);

/* pmr_ep_depth -- so many READs, atomics and FLUSHes are kept by the peer; 0: it is not connected
 */
unsigned pmr_ep_depth(struct pmr_ep *ep);

/* pmr_ep_resolve -- the way to the peer, if it is not known: 0 or a negative fi_errno */
int pmr_ep_resolve(struct pmr_ep *ep, const void *addr, size_t len);

extern struct fi_ops pmr_ep_fi_ops;         /* ep.c: an endpoint of ours has them */
extern struct fi_ops_cm pmr_cm_ops;         /* cm.c */
extern struct fi_ops_msg pmr_msg_ops;       /* msg.c */
extern struct fi_ops_rma pmr_rma_ops;       /* rma.c */
extern struct fi_ops_atomic pmr_atomic_ops; /* atomic.c */

/* atomic.c; flags: FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC */
int pmr_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
		     struct fi_atomic_attr *attr, uint64_t flags);

#endif /* PMR_EP_H */
