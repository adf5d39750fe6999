/* SPDX-License-Identifier: BSD-2-Clause */
/* chain_request.c -- what a chain asks of the agent, and what it answers */
#include "commit/chain_request.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

_Static_assert(PMV_CHAIN_STEPS == FI_PMEMVERBS_CHAIN_STEPS, "steps");
_Static_assert(PMV_REPLY_ROOM == FI_PMEMVERBS_CHAIN_RESULTS, "results");
_Static_assert(PMV_CHAIN_CAS == FI_PMEMVERBS_CHAIN_CAS, "CAS");
_Static_assert(PMV_CHAIN_SCRATCH == FI_PMEMVERBS_CHAIN_WORDS * PMV_CHAIN_WORD, "words");
_Static_assert(PMV_CHAIN_LARGE_ROOM == FI_PMEMVERBS_CHAIN_LARGE, "large results");
_Static_assert((int) PMV_CHAIN_FREE == FI_PMEMVERBS_STEP_FREE, "kinds");
_Static_assert((int) PMV_CHAIN_GE == FI_PMEMVERBS_GE, "comparisons");
_Static_assert(PMV_CHAIN_EXPECT_SCRATCH == FI_PMEMVERBS_STEP_EXPECT_WORD, "flags");
_Static_assert((int) PMV_CHAIN_NOT_REACHED == FI_PMEMVERBS_STEP_NOT_REACHED, "status");

/* check -- by the rules that the agent checks it by */
static int check(struct pmv_chain_request *request)
{
	struct pmv_chain chain;

	if (!request->len)
		return -FI_EMSGSIZE;
	if (!pmv_chain_decode(request->bytes, request->len, &chain))
		return chain.results_len > PMV_REPLY_ROOM || chain.large_len > PMV_CHAIN_LARGE_ROOM
			       ? -FI_EMSGSIZE
			       : -FI_EINVAL;
	request->commits = chain.commits;
	request->reply = pmv_chain_reply_size(&chain);
	for (unsigned int i = 0; i < chain.count; i++) {
		request->results[i].at = (uint16_t) chain.steps[i].result_at;
		request->results[i].len = chain.steps[i].result_len;
	}
	return 0;
}

int pmv_chain_request_new(struct fi_pmemverbs_step *steps, const struct pmv_chain *chain,
			  struct pmv_chain_request **result)
{
	struct pmv_chain_request *request = malloc(sizeof(*request));
	int ret;

	if (!request)
		return -FI_ENOMEM;
	request->ini = NULL;
	request->steps = steps;
	request->count = chain->count;
	request->len = pmv_chain_encode(request->bytes, sizeof(request->bytes), chain);
	ret = check(request);
	if (ret) {
		free(request);
		return ret;
	}
	for (unsigned int i = 0; i < request->count; i++) {
		steps[i].status = FI_PMEMVERBS_STEP_UNKNOWN;
		steps[i].done = 0;
	}
	*result = request;
	return 0;
}

void pmv_chain_request_free(struct pmv_chain_request *request)
{
	if (request->ini)
		atomic_fetch_and(&request->ini->reply_slots, ~(1U << request->slot));
	free(request);
}

bool pmv_chain_request_get_slot(struct pmv_chain_request *request, struct pmv_initiator *ini)
{
	unsigned int slot = 0, used = atomic_load(&ini->reply_slots);

	while (slot < PMV_REPLIES && (used & 1U << slot))
		slot++;
	if (slot == PMV_REPLIES)
		return false;
	atomic_fetch_or(&ini->reply_slots, 1U << slot);
	request->ini = ini;
	request->slot = slot;
	request->bytes[1] = (uint8_t) slot;
	return true;
}

/* is_valid -- is it an answer to what was asked? */
static bool is_valid(const struct pmv_chain_request *request, const struct pmv_reply *reply)
{
	for (unsigned int i = 0; i < request->count; i++) {
		const struct fi_pmemverbs_step *step = &request->steps[i];
		size_t most = step->kind == FI_PMEMVERBS_STEP_ALLOCATE ? PMV_CHAIN_WORD : step->len;

		if (reply->steps[i].status > PMV_CHAIN_NOT_REACHED || reply->steps[i].done > most)
			return false;
	}
	return true;
}

static void hand_out(const struct pmv_chain_request *request, const struct pmv_reply *reply)
{
	for (unsigned int i = 0; i < request->count; i++) {
		struct fi_pmemverbs_step *step = &request->steps[i];
		size_t done = reply->steps[i].done,
		       len = done < request->results[i].len ? done : request->results[i].len;

		step->status = reply->steps[i].status;
		step->done = done;
		if (step->result && len)
			memcpy(step->result, reply->results + request->results[i].at, len);
	}
}

/* find_reply -- false: it is not there, or not whole */
static bool find_reply(const struct pmv_chain_request *request, const struct pmv_sender *sender,
		       uint64_t number, const struct pmv_ack *ack, struct pmv_reply *reply)
{
	if (!pmv_reply_is_short(request->reply))
		return pmv_reply_decode(sender->link->block + pmv_reply_at(request->slot), number,
					request->reply, &sender->reply_in, reply);
	if (ack->done != number || ack->reply_len != pmv_reply_len(request->reply))
		return false;
	pmv_reply_unpack(reply, ack->reply, request->reply);
	return true;
}

void pmv_chain_request_answered(const struct pmv_chain_request *request, struct pmv_run *run,
				uint64_t number, const struct pmv_ack *ack)
{
	const struct pmv_sender *sender = &pmv_run_initiator(run)->mailbox->sender;
	struct pmv_reply reply;

	if (find_reply(request, sender, number, ack, &reply) && is_valid(request, &reply)) {
		hand_out(request, &reply);
	} else if (!pmv_run_has_failed(run)) {
		PMV_WARN(EP_DATA, "the results of a chain are missing, so it fails: somebody has "
				  "overwritten them\n");
		pmv_op_fail(&run->op, FI_EIO, 0);
	}
}
