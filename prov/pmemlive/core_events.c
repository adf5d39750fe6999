/* SPDX-License-Identifier: BSD-2-Clause */
/* core_events.c -- the rules of the simulated core, and what it tells: entries of queues, events */
#include "core.h"

#include <stdlib.h>

#include "testcore/fid.h"

struct core_rules core_rules;

struct core_ep *core_to_ep(struct fid *fid)
{
	return testcore_of(fid, struct core_ep, core.fid.fid);
}

static void signal_cq(struct core_cq *cq)
{
	cq->signalled = true;
	cq->signals++;
	cq->armed = false;
}

void core_cq_add(struct testcore_cq *core, const struct testcore_entry *entry)
{
	struct core_cq *cq = testcore_of(core, struct core_cq, core);

	testcore_cq_add(core, entry);
	if (!core_rules.nic || cq->armed)
		signal_cq(cq);
}

struct core_event *core_eq_add(struct core_eq *eq, uint32_t number, struct fid *fid)
{
	struct core_event *event = testcore_need(calloc(1, sizeof(*event)));

	event->event = number;
	event->entry.fid = fid;
	STAILQ_INSERT_TAIL(&eq->events, event, next);
	return event;
}

void core_eq_forget(struct core_eq *eq, const struct fid *fid)
{
	struct core_event *event, *next;

	for (event = STAILQ_FIRST(&eq->events); event; event = next) {
		next = STAILQ_NEXT(event, next);
		if (event->entry.fid != fid)
			continue;
		STAILQ_REMOVE(&eq->events, event, core_event, next);
		if (event->event == FI_CONNREQ)
			fi_freeinfo(event->entry.info);
		free(event);
	}
}
