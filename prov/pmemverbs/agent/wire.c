/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.c -- encodes and decodes what two endpoints tell each other; wire.h has the formats */
#include "agent/wire.h"

#include <stdatomic.h>
#include <string.h>

#include <sodium/crypto_shorthash.h>

#include "base/inline.h"

#define SEAL_AT offsetof(struct pmv_envelope, seal)
#define REPLY_AT (SEAL_AT + sizeof(uint64_t)) /* in a slot */

/* No text ends with these bytes. */
#define HANDSHAKE_MAGIC UINT16_C(0xf5e7)

/* Linux gives out larger addresses only to those who ask for them. */
#define PAGE_BITS 40

struct wire_handshake {
	uint16_t magic;
	bool agent : 1;
	bool notices : 1;
	bool messages : 1;
	bool relaxed : 1;
	uint8_t kind : 3;
	bool ddio : 1;
	uint64_t page : PAGE_BITS;
	uint8_t lowest : 4;
	uint8_t highest : 4;
	uint64_t secret : 40;
	uint16_t port;
	uint32_t key;
	uint32_t flush_key;
	uint16_t life;
} __attribute__((packed));

/* libpmem2 knows no other processors. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structures are sent as they are");
_Static_assert(sizeof(struct wire_handshake) == PMV_HANDSHAKE_SIZE, "handshake");
_Static_assert(PMV_HANDSHAKE_LOWEST >= 1 && PMV_HANDSHAKE_LOWEST <= PMV_HANDSHAKE_HIGHEST &&
		       PMV_HANDSHAKE_HIGHEST <= 15,
	       "versions");
_Static_assert(sizeof(struct pmv_envelope) == 20, "envelope");
_Static_assert(sizeof(struct pmv_message) == PMV_MESSAGE_SIZE, "message");
_Static_assert(sizeof(struct pmv_ack) == PMV_ACK_SLOT, "ack");
_Static_assert(offsetof(struct pmv_ack, reply) == PMV_ACK_SIZE, "ack");
_Static_assert(SEAL_AT == sizeof(uint64_t), "all that is in front of the seal");
_Static_assert(SEAL_AT == offsetof(struct pmv_ack, seal), "seal");
_Static_assert(SEAL_AT == offsetof(struct pmv_hint, seal), "seal");
_Static_assert(REPLY_AT + sizeof(struct pmv_reply) == PMV_REPLY_SIZE, "reply");
_Static_assert(sizeof(struct pmv_seal) == crypto_shorthash_KEYBYTES, "key");
_Static_assert(sizeof(uint64_t) == crypto_shorthash_BYTES, "seal");
_Static_assert(PMV_MESSAGE_SIZE % 64 == 0 && PMV_ACK_SIZE % 16 == 0 && PMV_ACK_SLOT % 16 == 0 &&
		       PMV_REPLY_SIZE % 16 == 0,
	       "slots");

/* Seals */

struct pmv_seal pmv_seal(uint64_t from, uint64_t to, enum pmv_sealed what)
{
	struct pmv_seal seal = {.key = {[12] = (uint8_t) what}};

	memcpy(seal.key, &from, 6);
	memcpy(seal.key + 6, &to, 6);
	return seal;
}

/* make_seal -- of a whole message or acknowledgement; leaves its number in the seal's place */
static uint64_t make_seal(uint8_t *buf, size_t len, const struct pmv_seal *seal)
{
	uint64_t hash;

	memcpy(buf + SEAL_AT, buf, sizeof(hash));
	crypto_shorthash((uint8_t *) &hash, buf + SEAL_AT, len - SEAL_AT, seal->key);
	return hash;
}

static void put_seal(uint8_t *buf, size_t len, const struct pmv_seal *seal)
{
	uint64_t hash = make_seal(buf, len, seal);

	memcpy(buf + SEAL_AT, &hash, sizeof(hash));
}

/* Of functions that read a slot: the peer writes there, and no thread of ours. */
#define READS_SLOT __attribute__((no_sanitize("thread")))

/* Two words, wherever they are. */
typedef uint64_t pmv_words __attribute__((vector_size(16), aligned(1), may_alias));

/*
 * copy_in -- from memory that the peer may write to meanwhile.  It copies two words at a time:
 * slots and copies have room for whole pairs.  Whatever is loaded or flushed after this call is so
 * after the copy was made.  Only the seal shows whether the message was whole by then.
 */
