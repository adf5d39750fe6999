/* SPDX-License-Identifier: BSD-2-Clause */
/* test_wire.c -- what travels, byte by byte; what arrives is not believed */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <sodium/crypto_shorthash.h>

#include "dice.h"
#include "agent/wire.h"

#define NUMBER UINT64_C(0x0102030405060708)

#define HERE UINT64_C(0x0b0c0d0e0f10)
#define THERE UINT64_C(0xa1a2a3a4a5a6)

static uint64_t state = 88172645463325252;

static const struct pmv_seal message_seal = {
	{0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1, 1}};
static const struct pmv_seal ack_seal = {
	{0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1, 2}};
static const struct pmv_seal other_seal = {{1}};

/* The handshake */

static const struct pmv_handshake hello_out = {
	.known = true,
	.addr = UINT64_C(0x0122334455667000),
	.key = 0x99aabbcc,
	.flush_key = 0xddeeff01,
	.secret = UINT64_C(0x616263646566),
	.agent = true,
	.notices = true,
};

static const uint8_t hello_bytes[PMV_HANDSHAKE_SIZE] = {
	0xe7, 0xf5, 1,    3,    0x67, 0x56, 0x45, 0x34, 0x23, 0x12, 0x66, 0x65,
	0x64, 0x63, 0x62, 0x61, 0xcc, 0xbb, 0xaa, 0x99, 0x01, 0xff, 0xee, 0xdd,
};

static bool same_hello(const struct pmv_handshake *a, const struct pmv_handshake *b)
{
	return a->known == b->known && a->addr == b->addr && a->key == b->key &&
	       a->flush_key == b->flush_key && a->secret == b->secret && a->agent == b->agent &&
	       a->notices == b->notices && a->messages == b->messages && a->relaxed == b->relaxed &&
	       a->one_kind == b->one_kind && a->received.persist == b->received.persist &&
	       a->received.ddio == b->received.ddio;
}

static bool says_nothing(const struct pmv_handshake *handshake)
{
	return same_hello(handshake, &(struct pmv_handshake){0});
}

/* expect_coded -- it comes back as `in`, or says nothing where in is NULL */
static void expect_coded(const struct pmv_handshake *out, const struct pmv_handshake *in)
{
	uint8_t buf[PMV_HANDSHAKE_SIZE];
	struct pmv_handshake handshake;

	pmv_handshake_encode(buf, out);
	cr_assert_eq(pmv_handshake_decode(buf, sizeof(buf), &handshake), 0);
	cr_assert(in ? same_hello(&handshake, in) : says_nothing(&handshake));
}

Test(handshake, is_what_the_header_says_byte_by_byte)
{
	uint8_t buf[PMV_HANDSHAKE_SIZE];

	pmv_handshake_encode(buf, &hello_out);
	cr_expect_arr_eq(buf, hello_bytes, PMV_HANDSHAKE_SIZE);
	for (unsigned int bit = 0; bit < 4; bit++) {
		pmv_handshake_encode(buf, &(struct pmv_handshake){
						  .agent = bit == 0,
						  .notices = bit == 1,
						  .messages = bit == 2,
						  .relaxed = bit == 3,
					  });
		cr_expect_eq(buf[3], 1U << bit);
	}
	pmv_handshake_encode(
		buf, &(struct pmv_handshake){.one_kind = true,
					     .received = {.persist = PMV_WSP, .ddio = true}});
	cr_expect_eq(buf[3], 5 << 4 | 128);
}

Test(handshake, is_read_as_it_was_written)
{
	for (unsigned int i = 0; i < 4096; i++) {
		struct pmv_handshake out = {
			.known = true,
			.addr = dice_bits(&state) >> 7 & ~UINT64_C(0xfff),
			.key = (uint32_t) dice_bits(&state),
			.flush_key = (uint32_t) dice_bits(&state),
			.secret = dice_bits(&state) & PMV_SECRET_MASK,
			.agent = i & 1,
			.notices = i & 2,
			/* Without an agent nobody commits messages. */
			.messages = (i & 1) && (i & 4),
			.relaxed = i & 8,
		};

		expect_coded(&out, &out);
	}
}

