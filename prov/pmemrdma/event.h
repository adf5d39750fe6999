/* SPDX-License-Identifier: BSD-2-Clause */
/* event.h -- what the connection manager tells, as libfabric's events */
#ifndef PMR_EVENT_H
#define PMR_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rdma/fi_eq.h>
#include <rdma/rdma_cma.h>

#include "cm_data.h"

/* An endpoint, active or passive, as the context of its rdma_cm_id. */
struct pmr_cm_owner {
	struct fid *fid;
	const struct fi_info *info;   /* of a passive one */
	struct rdma_conn_param param; /* of an active one: what to connect with */
	struct pmr_cm_data data;      /* its private data */
	bool holds;                   /* pmr_ep_establish will be called for it (establish.c) ... */
	struct ibv_qp *held;          /* ... and its queue pair waits for that, without librdmacm */
};

/* A request for a connection, until an endpoint was opened for it. */
struct pmr_connreq {
	struct fid handle; /* FI_CLASS_CONNREQ */
	struct rdma_cm_id *id;
};

struct pmr_event {
	STAILQ_ENTRY(pmr_event) next;
	uint32_t event;
	int err;              /* it is an error: FI_E..., and */
	int prov_errno;       /* a negative errno, or the reason of a rejection */
	struct fid *fid;      /* whose it is; NULL: the application wrote it */
	struct fi_info *info; /* of a request for a connection */
	size_t len;           /* of what follows: private data, or what the application wrote */
	unsigned char room[256];
};

/*
 * pmr_event_take -- the channel's next event: 1; 0: one that concerns nobody else; -FI_EAGAIN:
 * there is none, or another negative fi_errno
 */
int pmr_event_take(struct rdma_event_channel *channel, struct pmr_event *event);

/* pmr_event_set_rnr_timer -- of a connection that is there */
void pmr_event_set_rnr_timer(struct rdma_cm_id *id);

/* pmr_event_drop -- free what a request for a connection that nobody has read has */
void pmr_event_drop(struct pmr_event *event);

/* pmr_connreq_reject -- with these private data, and it is gone: 0 or a negative fi_errno */
int pmr_connreq_reject(struct pmr_connreq *request, const struct pmr_cm_data *data, int len);

#endif /* PMR_EVENT_H */
