/* SPDX-License-Identifier: BSD-2-Clause */
/* test_wire_replies.c -- replies that travel with an acknowledgement */
#include <criterion/criterion.h>

#include <string.h>

#include "agent/wire.h"
#include "testcore/message.h"

#define NUMBER UINT64_C(0x0102030405060708)

static const struct pmv_seal ack_seal = {"acknowledgement"};

union ack_slot {
	uint64_t words[PMV_ACK_SLOT / 8];
	uint8_t bytes[PMV_ACK_SLOT];
};

/* The reply to a chain of two steps, with 3 bytes of results. */
static const struct pmv_reply_size two_steps = {2, 3};

static struct pmv_ack ack_with_reply(void)
{
	static const struct pmv_reply reply = {
		.steps = {{.done = 0x010203, .status = 4}, {.done = 3, .status = 5}},
		.results = "xyz"};
	struct pmv_ack ack = {
		.number = NUMBER, .done = 5, .fault = PMV_FAULT_IO, .looks_us = 0x21222324};

	ack.reply_len = 16;
	pmv_reply_pack(ack.reply, &reply, two_steps);
	return ack;
}

Test(ack_reply, has_a_reply_behind_it)
{
	static const uint8_t expected[] = {3, 0, 16, 0, 0x24, 0x23, 0x22, 0x21, 3, 2, 1, 4,
					   3, 0, 0,  5, 'x',  'y',  'z',  0,    0, 0, 0, 0};
	struct pmv_ack ack = ack_with_reply(), in;
	struct pmv_reply reply;
	union ack_slot slot;

	cr_expect_eq(pmv_reply_len(two_steps), 16);
	cr_expect_eq(ack_encode(slot.bytes, &ack, &ack_seal), PMV_ACK_SIZE + 16);
	cr_expect_arr_eq(slot.bytes + 24, expected, sizeof(expected));
	cr_assert(pmv_ack_decode(slot.bytes, NUMBER, &ack_seal, &in));
	cr_expect_eq(in.reply_len, 16);
	pmv_reply_unpack(&reply, in.reply, two_steps);
	cr_expect_eq(reply.steps[0].done, 0x010203);
	cr_expect_eq(reply.steps[1].status, 5);
	cr_expect_arr_eq(reply.results, "xyz", 3);
	/* The seal is of both. */
	for (size_t i = 0; i < PMV_ACK_SIZE + 16; i++) {
		slot.bytes[i] ^= 1;
		cr_assert_not(pmv_ack_decode(slot.bytes, NUMBER, &ack_seal, &in));
		slot.bytes[i] ^= 1;
	}
}

/* A peer may say what it likes of the length. */
Test(ack_reply, with_a_reply_beyond_its_slot_has_not_arrived)
{
	for (unsigned int len = 0; len < 1U << 16; len++) {
		struct pmv_ack ack = ack_with_reply(), in;
		union ack_slot slot;
		size_t sealed = PMV_ACK_SIZE + (len < PMV_ACK_ROOM ? len : PMV_ACK_ROOM);

		ack.reply_len = len & 0xffff;
		memcpy(slot.bytes, &ack, sizeof(ack));
		reseal(slot.bytes, sealed, &ack_seal);
		cr_assert_eq(pmv_ack_decode(slot.bytes, NUMBER, &ack_seal, &in),
			     len <= PMV_ACK_ROOM && len % 8 == 0, "%u bytes", len);
	}
}

Test(ack_reply, has_room_for_replies_that_are_short)
{
	cr_expect(pmv_reply_is_short((struct pmv_reply_size){16, 160}));
	cr_expect_not(pmv_reply_is_short((struct pmv_reply_size){16, 161}));
	cr_expect(pmv_reply_is_short((struct pmv_reply_size){1, 220}));
	cr_expect_not(pmv_reply_is_short((struct pmv_reply_size){1, 221}));
}
