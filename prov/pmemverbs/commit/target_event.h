/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target_event.h -- operations of which the target's application is to be told (FI_RMA_EVENT)
 *
 * The key says whether it wants to be told of writes and atomics to a region.  Then the
 * operation has a request to the agent behind it, whether it commits or not, and completes
 * when that is acknowledged.  So an initiator that goes away after the completion takes no
 * event with it.  The request comes behind the data, on the same connection.  If a flush makes
 * the data durable the request is fenced behind it; if the path keeps no order the data are
 * read back first.
 */
#ifndef PMV_TARGET_EVENT_H
#define PMV_TARGET_EVENT_H

#include "agent/flush_message.h"
#include "commit/initiator.h"
#include "commit/submission.h"

/* pmv_target_event_is_wanted -- of an operation that does not commit */
bool pmv_target_event_is_wanted(const struct pmv_initiator *ini,
				const struct pmv_submission *submission);

/* pmv_target_event_check -- 0, or a negative fi_errno: nobody could tell of a write to such memory
 */
ssize_t pmv_target_event_check(const struct pmv_initiator *ini, const struct pmv_attr *attr);

/* pmv_target_event_of -- what the agent tells of an operation, if the target wants to be told */
enum pmv_rma_event pmv_target_event_of(const struct pmv_submission *submission);

#endif /* PMV_TARGET_EVENT_H */
