/* SPDX-License-Identifier: BSD-2-Clause */
/* target_event.c -- what the target's application is told of; target_event.h says how */
#include "commit/target_event.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "commit/ordering.h"

bool pmv_target_event_is_wanted(const struct pmv_initiator *ini,
				const struct pmv_submission *submission)
{
	struct pmv_attr attr;

	if (!(submission->what & (FI_WRITE | FI_ATOMIC)) || pmv_submission_only_reads(submission))
		return false;
	for (size_t i = 0; i < submission->num_to; i++) {
		if (pmv_ordering_attr(ini, submission->to[i].key, &attr) && attr.events)
			return true;
	}
	return false;
}

static ssize_t refuse(const char *why)
{
	PMV_WARN(EP_DATA,
		 "write refused: the target's application wants to be told of it (FI_RMA_EVENT), "
		 "but %s\n",
		 why);
	return -FI_EOPNOTSUPP;
}

ssize_t pmv_target_event_check(const struct pmv_initiator *ini, const struct pmv_attr *attr)
{
	const struct pmv_mailbox *mailbox = ini->mailbox;

	if (!mailbox->link.connected)
		return refuse("the target's provider has sent no mailbox when it connected");
	if (!mailbox->link.peer.agent)
		return refuse("the target's agent is switched off (FI_PMEMVERBS_AGENT)");
	if (attr->relaxed && !attr->readable)
		return refuse("the path may reorder writes (FI_PMEMVERBS_ORDERING=relaxed) and "
			      "nothing can be read back there; register the region with "
			      "FI_REMOTE_READ");
	return 0;
}

enum pmv_rma_event pmv_target_event_of(const struct pmv_submission *submission)
{
	if (pmv_submission_only_reads(submission))
		return PMV_EVENT_NONE;
	if ((submission->what & FI_ATOMIC) && (submission->what & FI_READ))
		return PMV_EVENT_FETCH;
	if (pmv_submission_notifies(submission))
		return PMV_EVENT_DATA;
	return submission->what & FI_ATOMIC ? PMV_EVENT_ATOMIC : PMV_EVENT_WRITE;
}
