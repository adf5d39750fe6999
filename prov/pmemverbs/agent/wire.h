/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.h -- what two endpoints of pmemverbs tell each other, byte by byte
 *
 * All numbers are little-endian.  The decoders check all that arrives, as far as that can be
 * checked without knowing the receiver's memory.
 *
 * Handshake: 24 bytes behind the application's private CM data, in a connection request and
 * in its acceptance.  A plain peer finds its own data.  Later versions keep magic, version
 * and length.
 *
 *    0  u16  magic
 *    2  u8   1: an agent serves the mailbox; 2: it can notify of a commit; 4: it can
 *            commit messages; 8: the path to this side may reorder writes; 16, 32, 64:
 *            0, or 1 + the persistence domain (enum pmv_persist) in which all messages
 *            are received; 128: DDIO is on there
 *    3  u45  address of the block, in pages of 4096 bytes
 *       u3   version (1)
 *    9  u40  this side's half of the connection's secret
 *   14  u16  the UDP port to which hints are sent; 0: none
 *   16  u32  the core's key of the block
 *   20  u32  the core's key of the flush page
 *
 * Block: memory of an endpoint that its peer writes to.  Nobody may read it.
 *
 *       0  64 slots of 512 bytes: the mailbox; message n is in slot n % 64
 *   32768  64 slots of 32 bytes: acknowledgement n is in slot n % 64
 *
 * Flush page: memory behind the block that peers may read and that never holds anything, for
 * READs that push writes.  It is a region of its own: by offset, both begin at 0.
 *
 * Seals.  All peers that are connected to a domain can access its regions, and keys can be
 * guessed.  So anybody may write to a block.  Every message and acknowledgement therefore has
 * a seal: SipHash-2-4 of its bytes, with 8 zeros in the place of the seal.  The hash key is
 * made from both halves of the secret, which only the two ends know and no region contains.
 * It contains sender and kind, so nothing can be sent back, and no message can pass for an
 * acknowledgement.  The number is sealed, too, so nothing is taken twice.  Anything else in a
 * slot is treated as if nothing had arrived: see Repair below.
 *
 * Message to the agent.  The agent makes its ranges durable, then stores the data, if
 * there are any, and makes them durable.
 *
 *    0  u64  number: 1, 2, ...
 *    8  u64  seal
 *   16  u64  immediate data, if it notifies; number of messages, if it commits them
 *   24  u16  length of the message
 *   26  u8   number of ranges, at most 20
 *   27  u8   1: notify the application; 2: the last range is where data is to be
 *            stored that follows the ranges; 4: with nothing but 128, that the first
 *            messages of this connection, so many, are to become durable where they were
 *            received;
 *            a write with immediate data counts as one where it uses up a receive;
 *            8: the request goes on in the next message, which has all of these flags;
 *            16, 32, 48, 64: the operation that ends with this is of interest to the
 *            application: enum pmv_rma_event;
 *            128: this promises what earlier messages name, too: it fails if one of
 *            them does, and with 2 all that is durable before the data are stored
 *   28  u32  number of the last message whose acknowledgement the sender has, low half
 *   32  ranges: u64 address, u64 length, u32 the core's key, u32 0, or 1 if the operation
 *       of interest went there.  Such a range is not made durable, unless it is the one
 *       where data is stored.
 *    .  data to store, as long as the last range says
 *
 * Acknowledgement.
 *
 *    0  u64  number: 1, 2, ...
 *    8  u64  seal
 *   16  u64  number of a message: it and all before it are done
 *   24  u32  0, or what went wrong with that message: enum pmv_fault
 *   28  u32  how long the agent looks for the next message from now on, in microseconds
 *
 * Hint: a datagram (hint.h).
 *
 *    0  u32  the core's key of the receiver's block
 *    4  u32  1: it asks for a hint back
 *    8  u64  seal
 *
 * Flow control: a message is sent only if at most 62 others are not acknowledged, or 63
 * if it is empty.  So there are never more acknowledgements under way than slots.
 *
 * Repair.  Somebody may overwrite a message or an acknowledgement.  A sender that has waited
 * for a long time therefore repeats the oldest message that is not acknowledged, and sends an
 * empty one behind it.  If that comes between two messages of a request it has their flag 8.
 * An acknowledgement that is missing although a later one is there was overwritten.  It may
 * have reported a fault, so this ends the connection.
 *
 * After a fault the agent stores no data until the sender has the acknowledgement that
 * reports the fault: the writes that the data must follow are not durable.
 *
 * The bytes of a write may become visible in any order: the seal shows that all are there.
 */
#ifndef PMV_WIRE_H
#define PMV_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/key.h"

#define PMV_HANDSHAKE_SIZE 24

#define PMV_SLOTS 64
#define PMV_MESSAGE_SIZE 512
#define PMV_ACK_SIZE 32
#define PMV_MAX_RANGES 20

#define PMV_ACKS_AT (PMV_SLOTS * PMV_MESSAGE_SIZE)
#define PMV_BLOCK_SIZE (PMV_ACKS_AT + PMV_SLOTS * PMV_ACK_SIZE)

#define PMV_FLUSH_AT PMV_BLOCK_SIZE
#define PMV_FLUSH_SIZE 64
#define PMV_BLOCK_ALIGN 4096
#define PMV_SECRET_MASK UINT64_C(0xffffffffff)

/* This many messages may wait for an acknowledgement; one more if it is empty. */
#define PMV_WINDOW (PMV_SLOTS - 1)

