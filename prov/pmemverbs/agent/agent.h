/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent.h -- the target's side of a commit: write back, then acknowledge
 *
 * A domain has one agent.  It serves the mailboxes of all endpoints of the
 * domain, in a thread of its own or inside the application's calls, as
 * FI_PMEMVERBS_AGENT says.  Several requests make one batch: what they name is
 * flushed together, pages of one region are synced once.
 *
 * Every request of one connection is served after all earlier ones, and what it
 * names was written before it, so it is there.
 *
 * agent.c knows what the agent works for; service.c has its rounds; writeback.c
 * makes durable what requests name; thread.c begins and ends threads, wake.c has
 * them sleep and wakes them.
 *
 * Locks: `serving` and `lock`, which is never held for long; progress/queue.h has the
 * order of all locks.  Whoever holds a queue's lock, or an endpoint's, must not call in
 * here, but for pmv_agent_kick.
 */
#ifndef PMV_AGENT_H
#define PMV_AGENT_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "agent/region.h"
#include "base/setting.h"
#include "engine/engine.h"

struct pmv_batch;
struct pmv_mailbox;
struct pmv_queue;

struct pmv_agent {
	const struct pmv_engine *engine;
	pthread_mutex_t serving; /* held for a whole round, by whoever serves */
	pthread_mutex_t lock;    /* of the mailboxes, of what serves them, and of all below */
	TAILQ_HEAD(, pmv_mailbox) mailboxes;
	struct pmv_batch *batch;        /* of who serves, but for the requests' mailboxes */
	TAILQ_HEAD(, pmv_queue) pinned; /* used without the lock, and not closed meanwhile */
	pthread_cond_t unpinned;
	int promises;    /* how many endpoints have told their peers of an agent */
	int64_t woke_ns; /* when sleepers were woken for nothing */
	struct pmv_regions regions;
	atomic_int wanted; /* by how many regions, and endpoints that receive */
	atomic_bool was_wanted;
	atomic_int needed; /* by how many regions, to make anything durable there */

	/* Of the thread. */
	LIST_ENTRY(pmv_agent) next_running;
	pthread_t thread;
	atomic_bool running;
	atomic_bool stop;
	atomic_bool asleep;
	atomic_ulong sleeps;
	atomic_bool watched; /* a queue may be */
	atomic_int node;     /* the memory's; -1: unknown */
	int kick_fd;
	int edges_fd;       /* tells of kick_fd, and once of each event of a queue */
	struct pollfd *fds; /* the queues' descriptors that it sleeps on */
	size_t num_fds;
	size_t max_fds;
};

int pmv_agent_init(struct pmv_agent *agent, const struct pmv_engine *engine);
void pmv_agent_destroy(struct pmv_agent *agent);

/*
 * pmv_agent_promise -- the endpoint is about to tell its peer of an agent: fails
 * where the thread is wanted already and can't be started
 */
int pmv_agent_promise(struct pmv_agent *agent, struct pmv_mailbox *mailbox);

/*
 * pmv_agent_attach -- serve a mailbox, until it is detached; one that is being closed
 * is not attached again
 */
int pmv_agent_attach(struct pmv_agent *agent, struct pmv_mailbox *mailbox);
void pmv_agent_detach(struct pmv_agent *agent, struct pmv_mailbox *mailbox, bool closing);
/* pmv_agent_forget -- its endpoint is closed: nothing in here looks at it any more */
void pmv_agent_forget(struct pmv_agent *agent, struct pmv_mailbox *mailbox);
/* pmv_agent_leave -- ... nor at this queue, which no open endpoint is bound to */
void pmv_agent_leave(struct pmv_agent *agent, struct pmv_queue *queue);

/*
 * pmv_agent_want -- there is something that peers may ask it for; the first one
 * brings the thread to life, if there are connections already.  Fails if that
 * can't be started: nothing must be promised then.
 */
int pmv_agent_want(struct pmv_agent *agent);
void pmv_agent_unwant(struct pmv_agent *agent);

/*
 * pmv_agent_add_region -- node: that of its memory, or -1.  Fails without memory, where
 * the key is known, and as pmv_agent_want.
 */
int pmv_agent_add_region(struct pmv_agent *agent, const struct pmv_region_attr *attr, int node,
			 struct pmv_region **region);
void pmv_agent_remove_region(struct pmv_agent *agent, struct pmv_region *region);

/* pmv_agent_serve -- what has arrived, unless somebody is at it */
void pmv_agent_serve(struct pmv_agent *agent);

/* pmv_agent_progress -- a call of the application's, which may be what has to serve */
static inline void pmv_agent_progress(struct pmv_agent *agent)
{
	if (pmv_setting.agent == PMV_AGENT_PROGRESS)
		pmv_agent_serve(agent);
}

/* pmv_agent_needs_calls -- is there a mailbox that only the application's calls look into? */
bool pmv_agent_needs_calls(struct pmv_agent *agent);

/* wake.c */

/* pmv_agent_kick -- wake the thread up, if it sleeps */
void pmv_agent_kick(struct pmv_agent *agent);

/*
 * pmv_agent_nudge -- the caller has had a core move data that moves none by itself:
 * wake the thread up if there is a request among them, of which no descriptor tells
 */
void pmv_agent_wake_for_requests(struct pmv_agent *agent);

static inline void pmv_agent_nudge(struct pmv_agent *agent)
{
	if (pmv_setting.agent == PMV_AGENT_THREAD && agent->engine->core->driven)
		pmv_agent_wake_for_requests(agent);
}

/*
 * pmv_agent_watch -- wake the queue up when an acknowledgement has arrived for one of
 * its endpoints, which no core does.  False: no thread can.
 */
bool pmv_agent_watch(struct pmv_agent *agent, struct pmv_queue *queue);

/* thread.c */

/* pmv_agent_start -- the thread, if there is none yet; holds the lock */
int pmv_agent_start(struct pmv_agent *agent);
void pmv_agent_stop(struct pmv_agent *agent);

/*
 * pmv_agent_stop_all -- the process ends, with domains that nobody closed, and perhaps
 * out of a signal's handler: waits for no lock, and not for long for a thread
 */
void pmv_agent_stop_all(void);

#endif /* PMV_AGENT_H */
