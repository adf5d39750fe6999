/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.h -- completions on their way from a core's queue to the application
 *
 * The application's entries are read from the core straight into its buffer.  Entries of
 * operations (op.h) are removed from there, or rewritten.  Entries that do not come from the
 * core wait in the ready list, and are handed out first.  Whoever reads the queue pushes all
 * waiters before and after that: endpoints that wait for something.
 *
 * The agent needs the core's entries, and some cores move data only when they are asked for
 * entries.  So they are taken whether the application reads the queue or not.  What waits for the
 * application is limited in another way.  A connection may have as many notices (of commits with
 * immediate data) and events unread as the application has asked for entries; then its own
 * requests wait.  Entries of what the application has posted are kept.  Others, and those of
 * receives that were cancelled, are kept up to `most`.  Beyond that they are dropped, and
 * FI_EOVERRUN stands in their place.  Over tcp a peer needs no receive to send immediate data, and
 * the core's entry does not say whose they are: so nobody can stop that peer, but it stops nobody.
 *
 * The descriptor, if there is one, tells of the core's events and of the ready list.
 * `armed` means that somebody may sleep on it.
 *
 * All locks of the provider, in the order in which they nest.  Whoever holds one may take
 * only those behind it:
 *
 *   an event queue's, a counter's
 *   the poller's (poller.h); users_lock, around it, only where it begins and ends
 *   domains_lock, metrics' lock, tally.lock   who is asked what was counted (objects/tally.c)
 *   acting      who acts as the agent's thread (stand_in.h)
 *   serving     the agent's rounds (agent.h)
 *   agent       the mailboxes, and what serves them (agent.h)
 *   lock        a queue's: entries are taken from the core, operations end; where two
 *               are needed, the one at the lower address first
 *   stall_lock  a queue's: its waiters, which are pushed
 *   an endpoint's, of its receives:
 *     lock        a receive tracker's: which receive has which number (receive_tracker.h)
 *     lock        of those that are held, until the core has them (held.h)
 *   an endpoint's, in struct pmv_initiator:
 *     lock            what it has to post, and what it waits for
 *     ordering.lock   a fenced operation, from the look at the flags until it is posted
 *     send_lock       an operation that uses up a receive of the peer's, while it is posted
 *     place_lock      for a few lines
 *   ready_lock  a queue's: its ready list
 *   chains.lock of a domain: a step of a chain, or data that the agent stores; requests that
 *               are to store nothing more (free_list.h)
 *   syncing     a region's, while its pages are synced (region.c)
 *   the others: of the pool and of regions, for a few lines each
 *
 * pmv_agent_kick takes none of them and may be called with any.
 */
#ifndef PMV_QUEUE_H
#define PMV_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <rdma/fi_eq.h>

#include "progress/op.h"
#include "progress/signal.h"

struct pmv_engine;
struct pmv_engine_ops;
struct pmv_unread;

/* What an endpoint waits for. */
enum pmv_pending {
	PMV_PENDING_NONE,
	PMV_PENDING_FLUSH, /* a flush, whose completion comes from the core */
	PMV_PENDING_ACKS,  /* acknowledgements */
	PMV_PENDING_POSTS, /* room to post the rest; or the connection is lost */
};

/* An endpoint's place among those that wait. */
struct pmv_waiter {
	TAILQ_ENTRY(pmv_waiter) next;
	bool listed;
	/* go on as far as possible; looking: the application is reading.  What it waits for now. */
	enum pmv_pending (*push)(struct pmv_waiter *waiter, bool looking);
};

/*
 * The core's next entries.  There is a place in the ready list for each before it is taken from the
 * core, so none is lost.  One poll may have the core move in many more than were asked for: if all
 * that were asked for have come, the next poll asks for twice as many.
 */
struct pmv_batch {
	STAILQ_HEAD(, pmv_comp) places;
	size_t num_places;
	size_t wanted; /* by the next poll */
	char *entries; /* room for so many */
};

struct pmv_queue {
	const struct pmv_engine *engine;
	struct fid_cq *core_fid;
	struct pmv_op_pool *pool;
	size_t entry_size;
	size_t size; /* what the application asked for */
	/*
	 * A layer between the application and this domain gives all operations a context, and takes
	 * every error for one of them.  tcp of 1.17 reports injected writes that fail, without one.
	 */
	bool contexts;
	bool discards; /* nobody reads it */
	size_t most;   /* entries that wait in the ready list */

	const struct pmv_engine_ops *ops; /* the engine's */
	pthread_mutex_t lock;             /* held while entries are taken from the core */
	struct pmv_batch batch;
	/*
	 * Under the lock: endpoints that send.  An entry of what is no operation of ours does not
	 * say to which endpoint it belongs.  It is the first one's, as all others post operations
	 * only.  NULL: that one is closed.
	 */
	unsigned int num_senders;
	const struct pmv_op_owner *first_sender;
	bool counts_reads; /* somebody else may read it: */
	/*
	 * Those of the application that found nothing: one that finds entries need not have the
	 * core move more.  Written under the lock.
	 */
	atomic_uint reads;

