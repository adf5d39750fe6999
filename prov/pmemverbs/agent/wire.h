/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.h -- how two endpoints of pmemverbs talk to each other, byte by byte
 *
 * All numbers are little-endian.  The decoders check everything that arrives.
 *
 * Handshake.  These 26 bytes follow the application's private data in a connection request and in
 * its acceptance.  Later versions keep magic, versions and length.  Each side says the lowest and
 * the highest version that it speaks, and both use the highest one that they have in common.  Who
 * sends a request does not know that version yet: so all versions of one side's range have to
 * read its handshake in the same way.
 *
 *    0  u16  magic
 *    2  u8   1: an agent serves the mailbox; 2: it can notify of a commit; 4: it can
 *            commit messages; 8: the path to this side may reorder writes; 16, 32, 64:
 *            0, or 1 + the persistence domain (enum pmv_persist) in which all messages
 *            are received; 128: DDIO is on there
 *    3  u40  address of the block, in pages of 4096 bytes
 *    8  u4   the lowest version that this side speaks (1); 0: nothing here is of use
 *       u4   the highest one (1)
 *    9  u40  this side's half of the connection's secret
 *   14  u16  the UDP port to which hints are sent; 0: none
 *   16  u32  the core's key of the block
 *   20  u32  the core's key of the flush page
 *   24  u16  this side's life: its keys have the same (memory/key.h)
 *
 * verbs has room for 55 bytes.  The layer that makes datagrams of connections needs 24 of them.
 *
 * Block.  Each endpoint has one.  The peer writes to it, and nobody may read it.
 *
 *       0  64 slots of 512 bytes: the mailbox; message n is in slot n % 64
 *   32768  64 slots of 256 bytes: acknowledgement n is in slot n % 64
 *   49152  8 slots of 1040 bytes: replies, each in the slot that its message names
 *
 * Flush page.  It lies behind the block.  Peers may read it, and such a READ pushes their writes.
 * It never holds anything.  It is a region of its own: by offset, it begins at 0, too.
 *
 * Message to the agent.  The envelope says how a message travels, and nothing of what it asks.
 * That is the content, whose format depends on its kind.
 *
 *    0  u64  number: 1, 2, ...
 *    8  u64  seal
 *   16  u16  length of envelope and content
 *   18  u8   kind: 0: no content; 1: a flush (flush_message.h)
 *   19  u7   so many messages before this one are not acknowledged, as far as the sender knows
 *       u1   the request goes on in the next message
 *   20  content
 *
 * Acknowledgement.
 *
 *    0  u64  number: 1, 2, ...
 *    8  u64  seal
 *   16  u64  number of a message: it and all before it are done
 *   24  u16  0, or what went wrong with that message: enum pmv_fault
 *   26  u16  length of the reply behind it
 *   28  u31  how long the agent looks for the next message from now on, in microseconds
 *       u1   no hint of the peer's has come
 *   32  the reply to that message, if there is one and it is no longer than 224 bytes
 *
 * Reply: the results of a chain (chain_message.h).
 *
 *    0  of each of its steps:
 *       u24  how many bytes it has read or written
 *       u8   what has become of it: enum pmv_chain_status
 *    .  results of the steps
 *    .  zeros, up to a multiple of 8 bytes
 *
 * A longer one has a slot, and is posted before the acknowledgement of its message.  Results that
 * go to other memory of the peer's are posted before both.
 *
 *    0  u64  number of the message
 *    8  u64  seal
 *   16  the reply
 *
 * Hint: a datagram (hint.h).
 *
 *    0  u32  the core's key of the receiver's block
 *    4  u32  1: it asks for a hint back
 *    8  u64  seal
 *
 * Seals.  All peers of a domain can access its regions, and keys can be guessed.  So anybody may
 * write to a block.  Therefore each message and acknowledgement has a seal: SipHash-2-4 of its
 * bytes behind the first 8, which stand in the place of the seal.  The hash key contains both
 * halves of the secret, which only the two ends know.  It also contains the direction, so nothing
 * can be sent back, and the kind, so no message can pass for an acknowledgement.  The number is
 * hashed, too, so nothing is taken twice.  The bytes of a write may become visible in any order:
 * the seal shows that all are there.  A slot with anything else in it counts as empty.
 *
 * Flow control.  A message is sent if at most 62 others are not acknowledged.  An empty one is sent
 * if at most 63 are not.  So there are never more acknowledgements under way than slots.
 *
 * Repair.  Somebody may overwrite a message.  So a sender that has waited for a long time repeats
 * the oldest message that is not acknowledged, and sends an empty one behind it.  An empty one
 * between two messages of a request says that the request goes on.  Somebody may also overwrite an
 * acknowledgement.  It is missing if a later one is there.  It may have reported a fault, so this
 * ends the connection.
 */