Test(handshake, says_what_messages_are_received_in)
{
	for (unsigned int n = 0; n < 8 * (PMV_WSP + 1); n++) {
		struct pmv_handshake out = {
			.known = true,
			.addr = 0x7f0000001000,
			.key = 1,
			.agent = n & 1,
			.relaxed = n & 2,
			.one_kind = true,
			.received = {.persist = (enum pmv_persist)(n / 8), .ddio = n & 4},
		};
		uint8_t buf[PMV_HANDSHAKE_SIZE];
		struct pmv_handshake handshake;

		expect_coded(&out, &out);
		pmv_handshake_encode(buf, &out);
		pmv_handshake_decode(buf, sizeof(buf), &handshake);
		cr_expect(handshake.received.readable && handshake.received.pmem);
	}
}

Test(handshake, of_memory_that_does_not_exist_says_nothing)
{
	/* All that the four bits can be. */
	for (unsigned int bits = 0; bits < 16; bits++) {
		bool known = bits ? (bits & 7) >= 1 && (bits & 7) <= PMV_WSP + 1 : true;
		uint8_t data[PMV_HANDSHAKE_SIZE];
		struct pmv_handshake handshake;

		memcpy(data, hello_bytes, sizeof(data));
		data[3] = (uint8_t) (3 | bits << 4);
		cr_expect_eq(pmv_handshake_decode(data, sizeof(data), &handshake), 0);
		cr_expect_eq(handshake.known, known, "bits %u", bits);
		cr_expect_eq(says_nothing(&handshake), !known, "bits %u", bits);
		cr_expect_eq(handshake.one_kind, known && bits);
	}
}

Test(handshake, is_found_behind_data_of_any_length)
{
	for (size_t len = 0; len <= 100; len++) {
		/* Malloc'ed, at an odd address, so that a look beyond it is noticed. */
		uint8_t *data = malloc(1 + len + PMV_HANDSHAKE_SIZE);
		struct pmv_handshake handshake;

		memset(data + 1, 'p', len);
		memcpy(data + 1 + len, hello_bytes, PMV_HANDSHAKE_SIZE);
		cr_expect_eq(pmv_handshake_decode(data + 1, len + PMV_HANDSHAKE_SIZE, &handshake),
			     len);
		cr_expect(same_hello(&handshake, &hello_out));
		free(data);
	}
}

Test(handshake, of_a_plain_peer_is_none_and_its_data_stay_whole)
{
	for (size_t len = 0; len <= 100; len++) {
		uint8_t *data = malloc(len + 1);
		struct pmv_handshake handshake = hello_out;

		memset(data, 'p', len);
		cr_expect_eq(pmv_handshake_decode(data, len, &handshake), len);
		cr_expect(says_nothing(&handshake));
		free(data);
	}
	cr_expect_eq(pmv_handshake_decode(NULL, 0, &(struct pmv_handshake){0}), 0);
}

Test(handshake, in_part_or_in_the_middle_is_none)
{
	uint8_t data[2 * PMV_HANDSHAKE_SIZE] = {0};
	struct pmv_handshake handshake;

	for (size_t len = 0; len < PMV_HANDSHAKE_SIZE; len++) {
		cr_expect_eq(pmv_handshake_decode(hello_bytes, len, &handshake), len);
		cr_expect(says_nothing(&handshake));
	}
	memcpy(data, hello_bytes, PMV_HANDSHAKE_SIZE);
	for (size_t len = PMV_HANDSHAKE_SIZE + 1; len <= sizeof(data); len++) {
		cr_expect_eq(pmv_handshake_decode(data, len, &handshake), len);
		cr_expect(says_nothing(&handshake));
	}
}

