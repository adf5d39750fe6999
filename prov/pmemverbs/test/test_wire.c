/* SPDX-License-Identifier: BSD-2-Clause */
/* test_wire.c -- what travels, byte by byte; what arrives is not believed */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dice.h"
#include "wire.h"

#define NONCE UINT32_C(0x89abcdef)
#define NUMBER UINT64_C(0x0102030405060708)

static uint64_t state = 88172645463325252;

/* The hello */

static const struct pmv_hello hello_out = {
	.addr = UINT64_C(0x1122334455666088),
	.key = 0x99aabbcc,
	.nonce = 0xddeeff01,
	.agent = true,
	.notices = true,
};

static const uint8_t hello_bytes[PMV_HELLO_SIZE] = {
	'p',  'm',  'v',  'h',  1,    3,    0,    0,    0x88, 0x60, 0x66, 0x55,
	0x44, 0x33, 0x22, 0x11, 0xcc, 0xbb, 0xaa, 0x99, 0x01, 0xff, 0xee, 0xdd,
};

static bool same_hello(const struct pmv_hello *a, const struct pmv_hello *b)
{
	return a->addr == b->addr && a->key == b->key && a->nonce == b->nonce &&
	       a->agent == b->agent && a->notices == b->notices;
}

/* The bits of an address that say what messages are received in. */
#define KIND_BITS UINT64_C(0xf00)

static bool says_nothing(const struct pmv_hello *hello)
{
	return same_hello(hello, &(struct pmv_hello){0}) && !hello->messages && !hello->relaxed &&
	       !hello->one_kind;
}

Test(hello, is_what_the_header_says_byte_by_byte)
{
	uint8_t buf[PMV_HELLO_SIZE];

	pmv_hello_encode(buf, &hello_out);
	cr_expect_arr_eq(buf, hello_bytes, PMV_HELLO_SIZE);
	pmv_hello_encode(buf, &(struct pmv_hello){.agent = true});
	cr_expect_eq(buf[5], 1);
	pmv_hello_encode(buf, &(struct pmv_hello){.notices = true});
	cr_expect_eq(buf[5], 2);
}

Test(hello, is_read_as_it_was_written)
{
	struct pmv_hello hello;

	cr_expect_eq(pmv_hello_decode(hello_bytes, sizeof(hello_bytes), &hello), 0);
	cr_expect(same_hello(&hello, &hello_out));
	for (int i = 0; i < 1000; i++) {
		struct pmv_hello in = {
			.addr = (dice_bits(&state) >> (i % 60 + 1)) & ~KIND_BITS,
			.key = (uint32_t) dice_bits(&state),
			.nonce = (uint32_t) dice_bits(&state),
			.agent = i & 1,
			.notices = i & 2,
		};
		uint8_t buf[PMV_HELLO_SIZE];

		pmv_hello_encode(buf, &in);
		cr_assert_eq(pmv_hello_decode(buf, sizeof(buf), &hello), 0);
		cr_assert(same_hello(&hello, &in));
	}
}

Test(hello, says_by_its_address_what_older_peers_do_not_ask)
{
	for (int n = 0; n < 8; n++) {
		const struct pmv_hello said = {.messages = n & 1, .relaxed = n & 2};
		unsigned int lead = pmv_hello_lead(&said);
		struct pmv_hello hello, out = {
						.addr = UINT64_C(0x7f0000001000) + lead,
						.key = 1,
						.agent = n & 4,
					};
		uint8_t buf[PMV_HELLO_SIZE];

		cr_expect_leq(lead, PMV_MAX_LEAD);
		cr_expect_eq(lead % 64, 0, "slots keep their alignment");
		pmv_hello_encode(buf, &out);
		cr_assert_eq(pmv_hello_decode(buf, sizeof(buf), &hello), 0);
		cr_expect(same_hello(&hello, &out), "the address is the block's as it is");
		cr_expect_eq(hello.messages, (n & 1) && (n & 4));
		cr_expect_eq(hello.relaxed, (n & 2) != 0);
		cr_expect_not(hello.one_kind);
	}
	cr_expect_eq(pmv_hello_lead(&(struct pmv_hello){0}), 0, "as those that know nothing of it");
}

