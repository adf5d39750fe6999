/* SPDX-License-Identifier: BSD-2-Clause */
/* ep.h -- a connected endpoint of the core, or a shared receive context, wrapped */
#ifndef PMV_EP_H
#define PMV_EP_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "agent/mailbox.h"
#include "agent/receive_tracker.h"
#include "base/container.h"
#include "base/silence.h"
#include "commit/hooks.h"
#include "commit/initiator.h"
#include "engine/atomic.h"
#include "objects/cntr.h"
#include "objects/domain.h"
#include "objects/eq.h"
#include "objects/held.h"

struct pmv_cq;

struct pmv_ep {
	struct fid_ep ep_fid;
	struct pmv_domain *domain;
	LIST_ENTRY(pmv_ep) next; /* of the domain's, for their counters */
	struct pmv_engine_ep engine;
	struct pmv_mailbox mailbox;
	struct pmv_receive_tracker receives; /* of messages that the peer may commit */
	struct pmv_initiator initiator;      /* of what it posts */

	struct pmv_cq *own_cq; /* for directions that the application bound no CQ to */
	struct pmv_eq *eq;
	LIST_ENTRY(pmv_ep) next_of_eq;
	bool stopped;  /* by a close that could not free all of its own */
	bool prepared; /* what it needs was bound to it */
	struct pmv_cntr_source sources[PMV_COUNT_KINDS]; /* queue: the counter knows it */
	uint64_t tx_op_flags;                            /* the application's */
	uint64_t rx_op_flags;
	struct pmv_atomic_calls atomic;
	bool srx;                         /* receives go to a shared context, or it is one */
	struct pmv_hooks_peer connecting; /* an attempt is under way, in a domain with hooks */
	struct pmv_silence silence;       /* of the peer's machine */
	atomic_bool wants_agent;          /* for its receives */
	/* Once: it was connected, and that has ended otherwise than by closing it. */
	atomic_bool was_connected;
	atomic_bool was_disconnected;
	struct pmv_admission
		*admission; /* FI_PMEMVERBS_KEYS, while it is being connected: admit.h */
	struct pmv_ticket_client *getting; /* a ticket, for which it waits: tickets.h ... */
	union pmv_silence_addr target;     /* ... to connect to that ... */
	union pmv_silence_addr source;     /* ... from there, if it is named */
	/* Its peer was not the one that it has to be; and the application has not been told yet. */
	bool refused;
	bool refusal_untold;
	bool end_untold;               /* of its connection: it was put off */
	int refusal;                   /* what it is told: a positive fi_errno */
	struct fi_pmemverbs_peer peer; /* it has proved this key; no name: none */
	struct pmv_held held;
};

static inline struct pmv_ep *pmv_to_ep(struct fid_ep *fid)
{
	return pmv_container_of(fid, struct pmv_ep, ep_fid);
}

/* pmv_ep_cntr -- that counts operations of a kind, which there is */
static inline struct pmv_cntr *pmv_ep_cntr(const struct pmv_ep *ep, enum pmv_count_kind kind)
{
	return pmv_container_of(ep->initiator.counts[kind], struct pmv_cntr, count);
}

/* pmv_ep_queue -- where operations of a kind complete */
static inline struct pmv_queue *pmv_ep_queue(const struct pmv_ep *ep, enum pmv_count_kind kind)
{
	return kind == PMV_COUNT_RECV || kind == PMV_COUNT_REMOTE_WRITE
		       ? ep->initiator.owner.rx_queue
		       : ep->initiator.owner.tx_queue;
}

/* pmv_ep_close -- fi_close; ep_close.c */
int pmv_ep_close(struct fid *fid);

/* pmv_ep_prepare -- before it is enabled, which connecting does as well */
int pmv_ep_prepare(struct pmv_ep *ep);

/*
 * pmv_ep_may_watch -- may its peer be given up?
 * pmv_ep_watch -- it is connected, or about to be: look whether the peer's machine is there
 */
bool pmv_ep_may_watch(const struct pmv_ep *ep);
void pmv_ep_watch(struct pmv_ep *ep);

/* pmv_ep_attempt -- what has become of the attempt to connect, if one is under way */
void pmv_ep_attempt(struct pmv_ep *ep, enum pmv_attempt attempt);

/* pmv_ep_atomic -- fill in the calls for atomics; op_flags are known */
struct fi_ops_atomic *pmv_ep_atomic(struct pmv_ep *ep);

extern struct fi_ops pmv_ep_fi_ops;
extern struct fi_ops pmv_srx_fi_ops;
extern struct fi_ops_ep pmv_ep_ops;
extern struct fi_ops_cm pmv_ep_cm_ops;
extern struct fi_ops_msg pmv_msg_ops;
extern struct fi_ops_rma pmv_rma_ops;

#endif /* PMV_EP_H */