Test(handshake, of_another_version_is_taken_off_and_says_nothing)
{
	uint8_t data[10 + PMV_HANDSHAKE_SIZE];
	struct pmv_handshake handshake = hello_out;

	memcpy(data + 10, hello_bytes, PMV_HANDSHAKE_SIZE);
	for (int version = 0; version < 256; version++) {
		data[12] = (uint8_t) version;
		cr_expect_eq(pmv_handshake_decode(data, sizeof(data), &handshake), 10);
		cr_expect_eq(says_nothing(&handshake), version != 1);
	}
}

Test(handshake, of_a_block_beyond_all_addresses_says_nothing)
{
	struct pmv_handshake out = hello_out;

	out.addr = (UINT64_C(1) << 57) - 4096;
	expect_coded(&out, &out);
	out.addr += 4096;
	expect_coded(&out, NULL);
}

Test(handshake, says_where_the_flush_page_is)
{
	cr_expect_eq(pmv_handshake_flush_addr(&hello_out), hello_out.addr + PMV_BLOCK_SIZE);
	/* Where regions are addressed by offset both begin at 0. */
	cr_expect_eq(pmv_handshake_flush_addr(&(struct pmv_handshake){.known = true}), 0);
}

/* Seals */

Test(seal, is_what_the_header_says_byte_by_byte)
{
	struct pmv_seal seal = pmv_seal(HERE, THERE, PMV_SEALED_MESSAGE);

	cr_expect_arr_eq(seal.key, message_seal.key, sizeof(seal.key));
	seal = pmv_seal(HERE, THERE, PMV_SEALED_ACK);
	cr_expect_arr_eq(seal.key, ack_seal.key, sizeof(seal.key));
}

Test(seal, is_another_one_for_each_sender_receiver_and_kind)
{
	const struct pmv_seal seals[] = {
		pmv_seal(HERE, THERE, PMV_SEALED_MESSAGE),
		pmv_seal(THERE, HERE, PMV_SEALED_MESSAGE),
		pmv_seal(HERE, THERE, PMV_SEALED_ACK),
		pmv_seal(THERE, HERE, PMV_SEALED_ACK),
		pmv_seal(HERE ^ 1, THERE, PMV_SEALED_MESSAGE),
		pmv_seal(HERE ^ 1ULL << 47, THERE, PMV_SEALED_MESSAGE),
		pmv_seal(HERE, THERE ^ 1, PMV_SEALED_MESSAGE),
		pmv_seal(HERE, THERE ^ 1ULL << 47, PMV_SEALED_MESSAGE),
	};

	for (size_t i = 0; i < sizeof(seals) / sizeof(seals[0]); i++) {
		for (size_t j = 0; j < i; j++)
			cr_expect(memcmp(&seals[i], &seals[j], sizeof(seals[i])), "%zu %zu", i, j);
	}
}

/* Messages */

/* A slot is written in words: it is aligned. */
union slot {
	uint64_t words[PMV_MESSAGE_SIZE / 8];
	uint8_t bytes[PMV_MESSAGE_SIZE];
};

static uint8_t payload[PMV_MESSAGE_SIZE];

static struct pmv_message random_message(unsigned int count, size_t store_len, bool store)
{
	struct pmv_message message = {
		.number = NUMBER,
		.data = dice_bits(&state),
		.notify = dice_bits(&state) & 1,
		.store = store,
		.count = count,
		.payload = payload,
	};

	for (unsigned int i = 0; i < count; i++) {
		message.ranges[i] = (struct pmv_range){
			.addr = dice_bits(&state),
			.len = dice_bits(&state),
			.key = (uint32_t) dice_bits(&state),
		};
	}
	if (store)
		message.ranges[count - 1].len = store_len;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t) dice_bits(&state);
	return message;
}

static bool same_message(const struct pmv_message *a, const struct pmv_message *b)
{
	if (a->number != b->number || a->data != b->data || a->notify != b->notify ||
	    a->store != b->store || a->messages != b->messages || a->count != b->count)
		return false;
	for (unsigned int i = 0; i < a->count; i++) {
		if (a->ranges[i].addr != b->ranges[i].addr ||
		    a->ranges[i].len != b->ranges[i].len || a->ranges[i].key != b->ranges[i].key)
			return false;
	}
	return !a->store || !memcmp(a->payload, b->payload, a->ranges[a->count - 1].len);
}

