/* SPDX-License-Identifier: BSD-2-Clause */
/* test_wire_messages.c -- messages and acknowledgements, byte by byte; what arrives is not believed
 */
#include "test_wire.h"

#include <string.h>

#include <criterion/criterion.h>

/* Messages */

/* A slot is written in words: it is aligned. */
union slot {
	uint64_t words[PMV_MESSAGE_SIZE / 8];
	uint8_t bytes[PMV_MESSAGE_SIZE];
};

enum arrival { ARRIVED, NOT_YET, MALFORMED };

static struct pmv_flush_message random_message(unsigned int count, size_t store_len, bool store)
{
	struct pmv_flush_message message = {
		.envelope.number = NUMBER,
		.data = dice_bits(&state),
		.notify = dice_bits(&state) & 1,
		.count = count,
	};
	uint8_t payload[PMV_MESSAGE_SIZE];

	for (unsigned int i = 0; i < count; i++) {
		message.ranges[i] = (struct pmv_range){
			.addr = dice_bits(&state),
			.len = dice_bits(&state),
			.key = (uint32_t) dice_bits(&state),
		};
	}
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t) dice_bits(&state);
	if (store) {
		message.ranges[count - 1].len = store_len;
		message_carry(&message, payload);
	}
	return message;
}

static bool same_message(struct pmv_flush_message *a, struct pmv_flush_message *b)
{
	if (a->envelope.number != b->envelope.number || a->data != b->data ||
	    a->notify != b->notify || a->store != b->store || a->messages != b->messages ||
	    a->count != b->count)
		return false;
	for (unsigned int i = 0; i < a->count; i++) {
		if (a->ranges[i].addr != b->ranges[i].addr ||
		    a->ranges[i].len != b->ranges[i].len || a->ranges[i].key != b->ranges[i].key)
			return false;
	}
	return !a->store || !memcmp(message_data(a), message_data(b), a->ranges[a->count - 1].len);
}

static enum arrival decode(const union slot *slot, struct pmv_flush_message *message)
{
	memset(message, 0x5a, sizeof(*message));
	if (!pmv_message_decode(slot->bytes, NUMBER, &message_seal, (struct pmv_message *) message))
		return NOT_YET;
	return pmv_flush_message_is_valid(message) ? ARRIVED : MALFORMED;
}

Test(wire, sizes_are_what_the_header_says)
{
	cr_expect_eq(PMV_ACKS_AT, 32768);
	cr_expect_eq(PMV_REPLIES_AT, 49152);
	cr_expect_eq(PMV_BLOCK_SIZE, 49152 + 8 * 1040);
	cr_expect_eq(sizeof(struct pmv_ack), 256);
	cr_expect_eq(PMV_ACK_ROOM, 224);
	cr_expect_eq(PMV_MESSAGE_SIZE, 512);
	cr_expect_eq(PMV_STORE_ROOM(20), 0);
	cr_expect_eq(PMV_STORE_ROOM(1), 512 - 32 - 24);
}

