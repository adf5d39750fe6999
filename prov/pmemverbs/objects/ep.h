/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ep.h -- a connected endpoint of the core, wrapped
 */
#ifndef PMV_EP_H
#define PMV_EP_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "agent/mailbox.h"
#include "agent/receive_tracker.h"
#include "commit/plan.h"
#include "engine/engine.h"
#include "memory/dirty.h"
#include "objects/domain.h"
#include "progress/count.h"
#include "progress/op.h"
#include "progress/queue.h"

/* Why a call can't just be handed to the core. */
enum pmv_slow {
	PMV_SLOW_CLOSED = 1 << 0,   /* parts of commits have to be posted, or executed, first */
	PMV_SLOW_COUNT_TX = 1 << 1, /* a counter is bound to what it posts */
	PMV_SLOW_COUNT_RX = 1 << 2,
	PMV_SLOW_FENCE_NEXT = 1 << 3, /* a fenced read passed: the next request carries its fence */
	PMV_SLOW_READS = 1 << 4,      /* the core has no fence: reads are counted here */
	PMV_SLOW_COMMIT = 1 << 5,     /* op_flags have FI_COMMIT_COMPLETE */
	/*
	 * The peer can commit messages: what uses up its receives is counted.  Where
	 * only a flush orders messages, that some were sent is remembered.
	 */
	PMV_SLOW_SENDS = 1 << 6,      /* messages ... */
	PMV_SLOW_IMMEDIATES = 1 << 7, /* ... and immediate data */
	PMV_SLOW_ALL = 1 << 8,        /* FI_PMEMVERBS_COMMIT=all */
};

struct pmv_commit_op;
struct pmv_cq;
struct pmv_eq;
struct pmv_lost_writes;

struct pmv_ep {
	struct fid_ep ep_fid;
	struct pmv_domain *domain;
	struct pmv_engine_ep engine;
	struct pmv_mailbox mailbox;
	/* Where its messages are received, if a peer may commit them. */
	struct pmv_receive_tracker receives;

	/* Of the application's calls. */
	struct pmv_cq *own_cq; /* for directions that the application bound no CQ to */
	struct pmv_eq *eq;
	bool prepared;     /* what it needs was bound to it */
	unsigned counting; /* bit per kind: the counter knows the queue */
	uint64_t rx_op_flags;
	bool srx;                /* receives go to a shared context */
	atomic_bool wants_agent; /* for its receives */

	/* What it commits, and how its operations end. */
	struct pmv_op_owner owner;
	struct pmv_count *counts[PMV_COUNT_KINDS];
	const struct pmv_queue *unread; /* a queue of our own, whose entries nobody is told of */
	uint64_t tx_op_flags;           /* the application's */
	bool tx_selective;
	bool rx_selective;
	atomic_uint slow; /* enum pmv_slow */

	/* Of fenced operations, and of what takes one of the flags: see note.h. */
	pthread_mutex_t order_lock;
	/* What was posted and may still be volatile or under way: see note.h. */
	atomic_int posting_agent;
	atomic_int posting_flush;
	atomic_int posting_ordered;
	atomic_bool wrote_agent;
	atomic_bool wrote_flush;
	atomic_bool wrote_ordered;
	atomic_bool fence_due;
	atomic_int reads;

	/* How what it sends becomes durable, by itself. */
	enum pmv_method message_method;
	/* Of what uses up the peer's receives, from before it is posted until it is counted. */
	pthread_mutex_t send_lock;
	atomic_uint_fast64_t sends;
	atomic_uint_fast64_t told_sends; /* what the agent was told of; written under the lock */

	/* Of RxM's: who is at the other end, once it has written there; see peer.h. */
	struct pmv_lost_writes *peer;

	/* A place that can be read through the key: see note.h. */
	atomic_uint_fast64_t mark_key;
	uint64_t mark_addr;
	pthread_mutex_t mark_lock;

	pthread_mutex_t lock;          /* of the mailbox's sending half, and all below */
	struct pmv_commit_op *stalled; /* requests with parts still to post, in order */
	struct pmv_commit_op **stalled_tail;
	struct pmv_commit_op *awaiting; /* requests that the agent was told of, in order */
	struct pmv_commit_op **awaiting_tail;
	unsigned int deferred;         /* how many of them are to be executed afterwards */
	uint64_t riding;               /* the last message that carried data */
	struct pmv_commit_op *covered; /* operations that the next flush covers: see cover.h */
	struct pmv_commit_op **covered_tail;
	bool looked;                  /* somebody waits for one of them */
	atomic_bool covering;         /* one is under way */
	struct pmv_dirty dirty;       /* what the agent has not been told of */
	atomic_bool broken;           /* nothing more is to be expected of the connection */
	int64_t heard_ns;             /* when something was, while requests await acknowledgement */
	atomic_bool repeating;        /* a message is being posted once more */
	atomic_bool probing;          /* a READ is under way that fails if nothing ever will be */
	bool wrote_relaxed;           /* over a path that keeps no order */
	atomic_bool wrote_unreadable; /* ... to where nothing can be read back */
	struct pmv_waiter on_tx;
	struct pmv_waiter on_rx;
};

static inline struct pmv_ep *pmv_to_ep(struct fid_ep *fid)
{
	return pmv_container_of(fid, struct pmv_ep, ep_fid);
}

/* pmv_ep_direct -- can the call go to the core as it is? */
static inline bool pmv_ep_direct(struct pmv_ep *ep, unsigned slow)
{
	return !(atomic_load_explicit(&ep->slow, memory_order_relaxed) & slow);
}

/*
 * pmv_count_begin -- of an operation that uses up one of the peer's receives,
 * where the slow is taken.  pmv_count_end follows when it was or was not posted,
 * with what the former returned.
 */
static inline bool pmv_count_begin(struct pmv_ep *ep, unsigned slow)
{
	if (pmv_ep_direct(ep, slow))
		return false;
	pthread_mutex_lock(&ep->send_lock);
	if (ep->message_method != PMV_METHOD_AGENT)
		atomic_fetch_add(&ep->posting_ordered, 1);
	return true;
}

static inline ssize_t pmv_count_end(struct pmv_ep *ep, bool counted, ssize_t ret)
{
	if (!counted)
		return ret;
	if (ep->message_method != PMV_METHOD_AGENT) {
		if (!ret)
			atomic_store(&ep->wrote_ordered, true);
		atomic_fetch_sub(&ep->posting_ordered, 1);
	} else if (!ret) {
		atomic_fetch_add(&ep->sends, 1);
	}
	pthread_mutex_unlock(&ep->send_lock);
	return ret;
}

/* pmv_ep_prepare -- before the endpoint is enabled; connecting enables it, too */
int pmv_ep_prepare(struct pmv_ep *ep);

static inline size_t pmv_iov_len(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

extern struct fi_ops pmv_ep_fi_ops;
extern struct fi_ops_cm pmv_ep_cm_ops;
extern struct fi_ops_msg pmv_msg_ops;
extern struct fi_ops_rma pmv_rma_ops;
extern struct fi_ops_atomic pmv_atomic_ops;

#endif /* PMV_EP_H */
