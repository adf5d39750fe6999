/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdma_more.c -- requests with FI_MORE go with the next one, and none is left behind */
#include "link.h"

static struct link *opened(size_t tx_size)
{
	static struct link link;

	fake.depth = 16;
	cr_assert_eq(link_open(&link, tx_size, 100, FI_SELECTIVE_COMPLETION), 0);
	return &link;
}

static void more(struct link *link, uint64_t flags, void *context)
{
	cr_assert_eq(link_write(link, 8, FI_MORE | flags, context), 0);
}

static void expect_entry(struct link *link, void *context)
{
	struct fi_cq_data_entry entry = {0};

	cr_assert_eq(fi_cq_read(link->cq, &entry, 1), 1);
	cr_assert_eq(entry.op_context, context);
}

static void expect_canceled(struct link *link, void *context)
{
	struct fi_cq_err_entry entry = {0};
	char room[256];

	cr_assert_eq(fi_cq_read(link->cq, room, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(link->cq, &entry, 0), 1);
	cr_assert_eq(entry.op_context, context);
	cr_assert_eq(entry.err, FI_ECANCELED);
}

static void end_all(void)
{
	while (fake_waiting(fake.qp))
		fake_end(fake.qp, IBV_WC_SUCCESS);
}

Test(rdma_more, a_write_goes_with_the_next_one_by_one_doorbell)
{
	struct link *link = opened(16);

	more(link, FI_COMPLETION, CONTEXT(1));
	cr_expect_eq(fake.doorbells, 0);
	cr_assert_eq(link_write(link, 300, FI_COMPLETION, CONTEXT(2)), 0);
	cr_expect_eq(fake.doorbells, 1);
	cr_expect_eq(fake_waiting(fake.qp), 2U);
	cr_expect_eq(fake.before.sg_list->length, 8U);
	cr_expect_eq(fake.last.sg_list->length, 300U);
	end_all();
	expect_entry(link, CONTEXT(1));
	expect_entry(link, CONTEXT(2));
	cr_expect_eq(link_close(link), 0);
}

Test(rdma_more, a_message_waits_too_and_goes_with_a_list)
{
	struct link *link = opened(16);
	const struct iovec iov = {link->buf, 8};
	void *desc = fi_mr_desc(link->mr);
	const struct fi_msg msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1};

	cr_assert_eq(fi_sendmsg(link->ep, &msg, FI_MORE), 0);
	cr_expect_eq(fake.doorbells, 0);
	cr_assert_eq(link_lists(link)->post(link->ep, link_pair(link), 2), 2);
	cr_expect_eq(fake.doorbells, 1);
	cr_expect_eq(fake_sends(fake.qp)[0].opcode, IBV_WR_SEND);
	cr_expect_eq(fake.last.opcode, IBV_WR_RDMA_READ);
	cr_expect_eq(link_close(link), 0);
}

Test(rdma_more, those_that_wait_are_few)
{
	struct link *link = opened(16);

	for (uintptr_t i = 1; i <= PMEMRDMA_MAX_LIST; i++)
		more(link, 0, CONTEXT(i));
	cr_expect_eq(fake.doorbells, 0);
	more(link, 0, CONTEXT(5));
	cr_expect_eq(fake.doorbells, 1);
	cr_expect_eq(fake_waiting(fake.qp), 1U + PMEMRDMA_MAX_LIST);
	cr_expect_eq(link_close(link), 0);
}

Test(rdma_more, who_reads_the_queue_posts_what_waits)
{
	struct link *link = opened(16);
	char room[256];

	more(link, 0, NULL);
	cr_assert_eq(fi_cq_read(link->cq, room, 1), -FI_EAGAIN);
	cr_expect_eq(fake_waiting(fake.qp), 1U);
	/* And again, as often as somebody lets one wait. */
	more(link, 0, NULL);
	cr_assert_eq(fi_cq_read(link->cq, room, 1), -FI_EAGAIN);
	cr_expect_eq(fake_waiting(fake.qp), 2U);
	cr_expect_eq(link_close(link), 0);
}

Test(rdma_more, who_is_to_sleep_posts_what_waits)
{
	struct link *link = opened(16);
	struct fid *fid = &link->cq->fid;

	more(link, 0, NULL);
	cr_assert_eq(fi_trywait(link->fabric, &fid, 1), 0);
	cr_expect_eq(fake_waiting(fake.qp), 1U);
	cr_expect_eq(link_close(link), 0);
}

