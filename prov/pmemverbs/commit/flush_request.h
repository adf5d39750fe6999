/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flush_request.h -- what one commit tells the agent: as many messages as it takes
 *
 * A letter names everything that was written to the commit's regions (all
 * regions, if it is fenced) and that the agent has not been told of.  What is
 * dirty is taken under the endpoint's lock, which is held until the letter is
 * posted or queues behind all others.  So letters arrive in the order in which
 * they took, and the acknowledgement of one covers what any earlier one took.
 */
#ifndef PMV_FLUSH_REQUEST_H
#define PMV_FLUSH_REQUEST_H

#include "commit/commit.h"

/* So many regions does a commit name at most: a letter takes no more. */
#define PMV_FLUSH_REQUEST_KEYS 8

enum pmv_flush_request_kind {
	PMV_FLUSH_REQUEST_BEHIND,  /* behind the operation: about its regions */
	PMV_FLUSH_REQUEST_FIRST,   /* before it, and about all regions */
	PMV_FLUSH_REQUEST_CARRIES, /* instead of it: about all regions, and the agent stores the
				      data */
};

/* pmv_flush_request_new -- fenced: it must not pass a READ in front of it.  NULL: no memory. */
struct pmv_flush_request *pmv_flush_request_new(struct pmv_ep *ep, const struct pmv_commit *commit,
						enum pmv_flush_request_kind kind, bool fenced);
void pmv_flush_request_free(struct pmv_flush_request *letter);

/* pmv_flush_request_may_carry -- does one message hold the data and all that is dirty? */
bool pmv_flush_request_may_carry(struct pmv_ep *ep, const struct pmv_commit *commit);

/* pmv_flush_request_take -- what is dirty now; holds the endpoint's lock; -FI_ENOMEM: nothing is
 * taken */
ssize_t pmv_flush_request_take(struct pmv_ep *ep, struct pmv_flush_request *letter);

/* pmv_flush_request_mute -- the commit has failed: nothing is to be stored, nobody to be notified
 */
void pmv_flush_request_mute(struct pmv_flush_request *letter);

/*
 * pmv_flush_request_read_back -- what it names has to be read before it is sent.
 * pmv_flush_request_unread: the next part of that, at most so long; false: there is none.
 * pmv_flush_request_was_read: so much of it is posted.
 */
void pmv_flush_request_read_back(struct pmv_flush_request *letter);
bool pmv_flush_request_reads_back(const struct pmv_flush_request *letter);
bool pmv_flush_request_unread(const struct pmv_flush_request *letter, uint64_t most,
			      struct pmv_range *range);
void pmv_flush_request_was_read(struct pmv_flush_request *letter, uint64_t len);

/* pmv_flush_request_notify -- the agent is to notify the target's application */
void pmv_flush_request_notify(struct pmv_flush_request *letter, uint64_t data);

/*
 * pmv_flush_request_post -- post what is left of a request's letter; holds the
 * endpoint's lock.  Each message takes a reference of the request's.
 * fenced: reads that may be under way come first.  -FI_EAGAIN: no room now.  0:
 * all is posted, and the letter's number is known.
 */
ssize_t pmv_flush_request_post(struct pmv_ep *ep, struct pmv_commit_op *req, bool fenced);

/* pmv_flush_request_last -- number of its last message, once all are posted */
uint64_t pmv_flush_request_last(const struct pmv_flush_request *letter);
bool pmv_flush_request_has(const struct pmv_flush_request *letter, uint64_t number);
bool pmv_flush_request_carries(const struct pmv_flush_request *letter);
bool pmv_flush_request_is_for_all(const struct pmv_flush_request *letter);

#endif /* PMV_FLUSH_REQUEST_H */
