/* SPDX-License-Identifier: BSD-2-Clause */
/* test_service.h -- what test_service.c and test_thread.c share */
#ifndef TEST_SERVICE_H
#define TEST_SERVICE_H

#include "test/support/pair.h"

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

#endif /* TEST_SERVICE_H */
