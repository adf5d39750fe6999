/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request.h -- how a request goes to the target's agent, whatever it asks, and how it ends
 *
 * A request is one message or several, which are acknowledged in their order.  What it asks is its
 * content.  There is one kind of content: flush_request.h.
 */
#ifndef PMV_REQUEST_H
#define PMV_REQUEST_H

#include "agent/wire.h"
#include "base/clock.h"
#include "commit/run.h"

/* pmv_request_send -- post the next message, whose content is in the sender's slot */
static inline ssize_t pmv_request_send(struct pmv_run *run, struct pmv_envelope *envelope,
				       uint64_t flags)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_sender *sender = &ini->mailbox->sender;
	struct pmv_request *asked = &run->asked;
	/* Without an entry its acknowledgement says that it was sent. */
	bool signaled = pmv_link_signals(sender->link, sender->sent + 1);
	ssize_t ret;

	/* Nothing is unanswered, or only an empty message: the peer is not silent so far. */
	if (sender->acked == sender->sent || (STAILQ_EMPTY(&ini->awaiting) && !sender->in_request))
		ini->heard_ns = pmv_clock_ns();
	if (signaled)
		pmv_run_posting(run, 1);
	ret = pmv_sender_send(sender, envelope, signaled ? &run->op : NULL, flags);
	if (ret) {
		if (signaled)
			pmv_run_not_posting(run, 1);
		return ret;
	}
	if (!asked->first)
		asked->first = envelope->number;
	asked->last = envelope->number;
	return 0;
}

/* pmv_request_fails_with -- does it fail if this message does? */
static inline bool pmv_request_fails_with(const struct pmv_request *asked, uint64_t message)
{
	return asked->relies || (asked->first <= message && message <= asked->last);
}

#endif /* PMV_REQUEST_H */
