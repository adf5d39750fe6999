/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * op.h -- operations that the core completes to us instead of the application
 *
 * An operation is the context of every work request that is posted to the core on its
 * behalf.  All operations of a domain lie in one reserved range of addresses, so a
 * completion's context tells by itself whether it is one of ours.
 *
 * `pending` counts its work requests in flight, and one more while whoever carries the
 * operation out is not done with it.  When it falls to 0 the operation ends: its owner
 * hears of it (`ended`), and after that the application, once, if it is to be told.
 */
#ifndef PMV_OP_H
#define PMV_OP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "memory/guard.h"

struct pmv_queue;
struct pmv_op;

/*
 * An entry of a completion queue that does not come straight from the core.  Those of successes
 * are allocated without what is behind their format (pmv_comp_success): many may wait.
 */
struct pmv_comp {
	STAILQ_ENTRY(pmv_comp) next;
	struct pmv_unread *unread; /* of the connection that it is counted for; or NULL */
	bool embedded;             /* in an operation, else malloc'ed */
	bool is_error;
	union {
		struct fi_cq_tagged_entry ok;
		struct {
			struct fi_cq_err_entry err;
			char err_data[16]; /* verbs: the vendor's error code */
		};
	};
};

/* Who is told how an operation ends. */
enum pmv_audience {
	PMV_TELL_NOBODY, /* it is ours, or was injected, or nobody reads the queue */
	PMV_TELL_ERROR,  /* the application, of an error only (selective completion) */
	PMV_TELL_ALL,    /* the application */
};

/* ... and of what, in one word: one instruction copies it, or looks at all of it. */
struct pmv_told {
	uint16_t audience; /* enum pmv_audience */
	bool single;       /* one work request, whose entry the application is handed */
	bool ordinary;     /* the owner need not hear that it has succeeded */
};

/*
 * An endpoint's free operations: a stack, which takes no lock.  Its head has the number of the
 * first one, or 0, and above that a count of those that were taken: a first one that was taken
 * and put back meanwhile makes another head.  It belongs to the pool, and outlives the endpoint.
 */
struct pmv_op_stack {
	atomic_uint_fast64_t head;
	SLIST_ENTRY(pmv_op_stack) next; /* of the pool's, while no endpoint has it */
	SLIST_ENTRY(pmv_op_stack) next_of_all;
};

#define PMV_OP_NUMBERS ((UINT64_C(1) << 20) - 1) /* the bits of a head that are a number */

/* Who has operations carried out: an endpoint. */
struct pmv_op_owner {
	struct pmv_op_pool *pool;
	struct pmv_op_stack *stack;
	struct pmv_queue *tx_queue; /* where they complete; NULL: there is none */
	struct pmv_queue *rx_queue;
	unsigned int reads; /* pmv_guard_reads when it was opened */
	/* Its connection was ended here, as the peer's machine is silent; or NULL: nobody looks. */
	const atomic_bool *given_up;
	/* operations of others end in its tx_queue, too: each of its own has to say whose it is */
	void (*shares)(struct pmv_op_owner *owner);
	/* All acknowledgements, which nobody waits for: from the first one until it is closed. */
	struct pmv_op *acks;
	/* one has ended: op->error says how; before the application is told */
	void (*ended)(struct pmv_op_owner *owner, struct pmv_op *op);
	/* one has its first error; or NULL: nobody wants to know */
	void (*failed)(struct pmv_op_owner *owner, struct pmv_op *op);
	/* a work request that was not a receive has failed: nothing more is to be expected */
	void (*lost)(struct pmv_op_owner *owner);
};

struct pmv_op {
	struct pmv_comp comp; /* first: a comp's address is its operation's */
	/* These stay while it is free, and so does comp.embedded. */
	struct pmv_op_stack *home;   /* where it is put; NULL: where any endpoint finds it */
	uint32_t number;             /* in the pool, from 1 on */
	uint32_t lives;              /* for whoever counts those that were given up early */
	atomic_uint_fast32_t behind; /* on the stack: the next one's number */
	/* And these are set anew. */
	STAILQ_ENTRY(pmv_op) next;
	struct pmv_op_owner *_Atomic owner; /* NULL: free, ended, or left by a closed endpoint */
	void *context;                      /* the application's */
	uint64_t flags;                     /* of the completion: FI_RMA | FI_WRITE, ... */
	atomic_int pending;
	atomic_int error; /* the first one, a positive fi_errno; 0: none */
	int prov_errno;
	struct pmv_told told;
	/*
	 * One WRITE of it has an entry only if it fails, and `pending` does not count it.  The
	 * READ behind it, which is counted, then fails after it.  If that READ is given up before,
	 * its share is left to the WRITE's entry, and the flag is cleared: until that entry comes,
	 * or the endpoint is closed, the operation is not put back.
	 */
	atomic_bool quiet_write;
	/* The same of all requests of a list but the last one, whose entry ends the operation. */
	atomic_bool quiet_list;
};

