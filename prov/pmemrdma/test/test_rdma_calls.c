/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdma_calls.c -- what each call asks of the device */
#include "link.h"

static struct link *opened(void)
{
	static struct link link;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	return &link;
}

/* No call claims that something is durable which it does not make so. */
Test(rdma_calls, commits_nothing)
{
	struct link *link = opened();
	const struct pmemrdma_post_ops *ops = link_lists(link);
	const uint64_t commits = FI_COMMIT_COMPLETE | FI_COMPLETION;
	struct pmemrdma_request list[] = {link_pair(link)[0], link_pair(link)[1]};
	void *desc = fi_mr_desc(link->mr);
	const struct iovec iov = {.iov_base = link->buf, .iov_len = 8};
	const struct fi_msg msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1};
	const struct fi_ioc ioc = {.addr = link->buf, .count = 1};
	const struct fi_rma_ioc at = {.addr = 0x1000, .count = 1, .key = 9};
	const struct fi_msg_atomic atomic = {
		.msg_iov = &ioc,
		.desc = &desc,
		.iov_count = 1,
		.rma_iov = &at,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_ATOMIC_WRITE,
	};

	list[0].flags = commits;
	cr_expect_eq(ops->post(link->ep, list, 2), -FI_EOPNOTSUPP);
	cr_expect_eq(link_write(link, 8, commits, NULL), -FI_EOPNOTSUPP);
	cr_expect_eq(fi_sendmsg(link->ep, &msg, commits), -FI_EOPNOTSUPP);
	cr_expect_eq(fi_atomicmsg(link->ep, &atomic, commits), -FI_EOPNOTSUPP);
	cr_expect_eq(fake.doorbells, 0);
	link_close(link);
}