Test(hello, says_by_its_address_what_messages_are_received_in)
{
	for (unsigned n = 0; n < 8 * (PMV_WSP + 1); n++) {
		const struct pmv_hello said = {
			.messages = n & 1,
			.relaxed = n & 2,
			.one_kind = true,
			.received = {.persist = (enum pmv_persist)(n / 8), .ddio = n & 4},
		};
		unsigned int lead = pmv_hello_lead(&said);
		struct pmv_hello hello, out = {.addr = UINT64_C(0x7f0000001000) + lead, .key = 1};
		uint8_t buf[PMV_HELLO_SIZE];

		cr_expect_lt(lead, PMV_MAX_LEAD);
		cr_expect_eq(lead % 64, 0);
		/* Nobody needs an agent for that. */
		pmv_hello_encode(buf, &out);
		cr_assert_eq(pmv_hello_decode(buf, sizeof(buf), &hello), 0);
		cr_expect(same_hello(&hello, &out));
		cr_expect(hello.one_kind);
		cr_expect_eq(hello.received.persist, said.received.persist);
		cr_expect_eq(hello.received.ddio, said.received.ddio);
		cr_expect(hello.received.readable && hello.received.pmem);
		cr_expect_eq(hello.relaxed, said.relaxed);
		cr_expect_not(hello.messages);
	}
}

Test(hello, of_memory_that_does_not_exist_says_nothing)
{
	/* All that the four bits can be. */
	for (uint64_t bits = 0; bits < 16; bits++) {
		bool known = bits ? (bits & 7) >= 1 && (bits & 7) <= PMV_WSP + 1 : true;
		struct pmv_hello hello = hello_out, out = hello_out;
		uint8_t buf[PMV_HELLO_SIZE];

		out.addr = (hello_out.addr & ~KIND_BITS) | bits << 8;
		pmv_hello_encode(buf, &out);
		cr_expect_eq(pmv_hello_decode(buf, sizeof(buf), &hello), 0);
		cr_expect_eq(same_hello(&hello, &out), known, "bits %d", (int) bits);
		cr_expect_eq(says_nothing(&hello), !known, "bits %d", (int) bits);
		cr_expect_eq(hello.one_kind, known && bits);
	}
}

Test(hello, is_found_behind_data_of_any_length)
{
	for (size_t len = 0; len <= 100; len++) {
		/* Malloc'ed, at an odd address, so that a look beyond it is noticed. */
		uint8_t *data = malloc(1 + len + PMV_HELLO_SIZE);
		struct pmv_hello hello;

		memset(data + 1, 'p', len);
		memcpy(data + 1 + len, hello_bytes, PMV_HELLO_SIZE);
		cr_expect_eq(pmv_hello_decode(data + 1, len + PMV_HELLO_SIZE, &hello), len);
		cr_expect(same_hello(&hello, &hello_out));
		free(data);
	}
}

Test(hello, of_a_plain_peer_is_none_and_its_data_stay_whole)
{
	for (size_t len = 0; len <= 100; len++) {
		uint8_t *data = malloc(len + 1);
		struct pmv_hello hello = hello_out;

		memset(data, 'p', len);
		cr_expect_eq(pmv_hello_decode(data, len, &hello), len);
		cr_expect(says_nothing(&hello));
		free(data);
	}
	cr_expect_eq(pmv_hello_decode(NULL, 0, &(struct pmv_hello){0}), 0);
}

Test(hello, in_part_or_in_the_middle_is_none)
{
	uint8_t data[2 * PMV_HELLO_SIZE] = {0};
	struct pmv_hello hello;

	for (size_t len = 0; len < PMV_HELLO_SIZE; len++) {
		cr_expect_eq(pmv_hello_decode(hello_bytes, len, &hello), len);
		cr_expect(says_nothing(&hello));
	}
	memcpy(data, hello_bytes, PMV_HELLO_SIZE);
	for (size_t len = PMV_HELLO_SIZE + 1; len <= sizeof(data); len++) {
		cr_expect_eq(pmv_hello_decode(data, len, &hello), len);
		cr_expect(says_nothing(&hello));
	}
}

Test(hello, of_another_version_is_taken_off_and_says_nothing)
{
	uint8_t data[10 + PMV_HELLO_SIZE];
	struct pmv_hello hello = hello_out;

	memcpy(data + 10, hello_bytes, PMV_HELLO_SIZE);
	for (int version = 0; version < 256; version++) {
		data[14] = (uint8_t) version;
		cr_expect_eq(pmv_hello_decode(data, sizeof(data), &hello), 10);
		cr_expect_eq(says_nothing(&hello), version != 1);
	}
}