/* Where a message, or an acknowledgement, is in a block. */
static inline size_t pmv_message_at(uint64_t number)
{
	return number % PMV_SLOTS * PMV_MESSAGE_SIZE;
}

static inline size_t pmv_ack_at(uint64_t number)
{
	return PMV_ACKS_AT + number % PMV_SLOTS * PMV_ACK_SIZE;
}

struct pmv_handshake {
	bool known; /* there was one; else the rest is 0 */
	uint64_t addr;
	uint32_t key;
	uint32_t flush_key;
	uint64_t secret; /* this side's half */
	uint16_t port;   /* the agent can be woken by a hint to this port; 0: not so */
	bool agent;      /* the mailbox is served */
	bool notices;    /* a message may ask for a notice */
	bool messages;   /* the agent can commit messages */
	bool relaxed;    /* writes may be placed out of order */
	bool one_kind;   /* all messages are received in memory of this kind: */
	struct pmv_attr received;
};

/* The key of one end's seals on one kind. */
struct pmv_seal {
	uint8_t key[16];
};

enum pmv_sealed {
	PMV_SEALED_MESSAGE = 1,
	PMV_SEALED_ACK = 2,
	PMV_SEALED_HINT = 3,
};

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

/* A message, as it is sent: decoding fills all of it up to `payload`. */
struct pmv_message {
	uint64_t number;
	uint64_t seal;
	uint64_t data;
	uint16_t len;
	uint8_t count;
	union {
		uint8_t flags; /* all of these: */
		struct {
			bool notify : 1;
			bool store : 1;
			bool messages : 1;
			bool more : 1;
			uint8_t event : 3; /* enum pmv_rma_event */
			bool ordered : 1;
		};
	};
	uint32_t seen;
	struct pmv_range ranges[PMV_MAX_RANGES];
	const void *payload; /* to send; it follows the ranges, where it is after decoding */
};

#define PMV_MESSAGE_HEADER offsetof(struct pmv_message, ranges)

/* Room for data in a message with this number of ranges. */
#define PMV_STORE_ROOM(count)                                                                      \
	(PMV_MESSAGE_SIZE - PMV_MESSAGE_HEADER - (count) * sizeof(struct pmv_range))

/* What went wrong with a message.  The values are sent: never renumber. */
enum pmv_fault {
	PMV_FAULT_NONE = 0,
	PMV_FAULT_MESSAGE = 1, /* it is malformed */
	PMV_FAULT_ACCESS = 2,  /* no such memory, or not for writing, or beyond its end */
	PMV_FAULT_IO = 3,      /* the medium failed */
	PMV_FAULT_MEMORY = 4,  /* it is not known where messages are, for want of memory */
};

/* An acknowledgement, as it is sent. */
struct pmv_ack {
	uint64_t number;
	uint64_t seal;
	uint64_t done;
	enum pmv_fault fault;
	uint32_t looks_us;
};

/* A hint, as it is sent. */
struct pmv_hint {
	uint32_t key; /* the core's, of the receiver's block */
	uint32_t ask; /* 1: it asks for a hint back */
	uint64_t seal;
};

/* pmv_seal -- of what the side with the first half of the secret sends to the other */
struct pmv_seal pmv_seal(uint64_t from, uint64_t to, enum pmv_sealed what);

/* pmv_handshake_flush_addr -- where the flush page begins */
uint64_t pmv_handshake_flush_addr(const struct pmv_handshake *handshake);

void pmv_handshake_encode(uint8_t buf[PMV_HANDSHAKE_SIZE], const struct pmv_handshake *handshake);

/*
 * pmv_handshake_decode -- look for a handshake at the end of CM data.  Returns the
 * length of the application's data in front of it: len if there is none.
 * handshake->known is false if there is none, or one of another version, or a malformed one.
 */
size_t pmv_handshake_decode(const void *cm_data, size_t len, struct pmv_handshake *handshake);

/* pmv_message_encode -- returns the length, which it fills in; the message must fit */
size_t pmv_message_encode(uint8_t buf[PMV_MESSAGE_SIZE], struct pmv_message *message,
			  const struct pmv_seal *seal);

/* pmv_message_ready -- has message number arrived, as far as a glance can tell? */
__attribute__((no_sanitize("thread"))) static inline bool pmv_message_ready(
	const volatile uint8_t *slot, uint64_t number)
{
	return *(const volatile uint64_t *) slot == number;
}

enum pmv_arrival {
	PMV_ARRIVED,
	PMV_NOT_YET,   /* something else is there, or only a part */
	PMV_MALFORMED, /* it is whole, but does not keep to the rules */
};

/* pmv_message_decode -- read message number from a slot that the peer may write to meanwhile */
enum pmv_arrival pmv_message_decode(const volatile uint8_t *slot, uint64_t number,
				    const struct pmv_seal *seal, struct pmv_message *message);

void pmv_ack_encode(uint8_t buf[PMV_ACK_SIZE], const struct pmv_ack *ack,
		    const struct pmv_seal *seal);

enum pmv_arrival pmv_ack_decode(const volatile uint8_t *slot, uint64_t number,
				const struct pmv_seal *seal, struct pmv_ack *ack);

struct pmv_hint pmv_hint_make(uint32_t key, bool ask, const struct pmv_seal *seal);

/* pmv_hint_is_genuine -- has the peer made it? */
bool pmv_hint_is_genuine(const struct pmv_hint *hint, const struct pmv_seal *seal);

#endif /* PMV_WIRE_H */
