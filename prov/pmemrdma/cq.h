/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.h -- completion queues
 *
 * What the device's queue has is taken out of it into a list of slots (queue.h) and read from
 * there.  The device's queue can't overrun: each request that was posted, signalled or not, has
 * room in it, as each may fail.  Receives have theirs from when their endpoint is enabled on,
 * requests to send from when they are posted.  As soon as half of the room for these is taken,
 * all of them are signalled: so those that are not can't keep all of it for themselves.
 */
#ifndef PMR_CQ_H
#define PMR_CQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "domain.h"
#include "queue.h"
#include "wait.h"

/* A queue of shared receives, which has room for all of them once. */
struct pmr_shared {
	SLIST_ENTRY(pmr_shared) next;
	const struct pmr_queue *queue;
	unsigned users;
};

struct pmr_cq {
	struct fid_cq cq_fid;
	struct pmr_domain *domain;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* NULL: nobody waits */
	struct pmr_wait wait;
	enum fi_wait_obj wait_obj;
	enum fi_cq_format format;
	size_t entry_size;
	pthread_mutex_t lock; /* of all below, but atomics */
	STAILQ_HEAD(, pmr_slot) ready;
	SLIST_HEAD(, pmr_shared) shared;
	unsigned unacked; /* events */
	bool lost;        /* the device is gone, and what it had told can't be read any more */
	int size;
	int reserved; /* for receives */
	atomic_int room;
	atomic_int low; /* at so much room all is signalled */
	atomic_uint users;
};

static inline struct pmr_cq *pmr_to_cq(struct fid *fid)
{
	return pmv_container_of(fid, struct pmr_cq, cq_fid.fid);
}

int pmr_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		void *context);

/* pmr_cq_trywait -- 0: who sleeps on its descriptor will be woken; -FI_EAGAIN: there is something
 */
int pmr_cq_trywait(struct pmr_cq *cq);

/* pmr_cq_take -- room for requests to send; false: there is none */
static inline bool pmr_cq_take(struct pmr_cq *cq, int count)
{
	if (atomic_fetch_sub(&cq->room, count) >= count)
		return true;
	atomic_fetch_add(&cq->room, count);
	return false;
}

static inline void pmr_cq_give(struct pmr_cq *cq, int count)
{
	atomic_fetch_add(&cq->room, count);
}

static inline bool pmr_cq_is_low(struct pmr_cq *cq)
{
	return atomic_load_explicit(&cq->room, memory_order_relaxed) <=
	       atomic_load_explicit(&cq->low, memory_order_relaxed);
}

/*
 * pmr_cq_reserve -- room for all receives of a queue, and for a list of requests to send, if there
 * is `sends`: 0 or a negative fi_errno.  pmr_cq_unreserve gives it back.
 */
int pmr_cq_reserve(struct pmr_cq *cq, const struct pmr_queue *receives, unsigned sends);
void pmr_cq_unreserve(struct pmr_cq *cq, const struct pmr_queue *receives);

/* pmr_cq_drain -- all that the device's queue has into the list: 0 or a negative fi_errno */
int pmr_cq_drain(struct pmr_cq *cq);

/*
 * pmr_cq_cancel -- the device is gone, and with it the requests of this queue that have not
 * completed: who wants to hear of one hears that it was canceled
 */
void pmr_cq_cancel(struct pmr_cq *cq, struct pmr_queue *queue, bool sends);

#endif /* PMR_CQ_H */
