/* SPDX-License-Identifier: BSD-2-Clause */
/* group.c -- group commit; group.h says when */
#include "commit/group.h"

#include <rdma/fi_errno.h>

#include "commit/flush_request.h"
#include "commit/ordering.h"
#include "commit/start.h"

bool pmv_group_takes(const struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_attr attr;

	if (pmv_initiator_is_fast(ini, PMV_SLOW_ALL) ||
	    !(submission->what & (FI_WRITE | FI_ATOMIC)) ||
	    (submission->wr.kind == PMV_WR_ATOMIC &&
	     submission->wr.atomic->msg->op == FI_ATOMIC_READ))
		return false;
	/* Which nothing would end. */
	if (submission->wr.inject && !submission->to->len)
		return false;
	for (size_t i = 0; i < submission->num_to; i++) {
		if (pmv_ordering_attr(ini, submission->to[i].key, &attr) && attr.pmem)
			return true;
	}
	return false;
}

bool pmv_group_join(struct pmv_initiator *ini, struct pmv_run *run)
{
	struct pmv_group *group = &ini->group;
	bool first = STAILQ_EMPTY(&group->members) && !atomic_load(&group->flushing);

	STAILQ_INSERT_TAIL(&group->members, &run->op, next);
	return first;
}

/* The regions of one flush. */
struct regions {
	struct fi_rma_iov to[PMV_FLUSH_REQUEST_KEYS];
	size_t count;
	bool read; /* for one of its members a READ is enough */
	uint64_t addr;
	uint64_t key;
};

/* add_region -- of a member; false: there is no room for another one */
static bool add_region(struct pmv_initiator *ini, struct regions *regions,
		       const struct pmv_run *run)
{
	if (!pmv_ordering_is_for_agent(ini, run->place_key)) {
		regions->read = true;
		regions->addr = run->place_addr;
		regions->key = run->place_key;
		return true;
	}
	for (size_t i = 0; i < regions->count; i++) {
		if (regions->to[i].key == run->place_key)
			return true;
	}
	if (regions->count == PMV_FLUSH_REQUEST_KEYS)
		return false;
	regions->to[regions->count++] =
		(struct fi_rma_iov){.addr = run->place_addr, .key = run->place_key};
	return true;
}

void pmv_group_next(struct pmv_initiator *ini, bool looking)
{
	struct pmv_group *group = &ini->group;
	struct regions regions = {.count = 0};
	struct pmv_op *op, *member;
	struct pmv_run *flush;

	if (STAILQ_EMPTY(&group->members))
		return;
	/* The agent's thread reads the queue, too, but needs no flush. */
	if (looking || pmv_queue_is_armed(ini->owner.tx_queue) ||
	    pmv_queue_is_armed(ini->owner.rx_queue))
		group->wanted = true;
	if (!group->wanted || atomic_load(&group->flushing))
		return;
	op = pmv_op_get(&ini->owner, PMV_OP_OWN);
	if (!op)
		return;
	flush = pmv_to_run(op);
	STAILQ_INIT(&flush->members);
	while ((member = STAILQ_FIRST(&group->members)) &&
	       add_region(ini, &regions, pmv_to_run(member))) {
		STAILQ_REMOVE_HEAD(&group->members, next);
		STAILQ_INSERT_TAIL(&flush->members, member, next);
	}
	group->wanted = !STAILQ_EMPTY(&group->members);
	flush->role = PMV_RUN_GROUP;
	op->audience = PMV_TELL_NOBODY;
	op->flags = FI_RMA | FI_WRITE;
	flush->place_addr = regions.addr;
	flush->place_key = regions.key;
	group->flush = flush;
	atomic_store(&group->flushing, true);
	pmv_start_flush(flush, &(struct pmv_submission){.to = regions.to, .num_to = regions.count},
			regions.read);
}

/* end_members -- err: 0 or a positive fi_errno */
static void end_members(struct pmv_op_list *members, int err, int prov_errno)
{
	struct pmv_op *op;

	while ((op = STAILQ_FIRST(members))) {
		STAILQ_REMOVE_HEAD(members, next);
		if (err)
			pmv_op_fail(op, err, prov_errno);
		pmv_run_end(pmv_to_run(op), 0);
	}
}

void pmv_group_flushed(struct pmv_initiator *ini, struct pmv_run *flush)
{
	end_members(&flush->members, atomic_load(&flush->op.error), flush->op.prov_errno);
	ini->group.flush = NULL;
	atomic_store(&ini->group.flushing, false);
}

enum pmv_pending pmv_group_pending(struct pmv_initiator *ini)
{
	if (atomic_load(&ini->group.flushing))
		return PMV_PENDING_FLUSH;
	return STAILQ_EMPTY(&ini->group.members) ? PMV_PENDING_NONE : PMV_PENDING_POSTS;
}

bool pmv_group_is_idle(struct pmv_initiator *ini)
{
	bool idle;

	if (pmv_initiator_is_fast(ini, PMV_SLOW_ALL))
		return true;
	pthread_mutex_lock(&ini->lock);
	idle = pmv_group_pending(ini) == PMV_PENDING_NONE;
	pthread_mutex_unlock(&ini->lock);
	return idle;
}

void pmv_group_drop(struct pmv_initiator *ini)
{
	end_members(&ini->group.members, FI_ECANCELED, 0);
}

void pmv_group_abandon(struct pmv_initiator *ini)
{
	if (ini->group.flush)
		end_members(&ini->group.flush->members, FI_ECANCELED, 0);
}