	pthread_mutex_t ready_lock;
	STAILQ_HEAD(, pmv_comp) ready;
	atomic_size_t num_ready;
	bool warned;                 /* it is not read */
	struct pmv_comp overrun;     /* FI_EOVERRUN ... */
	bool overruns;               /* ... is in the list, or being read */
	bool has_overrun;            /* once */
	atomic_bool room_wanted;     /* somebody waits for the application to read ... */
	void (*has_room)(void *arg); /* ... and is told with this */
	void *has_room_arg;

	pthread_mutex_t stall_lock;
	TAILQ_HEAD(, pmv_waiter) waiters;
	atomic_int pending; /* enum pmv_pending: the highest of all waiters */
	atomic_int raised;  /* the highest of pmv_queue_raise_pending since they were pushed */

	int epoll_fd; /* core_fd and wake_fd; -1: no wait object */
	int wake_fd;
	int core_fd;
	int news_fd;               /* core_fd's events, each once; where calls move the data */
	struct pmv_signal signal;  /* under the lock; its fd is constant */
	atomic_uint armed;         /* by the call with this number; 0: nobody sleeps */
	atomic_bool reading;       /* a call takes the entries that are added now */
	atomic_ulong refused;      /* the thread whose call has found no room; 0: none has */
	atomic_bool refused_slept; /* since then, it has */
	atomic_bool made_room;     /* perhaps, by another thread, since then */
	atomic_uint arms;          /* so often somebody was about to sleep */
	atomic_uint sleepers;      /* so many of the application's threads are in fi_cq_sread */
	atomic_uint raised_arms;   /* when it was raised last */

	/* For whoever moves the data while the application does not: the agent's thread. */
	TAILQ_ENTRY(pmv_queue) next_of_agent;
	TAILQ_ENTRY(pmv_queue) next_pinned;
	bool pinned;          /* in use without a lock: it must not be closed */
	size_t acks;          /* whose entries the agent has left to the application */
	bool edges;           /* the thread gets its events */
	bool polled;          /* the application reads it without pause ... */
	unsigned seen_reads;  /* ... as far as these reads, ... */
	int64_t seen_ns;      /* ... at this time, can tell, ... */
	unsigned polled_arms; /* ... and nobody was about to sleep since then */
	int64_t armed_ns;     /* a look at this time has found that somebody was, ... */
	bool comes_back;      /* ... and so did the one before, shortly before it */
	bool slept_on;        /* all that comes wakes somebody: the thread need not wake, too */
	/* The thread reads it for an application that sleeps (queues.h). */
	atomic_bool attended;
	bool app_sleeps; /* it has begun to sleep, and has not polled since */
	unsigned seen_arms, attend_reads;
	atomic_bool watched; /* the thread wakes whoever waits for acknowledgements */
};

/* pmv_queue_entry_size -- of the application's entries; 0: there is no such format */
size_t pmv_queue_entry_size(enum fi_cq_format format);

/*
 * pmv_queue_open -- the caller has set the first members, and has_room, and the rest to 0;
 * it closes the core's queue.  has_fd: the core's queue has a descriptor; waitable: the
 * application may wait.  0 or a negative fi_errno.
 */
int pmv_queue_open(struct pmv_queue *queue, bool has_fd, bool waitable);
void pmv_queue_close(struct pmv_queue *queue);

/*
 * pmv_queue_join -- an endpoint's transmit operations complete here; if others' do already, it is
 *   told so (`shares`)
 * pmv_queue_leave -- not any more
 */
void pmv_queue_join(struct pmv_queue *queue, struct pmv_op_owner *sender);
void pmv_queue_leave(struct pmv_queue *queue, const struct pmv_op_owner *sender);

/* pmv_queue_read -- the application's fi_cq_read */
ssize_t pmv_queue_read(struct pmv_queue *queue, void *buf, size_t count);

/* pmv_queue_take -- the head of the ready list, if it is (not) an error; the caller frees it */
struct pmv_comp *pmv_queue_take(struct pmv_queue *queue, bool error);
void pmv_queue_free(struct pmv_queue *queue, struct pmv_comp *comp);

/*
 * pmv_comp_success -- a copy of an entry, in the queue's format or the tagged one, or (NULL) zeros;
 * pmv_comp_error -- of an operation that has failed; both: NULL without memory
 */
struct pmv_comp *pmv_comp_success(const struct pmv_queue *queue, const void *entry);
struct pmv_comp *pmv_comp_error(void *context, uint64_t flags, int err);

/*
 * pmv_queue_add -- put an entry into the ready list and wake whoever waits.  False: it was dropped,
 * as the list is too long; never if it is of an operation
 */
