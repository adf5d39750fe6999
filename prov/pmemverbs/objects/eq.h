/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * eq.h -- an event queue of the core, wrapped
 *
 * The core's events name the core's objects and have the core's fi_info.  They are read
 * into a buffer of our own, translated, and handed to the application.  An event that the
 * application only peeked at, or had no room for, is kept until it is read.
 */
#ifndef PMV_EQ_H
#define PMV_EQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "base/container.h"
#include "objects/fabric.h"

/* More CM data than any core carries. */
#define PMV_MAX_CM_DATA 512

struct pmv_event {
	uint32_t event;
	size_t len; /* 0: none kept */
	bool own;   /* the application has written it */
	union {
		struct fi_eq_entry entry;
		struct fi_eq_cm_entry cm;
		char room[sizeof(struct fi_eq_cm_entry) + PMV_MAX_CM_DATA];
	};
};

struct pmv_eq {
	struct fid_eq eq_fid;
	struct fid_eq *core_fid;
	struct pmv_fabric *fabric;
	pthread_mutex_t lock;
	struct pmv_event kept;
	int core_fd;             /* that the core's queue has; -1: it is waited for in the core */
	atomic_bool warned;      /* that no descriptor is left */
	LIST_HEAD(, pmv_ep) eps; /* bound to the queue, and not closed yet */
	unsigned int refusals;   /* of their peers, which the application has to be told of */
	unsigned int ends;       /* of their connections, the same: they were put off */
	LIST_HEAD(, pmv_pep) listeners; /* bound to the queue, whose connections are sockets */
	int64_t next_look_ms;           /* for those who say nothing (strangers.h) */
	int64_t next_count_ms;          /* of the descriptors, by pmv_strangers_fill */
	bool full;                      /* what that has found: none is left */
	atomic_bool has_tickets;        /* for one of them, or there will be none (tickets.h) */
};

static inline struct pmv_eq *pmv_to_eq(struct fid_eq *fid)
{
	return pmv_container_of(fid, struct pmv_eq, eq_fid);
}

/* A passive endpoint of the core, wrapped; its connection requests are events. */
struct pmv_pep {
	struct fid_pep pep_fid;
	struct fid_pep *core_fid;
	struct pmv_fabric *fabric;
	struct pmv_eq *eq;
	struct fi_info *info;   /* what the application asked for, for its connection requests */
	uint64_t listens_since; /* by the clock of requests: auth/admission.h */
	struct pmv_ticket_server *tickets; /* NULL: it gives out none (tickets.h) */
	struct fid_domain *rejecting;      /* the core's, for what is rejected (admit.c) */
	bool listens;                      /* in the queue's list */
	LIST_ENTRY(pmv_pep) next_of_eq;
};

static inline struct pmv_pep *pmv_to_pep(struct fid *fid)
{
	return pmv_container_of(fid, struct pmv_pep, pep_fid.fid);
}

extern struct fi_ops pmv_eq_fi_ops;
extern struct fi_ops pmv_pep_fi_ops;

/*
 * pmv_eq_read -- fi_eq_read
 * pmv_eq_sread -- fi_eq_sread
 * pmv_eq_enter_core -- before its queue is read: under guard, until pmv_guard_leave
 */
ssize_t pmv_eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags);
ssize_t pmv_eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
		     uint64_t flags);
void pmv_eq_enter_core(void);

/* pmv_eq_trywait -- 0: the core's descriptor may be waited on; -FI_EAGAIN: there is an event */
int pmv_eq_trywait(struct pmv_eq *eq);

/*
 * pmv_eq_wake -- whoever sleeps in the core's queue looks again: by an event that nobody is given.
 * The core's queue was opened with FI_WRITE, by us (tickets.h) or by the layer above.
 */
void pmv_eq_wake(struct pmv_eq *eq);

/*
 * pmv_eq_refuse -- the endpoint's peer is not the one that it has to be: in the place of an event,
 * there is an error to be read, a positive fi_errno.  With the queue's lock.
 */
void pmv_eq_refuse(struct pmv_ep *ep, int err);

/* pmv_eq_join -- an endpoint was bound to the queue */
void pmv_eq_join(struct pmv_eq *eq, struct pmv_ep *ep);

/*
 * pmv_eq_close -- close the core's endpoint behind one of ours; no event of it
 * is kept, or being translated, afterwards.  eq: where it is bound, or NULL.
 */
int pmv_eq_close(struct pmv_eq *eq, struct fid *fid);

/* pmv_status_reply -- was the event of a core a question?  Then it was answered, and is gone. */
bool pmv_status_reply(struct pmv_event *event);

#endif /* PMV_EQ_H */