READS_SLOT PMV_ALWAYS_INLINE void copy_in(uint8_t *to, const volatile uint8_t *from, size_t len)
{
	for (size_t at = 0; at < len; at += sizeof(pmv_words))
		*(pmv_words *) (to + at) = *(const volatile pmv_words *) (from + at);
	/* No later load, and no flush, comes before those loads. */
	atomic_thread_fence(memory_order_acquire);
}

/* The handshake */

uint8_t pmv_versions_common(struct pmv_versions one, struct pmv_versions two)
{
	uint8_t lowest = one.lowest > two.lowest ? one.lowest : two.lowest;
	uint8_t highest = one.highest < two.highest ? one.highest : two.highest;

	return highest < lowest ? 0 : highest;
}

void pmv_handshake_encode(uint8_t buf[PMV_HANDSHAKE_SIZE], const struct pmv_handshake *handshake)
{
	uint64_t page = handshake->addr / PMV_BLOCK_ALIGN;
	/* Nobody understands an address that does not fit. */
	bool fits = !(page >> PAGE_BITS);
	struct wire_handshake wire = {
		.magic = HANDSHAKE_MAGIC,
		.agent = handshake->agent,
		.notices = handshake->notices,
		.messages = handshake->messages,
		.relaxed = handshake->relaxed,
		.kind = handshake->one_kind ? handshake->received.persist + 1U : 0,
		.ddio = handshake->one_kind && handshake->received.ddio,
		.page = page,
		.lowest = fits ? PMV_HANDSHAKE_LOWEST : 0,
		.highest = fits ? PMV_HANDSHAKE_HIGHEST : 0,
		.secret = handshake->secret,
		.port = handshake->port,
		.key = handshake->key,
		.flush_key = handshake->flush_key,
		.life = handshake->life,
	};

	memcpy(buf, &wire, sizeof(wire));
}

size_t pmv_handshake_decode(const void *cm_data, size_t len, struct pmv_handshake *handshake)
{
	const struct pmv_versions ours = {PMV_HANDSHAKE_LOWEST, PMV_HANDSHAKE_HIGHEST};
	struct pmv_versions theirs;
	struct wire_handshake wire;
	uint8_t version;

	*handshake = (struct pmv_handshake){0};
	if (len < sizeof(wire))
		return len;
	memcpy(&wire, (const uint8_t *) cm_data + len - sizeof(wire), sizeof(wire));
	if (wire.magic != HANDSHAKE_MAGIC)
		return len;
	len -= sizeof(wire);
	theirs = (struct pmv_versions){wire.lowest, wire.highest};
	if (!theirs.lowest || theirs.lowest > theirs.highest)
		return len;
	version = pmv_versions_common(ours, theirs);
	/* Nothing else that other versions say can be understood. */
	if (!version) {
		handshake->other = theirs;
		return len;
	}
	if (wire.kind > PMV_WSP + 1 || (wire.ddio && !wire.kind))
		return len;
	*handshake = (struct pmv_handshake){
		.known = true,
		.version = version,
		.addr = (uint64_t) wire.page * PMV_BLOCK_ALIGN,
		.secret = wire.secret,
		.port = wire.port,
		.key = wire.key,
		.flush_key = wire.flush_key,
		.life = wire.life,
		.agent = wire.agent,
		.notices = wire.notices,
		.messages = wire.agent && wire.messages,
		.relaxed = wire.relaxed,
		.one_kind = wire.kind,
	};
	if (wire.kind)
		handshake->received = (struct pmv_attr){
			.persist = (enum pmv_persist)(wire.kind - 1),
			.pmem = true,
			.ddio = wire.ddio,
			/* A flush reads the flush page. */
			.readable = true,
		};
	return len;
}

/* Messages */

/* A message is read in parts of this length; how long it is is in the first one. */
#define PART 64

/* copy_part -- no loop: that takes as long as the copies */
READS_SLOT PMV_ALWAYS_INLINE void copy_part(uint8_t *to, const volatile uint8_t *from)
{
	copy_in(to, from, 16);
	copy_in(to + 16, from + 16, 16);
	copy_in(to + 32, from + 32, 16);
	copy_in(to + 48, from + 48, 16);
}