Test(message, is_what_the_header_says_byte_by_byte)
{
	static const uint8_t expected[] = {
		8,           7,    6,    5,    4,    3,    2,    1,    /* number */
		0,           0,    0,    0,    0,    0,    0,    0,    /* check */
		32 + 48 + 5, 0,                                        /* length */
		1,                                                     /* a flush */
		0x80 + 63,                                             /* more, unacked */
		2,                                                     /* ranges */
		3,                                                     /* notify, store */
		0,           0,                                        /* reserved */
		0x18,        0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* immediate data */
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
	struct pmv_flush_message message = {
		.envelope = {.number = NUMBER, .more = true, .unacked = 63},
		.data = UINT64_C(0x1112131415161718),
		.notify = true,
		.count = 2,
		.ranges = {{UINT64_C(0x2122232425262728), UINT64_C(0x3132333435363738), 0x41424344},
			   {UINT64_C(0x5152535455565758), 5, 0x61626364}},
	};
	union slot slot = {0}, sealed = {0};

	message_carry(&message, "hello");
	cr_assert_eq(message_encode(slot.bytes, &message, &message_seal), sizeof(expected));
	memcpy(sealed.bytes, expected, sizeof(expected));
	reseal(sealed.bytes, sizeof(expected), &message_seal);
	cr_expect_arr_eq(slot.bytes, sealed.bytes, sizeof(slot));
	message.notify = message.store = false;
	cr_assert_eq(message_encode(slot.bytes, &message, &message_seal), 32 + 48);
	cr_expect_eq(slot.bytes[16], 32 + 48);
	cr_expect_eq(slot.bytes[21], 0);
	message.notify = true;
	message_encode(slot.bytes, &message, &message_seal);
	cr_expect_eq(slot.bytes[21], 1);
	message.store = true;
	message.notify = false;
	message_encode(slot.bytes, &message, &message_seal);
	cr_expect_eq(slot.bytes[21], 2);
	message.store = false;
	message.messages = true;
	message_encode(slot.bytes, &message, &message_seal);
	cr_expect_eq(slot.bytes[21], 4);
	cr_expect_eq(slot.words[3], message.data);
}

Test(message, about_messages_has_any_number_of_ranges)
{
	for (unsigned int count = 0; count <= PMV_MAX_RANGES; count++) {
		struct pmv_flush_message out = random_message(count, 0, false), in;
		union slot slot;

		out.notify = false;
		out.messages = true;
		message_encode(slot.bytes, &out, &message_seal);
		cr_assert_eq(decode(&slot, &in), ARRIVED);
		cr_assert(same_message(&in, &out));
	}
}

Test(message, is_read_as_it_was_written)
{
	for (unsigned int count = 0; count <= PMV_MAX_RANGES; count++) {
		for (size_t len = 0; len <= PMV_STORE_ROOM(count); len++) {
			bool store = count && (len || dice_bits(&state) & 1);
			struct pmv_flush_message out = random_message(count, len, store), in;
			union slot slot;
			size_t size;

			if (!store && len)
				continue;
			memset(&slot, 0xff, sizeof(slot));
			size = message_encode(slot.bytes, &out, &message_seal);
			cr_assert_eq(size, 32 + count * 24 + len);
			cr_assert(pmv_message_ready(slot.bytes, NUMBER));
			cr_assert_eq(decode(&slot, &in), ARRIVED);
			cr_assert(same_message(&in, &out));
		}
	}
}

Test(message, payload_is_not_read_from_the_slot_again)
{
	struct pmv_flush_message out = random_message(1, 100, true), in;
	union slot slot;

	message_encode(slot.bytes, &out, &message_seal);
	cr_assert_eq(decode(&slot, &in), ARRIVED);
	/* What a peer does to it later does not matter. */
	memset(&slot, 0, sizeof(slot));
	cr_expect(same_message(&in, &out));
}

/* Either it has not arrived, or all of it has: that is what the check is for. */
static void expect_not_yet(const union slot *slot, struct pmv_flush_message *out)
{
	struct pmv_flush_message in;
	enum arrival arrival = decode(slot, &in);

	if (arrival == ARRIVED)
		cr_assert(same_message(&in, out), "something else has arrived");
	cr_assert_neq(arrival, MALFORMED);
}

/* Some messages of all shapes. */
static struct pmv_flush_message shape(int n)
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
		struct pmv_flush_message out = shape(n), in;
		union slot slot = {0}, changed;
		size_t len = message_encode(slot.bytes, &out, &message_seal);

		for (size_t i = 0; i < len; i++) {
			for (int by = 1; by < 256; by++) {
				changed = slot;
				changed.bytes[i] ^= (uint8_t) by;
				cr_assert_eq(decode(&changed, &in), NOT_YET, "byte %zu", i);
			}
		}
	}
}

Test(message, in_part_has_not_arrived)
{
	for (int n = 0; n < 8; n++) {
		struct pmv_flush_message out = shape(n), in;
		union slot slot = {0}, part;
		size_t len = message_encode(slot.bytes, &out, &message_seal);

		for (size_t have = 0; have < len; have++) {
			/* The start of it, the end of it, all but one word; on nothing and on
			 * noise. */
			memset(&part, 0, sizeof(part));
			memcpy(part.bytes, slot.bytes, have);
			expect_not_yet(&part, &out);
			memset(&part, 0xa5, sizeof(part));
			memcpy(part.bytes, slot.bytes, have);
			cr_assert_eq(decode(&part, &in), NOT_YET);
			memset(&part, 0xa5, sizeof(part));
			memcpy(part.bytes + have + 1, slot.bytes + have + 1, len - have - 1);
			cr_assert_eq(decode(&part, &in), NOT_YET);
			part = slot;
			memset(part.bytes + (have & ~(size_t) 7), 0xa5, 8);
			cr_assert_eq(decode(&part, &in), NOT_YET);
		}
	}
}

