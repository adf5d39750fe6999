/* SPDX-License-Identifier: BSD-2-Clause */
/* flush_request.c -- what one commit asks of the agent */
#include "commit/flush_request.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "commit/ordering.h"
#include "engine/length.h"

/* Few requests have more ranges than this; they allocate them. */
#define FEW_RANGES 4

struct pmv_flush_request {
	struct pmv_range at[PMV_FLUSH_REQUEST_KEYS]; /* the commit's regions, each of no bytes */
	unsigned int num_keys;
	bool all;
	bool notify;
	bool messages; /* messages are committed, too */
	bool payload;
	uint64_t data;          /* immediate data, or the number of messages */
	struct pmv_range store; /* where the payload goes */

	unsigned int count; /* of ranges; the last one is `store`, if there is a payload */
	unsigned int sent;
	unsigned int read;    /* ranges that are read back ... */
	uint64_t read_part;   /* ... and bytes of the next one */
	uint64_t first, last; /* numbers of its messages */
	struct pmv_range *ranges;
	struct pmv_range few[FEW_RANGES];
	unsigned char bytes[]; /* of the payload */
};

static size_t gather(unsigned char *to, const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++) {
		if (iov[i].iov_len)
			memcpy(to + len, iov[i].iov_base, iov[i].iov_len);
		len += iov[i].iov_len;
	}
	return len;
}

struct pmv_flush_request *pmv_flush_request_new(struct pmv_initiator *ini,
						const struct pmv_submission *submission, bool all,
						bool payload)
{
	const struct fi_msg_rma *msg = payload ? submission->wr.rma : NULL;
	size_t len = msg ? pmv_iov_len(msg->msg_iov, msg->iov_count) : 0;
	struct pmv_flush_request *request = malloc(sizeof(*request) + len);

	if (!request)
		return NULL;
	memset(request, 0, sizeof(*request));
	request->all = all;
	request->messages = (submission->what & FI_MSG) && ini->message_method == PMV_METHOD_AGENT;
	request->ranges = request->few;
	for (size_t i = 0; i < submission->num_to && i < PMV_FLUSH_REQUEST_KEYS; i++) {
		const struct fi_rma_iov *to = &submission->to[i];

		if (submission->changed || pmv_ordering_is_for_agent(ini, to->key))
			request->at[request->num_keys++] = (struct pmv_range){
				.addr = to->addr, .key = (uint32_t) pmv_key_core(to->key)};
	}
	if (msg) {
		request->payload = true;
		request->store = (struct pmv_range){
			.addr = submission->to->addr,
			.len = gather(request->bytes, msg->msg_iov, msg->iov_count),
			.key = (uint32_t) pmv_key_core(submission->to->key),
		};
	}
	return request;
}

void pmv_flush_request_free(struct pmv_flush_request *request)
{
	if (request && request->ranges != request->few)
		free(request->ranges);
	free(request);
}

bool pmv_flush_request_fits(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	unsigned int count = pmv_dirty_count(&ini->dirty, 0, true) + 1;
	const struct fi_msg_rma *msg = submission->wr.rma;

	return submission->wr.kind == PMV_WR_WRITE && submission->num_to == 1 &&
	       count <= PMV_MAX_RANGES &&
	       pmv_iov_len(msg->msg_iov, msg->iov_count) <= PMV_STORE_ROOM(count);
}

void pmv_flush_request_notify(struct pmv_flush_request *request, uint64_t data)
{
	request->notify = true;
	request->data = data;
}

static unsigned int count_dirty(struct pmv_initiator *ini, const struct pmv_flush_request *request)
{
	unsigned int count = 0;

	if (request->all)
		return pmv_dirty_count(&ini->dirty, 0, true);
	for (unsigned int i = 0; i < request->num_keys; i++)
		count += pmv_dirty_count(&ini->dirty, request->at[i].key, false);
	return count;
}

ssize_t pmv_flush_request_take(struct pmv_initiator *ini, struct pmv_flush_request *request)
{
	/* A region that is named twice is counted twice: that is room to spare. */
	unsigned int count = count_dirty(ini, request);
	unsigned int room = count + request->num_keys + 1;
	unsigned int at = 0;

	if (room > FEW_RANGES) {
		request->ranges = malloc(room * sizeof(*request->ranges));
		if (!request->ranges) {
			request->ranges = request->few;
			return -FI_ENOMEM;
		}
	}
	/*
	 * A region without dirty ranges is named, too: the agent may know that it has failed.
	 * `store` names its own region.
	 */
	for (unsigned int i = 0; i < request->num_keys && !request->payload; i++) {
		if (!pmv_dirty_count(&ini->dirty, request->at[i].key, false))
			request->ranges[at++] = request->at[i];
	}
	if (request->all) {
		pmv_dirty_take(&ini->dirty, 0, true, request->ranges + at);
		at += count;
	}
	for (unsigned int i = 0; !request->all && i < request->num_keys; i++) {
		unsigned int more = pmv_dirty_count(&ini->dirty, request->at[i].key, false);

		pmv_dirty_take(&ini->dirty, request->at[i].key, false, request->ranges + at);
		at += more;
	}
	if (request->payload)
		request->ranges[at++] = request->store;
	request->count = at;
	if (request->messages) {
		/* They are counted after they were posted: all are in the send queue. */
		request->data = atomic_load(&ini->sends);
		atomic_store(&ini->told_sends, request->data);
	}
	atomic_store(&ini->ordering.wrote_agent, ini->dirty.ranges > 0);
	return 0;
}

void pmv_flush_request_mute(struct pmv_flush_request *request)
{
	request->notify = false;
	if (request->payload)
		request->count--;
	request->payload = false;
}

bool pmv_flush_request_unread(const struct pmv_flush_request *request, uint64_t most,
			      struct pmv_range *range)
{
	unsigned int written = request->count - (request->payload ? 1 : 0);

	if (request->read >= written)
		return false;
	*range = request->ranges[request->read];
	range->addr += request->read_part;
	range->len -= request->read_part;
	if (range->len > most)
		range->len = most;
	return true;
}

void pmv_flush_request_was_read(struct pmv_flush_request *request, uint64_t len)
{
	request->read_part += len;
	if (request->read_part < request->ranges[request->read].len)
		return;
	request->read++;
	request->read_part = 0;
}

bool pmv_flush_request_next(const struct pmv_flush_request *request, struct pmv_message *message)
{
	unsigned int left = request->count - request->sent;

	*message = (struct pmv_message){.count = left < PMV_MAX_RANGES ? left : PMV_MAX_RANGES};
	memcpy(message->ranges, request->ranges + request->sent,
	       message->count * sizeof(message->ranges[0]));
	if (message->count < left)
		return false;
	message->notify = request->notify;
	message->messages = request->messages;
	message->data = request->data;
	message->store = request->payload;
	message->payload = request->bytes;
	return true;
}

void pmv_flush_request_was_sent(struct pmv_flush_request *request,
				const struct pmv_message *message)
{
	request->sent += message->count;
	if (!request->first)
		request->first = message->number;
	request->last = message->number;
}

uint64_t pmv_flush_request_last(const struct pmv_flush_request *request)
{
	return request->last;
}

bool pmv_flush_request_has(const struct pmv_flush_request *request, uint64_t number)
{
	return request->first <= number && number <= request->last;
}

bool pmv_flush_request_is_for_all(const struct pmv_flush_request *request)
{
	return request->all;
}

bool pmv_flush_request_has_payload(const struct pmv_flush_request *request)
{
	return request->payload;
}
