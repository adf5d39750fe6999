/* SPDX-License-Identifier: BSD-2-Clause */
/* test_cover.h -- what test_cover.c and test_cover_agent.c share */
#ifndef TEST_COVER_H
#define TEST_COVER_H

#include "pair.h"

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

#endif /* TEST_COVER_H */
