/* SPDX-License-Identifier: BSD-2-Clause */
/* sender.c -- messages to the peer's agent, and its acknowledgements; sender.h has the rules */
#include "agent/sender.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "agent/idle_plan.h"
#include "agent/kick.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "progress/op.h"
#include "progress/queue.h"

/* hint_of_request -- a request was posted: wake the agent up, if it may be asleep */
static void hint_of_request(struct pmv_sender *sender)
{
	int64_t now;

	if (!sender->link->hint_peer.len)
		return;
	now = pmv_clock_ns();
	sender->sent_ns[sender->sent % PMV_SLOTS] = now;
	atomic_store(&sender->hint_wait_ns, PMV_IDLE_HINT_AGAIN_NS);
	atomic_store(&sender->hint_again_ns, now + PMV_IDLE_HINT_AGAIN_NS);
	if (now < sender->awake_ns)
		return;
	pmv_link_hint(sender->link, false);
	sender->awake_ns = now + PMV_IDLE_LEAST_WINDOW_NS;
}

void pmv_sender_hint_again(struct pmv_sender *sender, int64_t now)
{
	int_fast64_t again = atomic_load(&sender->hint_again_ns);
	int64_t wait = atomic_load(&sender->hint_wait_ns);

	if (!sender->link->hint_peer.len || now < again ||
	    !atomic_compare_exchange_strong(&sender->hint_again_ns, &again, now + wait))
		return;
	if (wait < PMV_IDLE_LONGEST_HINT_AGAIN_NS)
		atomic_store(&sender->hint_wait_ns, 2 * wait);
	pmv_link_hint(sender->link, false);
}

/*
 * keep_watch -- whoever sleeps on one of the queues may have seen another request, whose
 * acknowledgement somebody else has taken: then our agent's thread looks for none any more.  Where
 * calls move them, whoever moves one wakes who sleeps.
 */
static void keep_watch(const struct pmv_link *link)
{
	if ((pmv_queue_is_watched(link->owner->tx_queue) ||
	     pmv_queue_is_watched(link->owner->rx_queue)) &&
	    !link->engine->engine->core->manual_progress)
		pmv_agent_kick(link->agent);
}

/* Messages from here */

ssize_t pmv_sender_send(struct pmv_sender *sender, struct pmv_envelope *envelope, struct pmv_op *op,
			uint64_t flags)
{
	uint8_t *slot = sender->link->outbox + pmv_message_at(sender->sent + 1);
	ssize_t ret;

	envelope->number = sender->sent + 1;
	envelope->unacked = (uint8_t) (sender->sent - sender->acked);
	pmv_message_seal((struct pmv_message *) slot, envelope, &sender->message_out);
	ret = pmv_link_post(sender->link, slot, pmv_message_at(envelope->number), envelope->len, op,
			    flags);
	if (ret)
		return ret;
	sender->sent++;
	sender->in_request = envelope->more;
	hint_of_request(sender);
	keep_watch(sender->link);
	return 0;
}

/*
 * From a place of its own: a core may read the message only when it sends it, and the
 * outbox's slot may contain another one by then
 */
ssize_t pmv_sender_repeat(struct pmv_sender *sender, struct pmv_op *op)
{
	bool last = sender->repeat_asked && sender->asked > sender->acked;
	uint64_t number = last ? sender->asked : sender->acked + 1;
	uint8_t *copy = sender->link->outbox + PMV_BLOCK_SIZE;
	struct pmv_message message;

	sender->repeat_asked = !sender->repeat_asked;
	memcpy(copy, sender->link->outbox + pmv_message_at(number), PMV_MESSAGE_SIZE);
	/* Where every region has all rights others may write to the outbox, too. */
	if (!pmv_message_decode(copy, number, &sender->message_out, &message))
		return -FI_ECANCELED;
	return pmv_link_post(sender->link, copy, pmv_message_at(number), PMV_MESSAGE_SIZE, op, 0);
}

bool pmv_sender_may_ask(const struct pmv_sender *sender)
{
	return sender->asked <= sender->acked && sender->sent - sender->acked < PMV_SLOTS;
}

ssize_t pmv_sender_ask(struct pmv_sender *sender, struct pmv_op *op)
{
	/* In the middle of a request it is a part of that one. */
	struct pmv_envelope empty = {.len = sizeof(empty), .more = sender->in_request};
	ssize_t ret = pmv_sender_send(sender, &empty, op, 0);

	if (!ret)
		sender->asked = sender->sent;
	return ret;
}

static bool look_for_ack(const struct pmv_sender *sender, uint64_t number, struct pmv_ack *ack)
{
	return pmv_ack_decode(sender->link->block + pmv_ack_at(number), number, &sender->ack_in,
			      ack);
}

bool pmv_sender_misses_ack(struct pmv_sender *sender)
{
	uint64_t next = atomic_load(&sender->next_ack);
	bool missed = sender->missing_ack == next;
	struct pmv_ack ack;

	sender->missing_ack = 0;
	for (uint64_t number = next + 1; number < next + PMV_SLOTS; number++) {
		if (look_for_ack(sender, number, &ack))
			sender->missing_ack = next;
	}
	return missed && sender->missing_ack;
}

bool pmv_sender_has_ack(const struct pmv_sender *sender)
{
	struct pmv_ack ack;

	return look_for_ack(sender, atomic_load(&sender->next_ack), &ack);
}

/*
 * show_hints -- there may be no request for long, and nobody here who hears that the peer asks for
 * a hint.  Where none arrives ever, few are sent.
 */
static void show_hints(struct pmv_sender *sender)
{
	if (sender->acked != sender->sent)
		return;
	if (sender->unhinted++ < PMV_IDLE_SHOWN_AT_FIRST || !(sender->unhinted % PMV_IDLE_SHOWN_IN))
		pmv_link_hint(sender->link, true);
}

enum pmv_arrival pmv_sender_take_ack(struct pmv_sender *sender, struct pmv_ack *ack)
{
	uint64_t number = atomic_load(&sender->next_ack);
	int64_t until;

	if (!look_for_ack(sender, number, ack))
		return PMV_NOT_YET;
	/* It was never sent, or was acknowledged before. */
	if (ack->done <= sender->acked || ack->done > sender->sent)
		return PMV_MALFORMED;
	sender->acked = ack->done;
	/*
	 * It looks for so long from when it has sent this on.  The next request takes as long
	 * to it as this one did: so it is in time if it is sent within that time after it.
	 */
	until = sender->sent_ns[ack->done % PMV_SLOTS] + (int64_t) ack->looks_us * (1000 * 3 / 4);
	if (sender->awake_ns < until)
		sender->awake_ns = until;
	atomic_store(&sender->next_ack, number + 1);
	if (ack->unhinted)
		show_hints(sender);
	else
		sender->unhinted = 0;
	return PMV_ARRIVED;
}
