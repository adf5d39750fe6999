/* SPDX-License-Identifier: BSD-2-Clause */
/* eq.h -- event queues: a channel of the connection manager, and what applications write */
#ifndef PMR_EQ_H
#define PMR_EQ_H

#include <pthread.h>
#include <stdatomic.h>

#include "event.h"
#include "fabric.h"
#include "wait.h"

struct pmr_eq {
	struct fid_eq eq_fid;
	struct pmr_fabric *fabric;
	struct rdma_event_channel *channel;
	struct pmr_wait wait;
	enum fi_wait_obj wait_obj;
	/*
	 * Of all below, and of the channel: while it is held no event is under way, so an endpoint
	 * can go.
	 */
	pthread_mutex_t lock;
	STAILQ_HEAD(, pmr_event) events; /* not yet read */
	struct pmr_event *spare;         /* for the next one of the channel */
	unsigned char err_data[sizeof(((struct pmr_event *) 0)->room)]; /* of the last error read */
	atomic_uint users;
};

static inline struct pmr_eq *pmr_to_eq(struct fid *fid)
{
	return pmv_container_of(fid, struct pmr_eq, eq_fid.fid);
}

int pmr_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		void *context);

/* pmr_eq_trywait -- 0: who sleeps on its descriptor will be woken; -FI_EAGAIN: there is something
 */
int pmr_eq_trywait(struct pmr_eq *eq);

/* pmr_eq_adopt -- the id's events go to this queue from now on: 0 or a negative fi_errno */
int pmr_eq_adopt(struct pmr_eq *eq, struct rdma_cm_id *id);

/* pmr_eq_forget -- an endpoint's events, which nobody has read.  Holds the lock. */
void pmr_eq_forget(struct pmr_eq *eq, const struct fid *fid);

#endif /* PMR_EQ_H */
