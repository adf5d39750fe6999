/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * held.h -- receives of an endpoint whose peer has not proved its key yet (admit.h)
 *
 * A core delivers what a false target sends as soon as it has answered.  So the core gets the
 * receives only when the peer is known: without one, a message stays where it is.  Those of a
 * shared context can't be held, since they are other peers', too: such endpoints can't connect.
 */
#ifndef PMV_HELD_H
#define PMV_HELD_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <rdma/fi_endpoint.h>

struct pmv_ep;
struct pmv_held_recv;

STAILQ_HEAD(pmv_held_list, pmv_held_recv);

struct pmv_held {
	pthread_mutex_t lock; /* within that of pmv_receive_tracker */
	struct pmv_held_list list;
	size_t count, most;
};

/* pmv_held_init -- most: of the core's receive queue */
void pmv_held_init(struct pmv_held *held, size_t most);
void pmv_held_destroy(struct pmv_held *held);

/* pmv_held_add -- true: the peer is not known yet, and *ret is the receive's result */
bool pmv_held_add(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags, ssize_t *ret);

/* pmv_held_release -- the peer is known: the core gets them all, in order, before any later one */
void pmv_held_release(struct pmv_ep *ep);

/* pmv_held_cancel -- that with this context, or all (all); false: there is none */
bool pmv_held_cancel(struct pmv_ep *ep, const void *context, bool all);

/* pmv_msg_post_recv -- the core gets a receive (msg.c) */
ssize_t pmv_msg_post_recv(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags);

#endif /* PMV_HELD_H */
