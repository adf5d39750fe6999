/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.h -- completion queues
 *
 * What the device's queue has is taken out of it into a list of slots (queue.h) and read from
 * there.  The device's queue can't overrun: each request that was posted, signalled or not, has
 * room in it, as each may fail, and without room none is posted.  Only shared receives have theirs
 * from when the first endpoint with them is enabled on, as nobody knows where they will complete.
 *
 * Requests to send that are not signalled keep their room until a later one completes, which may be
 * never.  So there are few enough of them: as soon as half of what no receive may need is taken,
 * all are signalled.  And there is always room for a list more, which receives leave.
 *
 * The queue grows when an endpoint is enabled, so that all receives of all endpoints find room; or,
 * if the device has no queue that long, as far as it can.
 */
#ifndef PMR_CQ_H
#define PMR_CQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "domain.h"
#include "pmemrdma_post.h"
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
	LIST_HEAD(, pmr_ep)
	batches;             /* endpoints with requests that wait for the next one: post.h */
	unsigned unacked;    /* events */
	bool told;           /* that not all receives have room */
	bool lost;           /* the device is gone, and what it had told can't be read any more */
	int num_shared;      /* receives that have their room for good */
	atomic_int promised; /* receives that endpoints may post; those of shared queues once */
	atomic_int kept;     /* room that receives leave, where some endpoint sends */
	atomic_int size;
	atomic_int receives; /* that have room, posted or shared */
	atomic_int room;
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

/* pmr_cq_fits -- is there room for all that is promised, and for a list of requests to send? */
static inline bool pmr_cq_fits(struct pmr_cq *cq)
{
	return atomic_load(&cq->promised) + atomic_load(&cq->kept) <= atomic_load(&cq->size);
}

/*
 * pmr_cq_take -- room for requests to send; false: there is none.  Receives that are promised
 * keep theirs if all of them fit; else they leave some (pmr_cq_take_receives).
 */
static inline bool pmr_cq_take(struct pmr_cq *cq, int count)
{
	int least = count;

	if (pmr_cq_fits(cq))
		least += atomic_load(&cq->promised) - atomic_load(&cq->receives);
	if (atomic_fetch_sub(&cq->room, count) >= least)
		return true;
	atomic_fetch_add(&cq->room, count);
	return false;
}

static inline void pmr_cq_give(struct pmr_cq *cq, int count)
{
	atomic_fetch_add(&cq->room, count);
}

/* pmr_cq_take_receives -- room for them beside a list of requests to send; false: there is none */
static inline bool pmr_cq_take_receives(struct pmr_cq *cq, int count)
{
	int kept = pmr_cq_fits(cq) ? 0 : atomic_load(&cq->kept);
	int room = atomic_load(&cq->room);

	do {
		if (room < count + kept)
			return false;
	} while (!atomic_compare_exchange_weak(&cq->room, &room, room - count));
	atomic_fetch_add(&cq->receives, count);
	return true;
}

static inline void pmr_cq_give_receives(struct pmr_cq *cq, int count)
{
	atomic_fetch_sub(&cq->receives, count);
	pmr_cq_give(cq, count);
}

/* pmr_cq_spare -- room that no receive may need; less than nothing, if more are promised than fit
 */
static inline int pmr_cq_spare(struct pmr_cq *cq)
{
	return atomic_load_explicit(&cq->room, memory_order_relaxed) +
	       atomic_load_explicit(&cq->receives, memory_order_relaxed) -
	       atomic_load_explicit(&cq->promised, memory_order_relaxed);
}

/* pmr_cq_is_low -- have all requests to send to be signalled? */
static inline bool pmr_cq_is_low(struct pmr_cq *cq)
{
	int spare = pmr_cq_spare(cq);
	int most = atomic_load_explicit(&cq->size, memory_order_relaxed) -
		   atomic_load_explicit(&cq->promised, memory_order_relaxed);

	return spare < PMEMRDMA_MAX_LIST || spare <= most / 2;
}

/*
 * pmr_cq_promise -- an endpoint will post to these receives, and requests to send, if there is
 * `sends`: 0 or a negative fi_errno.  pmr_cq_unpromise: it will no more.
 */
int pmr_cq_promise(struct pmr_cq *cq, const struct pmr_queue *receives, unsigned sends);
void pmr_cq_unpromise(struct pmr_cq *cq, const struct pmr_queue *receives);

/* pmr_cq_drain -- all that the device's queue has into the list: 0 or a negative fi_errno */
int pmr_cq_drain(struct pmr_cq *cq);

/*
 * pmr_cq_cancel -- the device is gone, and with it the requests of this queue that have not
 * completed: who wants to hear of one hears that it was canceled
 */
void pmr_cq_cancel(struct pmr_cq *cq, struct pmr_queue *queue, bool sends);

#endif /* PMR_CQ_H */
