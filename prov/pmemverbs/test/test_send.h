/* SPDX-License-Identifier: BSD-2-Clause */
/* test_send.h -- what test_send.c and test_send_errors.c share */
#ifndef TEST_SEND_H
#define TEST_SEND_H

#include <string.h>
#include "pair.h"

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

#endif /* TEST_SEND_H */
