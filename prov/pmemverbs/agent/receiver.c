/* SPDX-License-Identifier: BSD-2-Clause */
/* receiver.c -- the peer's messages, and our acknowledgements; receiver.h has the rules */
#include "agent/receiver.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "agent/large_results.h"
#include "base/inline.h"
#include "engine/engine.h"
#include "progress/op.h"

bool pmv_receiver_look(const struct pmv_receiver *receiver, struct pmv_message *message)
{
	uint64_t number = receiver->served + 1;

	return pmv_message_decode(receiver->link->block + pmv_message_at(number), number,
				  &receiver->message_in, message);
}

void pmv_receiver_queue_ack(struct pmv_receiver *receiver, uint64_t number, enum pmv_fault fault)
{
	struct pmv_queued_ack *last =
		receiver->num_queued ? &receiver->queued[receiver->num_queued - 1] : NULL;

	/* Its reply is there. */
	if (last && last->done == number) {
		last->fault = fault;
		return;
	}
	/* One acknowledgement covers any number of messages without a fault, or a reply. */
	if (!last || last->fault || last->reply_len || fault)
		last = &receiver->queued[receiver->num_queued++];
	*last = (struct pmv_queued_ack){.done = number, .fault = fault};
}

/*
 * So many acknowledgements of a connection may be without their entry in the queue.  An honest peer
 * has no more requests unanswered; if entries were left in the queue, it waits for a round.  A peer
 * that takes no acknowledgements, and sends requests all the same, must not use up the core's
 * memory.
 */
#define MOST_SENDING PMV_SLOTS

/*
 * begin -- before something is sent by ourselves: the operation of all such, or NULL if it has no
 * entry; awaited: somebody waits until it was sent.  False: not now
 */
static inline bool begin(const struct pmv_receiver *receiver, bool awaited, struct pmv_op **op)
{
	const struct pmv_link *link = receiver->link;
	struct pmv_op_owner *owner = link->owner;
	unsigned int most = link->quiet ? MOST_SENDING / PMV_SIGNAL_EVERY : MOST_SENDING;

	*op = NULL;
	if (!awaited && !pmv_link_signals(link, receiver->posted + 1))
		return true;
	if (!owner->acks)
		owner->acks = pmv_op_get(owner, PMV_OP_OWN);
	if (!owner->acks || pmv_op_acks(owner) >= most)
		return false;
	*op = owner->acks;
	/* Before it is posted. */
	atomic_fetch_add(&(*op)->pending, 1);
	return true;
}

/* end -- it was posted, or not: then it does not count */
static inline ssize_t end(struct pmv_receiver *receiver, struct pmv_op *op, ssize_t ret)
{
	receiver->posted += !ret;
	if (ret && op)
		atomic_fetch_sub(&op->pending, 1);
	return ret;
}

/* post_part -- of the outbox, which was filled */
PMV_ALWAYS_INLINE ssize_t post_part(struct pmv_receiver *receiver, size_t at, size_t len,
				    bool awaited)
{
	const struct pmv_link *link = receiver->link;
	struct pmv_op *op;

	if (!begin(receiver, awaited, &op))
		return -FI_EAGAIN;
	return end(receiver, op, pmv_link_post(link, link->outbox + at, at, len, op, 0));
}

static ssize_t post_ack(struct pmv_receiver *receiver, const struct pmv_queued_ack *queued)
{
	const struct pmv_link *link = receiver->link;
	uint64_t number = receiver->posted_acks + 1;
	size_t at = pmv_ack_at(number), len = PMV_ACK_SIZE + queued->reply_len;
	struct pmv_ack *ack = (struct pmv_ack *) (link->outbox + at);
	ssize_t ret;

	ack->number = number;
	ack->done = queued->done;
	ack->fault = queued->fault;
	ack->reply_len = queued->reply_len;
	ack->looks_us = (uint32_t) (receiver->look.expect.window_ns / 1000);
	ack->unhinted = !receiver->look.hinted;
	if (queued->reply_len)
		memcpy(ack->reply, receiver->short_reply[queued->slot], queued->reply_len);
	pmv_ack_seal(ack, len, &receiver->ack_out);
	/* A connection may be ended behind one with a fault. */
	ret = post_part(receiver, at, len, queued->fault);
	if (!ret)
		receiver->posted_acks++;
	return ret;
}

