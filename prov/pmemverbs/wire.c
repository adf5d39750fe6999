/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.c -- what two endpoints tell each other; wire.h has the formats */
#include <endian.h>
#include <string.h>

/* Only what is used is compiled in. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire.h"

#define HELLO_MAGIC UINT32_C(0x68766d70) /* "pmvh" */
#define HELLO_VERSION 1

enum { HELLO_AGENT = 1 << 0, HELLO_NOTICES = 1 << 1 };
enum {
	LEAD_MESSAGES = 1 << 6,
	LEAD_RELAXED = 1 << 7,
	LEAD_KIND_SHIFT = 8,
	LEAD_KIND_MASK = 7,
	LEAD_DDIO = 1 << 11,
};
enum { MESSAGE_NOTIFY = 1 << 0, MESSAGE_STORE = 1 << 1, MESSAGE_MESSAGES = 1 << 2 };

struct wire_hello {
	uint32_t magic;
	uint8_t version;
	uint8_t flags;
	uint16_t zero;
	uint64_t addr;
	uint32_t key;
	uint32_t nonce;
};

struct wire_range {
	uint64_t addr;
	uint64_t len;
	uint32_t key;
	uint32_t zero;
};

struct wire_message {
	uint64_t number;
	uint64_t check;
	uint64_t data;
	uint16_t len;
	uint8_t count;
	uint8_t flags;
	uint32_t seen;
};

struct wire_ack {
	uint64_t number;
	uint64_t check;
	uint64_t done;
	uint32_t fault;
	uint32_t zero;
};

_Static_assert(sizeof(struct wire_hello) == PMV_HELLO_SIZE, "hello");
_Static_assert(sizeof(struct wire_range) == PMV_RANGE_SIZE, "range");
_Static_assert(sizeof(struct wire_message) == PMV_MESSAGE_HEADER, "message");
_Static_assert(sizeof(struct wire_ack) == PMV_ACK_SIZE, "ack");
_Static_assert(PMV_STORE_ROOM(PMV_MAX_RANGES) <= PMV_MESSAGE_SIZE, "ranges fit");
_Static_assert(offsetof(struct wire_message, check) == offsetof(struct wire_ack, check), "check");

#define NUMBER_AT offsetof(struct wire_message, number)
#define CHECK_AT offsetof(struct wire_message, check)

/* check_of -- of a whole message or acknowledgement whose own check is zero */
static uint64_t check_of(const void *buf, size_t len, uint64_t number, uint32_t nonce)
{
	return XXH3_64bits_withSeed(buf, len, number << 32 ^ nonce);
}

static void seal(uint8_t *buf, size_t len, uint64_t number, uint32_t nonce)
{
	uint64_t check = htole64(check_of(buf, len, number, nonce));

	memcpy(buf + CHECK_AT, &check, sizeof(check));
}

/* is_sealed -- takes the check out */
static bool is_sealed(uint8_t *buf, size_t len, uint64_t number, uint32_t nonce)
{
	uint64_t check;

	memcpy(&check, buf + CHECK_AT, sizeof(check));
	memset(buf + CHECK_AT, 0, sizeof(check));
	return le64toh(check) == check_of(buf, len, number, nonce);
}

/*
 * copy_in -- from memory that is written to meanwhile, in 8-byte words.  What a
 * message speaks of was written before it, and is loaded and flushed after it.  It is
 * the check that tells whether that was too early, and no thread of ours writes.
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

/* The hello */

unsigned int pmv_hello_lead(const struct pmv_hello *hello)
{
	unsigned int lead =
		(hello->messages ? LEAD_MESSAGES : 0) | (hello->relaxed ? LEAD_RELAXED : 0);

	if (hello->one_kind)
		lead |= (hello->received.persist + 1U) << LEAD_KIND_SHIFT |
			(hello->received.ddio ? LEAD_DDIO : 0);
	return lead;
}

/* decode_kind -- false: there is no such kind of memory */
static bool decode_kind(uint64_t addr, struct pmv_hello *hello)
{
	uint64_t kind = addr >> LEAD_KIND_SHIFT & LEAD_KIND_MASK;

	if (!kind)
		return !(addr & LEAD_DDIO);
	if (kind > PMV_WSP + 1)
		return false;
	hello->one_kind = true;
	hello->received = (struct pmv_attr){
		.persist = (enum pmv_persist)(kind - 1),
		.pmem = true,
		.ddio = addr & LEAD_DDIO,
		/* A flush reads the block. */
		.readable = true,
	};
	return true;
}

