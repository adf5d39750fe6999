/* SPDX-License-Identifier: BSD-2-Clause */
/* test_chain_message.c -- a chain as it is sent, and what is none */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "agent/chain_message.h"
#include "test/support/dice.h"

#define ROOM 480

static const uint8_t bytes[64] = "expected operand compare mask swap mask";

/* Each kind of step, with all that it may have. */
static const struct pmv_chain full = {
	.count = 6,
	.reply = 7,
	.steps =
		{
			{.head = {.kind = PMV_CHAIN_READ,
				  .len = 16,
				  .to = 2,
				  .at = 3,
				  .addr = 0x1122,
				  .key = 3,
				  .to_key = 4,
				  .flags = PMV_CHAIN_INDIRECT | PMV_CHAIN_BOUNDED |
					   PMV_CHAIN_REDIRECT | PMV_CHAIN_AT_SCRATCH}},
			{.head = {.kind = PMV_CHAIN_WRITE,
				  .len = 9,
				  .addr = 5,
				  .key = 6,
				  .flags = PMV_CHAIN_CONDITIONAL},
			 .operand = bytes + 9},
			{.head = {.kind = PMV_CHAIN_COMPARE_SWAP,
				  .compare = PMV_CHAIN_GE,
				  .len = 8,
				  .flags = PMV_CHAIN_MASK_COMPARE | PMV_CHAIN_MASK_SWAP},
			 .expected = bytes,
			 .operand = bytes + 9,
			 .compare_mask = bytes + 17,
			 .swap_mask = bytes + 30},
			{.head = {.kind = PMV_CHAIN_FETCH_ADD,
				  .len = 8,
				  .from = 3,
				  .flags = PMV_CHAIN_FROM_SCRATCH}},
			{.head = {.kind = PMV_CHAIN_ALLOCATE,
				  .len = 20,
				  .to = 1,
				  .key = 1,
				  .to_key = 2,
				  .flags = PMV_CHAIN_FROM_MEMORY | PMV_CHAIN_REDIRECT},
			 .from_addr = 0x8877665544332211,
			 .from_key = 0xccbbaa99},
			{.head = {.kind = PMV_CHAIN_FREE,
				  .at = 1,
				  .flags = PMV_CHAIN_AT_SCRATCH | PMV_CHAIN_COMMIT}},
		},
};

static void same_bytes(const uint8_t *is, const uint8_t *was, size_t len)
{
	cr_assert_eq(!is, !was);
	cr_assert(!is || !memcmp(is, was, len));
}

static void same(const struct pmv_chain *is, const struct pmv_chain *was)
{
	cr_assert_eq(is->count, was->count);
	cr_assert_eq(is->reply, was->reply);
	for (unsigned int i = 0; i < is->count; i++) {
		const struct pmv_chain_step *a = &is->steps[i], *b = &was->steps[i];

		cr_assert_eq(memcmp(&a->head, &b->head, sizeof(a->head)), 0);
		same_bytes(a->expected, b->expected, a->head.len);
		same_bytes(a->operand, b->operand, a->head.len);
		same_bytes(a->compare_mask, b->compare_mask, a->head.len);
		same_bytes(a->swap_mask, b->swap_mask, a->head.len);
		cr_assert_eq(a->from_addr, b->from_addr);
		cr_assert_eq(a->from_key, b->from_key);
	}
}

Test(chain_message, arrives_as_it_was_sent)
{
	uint8_t buf[ROOM];
	struct pmv_chain chain;
	size_t len = pmv_chain_encode(buf, sizeof(buf), &full);

	cr_assert_eq(len, 4 + 6 * 24 + 9 + 4 * 8 + 12);
	cr_assert(pmv_chain_decode(buf, len, &chain));
	same(&chain, &full);
	/* the CAS, the sum, and the buffer's address */
	cr_expect_eq(chain.results_len, 8 + 8 + 8);
	cr_expect_eq(chain.steps[2].result_at, 0);
	cr_expect_eq(chain.steps[3].result_at, 8);
	cr_expect_eq(chain.steps[4].result_at, 16);
	/* in front of the last step, and behind it */
	cr_expect_eq(chain.commits, 2);
	cr_expect(pmv_chain_commits_behind(&chain, 5));
}

Test(chain_message, is_what_the_header_says_byte_by_byte)
{
	static const uint8_t expected[] = {
		1,    5,    0,    0,                                   /* steps, slot */
		3,    4,    0x80, 0x02, 2,    0,    0,    0x40 | 0x20, /* kind, how, flags, length,
									  words */
		8,    7,    6,    5,    4,    3,    2,    1,           /* address */
		0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21,        /* keys */
		'e',  'x',                                             /* expected */
		0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,        0x44,
		0x43, 0x42, 0x41, /* from */
		'm',  'a',        /* mask */
	};
	struct pmv_chain chain = {
		.count = 1,
		.reply = 5,
		.steps = {{.head = {.kind = PMV_CHAIN_COMPARE_SWAP,
				    .compare = PMV_CHAIN_GT,
				    .len = 2,
				    .flags = PMV_CHAIN_FROM_MEMORY | PMV_CHAIN_MASK_COMPARE,
				    .addr = 0x0102030405060708,
				    .key = 0x11121314,
				    .to_key = 0x21222324,
				    .expect = 2,
				    .at = 1},
			   .expected = (const uint8_t *) "ex",
			   .compare_mask = (const uint8_t *) "ma",
			   .from_addr = 0x3132333435363738,
			   .from_key = 0x41424344}},
	};
	uint8_t buf[ROOM];

	cr_assert_eq(pmv_chain_encode(buf, sizeof(buf), &chain), sizeof(expected));
	cr_assert_eq(memcmp(buf, expected, sizeof(expected)), 0);
}

