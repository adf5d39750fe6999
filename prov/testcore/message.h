/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * message.h -- messages with a flush (agent/flush_message.h), as an initiator would make them, and
 * acknowledgements
 */
#ifndef TESTCORE_MESSAGE_H
#define TESTCORE_MESSAGE_H

#include <string.h>

#include <sodium/crypto_shorthash.h>

#include "agent/flush_message.h"

/* message_data -- what is to be stored: it follows the ranges */
static inline uint8_t *message_data(struct pmv_flush_message *message)
{
	return (uint8_t *) message + pmv_flush_message_len(message->count);
}

/* message_carry -- store so much as the last range says */
static inline void message_carry(struct pmv_flush_message *message, const void *data)
{
	message->store = true;
	memcpy(message_data(message), data, message->ranges[message->count - 1].len);
}

/* message_encode -- returns the length, which it fills in, as the seal */
static inline size_t message_encode(void *slot, struct pmv_flush_message *message,
				    const struct pmv_seal *seal)
{
	struct pmv_envelope *envelope = &message->envelope;

	envelope->content = PMV_CONTENT_FLUSH;
	envelope->len = (uint16_t) pmv_flush_message_len(message->count);
	if (message->store)
		envelope->len += (uint16_t) message->ranges[message->count - 1].len;
	pmv_message_seal((struct pmv_message *) message, envelope, seal);
	memcpy(slot, message, envelope->len);
	return envelope->len;
}

/* ack_encode -- the same of an acknowledgement */
static inline size_t ack_encode(void *slot, const struct pmv_ack *ack, const struct pmv_seal *seal)
{
	size_t len = PMV_ACK_SIZE + ack->reply_len;

	memcpy(slot, ack, len);
	pmv_ack_seal((struct pmv_ack *) slot, len, seal);
	return len;
}

/* reseal -- a right seal, on whatever is there: as wire.h says, and not as wire.c does it */
static inline void reseal(void *buf, size_t len, const struct pmv_seal *seal)
{
	uint8_t *from = (uint8_t *) buf + 8, hash[crypto_shorthash_BYTES];

	if (len < 16)
		return;
	memcpy(from, buf, 8);
	crypto_shorthash(hash, from, len - 8, seal->key);
	memcpy(from, hash, sizeof(hash));
}

#endif /* TESTCORE_MESSAGE_H */
