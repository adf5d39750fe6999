/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.c -- the agent's acknowledgements */
#include "commit/answer.h"

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "commit/batch.h"
#include "commit/flush_request.h"
#include "commit/run.h"

/* After this time without an acknowledgement a probe finds out whether the peer is there. */
#define PROBE_NS INT64_C(200000000)

static int fault_errno(enum pmv_fault fault)
{
	switch (fault) {
	case PMV_FAULT_NONE:
		return 0;
	case PMV_FAULT_ACCESS:
		return FI_EACCES;
	case PMV_FAULT_IO:
		return FI_EIO;
	case PMV_FAULT_MEMORY:
		return FI_ENOMEM;
	case PMV_FAULT_MESSAGE:
		break;
	}
	return FI_EINVAL;
}

/*
 * take_fault -- a request fails if one of its messages does.  Fenced requests behind it
 * fail, too: they promise that it was done.
 */
static void take_fault(struct pmv_initiator *ini, const struct pmv_ack *ack)
{
	struct pmv_op_list *const lists[] = {&ini->awaiting, &ini->stalled};
	struct pmv_op *op;

	if (!ack->fault)
		return;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		STAILQ_FOREACH(op, lists[i], next) {
			const struct pmv_flush_request *request = pmv_to_run(op)->request;

			if (request && (pmv_flush_request_has(request, ack->done) ||
					pmv_flush_request_is_for_all(request)))
				pmv_op_fail(op, fault_errno(ack->fault), 0);
		}
	}
}

static struct pmv_run *first_awaiting(struct pmv_initiator *ini)
{
	return pmv_to_run(STAILQ_FIRST(&ini->awaiting));
}

static void fail_all(struct pmv_initiator *ini)
{
	struct pmv_op *op;

	STAILQ_FOREACH(op, &ini->stalled, next) {
		if (pmv_to_run(op)->request)
			pmv_op_fail(op, FI_ECANCELED, 0);
	}
	while (!STAILQ_EMPTY(&ini->awaiting))
		pmv_run_answered(first_awaiting(ini), FI_ECANCELED);
	ini->payload_message = 0;
}

void pmv_answer_take(struct pmv_initiator *ini)
{
	struct pmv_mailbox *mailbox = ini->mailbox;
	enum pmv_arrival arrival = PMV_NOT_YET;
	struct pmv_ack ack;

	while (mailbox->acked < mailbox->sent &&
	       (arrival = pmv_mailbox_take_ack(mailbox, &ack)) == PMV_ARRIVED) {
		ini->heard_ns = pmv_now_ns();
		take_fault(ini, &ack);
		while (!STAILQ_EMPTY(&ini->awaiting) &&
		       pmv_flush_request_last(first_awaiting(ini)->request) <= ack.done)
			pmv_run_answered(first_awaiting(ini), 0);
	}
	if (arrival == PMV_MALFORMED && !atomic_exchange(&ini->broken, true))
		PMV_WARN(EP_DATA, "the target's agent acknowledges requests that were not sent: "
				  "commits on this connection fail from here on\n");
	if (atomic_load(&ini->broken))
		fail_all(ini);
}

/* post_own -- for no operation of the application; -FI_EAGAIN: not now */
static ssize_t post_own(struct pmv_initiator *ini, enum pmv_run_role role,
			ssize_t (*post)(struct pmv_initiator *ini, struct pmv_run *run))
{
	struct pmv_op *op = pmv_op_get(&ini->owner, PMV_OP_OWN);
	ssize_t ret;

	if (!op)
		return -FI_EAGAIN;
	op->audience = PMV_TELL_NOBODY;
	pmv_to_run(op)->role = role;
	ret = post(ini, pmv_to_run(op));
	if (ret)
		pmv_op_put(ini->owner.pool, op);
	return ret;
}

static ssize_t post_probe(struct pmv_initiator *ini, struct pmv_run *run)
{
	struct pmv_batch_room room;
	uint64_t addr, key;
	struct pmv_wr wr;
	ssize_t ret;

	pmv_mailbox_flush_place(ini->mailbox, &addr, &key);
	pmv_batch_read(ini, run, &wr, &room, addr, 1, key);
	atomic_store(&ini->probing, true);
	ret = pmv_engine_post_one(ini->engine, &wr);
	if (ret)
		atomic_store(&ini->probing, false);
	return ret;
}

/* post_repeat -- one at a time: its buffer must not change until it is sent */
static ssize_t post_repeat(struct pmv_initiator *ini, struct pmv_run *run)
{
	ssize_t ret;

	atomic_store(&ini->repeating, true);
	ret = pmv_mailbox_repeat(ini->mailbox, &run->op);
	if (ret)
		atomic_store(&ini->repeating, false);
	return ret;
}

static ssize_t post_empty(struct pmv_initiator *ini, struct pmv_run *run)
{
	return pmv_mailbox_ask(ini->mailbox, &run->op);
}

/*
 * A target may die after its NIC has taken the request.  Then nothing is in flight that could
 * fail.  So a READ is posted, which fails.
 */
void pmv_answer_probe(struct pmv_initiator *ini)
{
	struct pmv_mailbox *mailbox = ini->mailbox;
	ssize_t ret;

	if (STAILQ_EMPTY(&ini->awaiting) || atomic_load(&ini->probing) ||
	    pmv_now_ns() - ini->heard_ns < PROBE_NS)
		return;
	ret = post_own(ini, PMV_RUN_PROBE, post_probe);
	if (ret == -FI_EAGAIN)
		return;
	ini->heard_ns = pmv_now_ns();
	if (!ret && pmv_mailbox_misses_ack(mailbox)) {
		PMV_WARN(EP_DATA, "somebody has overwritten an acknowledgement of the target's "
				  "agent: commits on this connection fail from here on\n");
		ret = -FI_ECANCELED;
	}
	if (!ret && !atomic_load(&ini->repeating))
		ret = post_own(ini, PMV_RUN_REPEAT, post_repeat);
	if (!ret && pmv_mailbox_may_ask(mailbox))
		ret = post_own(ini, PMV_RUN_NORMAL, post_empty);
	if (ret && ret != -FI_EAGAIN)
		atomic_store(&ini->broken, true);
}