#ifndef PMV_WIRE_H
#define PMV_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/key.h"

#define PMV_HANDSHAKE_SIZE 26
#ifndef PMV_HANDSHAKE_HIGHEST /* the step versions_tcp builds later ones */
#define PMV_HANDSHAKE_LOWEST 1
#define PMV_HANDSHAKE_HIGHEST 1
#endif

#define PMV_SLOTS 64
#define PMV_MESSAGE_SIZE 512
#define PMV_ACK_SIZE 32
#define PMV_ACK_SLOT 256
#define PMV_ACK_ROOM (PMV_ACK_SLOT - PMV_ACK_SIZE) /* for a reply */

#define PMV_REPLIES 8
#define PMV_REPLY_SIZE 1040

#define PMV_ACKS_AT (PMV_SLOTS * PMV_MESSAGE_SIZE)
#define PMV_REPLIES_AT (PMV_ACKS_AT + PMV_SLOTS * PMV_ACK_SLOT)
#define PMV_BLOCK_SIZE (PMV_REPLIES_AT + PMV_REPLIES * PMV_REPLY_SIZE)

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
	return PMV_ACKS_AT + number % PMV_SLOTS * PMV_ACK_SLOT;
}

static inline size_t pmv_reply_at(unsigned int slot)
{
	return PMV_REPLIES_AT + slot * PMV_REPLY_SIZE;
}

/* The versions that one side speaks; zeros: none. */
struct pmv_versions {
	uint8_t lowest;
	uint8_t highest;
};

struct pmv_handshake {
	bool known;                /* there was one of a version of ours; else the rest is 0, but */
	struct pmv_versions other; /* of one that has none of our versions, those that it has */
	uint8_t version;           /* the highest one that both sides speak */
	uint64_t addr;
	uint32_t key;
	uint32_t flush_key;
	uint64_t secret; /* this side's half */
	uint16_t life;   /* of this side's domain */
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
	PMV_SEALED_REPLY = 4,
};

/* What a message contains.  The values are sent: never renumber. */
enum pmv_content {
	PMV_CONTENT_NONE = 0,
	PMV_CONTENT_FLUSH = 1,
};

/* As it is sent, at the start of a message.  The content follows without a gap. */
struct pmv_envelope {
	uint64_t number;
	uint64_t seal;
	uint16_t len;
	uint8_t content; /* enum pmv_content */
	uint8_t unacked : 7;
	bool more : 1;
} __attribute__((packed, aligned(4)));

/* A message of any content. */
struct pmv_message {
	struct pmv_envelope envelope;
	uint8_t content[PMV_MESSAGE_SIZE - sizeof(struct pmv_envelope)];
} __attribute__((aligned(8)));

/* What went wrong with a message.  The values are sent: never renumber. */
enum pmv_fault {
	PMV_FAULT_NONE = 0,
	PMV_FAULT_MESSAGE = 1, /* it is malformed */
	PMV_FAULT_ACCESS = 2,  /* no such memory, or not for writing, or beyond its end */
	PMV_FAULT_IO = 3,      /* the medium failed */
	PMV_FAULT_MEMORY = 4,  /* it is not known where messages are, for want of memory */
};

/* An acknowledgement, as it is sent: as much of it as there is. */
struct pmv_ack {
	uint64_t number;
	uint64_t seal;
	uint64_t done;
	enum pmv_fault fault : 16;
	uint32_t reply_len : 16;
	uint32_t looks_us : 31;
	uint32_t unhinted : 1;
	uint8_t reply[PMV_ACK_ROOM];
};

