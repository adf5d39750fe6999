/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent.h -- the target's side of a commit: write back, then acknowledge
 *
 * A domain has one agent.  It serves the mailboxes of all endpoints of the
 * domain, in a thread of its own or inside the application's calls, as
 * FI_PMEMVERBS_AGENT says.  Several messages make one batch: what they name is
 * flushed together, pages of one region are synced once.
 *
 * Every message of one connection is served after all earlier ones, and what it
 * names was written before it, so it is there.
 *
 * Locks: `lock` comes before those of CQs and regions.  Whoever holds a CQ's
 * lock, or an endpoint's, must not call in here.
 */
#ifndef PMV_AGENT_H
#define PMV_AGENT_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "link.h"
#include "region.h"

struct pmv_domain;
struct pmv_cq;
struct pmv_batch;

struct pmv_agent {
	pthread_mutex_t lock; /* held while a batch is served */
	struct pmv_link *links;
	struct pmv_link **links_tail;
	struct pmv_batch *batch;
	int64_t woke_ns; /* when sleepers were woken for nothing */
	struct pmv_regions regions;
	atomic_int wanted; /* by how many regions, and endpoints that receive */
	atomic_int needed; /* by how many regions, to make anything durable there */

	struct pmv_agent *next_running;
	pthread_t thread;
	atomic_bool running;
	atomic_bool stop;
	atomic_bool asleep;
	atomic_bool watched; /* a CQ may be */
	atomic_int node;     /* the memory's; -1: unknown */
	int kick_fd;
	struct pollfd *fds; /* what it sleeps on; the first one is kick_fd */
	size_t room;
};

int pmv_agent_init(struct pmv_domain *domain);
void pmv_agent_destroy(struct pmv_domain *domain);

/* pmv_agent_stop_all -- the provider is being unloaded, with domains that nobody closed */
void pmv_agent_stop_all(void);

/*
 * pmv_agent_attach -- serve an endpoint's mailbox, until it is detached; one that
 * is being closed is not attached again
 */
int pmv_agent_attach(struct pmv_ep *ep);
void pmv_agent_detach(struct pmv_ep *ep, bool closing);

/*
 * pmv_agent_want -- there is something that peers may ask it for; the first one
 * brings the thread to life, if there are connections already
 */
void pmv_agent_want(struct pmv_domain *domain);
void pmv_agent_unwant(struct pmv_domain *domain);

/*
 * pmv_agent_add_region -- needed: only the agent makes what is written there
 * durable.  NULL: no memory, or the key is known
 */
struct pmv_region *pmv_agent_add_region(struct pmv_domain *domain, uint32_t key,
					enum pmv_persist persist, unsigned use, uint64_t start,
					const struct iovec *iov, size_t iov_count, int node,
					bool needed);
void pmv_agent_remove_region(struct pmv_domain *domain, struct pmv_region *region);

/* pmv_agent_progress -- serve what has arrived, unless somebody is at it */
void pmv_agent_progress(struct pmv_domain *domain);

/*
 * pmv_agent_nudge -- the caller has had a core move data that moves none by itself:
 * wake the thread up if there is a message among them, of which no descriptor tells
 */
void pmv_agent_nudge(struct pmv_domain *domain);

/* pmv_agent_needs_calls -- is there a mailbox that only the application's calls look into? */
bool pmv_agent_needs_calls(struct pmv_domain *domain);

/*
 * pmv_agent_watch -- wake the CQ up when an acknowledgement has arrived for one
 * of its endpoints, which no core does.  False: no thread can.
 */
bool pmv_agent_watch(struct pmv_cq *cq);

#endif /* PMV_AGENT_H */
