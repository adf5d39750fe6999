/* SPDX-License-Identifier: BSD-2-Clause */
/* push.c -- what waits is carried on; push.h says by whom */
#include "commit/push.h"

#include <rdma/fi_errno.h>

#include "base/container.h"
#include "commit/answer.h"
#include "commit/group.h"
#include "commit/interpreter.h"

enum pmv_pending pmv_push_pending(struct pmv_initiator *ini)
{
	enum pmv_pending group = pmv_group_pending(ini);
	bool stalls = !STAILQ_EMPTY(&ini->stalled);

	if (stalls && !pmv_interpreter_lacks_slot(ini))
		return PMV_PENDING_POSTS;
	/* A probe has failed: the next look fails all. */
	if (!STAILQ_EMPTY(&ini->awaiting) && atomic_load(&ini->broken))
		return PMV_PENDING_POSTS;
	if (group > PMV_PENDING_ACKS)
		return group;
	return stalls || !STAILQ_EMPTY(&ini->awaiting) ? PMV_PENDING_ACKS : group;
}

enum pmv_pending pmv_push(struct pmv_initiator *ini, bool looking)
{
	enum pmv_pending pending;

	pthread_mutex_lock(&ini->lock);
	pmv_answer_take(ini);
	pmv_interpreter_push(ini);
	pmv_group_next(ini, looking);
	pmv_answer_probe(ini);
	pmv_interpreter_gate(ini);
	pending = pmv_push_pending(ini);
	pthread_mutex_unlock(&ini->lock);
	return pending;
}

/* push_for -- who sleeps on the other queue has to know what is waited for: it alone may be read */
static enum pmv_pending push_for(struct pmv_initiator *ini, struct pmv_queue *own,
				 struct pmv_queue *other, bool looking)
{
	enum pmv_pending pending = pmv_push(ini, looking);

	if (other && other != own)
		pmv_queue_raise_pending(other, pending);
	return pending;
}

static enum pmv_pending push_tx(struct pmv_waiter *waiter, bool looking)
{
	struct pmv_initiator *ini = pmv_container_of(waiter, struct pmv_initiator, on_tx_queue);

	return push_for(ini, ini->owner.tx_queue, ini->owner.rx_queue, looking);
}

static enum pmv_pending push_rx(struct pmv_waiter *waiter, bool looking)
{
	struct pmv_initiator *ini = pmv_container_of(waiter, struct pmv_initiator, on_rx_queue);

	return push_for(ini, ini->owner.rx_queue, ini->owner.tx_queue, looking);
}

static void lost(struct pmv_op_owner *owner)
{
	atomic_store(&pmv_container_of(owner, struct pmv_initiator, owner)->broken, true);
}

static void count_failed(struct pmv_initiator *ini, struct pmv_op *op)
{
	if (pmv_to_run(op)->commits)
		atomic_fetch_add_explicit(&ini->commits.failed, 1, memory_order_relaxed);
}

/* note_failed -- a fenced operation must not do without it before the application knows of it */
static void note_failed(struct pmv_initiator *ini, struct pmv_op *op)
{
	if (!(op->flags & (FI_WRITE | FI_SEND | FI_ATOMIC)))
		return;
	/* Nobody will ever read of it, or a layer above does, long before the application. */
	if (op->told.audience == PMV_TELL_NOBODY || ini->hooks)
		atomic_store(&ini->untold_failure, true);
	else if (ini->failures)
		pmv_unread_add(ini->failures, &op->comp);
	else
		atomic_store(&ini->broken, true);
}

static void failed(struct pmv_op_owner *owner, struct pmv_op *op)
{
	struct pmv_initiator *ini = pmv_container_of(owner, struct pmv_initiator, owner);

	count_failed(ini, op);
	note_failed(ini, op);
}

void pmv_push_init(struct pmv_initiator *ini)
{
	ini->owner.ended = pmv_interpreter_ended;
	ini->owner.failed = failed;
	ini->owner.lost = lost;
	ini->on_tx_queue.push = push_tx;
	ini->on_rx_queue.push = push_rx;
}

void pmv_push_drop_all(struct pmv_initiator *ini)
{
	struct pmv_op *op;

	pthread_mutex_lock(&ini->lock);
	while ((op = STAILQ_FIRST(&ini->stalled))) {
		STAILQ_REMOVE_HEAD(&ini->stalled, next);
		pmv_run_set_unacked(pmv_to_run(op), false);
		pmv_run_end(pmv_to_run(op), FI_ECANCELED);
	}
	while ((op = STAILQ_FIRST(&ini->awaiting)))
		pmv_interpreter_answered(pmv_to_run(op), FI_ECANCELED);
	pmv_run_end_all(&ini->group.members, FI_ECANCELED, 0);
	pmv_interpreter_gate(ini);
	pthread_mutex_unlock(&ini->lock);
}

struct pmv_op_list pmv_push_abandon(struct pmv_initiator *ini)
{
	struct pmv_op_list list;
	struct pmv_op *op;

	/* Their flush holds them, and will not end. */
	if (ini->group.flush)
		pmv_run_end_all(&ini->group.flush->members, FI_ECANCELED, 0);
	list = pmv_op_abandon(&ini->owner);
	STAILQ_FOREACH(op, &list, next) {
		/* Others have been counted. */
		if (!pmv_run_has_failed(pmv_to_run(op)))
			count_failed(ini, op);
		pmv_interpreter_release(pmv_to_run(op));
		pmv_to_run(op)->sample.weight = 0;
	}
	return list;
}