Test(message, arrives_with_the_last_of_its_words_in_any_order)
{
	for (int n = 0; n < 200; n++) {
		struct pmv_flush_message out = shape(n), in;
		union slot slot = {0}, old, arriving;
		unsigned int order[PMV_MESSAGE_SIZE / 8];
		unsigned int words;

		/* On top of what was in the slot before. */
		out.envelope.number = NUMBER - PMV_SLOTS;
		memset(&old, 0, sizeof(old));
		message_encode(old.bytes, &out, &message_seal);
		out = shape(n / 8);
		words = (unsigned int) (message_encode(slot.bytes, &out, &message_seal) + 7) / 8;
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
		cr_assert_eq(decode(&arriving, &in), ARRIVED);
		cr_assert(same_message(&in, &out));
	}
}

Test(message, of_an_earlier_round_or_another_connection_is_not_taken)
{
	struct pmv_flush_message out = shape(6), in;
	union slot slot = {0};

	out.envelope.number = NUMBER - PMV_SLOTS;
	message_encode(slot.bytes, &out, &message_seal);
	cr_expect_not(pmv_message_ready(slot.bytes, NUMBER));
	cr_expect_eq(decode(&slot, &in), NOT_YET);
	/* Even if its number is written over, or only the upper half of it differs. */
	memcpy(slot.bytes, &(uint64_t){NUMBER}, 8);
	cr_expect_eq(decode(&slot, &in), NOT_YET);

	out.envelope.number = NUMBER;
	message_encode(slot.bytes, &out, &other_seal);
	cr_expect(pmv_message_ready(slot.bytes, NUMBER));
	cr_expect_eq(decode(&slot, &in), NOT_YET);
	message_encode(slot.bytes, &out, &message_seal);
	cr_expect_not(pmv_message_decode(slot.bytes, NUMBER + (UINT64_C(1) << 32), &message_seal,
					 (struct pmv_message *) &in));
	cr_expect_eq(decode(&slot, &in), ARRIVED);
}

Test(message, of_zeros_or_noise_has_not_arrived)
{
	struct pmv_message any;
	struct pmv_flush_message in;
	union slot slot = {0};

	cr_expect_not(pmv_message_decode(slot.bytes, 1, &message_seal, &any));
	cr_expect_not(pmv_message_decode(slot.bytes, 0, &message_seal, &any));
	for (int n = 0; n < 100000; n++) {
		slot.words[dice_bits(&state) % 64] = dice_bits(&state);
		slot.words[0] = NUMBER;
		slot.bytes[17] &= 1;
		cr_assert_eq(decode(&slot, &in), NOT_YET);
	}
}

/* Whole, but not by the rules */

static void expect_malformed(union slot *slot, size_t len)
{
	struct pmv_flush_message in;

	reseal(slot->bytes, len, &message_seal);
	cr_assert_eq(decode(slot, &in), MALFORMED);
}

static void set_length(union slot *slot, size_t len)
{
	slot->bytes[16] = (uint8_t) len;
	slot->bytes[17] = (uint8_t) (len >> 8);
}

Test(message, of_more_ranges_than_there_may_be_is_malformed)
{
	for (unsigned int count = PMV_MAX_RANGES + 1; count < 256; count++) {
		union slot slot = {0};

		slot.words[0] = NUMBER;
		slot.bytes[20] = (uint8_t) count;
		set_length(&slot, PMV_MESSAGE_SIZE);
		expect_malformed(&slot, PMV_MESSAGE_SIZE);
	}
}

