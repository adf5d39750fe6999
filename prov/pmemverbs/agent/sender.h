/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sender.h -- the half of a mailbox that asks the peer's agent
 *
 * The lock of its endpoint protects it, but for what is atomic: our agent's thread reads that for
 * those who sleep until an acknowledgement comes.
 */
#ifndef PMV_SENDER_H
#define PMV_SENDER_H

#include <stdatomic.h>
#include <sys/types.h>

#include "agent/link.h"

struct pmv_sender {
	const struct pmv_link *link;
	struct pmv_seal message_out, ack_in, reply_in;
	atomic_uint unacked; /* operations that wait for an acknowledgement */
	uint64_t sent;
	uint64_t acked; /* this one and all before it */
	atomic_uint_fast64_t next_ack;
	uint64_t asked;             /* the last empty message */
	bool in_request;            /* the last message's request goes on in the next one */
	bool repeat_asked;          /* the next repeat is of that one */
	unsigned int unhinted;      /* so many acknowledgements in a row said: no hint has come */
	uint64_t missing_ack;       /* was missing when this was last checked; 0: none */
	int64_t sent_ns[PMV_SLOTS]; /* when each was posted, if there are hints */
	int64_t awake_ns; /* until then the peer's agent looks into its mailbox by itself */
	atomic_int_fast64_t hint_again_ns, hint_wait_ns; /* if there is no acknowledgement */
};

/* pmv_sender_slot -- where the content of the next message belongs; NULL: the peer has no room */
static inline struct pmv_message *pmv_sender_slot(const struct pmv_sender *sender)
{
	if (sender->sent - sender->acked >= PMV_WINDOW)
		return NULL;
	return (struct pmv_message *) (sender->link->outbox + pmv_message_at(sender->sent + 1));
}

/*
 * pmv_sender_send -- number, seal and post the message whose content is in the slot.  The caller
 * says its length, what it contains, and whether more follows.
 */
ssize_t pmv_sender_send(struct pmv_sender *sender, struct pmv_envelope *envelope, struct pmv_op *op,
			uint64_t flags);

/*
 * pmv_sender_hint_again -- if acknowledgements have been missing for a while, the last hint was
 * lost, or the agent fell asleep before the request came.  Needs no lock.
 */
void pmv_sender_hint_again(struct pmv_sender *sender, int64_t now);

/*
 * Repair (wire.h).  pmv_sender_repeat -- post a message again that is not acknowledged: the oldest
 * one and the last empty one take turns.  Only one may be under way.  -FI_ECANCELED: it is not
 * known any more.  pmv_sender_ask -- post an empty message, if pmv_sender_may_ask
 */
ssize_t pmv_sender_repeat(struct pmv_sender *sender, struct pmv_op *op);
ssize_t pmv_sender_ask(struct pmv_sender *sender, struct pmv_op *op);
bool pmv_sender_may_ask(const struct pmv_sender *sender);

/*
 * pmv_sender_misses_ack -- true: an acknowledgement was overwritten, as two calls have found
 * a later one.  One proves nothing: reordered writes may come before and after it.
 */
bool pmv_sender_misses_ack(struct pmv_sender *sender);

/* pmv_sender_has_ack -- is the next acknowledgement there, whole?  Needs no lock. */
bool pmv_sender_has_ack(const struct pmv_sender *sender);

enum pmv_arrival {
	PMV_ARRIVED,
	PMV_NOT_YET,
	PMV_MALFORMED, /* the peer does not keep to the rules; take no more */
};

enum pmv_arrival pmv_sender_take_ack(struct pmv_sender *sender, struct pmv_ack *ack);

#endif /* PMV_SENDER_H */
