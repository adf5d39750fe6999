/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator.h -- what an endpoint knows of its own operations, to commit them
 *
 * Locks, in the order in which they nest: `lock`, ordering.lock, send_lock.  No completion
 * queue is read under any of them.
 */
#ifndef PMV_INITIATOR_H
#define PMV_INITIATOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "agent/mailbox.h"
#include "commit/hooks.h"
#include "commit/method.h"
#include "commit/plan.h"
#include "commit/sample.h"
#include "engine/engine.h"
#include "memory/dirty.h"
#include "progress/count.h"
#include "progress/op.h"
#include "progress/queue.h"

/* Why a call can't just be handed to the core. */
enum pmv_slow_path {
	PMV_SLOW_CLOSED = 1 << 0,   /* something has to be posted, or executed, first */
	PMV_SLOW_COUNT_TX = 1 << 1, /* a counter is bound to what it posts */
	PMV_SLOW_COUNT_RX = 1 << 2,
	PMV_SLOW_FENCE_NEXT = 1 << 3, /* a fenced read passed: the next request carries its fence */
	PMV_SLOW_READS = 1 << 4,      /* the core has no fence: reads are counted here */
	PMV_SLOW_ORDERED_SENDS = 1 << 5, /* messages that only a flush makes durable are noted */
	/* The peer's agent can commit messages: all that uses up its receives is counted. */
	PMV_SLOW_SENDS = 1 << 6,      /* messages ... */
	PMV_SLOW_IMMEDIATES = 1 << 7, /* ... and immediate data */
	PMV_SLOW_ALL = 1 << 8,        /* FI_PMEMVERBS_COMMIT=all */
	PMV_SLOW_HOOKS = 1 << 10,     /* a layer above replaces connections: hooks.h */
	PMV_SLOW_GONE = 1 << 9,       /* the endpoint is no more: nothing can be posted */
	PMV_SLOW_SHARES = 1 << 11,    /* what it sends is operations of ours: queue.h says why */
	PMV_SLOW_UNKNOWN = 1 << 12,   /* FI_PMEMVERBS_KEYS: nothing may be posted to it (yet) */
};

/* An endpoint that nothing may be sent from, for whatever reason. */
enum {
	PMV_SLOW_NOWHERE = PMV_SLOW_GONE | PMV_SLOW_UNKNOWN,
};

/*
 * Ordering state: what earlier operations mean for a later fence.
 *
 * A flag (wrote_*) is set after its operation was posted.  Until then the operation is
 * counted (posting_*): another thread may see it completed, and post a commit, before that.
 *
 * Whoever clears a flag also posts the request that makes it unnecessary, and holds this lock for
 * both.  (wrote_agent is cleared under the initiator's lock instead, and the request may wait for
 * room: mailbox.sender.unacked counts it from before the flag is cleared.)  A fenced operation
 * holds this lock, too, from its look at the flags until it is posted.  So if it finds a flag
 * cleared, the request that made the flag unnecessary is in the send queue already.
 *
 * The flush of a commit to MHP memory sets no flag: data there persist as they arrive.
 */
struct pmv_ordering {
	pthread_mutex_t lock;
	atomic_int posting_agent;
	atomic_int posting_flush;
	atomic_int posting_ordered;
	atomic_bool wrote_agent;      /* data that the agent has not been told of: dirty.h */
	atomic_uint dirty_epoch;      /* how often ranges were taken to tell the agent of them */
	atomic_bool wrote_flush;      /* data whose completion proves nothing (never cleared) */
	atomic_bool wrote_ordered;    /* data that only the next flush READ makes durable */
	atomic_bool wrote_unordered;  /* data over a path that keeps no order (never cleared) */
	atomic_bool wrote_unreadable; /* ... to where nothing can be read back (never cleared) */
	atomic_bool fence_due;        /* a READ or atomic may be under way */
	atomic_int reads;             /* under way, where the core has no fence */
	atomic_int flushes;           /* commits by RDMA FLUSH that are under way */
	/*
	 * Of the last kind of memory that was written to: the high half of its keys, and in the low
	 * half what is known of writes there (enum pmv_note).  No key of ours has 0 there.
	 */
	atomic_uint_fast64_t known;
	/* In the region of the last key: a commit without data reads there, not at its place. */
	pthread_mutex_t place_lock;
	atomic_uint_fast64_t place_key;
	uint64_t place_addr;
	atomic_uint_fast64_t quiet_key; /* place_key, or 0: writes there have to be remembered */
};