static enum pmv_arrival decode(const union slot *slot, struct pmv_message *message)
{
	static uint8_t copy[PMV_MESSAGE_SIZE];

	memset(copy, 0x5a, sizeof(copy));
	return pmv_message_decode(slot->bytes, NUMBER, &message_seal, copy, message);
}

/* A right seal, on whatever is there. */
static void reseal_with(uint8_t *buf, size_t len, const struct pmv_seal *seal)
{
	uint8_t hash[8];

	memset(buf + 8, 0, 8);
	crypto_shorthash(hash, buf, len, seal->key);
	memcpy(buf + 8, hash, sizeof(hash));
}

static void reseal(uint8_t *buf, size_t len)
{
	reseal_with(buf, len, &message_seal);
}

Test(wire, sizes_are_what_the_header_says)
{
	cr_expect_eq(PMV_ACKS_AT, 32768);
	cr_expect_eq(PMV_BLOCK_SIZE, 32768 + 64 * 32);
	cr_expect_eq(PMV_MESSAGE_SIZE, 512);
	cr_expect_eq(PMV_STORE_ROOM(20), 0);
	cr_expect_eq(PMV_STORE_ROOM(1), 512 - 32 - 24);
}

Test(message, is_what_the_header_says_byte_by_byte)
{
	static const uint8_t expected[] = {
		8,           7,    6,    5,    4,    3,    2,    1,    /* number */
		0,           0,    0,    0,    0,    0,    0,    0,    /* check */
		0x18,        0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* immediate data */
		32 + 48 + 5, 0,                                        /* length */
		2,                                                     /* ranges */
		3,                                                     /* notify, store */
		0x74,        0x73, 0x72, 0x71,                         /* seen */
		0x28,        0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, /* address */
		0x38,        0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, /* length */
		0x44,        0x43, 0x42, 0x41,                         /* key */
		0,           0,    0,    0,                            /* reserved */
		0x58,        0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, /* address */
		5,           0,    0,    0,    0,    0,    0,    0,    /* length */
		0x64,        0x63, 0x62, 0x61,                         /* key */
		0,           0,    0,    0,                            /* reserved */
		'h',         'e',  'l',  'l',  'o',
	};
	struct pmv_message message = {
		.number = NUMBER,
		.seen = 0x71727374,
		.data = UINT64_C(0x1112131415161718),
		.notify = true,
		.store = true,
		.count = 2,
		.ranges = {{UINT64_C(0x2122232425262728), UINT64_C(0x3132333435363738), 0x41424344},
			   {UINT64_C(0x5152535455565758), 5, 0x61626364}},
		.payload = "hello",
	};
	union slot slot = {0}, sealed = {0};

	cr_assert_eq(pmv_message_encode(slot.bytes, &message, &message_seal), sizeof(expected));
	memcpy(sealed.bytes, expected, sizeof(expected));
	reseal(sealed.bytes, sizeof(expected));
	cr_expect_arr_eq(slot.bytes, sealed.bytes, sizeof(slot));
	message.notify = message.store = false;
	cr_assert_eq(pmv_message_encode(slot.bytes, &message, &message_seal), 32 + 48);
	cr_expect_eq(slot.bytes[24], 32 + 48);
	cr_expect_eq(slot.bytes[27], 0);
	message.notify = true;
	pmv_message_encode(slot.bytes, &message, &message_seal);
	cr_expect_eq(slot.bytes[27], 1);
	message.store = true;
	message.notify = false;
	pmv_message_encode(slot.bytes, &message, &message_seal);
	cr_expect_eq(slot.bytes[27], 2);
	message.store = false;
	message.messages = true;
	pmv_message_encode(slot.bytes, &message, &message_seal);
	cr_expect_eq(slot.bytes[27], 4);
	cr_expect_eq(slot.words[2], message.data);
}