Test(hello, with_bits_that_nobody_knows_says_nothing)
{
	uint8_t data[PMV_HELLO_SIZE];
	struct pmv_hello hello;

	for (int bit = 0; bit < 8; bit++) {
		memcpy(data, hello_bytes, sizeof(data));
		data[5] ^= (uint8_t) (1 << bit);
		cr_expect_eq(pmv_hello_decode(data, sizeof(data), &hello), 0);
		cr_expect_eq(says_nothing(&hello), bit > 1);
	}
	for (int bit = 0; bit < 16; bit++) {
		memcpy(data, hello_bytes, sizeof(data));
		data[6 + bit / 8] = (uint8_t) (1 << bit % 8);
		cr_expect_eq(pmv_hello_decode(data, sizeof(data), &hello), 0);
		cr_expect(says_nothing(&hello));
	}
}

Test(hello, of_a_block_beyond_all_addresses_says_nothing)
{
	struct pmv_hello in = hello_out, hello;
	uint8_t data[PMV_HELLO_SIZE];

	/* The last one that begins with its page. */
	in.addr = (UINT64_MAX - PMV_BLOCK_SIZE) & ~UINT64_C(0xfff);
	pmv_hello_encode(data, &in);
	pmv_hello_decode(data, sizeof(data), &hello);
	cr_expect(same_hello(&hello, &in));
	in.addr += 4096;
	pmv_hello_encode(data, &in);
	cr_expect_eq(pmv_hello_decode(data, sizeof(data), &hello), 0);
	cr_expect(says_nothing(&hello));
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
	return pmv_message_decode(slot->bytes, NUMBER, NONCE, copy, message);
}

/* A right seal, on whatever is there. */
static void reseal(uint8_t *buf, size_t len)
{
	uint64_t check;

	memset(buf + 8, 0, 8);
	check = XXH3_64bits_withSeed(buf, len, NUMBER << 32 ^ NONCE);
	for (int i = 0; i < 8; i++)
		buf[8 + i] = (uint8_t) (check >> 8 * i);
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

	cr_assert_eq(pmv_message_encode(slot.bytes, &message, NONCE), sizeof(expected));
	memcpy(sealed.bytes, expected, sizeof(expected));
	reseal(sealed.bytes, sizeof(expected));
	cr_expect_arr_eq(slot.bytes, sealed.bytes, sizeof(slot));
	message.notify = message.store = false;
	cr_assert_eq(pmv_message_encode(slot.bytes, &message, NONCE), 32 + 48);
	cr_expect_eq(slot.bytes[24], 32 + 48);
	cr_expect_eq(slot.bytes[27], 0);
	message.notify = true;
	pmv_message_encode(slot.bytes, &message, NONCE);
	cr_expect_eq(slot.bytes[27], 1);
	message.store = true;
	message.notify = false;
	pmv_message_encode(slot.bytes, &message, NONCE);
	cr_expect_eq(slot.bytes[27], 2);
	message.store = false;
	message.messages = true;
	pmv_message_encode(slot.bytes, &message, NONCE);
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
		pmv_message_encode(slot.bytes, &out, NONCE);
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
			size = pmv_message_encode(slot.bytes, &out, NONCE);
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

	pmv_message_encode(slot.bytes, &out, NONCE);
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
		size_t len = pmv_message_encode(slot.bytes, &out, NONCE);

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
		size_t len = pmv_message_encode(slot.bytes, &out, NONCE);

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
		pmv_message_encode(old.bytes, &out, NONCE);
		out = shape(n / 8);
		words = (unsigned int) (pmv_message_encode(slot.bytes, &out, NONCE) + 7) / 8;
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
	pmv_message_encode(slot.bytes, &out, NONCE);
	cr_expect_not(pmv_message_ready(slot.bytes, NUMBER));
	cr_expect_eq(decode(&slot, &in), PMV_NOT_YET);
	/* Even if its number is written over, or only the upper half of it differs. */
	memcpy(slot.bytes, &(uint64_t){NUMBER}, 8);
	cr_expect_eq(decode(&slot, &in), PMV_NOT_YET);

	out.number = NUMBER;
	pmv_message_encode(slot.bytes, &out, NONCE + 1);
	cr_expect(pmv_message_ready(slot.bytes, NUMBER));
	cr_expect_eq(decode(&slot, &in), PMV_NOT_YET);
	pmv_message_encode(slot.bytes, &out, NONCE);
	cr_expect_eq(pmv_message_decode(slot.bytes, NUMBER + (UINT64_C(1) << 32), NONCE, copy, &in),
		     PMV_NOT_YET);
	cr_expect_eq(decode(&slot, &in), PMV_ARRIVED);
}

