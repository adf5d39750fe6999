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

#include "objects/cntr.h"
#include "objects/cq.h"
#include "memory/dirty.h"
#include "agent/mailbox.h"
#include "commit/plan.h"
#include "agent/receive_tracker.h"

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
	PMV_SLOW_RECEIVES = 1 << 8,   /* a peer may commit messages: see receives.h */
	PMV_SLOW_ALL = 1 << 9,        /* FI_PMEMVERBS_COMMIT=all */
};

enum pmv_cntr_kind {
	PMV_CNTR_SEND,
	PMV_CNTR_RECV,
	PMV_CNTR_READ,
	PMV_CNTR_WRITE,
	PMV_CNTR_KINDS,
};

struct pmv_lost_writes;

struct pmv_ep {
	struct fid_ep ep_fid;
	struct pmv_engine_ep engine;
	struct pmv_domain *domain;
	struct pmv_cq *tx_cq;
	struct pmv_cq *rx_cq;
	struct pmv_cq *own_cq; /* for directions that the application bound no CQ to */
	struct pmv_eq *eq;
	struct pmv_cntr *cntr[PMV_CNTR_KINDS];
	bool prepared;        /* what it needs was bound to it */
	unsigned counting;    /* bit per kind: the counter knows the CQ */
	uint64_t tx_op_flags; /* the application's */
	uint64_t rx_op_flags;
	bool tx_selective;
	bool rx_selective;
	bool srx;        /* receives go to a shared context */
	bool rx_cq_data; /* remote CQ data has to use a receive */
	struct pmv_mailbox mailbox;
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

	/* Where its messages are received, if a peer may commit them. */
	struct pmv_receive_tracker receives;
	atomic_bool wants_agent; /* for them */

	/* For an endpoint of the RDM layer: the tracker for its peer, once it has written there. */
	struct pmv_lost_writes *peer;

	/* A place that can be read through the key: see note.h. */
	atomic_uint_fast64_t mark_key;
	uint64_t mark_addr;
	pthread_mutex_t mark_lock;

	pthread_mutex_t lock;   /* of the mailbox's sending half, and all below */
	struct pmv_op *stalled; /* requests with parts still to post, in order */
	struct pmv_op **stalled_tail;
	struct pmv_op *awaiting; /* requests that the agent was told of, in order */
	struct pmv_op **awaiting_tail;
	atomic_uint unacked;    /* how many these are */
	unsigned int deferred;  /* how many of them are to be executed afterwards */
	uint64_t riding;        /* the last message that carried data */
	struct pmv_op *covered; /* operations that the next flush covers: see cover.h */
	struct pmv_op **covered_tail;
	bool looked;                  /* somebody waits for one of them */
	atomic_bool covering;         /* one is under way */
	struct pmv_dirty dirty;       /* what the agent has not been told of */
	atomic_bool broken;           /* nothing more is to be expected of the connection */
	int64_t heard_ns;             /* when something was, while requests await acknowledgement */
	atomic_bool repeating;        /* a message is being posted once more */
	atomic_bool probing;          /* a READ is under way that fails if nothing ever will be */
	bool wrote_relaxed;           /* over a path that keeps no order */
	atomic_bool wrote_unreadable; /* ... to where nothing can be read back */
	struct pmv_stall on_tx_cq;
	struct pmv_stall on_rx_cq;
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

/* pmv_ep_prepare -- before it is enabled, which connecting does as well */
int pmv_ep_prepare(struct pmv_ep *ep);

/* pmv_ep_bury -- it is closed; it is freed some time later: see closed.c */
void pmv_ep_bury(struct pmv_ep *ep);

extern struct fi_ops pmv_ep_fi_ops;
extern struct fi_ops_cm pmv_ep_cm_ops;
extern struct fi_ops_msg pmv_msg_ops;
extern struct fi_ops_rma pmv_rma_ops;
extern struct fi_ops_atomic pmv_atomic_ops;

#endif /* PMV_EP_H */
