/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * op.h -- operations that the core completes to us instead of the application
 *
 * A request is the context of everything that is posted to the core on behalf
 * of one operation: the parts of a commit, or an application's operation that
 * has to be counted.  All requests of a domain live in one reserved range of
 * addresses, so a completion's context tells by itself whether it is ours: no
 * object of the application can have an address in there.
 *
 * refs counts the parts that the core has still to complete, the parts not yet
 * posted, and the poster itself.  Whoever drops the last one ends the request:
 * then, and only then, the application hears of it, exactly once.
 */
#ifndef PMV_OP_H
#define PMV_OP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_eq.h>

struct pmv_ep;

/* An entry of a completion queue that does not come straight from the core. */
struct pmv_comp {
	struct pmv_comp *next;
	bool embedded; /* in a request, else malloc'ed */
	bool is_error;
	union {
		struct fi_cq_tagged_entry ok;
		struct {
			struct fi_cq_err_entry err;
			char err_data[16]; /* verbs: the vendor's error code */
		};
	};
};

/* What a commit still has to post, in this order. */
enum pmv_part {
	PMV_PART_OPERATION = 1 << 0, /* the write or atomic itself, if it had to wait */
	PMV_PART_FLUSH = 1 << 1,     /* the READ */
	PMV_PART_LETTER = 1 << 2,    /* the agent's messages; done when it has acknowledged them */
	PMV_PART_NOTICE = 1 << 3,    /* the write of 0 bytes with immediate */
};

/* Regions of a commit for FI_EP_RDM: the layer above passes on no more. */
#define PMV_OP_REGIONS 4

struct pmv_flush_request;
struct pmv_postponed;

struct pmv_op {
	struct pmv_comp comp;      /* first: a comp's address is its request's */
	struct pmv_op *next;       /* free, or waiting on its endpoint */
	struct pmv_ep *_Atomic ep; /* NULL: free, finished, or left by a closed endpoint */
	void *context;
	uint64_t flags; /* of the completion: FI_RMA | FI_WRITE, ... */
	uint64_t data;
	uint64_t addr; /* in the target's region: what the flush reads */
	uint64_t key;  /* the core's */
	atomic_int refs;
	atomic_int failed; /* first error, a positive fi_errno; 0: none */
	int prov_errno;
	unsigned unposted;                /* enum pmv_part */
	struct pmv_op *cover_next;        /* among those that one flush covers: see cover.h */
	struct pmv_op *covers;            /* of a flush: these */
	struct pmv_flush_request *letter; /* to the agent; the request's */
	struct pmv_postponed
		*deferred; /* an operation for when the agent has answered; the request's */
	uint64_t writes;   /* for FI_EP_RDM: it commits the writes up to this one, of ... */
	uint32_t regions[PMV_OP_REGIONS]; /* ... these: see lost_writes.h */
	unsigned int num_regions;
	bool notice_later; /* the notice, too, is for then */
	bool single;       /* one operation of the core, whose entry is handed on */
	bool counted;      /* by the counter for its kind */
	bool report;       /* the application wants a completion on success */
	bool silent;       /* ours alone: not even an error is reported */
	bool is_read;      /* counted by the endpoint while it is under way */
	bool is_probe;
	bool is_repeat;
};

struct pmv_op_pool {
	char *base;
	size_t reserved; /* bytes of address space */
	size_t used;     /* bytes ever handed out: memory behind them is touched */
	size_t taken;    /* requests that are handed out now */
	struct pmv_op *free;
	pthread_mutex_t lock;
};

int pmv_op_pool_init(struct pmv_op_pool *pool);
void pmv_op_pool_destroy(struct pmv_op_pool *pool);

/*
 * pmv_op_get -- a zeroed request with one reference, the poster's; NULL: none left.
 * pmv_op_get_own -- for what others wait for, flushes and acknowledgements: a few
 * are kept for that, or nothing would ever be given back.
 */
struct pmv_op *pmv_op_get(struct pmv_op_pool *pool, struct pmv_ep *ep);
struct pmv_op *pmv_op_get_own(struct pmv_op_pool *pool, struct pmv_ep *ep);
void pmv_op_put(struct pmv_op_pool *pool, struct pmv_op *req);

/* pmv_op_find -- a receive under way by the application's context, or NULL */
struct pmv_op *pmv_op_find(struct pmv_op_pool *pool, struct pmv_ep *ep, void *context);

/*
 * pmv_op_abandon -- take the requests of a closed endpoint from it, as a list
 * by next.  The core may still complete them, so they stay in the pool, without
 * letters and deferred operations.  No CQ of the endpoint may be read meanwhile.
 */
struct pmv_op *pmv_op_abandon(struct pmv_op_pool *pool, struct pmv_ep *ep);

/* pmv_op_owes -- does the endpoint have requests under way that nobody is to hear of? */
bool pmv_op_owes(struct pmv_op_pool *pool, const struct pmv_ep *ep);

static inline bool pmv_is_req(const struct pmv_op_pool *pool, const void *context)
{
	return (uintptr_t) context - (uintptr_t) pool->base < pool->reserved;
}

#endif /* PMV_OP_H */