Test(message, about_messages_has_any_number_of_ranges)
{
	for (unsigned int count = 0; count <= PMV_MAX_RANGES; count++) {
		struct pmv_message out = random_message(count, 0, false), in;
		union slot slot;

		out.notify = false;
		out.messages = true;
		pmv_message_encode(slot.bytes, &out, &message_seal);
		cr_assert_eq(decode(&slot, &in), PMV_ARRIVED);
		cr_assert(same_message(&in, &out));
	}
}

Test(message, is_read_as_it_was_written)
{
	for (unsigned int count = 0; count <= PMV_MAX_RANGES; count++) {
		for (size_t len = 0; len <= PMV_STORE_ROOM(count); len++) {
			bool store = count && (len || dice_bits(&state) & 1);
			struct pmv_message out = random_message(count, len, store), in;
			union slot slot;
			size_t size;

			if (!store && len)
				continue;
			memset(&slot, 0xff, sizeof(slot));
			size = pmv_message_encode(slot.bytes, &out, &message_seal);
			cr_assert_eq(size, 32 + count * 24 + len);
			cr_assert(pmv_message_ready(slot.bytes, NUMBER));
			cr_assert_eq(decode(&slot, &in), PMV_ARRIVED);
			cr_assert(same_message(&in, &out));
		}
	}
}

Test(message, payload_is_not_read_from_the_slot_again)
{
	struct pmv_message out = random_message(1, 100, true), in;
	union slot slot;

	pmv_message_encode(slot.bytes, &out, &message_seal);
	cr_assert_eq(decode(&slot, &in), PMV_ARRIVED);
	/* What a peer does to it later does not matter. */
	memset(&slot, 0, sizeof(slot));
	cr_expect(same_message(&in, &out));
}

/* Either it has not arrived, or all of it has: that is what the check is for. */
static void expect_not_yet(const union slot *slot, const struct pmv_message *out)
{
	struct pmv_message in;
	enum pmv_arrival arrival = decode(slot, &in);

	if (arrival == PMV_ARRIVED)
		cr_assert(same_message(&in, out), "something else has arrived");
	cr_assert_neq(arrival, PMV_MALFORMED);
}

/* Some messages of all shapes. */
static struct pmv_message shape(int n)
{
	static const struct {
		unsigned int count;
		size_t len;
		bool store;
	} shapes[] = {{0, 0, false},  {1, 0, false}, {20, 0, false}, {1, 1, true},
		      {1, 456, true}, {7, 13, true}, {19, 24, true}, {20, 0, true}};

	return random_message(shapes[n % 8].count, shapes[n % 8].len, shapes[n % 8].store);
}

Test(message, with_any_byte_changed_has_not_arrived)
{
	for (int n = 0; n < 8; n++) {
		struct pmv_message out = shape(n), in;
		union slot slot = {0}, changed;
		size_t len = pmv_message_encode(slot.bytes, &out, &message_seal);

		for (size_t i = 0; i < len; i++) {
			for (int by = 1; by < 256; by++) {
				changed = slot;
				changed.bytes[i] ^= (uint8_t) by;
				cr_assert_eq(decode(&changed, &in), PMV_NOT_YET, "byte %zu", i);
			}
		}
	}
}

Test(message, in_part_has_not_arrived)
{
	for (int n = 0; n < 8; n++) {
		struct pmv_message out = shape(n), in;
		union slot slot = {0}, part;
		size_t len = pmv_message_encode(slot.bytes, &out, &message_seal);

		for (size_t have = 0; have < len; have++) {
			/* The start of it, the end of it, all but one word; on nothing and on
			 * noise. */
			memset(&part, 0, sizeof(part));
			memcpy(part.bytes, slot.bytes, have);
			expect_not_yet(&part, &out);
			memset(&part, 0xa5, sizeof(part));
			memcpy(part.bytes, slot.bytes, have);
			cr_assert_eq(decode(&part, &in), PMV_NOT_YET);
			memset(&part, 0xa5, sizeof(part));
			memcpy(part.bytes + have + 1, slot.bytes + have + 1, len - have - 1);
			cr_assert_eq(decode(&part, &in), PMV_NOT_YET);
			part = slot;
			memset(part.bytes + (have & ~(size_t) 7), 0xa5, 8);
			cr_assert_eq(decode(&part, &in), PMV_NOT_YET);
		}
	}
}