Test(message, has_flags_that_go_together_or_is_malformed)
{
	/* 8 to 32: an event; 64: ordered, with anything; 128: no chain is as short */
	static const uint8_t good[] = {0, 1, 2, 1 | 2, 4};

	for (unsigned int flags = 0; flags < 512; flags++) {
		struct pmv_flush_message out = random_message(2, 0, false), in;
		unsigned int others = flags & 0x87U, event = flags & 0x38;
		bool more = flags & 256, expected = memchr(good, (int) others, sizeof(good));
		union slot slot;
		size_t len;

		out.ranges[1].len = 0;
		out.envelope.more = more;
		/* An event has a place. */
		if (event)
			out.ranges[1].key |= PMV_RANGE_EVENT;
		len = message_encode(slot.bytes, &out, &message_seal);
		slot.bytes[21] = (uint8_t) flags;
		reseal(slot.bytes, len, &message_seal);
		/* Any event goes with a notice and with data to store. */
		expected &= !event || (event <= 0x20 && !(others & 4));
		/* What goes on in the next message has no flags. */
		expected &= !more || flags == 256;
		cr_expect_eq(decode(&slot, &in), expected ? ARRIVED : MALFORMED, "flags %#x",
			     flags);
	}
}

Test(message, of_an_event_without_a_place_or_a_place_without_an_event_is_malformed)
{
	for (int event = 0; event < 2; event++) {
		struct pmv_flush_message out = random_message(2, 0, false);
		union slot slot;
		size_t len;

		out.event = event ? PMV_EVENT_WRITE : PMV_EVENT_NONE;
		out.ranges[1].key |= event ? 0 : PMV_RANGE_EVENT;
		len = message_encode(slot.bytes, &out, &message_seal);
		expect_malformed(&slot, len);
	}
}

Test(message, about_messages_that_notifies_or_stores_is_malformed)
{
	for (int store = 0; store < 2; store++) {
		struct pmv_flush_message out = random_message(1, 8, store);
		union slot slot;
		size_t len;

		out.notify = !store;
		len = message_encode(slot.bytes, &out, &message_seal);
		slot.bytes[21] |= 4;
		expect_malformed(&slot, len);
	}
}

Test(message, with_reserved_bits_is_malformed)
{
	for (int bit = 0; bit < 48; bit++) {
		struct pmv_flush_message out = random_message(3, 0, false);
		union slot slot;
		size_t len = message_encode(slot.bytes, &out, &message_seal);
		size_t at = bit < 16 ? 22 : 32 + 2 * 24 + 20 - 2;

		slot.bytes[at + bit / 8] = (uint8_t) (1 << bit % 8);
		expect_malformed(&slot, len);
	}
}

Test(message, whose_lengths_do_not_add_up_is_malformed)
{
	for (int n = 0; n < 8; n++) {
		struct pmv_flush_message out = shape(n), in;
		union slot slot, other;
		size_t len;

		memset(&slot, 0, sizeof(slot));
		len = message_encode(slot.bytes, &out, &message_seal);
		for (size_t claimed = 20; claimed <= PMV_MESSAGE_SIZE; claimed++) {
			other = slot;
			set_length(&other, claimed);
			if (claimed == len)
				continue;
			expect_malformed(&other, claimed);
		}
		/* Shorter than any, or longer than a slot: nothing that could be checked. */
		for (size_t claimed = 0; claimed < 65536; claimed += claimed == 19 ? 494 : 1) {
			other = slot;
			set_length(&other, claimed);
			reseal(other.bytes, claimed < 16 || claimed > 512 ? 512 : claimed,
			       &message_seal);
			cr_assert_eq(decode(&other, &in), NOT_YET);
		}
	}
}

Test(message, that_stores_without_a_range_or_more_than_it_has_is_malformed)
{
	struct pmv_flush_message out = random_message(2, 40, true);
	union slot slot = {0};
	size_t len;

	slot.words[0] = NUMBER;
	slot.bytes[21] = 2;
	set_length(&slot, 32);
	expect_malformed(&slot, 32);

	len = message_encode(slot.bytes, &out, &message_seal);
	slot.bytes[32 + 24 + 8] = 41;
	expect_malformed(&slot, len);
	slot.bytes[32 + 24 + 8] = 39;
	expect_malformed(&slot, len);
	slot.bytes[32 + 24 + 8] = 40;
	slot.bytes[32 + 24 + 15] = 0x80;
	expect_malformed(&slot, len);
	/* The data that the length promises, but nothing says where to store them. */
	slot.bytes[32 + 24 + 15] = 0;
	slot.bytes[21] &= 1;
	expect_malformed(&slot, len);
}

