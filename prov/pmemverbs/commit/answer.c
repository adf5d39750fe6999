/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.c -- the agent's acknowledgements, and what is done when none comes */
#include "commit/answer.h"

#include <rdma/fi_errno.h>

#include "agent/idle_plan.h"
#include "base/clock.h"
#include "base/log.h"
#include "commit/flush_request.h"
#include "commit/interpreter.h"
#include "commit/post.h"
#include "commit/request.h"

static int fault_errno(enum pmv_fault fault)
{
	static const int errnos[] = {
		[PMV_FAULT_ACCESS] = FI_EACCES,
		[PMV_FAULT_IO] = FI_EIO,
		[PMV_FAULT_MEMORY] = FI_ENOMEM,
	};
	bool known = fault < sizeof(errnos) / sizeof(errnos[0]) && errnos[fault];

	return known ? errnos[fault] : FI_EINVAL;
}

/*
 * take_fault -- a request fails if one of its messages does.  Requests behind it that promise
 * that it was done fail, too.
 */
static void take_fault(struct pmv_initiator *ini, const struct pmv_ack *ack)
{
	struct pmv_op_list *const lists[] = {&ini->awaiting, &ini->stalled};
	struct pmv_op *op;

	if (!ack->fault)
		return;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		STAILQ_FOREACH(op, lists[i], next) {
			const struct pmv_run *run = pmv_to_run(op);

			if ((run->request || run->unacked) &&
			    pmv_request_fails_with(&run->asked, ack->done))
				pmv_op_fail(op, fault_errno(ack->fault), 0);
		}
	}
}

static void fail_all(struct pmv_initiator *ini)
{
	struct pmv_op *op;

	STAILQ_FOREACH(op, &ini->stalled, next) {
		if (pmv_to_run(op)->request)
			pmv_op_fail(op, FI_ECANCELED, 0);
	}
	/* Others may still be posted, and a fenced one must not do without what these took. */
	if (!STAILQ_EMPTY(&ini->awaiting))
		atomic_store(&ini->ordering.wrote_agent, true);
	while ((op = STAILQ_FIRST(&ini->awaiting)))
		pmv_interpreter_answered(pmv_to_run(op), FI_ECANCELED);
	ini->payload_message = 0;
}

void pmv_answer_take(struct pmv_initiator *ini)
{
	struct pmv_mailbox *mailbox = ini->mailbox;
	enum pmv_arrival arrival = PMV_NOT_YET;
	struct pmv_ack ack;
	struct pmv_op *op;

	while (mailbox->sender.acked < mailbox->sender.sent &&
	       (arrival = pmv_sender_take_ack(&mailbox->sender, &ack)) == PMV_ARRIVED) {
		ini->heard_ns = pmv_clock_ns();
		take_fault(ini, &ack);
		while ((op = STAILQ_FIRST(&ini->awaiting)) &&
		       pmv_to_run(op)->asked.last <= ack.done) {
			struct pmv_run *run = pmv_to_run(op);
			const struct pmv_flush_request *request = run->request;

			if (request && request->is_chain && request->payload)
				pmv_chain_request_answered(request->chain, run, run->asked.last,
							   &ack);
			pmv_interpreter_answered(run, 0);
		}
	}
	if (arrival == PMV_MALFORMED && !atomic_exchange(&ini->broken, true))
		PMV_WARN(EP_DATA, "the target's agent acknowledges requests that were not sent: "
				  "commits on this connection fail from here on\n");
	if (atomic_load(&ini->broken))
		fail_all(ini);
}

/* post_own -- for no operation of the application; -FI_EAGAIN: not now */
static ssize_t post_own(struct pmv_initiator *ini, atomic_bool *under_way,
			ssize_t (*post)(struct pmv_sender *sender, struct pmv_op *op))
{
	struct pmv_run *run = pmv_run_get_own(ini, under_way);
	ssize_t ret;

	if (!run)
		return -FI_EAGAIN;
	ret = post(&ini->mailbox->sender, &run->op);
	if (ret)
		pmv_run_end(run, 0);
	return ret;
}

static ssize_t post_probe(struct pmv_sender *sender, struct pmv_op *op)
{
	uint64_t addr, key;

	pmv_link_flush_place(sender->link, &addr, &key);
	return pmv_post_read(pmv_to_run(op), addr, 1, key);
}

/*
 * A target may die after its NIC has taken the request.  Then nothing is in flight that could
 * fail.  So a READ is posted, which fails.
 */
void pmv_answer_probe_now(struct pmv_initiator *ini)
{
	struct pmv_mailbox *mailbox = ini->mailbox;
	int64_t now = pmv_clock_ns();
	ssize_t ret;

	pmv_sender_hint_again(&mailbox->sender, now);
	if (atomic_load(&ini->probing) || now - ini->heard_ns < PMV_IDLE_LOSS_NS)
		return;
	ret = post_own(ini, &ini->probing, post_probe);
	if (ret == -FI_EAGAIN)
		return;
	ini->heard_ns = pmv_clock_ns();
	if (!ret && pmv_sender_misses_ack(&mailbox->sender)) {
		PMV_WARN(EP_DATA, "somebody has overwritten an acknowledgement of the target's "
				  "agent: commits on this connection fail from here on\n");
		ret = -FI_ECANCELED;
	}
	/* One at a time: its buffer must not change until it is sent. */
	if (!ret && !atomic_load(&ini->repeating))
		ret = post_own(ini, &ini->repeating, pmv_sender_repeat);
	if (!ret && pmv_sender_may_ask(&mailbox->sender))
		ret = post_own(ini, NULL, pmv_sender_ask);
	if (ret && ret != -FI_EAGAIN)
		atomic_store(&ini->broken, true);
}