Test(message, arrives_with_the_last_of_its_words_in_any_order)
{
	for (int n = 0; n < 200; n++) {
		struct pmv_message out = shape(n), in;
		union slot slot = {0}, old, arriving;
		unsigned int order[PMV_MESSAGE_SIZE / 8];
		unsigned int words;

		/* On top of what was in the slot before. */
		out.number = NUMBER - PMV_SLOTS;
		memset(&old, 0, sizeof(old));
		pmv_message_encode(old.bytes, &out, &message_seal);
		out = shape(n / 8);
		words = (unsigned int) (pmv_message_encode(slot.bytes, &out, &message_seal) + 7) /
			8;
		for (unsigned int i = 0; i < words; i++) {
			unsigned int j = (unsigned int) (dice_bits(&state) % (i + 1));

			order[i] = order[j];
			order[j] = i;
		}
		arriving = old;
		for (unsigned int i = 0; i < words; i++) {
			expect_not_yet(&arriving, &out);
			arriving.words[order[i]] = slot.words[order[i]];
		}
		cr_assert_eq(decode(&arriving, &in), PMV_ARRIVED);
		cr_assert(same_message(&in, &out));
	}
}

Test(message, of_an_earlier_round_or_another_connection_is_not_taken)
{
	struct pmv_message out = shape(6), in;
	uint8_t copy[PMV_MESSAGE_SIZE];
	union slot slot = {0};

	out.number = NUMBER - PMV_SLOTS;
	pmv_message_encode(slot.bytes, &out, &message_seal);
	cr_expect_not(pmv_message_ready(slot.bytes, NUMBER));
	cr_expect_eq(decode(&slot, &in), PMV_NOT_YET);
	/* Even if its number is written over, or only the upper half of it differs. */
	memcpy(slot.bytes, &(uint64_t){NUMBER}, 8);
	cr_expect_eq(decode(&slot, &in), PMV_NOT_YET);

	out.number = NUMBER;
	pmv_message_encode(slot.bytes, &out, &other_seal);
	cr_expect(pmv_message_ready(slot.bytes, NUMBER));
	cr_expect_eq(decode(&slot, &in), PMV_NOT_YET);
	pmv_message_encode(slot.bytes, &out, &message_seal);
	cr_expect_eq(pmv_message_decode(slot.bytes, NUMBER + (UINT64_C(1) << 32), &message_seal,
					copy, &in),
		     PMV_NOT_YET);
	cr_expect_eq(decode(&slot, &in), PMV_ARRIVED);
}

Test(message, of_zeros_or_noise_has_not_arrived)
{
	uint8_t copy[PMV_MESSAGE_SIZE];
	struct pmv_message in;
	union slot slot = {0};

	cr_expect_eq(pmv_message_decode(slot.bytes, 1, &message_seal, copy, &in), PMV_NOT_YET);
	cr_expect_eq(pmv_message_decode(slot.bytes, 0, &message_seal, copy, &in), PMV_NOT_YET);
	for (int n = 0; n < 100000; n++) {
		slot.words[dice_bits(&state) % 64] = dice_bits(&state);
		slot.words[0] = NUMBER;
		slot.bytes[25] &= 1;
		cr_assert_eq(decode(&slot, &in), PMV_NOT_YET);
	}
}

/* Whole, but not by the rules */

static void expect_malformed(union slot *slot, size_t len)
{
	struct pmv_message in;

	reseal(slot->bytes, len);
	cr_assert_eq(decode(slot, &in), PMV_MALFORMED);
}

static void set_length(union slot *slot, size_t len)
{
	slot->bytes[24] = (uint8_t) len;
	slot->bytes[25] = (uint8_t) (len >> 8);
}

