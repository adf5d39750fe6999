/* SPDX-License-Identifier: BSD-2-Clause */
/* ep_close.c -- endpoints: closing */
#include "objects/ep.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "auth/admission.h"
#include "commit/lost_writes.h"
#include "commit/push.h"
#include "commit/run.h"
#include "objects/cq.h"

/* report_abandoned -- as cancelled; if the core does complete it later, nobody is told */
static void report_abandoned(struct pmv_ep *ep, struct pmv_op *op)
{
	enum pmv_count_kind kind = pmv_count_kind(op->flags);
	struct pmv_count *count = ep->initiator.counts[kind];
	struct pmv_comp *comp;

	if (count && pmv_to_run(op)->counted)
		pmv_count_add(count, false);
	pmv_unread_drop(&op->comp);
	if (op->told.audience == PMV_TELL_NOBODY)
		return;
	comp = pmv_comp_error(op->context, op->flags, FI_ECANCELED);
	if (comp)
		pmv_queue_add(pmv_ep_queue(ep, kind), comp);
}

/*
 * abandon_operations -- under the locks of the queues, so that no reader is about to
 * report one of them, or still looks at the endpoint
 */
static void abandon_operations(struct pmv_ep *ep)
{
	struct pmv_queue *tx = ep->initiator.owner.tx_queue, *rx = ep->initiator.owner.rx_queue;
	struct pmv_queue *first = tx < rx ? tx : rx;
	struct pmv_queue *second = tx < rx ? rx : tx;
	struct pmv_op_list list;
	struct pmv_op *op;

	if (first && first != second)
		pthread_mutex_lock(&first->lock);
	if (second)
		pthread_mutex_lock(&second->lock);
	list = pmv_push_abandon(&ep->initiator);
	STAILQ_FOREACH(op, &list, next)
		report_abandoned(ep, op);
	if (second)
		pthread_mutex_unlock(&second->lock);
	if (first && first != second)
		pthread_mutex_unlock(&first->lock);
}

static void release_cntrs(struct pmv_ep *ep)
{
	for (int i = 0; i < PMV_COUNT_KINDS; i++) {
		struct pmv_cntr *cntr;

		if (!ep->initiator.counts[i])
			continue;
		cntr = pmv_ep_cntr(ep, i);
		if (ep->sources[i].queue)
			pmv_cntr_drop(cntr, &ep->sources[i]);
		atomic_fetch_sub(&cntr->users, 1);
	}
}

/* take_leftovers -- what the core has put into its queues when its endpoint was closed */
static void take_leftovers(struct pmv_ep *ep)
{
	struct pmv_queue *tx = ep->initiator.owner.tx_queue, *rx = ep->initiator.owner.rx_queue;

	if (tx) {
		pmv_push_drop_all(&ep->initiator);
		pmv_queue_progress(tx, false);
	}
	if (rx && rx != tx && !pmv_initiator_is_fast(&ep->initiator, PMV_SLOW_COUNT_RX))
		pmv_queue_progress(rx, false);
}

/*
 * defer_free -- a layer above closes an endpoint, and only then reads from its queue what had
 * arrived there: it posts those receives again, and answers, on the closed endpoint.  These calls
 * have no effect (pmv_post_gone).  When it closes another one of the queue, or the queue, it has
 * read all that: rdm.h says why, and what the exception is.  An application does not call what it
 * has closed.
 */
static void defer_free(struct pmv_ep *ep)
{
	struct pmv_queue *queue = ep->initiator.owner.rx_queue;

	if (!ep->domain->hooks || !queue) {
		free(ep);
		return;
	}
	ep->initiator.hooks = NULL;
	free(atomic_exchange(&pmv_container_of(queue, struct pmv_cq, queue)->closed_ep, ep));
}

/* lose_connection -- with a layer above that makes another one */
static void lose_connection(struct pmv_ep *ep)
{
	struct pmv_lost_writes *tracker = ep->initiator.tracker;

	if (!tracker)
		return;
	if (atomic_load(&ep->silence.given_up))
		pmv_lost_writes_given_up(tracker);
	pmv_lost_writes_disconnected(tracker);
	ep->domain->hooks->lost(&ep->domain->domain_fid);
}

/* stop -- its core's endpoint is closed, and all that was under way is told */
static int stop(struct pmv_ep *ep)
{
	struct pmv_agent *agent = &ep->domain->agent;
	int ret;

	/* Whoever reads the queue must not post to what is being closed. */
	pmv_initiator_unwait(&ep->initiator);
	pmv_agent_detach(agent, &ep->mailbox.receiver, true);
	ret = pmv_eq_close(ep->eq, &ep->ep_fid.fid);
	if (ret) {
		ep->mailbox.receiver.closing = false;
		pmv_agent_attach(agent, &ep->mailbox.receiver);
		if (ep->initiator.owner.tx_queue)
			pmv_initiator_wait(&ep->initiator, PMV_PENDING_POSTS);
		pmv_ep_watch(ep);
		return ret;
	}
	pmv_agent_forget(agent, &ep->mailbox.receiver);
	take_leftovers(ep);
	/* Of other endpoints, too. */
	pmv_agent_nudge(agent);
	pmv_held_cancel(ep, NULL, true);
	abandon_operations(ep);
	if (ep->initiator.owner.tx_queue)
		pmv_queue_leave(ep->initiator.owner.tx_queue, &ep->initiator.owner);
	pmv_tally_leave(ep);
	lose_connection(ep);
	release_cntrs(ep);
	/* Of the core's endpoint nothing is left, whether the rest can be closed or not. */
	atomic_store(&ep->receives.on, false);
	atomic_store(&ep->initiator.slow, PMV_SLOW_GONE | (ep->domain->hooks ? PMV_SLOW_HOOKS : 0));
	ep->stopped = true;
	return 0;
}

static int close_own_cq(struct pmv_ep *ep)
{
	struct pmv_op_owner *owner = &ep->initiator.owner;
	int ret = ep->own_cq ? fi_close(&ep->own_cq->cq_fid.fid) : 0;

	if (ret || !ep->own_cq)
		return ret;
	if (owner->rx_queue == &ep->own_cq->queue)
		owner->rx_queue = NULL;
	ep->own_cq = NULL;
	return 0;
}

int pmv_ep_close(struct fid *fid)
{
	struct pmv_ep *ep = pmv_container_of(fid, struct pmv_ep, ep_fid.fid);
	int ret = ep->stopped ? 0 : stop(ep);

	/* What can't be closed is closed again with the endpoint, which is there until then. */
	if (!ret)
		ret = pmv_receiver_close(&ep->mailbox.receiver);
	if (!ret)
		ret = pmv_link_close(&ep->mailbox.link);
	if (!ret)
		ret = close_own_cq(ep);
	if (ret)
		return ret;
	if (ep->wants_agent)
		pmv_agent_unwant(&ep->domain->agent);
	pmv_receive_tracker_destroy(&ep->receives);
	pmv_initiator_destroy(&ep->initiator);
	pmv_op_owner_close(&ep->initiator.owner);
	pmv_admission_free(ep->admission);
	pmv_held_destroy(&ep->held);
	atomic_fetch_sub(&ep->domain->users, 1);
	defer_free(ep);
	return 0;
}
