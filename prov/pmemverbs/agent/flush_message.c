/* SPDX-License-Identifier: BSD-2-Clause */
/* flush_message.c -- checks what a flush asks of the agent; flush_message.h has the format */
#include "agent/flush_message.h"

#include "agent/chain_message.h"

_Static_assert(offsetof(struct pmv_flush_message, data) == 24, "flags");
_Static_assert(sizeof(struct pmv_flush_message) == PMV_MESSAGE_SIZE, "message");

static bool flags_go_together(const struct pmv_flush_message *message)
{
	const unsigned int others = PMV_FLUSH_NOTIFY | PMV_FLUSH_STORE | PMV_FLUSH_EVENT;
	unsigned int flags = message->flags;

	if (flags & PMV_FLUSH_MESSAGES)
		return !message->envelope.more && !(flags & (others | PMV_FLUSH_CHAIN));
	return !message->envelope.more && message->event <= PMV_EVENT_FETCH &&
	       (!(flags & PMV_FLUSH_STORE) || message->count) &&
	       (!(flags & PMV_FLUSH_CHAIN) || (flags & others) == PMV_FLUSH_STORE);
}

static bool chain_is_valid(const struct pmv_flush_message *message)
{
	const struct pmv_range *last = &message->ranges[message->count - 1];
	struct pmv_chain chain;

	return !last->addr && !last->key &&
	       pmv_chain_decode(pmv_flush_message_data(message), last->len, &chain);
}

bool pmv_flush_message_is_valid(const struct pmv_flush_message *message)
{
	size_t len = pmv_flush_message_len(message->count);
	uint64_t marked = 0;

	if (message->count > PMV_MAX_RANGES || len > message->envelope.len || message->zero ||
	    (message->flags && !flags_go_together(message)))
		return false;
	for (unsigned int i = 0; i < message->count; i++)
		marked |= message->ranges[i].key >> 32;
	/* An operation of interest has at least one place, and no other marks a range. */
	if (marked != (message->event != PMV_EVENT_NONE))
		return false;
	if (!message->store)
		return message->envelope.len == len;
	return message->envelope.len - len == message->ranges[message->count - 1].len &&
	       (!message->chain || chain_is_valid(message));
}
