/* SPDX-License-Identifier: BSD-2-Clause */
/* test_agent.h -- what test_agent.c and test_agent_threads.c share */
#ifndef TEST_AGENT_H
#define TEST_AGENT_H

#include "pair.h"

static inline struct pmv_range range_of(struct pair *pair, enum pair_memory memory, size_t offset,
					size_t len)
{
	return (struct pmv_range){pair_addr(pair, memory, offset), len,
				  (uint32_t) pair_key(pair, memory)};
}

static inline void tell_one(struct pair *pair, struct pmv_range range)
{
	pair_tell(pair, &(struct pmv_message){.count = 1, .ranges = {range}});
}

static inline void tell_of(struct pair *pair, enum pair_memory memory, size_t offset, size_t len)
{
	tell_one(pair, range_of(pair, memory, offset, len));
}

#endif /* TEST_AGENT_H */