bool pmv_queue_add(struct pmv_queue *queue, struct pmv_comp *comp);

/*
 * pmv_queue_wake -- have whoever waits look again
 * pmv_queue_raise -- the same, after an entry was put into the ready list; unless nobody has armed
 *   the descriptor since it was last raised, or a call is about to take the entry
 */
void pmv_queue_wake(struct pmv_queue *queue);
void pmv_queue_raise(struct pmv_queue *queue);

/*
 * pmv_queue_progress -- move what the core has into the ready list, a limited number of entries,
 * and push the waiters; looking: for an application that waits
 */
void pmv_queue_progress(struct pmv_queue *queue, bool looking);

/*
 * pmv_queue_has_room -- for one more entry of a connection, behind so many others that are to come.
 * If not, has_room is called when the application reads.
 * pmv_queue_add_for -- pmv_queue_add, counted for the connection; unread may be NULL
 */
bool pmv_queue_has_room(struct pmv_queue *queue, const struct pmv_unread *unread, size_t others);
bool pmv_queue_add_for(struct pmv_queue *queue, struct pmv_unread *unread, struct pmv_comp *comp);

/*
 * pmv_queue_wait -- push this waiter whenever the queue is read, until it waits for nothing
 * pmv_queue_hurry -- if it waits: whoever sleeps, or is about to, reads the queue first
 * pmv_queue_raise_pending -- any waiter waits for that now, as it was found when another queue was
 *   read; without a lock
 */
void pmv_queue_wait(struct pmv_queue *queue, struct pmv_waiter *waiter, enum pmv_pending pending);
void pmv_queue_hurry(struct pmv_queue *queue, const struct pmv_waiter *waiter);
void pmv_queue_raise_pending(struct pmv_queue *queue, enum pmv_pending pending);
void pmv_queue_unwait(struct pmv_queue *queue, struct pmv_waiter *waiter);

/*
 * A call that posts has found no room.  The application may sleep on the descriptor until there is
 * some.  Where calls move the data, the agent's thread may make it, and no entry tells of that,
 * since what is injected has none.
 *
 * pmv_queue_refuse -- this thread's call has found no room
 * pmv_queue_is_refused -- the same thread asks, and has not slept since then.  What it moves may
 *   make that room, and nothing would tell it
 * pmv_queue_lets_sleep -- this thread is about to sleep
 * pmv_queue_may_have_room -- true, once: there may be some now, made by another thread
 */
void pmv_queue_refuse(struct pmv_queue *queue);
bool pmv_queue_is_refused(const struct pmv_queue *queue);
void pmv_queue_lets_sleep(struct pmv_queue *queue);
bool pmv_queue_may_have_room(struct pmv_queue *queue);

/* pmv_queue_is_armed -- may somebody sleep on the descriptor?  queue may be NULL. */
bool pmv_queue_is_armed(struct pmv_queue *queue);

/*
 * pmv_queue_arm -- before a sleep: whatever comes from now on makes the descriptor ready.  1: it
 * was ready, and is not any more; others that sleep may not have seen that.  0, or a negative
 * fi_errno.
 *
 * pmv_queue_disarm -- whoever had armed it when `armed` was this sleeps no more
 */
int pmv_queue_arm(struct pmv_queue *queue);
void pmv_queue_disarm(struct pmv_queue *queue, unsigned int armed);

/*
 * pmv_queue_ignore -- the core's events do not make the descriptor ready any more: somebody else
 *   reads the queue, and wakes whoever sleeps
 * pmv_queue_listen -- they do again
 *
 * Both: 0 or a negative fi_errno, and nothing has changed.
 */
int pmv_queue_ignore(struct pmv_queue *queue);
int pmv_queue_listen(struct pmv_queue *queue);

/*
 * pmv_queue_hold -- the agent's thread gets the events of the core's descriptor, and may sleep on
 *   it; 0 or a negative fi_errno
 * pmv_queue_let_go -- it does not any more
 */
int pmv_queue_hold(struct pmv_queue *queue);
void pmv_queue_let_go(struct pmv_queue *queue);

/*
 * pmv_queue_await_news -- as poll(2), but the core's descriptor counts only for what comes from now
 * on: it may stay ready
 */
int pmv_queue_await_news(struct pmv_queue *queue, int timeout_ms);

/* pmv_queue_trywait -- may the core's descriptor be waited on?  0, or -FI_EAGAIN: there is work */
int pmv_queue_trywait(struct pmv_queue *queue);

/* pmv_queue_is_watched -- does somebody rely on the agent's thread?  queue may be NULL. */
static inline bool pmv_queue_is_watched(struct pmv_queue *queue)
{
	return queue && atomic_load(&queue->watched);
}

static inline enum pmv_pending pmv_queue_pending(struct pmv_queue *queue)
{
	return (enum pmv_pending) atomic_load(&queue->pending);
}

#endif /* PMV_QUEUE_H */
