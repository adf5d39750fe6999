/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_posting.h -- what this thread has RxM post
 *
 * RxM posts on FI_EP_MSG of this provider, and can't say on whose behalf.  So what RxM is given
 * is noted here, and that endpoint asks for it by pmv_rdm_posting_hooks, while RxM posts.
 *
 * RxM connects again without telling anybody, nor does it say which of its connections leads to
 * which peer.  So the endpoint remembers what was written to each peer (lost_writes.h), and a
 * connection's peer is found out when the connection is given what was just noted here.
 */
#ifndef PMV_RDM_POSTING_H
#define PMV_RDM_POSTING_H

#include "commit/hooks.h"
#include "memory/guard.h"
#include "rdm/rdm_reach.h"

struct pmv_rdm_ep;

struct pmv_rdm_posting {
	bool calls; /* RxM is to post something now */
	/* A write: */
	struct pmv_rdm_ep *ep; /* NULL: none */
	fi_addr_t dest;
	const struct fi_rma_iov *to;
	size_t changed;  /* how many bytes an atomic has changed there ... */
	uint64_t losses; /* ... and how many connections were lost before it was sent */
	bool probes;     /* nothing is written: RxM only chooses its endpoint */
	bool found;      /* it has chosen one */
	/* An atomic, which RxM sends as a message, has an answer: */
	const struct pmv_lost_writes *answerer; /* NULL: there is none */
	bool sent;                              /* to that peer, on its connection ... */
	uint64_t sent_losses;                   /* ... before which so many were lost */
	/* An atomic commits: */
	struct pmv_lost_writes *tracker; /* NULL: nothing */
	uint32_t regions[PMV_HOOKS_REGIONS];
	size_t count;
};

extern _Thread_local struct pmv_rdm_posting pmv_rdm_posting;

/* pmv_rdm_posting_tracker -- the writes to a peer; it lives as the endpoint */
struct pmv_lost_writes *pmv_rdm_posting_tracker(struct pmv_rdm_ep *rdm, fi_addr_t dest);

/* For the MSG endpoints that RxM opens. */
extern const struct pmv_hooks pmv_rdm_posting_hooks;

/* pmv_rdm_posting_enter -- RxM is to post, from these buffers; under guard until _leave */
static inline void pmv_rdm_posting_enter(const struct iovec *iov, size_t count)
{
	pmv_rdm_posting.calls = true;
	pmv_guard_enter_sending(iov, count);
}

static inline void pmv_rdm_posting_leave(void)
{
	pmv_guard_leave_sending();
	pmv_rdm_posting.calls = false;
}

/* pmv_rdm_posting_begin -- a write to `to`, of `iov`, which stay valid until _end; under guard */
static inline void pmv_rdm_posting_begin(struct pmv_rdm_ep *rdm, fi_addr_t dest,
					 const struct fi_rma_iov *to, const struct iovec *iov,
					 size_t count)
{
	pmv_rdm_posting.ep = rdm;
	pmv_rdm_posting.dest = dest;
	pmv_rdm_posting.to = to;
	pmv_rdm_posting_enter(iov, count);
}

static inline ssize_t pmv_rdm_posting_end(ssize_t ret)
{
	pmv_rdm_posting_leave();
	pmv_rdm_posting.ep = NULL;
	return ret;
}

/* pmv_rdm_posting_reach -- 0, or what a call to a peer is to return: see rdm_reach.h */
static inline ssize_t pmv_rdm_posting_reach(struct pmv_rdm_ep *rdm, fi_addr_t dest)
{
	return atomic_load_explicit(&pmv_rdm_reach_count, memory_order_relaxed)
		       ? pmv_rdm_reach_check(pmv_rdm_posting_tracker(rdm, dest))
		       : 0;
}

/*
 * pmv_rdm_posting_reached -- RxM has returned this: if it is no error, it is connected, by
 * whichever side; an error ends the wait for this peer, unless the call was wrong
 */
static inline ssize_t pmv_rdm_posting_reached(struct pmv_rdm_ep *rdm, fi_addr_t dest, ssize_t ret)
{
	if (ret != -FI_EAGAIN && ret != -FI_EINVAL &&
	    atomic_load_explicit(&pmv_rdm_reach_count, memory_order_relaxed))
		pmv_rdm_reach_answered(pmv_rdm_posting_tracker(rdm, dest), ret);
	return ret;
}

/*
 * pmv_rdm_posting_commit -- an atomic to this peer commits what was written to a region on its
 * connection.  0, or -FI_ECONNRESET after a warning: some of that was lost.
 * pmv_rdm_posting_end_atomic -- RxM has returned this; if it met such a loss only now, warn
 */
ssize_t pmv_rdm_posting_commit(struct pmv_rdm_ep *rdm, fi_addr_t dest, uint32_t region);
void pmv_rdm_posting_end_atomic(ssize_t ret);

/*
 * pmv_rdm_posting_find -- the connection to a peer, which belongs to it from now on.  RxM gives an
 * injected write of nothing to the peer's endpoint.  That does not post it, and says how many
 * connections were lost before (pmv_rdm_posting.losses).  0, -FI_EKEYREJECTED: the key is of
 * another life than the peer's, or another negative fi_errno
 */
ssize_t pmv_rdm_posting_find(struct fid_ep *fid, fi_addr_t dest, uint64_t addr, uint64_t key);

/* pmv_rdm_posting_is_connected -- 0; -FI_ECONNRESET, after a warning: not any more since `losses`
 */
ssize_t pmv_rdm_posting_is_connected(void);

#endif /* PMV_RDM_POSTING_H */
