/* SPDX-License-Identifier: BSD-2-Clause */
/* flush_request.c -- what one commit tells the agent; letter.h has the order of things */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "commit/flush_request.h"
#include "engine/length.h"

/* As many as most letters have. */
#define FEW_RANGES 4

struct pmv_flush_request {
	struct pmv_range at[PMV_FLUSH_REQUEST_KEYS]; /* of the commit, each of no bytes */
	unsigned int num_keys;
	bool all;
	bool fenced;
	bool read_back;
	unsigned int read;  /* so many ranges are read back ... */
	uint64_t read_part; /* ... and so much of the next one */
	bool notify;
	bool messages; /* about those, too */
	uint64_t data; /* of the notice; or how many messages */
	bool carries;
	struct pmv_range store; /* where the payload goes */

	unsigned int count; /* of ranges, with the store behind them */
	unsigned int sent;
	struct pmv_range *ranges;
	uint64_t first, last;
	struct pmv_range few[FEW_RANGES];
	unsigned char payload[];
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

struct pmv_flush_request *pmv_flush_request_new(struct pmv_ep *ep, const struct pmv_commit *commit,
						enum pmv_flush_request_kind kind, bool fenced)
{
	bool carries = kind == PMV_FLUSH_REQUEST_CARRIES;
	size_t payload = carries ? pmv_iov_len(commit->iov, commit->iov_count) : 0;
	struct pmv_flush_request *letter = calloc(1, sizeof(*letter) + payload);

	if (!letter)
		return NULL;
	letter->all = kind != PMV_FLUSH_REQUEST_BEHIND;
	letter->fenced = fenced;
	letter->messages = (commit->what & FI_MSG) && ep->message_method == PMV_METHOD_AGENT;
	letter->ranges = letter->few;
	for (size_t i = 0; i < commit->rma_iov_count && i < PMV_FLUSH_REQUEST_KEYS; i++) {
		const struct fi_rma_iov *rma_iov = &commit->rma_iov[i];

		if (commit->changed || pmv_is_for_agent(ep, rma_iov->key))
			letter->at[letter->num_keys++] = (struct pmv_range){
				.addr = rma_iov->addr,
				.key = (uint32_t) pmv_key_core(rma_iov->key),
			};
	}
	if (carries) {
		letter->carries = true;
		letter->store = (struct pmv_range){
			.addr = commit->rma_iov->addr,
			.len = gather(letter->payload, commit->iov, commit->iov_count),
			.key = (uint32_t) pmv_key_core(commit->rma_iov->key),
		};
	}
	return letter;
}

void pmv_flush_request_free(struct pmv_flush_request *letter)
{
	if (letter && letter->ranges != letter->few)
		free(letter->ranges);
	free(letter);
}

void pmv_flush_request_mute(struct pmv_flush_request *letter)
{
	letter->notify = false;
	if (letter->carries)
		letter->count--;
	letter->carries = false;
}

bool pmv_flush_request_is_for_all(const struct pmv_flush_request *letter)
{
	return letter->all;
}

void pmv_flush_request_read_back(struct pmv_flush_request *letter)
{
	letter->read_back = true;
}

bool pmv_flush_request_reads_back(const struct pmv_flush_request *letter)
{
	return letter->read_back;
}

bool pmv_flush_request_unread(const struct pmv_flush_request *letter, uint64_t most,
			      struct pmv_range *range)
{
	unsigned int written = letter->count - (letter->carries ? 1 : 0);