STAILQ_HEAD(pmv_op_list, pmv_op);

struct pmv_op_pool {
	char *base;
	size_t size;         /* of each, with what is behind the operation itself */
	size_t reserved;     /* bytes of address space */
	size_t used;         /* bytes ever handed out: memory behind them is touched */
	atomic_size_t taken; /* operations that are not free here: in use, or on a stack */
	struct pmv_op_list free;
	SLIST_HEAD(, pmv_op_stack) stacks; /* all of them ... */
	SLIST_HEAD(, pmv_op_stack) unused; /* ... and those of endpoints that are closed */
	pthread_mutex_t lock;
};

/* pmv_op_pool_init -- size: of a structure that begins with a struct pmv_op; 0 or -FI_ENOMEM */
int pmv_op_pool_init(struct pmv_op_pool *pool, size_t size);
void pmv_op_pool_destroy(struct pmv_op_pool *pool);

/*
 * How many operations may be under way if one more is handed out.  A pool is only address
 * space: memory is used for as many as ever were under way at once.  That is enough for a
 * few hundred endpoints with full send queues.  Some are kept for operations of our own for
 * which others wait (flushes, acknowledgements), or nothing would ever be given back.
 */
enum pmv_op_most {
	PMV_OP_OWN = 1 << 16,
	PMV_OP_APPLICATION = PMV_OP_OWN - 1024,
};

/*
 * pmv_op_owner_open, pmv_op_owner_close -- an endpoint of that pool; 0 or -FI_ENOMEM.  Its
 * operations may be put back later.
 */
int pmv_op_owner_open(struct pmv_op_owner *owner, struct pmv_op_pool *pool);
void pmv_op_owner_close(struct pmv_op_owner *owner);

/* Free operations: on a stack, or for all endpoints. */

/* pmv_op_pop -- false: there is none */
static inline bool pmv_op_pop(const struct pmv_op_pool *pool, struct pmv_op_stack *stack,
			      struct pmv_op **op)
{
	uint_fast64_t head = atomic_load(&stack->head), number, behind;

	do {
		number = head & PMV_OP_NUMBERS;
		if (!number)
			return false;
		*op = (struct pmv_op *) (pool->base + (number - 1) * pool->size);
		/* If another thread has taken it meanwhile this is wrong, and the head another one.
		 */
		behind = atomic_load_explicit(&(*op)->behind, memory_order_relaxed);
		behind += head - number + PMV_OP_NUMBERS + 1;
	} while (!atomic_compare_exchange_weak(&stack->head, &head, behind));
	return true;
}

