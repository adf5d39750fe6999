/* SPDX-License-Identifier: BSD-2-Clause */
/* small.c -- a small commit goes from the application's buffer into the mailbox; see small.h */
#include "commit/small.h"

#include <rdma/fi_errno.h>

#include "commit/flush_request.h"
#include "commit/ordering.h"
#include "commit/prepare.h"

/* may_store -- is the endpoint open, and is there room for the data behind all that is dirty? */
static inline bool may_store(struct pmv_initiator *ini, uint64_t len)
{
	return pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED) && pmv_prepare_may_start_to_store(ini) &&
	       pmv_flush_request_fits(ini, len) && !atomic_load(&ini->broken);
}

/* take -- what is dirty in the region: how many ranges */
static unsigned int take(struct pmv_initiator *ini, uint32_t key, struct pmv_range *dirty)
{
	unsigned int count;

	/* Before the message is posted: ordering.c relies on that. */
	atomic_fetch_add(&ini->ordering.dirty_epoch, 1);
	count = pmv_ordering_take_dirty(ini, key, false, dirty);
	atomic_store(&ini->ordering.wrote_agent, ini->dirty.ranges > 0);
	return count;
}

/* give_back -- the message was not posted */
static void give_back(struct pmv_run *run, const struct pmv_range *dirty, unsigned int count)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);

	for (unsigned int i = 0; i < count; i++)
		pmv_dirty_add(&ini->dirty, (uint32_t) dirty[i].key, dirty[i].addr, dirty[i].len);
	if (count)
		atomic_store(&ini->ordering.wrote_agent, true);
	pmv_run_set_unacked(run, false);
}

/* fill -- the message: what is dirty, the place, and the data for it.  Returns its length. */
static inline uint16_t fill(struct pmv_flush_message *message, const struct pmv_range *dirty,
			    unsigned int count, const struct pmv_submission *submission)
{
	const struct fi_rma_iov *to = submission->to;
	size_t len = pmv_flush_message_len(count + 1);

	message->count = (uint8_t) (count + 1);
	message->flags = PMV_FLUSH_STORE;
	message->zero = 0;
	message->data = 0;
	for (unsigned int i = 0; i < count; i++)
		message->ranges[i] = dirty[i];
	message->ranges[count] = (struct pmv_range){
		.addr = to->addr,
		.len = to->len,
		.key = (uint32_t) pmv_key_core(to->key),
	};
	pmv_submission_gather((uint8_t *) message + len, submission->rma);
	return (uint16_t) (len + to->len);
}

/* await -- the endpoint is closed until the acknowledgement comes: submit.c */
static inline void await(struct pmv_initiator *ini, struct pmv_run *run)
{
	const struct fi_rma_iov *to = run->submission->to;

	run->place_addr = to->addr;
	run->place_len = to->len;
	run->place_key = to->key;
	run->submission = NULL;
	run->plan.count = 0;
	STAILQ_INSERT_TAIL(&ini->awaiting, &run->op, next);
	ini->payload_message = run->asked.last;
	atomic_fetch_or(&ini->slow, PMV_SLOW_CLOSED);
}

ssize_t pmv_small_post(struct pmv_initiator *ini, struct pmv_run *run)
{
	const struct pmv_submission *submission = run->submission;
	struct pmv_message *slot = pmv_sender_slot(&ini->mailbox->sender);
	struct pmv_envelope envelope = {.content = PMV_CONTENT_FLUSH};
	struct pmv_range dirty[PMV_MAX_RANGES];
	unsigned int count = 0;
	ssize_t ret;

	if (!slot || !may_store(ini, submission->to->len))
		return -FI_EAGAIN;
	/* From before what it takes is dirty no longer. */
	pmv_run_set_unacked(run, true);
	if (ini->dirty.ranges)
		count = take(ini, (uint32_t) pmv_key_core(submission->to->key), dirty);
	envelope.len = fill((struct pmv_flush_message *) slot, dirty, count, submission);
	run->asked.relies = false;
	run->asked.first = 0;
	pthread_mutex_lock(&ini->ordering.lock);
	ret = pmv_request_send(run, &envelope, pmv_ordering_fence_due(ini));
	pthread_mutex_unlock(&ini->ordering.lock);
	if (ret)
		give_back(run, dirty, count);
	else
		await(ini, run);
	return ret;
}
