/* SPDX-License-Identifier: BSD-2-Clause */
/* commit.h -- posting with slow: commits, fences, counted operations */
#ifndef PMV_COMMIT_H
#define PMV_COMMIT_H

#include "commit/ordering.h"
#include "commit/parts.h"

/*
 * One operation on its way to the core: begin decides what context and flags
 * it is posted with, end takes note of how that went.
 */
struct pmv_post {
	uint64_t what;
	void *context;
	uint64_t flags;
	struct pmv_commit_op *req; /* the context, if it is ours */
	bool fenced;               /* the endpoint's order_lock is held until the end */
};

/*
 * pmv_post_begin -- an operation that commits nothing.  what: FI_MSG | FI_SEND,
 * FI_RMA | FI_READ, ...; quiet: a call that never completes (fi_inject).
 * -FI_EAGAIN: not now.  After 0 pmv_post_end has to follow.
 */
ssize_t pmv_post_begin(struct pmv_ep *ep, struct pmv_post *post, uint64_t what, void *context,
		       uint64_t flags, bool quiet);
ssize_t pmv_post_end(struct pmv_ep *ep, struct pmv_post *post, ssize_t ret);

/* The key as the core knows it. */
static inline uint64_t pmv_ep_key(uint64_t key)
{
	return pmv_key_is_ours(key) ? pmv_key_core(key) : key;
}

/* How the operation itself is posted: a write or one of the atomics. */
typedef ssize_t (*pmv_post_fn)(struct pmv_ep *ep, const void *op, void *context, uint64_t flags);

struct pmv_commit {
	const struct fi_rma_iov *rma_iov; /* what is written, with the application's keys; ... */
	size_t rma_iov_count;             /* ... a message names nothing */
	uint64_t what;                    /* FI_RMA | FI_WRITE, FI_ATOMIC | ..., FI_MSG | FI_SEND */
	void *context;
	uint64_t data;
	uint64_t flags; /* the application's */
	pmv_post_fn post;
	const void *op; /* for post */
	/* A copy of op in one block, for later, with the data if they are injected; NULL: no
	 * memory. */
	void *(*copy)(const void *op, bool data_too);
	/* What a write writes; none: it is an atomic or a message. */
	const struct iovec *iov;
	size_t iov_count;
	size_t changed; /* so many bytes at rma_iov, which has none, by the target's processor */
	bool quiet;     /* of a call that never completes (fi_inject) */
	bool unheard;   /* the core does not say when it is done */
};

/*
 * pmv_commit -- post an operation and what makes it durable.  Either fails and
 * nothing of it was posted, or is accepted and completes exactly once.
 */
ssize_t pmv_commit(struct pmv_ep *ep, const struct pmv_commit *commit);

/*
 * pmv_copy_buffers -- a block for a copy of an operation: `head` bytes that the
 * caller fills, and behind them *iov, *desc (if there is one) and, with data_too,
 * what they name; these then are the copies.  NULL: no memory.
 */
void *pmv_copy_buffers(size_t head, const struct iovec **iov, void ***desc, size_t count,
		       bool data_too);

/* The steps of a commit that what is covered has in common with it: cover.c. */

/* pmv_commit_check -- 0, unless it would cover what was lost with an earlier connection */
ssize_t pmv_commit_check(struct pmv_ep *ep, const struct pmv_commit *commit);

ssize_t pmv_commit_method(struct pmv_ep *ep, const struct pmv_commit *commit,
			  enum pmv_method *method);

/* pmv_commit_request -- of a commit; NULL: none is left */
struct pmv_commit_op *pmv_commit_request(struct pmv_ep *ep, const struct pmv_commit *commit);

/* pmv_commit_give_up -- nothing that was asked for was posted: the call tells it */
void pmv_commit_give_up(struct pmv_ep *ep, struct pmv_commit_op *req);

/*
 * pmv_commit_flush -- a request that is nothing but a flush: by a READ of its
 * addr, and of the commit's regions by the agent; holds the endpoint's lock
 */
void pmv_commit_flush(struct pmv_ep *ep, struct pmv_commit_op *req, const struct pmv_commit *commit,
		      bool read);

/* An operation, and room for what it names, for later. */
struct pmv_postponed {
	struct pmv_commit commit;
	struct fi_rma_iov rma_iov[];
};

void pmv_postponed_free(struct pmv_postponed *deferred);

/* pmv_commit_deferred -- post it, now that the agent has answered; holds the endpoint's lock */
ssize_t pmv_commit_deferred(struct pmv_ep *ep, struct pmv_commit_op *req);

/* pmv_ep_is_open -- may something new be posted, or has something else to come first? */
bool pmv_ep_is_open(struct pmv_ep *ep);

#endif /* PMV_COMMIT_H */
