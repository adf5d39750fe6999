/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdma_flush_post.c -- RDMA FLUSH, as a request of a list */
#include "link.h"

#include <infiniband/verbs.h>

static struct link *opened(unsigned ways, uint8_t depth)
{
	static struct link link;

	fake.flush_ways = ways;
	fake.depth = depth;
	cr_assert_eq(link_open(&link, 16, 100, FI_SELECTIVE_COMPLETION), 0);
	return &link;
}

static struct pmemrdma_request flush_of(uint64_t addr, uint64_t len)
{
	return (struct pmemrdma_request){
		.kind = PMEMRDMA_FLUSH,
		.flags = FI_COMPLETION,
		.addr = addr,
		.key = 9,
		.context = CONTEXT(3),
		.len = len,
		.flush = PMEMRDMA_FLUSH_PERSISTENT,
	};
}

static ssize_t post_one(struct link *link, const struct pmemrdma_request *request)
{
	return link_lists(link)->post(link->ep, request, 1);
}

static ssize_t post_flush(struct link *link)
{
	const struct pmemrdma_request request = flush_of(0x1000, 8);

	return post_one(link, &request);
}

static ssize_t post_read(struct link *link)
{
	return fi_read(link->ep, link->buf, 8, fi_mr_desc(link->mr), 0, 0x1000, 9, NULL);
}

static void expect_entry(struct link *link, void *context, uint64_t flags)
{
	struct fi_cq_data_entry entry = {0};

	cr_assert_eq(fi_cq_read(link->cq, &entry, 1), 1);
	cr_assert_eq(entry.op_context, context);
	cr_assert_eq(entry.flags, flags);
}

static void end_one(struct link *link)
{
	struct fi_cq_data_entry entry;

	fake_end(fake.qp, IBV_WC_SUCCESS);
	fi_cq_read(link->cq, &entry, 1);
}

Test(rdma_flush_post, rings_once_with_its_write_and_completes_once)
{
	struct link *link = opened(3, 16);
	struct pmemrdma_request list[2] = {link_pair(link)[0], flush_of(0x1010, 77)};

	cr_assert_eq(link_lists(link)->post(link->ep, list, 2), 2);
	cr_expect_eq(fake.doorbells, 1);
	cr_expect_eq(fake.before.opcode, IBV_WR_RDMA_WRITE);
	cr_expect_eq(fake.before.wr.rdma.remote_addr, 0x1000U);
	cr_expect_not(fake.before.send_flags & IBV_SEND_SIGNALED);
	cr_expect_eq(fake.last.opcode, IBV_WR_FLUSH);
	cr_expect_eq(fake.flush.addr, 0x1010U);
	cr_expect_eq(fake.flush.len, 77U);
	cr_expect_eq(fake.flush.key, 9U);
	cr_expect_eq(fake.flush.type, IBV_FLUSH_PERSISTENT);
	cr_expect_eq(fake.flush.level, IBV_FLUSH_RANGE);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	expect_entry(link, CONTEXT(3), FI_RMA | FI_READ);
	link_close(link);
}

/* A record that waits for its tail, and all that makes both durable. */
Test(rdma_flush_post, an_append_rings_once)
{
	struct link *link = opened(7, 16);
	struct pmemrdma_request list[3] = {flush_of(0x1000, 300), link_pair(link)[0],
					   flush_of(0x1000, 8)};

	list[0].flags = 0;
	list[1].kind = PMEMRDMA_ATOMIC_WRITE;
	cr_assert_eq(link_write(link, 300, FI_MORE, NULL), 0);
	cr_expect_eq(fake.doorbells, 0);
	cr_assert_eq(link_lists(link)->post(link->ep, list, 3), 3);
	cr_expect_eq(fake.doorbells, 1);
	cr_expect_eq(fake_waiting(fake.qp), 4U);
	cr_expect_eq(fake_sends(fake.qp)[0].opcode, IBV_WR_RDMA_WRITE);
	cr_expect_eq(fake_sends(fake.qp)[1].opcode, IBV_WR_FLUSH);
	cr_expect_eq(fake_sends(fake.qp)[2].opcode, IBV_WR_ATOMIC_WRITE);
	link_close(link);
}

