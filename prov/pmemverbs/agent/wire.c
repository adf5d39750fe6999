/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.c -- encodes and decodes what two endpoints tell each other; wire.h has the formats */
#include "agent/wire.h"

#include <endian.h>
#include <string.h>

#include <sodium/crypto_shorthash.h>

/* No text ends with these bytes. */
#define HANDSHAKE_MAGIC UINT16_C(0xf5e7)
#define HANDSHAKE_VERSION UINT64_C(1)

/* Processes have addresses of at most 57 bits, so pages of 45. */
#define VERSION_SHIFT 45

enum {
	HANDSHAKE_AGENT = 1 << 0,
	HANDSHAKE_NOTICES = 1 << 1,
	HANDSHAKE_MESSAGES = 1 << 2,
	HANDSHAKE_RELAXED = 1 << 3,
	HANDSHAKE_KIND_SHIFT = 4,
	HANDSHAKE_KIND_MASK = 7,
	HANDSHAKE_DDIO = 1 << 7,
};
enum { MESSAGE_NOTIFY = 1 << 0, MESSAGE_STORE = 1 << 1, MESSAGE_MESSAGES = 1 << 2 };

struct wire_handshake {
	uint16_t magic;
	uint8_t flags;
	uint8_t page[6]; /* and the version */
	uint8_t secret[5];
	uint16_t port;
	uint32_t key;
	uint32_t flush_key;
};

struct wire_range {
	uint64_t addr;
	uint64_t len;
	uint32_t key;
	uint32_t zero;
};

struct wire_message {
	uint64_t number;
	uint64_t seal;
	uint64_t data;
	uint16_t len;
	uint8_t count;
	uint8_t flags;
	uint32_t seen;
};

struct wire_ack {
	uint64_t number;
	uint64_t seal;
	uint64_t done;
	uint32_t fault;
	uint32_t looks_us;
};

struct wire_hint {
	uint32_t key;
	uint32_t ask;
	uint64_t seal;
};

_Static_assert(sizeof(struct wire_handshake) == PMV_HANDSHAKE_SIZE, "handshake");
_Static_assert(sizeof(struct wire_range) == PMV_RANGE_SIZE, "range");
_Static_assert(sizeof(struct wire_message) == PMV_MESSAGE_HEADER, "message");
_Static_assert(sizeof(struct wire_ack) == PMV_ACK_SIZE, "ack");
_Static_assert(sizeof(struct wire_hint) == PMV_HINT_SIZE, "hint");
_Static_assert(offsetof(struct wire_hint, seal) == offsetof(struct wire_ack, seal), "seal");
_Static_assert(PMV_STORE_ROOM(PMV_MAX_RANGES) <= PMV_MESSAGE_SIZE, "ranges fit");
_Static_assert(offsetof(struct wire_message, seal) == offsetof(struct wire_ack, seal), "seal");
_Static_assert(sizeof(struct pmv_seal) == crypto_shorthash_KEYBYTES, "key");
_Static_assert(sizeof(uint64_t) == crypto_shorthash_BYTES, "seal");

#define NUMBER_AT offsetof(struct wire_message, number)
#define SEAL_AT offsetof(struct wire_message, seal)

/* Numbers of less than 8 bytes */

static void put(uint8_t *to, size_t size, uint64_t value)
{
	uint64_t wire = htole64(value);

	memcpy(to, &wire, size);
}

static uint64_t get(const uint8_t *from, size_t size)
{
	uint64_t wire = 0;

	memcpy(&wire, from, size);
	return le64toh(wire);
}

/* Seals */

struct pmv_seal pmv_seal(uint64_t from, uint64_t to, enum pmv_sealed what)
{
	struct pmv_seal seal = {.key = {[12] = (uint8_t) what}};

	put(seal.key, 6, from);
	put(seal.key + 6, 6, to);
	return seal;
}

