/* SPDX-License-Identifier: BSD-2-Clause */
/* flush_request.c -- what one commit asks of the agent */
#include "commit/flush_request.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "commit/ordering.h"
#include "commit/post.h"

/*
 * set_relies -- does it promise that all earlier requests succeed?  A commit without a fence does
 * not: the initiator's application hears of each failure.  But the target's hears of this operation
 * only, and must not if data that it follows were not stored.
 */
static void set_relies(struct pmv_run *run, bool follows)
{
	const struct pmv_flush_request *request = run->request;

	run->asked.relies = request->all || request->messages ||
			    (follows && (request->notify || request->event));
}

/* set_event -- the agent tells of the operation; places are those of the submission */
static void set_event(struct pmv_flush_request *request, const struct pmv_submission *submission,
		      enum pmv_rma_event event)
{
	struct pmv_range *places = (struct pmv_range *) request->bytes;

	request->event = event;
	/* What does not commit has nothing made durable. */
	if (submission->event_only)
		request->num_keys = 0;
	if (request->payload) {
		request->store.key |= PMV_RANGE_EVENT;
		return;
	}
	for (size_t i = 0; i < submission->num_to; i++) {
		const struct fi_rma_iov *to = &submission->to[i];

		places[request->places++] = (struct pmv_range){
			.addr = to->addr,
			.len = to->len,
			.key = pmv_key_core(to->key) | PMV_RANGE_EVENT,
		};
	}
}

struct pmv_flush_request *pmv_flush_request_new(struct pmv_initiator *ini,
						const struct pmv_submission *submission, bool all,
						bool payload, enum pmv_rma_event event)
{
	size_t len = payload ? submission->to->len : 0;
	struct pmv_flush_request *request;

	request = malloc(sizeof(*request) + len +
			 (event ? submission->num_to * sizeof(struct pmv_range) : 0));
	if (!request)
		return NULL;
	memset(request, 0, offsetof(struct pmv_flush_request, most));
	request->all = all;
	request->most = PMV_MAX_RANGES;
	request->messages = (submission->what & FI_MSG) && ini->message_method == PMV_METHOD_AGENT;
	request->ranges = request->few;
	for (size_t i = 0; i < submission->num_to && i < PMV_FLUSH_REQUEST_KEYS; i++) {
		const struct fi_rma_iov *to = &submission->to[i];

		if (submission->changed || (pmv_ordering_note_key(ini, to->key) & PMV_NOTE_AGENT))
			request->at[request->num_keys++] = (struct pmv_range){
				.addr = to->addr, .key = (uint32_t) pmv_key_core(to->key)};
	}
	if (payload) {
		request->payload = true;
		request->store = (struct pmv_range){
			.addr = submission->to->addr,
			.len = len,
			.key = (uint32_t) pmv_key_core(submission->to->key),
		};
		pmv_submission_gather(request->bytes, submission->rma);
	}
	if (event)
		set_event(request, submission, event);
	return request;
}

struct pmv_flush_request *pmv_flush_request_new_chain(struct pmv_chain_request *chain)
{
	struct pmv_flush_request *request = malloc(sizeof(*request) + chain->len);

	if (!request)
		return NULL;
	memset(request, 0, offsetof(struct pmv_flush_request, most));
	/* A commit is of all that the endpoint has written. */
	request->all = chain->commits;
	request->ranges = request->few;
	request->payload = request->is_chain = true;
	request->chain = chain;
	request->store = (struct pmv_range){.len = chain->len};
	request->most = (uint8_t) (1 + (PMV_STORE_ROOM(1) - chain->len) / sizeof(struct pmv_range));
	memcpy(request->bytes, chain->bytes, chain->len);
	return request;
}

void pmv_flush_request_free(struct pmv_flush_request *request)
{
	if (request && request->is_chain)
		pmv_chain_request_free(request->chain);
	if (request && request->ranges != request->few)
		free(request->ranges);
	free(request);
}

static unsigned int count_dirty(struct pmv_initiator *ini, const struct pmv_flush_request *request)
{
	unsigned int count = 0;

	if (request->all || !ini->dirty.ranges)
		return ini->dirty.ranges;
	for (unsigned int i = 0; i < request->num_keys; i++)
		count += pmv_dirty_count(&ini->dirty, request->at[i].key, false);
	return count;
}

static void take_dirty(struct pmv_initiator *ini, struct pmv_flush_request *request)
{
	unsigned int keys = request->all ? 1 : request->num_keys;

	/* Before the request is posted: ordering.c relies on that. */
	atomic_fetch_add(&ini->ordering.dirty_epoch, 1);
	for (unsigned int i = 0; i < keys; i++)
		request->count += pmv_ordering_take_dirty(
			ini, request->all ? 0 : (uint32_t) request->at[i].key, request->all,
			request->ranges + request->count);
}

static void add_places(struct pmv_flush_request *request)
{
	memcpy(request->ranges + request->count, request->bytes,
	       request->places * sizeof(struct pmv_range));
	request->count += request->places;
}

