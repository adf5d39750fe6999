/* SPDX-License-Identifier: BSD-2-Clause */
/* test_wire.c -- what travels, byte by byte; what arrives is not believed */
#include "test_wire.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#define HERE UINT64_C(0x0b0c0d0e0f10)
#define THERE UINT64_C(0xa1a2a3a4a5a6)

/* The handshake */

static const struct pmv_handshake hello_out = {
	.known = true,
	.addr = UINT64_C(0x0002334455667000),
	.key = 0x99aabbcc,
	.flush_key = 0xddeeff01,
	.secret = UINT64_C(0x6162636465),
	.port = 0x7172,
	.life = 0x8182,
	.agent = true,
	.notices = true,
};

static const uint8_t hello_bytes[PMV_HANDSHAKE_SIZE] = {
	0xe7, 0xf5, 3,    0x67, 0x56, 0x45, 0x34, 0x23, 0x11, 0x65, 0x64, 0x63, 0x62,
	0x61, 0x72, 0x71, 0xcc, 0xbb, 0xaa, 0x99, 0x01, 0xff, 0xee, 0xdd, 0x82, 0x81,
};

static bool same_hello(const struct pmv_handshake *a, const struct pmv_handshake *b)
{
	return a->known == b->known && a->addr == b->addr && a->key == b->key &&
	       a->flush_key == b->flush_key && a->secret == b->secret && a->port == b->port &&
	       a->life == b->life && a->agent == b->agent && a->notices == b->notices &&
	       a->messages == b->messages && a->relaxed == b->relaxed &&
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
		cr_expect_eq(buf[2], 1U << bit);
	}
	pmv_handshake_encode(
		buf, &(struct pmv_handshake){.one_kind = true,
					     .received = {.persist = PMV_WSP, .ddio = true}});
	cr_expect_eq(buf[2], 5 << 4 | 128);
}

Test(handshake, is_read_as_it_was_written)
{
	for (unsigned int i = 0; i < 4096; i++) {
		struct pmv_handshake out = {
			.known = true,
			.addr = dice_bits(&state) >> 12 & ~UINT64_C(0xfff),
			.key = (uint32_t) dice_bits(&state),
			.flush_key = (uint32_t) dice_bits(&state),
			.secret = dice_bits(&state) & PMV_SECRET_MASK,
			.port = (uint16_t) dice_bits(&state),
			.life = (uint16_t) dice_bits(&state),
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
		data[2] = (uint8_t) (3 | bits << 4);
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

/* All ranges that can be said, and those that are none. */
Test(handshake, without_a_version_of_ours_is_taken_off_and_says_nothing)
{
	uint8_t data[10 + PMV_HANDSHAKE_SIZE];
	struct pmv_handshake handshake = hello_out;

	memcpy(data + 10, hello_bytes, PMV_HANDSHAKE_SIZE);
	for (unsigned int range = 0; range < 256; range++) {
		unsigned int lowest = range & 15, highest = range >> 4;
		bool is_range = lowest && lowest <= highest;
		bool common = is_range && lowest <= PMV_HANDSHAKE_HIGHEST &&
			      highest >= PMV_HANDSHAKE_LOWEST;

		data[18] = (uint8_t) range;
		cr_expect_eq(pmv_handshake_decode(data, sizeof(data), &handshake), 10);
		cr_expect_eq(says_nothing(&handshake), !common, "%u to %u", lowest, highest);
		cr_expect_eq(handshake.version != 0, common, "%u to %u", lowest, highest);
		cr_expect_eq(handshake.other.lowest, is_range && !common ? lowest : 0);
		cr_expect_eq(handshake.other.highest, is_range && !common ? highest : 0);
	}
}

Test(handshake, is_of_the_highest_version_that_both_speak)
{
	for (uint8_t v = 1; v < 14; v++) {
		const struct pmv_versions one = {v, v}, next = {v + 1, v + 1};
		const struct pmv_versions both = {v, v + 1}, later = {v + 1, v + 2};
		const struct {
			struct pmv_versions a, b;
			uint8_t common;
		} rows[] = {
			{one, one, v},          {both, one, v},  {both, both, v + 1},
			{both, next, v + 1},    {later, one, 0}, {later, both, v + 1},
			{later, next, v + 1},   {next, one, 0},  {{1, 15}, one, v},
			{{1, 15}, both, v + 1},
		};

		for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
			cr_expect_eq(pmv_versions_common(rows[i].a, rows[i].b), rows[i].common);
			cr_expect_eq(pmv_versions_common(rows[i].b, rows[i].a), rows[i].common);
		}
	}
}

Test(handshake, of_a_block_beyond_all_addresses_says_nothing)
{
	struct pmv_handshake out = hello_out;

	out.addr = (UINT64_C(1) << 52) - 4096;
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
		pmv_seal(HERE, THERE, PMV_SEALED_HINT),
		pmv_seal(THERE, HERE, PMV_SEALED_HINT),
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

/* Hints */

Test(hint, is_what_the_header_says_byte_by_byte)
{
	const uint8_t expected[8] = {0x44, 0x33, 0x22, 0x11, 1};
	struct pmv_hint hint = pmv_hint_make(0x11223344, true, &ack_seal);

	cr_expect_arr_eq((const uint8_t *) &hint, expected, sizeof(expected));
	cr_expect_eq(sizeof(hint), 16);
}

Test(hint, is_believed_only_whole_and_from_the_peer)
{
	for (int ask = 0; ask < 2; ask++) {
		struct pmv_hint hint = pmv_hint_make(0x11223344, ask, &ack_seal);
		uint8_t *bytes = (uint8_t *) &hint;

		cr_expect_eq(hint.ask, ask);
		cr_expect(pmv_hint_is_genuine(&hint, &ack_seal));
		cr_expect_not(pmv_hint_is_genuine(&hint, &message_seal));
		for (size_t i = 0; i < sizeof(hint); i++) {
			bytes[i] ^= 1;
			cr_expect_not(pmv_hint_is_genuine(&hint, &ack_seal), "byte %zu", i);
			bytes[i] ^= 1;
		}
	}
}