void pmv_hello_encode(uint8_t buf[PMV_HELLO_SIZE], const struct pmv_hello *hello)
{
	struct wire_hello wire = {
		.magic = htole32(HELLO_MAGIC),
		.version = HELLO_VERSION,
		.flags = (uint8_t) ((hello->agent ? HELLO_AGENT : 0) |
				    (hello->notices ? HELLO_NOTICES : 0)),
		.addr = htole64(hello->addr),
		.key = htole32(hello->key),
		.nonce = htole32(hello->nonce),
	};

	memcpy(buf, &wire, sizeof(wire));
}

size_t pmv_hello_decode(const void *cm_data, size_t len, struct pmv_hello *hello)
{
	struct wire_hello wire;

	*hello = (struct pmv_hello){0};
	if (len < sizeof(wire))
		return len;
	memcpy(&wire, (const uint8_t *) cm_data + len - sizeof(wire), sizeof(wire));
	if (le32toh(wire.magic) != HELLO_MAGIC)
		return len;
	len -= sizeof(wire);
	/* Of what a later version says nothing is understood. */
	if (wire.version != HELLO_VERSION || wire.zero ||
	    (wire.flags & ~(HELLO_AGENT | HELLO_NOTICES)) ||
	    le64toh(wire.addr) > UINT64_MAX - PMV_BLOCK_SIZE ||
	    !decode_kind(le64toh(wire.addr), hello))
		return len;
	hello->addr = le64toh(wire.addr);
	hello->key = le32toh(wire.key);
	hello->nonce = le32toh(wire.nonce);
	hello->agent = wire.flags & HELLO_AGENT;
	hello->notices = wire.flags & HELLO_NOTICES;
	hello->messages = hello->agent && (hello->addr & LEAD_MESSAGES);
	hello->relaxed = hello->addr & LEAD_RELAXED;
	return len;
}

/* Messages */

size_t pmv_message_encode(uint8_t buf[PMV_MESSAGE_SIZE], const struct pmv_message *message,
			  uint32_t nonce)
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
	seal(buf, len + store_len, message->number, nonce);
	return len + store_len;
}

__attribute__((noinline, no_sanitize("thread"))) bool pmv_message_ready(
	const volatile uint8_t *slot, uint64_t number)
{
	return le64toh(*(const volatile uint64_t *) (slot + NUMBER_AT)) == number;
}

/* make_sense -- a message that is whole; false: it was not made by the rules */
static bool make_sense(const uint8_t *copy, const struct wire_message *wire,
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

enum pmv_arrival pmv_message_decode(const volatile uint8_t *slot, uint64_t number, uint32_t nonce,
				    uint8_t copy[PMV_MESSAGE_SIZE], struct pmv_message *message)
{
	struct wire_message wire;
	size_t len;

	copy_in(copy, slot, sizeof(wire));
	memcpy(&wire, copy, sizeof(wire));
	len = le16toh(wire.len);
	if (le64toh(wire.number) != number || len < sizeof(wire) || len > PMV_MESSAGE_SIZE)
		return PMV_NOT_YET;
	copy_in(copy + sizeof(wire), slot + sizeof(wire), (len - sizeof(wire) + 7) & ~(size_t) 7);
	if (!is_sealed(copy, len, number, nonce))
		return PMV_NOT_YET;
	return make_sense(copy, &wire, message) ? PMV_ARRIVED : PMV_MALFORMED;
}

/* Acknowledgements */

void pmv_ack_encode(uint8_t buf[PMV_ACK_SIZE], const struct pmv_ack *ack, uint32_t nonce)
{
	struct wire_ack wire = {
		.number = htole64(ack->number),
		.done = htole64(ack->done),
		.fault = htole32((uint32_t) ack->fault),
	};

	memcpy(buf, &wire, sizeof(wire));
	seal(buf, sizeof(wire), ack->number, nonce);
}

enum pmv_arrival pmv_ack_decode(const volatile uint8_t *slot, uint64_t number, uint32_t nonce,
				struct pmv_ack *ack)
{
	uint8_t copy[PMV_ACK_SIZE];
	struct wire_ack wire;

	if (!pmv_message_ready(slot, number))
		return PMV_NOT_YET;
	copy_in(copy, slot, sizeof(copy));
	memcpy(&wire, copy, sizeof(wire));
	if (!is_sealed(copy, sizeof(copy), number, nonce))
		return PMV_NOT_YET;
	*ack = (struct pmv_ack){
		.number = number,
		.done = le64toh(wire.done),
		.fault = (enum pmv_fault) le32toh(wire.fault),
	};
	return wire.zero ? PMV_MALFORMED : PMV_ARRIVED;
}
