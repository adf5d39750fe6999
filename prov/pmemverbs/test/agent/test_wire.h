/* SPDX-License-Identifier: BSD-2-Clause */
/* test_wire.h -- what test_wire.c and test_wire_messages.c share */
#ifndef TEST_WIRE_H
#define TEST_WIRE_H

#include "agent/wire.h"
#include "testcore/message.h"
#include "test/support/dice.h"

#define NUMBER UINT64_C(0x0102030405060708)
static uint64_t state = 88172645463325252;

static const struct pmv_seal message_seal = {
	{0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1, 1}};

static const struct pmv_seal ack_seal = {
	{0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1, 2}};

static const struct pmv_seal other_seal = {{1}};

#endif /* TEST_WIRE_H */
