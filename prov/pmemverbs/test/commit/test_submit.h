/* SPDX-License-Identifier: BSD-2-Clause */
/* test_submit.h -- what test_submit.c and test_submit_refused.c share */
#ifndef TEST_SUBMIT_H
#define TEST_SUBMIT_H

#include "test/support/rig.h"

/* A commit of any shape. */
static inline ssize_t commit_ranges(struct rig *rig, const struct iovec *iov, size_t count,
				    const struct fi_rma_iov *rma_iov, size_t rma_count,
				    void *context, uint64_t flags)
{
	struct fi_msg_rma msg = {
		.msg_iov = iov,
		.iov_count = count,
		.rma_iov = rma_iov,
		.rma_iov_count = rma_count,
		.context = context,
		.data = DATA,
	};

	return fi_writemsg(rig->ep, &msg, FI_COMMIT | flags);
}

static inline void expect_notice(struct rig *rig, size_t n)
{
	const struct fake_post *notice = rig_post(rig, n);

	cr_expect_eq(notice->op.what, RIG_WRITTEN);
	cr_expect_eq(notice->op.flags, FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_FENCE);
	cr_expect_eq(notice->op.data, DATA);
	cr_expect_eq(notice->op.len, 0);
	cr_expect_eq(notice->op.rma_len, 0);
}

#endif /* TEST_SUBMIT_H */
