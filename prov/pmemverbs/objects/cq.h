/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.h -- a completion queue of the core, wrapped
 *
 * The application's entries are read from the core straight into its buffer;
 * those of requests are taken out or rewritten there.  Entries that come into
 * being elsewhere wait in the ready list and go first.
 *
 * Locks, in the order in which they nest: lock, stall_lock, an endpoint's
 * lock, ready_lock.
 */
#ifndef PMV_CQ_H
#define PMV_CQ_H

#include "objects/domain.h"

struct pmv_ep;

/* What commits of an endpoint wait for. */
enum pmv_pending {
	PMV_PENDING_NONE,
	PMV_PENDING_FLUSH, /* a flush, whose completion comes from the core */
	PMV_PENDING_ACKS,  /* acknowledgements */
	PMV_PENDING_POSTS, /* room for parts that are still to be posted */
};

/* An endpoint's place on the list of a CQ. */
struct pmv_stall {
	struct pmv_ep *ep;
	struct pmv_stall *next;
	bool listed;
};

struct pmv_cq {
	struct fid_cq cq_fid;
	struct fid_cq *core_fid;
	struct pmv_domain *domain;
	enum fi_cq_format format;
	size_t entry_size;
	size_t size; /* what the application asked for */
	enum fi_wait_obj wait_obj;
	enum fi_cq_wait_cond wait_cond;
	int epoll_fd; /* the core's descriptor and wake_fd; -1: no wait object */
	int wake_fd;
	int core_fd;
	pthread_mutex_t lock; /* held while entries are taken from the core */
	pthread_mutex_t ready_lock;
	struct pmv_comp *ready;
	struct pmv_comp **ready_tail;
	atomic_size_t num_ready;
	pthread_mutex_t stall_lock;
	struct pmv_stall *stalled; /* endpoints that wait for something */
	atomic_int pending;        /* enum pmv_pending: the most of any of them */
	atomic_bool armed;         /* somebody may sleep on the descriptor */
	atomic_bool watched;       /* the agent's thread wakes who waits for acknowledgements */
	bool pinned;         /* by the agent, under its lock, which uses it without the lock */
	bool edges;          /* the agent's thread hears of its events */
	atomic_uint reads;   /* by the application; written under the lock ... */
	unsigned seen_reads; /* ... and so many by the time the thread fell asleep */
	struct pmv_cq *next_pinned;
	atomic_bool room_wanted; /* the agent waits for the application to read */
	struct pmv_comp *spare;  /* for the core's next entry */
	atomic_uint signals;     /* fi_cq_signal calls so far ... */
	atomic_uint heeded;      /* ... and those that some fi_cq_sread has returned for */
	atomic_int sleepers;
};

static inline struct pmv_cq *pmv_to_cq(struct fid_cq *fid)
{
	return pmv_container_of(fid, struct pmv_cq, cq_fid);
}

extern struct fi_ops pmv_cq_fi_ops;

/* pmv_cq_entry_size -- 0: there is no such format */
size_t pmv_cq_entry_size(enum fi_cq_format format);

/*
 * pmv_cq_has_room -- for a notice; pmv_cq_is_full -- nothing more is taken from the
 * core.  If not, or if so, the agent is kicked when the application reads.
 */
bool pmv_cq_has_room(struct pmv_cq *cq);
bool pmv_cq_is_full(struct pmv_cq *cq);

/* pmv_cq_add -- put an entry into the ready list and wake who waits */
void pmv_cq_add(struct pmv_cq *cq, struct pmv_comp *comp);

/* pmv_cq_wake -- have whoever waits look again */
void pmv_cq_wake(struct pmv_cq *cq);

/* pmv_cq_progress -- take what the core has, and post what is still to be posted */
void pmv_cq_progress(struct pmv_cq *cq);
/* pmv_cq_look -- the same when the application wants to know of completions */
void pmv_cq_look(struct pmv_cq *cq);

/* pmv_cq_stall -- have an endpoint's parts posted, and its acknowledgements taken */
void pmv_cq_stall(struct pmv_cq *cq, struct pmv_stall *stall);
void pmv_cq_unstall(struct pmv_cq *cq, struct pmv_stall *stall);

/* pmv_cq_trywait -- 0: the descriptor may be waited on; -FI_EAGAIN: there is work */
int pmv_cq_trywait(struct pmv_cq *cq);
/* pmv_cq_trywait_core -- the same of the core's queue and descriptor alone */
int pmv_cq_trywait_core(struct pmv_cq *cq);

#endif /* PMV_CQ_H */
