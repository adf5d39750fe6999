/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flush_request.h -- what one commit asks of the agent, in one message or several
 *
 * A request names the dirty ranges of the commit's regions, or of all regions if a fenced
 * commit has to wait for earlier data.  It takes them under the initiator's lock, which is held
 * until it is posted or stands at the end of the list that waits for room.  So requests arrive in
 * the order in which they took ranges, and an acknowledgement also covers the ranges of all earlier
 * requests.
 */
#ifndef PMV_FLUSH_REQUEST_H
#define PMV_FLUSH_REQUEST_H

#include "agent/flush_message.h"
#include "commit/chain_request.h"
#include "commit/initiator.h"
#include "commit/request.h"
#include "commit/submission.h"

/* The most regions that a commit may name. */
#define PMV_FLUSH_REQUEST_KEYS 8

/* Few requests have more ranges than this; they allocate them. */
#define PMV_FLUSH_REQUEST_FEW 4

struct pmv_flush_request {
	unsigned int num_keys;
	/*
	 * So many are in `ranges`.  If there is a payload, the last one is `store`; else the last
	 * ones are the `places`.
	 */
	unsigned int count;
	unsigned int sent;  /* so many of them were sent */
	unsigned int read;  /* so many have been read back, ... */
	uint64_t read_part; /* ... and so many bytes of the next one */
	bool all;           /* not only these regions */
	bool notify;        /* the agent notifies the target's application */
	bool messages;      /* messages are committed, too */
	bool payload;       /* the agent stores the data */
	bool dropped;       /* it does not: the commit had failed by then */
	bool is_chain;      /* ... or a chain, instead: `chain` */
	uint8_t event;      /* enum pmv_rma_event: what the agent tells the application */
	uint8_t places;     /* of that operation, unless it is `store` */
	uint64_t data;      /* immediate data, or the number of messages */

	/* From here on, nothing is zeroed: it is set before it is read. */
	uint8_t most; /* the last message has room for so many */
	struct pmv_chain_request *chain;
	struct pmv_range store; /* where the payload goes */
	struct pmv_range *ranges;
	struct pmv_range at[PMV_FLUSH_REQUEST_KEYS]; /* the commit's regions, each of no bytes */
	struct pmv_range few[PMV_FLUSH_REQUEST_FEW];
	unsigned char bytes[]; /* of the payload, or `places` ranges */
};

/*
 * pmv_flush_request_new -- all: it takes what is dirty in all regions; payload: the agent stores
 * the data; event: it tells the target's application of the operation, if there is to be one.  The
 * request has no ranges yet.  NULL: no memory.
 */
struct pmv_flush_request *pmv_flush_request_new(struct pmv_initiator *ini,
						const struct pmv_submission *submission, bool all,
						bool payload, enum pmv_rma_event event);

/* pmv_flush_request_new_chain -- of a chain, which belongs to it, unless this returns NULL */
struct pmv_flush_request *pmv_flush_request_new_chain(struct pmv_chain_request *chain);
void pmv_flush_request_free(struct pmv_flush_request *request);

/*
 * pmv_flush_request_fits -- does one message hold so many bytes and everything that is dirty?
 * pmv_flush_request_take -- what is dirty now.  -FI_ENOMEM: nothing is taken.
 * Both hold the initiator's lock.
 */
static inline bool pmv_flush_request_fits(const struct pmv_initiator *ini, uint64_t len)
{
	unsigned int count = ini->dirty.ranges + 1;

	return count <= PMV_MAX_RANGES && len <= PMV_STORE_ROOM(count);
}

ssize_t pmv_flush_request_take(struct pmv_run *run);

/*
 * pmv_flush_request_read_back -- post READs of all bytes that it names
 * pmv_flush_request_send -- post its messages.  If the run has failed the agent stores nothing
 * and notifies nobody.
 * Both: 0, or why the next one was not posted.
 */
ssize_t pmv_flush_request_read_back(struct pmv_run *run);
ssize_t pmv_flush_request_send(struct pmv_run *run, uint64_t flags);

#endif /* PMV_FLUSH_REQUEST_H */
