/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_forgotten.c -- operations of which RxM tells nothing any more; rdm_forgotten.h says which */
#include "rdm/rdm_forgotten.h"

#include <rdma/fi_errno.h>

void pmv_rdm_forgotten_init(struct pmv_rdm_forgotten *forgotten, struct pmv_op_pool *pool)
{
	*forgotten = (struct pmv_rdm_forgotten){.pool = pool};
	STAILQ_INIT(&forgotten->left);
	STAILQ_INIT(&forgotten->ended);
}

/* next_of -- all that are under way, one after the other, and then NULL */
static struct pmv_rdm_op *next_of(const struct pmv_rdm_forgotten *forgotten, struct pmv_rdm_op *op)
{
	return (struct pmv_rdm_op *) pmv_op_next(forgotten->pool, op ? &op->op : NULL);
}

void pmv_rdm_forgotten_leave(struct pmv_rdm_forgotten *forgotten, struct pmv_op_list *ops)
{
	STAILQ_CONCAT(&forgotten->left, ops);
	atomic_store(&forgotten->any_left, true);
}

void pmv_rdm_forgotten_note(struct pmv_rdm_forgotten *forgotten)
{
	uint64_t losses = atomic_load(&pmv_lost_writes_all_losses);
	struct pmv_rdm_op *op = NULL;

	STAILQ_CONCAT(&forgotten->ended, &forgotten->left);
	atomic_store(&forgotten->any_left, false);
	while (forgotten->losses != losses && (op = next_of(forgotten, op))) {
		if (op->peer && op->losses != pmv_lost_writes_losses(op->peer))
			op->forgotten = forgotten->any = true;
	}
	forgotten->losses = losses;
}

bool pmv_rdm_forgotten_is_noted(const struct pmv_rdm_forgotten *forgotten)
{
	return forgotten->losses == atomic_load(&pmv_lost_writes_all_losses) &&
	       !atomic_load(&forgotten->any_left);
}

bool pmv_rdm_forgotten_is_over(const struct pmv_rdm_forgotten *forgotten)
{
	return !forgotten->any && STAILQ_EMPTY(&forgotten->ended);
}

static void fail(struct pmv_rdm_op *op)
{
	bool silent = pmv_lost_writes_was_given_up(op->peer, op->losses);

	op->forgotten = false;
	op->peer = NULL;
	op->op.lives++;
	pmv_op_fail(&op->op, silent ? FI_ETIMEDOUT : FI_ECANCELED, 0);
	pmv_rdm_fence_end(&op->ticket);
}

bool pmv_rdm_forgotten_end(struct pmv_rdm_forgotten *forgotten, struct pmv_rdm_op_list *failed)
{
	struct pmv_rdm_op *op = NULL;
	bool any = false;

	while (forgotten->any && (op = next_of(forgotten, op))) {
		/* Of one that was executed, it is a write that is under way. */
		if (!op->forgotten || op->executed)
			continue;
		fail(op);
		STAILQ_INSERT_TAIL(failed, op, next);
		any = true;
	}
	forgotten->any = false;
	return any;
}

void pmv_rdm_forgotten_put(struct pmv_rdm_forgotten *forgotten)
{
	struct pmv_op *op;

	while ((op = STAILQ_FIRST(&forgotten->ended))) {
		STAILQ_REMOVE_HEAD(&forgotten->ended, next);
		pmv_op_put(forgotten->pool, op);
	}
}
