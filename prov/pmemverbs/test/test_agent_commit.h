/* SPDX-License-Identifier: BSD-2-Clause */
/* test_agent_commit.h -- what test_agent_commit.c and test_agent_faults.c share */
#ifndef TEST_AGENT_COMMIT_H
#define TEST_AGENT_COMMIT_H

#include "pair.h"

static inline void commit_some(struct pair *pair, int count)
{
	for (int i = 0; i < count; i++)
		accepted(pair_put(pair, DMP, (size_t) i * 512, 64, CONTEXT(i), FI_COMMIT));
}

#endif /* TEST_AGENT_COMMIT_H */