Test(message, of_more_ranges_than_there_may_be_is_malformed)
{
	for (unsigned int count = PMV_MAX_RANGES + 1; count < 256; count++) {
		union slot slot = {0};

		slot.words[0] = NUMBER;
		slot.bytes[26] = (uint8_t) count;
		set_length(&slot, PMV_MESSAGE_SIZE);
		expect_malformed(&slot, PMV_MESSAGE_SIZE);
	}
}

Test(message, with_flags_that_nobody_knows_is_malformed)
{
	for (int bit = 3; bit < 8; bit++) {
		struct pmv_message out = shape(1);
		union slot slot;
		size_t len = pmv_message_encode(slot.bytes, &out, &message_seal);

		slot.bytes[27] |= (uint8_t) (1 << bit);
		expect_malformed(&slot, len);
	}
}

Test(message, about_messages_that_notifies_or_stores_is_malformed)
{
	for (int store = 0; store < 2; store++) {
		struct pmv_message out = random_message(1, 8, store);
		union slot slot;
		size_t len;

		out.notify = !store;
		len = pmv_message_encode(slot.bytes, &out, &message_seal);
		slot.bytes[27] |= 4;
		expect_malformed(&slot, len);
	}
}

Test(message, with_reserved_bits_is_malformed)
{
	for (int bit = 0; bit < 32; bit++) {
		struct pmv_message out = random_message(3, 0, false);
		union slot slot;
		size_t len = pmv_message_encode(slot.bytes, &out, &message_seal);

		slot.bytes[32 + 2 * 24 + 20 + bit / 8] = (uint8_t) (1 << bit % 8);
		expect_malformed(&slot, len);
	}
}

Test(message, whose_lengths_do_not_add_up_is_malformed)
{
	for (int n = 0; n < 8; n++) {
		struct pmv_message out = shape(n), in;
		union slot slot, other;
		size_t len;

		memset(&slot, 0, sizeof(slot));
		len = pmv_message_encode(slot.bytes, &out, &message_seal);
		for (size_t claimed = 32; claimed <= PMV_MESSAGE_SIZE; claimed++) {
			other = slot;
			set_length(&other, claimed);
			if (claimed == len)
				continue;
			expect_malformed(&other, claimed);
		}
		/* Shorter than any, or longer than a slot: nothing that could be checked. */
		for (size_t claimed = 0; claimed < 65536; claimed += claimed == 31 ? 482 : 1) {
			other = slot;
			set_length(&other, claimed);
			reseal(other.bytes, claimed < 16 || claimed > 512 ? 512 : claimed);
			cr_assert_eq(decode(&other, &in), PMV_NOT_YET);
		}
	}
}

Test(message, that_stores_without_a_range_or_more_than_it_has_is_malformed)
{
	struct pmv_message out = random_message(2, 40, true);
	union slot slot = {0};
	size_t len;

	slot.words[0] = NUMBER;
	slot.bytes[27] = 2;
	set_length(&slot, 32);
	expect_malformed(&slot, 32);

	len = pmv_message_encode(slot.bytes, &out, &message_seal);
	slot.bytes[32 + 24 + 8] = 41;
	expect_malformed(&slot, len);
	slot.bytes[32 + 24 + 8] = 39;
	expect_malformed(&slot, len);
	slot.bytes[32 + 24 + 8] = 40;
	slot.bytes[32 + 24 + 15] = 0x80;
	expect_malformed(&slot, len);
	/* The data that the length promises, but nothing says where to store them. */
	slot.bytes[32 + 24 + 15] = 0;
	slot.bytes[27] &= 1;
	expect_malformed(&slot, len);
}

/* Acknowledgements */

union ack_slot {
	uint64_t words[PMV_ACK_SIZE / 8];
	uint8_t bytes[PMV_ACK_SIZE];
};

static const struct pmv_ack ack_out = {
	.number = NUMBER,
	.done = UINT64_C(0x1112131415161718),
	.fault = PMV_FAULT_IO,
};

