/* SPDX-License-Identifier: BSD-2-Clause */
/* test_flush_request.h -- what test_flush_request.c and test_flush_request_faults.c share */
#ifndef TEST_FLUSH_REQUEST_H
#define TEST_FLUSH_REQUEST_H

#include "test/support/pair.h"

static inline void commit_some(struct pair *pair, int count)
{
	for (int i = 0; i < count; i++)
		accepted(pair_put(pair, DMP, (size_t) i * 512, 64, CONTEXT(i), FI_COMMIT));
}

/* expect_commit -- of 50 bytes at 100: it is durable when it was delivered and served, not before
 */
static inline void expect_commit(struct pair *pair, enum pair_memory memory, const char *done)
{
	rig_expect_nothing(pair->home);
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	cr_expect_not(pair_survives(pair, memory, 100, 50));
	pair_serve(pair);
	expect_done(pair, done);
	cr_expect(pair_survives(pair, memory, 100, 50));
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	rig_expect_nothing(pair->away);
	expect_sent(pair, "");
}

#endif /* TEST_FLUSH_REQUEST_H */