struct pmv_run;

/* Of one endpoint, and no other writes there.  A one-sided commit takes no lock to count. */
struct pmv_commit_counts {
	/* by enum pmv_method: of PMV_METHOD_REFUSED the call has failed, the others were accepted
	 */
	atomic_uint_fast64_t by_method[PMV_METHOD_AGENT + 1];
	atomic_uint_fast64_t failed; /* of those accepted */
	atomic_uint_fast64_t chains; /* accepted, whether they commit or not */
	struct pmv_sampling sampling;
};

/* Operations that the next flush covers: group.h. */
struct pmv_group {
	struct pmv_op_list members;
	bool wanted;          /* somebody waits for one of them */
	atomic_bool flushing; /* a flush is under way: */
	struct pmv_run *flush;
};

struct pmv_initiator {
	struct pmv_op_owner owner; /* first: the endpoint's operations belong to it */
	struct pmv_engine_ep *engine;
	struct pmv_mailbox *mailbox;
	const struct pmv_hooks *hooks;   /* or NULL */
	struct pmv_lost_writes *tracker; /* with hooks: who is at the other end, once it is known */
	struct pmv_count *counts[PMV_COUNT_KINDS];
	size_t max_places;         /* of one operation at the target */
	bool keyed;                /* keys carry attributes ... */
	atomic_bool flushes;       /* it can post RDMA FLUSH, and may: rdma_flush.h */
	atomic_bool atomic_writes; /* ... and ATOMIC WRITE behind one */
	bool plain_peer;           /* ... but not this peer's: it has sent no handshake */
	atomic_bool passes;        /* plain writes need no order behind commits: submit.c */
	uint32_t key_start;        /* of the peer's keys; 0: unknown */
	/* Who is told of an operation that was posted without, and with, FI_COMPLETION. */
	struct pmv_told tx_told[2];
	uint64_t tx_always; /* FI_COMPLETION, where the core must be told that of all operations */
	struct pmv_told rx_told[2]; /* of receives */
	atomic_uint slow;           /* enum pmv_slow_path */
	struct pmv_ordering ordering;
	struct pmv_commit_counts commits;
	struct pmv_plan plans[PMV_METHOD_AGENT + 1]; /* of a commit without anything special */
	struct pmv_plan delivered;                   /* ... where the core's word is the proof */

	/* Messages: how they become durable, and how many used up the peer's receives. */
	enum pmv_method message_method;
	pthread_mutex_t send_lock; /* from before one is posted until it is counted */
	atomic_uint_fast64_t sends;
	atomic_uint_fast64_t told_sends; /* how many of them the agent knows of */

	/* A fenced operation was refused, since these had not ended: commits by the agent; reads;
	 * or, for one that may not pass them, commits by RDMA FLUSH. */
	atomic_bool fence_awaits_agent;
	atomic_bool fence_awaits_reads;
	atomic_bool awaits_flushes;

	/* Operations that have failed, as long as the application has not read so.  NULL: no memory
	 */
	struct pmv_unread *failures;
	/*
	 * One has failed, and the application reads no entry of it here: the next fenced operation
	 * is refused in its place.
	 */
	atomic_bool untold_failure;

	pthread_mutex_t lock;        /* of all below, and of the mailbox's sending half */
	struct pmv_op_list stalled;  /* operations that wait for room, in order */
	struct pmv_op_list awaiting; /* ... for the agent's acknowledgement, in order */
	unsigned int deferred;       /* operations that are executed after an acknowledgement */
	uint64_t payload_message;    /* the last message to the agent that carried a payload ... */
	uint64_t dropped_message;    /* ... or had lost its payload by then */
	bool others_wait;            /* since then what may not follow a payload was refused ... */
	uint64_t stores_from;        /* ... so unfenced data travel apart up to this message */
	atomic_uint reply_slots;     /* bit for each that a chain has: chain_request.h */
	atomic_uint tails;           /* commits by ATOMIC WRITE that are under way, and ... */
	struct pmv_range tail;       /* ... what spans their places; key 0: of several regions */
	struct pmv_group group;
	struct pmv_dirty dirty; /* what the agent has not been told of */
	atomic_bool broken;     /* nothing more is to be expected of the connection */
	atomic_bool repeating;  /* a message is being posted once more */
	atomic_bool probing;    /* a READ is under way that fails if nothing ever will be */
	int64_t heard_ns; /* when the agent was last heard of; while messages are unanswered */
	struct pmv_waiter on_tx_queue;
	struct pmv_waiter on_rx_queue;
};