Test(chain_message, that_is_cut_off_or_goes_on_is_malformed)
{
	uint8_t buf[ROOM] = {0};
	struct pmv_chain chain;
	size_t len = pmv_chain_encode(buf, sizeof(buf), &full);

	for (size_t i = 0; i <= sizeof(buf); i++) {
		/* The analyser of addresses sees who reads behind its end. */
		uint8_t *copy = malloc(i + !i);

		memcpy(copy, buf, i);
		cr_assert_eq(pmv_chain_decode(copy, i, &chain), i == len, "%zu bytes", i);
		free(copy);
	}
	for (size_t room = 0; room < len; room++)
		cr_assert_eq(pmv_chain_encode(buf, room, &full), 0);
}

/* decodes -- the full chain with one step changed */
static bool decodes(unsigned int step, const struct pmv_chain_head *head)
{
	struct pmv_chain chain = full, decoded;
	uint8_t buf[ROOM];
	size_t len;

	chain.steps[step].head = *head;
	len = pmv_chain_encode(buf, sizeof(buf), &chain);
	cr_assert_neq(len, 0);
	return pmv_chain_decode(buf, len, &decoded);
}

#define MALFORMED(step, change)                                                                    \
	do {                                                                                       \
		struct pmv_chain_head head = full.steps[step].head;                                \
		cr_expect(decodes(step, &head));                                                   \
		change;                                                                            \
		cr_expect(!decodes(step, &head), "step %d: " #change, step);                       \
	} while (0)

Test(chain_message, with_an_option_that_its_kind_has_not_is_malformed)
{
	for (unsigned int i = 0; i < 6; i++) {
		for (unsigned int bit = 12; bit < 16; bit++)
			MALFORMED(i, head.flags |= (uint16_t) (1U << bit));
		MALFORMED(i, head.kind = 0);
		MALFORMED(i, head.kind = 7);
		MALFORMED(i, head.kind = 255);
	}
	MALFORMED(0, head.flags &= (uint16_t) ~PMV_CHAIN_INDIRECT);
	MALFORMED(0, head.flags |= PMV_CHAIN_FROM_SCRATCH);
	MALFORMED(0, head.flags |= PMV_CHAIN_LARGE); /* and the words get it */
	MALFORMED(0, head.flags |= PMV_CHAIN_EXPECT_SCRATCH);
	MALFORMED(0, head.compare = 1);
	MALFORMED(0, head.len = 17);
	MALFORMED(0, head.len += 1 << 16);
	MALFORMED(0, head.to = 3);
	MALFORMED(0, head.from = 1);
	MALFORMED(0, head.expect = 1);
	MALFORMED(0, head.flags &= (uint16_t) ~PMV_CHAIN_AT_SCRATCH);
	MALFORMED(0, head.flags &= (uint16_t) ~PMV_CHAIN_REDIRECT);
	MALFORMED(1, head.flags |= PMV_CHAIN_REDIRECT);
	MALFORMED(1, head.flags |= PMV_CHAIN_LARGE);
	MALFORMED(1, head.flags |= PMV_CHAIN_BOUNDED);
	MALFORMED(1, head.to_key = 1);
	MALFORMED(2, head.compare = 6);
	MALFORMED(2, head.flags |= PMV_CHAIN_LARGE);
	MALFORMED(2, head.flags |= PMV_CHAIN_BOUNDED | PMV_CHAIN_INDIRECT);
	MALFORMED(3, head.len = 7);
	MALFORMED(3, head.flags |= PMV_CHAIN_FROM_MEMORY);
	MALFORMED(4, head.addr = 1);
	MALFORMED(4, head.flags |= PMV_CHAIN_INDIRECT);
	MALFORMED(4, head.flags |= PMV_CHAIN_AT_SCRATCH);
	MALFORMED(5, head.len = 1);
	MALFORMED(5, head.flags |= PMV_CHAIN_REDIRECT);
	MALFORMED(5, head.flags |= PMV_CHAIN_INDIRECT);
}

Test(chain_message, of_no_step_or_too_many_or_for_no_slot_is_malformed)
{
	for (unsigned int count = 0; count < 256; count++) {
		uint8_t buf[4 + 256 * 24] = {(uint8_t) count};
		struct pmv_chain chain;

		for (unsigned int i = 0; i < count; i++)
			buf[4 + 24 * i] = PMV_CHAIN_FREE;
		cr_expect_eq(pmv_chain_decode(buf, 4 + 24 * count, &chain),
			     count && count <= PMV_CHAIN_STEPS);
	}
	for (unsigned int slot = 0; slot < 256; slot++) {
		uint8_t buf[4 + 24] = {1, (uint8_t) slot, 0, 0, PMV_CHAIN_FREE};
		struct pmv_chain chain;

		cr_expect_eq(pmv_chain_decode(buf, sizeof(buf), &chain), slot < PMV_REPLIES);
		buf[1] = 0;
		buf[2] = (uint8_t) slot;
		cr_expect_eq(pmv_chain_decode(buf, sizeof(buf), &chain), !slot);
	}
}

/* More than a reply has room for, in one step or in several. */
Test(chain_message, that_asks_for_too_much_is_malformed)
{
	for (unsigned int len = PMV_REPLY_ROOM - 8; len < PMV_REPLY_ROOM + 8; len++) {
		struct pmv_chain chain = {
			.count = 2,
			.steps = {{.head = {.kind = PMV_CHAIN_READ, .len = (len - 1) & 0xffff}},
				  {.head = {.kind = PMV_CHAIN_READ, .len = 1}}},
		};
		uint8_t buf[ROOM];
		size_t size = pmv_chain_encode(buf, sizeof(buf), &chain);

		cr_expect_eq(pmv_chain_decode(buf, size, &chain), len <= PMV_REPLY_ROOM);
	}
}

/* Large results have room of their own. */
Test(chain_message, that_asks_for_too_much_at_other_places_is_malformed)
{
	for (unsigned int len = PMV_CHAIN_LARGE_ROOM - 2; len < PMV_CHAIN_LARGE_ROOM + 2; len++) {
		struct pmv_chain chain = {
			.count = 3,
			.steps = {{.head = {.kind = PMV_CHAIN_READ,
					    .flags = PMV_CHAIN_LARGE,
					    .len = (len - 1) & 0xffffff}},
				  {.head = {.kind = PMV_CHAIN_READ, .len = PMV_REPLY_ROOM}},
				  {.head = {.kind = PMV_CHAIN_READ,
					    .flags = PMV_CHAIN_LARGE,
					    .len = 1},
				   .result_addr = 0x8877665544332211,
				   .result_key = 0xccbbaa99}},
		};
		uint8_t buf[ROOM];
		size_t size = pmv_chain_encode(buf, sizeof(buf), &chain);

		cr_expect_eq(size, 4 + 3 * 24 + 2 * 12);
		cr_expect_eq(pmv_chain_decode(buf, size, &chain), len <= PMV_CHAIN_LARGE_ROOM);
		if (len > PMV_CHAIN_LARGE_ROOM)
			continue;
		cr_expect_eq(chain.results_len, PMV_REPLY_ROOM);
		cr_expect_eq(chain.large_len, len);
		cr_expect_eq(chain.steps[0].result_at, 0);
		cr_expect_eq(chain.steps[2].result_at, len - 1);
		cr_expect_eq(chain.steps[2].result_addr, 0x8877665544332211);
		cr_expect_eq(chain.steps[2].result_key, 0xccbbaa99);
	}
}

/* Whatever is decoded keeps to the rules that its execution relies on. */
Test(chain_message, of_random_bytes_is_malformed_or_keeps_to_the_rules)
{
	uint64_t state = 42;
	unsigned int found = 0;

	for (unsigned int i = 0; i < 30000; i++) {
		uint8_t buf[ROOM];
		struct pmv_chain chain;
		size_t len = pmv_chain_encode(buf, sizeof(buf), &full);

		for (unsigned int n = dice(&state, 4); n; n--)
			buf[dice(&state, len)] = (uint8_t) dice(&state, 40);
		if (!pmv_chain_decode(buf, len, &chain))
			continue;
		found++;
		cr_assert(chain.count && chain.count <= PMV_CHAIN_STEPS);
		cr_assert_leq(chain.results_len, PMV_REPLY_ROOM);
		cr_assert_leq(chain.large_len, PMV_CHAIN_LARGE_ROOM);
		for (unsigned int step = 0; step < chain.count; step++) {
			const struct pmv_chain_step *at = &chain.steps[step];

			if (at->head.flags & PMV_CHAIN_LARGE)
				cr_assert_leq(at->result_at + at->head.len, chain.large_len);
			else
				cr_assert_leq(at->result_at + at->result_len, chain.results_len);
			cr_assert(!at->operand ||
				  (at->operand >= buf && at->operand + at->head.len <= buf + len));
			cr_assert(at->head.kind != PMV_CHAIN_COMPARE_SWAP ||
				  (at->head.len && at->head.len <= PMV_CHAIN_CAS));
			cr_assert(!(at->head.flags & PMV_CHAIN_FROM_SCRATCH) ||
				  at->head.from * 8 + at->head.len <= PMV_CHAIN_SCRATCH);
		}
	}
	cr_expect_gt(found, 100);
}
