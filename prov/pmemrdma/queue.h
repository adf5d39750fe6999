/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.h -- work requests that were posted, until what became of them was read
 *
 * A request has a slot, from when it is posted until the application has read its completion; so
 * there are never more requests than a work queue has room for, and a completion needs no memory
 * of its own while it waits to be read.
 *
 * Not each request of a send queue is signalled.  They complete in the order in which they were
 * posted, so a completion gives back the slots of those before it, too.  One that fails is
 * told of by the device whether it is signalled or not.
 *
 * The owner's lock guards posting, the lock of the completion queue everything else.  A queue of
 * shared receives (pmr_queue_open with shared) has its own lock: its slots come back in any order,
 * from several completion queues.
 */
#ifndef PMR_QUEUE_H
#define PMR_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <infiniband/verbs.h>

struct pmr_queue;

struct pmr_slot {
	STAILQ_ENTRY(pmr_slot) next; /* where completions wait to be read */
	struct pmr_slot *next_free;  /* of a shared queue */
	struct pmr_queue *queue;
	uint64_t seq; /* how many were posted before it */
	void *context;
	uint64_t flags;  /* of its completion */
	bool wanted;     /* its completion is told if it succeeds, too */
	bool ended;      /* its completion came from the device */
	uint8_t kept;    /* so many that the peer keeps until then: struct pmr_queue */
	uint8_t flushes; /* of those */
	enum ibv_wc_status status;
	size_t len;
	uint64_t data; /* immediate */
};

struct pmr_queue {
	/* The owner's, and one for each completion that waits to be read. */
	atomic_uint refs;
	unsigned size;
	uint64_t posted;
	atomic_uint_fast64_t done; /* slots of all before it are free */
	uint64_t reaped;           /* the device is through with all before it */
	unsigned unsignalled;      /* requests behind the last signalled one */
	/*
	 * Of a queue pair that can FLUSH: READs, atomics, ATOMIC WRITEs and FLUSHes under way.  A
	 * peer keeps as many as was agreed on (pmr_ep_depth), to answer them again if the answer
	 * gets lost. Devices bound READs and atomics themselves, but not all of them FLUSHes; and
	 * Soft-RoCE never answers one again that it does not keep any more.
	 */
	atomic_uint kept;
	atomic_uint flushes;
	unsigned flush_waits; /* so many were refused, of a list with one: others leave them room */
	bool shared;
	pthread_mutex_t lock; /* of a shared one */
	struct pmr_slot *free;
	struct pmr_slot slots[];
};

/* pmr_queue_open -- NULL: no memory */
struct pmr_queue *pmr_queue_open(unsigned size, bool shared);

/* pmr_queue_put -- one of its refs; with the last one it is gone */
void pmr_queue_put(struct pmr_queue *queue);

/* pmr_queue_room -- for so many more requests; not of a shared one */
static inline unsigned pmr_queue_room(const struct pmr_queue *queue)
{
	return queue->size - (unsigned) (queue->posted -
					 atomic_load_explicit(&queue->done, memory_order_acquire));
}

/* pmr_queue_slot -- the n-th one from here; it is taken with pmr_queue_posted */
static inline struct pmr_slot *pmr_queue_slot(struct pmr_queue *queue, unsigned n)
{
	struct pmr_slot *slot = &queue->slots[(queue->posted + n) % queue->size];

	slot->seq = queue->posted + n;
	slot->ended = false;
	return slot;
}

static inline void pmr_queue_posted(struct pmr_queue *queue, unsigned count)
{
	queue->posted += count;
}

/*
 * pmr_queue_must_signal -- shall the next request be signalled though nobody wants to hear of it?
 * A quarter of the queue may wait for that.
 */
static inline bool pmr_queue_must_signal(const struct pmr_queue *queue, unsigned before)
{
	return (queue->unsignalled + before + 1) * 4 >= queue->size;
}

/* pmr_queue_take_shared -- NULL: no room; pmr_queue_return_shared -- it was not posted, or is over
 */
struct pmr_slot *pmr_queue_take_shared(struct pmr_queue *queue);
void pmr_queue_return_shared(struct pmr_slot *slot);

/*
 * pmr_queue_reap -- the device is through with it, and with all before it; returns how many
 * requests that are
 */
unsigned pmr_queue_reap(struct pmr_slot *slot);

/* pmr_queue_hold -- its completion waits to be read */
void pmr_queue_hold(struct pmr_slot *slot);

/* pmr_queue_release -- it was read */
void pmr_queue_release(struct pmr_slot *slot);

/* pmr_queue_forget -- nobody wants to read of it */
void pmr_queue_forget(struct pmr_slot *slot);

#endif /* PMR_QUEUE_H */
