/* SPDX-License-Identifier: BSD-2-Clause */
/* receiver.h -- the half of a mailbox that the agent serves; the agent's lock protects it */
#ifndef PMV_RECEIVER_H
#define PMV_RECEIVER_H

#include <sys/queue.h>
#include <sys/types.h>

#include "agent/link.h"
#include "agent/look.h"
#include "agent/rma_event.h"

struct pmv_extent;
struct pmv_large_results;
struct pmv_queue;
struct pmv_receive_tracker;
struct pmv_sender;
struct pmv_work;

/* An acknowledgement still to be numbered and posted. */
struct pmv_queued_ack {
	uint64_t done;
	enum pmv_fault fault : 16;
	uint32_t reply_len : 8; /* of a short reply, which is its slot's; 0: none */
	uint32_t slot : 8;
};

struct pmv_receiver {
	const struct pmv_link *link;
	uint64_t number;           /* of all that the agent has ever served; 0: not yet */
	struct pmv_sender *sender; /* the other half: only what is atomic in it */
	struct pmv_receive_tracker *receives;
	struct pmv_queue *notice_queue; /* NULL: nobody reads notices */
	bool takes_notices;             /* they need no receive */
	struct pmv_rma_events events;
	struct pmv_seal message_in, ack_out, hint_in;

	TAILQ_ENTRY(pmv_receiver) next; /* of the agent, in a list of its looks */
	struct pmv_look look;
	bool attached;
	bool warned;
	bool closing;
	bool starved;    /* there was no room for an acknowledgement */
	bool lacks_room; /* ... for the next request's notice */
	bool refused;    /* it sent a malformed request, or can't be answered: none is served ... */
	bool ended;      /* ... and the connection was ended */
	int64_t end_by_ns; /* ... or is then, if nothing else ends it before; 0: not known yet */
	bool syncing;      /* its requests are in a group: syncing.h */
	bool working;      /* `work` takes several rounds: */
	enum pmv_fault part_fault; /* of what was served of a request that goes on */
	struct pmv_work *work;     /* see writeback.h */
	struct pmv_extent *left;   /* what its chains have stored and not committed: chain_work.h */
	size_t num_left;
	uint64_t served;  /* this one and all before it are taken */
	uint64_t faulted; /* the last one with a fault */
	uint64_t posted_acks;
	uint64_t posted; /* of all that was sent: pmv_link_signals */
	unsigned int num_queued;
	struct pmv_queued_ack queued[PMV_SLOTS];
	uint8_t short_reply[PMV_REPLIES][PMV_ACK_ROOM];
	struct pmv_seal reply_out;
	unsigned int replies; /* bit for each slot with something to post before these: */
	uint16_t reply_len[PMV_REPLIES];              /* 0: no reply */
	struct pmv_large_results *large[PMV_REPLIES]; /* in front of that; or NULL */
};

/*
 * pmv_receiver_look -- is the next message of the peer there, whole?  Then it is number
 * `served` + 1.  pmv_receiver_has_message -- as far as a glance can tell.
 */
static inline bool pmv_receiver_has_message(const struct pmv_receiver *receiver)
{
	uint64_t number = receiver->served + 1;

	return pmv_message_ready(receiver->link->block + pmv_message_at(number), number);
}

bool pmv_receiver_look(const struct pmv_receiver *receiver, struct pmv_message *message);

/* pmv_receiver_queue_ack -- a message was served; pmv_receiver_post_acks -- post all queued ones */
void pmv_receiver_queue_ack(struct pmv_receiver *receiver, uint64_t number, enum pmv_fault fault);

/*
 * pmv_receiver_queue_reply -- a chain was: before its acknowledgement is queued.  A short reply
 * travels with that.  Others are posted before all acknowledgements that are queued, and large
 * results, which the slot has, before these.
 */
void pmv_receiver_queue_reply(struct pmv_receiver *receiver, uint64_t number, unsigned int slot,
			      const struct pmv_reply *reply, struct pmv_reply_size size);
ssize_t pmv_receiver_post_acks(struct pmv_receiver *receiver);

/* pmv_receiver_close -- its memory, when the endpoint is gone; 0, or a negative fi_errno: try again
 */
int pmv_receiver_close(struct pmv_receiver *receiver);

#endif /* PMV_RECEIVER_H */
