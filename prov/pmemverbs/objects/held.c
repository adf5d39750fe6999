/* SPDX-License-Identifier: BSD-2-Clause */
/* held.c -- receives that wait for the peer's proof; held.h says why */
#include "objects/held.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "objects/cq.h"
#include "objects/ep.h"

struct pmv_held_recv {
	STAILQ_ENTRY(pmv_held_recv) next;
	struct fi_msg msg;
	uint64_t flags;
	int err; /* a positive fi_errno: it was not handed on */
	void **desc;
	struct iovec iov[];
};

void pmv_held_init(struct pmv_held *held, size_t most)
{
	pthread_mutex_init(&held->lock, NULL);
	STAILQ_INIT(&held->list);
	held->most = most;
}

void pmv_held_destroy(struct pmv_held *held)
{
	pthread_mutex_destroy(&held->lock);
}

/* copy -- the application may use its arrays otherwise, once the call has returned */
static struct pmv_held_recv *copy(const struct fi_msg *msg, uint64_t flags)
{
	const size_t n = msg->iov_count;
	struct pmv_held_recv *recv =
		malloc(sizeof(*recv) + n * (sizeof(recv->iov[0]) + sizeof(recv->desc[0])));

	if (!recv)
		return NULL;
	recv->desc = (void **) &recv->iov[n];
	if (n)
		memcpy(recv->iov, msg->msg_iov, n * sizeof(recv->iov[0]));
	if (n && msg->desc)
		memcpy(recv->desc, msg->desc, n * sizeof(recv->desc[0]));
	recv->msg = *msg;
	recv->msg.msg_iov = recv->iov;
	recv->msg.desc = msg->desc ? recv->desc : NULL;
	recv->flags = flags;
	return recv;
}

bool pmv_held_add(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags, ssize_t *ret)
{
	struct pmv_held *held = &ep->held;
	struct pmv_held_recv *recv;
	bool waits;

	if (pmv_initiator_is_fast(&ep->initiator, PMV_SLOW_UNKNOWN))
		return false;
	pthread_mutex_lock(&held->lock);
	waits = !pmv_initiator_is_fast(&ep->initiator, PMV_SLOW_UNKNOWN);
	if (waits) {
		recv = held->count < held->most ? copy(msg, flags) : NULL;
		*ret = recv ? 0 : -FI_EAGAIN;
		if (recv) {
			STAILQ_INSERT_TAIL(&held->list, recv, next);
			held->count++;
		}
	}
	pthread_mutex_unlock(&held->lock);
	return waits;
}

/* fail_all -- the application is told as if the core had had them; no lock is held */
static void fail_all(struct pmv_ep *ep, struct pmv_held_list *failed)
{
	struct pmv_initiator *ini = &ep->initiator;
	struct pmv_count *count = ini->counts[PMV_COUNT_RECV];
	struct pmv_held_recv *recv;

	while ((recv = STAILQ_FIRST(failed))) {
		uint64_t flags = FI_MSG | FI_RECV | (recv->flags & FI_MULTI_RECV);
		struct pmv_comp *comp = NULL;

		if (ini->owner.rx_queue)
			comp = pmv_comp_error(recv->msg.context, flags, recv->err);
		if (count)
			pmv_count_add(count, false);
		if (comp)
			pmv_queue_add(ini->owner.rx_queue, comp);
		STAILQ_REMOVE_HEAD(failed, next);
		free(recv);
	}
}

/*
 * lock -- also those who number receives: no message uses up one that fails.  Receives are numbered
 * in the order in which they are posted, and posted in that in which they were held.
 */
static void lock(struct pmv_ep *ep)
{
	pthread_mutex_lock(&ep->receives.lock);
	pthread_mutex_lock(&ep->held.lock);
}

static void unlock(struct pmv_ep *ep)
{
	pthread_mutex_unlock(&ep->held.lock);
	pthread_mutex_unlock(&ep->receives.lock);
}

/* take_out -- it is not the core's, and never will be */
static void take_out(struct pmv_ep *ep, struct pmv_held_recv *recv, int err,
		     struct pmv_held_list *failed)
{
	STAILQ_REMOVE(&ep->held.list, recv, pmv_held_recv, next);
	ep->held.count--;
	recv->err = err;
	STAILQ_INSERT_TAIL(failed, recv, next);
	ep->receives.cancelled += atomic_load(&ep->receives.on);
}

void pmv_held_release(struct pmv_ep *ep)
{
	struct pmv_held_list failed = STAILQ_HEAD_INITIALIZER(failed);
	struct pmv_held_recv *recv;

	lock(ep);
	while ((recv = STAILQ_FIRST(&ep->held.list))) {
		ssize_t ret = pmv_msg_post_recv(ep, &recv->msg, recv->flags);

		if (ret) {
			/* It takes no more if the connection has ended already. */
			take_out(ep, recv, ret == -FI_EAGAIN ? FI_ECANCELED : (int) -ret, &failed);
			continue;
		}
		STAILQ_REMOVE_HEAD(&ep->held.list, next);
		ep->held.count--;
		free(recv);
	}
	/* Whoever posts from now on is behind them. */
	atomic_fetch_and(&ep->initiator.slow, ~PMV_SLOW_UNKNOWN);
	unlock(ep);
	fail_all(ep, &failed);
}

bool pmv_held_cancel(struct pmv_ep *ep, const void *context, bool all)
{
	struct pmv_held_list failed = STAILQ_HEAD_INITIALIZER(failed);
	struct pmv_held_recv *recv, *next;
	bool found;

	if (pmv_initiator_is_fast(&ep->initiator, PMV_SLOW_UNKNOWN))
		return false;
	lock(ep);
	for (recv = STAILQ_FIRST(&ep->held.list); recv && (all || STAILQ_EMPTY(&failed));
	     recv = next) {
		next = STAILQ_NEXT(recv, next);
		if (all || recv->msg.context == context)
			take_out(ep, recv, FI_ECANCELED, &failed);
	}
	unlock(ep);
	found = !STAILQ_EMPTY(&failed);
	fail_all(ep, &failed);
	return found;
}