void pmv_message_seal(struct pmv_message *message, const struct pmv_envelope *envelope,
		      const struct pmv_seal *seal)
{
	message->envelope = *envelope;
	put_seal((uint8_t *) message, envelope->len, seal);
}

READS_SLOT bool pmv_message_decode(const volatile uint8_t *slot, uint64_t number,
				   const struct pmv_seal *seal, struct pmv_message *message)
{
	uint8_t *copy = (uint8_t *) message;
	const struct pmv_envelope *envelope = &message->envelope;
	uint64_t found;

	if (!pmv_message_ready(slot, number))
		return false;
	copy_part(copy, slot);
	if (envelope->number != number || envelope->len < sizeof(*envelope) ||
	    envelope->len > PMV_MESSAGE_SIZE)
		return false;
	for (size_t at = PART; at < envelope->len; at += PART)
		copy_part(copy + at, slot + at);
	found = envelope->seal;
	return make_seal(copy, envelope->len, seal) == found;
}

/* Acknowledgements */

void pmv_ack_seal(struct pmv_ack *ack, size_t len, const struct pmv_seal *seal)
{
	put_seal((uint8_t *) ack, len, seal);
}

READS_SLOT bool pmv_ack_decode(const volatile uint8_t *slot, uint64_t number,
			       const struct pmv_seal *seal, struct pmv_ack *ack)
{
	uint64_t found;

	if (!pmv_message_ready(slot, number))
		return false;
	copy_in((uint8_t *) ack, slot, PMV_ACK_SIZE);
	if (ack->number != number || ack->reply_len > PMV_ACK_ROOM || ack->reply_len % 8)
		return false;
	if (ack->reply_len)
		copy_in(ack->reply, slot + PMV_ACK_SIZE, ack->reply_len);
	found = ack->seal;
	return make_seal((uint8_t *) ack, PMV_ACK_SIZE + ack->reply_len, seal) == found;
}

/* Replies */

void pmv_reply_pack(uint8_t *to, const struct pmv_reply *reply, struct pmv_reply_size size)
{
	size_t steps = size.steps * sizeof(reply->steps[0]), len = pmv_reply_len(size);

	memcpy(to, reply->steps, steps);
	memcpy(to + steps, reply->results, size.results);
	memset(to + steps + size.results, 0, len - steps - size.results);
}

void pmv_reply_unpack(struct pmv_reply *reply, const uint8_t *from, struct pmv_reply_size size)
{
	size_t steps = size.steps * sizeof(reply->steps[0]);

	memcpy(reply->steps, from, steps);
	memcpy(reply->results, from + steps, size.results);
}

size_t pmv_reply_encode(uint8_t *slot, uint64_t number, const struct pmv_reply *reply,
			struct pmv_reply_size size, const struct pmv_seal *seal)
{
	size_t len = REPLY_AT + pmv_reply_len(size);

	memcpy(slot, &number, sizeof(number));
	pmv_reply_pack(slot + REPLY_AT, reply, size);
	put_seal(slot, len, seal);
	return len;
}

READS_SLOT bool pmv_reply_decode(const volatile uint8_t *slot, uint64_t number,
				 struct pmv_reply_size size, const struct pmv_seal *seal,
				 struct pmv_reply *reply)
{
	uint8_t copy[PMV_REPLY_SIZE];
	size_t len = REPLY_AT + pmv_reply_len(size);
	uint64_t found;

	if (!pmv_message_ready(slot, number))
		return false;
	copy_in(copy, slot, len);
	memcpy(&found, copy + SEAL_AT, sizeof(found));
	if (memcmp(copy, &number, sizeof(number)) || make_seal(copy, len, seal) != found)
		return false;
	pmv_reply_unpack(reply, copy + REPLY_AT, size);
	return true;
}

/* Hints */

struct pmv_hint pmv_hint_make(uint32_t key, bool ask, const struct pmv_seal *seal)
{
	struct pmv_hint hint = {.key = key, .ask = ask};

	hint.seal = make_seal((uint8_t *) &hint, sizeof(hint), seal);
	return hint;
}

bool pmv_hint_is_genuine(const struct pmv_hint *hint, const struct pmv_seal *seal)
{
	struct pmv_hint copy = *hint;

	return make_seal((uint8_t *) &copy, sizeof(copy), seal) == hint->seal;
}