Test(ack, is_what_the_header_says_byte_by_byte)
{
	union ack_slot slot,
		expected = {.bytes = {8,    7,    6, 5, 4, 3,    2,    1,    0,    0,    0,
				      0,    0,    0, 0, 0, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
				      0x12, 0x11, 3, 0, 0, 0,    0,    0,    0,    0}};

	pmv_ack_encode(slot.bytes, &ack_out, &ack_seal);
	reseal_with(expected.bytes, PMV_ACK_SIZE, &ack_seal);
	cr_expect_arr_eq(slot.bytes, expected.bytes, PMV_ACK_SIZE);
	cr_expect_eq(PMV_FAULT_NONE, 0);
	cr_expect_eq(PMV_FAULT_MESSAGE, 1);
	cr_expect_eq(PMV_FAULT_ACCESS, 2);
	cr_expect_eq(PMV_FAULT_IO, 3);
}

Test(ack, is_read_as_it_was_written)
{
	for (int n = 0; n < 1000; n++) {
		struct pmv_ack out = {dice_bits(&state), dice_bits(&state),
				      (enum pmv_fault)(n % 4)},
			       in;
		union ack_slot slot;

		pmv_ack_encode(slot.bytes, &out, &ack_seal);
		cr_assert_eq(pmv_ack_decode(slot.bytes, out.number, &ack_seal, &in), PMV_ARRIVED);
		cr_assert_eq(in.number, out.number);
		cr_assert_eq(in.done, out.done);
		cr_assert_eq(in.fault, out.fault);
	}
}

Test(ack, with_any_byte_changed_or_missing_has_not_arrived)
{
	union ack_slot slot, changed;
	struct pmv_ack in;

	pmv_ack_encode(slot.bytes, &ack_out, &ack_seal);
	for (size_t i = 0; i < PMV_ACK_SIZE; i++) {
		for (int by = 1; by < 256; by++) {
			changed = slot;
			changed.bytes[i] ^= (uint8_t) by;
			cr_assert_eq(pmv_ack_decode(changed.bytes, NUMBER, &ack_seal, &in),
				     PMV_NOT_YET);
		}
	}
	/* The words of it in any order, on top of the one before. */
	for (unsigned int have = 0; have < 15; have++) {
		struct pmv_ack old = ack_out;

		old.number -= PMV_SLOTS;
		old.done -= PMV_SLOTS;
		old.fault = PMV_FAULT_NONE;
		pmv_ack_encode(changed.bytes, &old, &ack_seal);
		for (unsigned int i = 0; i < 4; i++) {
			if (have & 1U << i)
				changed.words[i] = slot.words[i];
		}
		cr_assert_eq(pmv_ack_decode(changed.bytes, NUMBER, &ack_seal, &in), PMV_NOT_YET);
	}
}

Test(ack, of_an_earlier_round_or_another_connection_is_not_taken)
{
	union ack_slot slot;
	struct pmv_ack in;

	pmv_ack_encode(slot.bytes, &ack_out, &ack_seal);
	cr_expect_eq(pmv_ack_decode(slot.bytes, NUMBER + PMV_SLOTS, &ack_seal, &in), PMV_NOT_YET);
	cr_expect_eq(pmv_ack_decode(slot.bytes, NUMBER, &message_seal, &in), PMV_NOT_YET);
	memcpy(slot.bytes, &(uint64_t){NUMBER + PMV_SLOTS}, 8);
	cr_expect_eq(pmv_ack_decode(slot.bytes, NUMBER + PMV_SLOTS, &ack_seal, &in), PMV_NOT_YET);
}

Test(ack, with_reserved_bits_is_malformed)
{
	for (int bit = 0; bit < 32; bit++) {
		union ack_slot slot;
		struct pmv_ack in;

		pmv_ack_encode(slot.bytes, &ack_out, &ack_seal);
		slot.bytes[28 + bit / 8] = (uint8_t) (1 << bit % 8);
		reseal_with(slot.bytes, PMV_ACK_SIZE, &ack_seal);
		cr_expect_eq(pmv_ack_decode(slot.bytes, NUMBER, &ack_seal, &in), PMV_MALFORMED);
	}
}