void pmv_receiver_queue_reply(struct pmv_receiver *receiver, uint64_t number, unsigned int slot,
			      const struct pmv_reply *reply, struct pmv_reply_size size)
{
	receiver->reply_len[slot] = 0;
	if (pmv_reply_is_short(size)) {
		pmv_reply_pack(receiver->short_reply[slot], reply, size);
		receiver->queued[receiver->num_queued++] = (struct pmv_queued_ack){
			.done = number,
			.reply_len = pmv_reply_len(size) & (PMV_ACK_SLOT - 1),
			.slot = slot & (PMV_REPLIES - 1),
		};
	} else {
		receiver->reply_len[slot] =
			(uint16_t) pmv_reply_encode(receiver->link->outbox + pmv_reply_at(slot),
						    number, reply, size, &receiver->reply_out);
	}
	if (receiver->reply_len[slot] || pmv_large_results_next(receiver->large[slot]))
		receiver->replies |= 1U << slot;
}

/* post_large -- where the peer wants it: its own NIC sees to it that it may be written there */
static ssize_t post_large(struct pmv_receiver *receiver, const struct pmv_large_results *large,
			  const struct pmv_large_result *result)
{
	const struct iovec iov = {large->memory + result->at, result->len};
	const struct fi_rma_iov to = {result->addr, result->len, result->key};
	void *desc = large->mr ? fi_mr_desc(large->mr) : NULL;
	struct pmv_op *op;

	if (!begin(receiver, false, &op))
		return -FI_EAGAIN;
	return end(receiver, op, pmv_link_write(receiver->link, &iov, desc, &to, op, 0));
}

/* post_reply -- if it has the slot, behind large results, of which some may be posted already */
static ssize_t post_reply(struct pmv_receiver *receiver, unsigned int slot)
{
	struct pmv_large_results *large = receiver->large[slot];
	const struct pmv_large_result *result;
	ssize_t ret = 0;

	while (!ret && (result = pmv_large_results_next(large))) {
		ret = post_large(receiver, large, result);
		large->posted += !ret;
	}
	if (ret || !receiver->reply_len[slot])
		return ret;
	return post_part(receiver, pmv_reply_at(slot), receiver->reply_len[slot], false);
}

/* post_replies -- in any order */
static ssize_t post_replies(struct pmv_receiver *receiver)
{
	while (receiver->replies) {
		ssize_t ret = post_reply(receiver, (unsigned int) __builtin_ctz(receiver->replies));

		if (ret)
			return ret;
		receiver->replies &= receiver->replies - 1;
	}
	return 0;
}

ssize_t pmv_receiver_post_acks(struct pmv_receiver *receiver)
{
	unsigned int posted = 0;
	ssize_t ret = receiver->replies ? post_replies(receiver) : 0;

	if (ret)
		return ret;

	while (posted < receiver->num_queued &&
	       !(ret = post_ack(receiver, &receiver->queued[posted])))
		posted++;
	receiver->num_queued -= posted;
	if (receiver->num_queued)
		memmove(receiver->queued, receiver->queued + posted,
			receiver->num_queued * sizeof(receiver->queued[0]));
	return ret;
}

int pmv_receiver_close(struct pmv_receiver *receiver)
{
	for (unsigned int i = 0; i < PMV_REPLIES; i++) {
		int ret = receiver->large[i] ? pmv_large_results_close(receiver->large[i]) : 0;

		if (ret)
			return ret;
		receiver->large[i] = NULL;
	}
	return 0;
}
