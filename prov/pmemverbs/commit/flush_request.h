/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flush_request.h -- what one commit asks of the agent, in as many messages as it takes
 *
 * A request names everything that was written to the commit's regions (to all regions, if
 * the commit is fenced) and that the agent has not been told of.  It takes that from the
 * dirty ranges under the initiator's lock, which is held until the request is posted or
 * waits behind all others.  So requests arrive in the order in which they took, and the
 * acknowledgement of one covers everything that earlier ones took.
 */
#ifndef PMV_FLUSH_REQUEST_H
#define PMV_FLUSH_REQUEST_H

#include "agent/wire.h"
#include "commit/submit.h"

/* A commit names so many regions at most. */
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
 * pmv_flush_request_unread -- of what it names the next part to read back, at most so long;
 * false: all is read.  pmv_flush_request_was_read: so much of it was posted.
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