/* put_seal -- into a whole message or acknowledgement, which has zeros in its place */
static void put_seal(uint8_t *buf, size_t len, const struct pmv_seal *seal)
{
	uint8_t hash[crypto_shorthash_BYTES];

	crypto_shorthash(hash, buf, len, seal->key);
	memcpy(buf + SEAL_AT, hash, sizeof(hash));
}

/* is_sealed -- puts zeros in the place of the seal */
static bool is_sealed(uint8_t *buf, size_t len, const struct pmv_seal *seal)
{
	uint8_t hash[crypto_shorthash_BYTES], found[crypto_shorthash_BYTES];

	memcpy(found, buf + SEAL_AT, sizeof(found));
	memset(buf + SEAL_AT, 0, sizeof(found));
	crypto_shorthash(hash, buf, len, seal->key);
	return !memcmp(hash, found, sizeof(hash));
}

/*
 * copy_in -- from memory that the peer may write to meanwhile, in 8-byte words.  The data
 * that a message names were written before it, and are loaded and flushed after it.  The
 * seal shows whether the copy was made too early.  No thread of ours writes there.
 */
__attribute__((noinline, no_sanitize("thread"))) static void copy_in(uint8_t *to,
								     const volatile uint8_t *from,
								     size_t len)
{
	const volatile uint64_t *words = (const volatile uint64_t *) from;

	for (size_t i = 0; i < len / sizeof(uint64_t); i++) {
		uint64_t word = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);

		memcpy(to + i * sizeof(word), &word, sizeof(word));
	}
}

/* The handshake */

static uint8_t encode_flags(const struct pmv_handshake *handshake)
{
	unsigned int flags = (handshake->agent ? HANDSHAKE_AGENT : 0) |
			     (handshake->notices ? HANDSHAKE_NOTICES : 0) |
			     (handshake->messages ? HANDSHAKE_MESSAGES : 0) |
			     (handshake->relaxed ? HANDSHAKE_RELAXED : 0);

	if (handshake->one_kind)
		flags |= (handshake->received.persist + 1U) << HANDSHAKE_KIND_SHIFT |
			 (handshake->received.ddio ? HANDSHAKE_DDIO : 0);
	return (uint8_t) flags;
}

/* decode_kind -- false: there is no such kind of memory */
static bool decode_kind(uint8_t flags, struct pmv_handshake *handshake)
{
	unsigned int kind = flags >> HANDSHAKE_KIND_SHIFT & HANDSHAKE_KIND_MASK;

	if (!kind)
		return !(flags & HANDSHAKE_DDIO);
	if (kind > PMV_WSP + 1)
		return false;
	handshake->one_kind = true;
	handshake->received = (struct pmv_attr){
		.persist = (enum pmv_persist)(kind - 1),
		.pmem = true,
		.ddio = flags & HANDSHAKE_DDIO,
		/* A flush reads the flush page. */
		.readable = true,
	};
	return true;
}

uint64_t pmv_handshake_flush_addr(const struct pmv_handshake *handshake)
{
	return handshake->addr ? handshake->addr + PMV_FLUSH_AT : 0;
}

void pmv_handshake_encode(uint8_t buf[PMV_HANDSHAKE_SIZE], const struct pmv_handshake *handshake)
{
	struct wire_handshake wire = {
		.magic = htole16(HANDSHAKE_MAGIC),
		.flags = encode_flags(handshake),
		.port = htole16(handshake->port),
		.key = htole32(handshake->key),
		.flush_key = htole32(handshake->flush_key),
	};

	put(wire.page, sizeof(wire.page),
	    handshake->addr / PMV_BLOCK_ALIGN + (HANDSHAKE_VERSION << VERSION_SHIFT));
	put(wire.secret, sizeof(wire.secret), handshake->secret);
	memcpy(buf, &wire, sizeof(wire));
}