static inline void pmv_op_push(struct pmv_op_stack *stack, struct pmv_op *op)
{
	uint_fast64_t head = atomic_load(&stack->head), behind;

	do {
		behind = head & PMV_OP_NUMBERS;
		atomic_store_explicit(&op->behind, behind, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak(&stack->head, &head, head - behind + op->number));
}

struct pmv_op *pmv_op_take_free(struct pmv_op_owner *owner, enum pmv_op_most most);
void pmv_op_put_free(struct pmv_op_pool *pool, struct pmv_op *op);

/*
 * pmv_op_get -- all zeros but for its owner, and pending: 1.  NULL: none left, try again.
 * pmv_op_take -- the same, but with `told', and the caller sets all other members, what is behind
 * the operation itself, and at last its owner with pmv_op_set_owner
 * pmv_op_put -- nobody needs it any more
 */
struct pmv_op *pmv_op_get(struct pmv_op_owner *owner, enum pmv_op_most most);

static inline struct pmv_op *pmv_op_take(struct pmv_op_owner *owner, enum pmv_op_most most,
					 const struct pmv_told *told)
{
	struct pmv_op *op;

	if (!pmv_op_pop(owner->pool, owner->stack, &op) && !(op = pmv_op_take_free(owner, most)))
		return NULL;
	op->told = *told;
	atomic_store_explicit(&op->pending, 1, memory_order_relaxed);
	atomic_store_explicit(&op->error, 0, memory_order_relaxed);
	return op;
}

static inline void pmv_op_set_owner(struct pmv_op *op, struct pmv_op_owner *owner)
{
	atomic_store_explicit(&op->owner, owner, memory_order_release);
}

/* pmv_op_put_home -- false: it has none, and is to be put where any endpoint finds it */
static inline bool pmv_op_put_home(struct pmv_op *op)
{
	pmv_op_set_owner(op, NULL);
	if (!op->home)
		return false;
	pmv_op_push(op->home, op);
	return true;
}

static inline void pmv_op_put(struct pmv_op_pool *pool, struct pmv_op *op)
{
	if (!pmv_op_put_home(op))
		pmv_op_put_free(pool, op);
}

/*
 * pmv_op_done -- one of the pending has come to its end; err: 0 or a positive fi_errno.  True:
 * the application is to be told op->comp.  An operation that has ended untold is gone.
 */
bool pmv_op_done(struct pmv_op_pool *pool, struct pmv_op *op, int err, int prov_errno);

/* pmv_op_finish -- the same, for whoever has counted down pending to 0 */
bool pmv_op_finish(struct pmv_op_pool *pool, struct pmv_op *op);

/*
 * The same for a success, in two steps, without op->comp:
 * pmv_op_is_last -- one of the pending has come to its end; true: it was the last one
 * pmv_op_is_ordinary -- that is all there is: nobody but the application has to be told anything,
 * and it is told pmv_op_success.  Else call pmv_op_end.
 * pmv_op_end -- true: the application is to be told op->comp, if is_error, or pmv_op_success
 */
static inline bool pmv_op_is_last(struct pmv_op *op)
{
	return atomic_fetch_sub(&op->pending, 1) == 1;
}

static inline struct fi_cq_tagged_entry pmv_op_success(const struct pmv_op *op)
{
	return (struct fi_cq_tagged_entry){.op_context = op->context, .flags = op->flags};
}

bool pmv_op_end(struct pmv_op_pool *pool, struct pmv_op *op);

static inline bool pmv_op_is_ordinary(const struct pmv_op *op)
{
	const struct pmv_told success = {.audience = PMV_TELL_ALL, .ordinary = true};
	const struct pmv_op_owner *owner = op->owner;

	return owner && !memcmp(&op->told, &success, sizeof(success)) && !atomic_load(&op->error) &&
	       owner->reads == atomic_load_explicit(&pmv_guard_reads, memory_order_relaxed);
}

/* pmv_op_fail -- note an error, if it is the first one */
void pmv_op_fail(struct pmv_op *op, int err, int prov_errno);

/* pmv_op_reason -- why something has failed that was posted, or was to be, and that ended so */
static inline int pmv_op_reason(const struct pmv_op_owner *owner, uint64_t flags, int err)
{
	bool by_loss = (err == FI_ECANCELED || err == FI_ENOTCONN) &&
		       !(flags & (FI_RECV | FI_REMOTE_WRITE));

	return by_loss && owner && owner->given_up && atomic_load(owner->given_up) ? FI_ETIMEDOUT
										   : err;
}

/* pmv_op_next -- the one behind this one (NULL: the first) that has an owner; NULL: there is none
 */
struct pmv_op *pmv_op_next(struct pmv_op_pool *pool, struct pmv_op *op);

/* pmv_op_find -- a receive under way by the application's context, or NULL */
struct pmv_op *pmv_op_find(struct pmv_op_owner *owner, void *context);

/*
 * pmv_op_abandon -- the endpoint was closed: take its operations from it.  If the core still
 * completes them, nobody hears of that.  No queue of the endpoint may be read meanwhile.
 */
struct pmv_op_list pmv_op_abandon(struct pmv_op_owner *owner);

/* pmv_op_acks -- how many acknowledgements are under way */
static inline unsigned int pmv_op_acks(const struct pmv_op_owner *owner)
{
	return owner->acks ? (unsigned int) atomic_load(&owner->acks->pending) - 1 : 0;
}

/* pmv_op_none -- the context of what nobody waits for: it is in the range, but no operation's */
static inline void *pmv_op_none(const struct pmv_op_pool *pool)
{
	return pool->base + pool->reserved - 1;
}

static inline bool pmv_is_op(const struct pmv_op_pool *pool, const void *context)
{
	return (uintptr_t) context - (uintptr_t) pool->base < pool->reserved;
}

/*
 * How many entries of a connection the application has not read.  It outlives the connection, for
 * its entries: it counts one more until that is closed.
 */
struct pmv_unread {
	atomic_size_t count;
};

/* pmv_unread_open -- or NULL */
struct pmv_unread *pmv_unread_open(void);
void pmv_unread_close(struct pmv_unread *unread);

/*
 * pmv_unread_add -- an entry is one of them, if there is an `unread`; before another thread may
 *   read it
 * pmv_unread_drop -- it is not, or no more
 */
void pmv_unread_add(struct pmv_unread *unread, struct pmv_comp *comp);

static inline void pmv_unread_drop(struct pmv_comp *comp)
{
	if (comp->unread)
		pmv_unread_close(comp->unread);
	comp->unread = NULL;
}

static inline size_t pmv_unread_count(const struct pmv_unread *unread)
{
	return atomic_load(&unread->count) - 1;
}

#endif /* PMV_OP_H */
