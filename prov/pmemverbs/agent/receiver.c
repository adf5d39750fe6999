/* SPDX-License-Identifier: BSD-2-Clause */
/* receiver.c -- the peer's messages, and our acknowledgements; receiver.h has the rules */
#include "agent/receiver.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "progress/op.h"

bool pmv_receiver_has_message(const struct pmv_receiver *receiver)
{
	uint64_t number = receiver->served + 1;

	return pmv_message_ready(receiver->link->block + pmv_message_at(number), number);
}

enum pmv_arrival pmv_receiver_look(const struct pmv_receiver *receiver, struct pmv_message *message)
{
	uint64_t number = receiver->served + 1;

	return pmv_message_decode(receiver->link->block + pmv_message_at(number), number,
				  &receiver->message_in, message);
}

void pmv_receiver_queue_ack(struct pmv_receiver *receiver, uint64_t number, enum pmv_fault fault)
{
	struct pmv_ack *last =
		receiver->num_queued ? &receiver->queued[receiver->num_queued - 1] : NULL;

	/* One acknowledgement covers any number of messages without a fault. */
	if (!last || last->fault || fault)
		last = &receiver->queued[receiver->num_queued++];
	*last = (struct pmv_ack){.done = number, .fault = fault};
}

static ssize_t post_ack(struct pmv_receiver *receiver, struct pmv_ack *ack)
{
	struct pmv_op *op = pmv_op_get(receiver->link->owner, PMV_OP_OWN);
	uint8_t *slot;
	ssize_t ret;

	if (!op)
		return -FI_EAGAIN;
	/* Nothing is to be done when it was sent. */
	op->ordinary = true;
	ack->number = receiver->posted_acks + 1;
	ack->looks_us = (uint32_t) (receiver->look.expect.window_ns / 1000);
	slot = receiver->link->outbox + pmv_ack_at(ack->number);
	pmv_ack_encode(slot, ack, &receiver->ack_out);
	ret = pmv_link_post(receiver->link, slot, pmv_ack_at(ack->number), PMV_ACK_SIZE, op, 0);
	if (ret)
		pmv_op_put(receiver->link->owner->pool, op);
	else
		receiver->posted_acks++;
	return ret;
}

ssize_t pmv_receiver_post_acks(struct pmv_receiver *receiver)
{
	unsigned int posted = 0;
	ssize_t ret = 0;

	while (posted < receiver->num_queued && !ret) {
		ret = post_ack(receiver, &receiver->queued[posted]);
		posted += !ret;
	}
	receiver->num_queued -= posted;
	if (receiver->num_queued)
		memmove(receiver->queued, receiver->queued + posted,
			receiver->num_queued * sizeof(receiver->queued[0]));
	return ret;
}
