/* SPDX-License-Identifier: BSD-2-Clause */
/* receiver.c -- the peer's messages, and our acknowledgements; receiver.h has the rules */
#include "agent/receiver.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "agent/large_results.h"
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
 * that takes no acknowledgements, and sends requests all the same, must not use up the domain's
 * operations.
 */
#define MOST_SENDING PMV_SLOTS

/* get_op -- for what we send by ourselves; NULL: not now */
static inline struct pmv_op *get_op(const struct pmv_link *link)
{
	struct pmv_op *op = NULL;

	if (atomic_load(&link->owner->sending) < MOST_SENDING)
		op = pmv_op_get(link->owner, PMV_OP_OWN);
	/* Nothing is to be done when it was sent. */
	if (op)
		op->ordinary = true;
	return op;
}

/* posted -- or not: then it does not count, and nobody needs the operation */
static inline ssize_t posted(const struct pmv_link *link, struct pmv_op *op, ssize_t ret)
{
	if (!ret)
		return 0;
	atomic_fetch_sub(&link->owner->sending, 1);
	pmv_op_put(link->owner->pool, op);
	return ret;
}

/* post -- a part of the outbox that was filled */
static inline ssize_t post(const struct pmv_link *link, size_t at, size_t len, struct pmv_op *op)
{
	/* Before it is posted: it may have ended afterwards. */
	atomic_fetch_add(&link->owner->sending, 1);
	return posted(link, op, pmv_link_post(link, link->outbox + at, at, len, op, 0));
}

static ssize_t post_ack(struct pmv_receiver *receiver, const struct pmv_queued_ack *queued)
{
	const struct pmv_link *link = receiver->link;
	uint64_t number = receiver->posted_acks + 1;
	size_t at = pmv_ack_at(number), len = PMV_ACK_SIZE + queued->reply_len;
	struct pmv_ack *ack = (struct pmv_ack *) (link->outbox + at);
	struct pmv_op *op = get_op(link);
	ssize_t ret;

	if (!op)
		return -FI_EAGAIN;
	ack->number = number;
	ack->done = queued->done;
	ack->fault = queued->fault;
	ack->reply_len = queued->reply_len;
	ack->looks_us = (uint32_t) (receiver->look.expect.window_ns / 1000);
	if (queued->reply_len)
		memcpy(ack->reply, receiver->short_reply[queued->slot], queued->reply_len);
	pmv_ack_seal(ack, len, &receiver->ack_out);
	ret = post(link, at, len, op);
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
static ssize_t post_large(const struct pmv_link *link, const struct pmv_large_results *large,
			  const struct pmv_large_result *result)
{
	const struct iovec iov = {large->memory + result->at, result->len};
	const struct fi_rma_iov to = {result->addr, result->len, result->key};
	struct pmv_op *op = get_op(link);

	if (!op)
		return -FI_EAGAIN;
	atomic_fetch_add(&link->owner->sending, 1);
	return posted(
		link, op,
		pmv_link_write(link, &iov, large->mr ? fi_mr_desc(large->mr) : NULL, &to, op, 0));
}

/* post_reply -- if it has the slot, behind large results, of which some may be posted already */
static ssize_t post_reply(struct pmv_receiver *receiver, unsigned int slot)
{
	const struct pmv_link *link = receiver->link;
	struct pmv_large_results *large = receiver->large[slot];
	const struct pmv_large_result *result;
	struct pmv_op *op;
	ssize_t ret = 0;

	while (!ret && (result = pmv_large_results_next(large))) {
		ret = post_large(link, large, result);
		large->posted += !ret;
	}
	if (ret || !receiver->reply_len[slot])
		return ret;
	op = get_op(link);
	return op ? post(link, pmv_reply_at(slot), receiver->reply_len[slot], op) : -FI_EAGAIN;
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
