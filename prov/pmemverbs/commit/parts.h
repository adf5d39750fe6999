/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parts.h -- requests, and the parts of commits: posted, waited for, completed
 *
 * Each part completes to one request, errors included; the last one completes
 * the commit.  Nothing may be taken back once the write is posted, so parts
 * for which the core has no room then wait on the endpoint (`stalled`) and are
 * posted when its CQ is read.  Until then the endpoint takes nothing new.
 */
#ifndef PMV_PARTS_H
#define PMV_PARTS_H

#include "commit/hooks.h"
#include "objects/ep.h"

/* What a commit still has to post, in this order. */
enum pmv_part {
	PMV_PART_OPERATION = 1 << 0, /* the write or atomic itself, if it had to wait */
	PMV_PART_FLUSH = 1 << 1,     /* the READ */
	PMV_PART_LETTER = 1 << 2,    /* the agent's messages; done when it has acknowledged them */
	PMV_PART_NOTICE = 1 << 3,    /* the write of 0 bytes with immediate */
};

struct pmv_flush_request;
struct pmv_postponed;

struct pmv_commit_op {
	struct pmv_op op;
	struct pmv_commit_op *next; /* waiting on its endpoint */
	uint64_t data;
	uint64_t addr;                    /* in the target's region: what the flush reads */
	uint64_t key;                     /* the core's */
	unsigned unposted;                /* enum pmv_part */
	struct pmv_commit_op *cover_next; /* among those that one flush covers: see cover.h */
	struct pmv_commit_op *covers;     /* of a flush: these */
	struct pmv_flush_request *letter; /* to the agent; the request's */
	/* an operation for when the agent has answered; the request's */
	struct pmv_postponed *deferred;
	uint64_t writes;                  /* over RxM: these are committed with it, of ... */
	uint32_t regions[PMV_OP_REGIONS]; /* ... these: see peer.h */
	unsigned int num_regions;
	bool notice_later; /* the notice, too, is for then */
	bool counted;      /* by the counter for its kind */
	bool is_read;      /* counted by the endpoint while it is under way */
	bool is_probe;
	bool is_repeat;
};

static inline struct pmv_commit_op *pmv_commit_op(struct pmv_op *op)
{
	return (struct pmv_commit_op *) op;
}

/* pmv_commit_init -- of a new endpoint */
void pmv_commit_init(struct pmv_ep *ep);

/* pmv_commit_connected -- what follows from what the peer said */
void pmv_commit_connected(struct pmv_ep *ep);

/*
 * pmv_commit_abandoned -- the endpoint was closed before the operation ended; once all
 * were, pmv_commit_release
 */
void pmv_commit_abandoned(struct pmv_ep *ep, struct pmv_op *op);
void pmv_commit_release(struct pmv_ep *ep);

/* pmv_op_drop -- a poster's reference; the request may end here if the core was faster */
void pmv_op_drop(struct pmv_ep *ep, struct pmv_commit_op *req, int err);

/*
 * pmv_post_parts -- post what a request still has to post, in order.  -FI_EAGAIN:
 * the core has no room.  0: nothing is left, posted or given up after an error.
 * The caller holds a reference, so the request does not end in here, and with a
 * letter the endpoint's lock.
 */
ssize_t pmv_post_parts(struct pmv_ep *ep, struct pmv_commit_op *req);

/*
 * pmv_post_or_queue -- post a request's parts, or keep it with its reference until
 * the core and the agent take them; holds the endpoint's lock
 */
void pmv_post_or_queue(struct pmv_ep *ep, struct pmv_commit_op *req);

/* pmv_flush_at_page -- the peer's flush page: a READ of it pushes as any other */
void pmv_flush_at_page(struct pmv_ep *ep, struct pmv_commit_op *req);

/*
 * pmv_flush_ordered -- data written before the READ becomes durable with it; from
 * here on a fence waits for the READ instead of posting one.  Holds order_lock.
 */
ssize_t pmv_flush_ordered(struct pmv_ep *ep, struct pmv_commit_op *req);

/*
 * pmv_ep_push -- take acknowledgements, and post what is to be posted; returns what
 * is left.  looking: it is the application that reads the CQ.
 */
enum pmv_pending pmv_ep_push(struct pmv_ep *ep, bool looking);

/* pmv_ep_break -- the connection is lost: fail what waits for the agent */
void pmv_ep_break(struct pmv_ep *ep);

/* pmv_ep_stall -- have it pushed whenever one of its CQs is read */
void pmv_ep_stall(struct pmv_ep *ep);

/* pmv_ep_drop_pending -- give up what is not posted or acknowledged, when the endpoint is closed */
void pmv_ep_drop_pending(struct pmv_ep *ep);

#endif /* PMV_PARTS_H */
