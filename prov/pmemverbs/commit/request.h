/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request.h -- how a request goes to the target's agent, whatever it asks, and how it ends
 *
 * A request is one message or several.  It begins what a run asks of the agent: flush_request.h
 * has the content that there is.  Messages are acknowledged in their order.
 */
#ifndef PMV_REQUEST_H
#define PMV_REQUEST_H

#include "agent/wire.h"
#include "commit/run.h"

struct pmv_request {
	uint64_t first, last; /* numbers of its messages, once they are sent */
	bool relies;          /* it promises that all earlier requests succeed */
};

/* pmv_request_send -- post the next message, whose content is in the sender's slot */
static inline ssize_t pmv_request_send(struct pmv_request *request, struct pmv_run *run,
				       struct pmv_envelope *envelope, uint64_t flags)
{
	struct pmv_sender *sender = &pmv_run_initiator(run)->mailbox->sender;
	/* Without an entry its acknowledgement says that it was sent. */
	bool signaled = pmv_link_signals(sender->link, sender->sent + 1);
	ssize_t ret;

	if (signaled)
		pmv_run_posting(run, 1);
	ret = pmv_sender_send(sender, envelope, signaled ? &run->op : NULL, flags);
	if (ret) {
		if (signaled)
			pmv_run_not_posting(run, 1);
		return ret;
	}
	if (!request->first)
		request->first = envelope->number;
	request->last = envelope->number;
	return 0;
}

/* pmv_request_fails_with -- does it fail if this message does? */
static inline bool pmv_request_fails_with(const struct pmv_request *request, uint64_t message)
{
	return request->relies || (request->first <= message && message <= request->last);
}

#endif /* PMV_REQUEST_H */
