/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent.h -- the target's side of a commit: write back, then acknowledge
 *
 * A domain has one agent.  It serves the mailboxes of all endpoints of the domain, in a
 * thread of its own or inside the application's calls (FI_PMEMVERBS_AGENT).  Every request
 * of a connection is served after all earlier ones.  Its ranges were written before the
 * request itself, so the data have arrived.
 *
 * Whoever holds a queue's lock, or an endpoint's, must not call in here, but for
 * pmv_agent_kick.  `lock` is never held for long.
 */
#ifndef PMV_AGENT_H
#define PMV_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "agent/complaint.h"
#include "agent/hint.h"
#include "agent/kick.h"
#include "agent/look.h"
#include "agent/region.h"
#include "agent/stand_in.h"
#include "agent/syncing.h"
#include "agent/writeback.h"
#include "base/setting.h"
#include "engine/engine.h"

struct pmv_writeback_batch;
struct pmv_receiver;
struct pmv_queue;

/* What it has done since the domain was opened, for whoever asks. */
struct pmv_agent_counts {
	uint64_t requests; /* taken and acknowledged ... */
	uint64_t refused;  /* ... with a fault */
	uint64_t chains;   /* among the former */
};

struct pmv_agent {
	const struct pmv_engine *engine;
	pthread_mutex_t serving; /* held during a round by the thread that serves */
	pthread_mutex_t lock;    /* of the mailboxes, of what serves them, and of all below */
	struct pmv_looks looks;  /* the mailboxes */
	struct pmv_syncing syncing;
	struct pmv_stand_in stand_in;
	struct pmv_hint_socket hints;
	atomic_bool calls_look;            /* the application's calls are to look for requests */
	atomic_ulong looking_calls;        /* so many did; a few may not be counted */
	struct pmv_writeback_batch *batch; /* of `serving`; the requests' mailboxes are of `lock` */
	TAILQ_HEAD(, pmv_queue) queues;    /* all of the domain */
	TAILQ_HEAD(, pmv_queue) pinned;    /* used without the lock, and not closed meanwhile */
	pthread_cond_t unpinned;
	uint64_t last_receiver;
	bool promises;   /* an endpoint has once told its peer of an agent, or needs its thread */
	int64_t woke_ns; /* when all sleepers were last woken */
	/* Of the thread, with `serving`. */
	unsigned int seen_calls; /* of the application, in all its queues; ... */
	int64_t called_ns;       /* ... the last one came then, or before */
	atomic_bool attends;     /* a queue is attended (queues.h) */
	int64_t attend_ns;       /* when it looks next for applications that sleep */
	struct pmv_agent_counts counts;
	struct pmv_complaints complaints;
	struct pmv_regions regions;
	atomic_int wanted; /* by this many regions and receiving endpoints */
	atomic_bool was_wanted;
	atomic_int needed; /* by this many regions, where nothing else makes data durable */
	atomic_int kinds[PMV_WSP + 1]; /* this many regions have this domain; PAGE: are synced */

	/* Of the thread. */
	LIST_ENTRY(pmv_agent) next_running;
	unsigned int listed; /* in this process: fork_lock.h; or 0 */
	bool start_failed;   /* and that was told: callers try again and again */
	pthread_t thread;
	atomic_bool running;
	atomic_bool stop;
	atomic_bool asleep;
	atomic_bool nudging; /* a call looks whether a thread that sleeps has work ... */
	atomic_bool nudged;  /* ... for another one, too */
	atomic_ulong sleeps;
	atomic_ulong wakes;  /* sleeps that did not end by themselves */
	atomic_bool watched; /* a queue may be */
	atomic_int node;     /* the memory's; -1: unknown */
	int kick_fd;
	int edges_fd; /* epoll: kick_fd, and edge-triggered rest_fd and the queues' events */
	int rest_fd;  /* a timer */
	/*
	 * The thread rests while this queue is read, or slept on.  It may be closed: the pointer
	 * is only compared.
	 */
	const struct pmv_queue *_Atomic followed;
	atomic_int_fast64_t followed_ns; /* it was read then, more or less, ... */
	atomic_uint followed_reads;      /* ... for so many times */
};

int pmv_agent_init(struct pmv_agent *agent, const struct pmv_engine *engine);
void pmv_agent_destroy(struct pmv_agent *agent);

/* pmv_agent_promise -- the endpoint is about to tell its peer that there is an agent */
int pmv_agent_promise(struct pmv_agent *agent, struct pmv_receiver *receiver);

/*
 * pmv_agent_expect -- the endpoint is about to accept a peer without a mailbox: where the core
 * moves data in calls only, the thread is needed for that, too
 */
void pmv_agent_expect(struct pmv_agent *agent, const struct pmv_receiver *receiver);

/* pmv_agent_attach -- serve a mailbox until it is detached, unless it is being closed */
int pmv_agent_attach(struct pmv_agent *agent, struct pmv_receiver *receiver);
void pmv_agent_detach(struct pmv_agent *agent, struct pmv_receiver *receiver, bool closing);
/* pmv_agent_forget -- its endpoint is closed: drop everything that refers to the mailbox */
void pmv_agent_forget(struct pmv_agent *agent, struct pmv_receiver *receiver);
/*
 * pmv_agent_join -- a queue was opened: where the core moves data in calls only, the thread
 * moves those of this queue, whatever its endpoints' peers are
 * pmv_agent_leave -- the thread does not use it any more
 */
