/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flush_message.h -- what a flush asks of the agent: the content of a message (wire.h)
 *
 * The agent makes ranges durable.  Then it stores data, if there are any, and makes them durable.
 *
 *   20  u8   number of ranges, at most 20
 *   21  u8   1: notify the application
 *            2: the last range is where the data are to be stored that follow the ranges
 *            4: so many messages of this connection, from the first one on, are to become durable
 *               where they were received.  A write with immediate data counts as one where it uses
 *               up a receive.  This goes with no other flag but 64.
 *            8, 16, 24, 32: the operation that ends with this is of interest to the application:
 *               enum pmv_rma_event
 *            64: this fails if an earlier message does, since it promises what they name, too. With
 *               2 all of that is durable before the data are stored, except data that these
 *               replace (writeback.h).
 *            128: with 2, and no notice or event: a chain follows instead of data
 *               (chain_message.h).  The last range has its length, and is no place.
 *   22  u16  0
 *   24  u64  immediate data, if it notifies; number of messages, if it commits them
 *   32  ranges: u64 address, u64 length, u32 the core's key, u32 0, or 1 if the operation
 *       of interest went there.  Such a range is not made durable, unless it is the one
 *       where data are stored.
 *    .  data to store, as long as the last range says
 *
 * If the request goes on in the next message, there are ranges and no flags.
 *
 * After a fault the agent stores no data of a request with 64 until the sender has the
 * acknowledgement that reports the fault: the writes that the data must follow are not durable.
 */
#ifndef PMV_FLUSH_MESSAGE_H
#define PMV_FLUSH_MESSAGE_H

#include "agent/wire.h"

#define PMV_MAX_RANGES 20

/*
 * An operation of which the application wants to be told.  It is told when all that the
 * request names is durable.  The values are sent: never renumber.
 */
enum pmv_rma_event {
	PMV_EVENT_NONE = 0,
	PMV_EVENT_WRITE = 1,
	PMV_EVENT_DATA = 2, /* immediate data tell the completion queue of it */
	PMV_EVENT_ATOMIC = 3,
	PMV_EVENT_FETCH = 4, /* an atomic that also reads */
};

/* In the key of a range: the operation of interest went there. */
#define PMV_RANGE_EVENT (UINT64_C(1) << 32)

/* Flags of a message, where several matter at once. */
enum pmv_flush_flag {
	PMV_FLUSH_NOTIFY = 1 << 0,
	PMV_FLUSH_STORE = 1 << 1,
	PMV_FLUSH_MESSAGES = 1 << 2,
	PMV_FLUSH_EVENT_1 = 1 << 3, /* times enum pmv_rma_event */
	PMV_FLUSH_EVENT = 7 << 3,
	PMV_FLUSH_ORDERED = 1 << 6,
	PMV_FLUSH_CHAIN = 1 << 7,
	/* Somebody hears of its end, besides the acknowledgement. */
	PMV_FLUSH_TELLS = PMV_FLUSH_NOTIFY | PMV_FLUSH_EVENT | PMV_FLUSH_CHAIN,
};

/* A message, as it is sent. */
struct pmv_flush_message {
	struct pmv_envelope envelope;
	uint8_t count;
	union {
		uint8_t flags; /* all of these: */
		struct {
			bool notify : 1;
			bool store : 1;
			bool messages : 1;
			uint8_t event : 3; /* enum pmv_rma_event */
			bool ordered : 1;
			bool chain : 1;
		};
	};
	uint16_t zero;
	uint64_t data;
	struct pmv_range ranges[PMV_MAX_RANGES]; /* count of them; data to store follow */
};

/* pmv_flush_message_len -- of a message with so many ranges, without data to store */
static inline size_t pmv_flush_message_len(unsigned int count)
{
	return offsetof(struct pmv_flush_message, ranges) + count * sizeof(struct pmv_range);
}

/* Room for data in a message with this number of ranges. */
#define PMV_STORE_ROOM(count) (PMV_MESSAGE_SIZE - pmv_flush_message_len(count))

/* pmv_flush_message_data -- what follows the ranges, and its length */
static inline uint64_t pmv_flush_message_data_len(const struct pmv_flush_message *message)
{
	return message->ranges[message->count - 1].len;
}

static inline const uint8_t *pmv_flush_message_data(const struct pmv_flush_message *message)
{
	return (const uint8_t *) message + pmv_flush_message_len(message->count);
}

/* pmv_flush_message_is_valid -- does a whole message keep to the rules? */
bool pmv_flush_message_is_valid(const struct pmv_flush_message *message);

#endif /* PMV_FLUSH_MESSAGE_H */
