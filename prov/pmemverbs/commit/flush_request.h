/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flush_request.h -- what one commit asks of the agent, in one message or several
 *
 * A request names the dirty ranges of the commit's regions, or of all regions if the commit
 * is fenced.  A range is dirty from when it is written until a request names it.  A request
 * takes its ranges under the initiator's lock, which is held until the request is posted or
 * stands at the end of the list that waits for room.  So requests arrive in the order in
 * which they took ranges, and an acknowledgement also covers the ranges of all earlier
 * requests.
 */
#ifndef PMV_FLUSH_REQUEST_H
#define PMV_FLUSH_REQUEST_H

#include "agent/wire.h"
#include "commit/submit.h"

/* The most regions that a commit may name. */
#define PMV_FLUSH_REQUEST_KEYS 8

struct pmv_flush_request;

/*
 * pmv_flush_request_new -- about the submission's regions, or about all regions.  payload:
 * the agent stores the data.  NULL: no memory.
 */
struct pmv_flush_request *pmv_flush_request_new(struct pmv_initiator *ini,
						const struct pmv_submission *submission, bool all,
						bool payload);
void pmv_flush_request_free(struct pmv_flush_request *request);

/*
 * pmv_flush_request_fits -- does one message hold the data and everything that is dirty?
 * Holds the initiator's lock.
 */
bool pmv_flush_request_fits(struct pmv_initiator *ini, const struct pmv_submission *submission);

/* pmv_flush_request_notify -- the agent is to notify the target's application */
void pmv_flush_request_notify(struct pmv_flush_request *request, uint64_t data);

/*
 * pmv_flush_request_take -- what is dirty now; holds the initiator's lock.  -FI_ENOMEM:
 * nothing is taken.
 */
ssize_t pmv_flush_request_take(struct pmv_initiator *ini, struct pmv_flush_request *request);

/* pmv_flush_request_mute -- the commit has failed: the agent stores nothing, notifies nobody */
void pmv_flush_request_mute(struct pmv_flush_request *request);

/*
 * pmv_flush_request_unread -- the next part of its ranges to read back, at most `most` bytes;
 * false: all is read.  pmv_flush_request_was_read: a READ of its first `len` bytes was posted.
 */
bool pmv_flush_request_unread(const struct pmv_flush_request *request, uint64_t most,
			      struct pmv_range *range);
void pmv_flush_request_was_read(struct pmv_flush_request *request, uint64_t len);

/*
 * pmv_flush_request_next -- the next message; true: it is the last one.
 * pmv_flush_request_was_sent: it has this number.
 */
bool pmv_flush_request_next(const struct pmv_flush_request *request, struct pmv_message *message);
void pmv_flush_request_was_sent(struct pmv_flush_request *request,
				const struct pmv_message *message);

/* pmv_flush_request_last -- number of its last message, once all are sent */
uint64_t pmv_flush_request_last(const struct pmv_flush_request *request);
bool pmv_flush_request_has(const struct pmv_flush_request *request, uint64_t number);
bool pmv_flush_request_is_for_all(const struct pmv_flush_request *request);
bool pmv_flush_request_has_payload(const struct pmv_flush_request *request);

#endif /* PMV_FLUSH_REQUEST_H */