/* understand -- read a handshake; false: it can't be understood */
static bool understand(const struct wire_handshake *wire, struct pmv_handshake *handshake)
{
	uint64_t page = get(wire->page, sizeof(wire->page));

	/* Nothing that a later version says can be understood. */
	if (page >> VERSION_SHIFT != HANDSHAKE_VERSION || !decode_kind(wire->flags, handshake))
		return false;
	handshake->known = true;
	handshake->addr = (page & ((UINT64_C(1) << VERSION_SHIFT) - 1)) * PMV_BLOCK_ALIGN;
	handshake->secret = get(wire->secret, sizeof(wire->secret));
	handshake->port = le16toh(wire->port);
	handshake->key = le32toh(wire->key);
	handshake->flush_key = le32toh(wire->flush_key);
	handshake->agent = wire->flags & HANDSHAKE_AGENT;
	handshake->notices = wire->flags & HANDSHAKE_NOTICES;
	handshake->messages = handshake->agent && (wire->flags & HANDSHAKE_MESSAGES);
	handshake->relaxed = wire->flags & HANDSHAKE_RELAXED;
	return true;
}

size_t pmv_handshake_decode(const void *cm_data, size_t len, struct pmv_handshake *handshake)
{
	struct wire_handshake wire;

	*handshake = (struct pmv_handshake){0};
	if (len < sizeof(wire))
		return len;
	memcpy(&wire, (const uint8_t *) cm_data + len - sizeof(wire), sizeof(wire));
	if (le16toh(wire.magic) != HANDSHAKE_MAGIC)
		return len;
	if (!understand(&wire, handshake))
		*handshake = (struct pmv_handshake){0};
	return len - sizeof(wire);
}

/* Messages */

size_t pmv_message_encode(uint8_t buf[PMV_MESSAGE_SIZE], const struct pmv_message *message,
			  const struct pmv_seal *seal)
{
	size_t store_len = message->store ? message->ranges[message->count - 1].len : 0;
	size_t len = PMV_MESSAGE_HEADER + message->count * (size_t) PMV_RANGE_SIZE;
	struct wire_message wire = {
		.number = htole64(message->number),
		.data = htole64(message->data),
		.len = htole16((uint16_t) (len + store_len)),
		.seen = htole32(message->seen),
		.count = (uint8_t) message->count,
		.flags = (uint8_t) ((message->notify ? MESSAGE_NOTIFY : 0) |
				    (message->store ? MESSAGE_STORE : 0) |
				    (message->messages ? MESSAGE_MESSAGES : 0)),
	};

	memcpy(buf, &wire, sizeof(wire));
	for (unsigned int i = 0; i < message->count; i++) {
		struct wire_range range = {
			.addr = htole64(message->ranges[i].addr),
			.len = htole64(message->ranges[i].len),
			.key = htole32(message->ranges[i].key),
		};

		memcpy(buf + PMV_MESSAGE_HEADER + i * sizeof(range), &range, sizeof(range));
	}
	if (store_len)
		memcpy(buf + len, message->payload, store_len);
	put_seal(buf, len + store_len, seal);
	return len + store_len;
}

__attribute__((noinline, no_sanitize("thread"))) bool pmv_message_ready(
	const volatile uint8_t *slot, uint64_t number)
{
	return le64toh(*(const volatile uint64_t *) (slot + NUMBER_AT)) == number;
}

/* read_message -- a whole message; false: it is malformed */
static bool read_message(const uint8_t *copy, const struct wire_message *wire,
			 struct pmv_message *message)
{
	size_t len = le16toh(wire->len);
	size_t at = PMV_MESSAGE_HEADER + wire->count * (size_t) PMV_RANGE_SIZE;

