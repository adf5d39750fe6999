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

/* expect_last -- of 8 bytes of the buffer, at 0x1000 of the peer's region 9 */
static void expect_last(const struct link *link, enum ibv_wr_opcode opcode)
{
	cr_expect_eq(fake.last.opcode, opcode, "%d, not %d", fake.last.opcode, opcode);
	cr_expect_eq(fake.last.wr.rdma.remote_addr, 0x1000U);
	cr_expect_eq(fake.last.wr.rdma.rkey, 9U);
	cr_expect_eq(fake.last.num_sge, 1);
	cr_expect_eq(!!(fake.last.send_flags & IBV_SEND_INLINE), opcode == IBV_WR_RDMA_WRITE);
	cr_expect(fake.last.send_flags & IBV_SEND_SIGNALED);
	cr_expect_not(fake.last.send_flags & IBV_SEND_FENCE);
	cr_expect_not_null(link->ep);
}

Test(rdma_calls, reads_and_writes_where_it_is_told)
{
	struct link *link = opened();
	void *desc = fi_mr_desc(link->mr);

	cr_assert_eq(fi_write(link->ep, link->buf, 8, desc, 0, 0x1000, 9, NULL), 0);
	expect_last(link, IBV_WR_RDMA_WRITE);
	cr_assert_eq(fi_read(link->ep, link->buf, 8, desc, 0, 0x1000, 9, NULL), 0);
	expect_last(link, IBV_WR_RDMA_READ);
	cr_assert_eq(link_write(link, 8, 0, NULL), 0);
	expect_last(link, IBV_WR_RDMA_WRITE);
	cr_assert_eq(fi_send(link->ep, link->buf, 8, desc, 0, NULL), 0);
	cr_expect_eq(fake.last.opcode, IBV_WR_SEND);
	cr_assert_eq(fi_senddata(link->ep, link->buf, 8, desc, 5, 0, NULL), 0);
	cr_expect_eq(fake.last.opcode, IBV_WR_SEND_WITH_IMM);
	cr_expect_eq(fake.last.imm_data, htonl(5));
	link_close(link);
}

Test(rdma_calls, a_list_is_what_it_says)
{
	struct link *link = opened();

	cr_assert_eq(link_lists(link)->post(link->ep, link_pair(link), 2), 2);
	cr_expect_eq(fake.before.opcode, IBV_WR_RDMA_WRITE);
	cr_expect_eq(fake.before.wr.rdma.remote_addr, 0x1000U);
	cr_expect_eq(fake.before.wr.rdma.rkey, 9U);
	cr_expect_eq(fake.before.send_flags, (unsigned) IBV_SEND_INLINE);
	cr_expect_eq(fake.last.opcode, IBV_WR_RDMA_READ);
	cr_expect_eq(fake.last.wr.rdma.remote_addr, 0x1008U);
	cr_expect_eq(fake.last.wr.rdma.rkey, 9U);
	cr_expect_eq(fake.last.send_flags, (unsigned) IBV_SEND_SIGNALED);
	link_close(link);
}

static void expect_atomic(enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	cr_expect_eq(fake.last.opcode, opcode);
	cr_expect_eq(fake.last.wr.atomic.remote_addr, 0x1000U);
	cr_expect_eq(fake.last.wr.atomic.rkey, 9U);
	cr_expect_eq(fake.last.wr.atomic.compare_add, compare_add);
	cr_expect_eq(fake.last.wr.atomic.swap, swap);
	cr_expect_not(fake.last.send_flags & IBV_SEND_INLINE);
}

Test(rdma_calls, atomics_have_their_operands)
{
	struct link *link = opened();
	void *desc = fi_mr_desc(link->mr);
	uint64_t compare = 0x11, operand = 0x22;

	cr_assert_eq(fi_compare_atomic(link->ep, &operand, 1, NULL, &compare, NULL, link->buf, desc,
				       0, 0x1000, 9, FI_UINT64, FI_CSWAP, NULL),
		     0);
	expect_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0x11, 0x22);
	cr_assert_eq(fi_fetch_atomic(link->ep, &operand, 1, NULL, link->buf, desc, 0, 0x1000, 9,
				     FI_UINT64, FI_SUM, NULL),
		     0);
	expect_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0x22, 0);
	cr_assert_eq(fi_fetch_atomic(link->ep, NULL, 1, NULL, link->buf, desc, 0, 0x1000, 9,
				     FI_UINT64, FI_ATOMIC_READ, NULL),
		     0);
	expect_last(link, IBV_WR_RDMA_READ);
	cr_assert_eq(fi_atomic(link->ep, &operand, 1, desc, 0, 0x1000, 9, FI_UINT64,
			       FI_ATOMIC_WRITE, NULL),
		     0);
	expect_last(link, IBV_WR_RDMA_WRITE);
	link_close(link);
}

Test(rdma_calls, a_region_has_the_rights_that_were_asked_for)
{
	static const struct {
		uint64_t asked;
		int given;
	} cases[] = {
		{FI_SEND | FI_WRITE, 0},
		{FI_RECV, IBV_ACCESS_LOCAL_WRITE},
		{FI_READ, IBV_ACCESS_LOCAL_WRITE},
		{FI_REMOTE_READ, IBV_ACCESS_REMOTE_READ},
		{FI_REMOTE_WRITE,
		 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC},
	};
	struct link *link = opened();
	struct fid_mr *mr;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(
			fi_mr_reg(link->domain, link->buf, 8, cases[i].asked, 0, 0, 0, &mr, NULL),
			0);
		cr_expect_eq(fake.access, cases[i].given, "%d, not %d", fake.access,
			     cases[i].given);
		cr_assert_eq(fi_close(&mr->fid), 0);
	}
	link_close(link);
}

/* A message without a receive is repeated for ever, and READs go together. */
Test(rdma_calls, a_connection_has_what_the_devices_can_do)
{
	struct link *link = opened();

	cr_expect_eq(fake.conn.responder_resources, RDMA_MAX_RESP_RES);
	cr_expect_eq(fake.conn.initiator_depth, RDMA_MAX_INIT_DEPTH);
	cr_expect_eq(fake.conn.rnr_retry_count, 7);
	link_close(link);
}