/* Acknowledgements */

union ack_slot {
	uint64_t words[PMV_ACK_SLOT / 8];
	uint8_t bytes[PMV_ACK_SLOT];
};

static const struct pmv_ack ack_out = {
	.number = NUMBER,
	.done = UINT64_C(0x1112131415161718),
	.fault = PMV_FAULT_IO,
	.looks_us = 0x21222324,
	.unhinted = 1,
};

Test(ack, is_what_the_header_says_byte_by_byte)
{
	union ack_slot slot,
		expected = {.bytes = {8,    7,    6, 5, 4, 3,    2,    1,    0,    0,    0,
				      0,    0,    0, 0, 0, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
				      0x12, 0x11, 3, 0, 0, 0,    0x24, 0x23, 0x22, 0xa1}};

	cr_expect_eq(ack_encode(slot.bytes, &ack_out, &ack_seal), PMV_ACK_SIZE);
	reseal(expected.bytes, PMV_ACK_SIZE, &ack_seal);
	cr_expect_arr_eq(slot.bytes, expected.bytes, PMV_ACK_SIZE);
	cr_expect_eq(PMV_FAULT_NONE, 0);
	cr_expect_eq(PMV_FAULT_MESSAGE, 1);
	cr_expect_eq(PMV_FAULT_ACCESS, 2);
	cr_expect_eq(PMV_FAULT_IO, 3);
}

Test(ack, is_read_as_it_was_written)
{
	for (int n = 0; n < 1000; n++) {
		struct pmv_ack out = {.number = dice_bits(&state),
				      .done = dice_bits(&state),
				      .fault = (enum pmv_fault)(n % 4),
				      .looks_us = (uint32_t) dice_bits(&state) & INT32_MAX,
				      .unhinted = n & 1},
			       in;
		union ack_slot slot;

		ack_encode(slot.bytes, &out, &ack_seal);
		cr_assert(pmv_ack_decode(slot.bytes, out.number, &ack_seal, &in));
		cr_assert_eq(in.number, out.number);
		cr_assert_eq(in.done, out.done);
		cr_assert_eq(in.fault, out.fault);
		cr_assert_eq(in.looks_us, out.looks_us);
		cr_assert_eq(in.unhinted, out.unhinted);
	}
}

Test(ack, with_any_byte_changed_or_missing_has_not_arrived)
{
	union ack_slot slot, changed;
	struct pmv_ack in;

	ack_encode(slot.bytes, &ack_out, &ack_seal);
	for (size_t i = 0; i < PMV_ACK_SIZE; i++) {
		for (int by = 1; by < 256; by++) {
			changed = slot;
			changed.bytes[i] ^= (uint8_t) by;
			cr_assert_not(pmv_ack_decode(changed.bytes, NUMBER, &ack_seal, &in));
		}
	}
	/* The words of it in any order, on top of the one before. */
	for (unsigned int have = 0; have < 15; have++) {
		struct pmv_ack old = ack_out;

		old.number -= PMV_SLOTS;
		old.done -= PMV_SLOTS;
		old.fault = PMV_FAULT_NONE;
		ack_encode(changed.bytes, &old, &ack_seal);
		for (unsigned int i = 0; i < 4; i++) {
			if (have & 1U << i)
				changed.words[i] = slot.words[i];
		}
		cr_assert_not(pmv_ack_decode(changed.bytes, NUMBER, &ack_seal, &in));
	}
}

Test(ack, of_an_earlier_round_or_another_connection_is_not_taken)
{
	union ack_slot slot;
	struct pmv_ack in;

	ack_encode(slot.bytes, &ack_out, &ack_seal);
	cr_expect_not(pmv_ack_decode(slot.bytes, NUMBER + PMV_SLOTS, &ack_seal, &in));
	cr_expect_not(pmv_ack_decode(slot.bytes, NUMBER, &message_seal, &in));
	memcpy(slot.bytes, &(uint64_t){NUMBER + PMV_SLOTS}, 8);
	cr_expect_not(pmv_ack_decode(slot.bytes, NUMBER + PMV_SLOTS, &ack_seal, &in));
}
