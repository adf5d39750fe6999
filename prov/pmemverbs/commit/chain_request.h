/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chain_request.h -- a chain, from the call to its results
 *
 * A chain travels as small data do that the agent stores (flush_request.h): behind the ranges that
 * are to be durable first, if it commits.  So it stands in the same order as they do.  A short
 * reply comes with the acknowledgement, a long one before it, to one of the slots that the endpoint
 * has.
 */
#ifndef PMV_CHAIN_REQUEST_H
#define PMV_CHAIN_REQUEST_H

#include <rdma/fi_ext_pmemverbs.h>

#include "agent/chain_message.h"
#include "agent/flush_message.h"
#include "commit/run.h"

/* The longest that fits behind one range, which is its own. */
#define PMV_CHAIN_ROOM                                                                             \
	(PMV_MESSAGE_SIZE - offsetof(struct pmv_flush_message, ranges) - sizeof(struct pmv_range))

struct pmv_chain_request {
	struct pmv_initiator *ini; /* whose slot it has, or NULL */
	struct fi_pmemverbs_step *steps;
	unsigned int count;
	bool commits;
	struct pmv_reply_size reply;
	struct {
		uint16_t at, len;
	} results[PMV_CHAIN_STEPS];
	unsigned int slot;
	size_t len;
	uint8_t bytes[PMV_CHAIN_ROOM];
};

/*
 * pmv_chain_request_new -- steps: the application's; chain: the same, as it is sent.  0,
 * -FI_EMSGSIZE, -FI_EINVAL or -FI_ENOMEM
 */
int pmv_chain_request_new(struct fi_pmemverbs_step *steps, const struct pmv_chain *chain,
			  struct pmv_chain_request **request);
void pmv_chain_request_free(struct pmv_chain_request *request);

/* pmv_chain_request_get_slot -- false: all are in use; holds the initiator's lock */
bool pmv_chain_request_get_slot(struct pmv_chain_request *request, struct pmv_initiator *ini);

/*
 * pmv_chain_request_answered -- message `number` had it, and was acknowledged: hand out the
 * results; holds the lock
 */
void pmv_chain_request_answered(const struct pmv_chain_request *request, struct pmv_run *run,
				uint64_t number, const struct pmv_ack *ack);

#endif /* PMV_CHAIN_REQUEST_H */