	*message = (struct pmv_message){
		.number = le64toh(wire->number),
		.seen = le32toh(wire->seen),
		.data = le64toh(wire->data),
		.notify = wire->flags & MESSAGE_NOTIFY,
		.store = wire->flags & MESSAGE_STORE,
		.messages = wire->flags & MESSAGE_MESSAGES,
		.count = wire->count,
		.payload = copy + at,
	};
	if ((wire->flags & ~(MESSAGE_NOTIFY | MESSAGE_STORE | MESSAGE_MESSAGES)) ||
	    wire->count > PMV_MAX_RANGES || at > len || (message->store && !wire->count) ||
	    (message->messages && (message->store || message->notify)))
		return false;
	for (unsigned int i = 0; i < message->count; i++) {
		struct wire_range range;

		memcpy(&range, copy + PMV_MESSAGE_HEADER + i * sizeof(range), sizeof(range));
		if (range.zero)
			return false;
		message->ranges[i] = (struct pmv_range){
			.addr = le64toh(range.addr),
			.len = le64toh(range.len),
			.key = le32toh(range.key),
		};
	}
	return len - at == (message->store ? message->ranges[message->count - 1].len : 0);
}

enum pmv_arrival pmv_message_decode(const volatile uint8_t *slot, uint64_t number,
				    const struct pmv_seal *seal, uint8_t copy[PMV_MESSAGE_SIZE],
				    struct pmv_message *message)
{
	struct wire_message wire;
	size_t len;

	copy_in(copy, slot, sizeof(wire));
	memcpy(&wire, copy, sizeof(wire));
	len = le16toh(wire.len);
	if (le64toh(wire.number) != number || len < sizeof(wire) || len > PMV_MESSAGE_SIZE)
		return PMV_NOT_YET;
	copy_in(copy + sizeof(wire), slot + sizeof(wire), (len - sizeof(wire) + 7) & ~(size_t) 7);
	if (!is_sealed(copy, len, seal))
		return PMV_NOT_YET;
	return read_message(copy, &wire, message) ? PMV_ARRIVED : PMV_MALFORMED;
}

/* Acknowledgements */

void pmv_ack_encode(uint8_t buf[PMV_ACK_SIZE], const struct pmv_ack *ack,
		    const struct pmv_seal *seal)
{
	struct wire_ack wire = {
		.number = htole64(ack->number),
		.done = htole64(ack->done),
		.fault = htole32((uint32_t) ack->fault),
		.looks_us = htole32(ack->looks_us),
	};

	memcpy(buf, &wire, sizeof(wire));
	put_seal(buf, sizeof(wire), seal);
}

enum pmv_arrival pmv_ack_decode(const volatile uint8_t *slot, uint64_t number,
				const struct pmv_seal *seal, struct pmv_ack *ack)
{
	uint8_t copy[PMV_ACK_SIZE];
	struct wire_ack wire;

	if (!pmv_message_ready(slot, number))
		return PMV_NOT_YET;
	copy_in(copy, slot, sizeof(copy));
	memcpy(&wire, copy, sizeof(wire));
	if (!is_sealed(copy, sizeof(copy), seal))
		return PMV_NOT_YET;
	*ack = (struct pmv_ack){
		.number = number,
		.done = le64toh(wire.done),
		.fault = (enum pmv_fault) le32toh(wire.fault),
		.looks_us = le32toh(wire.looks_us),
	};
	return PMV_ARRIVED;
}

void pmv_hint_encode(uint8_t buf[PMV_HINT_SIZE], uint32_t key, bool ask,
		     const struct pmv_seal *seal)
{
	struct wire_hint wire = {.key = htole32(key), .ask = htole32(ask)};

	memcpy(buf, &wire, sizeof(wire));
	put_seal(buf, sizeof(wire), seal);
}

uint32_t pmv_hint_key(const uint8_t buf[PMV_HINT_SIZE])
{
	struct wire_hint wire;

	memcpy(&wire, buf, sizeof(wire));
	return le32toh(wire.key);
}

bool pmv_hint_decode(const uint8_t buf[PMV_HINT_SIZE], const struct pmv_seal *seal, bool *ask)
{
	uint8_t copy[PMV_HINT_SIZE];
	struct wire_hint wire;

	memcpy(copy, buf, sizeof(copy));
	memcpy(&wire, buf, sizeof(wire));
	*ask = wire.ask != 0;
	return is_sealed(copy, sizeof(copy), seal);
}
