/* SPDX-License-Identifier: BSD-2-Clause */
/* test_msg.h -- what test_msg.c and test_msg_errors.c share */
#ifndef TEST_MSG_H
#define TEST_MSG_H

#include <string.h>
#include "test/support/pair.h"

/* survives -- as pair_survives; what has arrived in caches that persist does so at once */
static inline bool survives(struct pair *pair, enum pair_memory memory, size_t offset, size_t len)
{
	if (memory == MHP)
		return !memcmp(pair->memory[MHP] + offset, pair->source + offset, len);
	return pair_survives(pair, memory, offset, len);
}

static inline struct pmv_receive_tracker *kept(struct pair *pair)
{
	return &pair->to->receives;
}

#endif /* TEST_MSG_H */