Test(message, of_zeros_or_noise_has_not_arrived)
{
	uint8_t copy[PMV_MESSAGE_SIZE];
	struct pmv_message in;
	union slot slot = {0};

	cr_expect_eq(pmv_message_decode(slot.bytes, 1, 0, copy, &in), PMV_NOT_YET);
	cr_expect_eq(pmv_message_decode(slot.bytes, 0, 0, copy, &in), PMV_NOT_YET);
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
		size_t len = pmv_message_encode(slot.bytes, &out, NONCE);

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
		len = pmv_message_encode(slot.bytes, &out, NONCE);
		slot.bytes[27] |= 4;
		expect_malformed(&slot, len);
	}
}

Test(message, with_reserved_bits_is_malformed)
{
	for (int bit = 0; bit < 32; bit++) {
		struct pmv_message out = random_message(3, 0, false);
		union slot slot;
		size_t len = pmv_message_encode(slot.bytes, &out, NONCE);

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
		len = pmv_message_encode(slot.bytes, &out, NONCE);
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

	len = pmv_message_encode(slot.bytes, &out, NONCE);
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

	pmv_ack_encode(slot.bytes, &ack_out, NONCE);
	reseal(expected.bytes, PMV_ACK_SIZE);
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

		pmv_ack_encode(slot.bytes, &out, NONCE);
		cr_assert_eq(pmv_ack_decode(slot.bytes, out.number, NONCE, &in), PMV_ARRIVED);
		cr_assert_eq(in.number, out.number);
		cr_assert_eq(in.done, out.done);
		cr_assert_eq(in.fault, out.fault);
	}
}

Test(ack, with_any_byte_changed_or_missing_has_not_arrived)
{
	union ack_slot slot, changed;
	struct pmv_ack in;

	pmv_ack_encode(slot.bytes, &ack_out, NONCE);
	for (size_t i = 0; i < PMV_ACK_SIZE; i++) {
		for (int by = 1; by < 256; by++) {
			changed = slot;
			changed.bytes[i] ^= (uint8_t) by;
			cr_assert_eq(pmv_ack_decode(changed.bytes, NUMBER, NONCE, &in),
				     PMV_NOT_YET);
		}
	}
	/* The words of it in any order, on top of the one before. */
	for (unsigned int have = 0; have < 15; have++) {
		struct pmv_ack old = ack_out;

		old.number -= PMV_SLOTS;
		old.done -= PMV_SLOTS;
		old.fault = PMV_FAULT_NONE;
		pmv_ack_encode(changed.bytes, &old, NONCE);
		for (unsigned int i = 0; i < 4; i++) {
			if (have & 1U << i)
				changed.words[i] = slot.words[i];
		}
		cr_assert_eq(pmv_ack_decode(changed.bytes, NUMBER, NONCE, &in), PMV_NOT_YET);
	}
}

Test(ack, of_an_earlier_round_or_another_connection_is_not_taken)
{
	union ack_slot slot;
	struct pmv_ack in;

	pmv_ack_encode(slot.bytes, &ack_out, NONCE);
	cr_expect_eq(pmv_ack_decode(slot.bytes, NUMBER + PMV_SLOTS, NONCE, &in), PMV_NOT_YET);
	cr_expect_eq(pmv_ack_decode(slot.bytes, NUMBER, NONCE + 1, &in), PMV_NOT_YET);
	memcpy(slot.bytes, &(uint64_t){NUMBER + PMV_SLOTS}, 8);
	cr_expect_eq(pmv_ack_decode(slot.bytes, NUMBER + PMV_SLOTS, NONCE, &in), PMV_NOT_YET);
}

Test(ack, with_reserved_bits_is_malformed)
{
	for (int bit = 0; bit < 32; bit++) {
		union ack_slot slot;
		struct pmv_ack in;

		pmv_ack_encode(slot.bytes, &ack_out, NONCE);
		slot.bytes[28 + bit / 8] = (uint8_t) (1 << bit % 8);
		reseal(slot.bytes, PMV_ACK_SIZE);
		cr_expect_eq(pmv_ack_decode(slot.bytes, NUMBER, NONCE, &in), PMV_MALFORMED);
	}
}
