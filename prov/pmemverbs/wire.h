/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.h -- what two endpoints of pmemverbs tell each other, byte by byte
 *
 * All numbers are little-endian.  Nothing that arrives is believed: the decoders
 * check everything that can be checked without knowing the receiver's memory.
 *
 * Hello: 24 bytes behind the application's CM private data of a connection
 * request and of its acceptance.  A peer without pmemverbs finds its own data
 * where they always were.  Later versions keep magic, version and length.
 *
 *    0  u32  magic "pmvh"
 *    4  u8   version (1)
 *    5  u8   1: an agent serves the mailbox; 2: it can notify of a commit
 *    6  u16  zero
 *    8  u64  address of the block; its bits 6 to 11 say more: 1: the agent can commit
 *            messages; 2: the path to this side may reorder writes; 4, 8, 16: 0, or 1
 *            and the persistence domain (enum pmv_persist) that all messages are
 *            received in; 32: and DDIO is on there
 *   16  u32  the core's key of the block
 *   20  u32  nonce, which seeds all checks of what is sent to this block
 *
 * A hello with flags or a version that it does not know says nothing to its
 * receiver.  So what came later is told by where in its page the block begins,
 * which says nothing to an older one: it takes the address as it is.  Blocks of
 * older ones begin with their pages.
 *
 * Block: memory of an endpoint that its peer writes to.
 *
 *       0  64 slots of 512 bytes: the mailbox; message n is in slot n % 64
 *   32768  64 slots of 32 bytes: acknowledgement n is in slot n % 64
 *
 * Message to the agent.  Its ranges are to become durable, the stored data after
 * them.
 *
 *    0  u64  number: 1, 2, ...
 *    8  u64  check: XXH3 of the message, seeded with number and nonce; here: 0
 *   16  u64  immediate data, if it notifies; number of messages, if it commits them
 *   24  u16  length of the message
 *   26  u8   number of ranges, at most 20
 *   27  u8   1: notify the application; 2: the last range is where data is to be
 *            stored that follows the ranges; 4: alone, that the first messages of this
 *            connection, so many, are to become durable where they were received;
 *            a write with immediate data counts as one where it uses up a receive
 *   28  u32  number of the last message whose acknowledgement the sender had, low half
 *   32  ranges: u64 address, u64 length, u32 the core's key, u32 zero
 *    .  data to store, as long as the last range says
 *
 * Acknowledgement.
 *
 *    0  u64  number: 1, 2, ...
 *    8  u64  check, as above
 *   16  u64  number of a message: it and all before it are done
 *   24  u32  0, or what went wrong with that message: enum pmv_fault
 *   28  u32  zero
 *
 * Flow control: a message is sent when at most 63 others are not acknowledged.
 * So there are never more acknowledgements under way than slots for them.
 *
 * After a fault the agent stores no data until the sender has had the
 * acknowledgement that says so: what the data were to follow is not durable.
 *
 * A write may become visible in any order of its bytes: the check is what tells
 * that all of them are there.
 */
#ifndef PMV_WIRE_H
#define PMV_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"

#define PMV_HELLO_SIZE 24

#define PMV_SLOTS 64
#define PMV_MESSAGE_SIZE 512
#define PMV_ACK_SIZE 32
#define PMV_MAX_RANGES 20
#define PMV_RANGE_SIZE 24
#define PMV_MESSAGE_HEADER 32

#define PMV_ACKS_AT (PMV_SLOTS * PMV_MESSAGE_SIZE)
#define PMV_BLOCK_SIZE (PMV_ACKS_AT + PMV_SLOTS * PMV_ACK_SIZE)

/* Room for data in a message with so many ranges. */
#define PMV_STORE_ROOM(ranges)                                                                     \
	(PMV_MESSAGE_SIZE - PMV_MESSAGE_HEADER - (ranges) * (size_t) PMV_RANGE_SIZE)

struct pmv_hello {
	uint64_t addr;
	uint32_t key;
	uint32_t nonce;
	bool agent;   /* the mailbox is served */
	bool notices; /* a message may ask for a notice */
	/* What the address says. */
	bool messages; /* the agent can commit messages */
	bool relaxed;  /* writes may be placed out of order */
	bool one_kind; /* all messages are received in memory of this kind: */
	struct pmv_attr received;
};

struct pmv_range {
	uint64_t addr;
	uint64_t len;
	uint32_t key; /* the core's */
};

struct pmv_message {
	uint64_t number;
	uint32_t seen; /* acknowledged, low half */
	uint64_t data; /* if it notifies or commits messages */
	bool notify;
	bool store;
	bool messages;
	unsigned int count;
	struct pmv_range ranges[PMV_MAX_RANGES];
	const void *payload; /* what is to be stored in the last range */
};

/* What went wrong with a message.  The values travel: never renumber. */
enum pmv_fault {
	PMV_FAULT_NONE = 0,
	PMV_FAULT_MESSAGE = 1, /* it can't be understood */
	PMV_FAULT_ACCESS = 2,  /* no such memory, or not for writing, or beyond its end */
	PMV_FAULT_IO = 3,      /* the medium failed */
	PMV_FAULT_MEMORY = 4,  /* it is not known where messages are, for want of memory */
};

struct pmv_ack {
	uint64_t number;
	uint64_t done;
	enum pmv_fault fault;
};

/* The farthest that a block may begin behind the start of its page. */
#define PMV_MAX_LEAD 4096

/* pmv_hello_lead -- how far it does, to say what the address says */
unsigned int pmv_hello_lead(const struct pmv_hello *hello);

void pmv_hello_encode(uint8_t buf[PMV_HELLO_SIZE], const struct pmv_hello *hello);

/*
 * pmv_hello_decode -- look for a hello at the end of CM data.  Returns the
 * length of the application's data in front of it: len if there is none.
 * *hello says nothing if there is none, or one of another version, or one that
 * makes no sense.
 */
size_t pmv_hello_decode(const void *cm_data, size_t len, struct pmv_hello *hello);

/* pmv_message_encode -- returns the length; the message must fit */
size_t pmv_message_encode(uint8_t buf[PMV_MESSAGE_SIZE], const struct pmv_message *message,
			  uint32_t nonce);

/* pmv_message_ready -- has message number arrived, as far as a glance can tell? */
bool pmv_message_ready(const volatile uint8_t *slot, uint64_t number);

enum pmv_arrival {
	PMV_ARRIVED,
	PMV_NOT_YET,   /* something else is there, or only a part */
	PMV_MALFORMED, /* it is whole and makes no sense */
};

/*
 * pmv_message_decode -- read message number from a slot that the peer may write
 * to meanwhile.  copy has what was read, and keeps message->payload.
 */
enum pmv_arrival pmv_message_decode(const volatile uint8_t *slot, uint64_t number, uint32_t nonce,
				    uint8_t copy[PMV_MESSAGE_SIZE], struct pmv_message *message);

void pmv_ack_encode(uint8_t buf[PMV_ACK_SIZE], const struct pmv_ack *ack, uint32_t nonce);

enum pmv_arrival pmv_ack_decode(const volatile uint8_t *slot, uint64_t number, uint32_t nonce,
				struct pmv_ack *ack);

#endif /* PMV_WIRE_H */