/*
 * pmv_initiator_init -- engine, mailbox, hooks, keyed and owner.pool are set, the rest is 0
 * pmv_initiator_begin_count -- a counter is bound; slow: PMV_SLOW_COUNT_TX, PMV_SLOW_COUNT_RX, or 0
 */
void pmv_initiator_init(struct pmv_initiator *ini);
void pmv_initiator_begin_count(struct pmv_initiator *ini, unsigned slow);
void pmv_initiator_destroy(struct pmv_initiator *ini);

/*
 * pmv_initiator_connected -- the mailbox has the peer's handshake
 * pmv_initiator_established -- ... and the connection can be posted to
 * pmv_initiator_break -- the connection is lost: what waits for the agent fails
 */
void pmv_initiator_connected(struct pmv_initiator *ini);
void pmv_initiator_established(struct pmv_initiator *ini);
void pmv_initiator_break(struct pmv_initiator *ini);

/* pmv_initiator_wait -- call its `push` (push.h) whenever one of the queues is read */
void pmv_initiator_wait(struct pmv_initiator *ini, enum pmv_pending pending);
void pmv_initiator_unwait(struct pmv_initiator *ini);

static inline bool pmv_initiator_is_fast(const struct pmv_initiator *ini, unsigned slow)
{
	return !(atomic_load_explicit(&ini->slow, memory_order_relaxed) & slow);
}

/* pmv_initiator_count -- one more; true: it is to be timed */
static inline bool pmv_initiator_count(struct pmv_initiator *ini, enum pmv_method method)
{
	struct pmv_commit_counts *commits = &ini->commits;

	return pmv_sample_is_due(
		&commits->sampling, method,
		atomic_fetch_add_explicit(&commits->by_method[method], 1, memory_order_relaxed));
}

/* pmv_initiator_lack_room -- a call returns this: whoever is refused may sleep until there is room
 */
static inline ssize_t pmv_initiator_lack_room(const struct pmv_initiator *ini, ssize_t ret)
{
	if (ret == -FI_EAGAIN && ini->owner.tx_queue)
		pmv_queue_refuse(ini->owner.tx_queue);
	return ret;
}

/* pmv_initiator_note_refused -- the same of a call that commits: has it failed? */
static inline ssize_t pmv_initiator_note_refused(struct pmv_initiator *ini, ssize_t ret)
{
	if (!ret)
		return 0;
	if (ret != -FI_EAGAIN)
		pmv_initiator_count(ini, PMV_METHOD_REFUSED);
	return pmv_initiator_lack_room(ini, ret);
}

/* pmv_initiator_uncount -- it was not accepted after all */
static inline void pmv_initiator_uncount(struct pmv_initiator *ini, enum pmv_method method)
{
	atomic_fetch_sub_explicit(&ini->commits.by_method[method], 1, memory_order_relaxed);
}

/* pmv_initiator_fits -- false: the key is of another life than the peer's */
static inline bool pmv_initiator_fits(const struct pmv_initiator *ini, uint64_t key)
{
	return pmv_key_fits(key, ini->key_start);
}

/*
 * pmv_initiator_may_fence -- has nothing failed that a fenced operation follows?  What the
 * application has read it knows: what it posts then does not follow that.  Where it can't read of
 * a failure one fenced operation is refused.
 */
static inline bool pmv_initiator_may_fence(struct pmv_initiator *ini)
{
	return !(atomic_load(&ini->untold_failure) &&
		 atomic_exchange(&ini->untold_failure, false)) &&
	       (!ini->failures || !pmv_unread_count(ini->failures));
}

/* The key as the core knows it. */
static inline uint64_t pmv_initiator_core_key(uint64_t key)
{
	return pmv_key_is_ours(key) ? pmv_key_core(key) : key;
}

#endif /* PMV_INITIATOR_H */