Test(rdma_more, who_ends_the_connection_posts_what_waits)
{
	struct link *link = opened(16);

	more(link, 0, NULL);
	cr_assert_eq(fi_shutdown(link->ep, 0), 0);
	cr_expect_eq(fake_waiting(fake.qp), 1U);
	cr_expect_eq(link_close(link), 0);
}

Test(rdma_more, a_close_cancels_what_waits)
{
	struct link *link = opened(16);

	more(link, FI_COMPLETION, CONTEXT(1));
	more(link, 0, CONTEXT(2));
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	link->ep = NULL;
	expect_canceled(link, CONTEXT(1));
	cr_expect_eq(link_close(link), 0);
}

Test(rdma_more, what_may_not_wait_does_not)
{
	struct link *link = opened(16);

	/* The caller may change the data behind the call. */
	cr_assert_eq(link_write(link, 8, FI_MORE | FI_INJECT, NULL), 0);
	cr_expect_eq(fake.doorbells, 1);
	/* A request without a connection is refused, not accepted. */
	fake.depth = 0;
	cr_expect_eq(link_close(link), 0);
	memset(link, 0, sizeof(*link));
	cr_assert_eq(link_open(link, 16, 100, FI_SELECTIVE_COMPLETION), 0);
	cr_assert_eq(link_write(link, 8, FI_MORE, NULL), 0);
	cr_expect_eq(fake.doorbells, 2);
	cr_expect_eq(link_close(link), 0);
}

Test(rdma_more, those_that_wait_overrun_nothing)
{
	struct link *link = opened(8);
	unsigned accepted = 0;
	char room[256];

	for (int round = 0; round < 5; round++) {
		ssize_t ret;

		while (!(ret = link_write(link, 8, FI_MORE, NULL)))
			accepted++;
		cr_assert_eq(ret, -FI_EAGAIN);
		/* Who finds no room waits for completions: those that waited are under way. */
		cr_expect_eq(fake_waiting(fake.qp), accepted);
		end_all();
		accepted = 0;
		fi_cq_read(link->cq, room, 1);
	}
	while (fake_waiting(fake.qp) < 6)
		cr_assert_eq(link_write(link, 8, 0, NULL), 0);
	more(link, 0, NULL);
	cr_expect_eq(link_lists(link)->post(link->ep, link_pair(link), 2), -FI_EAGAIN);
	cr_expect_eq(fake_waiting(fake.qp), 7U);
	cr_expect_eq(link_close(link), 0);
}

/* refused -- one waits, and the device refuses it when it is posted */
static struct link *refused(void)
{
	struct link *link = opened(16);

	cr_assert_eq(link_write(link, 8, FI_COMPLETION, CONTEXT(1)), 0);
	more(link, FI_COMPLETION, CONTEXT(2));
	fake.flushes = true;
	fake.fail_at = fake.calls + 1;
	cr_assert_lt(link_write(link, 8, FI_COMPLETION, CONTEXT(3)), 0);
	cr_expect_str_eq(fake.failed, "ibv_post_send");
	cr_expect_eq(fake.state, IBV_QPS_ERR);
	return link;
}

Test(rdma_more, what_was_accepted_and_is_refused_fails_in_its_turn)
{
	struct link *link = refused();
	char room[256];

	expect_canceled(link, CONTEXT(1));
	/* A queue pair in error takes requests, and says of each that it was canceled. */
	fake_end(fake.qp, IBV_WC_WR_FLUSH_ERR);
	expect_canceled(link, CONTEXT(2));
	/* The caller was told of the third one. */
	cr_expect_eq(fi_cq_read(link->cq, room, 1), -FI_EAGAIN);
	cr_expect_eq(link_close(link), 0);
}

Test(rdma_more, what_a_device_never_takes_is_canceled_by_the_close)
{
	struct link *link = opened(16);

	more(link, FI_COMPLETION, CONTEXT(1));
	fake.accept_at_most = -1;
	more(link, FI_COMPLETION, CONTEXT(2));
	cr_assert_lt(link_write(link, 8, FI_COMPLETION, CONTEXT(3)), 0);
	/* What the device would take now is not posted: it would end before them. */
	fake.accept_at_most = 0;
	cr_assert_eq(link_write(link, 8, FI_COMPLETION, CONTEXT(4)), -FI_EOPBADSTATE);
	cr_assert_eq(link_write(link, 8, FI_MORE, CONTEXT(5)), -FI_EOPBADSTATE);
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	link->ep = NULL;
	expect_canceled(link, CONTEXT(1));
	expect_canceled(link, CONTEXT(2));
	cr_expect_eq(link_close(link), 0);
}