	if (letter->read >= written)
		return false;
	*range = letter->ranges[letter->read];
	range->addr += letter->read_part;
	range->len -= letter->read_part;
	if (range->len > most)
		range->len = most;
	return true;
}

void pmv_flush_request_was_read(struct pmv_flush_request *letter, uint64_t len)
{
	letter->read_part += len;
	if (letter->read_part < letter->ranges[letter->read].len)
		return;
	letter->read++;
	letter->read_part = 0;
}

void pmv_flush_request_notify(struct pmv_flush_request *letter, uint64_t data)
{
	letter->notify = true;
	letter->data = data;
}

static unsigned int count_dirty(struct pmv_ep *ep, const struct pmv_flush_request *letter)
{
	unsigned int count = 0;

	if (letter->all)
		return pmv_dirty_count(&ep->dirty, 0, true);
	for (unsigned int i = 0; i < letter->num_keys; i++)
		count += pmv_dirty_count(&ep->dirty, letter->at[i].key, false);
	return count;
}

bool pmv_flush_request_may_carry(struct pmv_ep *ep, const struct pmv_commit *commit)
{
	unsigned int count = pmv_dirty_count(&ep->dirty, 0, true) + 1;

	return commit->iov && commit->rma_iov_count == 1 && count <= PMV_MAX_RANGES &&
	       pmv_iov_len(commit->iov, commit->iov_count) <= PMV_STORE_ROOM(count);
}

ssize_t pmv_flush_request_take(struct pmv_ep *ep, struct pmv_flush_request *letter)
{
	/* A region that is named twice is counted twice: that is room to spare. */
	unsigned int count = count_dirty(ep, letter);
	unsigned int room = count + letter->num_keys + 1;
	unsigned int at = 0;

	if (room > FEW_RANGES) {
		letter->ranges = malloc(room * sizeof(*letter->ranges));
		if (!letter->ranges) {
			letter->ranges = letter->few;
			return -FI_ENOMEM;
		}
	}
	/* A region with nothing to flush is named, too: it may have failed.  Data name theirs. */
	for (unsigned int i = 0; i < letter->num_keys && !letter->carries; i++) {
		if (!pmv_dirty_count(&ep->dirty, letter->at[i].key, false))
			letter->ranges[at++] = letter->at[i];
	}
	if (letter->all) {
		pmv_dirty_take(&ep->dirty, 0, true, letter->ranges + at);
		at += count;
	}
	for (unsigned int i = 0; !letter->all && i < letter->num_keys; i++) {
		unsigned int more = pmv_dirty_count(&ep->dirty, letter->at[i].key, false);

		pmv_dirty_take(&ep->dirty, letter->at[i].key, false, letter->ranges + at);
		at += more;
	}
	if (letter->carries)
		letter->ranges[at++] = letter->store;
	letter->count = at;
	if (letter->messages) {
		/* All that are counted are in the send queue by now. */
		letter->data = atomic_load(&ep->sends);
		atomic_store(&ep->told_sends, letter->data);
	}
	atomic_store(&ep->wrote_agent, ep->dirty.ranges > 0);
	return 0;
}

/* next_message -- of those ranges that are left; true: it is the last one */
static bool next_message(const struct pmv_flush_request *letter, struct pmv_message *message)
{
	unsigned int left = letter->count - letter->sent;

	*message = (struct pmv_message){.count = left < PMV_MAX_RANGES ? left : PMV_MAX_RANGES};
	memcpy(message->ranges, letter->ranges + letter->sent,
	       message->count * sizeof(message->ranges[0]));
	if (message->count < left)
		return false;
	message->notify = letter->notify;
	message->messages = letter->messages;
	message->data = letter->data;
	message->store = letter->carries;
	message->payload = letter->payload;
	return true;
}

ssize_t pmv_flush_request_post(struct pmv_ep *ep, struct pmv_commit_op *req, bool fenced)
{
	struct pmv_flush_request *letter = req->letter;
	uint64_t flags = fenced || letter->fenced ? FI_FENCE : 0;
	struct pmv_message message;
	ssize_t ret;
	bool last;

	do {
		last = next_message(letter, &message);
		/* Before the core can complete it. */
		atomic_fetch_add(&req->op.pending, 1);
		ret = pmv_mailbox_send(&ep->mailbox, &message, &req->op, flags);
		if (ret) {
			atomic_fetch_sub(&req->op.pending, 1);
			return ret;
		}
		letter->sent += message.count;
		if (!letter->first)
			letter->first = message.number;
		letter->last = message.number;
	} while (!last);
	return 0;
}

uint64_t pmv_flush_request_last(const struct pmv_flush_request *letter)
{
	return letter->last;
}

bool pmv_flush_request_has(const struct pmv_flush_request *letter, uint64_t number)
{
	return letter->first <= number && number <= letter->last;
}

bool pmv_flush_request_carries(const struct pmv_flush_request *letter)
{
	return letter->carries;
}
