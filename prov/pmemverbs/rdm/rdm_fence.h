/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_fence.h -- what is under way to each peer of an endpoint that has FI_FENCE
 *
 * RxM fences writes and reads, as it hands the flag on to a connection of this provider.  It drops
 * the flag of all else.  So an endpoint that was opened with the capability counts its operations
 * by peer, from before they are posted until RxM has completed them, and a fenced one is posted
 * when there are none.  Writes and reads need not wait for one another: the connection does.
 *
 * RxM never completes some of what it has sent on a connection that is lost.  So such operations
 * are counted apart.  The next fenced one is refused in their place, once.
 *
 * While a fenced operation waits, no others are begun, or a stream of them would make it wait for
 * ever.  But what is waited for may need another one to end: the peer's application may receive
 * only after that.  So this ends after a while, and begins again after another one.
 *
 * All functions do their own locking.
 */
#ifndef PMV_RDM_FENCE_H
#define PMV_RDM_FENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "commit/lost_writes.h"

enum pmv_rdm_kind {
	PMV_RDM_RMA,   /* a write or a read */
	PMV_RDM_OTHER, /* a message or an atomic */
	PMV_RDM_KINDS,
};

struct pmv_rdm_peer;

struct pmv_rdm_fence {
	pthread_mutex_t lock;
	SLIST_HEAD(, pmv_rdm_peer) peers; /* they live as the endpoint */
	int64_t first_ms; /* so long one that waits keeps others from being begun, and then not */
};

/* An operation that is counted. */
struct pmv_rdm_ticket {
	struct pmv_rdm_fence *fence;
	struct pmv_rdm_peer *peer; /* NULL: it is not counted, or not any more */
	uint64_t losses;           /* how many connections were lost before it */
	enum pmv_rdm_kind kind;
};

void pmv_rdm_fence_init(struct pmv_rdm_fence *fence);
void pmv_rdm_fence_destroy(struct pmv_rdm_fence *fence);

/*
 * pmv_rdm_fence_pass -- may a fenced operation of this kind be posted?  0, -FI_EAGAIN: not yet,
 * -FI_ECONNRESET: how earlier ones have ended is not known; -FI_ENOMEM
 */
ssize_t pmv_rdm_fence_pass(struct pmv_rdm_fence *fence, struct pmv_lost_writes *tracker,
			   enum pmv_rdm_kind kind);

/*
 * pmv_rdm_fence_begin -- an operation is about to be posted; 0, -FI_ENOMEM, or -FI_EAGAIN: a fenced
 * one waits, which goes first (fenced: this is it)
 * pmv_rdm_fence_end -- it has ended, or was not posted; more than once does no harm
 */
ssize_t pmv_rdm_fence_begin(struct pmv_rdm_fence *fence, struct pmv_lost_writes *tracker,
			    enum pmv_rdm_kind kind, bool fenced, struct pmv_rdm_ticket *ticket);
void pmv_rdm_fence_end(struct pmv_rdm_ticket *ticket);

/* pmv_rdm_fence_lose -- of none that is under way the end will be told here */
void pmv_rdm_fence_lose(struct pmv_rdm_fence *fence);

/*
 * pmv_rdm_fence_knows, pmv_rdm_fence_found -- is the peer's connection known to belong to it?  Only
 * then its loss is counted (rdm_posting.h).
 */
bool pmv_rdm_fence_knows(struct pmv_rdm_fence *fence, struct pmv_lost_writes *tracker);
void pmv_rdm_fence_found(struct pmv_rdm_fence *fence, struct pmv_lost_writes *tracker);

#endif /* PMV_RDM_FENCE_H */
