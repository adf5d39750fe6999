/* SPDX-License-Identifier: BSD-2-Clause */
/* test_group.h -- what test_group.c and test_group_agent.c share */
#ifndef TEST_GROUP_H
#define TEST_GROUP_H

#include "test/support/pair.h"

static char data[LEN];

static inline struct rig *open_all(const struct rig_options *options)
{
	pmv_setting.commit_all = true;
	return rig_open(options);
}

static inline struct pair *open_pair(const struct pair_options *options)
{
	pmv_setting.commit_all = true;
	return pair_open(options);
}

#endif /* TEST_GROUP_H */
