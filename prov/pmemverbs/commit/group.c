/* SPDX-License-Identifier: BSD-2-Clause */
/* group.c -- group commit; group.h says when */
#include "commit/group.h"

#include "commit/flush_request.h"
#include "commit/interpreter.h"
#include "commit/ordering.h"
#include "commit/prepare.h"

bool pmv_group_takes(const struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_attr attr;

	if (pmv_initiator_is_fast(ini, PMV_SLOW_ALL) ||
	    !(submission->what & (FI_WRITE | FI_ATOMIC)) || pmv_submission_only_reads(submission))
		return false;
	/* No byte of it has to be durable, and nobody hears of its end. */
	if (submission->inject && !submission->to->len)
		return false;
	for (size_t i = 0; i < submission->num_to; i++) {
		if (pmv_ordering_attr(ini, submission->to[i].key, &attr) && attr.pmem)
			return true;
	}
	return false;
}

/* The regions of one flush. */
struct regions {
	struct fi_rma_iov to[PMV_FLUSH_REQUEST_KEYS];
	size_t count;
	bool read; /* for one of its members a READ is enough */
};

/* add_region -- of a member; false: there is no room for another one */
static bool add_region(struct pmv_run *flush, struct regions *regions, const struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(flush);

	/* A region that needs the agent has no members without one: choose_place. */
	if (!ini->mailbox->link.peer.agent ||
	    !(pmv_ordering_note_key(ini, run->place_key) & PMV_NOTE_AGENT)) {
		regions->read = true;
		flush->place_addr = run->place_addr;
		flush->place_key = run->place_key;
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

static void begin(struct pmv_run *flush, const struct pmv_submission *regions, bool read)
{
	ssize_t ret = pmv_prepare_flush(flush, regions, read);

	if (!ret && flush->request)
		ret = pmv_interpreter_take_ranges(flush);
	if (ret)
		pmv_run_end(flush, (int) -ret);
	else
		pmv_interpreter_go_on(flush);
}

void pmv_group_next(struct pmv_initiator *ini, bool looking)
{
	struct pmv_group *group = &ini->group;
	struct regions regions;
	struct pmv_op *member;
	struct pmv_run *flush;

	if (STAILQ_EMPTY(&group->members))
		return;
	/* The agent's thread reads the queue, too, but needs no flush. */
	if (looking || pmv_queue_is_armed(ini->owner.tx_queue) ||
	    pmv_queue_is_armed(ini->owner.rx_queue))
		group->wanted = true;
	if (!group->wanted || atomic_load(&group->flushing))
		return;
	flush = pmv_run_get_own(ini, &group->flushing);
	if (!flush)
		return;
	STAILQ_INIT(&flush->members);
	regions.count = regions.read = 0;
	while ((member = STAILQ_FIRST(&group->members)) &&
	       add_region(flush, &regions, pmv_to_run(member))) {
		STAILQ_REMOVE_HEAD(&group->members, next);
		STAILQ_INSERT_TAIL(&flush->members, member, next);
	}
	group->wanted = !STAILQ_EMPTY(&group->members);
	group->flush = flush;
	begin(flush, &(struct pmv_submission){.to = regions.to, .num_to = regions.count},
	      regions.read);
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