#define PMV_CHAIN_STEPS 16
#define PMV_REPLY_ROOM 960 /* for results */
#define PMV_REPLY_MOST_DONE 0xffffff

struct pmv_reply_step {
	uint32_t done : 24;
	uint32_t status : 8; /* enum pmv_chain_status */
};

/* A reply.  It is sent with as many steps and results as there are. */
struct pmv_reply {
	struct pmv_reply_step steps[PMV_CHAIN_STEPS];
	uint8_t results[PMV_REPLY_ROOM];
};

/* What both sides know of it. */
struct pmv_reply_size {
	unsigned int steps;
	unsigned int results; /* bytes of them */
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
static inline uint64_t pmv_handshake_flush_addr(const struct pmv_handshake *handshake)
{
	return handshake->addr ? handshake->addr + PMV_FLUSH_AT : 0;
}

/* pmv_versions_common -- the highest version that both sides speak; 0: there is none */
uint8_t pmv_versions_common(struct pmv_versions one, struct pmv_versions two);

void pmv_handshake_encode(uint8_t buf[PMV_HANDSHAKE_SIZE], const struct pmv_handshake *handshake);

/*
 * pmv_handshake_decode -- look for a handshake at the end of CM data.  Returns the
 * length of the application's data in front of it: len if there is none.
 * handshake->known is false if there is none, or one without a version of ours, or a malformed one.
 */
size_t pmv_handshake_decode(const void *cm_data, size_t len, struct pmv_handshake *handshake);

/* pmv_message_seal -- the content is there; put the envelope in front of it, and seal both */
void pmv_message_seal(struct pmv_message *message, const struct pmv_envelope *envelope,
		      const struct pmv_seal *seal);

/* pmv_message_ready -- has message number arrived, as far as a glance can tell? */
__attribute__((no_sanitize("thread"))) static inline bool pmv_message_ready(
	const volatile uint8_t *slot, uint64_t number)
{
	return *(const volatile uint64_t *) slot == number;
}

/*
 * pmv_message_decode -- read message number from a slot that the peer may write to meanwhile.
 * False: something else is there, or only a part of it.  The content is not checked.
 */
bool pmv_message_decode(const volatile uint8_t *slot, uint64_t number, const struct pmv_seal *seal,
			struct pmv_message *message);

/* pmv_ack_seal -- of one that is complete and, with its reply, so long */
void pmv_ack_seal(struct pmv_ack *ack, size_t len, const struct pmv_seal *seal);

/* pmv_ack_decode -- the same for an acknowledgement */
bool pmv_ack_decode(const volatile uint8_t *slot, uint64_t number, const struct pmv_seal *seal,
		    struct pmv_ack *ack);

/* pmv_reply_len -- as it is sent; pmv_reply_is_short -- with the acknowledgement */
static inline size_t pmv_reply_len(struct pmv_reply_size size)
{
	return (size.steps * sizeof(struct pmv_reply_step) + size.results + 7) & ~(size_t) 7;
}

static inline bool pmv_reply_is_short(struct pmv_reply_size size)
{
	return pmv_reply_len(size) <= PMV_ACK_ROOM;
}

/* pmv_reply_pack, pmv_reply_unpack -- to and from what is sent */
void pmv_reply_pack(uint8_t *to, const struct pmv_reply *reply, struct pmv_reply_size size);
void pmv_reply_unpack(struct pmv_reply *reply, const uint8_t *from, struct pmv_reply_size size);

/*
 * pmv_reply_encode, pmv_reply_decode -- the same for the reply to a message, in a slot of its own.
 * The former returns how long that is.
 */
size_t pmv_reply_encode(uint8_t *slot, uint64_t number, const struct pmv_reply *reply,
			struct pmv_reply_size size, const struct pmv_seal *seal);
bool pmv_reply_decode(const volatile uint8_t *slot, uint64_t number, struct pmv_reply_size size,
		      const struct pmv_seal *seal, struct pmv_reply *reply);

struct pmv_hint pmv_hint_make(uint32_t key, bool ask, const struct pmv_seal *seal);

/* pmv_hint_is_genuine -- has the peer made it? */
bool pmv_hint_is_genuine(const struct pmv_hint *hint, const struct pmv_seal *seal);

#endif /* PMV_WIRE_H */
