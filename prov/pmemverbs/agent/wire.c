/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.c -- encodes and decodes what two endpoints tell each other; wire.h has the formats */
#include "agent/wire.h"

#include <string.h>

#include <sodium/crypto_shorthash.h>

#define SEAL_AT offsetof(struct pmv_message, seal)

/* No text ends with these bytes. */
#define HANDSHAKE_MAGIC UINT16_C(0xf5e7)
#define HANDSHAKE_VERSION 1

/* Processes have addresses of at most 57 bits. */
#define PAGE_BITS 45

struct wire_handshake {
	uint16_t magic;
	bool agent : 1;
	bool notices : 1;
	bool messages : 1;
	bool relaxed : 1;
	uint8_t kind : 3;
	bool ddio : 1;
	uint64_t page : 45;
	uint64_t version : 3;
	uint64_t secret : 40;
	uint16_t port;
	uint32_t key;
	uint32_t flush_key;
} __attribute__((packed));

/* libpmem2 knows no other processors. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structures are sent as they are");
_Static_assert(sizeof(struct wire_handshake) == PMV_HANDSHAKE_SIZE, "handshake");
_Static_assert(offsetof(struct pmv_message, seen) == 28, "flags");
_Static_assert(offsetof(struct pmv_message, payload) == PMV_MESSAGE_SIZE, "message");
_Static_assert(sizeof(struct pmv_ack) == PMV_ACK_SIZE, "ack");
_Static_assert(offsetof(struct pmv_message, seal) == offsetof(struct pmv_ack, seal), "seal");
_Static_assert(offsetof(struct pmv_message, seal) == offsetof(struct pmv_hint, seal), "seal");
_Static_assert(sizeof(struct pmv_seal) == crypto_shorthash_KEYBYTES, "key");
_Static_assert(sizeof(uint64_t) == crypto_shorthash_BYTES, "seal");

/* Seals */

struct pmv_seal pmv_seal(uint64_t from, uint64_t to, enum pmv_sealed what)
{
	struct pmv_seal seal = {.key = {[12] = (uint8_t) what}};

	memcpy(seal.key, &from, 6);
	memcpy(seal.key + 6, &to, 6);
	return seal;
}

/* make_seal -- of a whole message or acknowledgement; leaves zeros in the seal's place */
static uint64_t make_seal(uint8_t *buf, size_t len, const struct pmv_seal *seal)
{
	uint64_t hash;

	memset(buf + SEAL_AT, 0, sizeof(hash));
	crypto_shorthash((uint8_t *) &hash, buf, len, seal->key);
	return hash;
}

/* copy_word -- no thread of ours writes there */
__attribute__((always_inline, no_sanitize("thread"))) static inline void copy_word(
	uint8_t *to, const volatile uint8_t *from, size_t at)
{
	uint64_t word = __atomic_load_n((const volatile uint64_t *) (from + at), __ATOMIC_ACQUIRE);

	memcpy(to + at, &word, sizeof(word));
}

/*
 * copy_in -- from memory that the peer may write to meanwhile, in 8-byte words.  The data
 * that a message names were written before it, and are loaded and flushed after it.  The
 * seal shows whether the copy was made too early.
 */
__attribute__((noinline, no_sanitize("thread"))) static void copy_in(uint8_t *to,
								     const volatile uint8_t *from,
								     size_t len)
{
	size_t at = 0;

	for (; at + 32 <= len; at += 32) {
		copy_word(to, from, at);
		copy_word(to, from, at + 8);
		copy_word(to, from, at + 16);
		copy_word(to, from, at + 24);
	}
	for (; at < len; at += 8)
		copy_word(to, from, at);
}

/* The handshake */

uint64_t pmv_handshake_flush_addr(const struct pmv_handshake *handshake)
{
	return handshake->addr ? handshake->addr + PMV_FLUSH_AT : 0;
}

void pmv_handshake_encode(uint8_t buf[PMV_HANDSHAKE_SIZE], const struct pmv_handshake *handshake)
{
	uint64_t page = handshake->addr / PMV_BLOCK_ALIGN;
	struct wire_handshake wire = {
		.magic = HANDSHAKE_MAGIC,
		.agent = handshake->agent,
		.notices = handshake->notices,
		.messages = handshake->messages,
		.relaxed = handshake->relaxed,
		.kind = handshake->one_kind ? handshake->received.persist + 1U : 0,
		.ddio = handshake->one_kind && handshake->received.ddio,
		/* Nobody understands an address that does not fit. */
		.page = page,
		.version = page >> PAGE_BITS ? 0 : HANDSHAKE_VERSION,
		.secret = handshake->secret,
		.port = handshake->port,
		.key = handshake->key,
		.flush_key = handshake->flush_key,
	};

	memcpy(buf, &wire, sizeof(wire));
}