Test(rdma_flush_post, has_each_type_and_selectivity)
{
	struct link *link = opened(3, 16);
	struct pmemrdma_request request = flush_of(0, 0);

	cr_assert_eq(post_one(link, &request), -FI_EINVAL);
	request.whole = true;
	cr_assert_eq(post_one(link, &request), 1);
	cr_expect_eq(fake.flush.level, IBV_FLUSH_MR);
	request.flush = PMEMRDMA_FLUSH_GLOBAL;
	cr_assert_eq(post_one(link, &request), 1);
	cr_expect_eq(fake.flush.type, IBV_FLUSH_GLOBAL);
	request.flush |= PMEMRDMA_FLUSH_PERSISTENT;
	cr_expect_eq(post_one(link, &request), -FI_EINVAL);
	request = flush_of(0x1000, UINT64_C(1) << 32);
	cr_expect_eq(post_one(link, &request), -FI_EINVAL);
	request = flush_of(0x1000, 8);
	request.flags |= FI_FENCE;
	cr_expect_eq(post_one(link, &request), -FI_EINVAL);
	link_close(link);
}

/* What the calls for it would do otherwise goes by the usual one, in its order. */
Test(rdma_flush_post, leaves_other_requests_to_the_usual_call)
{
	struct link *link = opened(3, 16);
	const struct iovec two[2] = {{link->buf, 300}, {link->buf + 400, 8}};
	void *descs[2] = {fi_mr_desc(link->mr), fi_mr_desc(link->mr)};
	struct pmemrdma_request list[3] = {link_pair(link)[0], link_pair(link)[0],
					   flush_of(0x1000, 8)};

	list[1].iov = two;
	list[1].desc = descs;
	list[1].iov_count = 2;
	cr_assert_eq(link_lists(link)->post(link->ep, list, 3), 3);
	cr_expect_eq(fake.doorbells, 2);
	cr_expect_eq(fake.before.num_sge, 2);
	cr_expect_eq(fake.last.opcode, IBV_WR_FLUSH);
	/* What stands in front of the FLUSH is posted, and the rest is refused. */
	fake.fail_at = fake.calls + 3;
	cr_expect_eq(link_lists(link)->post(link->ep, list, 3), 2);
	cr_expect_str_eq(fake.failed, "ibv_wr_complete");
	cr_expect_eq(fake_waiting(fake.qp), 5U);
	/* Data that are not inline, and none. */
	list[0].iov_count = 0;
	list[1].iov_count = 1;
	cr_expect_eq(link_lists(link)->post(link->ep, list, 3), 3);
	cr_expect_eq(fake.doorbells, 5);
	link_close(link);
}