void pmv_agent_join(struct pmv_agent *agent, struct pmv_queue *queue);
void pmv_agent_leave(struct pmv_agent *agent, struct pmv_queue *queue);

/*
 * pmv_agent_want -- peers may ask the agent for something from now on: starts the thread, if
 * there are connections.  If this fails nothing may be promised to peers.
 */
int pmv_agent_want(struct pmv_agent *agent);
void pmv_agent_unwant(struct pmv_agent *agent);

/* pmv_agent_add_region -- node: the NUMA node of its memory, or -1.  Wants the agent, too. */
int pmv_agent_add_region(struct pmv_agent *agent, const struct pmv_region_attr *attr, int node,
			 struct pmv_region **region);
void pmv_agent_remove_region(struct pmv_agent *agent, struct pmv_region *region);

/* pmv_agent_serve -- serve what has arrived, unless another thread is serving */
void pmv_agent_serve(struct pmv_agent *agent);

/*
 * pmv_agent_look_in_call -- an application that polls looks for requests in the thread's place
 *
 * While requests are likely the thread looks for them without pause.  If the application reads its
 * queues without pause as well, that is one processor more than needed, and both may share one.  So
 * its calls look into the mailboxes, and serve what is small.  The thread naps, and checks that the
 * calls go on (idle_plan.h).  False: others are at it, and may have looked already.
 */
bool pmv_agent_look_in_call(struct pmv_agent *agent);

/* pmv_agent_progress -- serve inside a call of the application, if that is wanted */
static inline void pmv_agent_progress(struct pmv_agent *agent)
{
	if (pmv_setting.agent == PMV_AGENT_PROGRESS)
		pmv_agent_serve(agent);
	else if (!agent->engine->core->manual_progress &&
		 atomic_load_explicit(&agent->calls_look, memory_order_relaxed))
		pmv_agent_look_in_call(agent);
}

/*
 * pmv_agent_follow -- the thread's rest begins; reads of this queue prolong it, if they are many;
 *   if it is slept on in a call, no timer ends the rest while it is
 * pmv_agent_unfollow -- it has ended, and its timer ends no later sleep
 */
void pmv_agent_follow(struct pmv_agent *agent, const struct pmv_queue *queue);
void pmv_agent_unfollow(struct pmv_agent *agent);
void pmv_agent_prolong_rest(struct pmv_agent *agent, const struct pmv_queue *queue);
void pmv_agent_await_next_call(struct pmv_agent *agent, const struct pmv_queue *queue);

/* pmv_agent_has_read -- the application has read a queue, and found nothing */
static inline void pmv_agent_has_read(struct pmv_agent *agent, const struct pmv_queue *queue)
{
	if (atomic_load_explicit(&agent->followed, memory_order_relaxed) == queue)
		pmv_agent_prolong_rest(agent, queue);
}

/*
 * pmv_agent_has_left -- nobody is in fi_cq_sread any more, where all that comes ends the sleep; or
 *   fi_trywait has let the application sleep on the descriptor, and nobody sees whether it does
 */
static inline void pmv_agent_has_left(struct pmv_agent *agent, const struct pmv_queue *queue)
{
	if (atomic_load(&agent->followed) == queue)
		pmv_agent_await_next_call(agent, queue);
}

/* pmv_agent_has_use_for_calls -- has it to know that the application reads a queue? */
static inline bool pmv_agent_has_use_for_calls(const struct pmv_agent *agent)
{
	return pmv_setting.agent == PMV_AGENT_PROGRESS || agent->engine->core->manual_progress ||
	       atomic_load_explicit(&agent->calls_look, memory_order_relaxed);
}

/* pmv_agent_needs_calls -- are mailboxes served only inside the application's calls? */
static inline bool pmv_agent_needs_calls(const struct pmv_agent *agent)
{
	return pmv_setting.agent == PMV_AGENT_PROGRESS && atomic_load(&agent->wanted) > 0;
}

/*
 * pmv_agent_watch -- have the thread wake whoever sleeps on the queue when an acknowledgement
 * has arrived for one of its endpoints.  No core does that.  False: there is no thread.
 */
bool pmv_agent_watch(struct pmv_agent *agent, struct pmv_queue *queue);

/*
 * pmv_agent_wake_for_requests -- the calling thread has moved data: if there are requests or
 * acknowledgements among them, wake whoever waits for these; or look in the agent's thread's place
 */
void pmv_agent_wake_for_requests(struct pmv_agent *agent);

/*
 * pmv_agent_wake_sleepers -- wake the application's threads that sleep until an acknowledgement
 * comes, if it has come; no core does that.  Now and then wake all, so that they check the
 * connection.  True: some are still waiting.  Holds the lock.
 */
bool pmv_agent_wake_sleepers(struct pmv_agent *agent);

/*
 * pmv_agent_nudge -- the caller has let a core move data that moves none by itself.  No
 * descriptor tells of a request or an acknowledgement among them.
 */
static inline void pmv_agent_nudge(struct pmv_agent *agent)
{
	if (pmv_setting_has_thread() && agent->engine->core->manual_progress)
		pmv_agent_wake_for_requests(agent);
}

/* thread.c */

/* pmv_agent_start -- the thread, if there is none yet; holds the lock */
int pmv_agent_start(struct pmv_agent *agent);
void pmv_agent_stop(struct pmv_agent *agent);

/* pmv_agent_stop_all -- the process ends, perhaps inside a signal handler: waits for no lock */
void pmv_agent_stop_all(void);

#endif /* PMV_AGENT_H */