size_t pmv_handshake_decode(const void *cm_data, size_t len, struct pmv_handshake *handshake)
{
	struct wire_handshake wire;

	*handshake = (struct pmv_handshake){0};
	if (len < sizeof(wire))
		return len;
	memcpy(&wire, (const uint8_t *) cm_data + len - sizeof(wire), sizeof(wire));
	if (wire.magic != HANDSHAKE_MAGIC)
		return len;
	len -= sizeof(wire);
	/* Nothing that a later version says can be understood. */
	if (wire.version != HANDSHAKE_VERSION || wire.kind > PMV_WSP + 1 ||
	    (wire.ddio && !wire.kind))
		return len;
	*handshake = (struct pmv_handshake){
		.known = true,
		.addr = (uint64_t) wire.page * PMV_BLOCK_ALIGN,
		.secret = wire.secret,
		.port = wire.port,
		.key = wire.key,
		.flush_key = wire.flush_key,
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

static size_t stored(const struct pmv_message *message)
{
	return message->store ? message->ranges[message->count - 1].len : 0;
}

size_t pmv_message_encode(uint8_t buf[PMV_MESSAGE_SIZE], struct pmv_message *message,
			  const struct pmv_seal *seal)
{
	size_t at = PMV_MESSAGE_HEADER + message->count * sizeof(struct pmv_range);

	message->len = (uint16_t) (at + stored(message));
	memcpy(buf, message, at);
	if (message->store)
		memcpy(buf + at, message->payload, stored(message));
	message->seal = make_seal(buf, message->len, seal);
	memcpy(buf + SEAL_AT, &message->seal, sizeof(message->seal));
	return message->len;
}

/* may_have_flags -- do a message's flags go together? */
static bool may_have_flags(const struct pmv_message *message)
{
	bool ends = message->store || message->notify || message->event;

	return message->event <= PMV_EVENT_FETCH && !(message->messages && ends) &&
	       !(message->more && (ends || message->messages || message->ordered)) &&
	       (!message->store || message->count);
}

/* by_the_rules -- of a whole message */
static bool by_the_rules(const struct pmv_message *message)
{
	size_t at = PMV_MESSAGE_HEADER + message->count * sizeof(struct pmv_range);
	uint64_t marked = 0;

	if (message->count > PMV_MAX_RANGES || at > message->len ||
	    (message->flags && !may_have_flags(message)))
		return false;
	for (unsigned int i = 0; i < message->count; i++)
		marked |= message->ranges[i].key >> 32;
	/* An operation of interest has at least one place, and no other marks a range. */
	return marked == (message->event != PMV_EVENT_NONE) && message->len - at == stored(message);
}

enum pmv_arrival pmv_message_decode(const volatile uint8_t *slot, uint64_t number,
				    const struct pmv_seal *seal, struct pmv_message *message)
{
	uint8_t *copy = (uint8_t *) message;
	uint64_t found;

	if (!pmv_message_ready(slot, number))
		return PMV_NOT_YET;
	copy_in(copy, slot, PMV_MESSAGE_HEADER);
	if (message->number != number || message->len < PMV_MESSAGE_HEADER ||
	    message->len > PMV_MESSAGE_SIZE)
		return PMV_NOT_YET;
	copy_in(copy + PMV_MESSAGE_HEADER, slot + PMV_MESSAGE_HEADER,
		(message->len - PMV_MESSAGE_HEADER + 7) & ~(size_t) 7);
	found = message->seal;
	if (make_seal(copy, message->len, seal) != found)
		return PMV_NOT_YET;
	if (!by_the_rules(message))
		return PMV_MALFORMED;
	message->payload = &message->ranges[message->count];
	return PMV_ARRIVED;
}

/* Acknowledgements */

void pmv_ack_encode(uint8_t buf[PMV_ACK_SIZE], const struct pmv_ack *ack,
		    const struct pmv_seal *seal)
{
	uint64_t made;

	memcpy(buf, ack, sizeof(*ack));
	made = make_seal(buf, sizeof(*ack), seal);
	memcpy(buf + SEAL_AT, &made, sizeof(made));
}

enum pmv_arrival pmv_ack_decode(const volatile uint8_t *slot, uint64_t number,
				const struct pmv_seal *seal, struct pmv_ack *ack)
{
	uint64_t found;

	if (!pmv_message_ready(slot, number))
		return PMV_NOT_YET;
	copy_in((uint8_t *) ack, slot, sizeof(*ack));
	found = ack->seal;
	if (ack->number != number || make_seal((uint8_t *) ack, sizeof(*ack), seal) != found)
		return PMV_NOT_YET;
	return PMV_ARRIVED;
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