/* Soft-RoCE bounds no FLUSH, and never answers one that its peer does not keep any more. */
Test(rdma_flush_post, the_peer_keeps_all_that_are_under_way)
{
	struct link *link = opened(3, 4);

	cr_assert_eq(post_read(link), 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(post_flush(link), 1);
	cr_expect_eq(post_flush(link), -FI_EAGAIN);
	cr_expect_eq(post_read(link), -FI_EAGAIN);
	cr_expect_eq(link_write(link, 8, 0, NULL), 0);
	/* Nobody is told of the READ, and its place comes back all the same, for the FLUSH. */
	end_one(link);
	cr_expect_eq(post_read(link), -FI_EAGAIN);
	cr_expect_eq(post_flush(link), 1);
	end_one(link);
	cr_expect_eq(post_read(link), 0);
	cr_expect_eq(post_flush(link), -FI_EAGAIN);
	while (fake_waiting(fake.qp))
		end_one(link);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(post_flush(link), 1);
	cr_expect_eq(post_flush(link), -FI_EAGAIN);
	link_close(link);
}

Test(rdma_flush_post, without_one_under_way_reads_are_the_devices_to_bound)
{
	struct link *link = opened(3, 2);

	for (int i = 0; i < 5; i++)
		cr_assert_eq(post_read(link), 0);
	cr_expect_eq(post_flush(link), -FI_EAGAIN);
	for (int i = 0; i < 4; i++)
		end_one(link);
	cr_expect_eq(post_flush(link), 1);
	link_close(link);
}

Test(rdma_flush_post, is_not_kept_out_by_reads_without_end)
{
	struct link *link = opened(3, 4);
	int reads = 0;

	for (int i = 0; i < 10; i++)
		cr_assert_eq(post_read(link), 0);
	cr_assert_eq(post_flush(link), -FI_EAGAIN);
	/* Whoever reads posts another one whenever one has ended. */
	while (post_flush(link) != 1) {
		cr_assert_lt(reads++, 10);
		end_one(link);
		post_read(link);
	}
	while (fake_waiting(fake.qp))
		end_one(link);
	/* And nobody is held up for one that is not wanted any more. */
	for (int i = 0; i < 4; i++)
		cr_assert_eq(post_read(link), 0);
	cr_assert_eq(post_flush(link), -FI_EAGAIN);
	while (fake_waiting(fake.qp))
		end_one(link);
	for (int i = 0; i < 10; i++)
		cr_assert_eq(post_read(link), 0);
	link_close(link);
}

Test(rdma_flush_post, that_the_device_refuses_takes_no_place)
{
	struct link *link = opened(3, 1);
	struct pmemrdma_request list[2] = {flush_of(0, 8), flush_of(8, 8)};

	cr_assert_eq(link_lists(link)->flushes(link->ep), 3U);
	fake.refusal = ENOMEM;
	for (int i = 0; i < 5; i++) {
		fake.fail_at = fake.calls + 1;
		cr_assert_eq(post_flush(link), -FI_EAGAIN);
		cr_assert_str_eq(fake.failed, "ibv_wr_complete");
	}
	cr_expect_eq(post_flush(link), 1);
	end_one(link);
	cr_expect_eq(link_lists(link)->post(link->ep, list, 2), -FI_EINVAL);
	link_close(link);
}

/* An ATOMIC WRITE of these 8 bytes, between two FLUSHes. */
static char tail[] = "12345678";
static const struct iovec tail_iov = {tail, 8};

static struct pmemrdma_request tail_of(uint64_t addr)
{
	return (struct pmemrdma_request){
		.kind = PMEMRDMA_ATOMIC_WRITE,
		.iov = &tail_iov,
		.iov_count = 1,
		.addr = addr,
		.key = 9,
		.context = CONTEXT(3),
	};
}

static ssize_t post_append(struct link *link, uint64_t flags)
{
	struct pmemrdma_request list[4] = {link_pair(link)[0], flush_of(0x1010, 77),
					   tail_of(0x2000), flush_of(0x2000, 8)};

	list[1].flags = 0;
	list[2].flags = flags;
	return link_lists(link)->post(link->ep, list, 4);
}

Test(rdma_flush_post, with_an_atomic_write_rings_once_and_completes_once)
{
	struct link *link = opened(7, 16);
	struct ibv_send_wr *sends;

	cr_assert_eq(post_append(link, FI_FENCE), 4);
	cr_expect_eq(fake.doorbells, 1);
	cr_expect_eq(fake.before.opcode, IBV_WR_ATOMIC_WRITE);
	cr_expect_eq(fake.before.wr.rdma.remote_addr, 0x2000U);
	cr_expect_eq(fake.before.wr.rdma.rkey, 9U);
	cr_expect(fake.before.send_flags & IBV_SEND_FENCE);
	cr_expect_eq(memcmp(&fake.atomic_write, tail, 8), 0);
	/* One entry of the device's, too. */
	sends = fake_sends(fake.qp);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(!!(sends[i].send_flags & IBV_SEND_SIGNALED), i == 3, "%d", i);
	for (int i = 0; i < 4; i++)
		fake_end(fake.qp, IBV_WC_SUCCESS);
	expect_entry(link, CONTEXT(3), FI_RMA | FI_READ);
	link_close(link);
}

static void expect_error(struct link *link, int err, uint64_t flags)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = {0};

	cr_assert_eq(fi_cq_read(link->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(link->cq, &error, 0), 1);
	cr_expect_eq(error.err, err);
	cr_expect_eq(error.op_context, CONTEXT(3));
	cr_expect_eq(error.flags, flags);
}

Test(rdma_flush_post, in_front_of_an_atomic_write_that_fails_is_told_as_its_own)
{
	struct link *link = opened(7, 16);
	struct fi_cq_data_entry entry;

	cr_assert_eq(post_append(link, 0), 4);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	fake_end(fake.qp, IBV_WC_REM_ACCESS_ERR);
	expect_error(link, FI_EIO, FI_RMA | FI_WRITE);
	expect_error(link, FI_ECANCELED, FI_RMA | FI_WRITE);
	expect_error(link, FI_ECANCELED, FI_RMA | FI_READ);
	cr_expect_eq(fi_cq_read(link->cq, &entry, 1), -FI_EAGAIN);
	link_close(link);
}

Test(rdma_flush_post, and_atomic_writes_are_kept_by_the_peer)
{
	struct link *link = opened(7, 4);

	cr_assert_eq(post_append(link, 0), 4);
	cr_expect_eq(post_append(link, 0), -FI_EAGAIN);
	cr_expect_eq(post_read(link), -FI_EAGAIN);
	/* Single ones leave room for the list, until it is posted. */
	for (int i = 0; i < 4; i++) {
		cr_expect_eq(post_flush(link), -FI_EAGAIN);
		end_one(link);
	}
	cr_expect_eq(post_append(link, 0), 4);
	cr_expect_eq(post_flush(link), 1);
	cr_expect_eq(post_flush(link), -FI_EAGAIN);
	while (fake_waiting(fake.qp))
		end_one(link);
	/* Nobody is held up for a list that is not wanted any more. */
	cr_expect_eq(post_flush(link), 1);
	cr_expect_eq(post_flush(link), 1);
	cr_expect_eq(post_append(link, 0), -FI_EAGAIN);
	cr_expect_eq(post_flush(link), -FI_EAGAIN);
	end_one(link);
	end_one(link);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(post_flush(link), 1);
	link_close(link);
}

Test(rdma_flush_post, with_an_atomic_write_that_the_device_refuses_takes_no_place)
{
	struct link *link = opened(7, 3);

	cr_assert_eq(link_lists(link)->flushes(link->ep), 7U);
	for (int i = 0; i < 5; i++) {
		fake.fail_at = fake.calls + 1;
		cr_assert_eq(post_append(link, 0), -FI_EINVAL);
		cr_assert_str_eq(fake.failed, "ibv_wr_complete");
	}
	cr_expect_eq(fake_waiting(fake.qp), 0U);
	cr_expect_eq(post_append(link, 0), 4);
	link_close(link);
}

Test(rdma_flush_post, atomic_writes_are_of_8_aligned_bytes)
{
	struct link *link = opened(7, 16);
	const struct iovec other = {link->buf, 9};
	struct pmemrdma_request request = tail_of(0x2004);

	cr_expect_eq(post_one(link, &request), -FI_EINVAL);
	request = tail_of(0x2000);
	request.iov = &other;
	cr_expect_eq(post_one(link, &request), -FI_EINVAL);
	request = tail_of(0x2000);
	request.iov_count = 2;
	cr_expect_eq(post_one(link, &request), -FI_EINVAL);
	request = tail_of(0x2000);
	request.flags = FI_REMOTE_CQ_DATA;
	cr_expect_eq(post_one(link, &request), -FI_EINVAL);
	request = tail_of(0x2000);
	cr_expect_eq(post_one(link, &request), 1);
	link_close(link);
}

static void cannot_write_atomically(unsigned ways, uint8_t depth, unsigned left)
{
	struct link *link = opened(ways, depth);
	struct pmemrdma_request request = tail_of(0x2000);

	cr_expect_eq(link_lists(link)->flushes(link->ep), left);
	cr_expect_eq(post_one(link, &request), -FI_EOPNOTSUPP);
	link_close(link);
}

Test(rdma_flush_post, atomic_writes_are_refused_where_the_device_has_none)
{
	cannot_write_atomically(3, 16, 3);
}

Test(rdma_flush_post, atomic_writes_are_refused_without_flush)
{
	cannot_write_atomically(4, 16, 0);
}

Test(rdma_flush_post, atomic_writes_are_refused_where_the_peer_keeps_too_few)
{
	cannot_write_atomically(7, 2, 3);
}

static void cannot(unsigned ways, uint8_t depth)
{
	struct link *link = opened(ways, depth);

	cr_expect_eq(link_lists(link)->flushes(link->ep), 0U);
	cr_expect_eq(post_flush(link), -FI_EOPNOTSUPP);
	cr_expect_eq(link_lists(link)->post(link->ep, link_pair(link), 2), 2);
	link_close(link);
}

Test(rdma_flush_post, is_refused_where_the_device_has_none)
{
	cannot(0, 16);
}

Test(rdma_flush_post, is_refused_where_no_queue_pair_has_it)
{
	fake.no_flush_qp = true;
	cannot(3, 16);
}

Test(rdma_flush_post, is_refused_where_the_peer_keeps_nothing)
{
	cannot(3, 0);
}

Test(rdma_flush_post, is_refused_of_a_type_that_the_device_has_not)
{
	struct link *link = opened(PMEMRDMA_FLUSH_GLOBAL, 16);
	struct pmr_ep hook = *pmr_to_ep(&link->ep->fid);
	struct fi_ops others = *link->ep->fid.ops;

	cr_expect_eq(link_lists(link)->flushes(link->ep), (unsigned) PMEMRDMA_FLUSH_GLOBAL);
	cr_expect_eq(post_flush(link), -FI_EOPNOTSUPP);
	/* As libfabric's hooks do: another endpoint, with this one's table. */
	hook.ep_fid.fid.ops = &others;
	cr_expect_eq(link_lists(link)->flushes(&hook.ep_fid), 0U);
	link_close(link);
}

static int access_of(struct link *link, uint64_t flags)
{
	struct fid_mr *mr;
	int ret = fi_mr_reg(link->domain, link->buf, 8, FI_REMOTE_READ, 0, 0, flags, &mr, NULL);

	if (ret)
		return ret;
	cr_assert_eq(fi_close(&mr->fid), 0);
	return fake.access;
}

Test(rdma_flush_post, of_a_region_is_a_right_that_is_asked_for)
{
	struct link *link = opened(3, 16);

	cr_expect_eq(access_of(link, 0), IBV_ACCESS_REMOTE_READ);
	cr_expect_eq(access_of(link, PMEMRDMA_MR_FLUSH), IBV_ACCESS_REMOTE_READ |
								 IBV_ACCESS_FLUSH_GLOBAL |
								 IBV_ACCESS_FLUSH_PERSISTENT);
	/* Memory that is not persistent. */
	fake.fail_at = fake.calls + 1;
	cr_expect_lt(access_of(link, PMEMRDMA_MR_FLUSH), 0);
	link_close(link);
}

#define BOTH_RIGHTS (PMEMRDMA_MR_FLUSH | PMEMRDMA_MR_ATOMIC_WRITE)

Test(rdma_flush_post, a_region_takes_atomic_writes_if_its_device_does)
{
	struct link *link = opened(7, 16);

	cr_expect_gt(access_of(link, BOTH_RIGHTS), 0);
	link_close(link);
}

Test(rdma_flush_post, a_region_takes_no_atomic_writes_if_its_device_does_not)
{
	struct link *link = opened(3, 16);

	cr_expect_eq(access_of(link, BOTH_RIGHTS), -FI_EOPNOTSUPP);
	link_close(link);
}

Test(rdma_flush_post, of_a_region_is_no_right_that_a_device_without_it_gives)
{
	struct link *link = opened(0, 16);

	cr_expect_eq(access_of(link, PMEMRDMA_MR_FLUSH), -FI_EOPNOTSUPP);
	link_close(link);
}