ssize_t pmv_flush_request_take(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_flush_request *request = run->request;
	/* A region that is named twice is counted twice: that is room to spare. */
	unsigned int room = count_dirty(ini, request) + request->num_keys + 1;
	struct pmv_range *ranges = request->few;

	if (request->event)
		room += request->places;
	if (room > PMV_FLUSH_REQUEST_FEW)
		ranges = malloc(room * sizeof(*ranges));
	if (!ranges)
		return -FI_ENOMEM;
	request->ranges = ranges;
	/*
	 * A region without dirty ranges is named, too: the agent may know that it has failed.
	 * `store` names its own region.
	 */
	for (unsigned int i = 0; i < request->num_keys && !request->payload; i++) {
		if (!pmv_dirty_count(&ini->dirty, request->at[i].key, false))
			ranges[request->count++] = request->at[i];
	}
	if (ini->dirty.ranges)
		take_dirty(ini, request);
	if (request->payload)
		ranges[request->count++] = request->store;
	if (request->event)
		add_places(request);
	if (request->messages) {
		/* They are counted after they were posted: all are in the send queue. */
		request->data = atomic_load(&ini->sends);
		atomic_store(&ini->told_sends, request->data);
	}
	atomic_store(&ini->ordering.wrote_agent, ini->dirty.ranges > 0);
	set_relies(run, ini->mailbox->sender.acked < ini->payload_message);
	return 0;
}

ssize_t pmv_flush_request_read_back(struct pmv_run *run)
{
	struct pmv_flush_request *request = run->request;
	unsigned int written = request->count - (request->payload ? 1 : 0);

	while (request->read < written) {
		const struct pmv_range *range = &request->ranges[request->read];
		uint64_t len = range->len - request->read_part;
		ssize_t ret;

		if (len > PMV_SCRATCH_SIZE)
			len = PMV_SCRATCH_SIZE;
		pmv_run_posting(run, 1);
		ret = pmv_post_read(run, range->addr + request->read_part, len,
				    (uint32_t) range->key);
		if (ret) {
			pmv_run_not_posting(run, 1);
			return ret;
		}
		request->read_part += len;
		if (request->read_part < range->len)
			continue;
		request->read++;
		request->read_part = 0;
	}
	return 0;
}

/* next_count -- so many ranges go in the next message; the last one has all places of an event */
static unsigned int next_count(const struct pmv_flush_request *request)
{
	unsigned int left = request->count - request->sent;

	if (left <= request->most)
		return left;
	left -= request->places + request->is_chain;
	return left < PMV_MAX_RANGES ? left : PMV_MAX_RANGES;
}

/* flags_of -- the last message's: what an earlier one has taken is not named again */
static inline uint8_t flags_of(const struct pmv_flush_request *request, bool relies)
{
	unsigned int flags = request->notify * PMV_FLUSH_NOTIFY |
			     request->messages * PMV_FLUSH_MESSAGES |
			     request->event * PMV_FLUSH_EVENT_1 | relies * PMV_FLUSH_ORDERED;

	if (request->payload)
		flags |= PMV_FLUSH_STORE | request->is_chain * PMV_FLUSH_CHAIN;
	return (uint8_t) flags;
}

/* fill -- a message with the next ranges; the last one has all else, too.  Returns its length. */
static size_t fill(const struct pmv_run *run, struct pmv_flush_message *message, unsigned int count,
		   bool last)
{
	const struct pmv_flush_request *request = run->request;
	size_t len = pmv_flush_message_len(count);

	for (unsigned int i = 0; i < count; i++)
		message->ranges[i] = request->ranges[request->sent + i];
	message->data = last ? request->data : 0;
	message->count = (uint8_t) count;
	message->flags = last ? flags_of(request, run->asked.relies) : 0;
	message->zero = 0;
	if (!last || !request->payload)
		return len;
	memcpy((uint8_t *) message + len, request->bytes, request->store.len);
	return len + request->store.len;
}

static ssize_t send_next(struct pmv_run *run, uint64_t flags)
{
	struct pmv_flush_request *request = run->request;
	struct pmv_message *slot = pmv_sender_slot(&pmv_run_initiator(run)->mailbox->sender);
	struct pmv_envelope envelope = {.content = PMV_CONTENT_FLUSH};
	unsigned int count = next_count(request);
	ssize_t ret;

	if (!slot)
		return -FI_EAGAIN;
	envelope.more = request->sent + count < request->count;
	envelope.len =
		(uint16_t) fill(run, (struct pmv_flush_message *) slot, count, !envelope.more);
	ret = pmv_request_send(run, &envelope, flags);
	if (!ret)
		request->sent += count;
	return ret;
}

ssize_t pmv_flush_request_send(struct pmv_run *run, uint64_t flags)
{
	struct pmv_flush_request *request = run->request;
	ssize_t ret;

	if (pmv_run_has_failed(run)) {
		request->notify = false;
		request->event = PMV_EVENT_NONE;
		request->count -= request->payload + request->places;
		request->dropped |= request->payload;
		request->payload = false;
		request->places = 0;
		set_relies(run, false);
	}
	do {
		ret = send_next(run, flags);
	} while (!ret && request->sent < request->count);
	return ret;
}
