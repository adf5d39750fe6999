/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdma_post.c -- no queue overruns, and each failure is told as its own */
#include "link.h"

#include "pmemrdma/fabric.h"

static struct link *opened(size_t tx_size, size_t cq_size, uint64_t cq_flags)
{
	static struct link link;

	cr_assert_eq(link_open(&link, tx_size, cq_size, cq_flags), 0);
	return &link;
}

/* expect_entry -- the next one */
static void expect_entry(struct link *link, void *context, uint64_t flags)
{
	struct fi_cq_data_entry entry = {0};

	cr_assert_eq(fi_cq_read(link->cq, &entry, 1), 1);
	cr_assert_eq(entry.op_context, context);
	cr_assert_eq(entry.flags, flags);
}

static void expect_error(struct link *link, void *context, int err, uint64_t flags)
{
	struct fi_cq_err_entry entry = {0};
	char room[256];

	cr_assert_eq(fi_cq_read(link->cq, room, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(link->cq, &entry, 0), 1);
	cr_assert_eq(entry.op_context, context);
	cr_assert_eq(entry.err, err);
	cr_assert_eq(entry.flags, flags);
}

static void expect_none(struct link *link)
{
	char room[256];

	cr_assert_eq(fi_cq_read(link->cq, room, 1), -FI_EAGAIN);
}

/* fill -- post until there is no room: how many */
static unsigned fill(struct link *link, uint64_t flags)
{
	unsigned count = 0;
	ssize_t ret;

	while (!(ret = link_write(link, 8, flags, CONTEXT(count + 1))))
		count++;
	cr_assert_eq(ret, -FI_EAGAIN);
	return count;
}

static void end_all(struct link *link)
{
	while (fake_waiting(fake.qp))
		fake_end(fake.qp, IBV_WC_SUCCESS);
	expect_none(link);
}

Test(rdma_post, takes_as_many_as_the_queue_has_room_for_again_and_again)
{
	struct link *link = opened(16, 100, FI_SELECTIVE_COMPLETION);

	/* None is wanted, and still all of the room comes back. */
	for (int round = 0; round < 5; round++) {
		cr_assert_geq(fill(link, 0), 16U - 16U / 4U);
		end_all(link);
	}
	link_close(link);
}

Test(rdma_post, leaves_the_completion_queue_room_for_all_that_may_fail)
{
	/* Eight receives have theirs, which leaves six. */
	struct link *link = opened(64, 14, FI_SELECTIVE_COMPLETION);
	unsigned count;

	for (int round = 0; round < 5; round++) {
		count = fill(link, 0);
		cr_assert_geq(count, 1U);
		end_all(link);
	}
	link_close(link);
}

Test(rdma_post, that_all_fails_overruns_nothing)
{
	struct link *link = opened(16, 24, FI_SELECTIVE_COMPLETION);
	unsigned count = fill(link, 0);

	fake_end(fake.qp, IBV_WC_REM_ACCESS_ERR);
	expect_error(link, CONTEXT(1), FI_EIO, FI_RMA | FI_WRITE);
	for (unsigned i = 2; i <= count; i++)
		expect_error(link, CONTEXT(i), FI_ECANCELED, FI_RMA | FI_WRITE);
	expect_none(link);
	link_close(link);
}

Test(rdma_post, completes_only_what_is_wanted)
{
	struct link *link = opened(16, 100, FI_SELECTIVE_COMPLETION);

	cr_assert_eq(link_write(link, 8, 0, CONTEXT(1)), 0);
	cr_assert_eq(link_write(link, 8, FI_COMPLETION, CONTEXT(2)), 0);
	cr_assert_eq(link_write(link, 8, 0, CONTEXT(3)), 0);
	while (fake_waiting(fake.qp))
		fake_end(fake.qp, IBV_WC_SUCCESS);
	expect_entry(link, CONTEXT(2), FI_RMA | FI_WRITE);
	expect_none(link);
	link_close(link);
}

Test(rdma_post, an_entry_that_waits_keeps_its_slot)
{
	struct link *link = opened(8, 100, FI_SELECTIVE_COMPLETION);

	cr_assert_eq(link_write(link, 8, FI_COMPLETION, CONTEXT(91)), 0);
	for (int i = 0; i < 40; i++) {
		while (fake_waiting(fake.qp))
			fake_end(fake.qp, IBV_WC_SUCCESS);
		/* The list takes the entries of the device, and nobody reads them. */
		pmr_cq_drain(pmr_to_cq(&link->cq->fid));
		if (link_write(link, 8, 0, CONTEXT(i)))
			break;
	}
	expect_entry(link, CONTEXT(91), FI_RMA | FI_WRITE);
	end_all(link);
	cr_assert_geq(fill(link, 0), 6U);
	link_close(link);
}

Test(rdma_post, reading_one_entry_frees_no_other_ones_slot)
{
	struct link *link = opened(8, 100, FI_SELECTIVE_COMPLETION);

	cr_assert_eq(link_write(link, 8, FI_COMPLETION, CONTEXT(91)), 0);
	cr_assert_eq(link_write(link, 8, FI_COMPLETION, CONTEXT(92)), 0);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	pmr_cq_drain(pmr_to_cq(&link->cq->fid));
	expect_entry(link, CONTEXT(91), FI_RMA | FI_WRITE);
	cr_assert_eq(fill(link, 0), 7U);
	expect_entry(link, CONTEXT(92), FI_RMA | FI_WRITE);
	end_all(link);
	link_close(link);
}

Test(rdma_post, a_close_cancels_what_is_under_way)
{
	struct link *link = opened(16, 100, FI_SELECTIVE_COMPLETION);

	cr_assert_eq(fi_recv(link->ep, link->buf, 64, fi_mr_desc(link->mr), 0, CONTEXT(50)), 0);
	cr_assert_eq(link_write(link, 8, FI_COMPLETION, CONTEXT(1)), 0);
	cr_assert_eq(link_write(link, 8, 0, CONTEXT(2)), 0);
	cr_assert_eq(link_write(link, 8, FI_COMPLETION, CONTEXT(3)), 0);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	link->ep = NULL;
	expect_entry(link, CONTEXT(1), FI_RMA | FI_WRITE);
	expect_error(link, CONTEXT(3), FI_ECANCELED, FI_RMA | FI_WRITE);
	expect_error(link, CONTEXT(50), FI_ECANCELED, FI_RECV | FI_MSG);
	expect_none(link);
	link_close(link);
}

/* A device says itself what became of what was under way, and may do so until the end. */
Test(rdma_post, a_close_hears_of_all_that_the_device_tells)
{
	struct link *link = opened(16, 100, FI_SELECTIVE_COMPLETION);

	fake.flushes = true;
	cr_assert_eq(fi_recv(link->ep, link->buf, 64, fi_mr_desc(link->mr), 0, CONTEXT(50)), 0);
	cr_assert_eq(link_write(link, 8, 0, CONTEXT(1)), 0);
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	link->ep = NULL;
	expect_error(link, CONTEXT(1), FI_ECANCELED, FI_RMA | FI_WRITE);
	expect_error(link, CONTEXT(50), FI_ECANCELED, FI_RECV | FI_MSG);
	expect_none(link);
	link_close(link);
}

Test(rdma_post, what_succeeds_while_its_endpoint_is_closed_is_told_once)
{
	struct link *link = opened(16, 100, FI_SELECTIVE_COMPLETION);

	fake.ends_late = true;
	cr_assert_eq(link_write(link, 8, FI_COMPLETION, CONTEXT(1)), 0);
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	link->ep = NULL;
	expect_entry(link, CONTEXT(1), FI_RMA | FI_WRITE);
	expect_none(link);
	link_close(link);
}

Test(rdma_post, a_list_rings_once)
{
	struct link *link = opened(16, 100, FI_SELECTIVE_COMPLETION);
	const struct iovec iov = {.iov_base = link->buf, .iov_len = 8};
	void *desc = fi_mr_desc(link->mr);
	struct pmemrdma_request list[] = {
		{PMEMRDMA_WRITE, 0, &iov, &desc, 1, 0x1000, 9, 0, .context = CONTEXT(1)},
		{PMEMRDMA_READ, FI_COMPLETION, &iov, &desc, 1, 0x1000, 9, 0, .context = CONTEXT(2)},
	};
	struct pmemrdma_post_ops *ops;

	cr_assert_eq(fi_open_ops(&link->ep->fid, "no such", 0, (void **) &ops, NULL), -FI_ENOSYS);
	cr_assert_eq(fi_open_ops(&link->ep->fid, PMEMRDMA_POST_OPS_V3, 0, (void **) &ops, NULL), 0);
	cr_assert_eq(ops->post(link->ep, list, 2), 2);
	cr_assert_eq(fake.doorbells, 1);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	expect_none(link);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	expect_entry(link, CONTEXT(2), FI_RMA | FI_READ);
	/* All or none, where there is no room for all. */
	while (fake_waiting(fake.qp) < 15)
		cr_assert_eq(link_write(link, 8, 0, NULL), 0);
	cr_assert_eq(ops->post(link->ep, list, 2), -FI_EAGAIN);
	end_all(link);
	/* What the device does not take is not said to be posted. */
	fake.accept_at_most = 1;
	cr_assert_eq(ops->post(link->ep, list, 2), 1);
	cr_assert_eq(fake_waiting(fake.qp), 1U);
	fake_end(fake.qp, IBV_WC_REM_ACCESS_ERR);
	expect_error(link, CONTEXT(1), FI_EIO, FI_RMA | FI_WRITE);
	expect_none(link);
	list[0].kind = (enum pmemrdma_kind) 17;
	cr_assert_eq(ops->post(link->ep, list, 2), -FI_EINVAL);
	cr_assert_eq(ops->post(link->ep, list, 0), -FI_EINVAL);
	cr_assert_eq(ops->post(link->ep, list, PMEMRDMA_MAX_LIST + 1), -FI_EINVAL);
	link_close(link);
}

Test(rdma_post, sends_small_data_in_the_request)
{
	struct link *link = opened(16, 100, 0);

	cr_assert_eq(link_write(link, FAKE_MAX_INLINE, 0, NULL), 0);
	cr_assert(fake.last.send_flags & IBV_SEND_INLINE);
	cr_assert_eq(link_write(link, FAKE_MAX_INLINE + 1, FI_FENCE, NULL), 0);
	cr_assert_not(fake.last.send_flags & IBV_SEND_INLINE);
	cr_assert(fake.last.send_flags & IBV_SEND_FENCE);
	cr_assert_eq(fake.last.opcode, IBV_WR_RDMA_WRITE);
	cr_assert_eq(link_write(link, FAKE_MAX_INLINE + 1, FI_INJECT, NULL), -FI_EINVAL);
	cr_assert_eq(link_write(link, 8, FI_REMOTE_CQ_DATA, NULL), 0);
	cr_assert_eq(fake.last.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	link_close(link);
}

Test(rdma_post, receives_say_what_came)
{
	struct link *link = opened(16, 100, 0);
	struct fi_cq_data_entry entry;
	void *desc = fi_mr_desc(link->mr);

	for (int i = 0; i < 8; i++)
		cr_assert_eq(fi_recv(link->ep, link->buf, 64, desc, 0, CONTEXT(i)), 0);
	cr_assert_eq(fi_recv(link->ep, link->buf, 64, desc, 0, NULL), -FI_EAGAIN);
	fake_arrive(fake.qp, IBV_WC_RECV, 33, 0);
	fake_arrive(fake.qp, IBV_WC_RECV_RDMA_WITH_IMM, 5, 0xabcdef01);
	cr_assert_eq(fi_cq_read(link->cq, &entry, 1), 1);
	cr_assert_eq(entry.len, 33U);
	cr_assert_eq(entry.flags, FI_RECV | FI_MSG);
	cr_assert_eq(fi_cq_read(link->cq, &entry, 1), 1);
	cr_assert_eq(entry.op_context, CONTEXT(1));
	cr_assert_eq(entry.data, 0xabcdef01U);
	cr_assert_eq(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	cr_assert_eq(fi_recv(link->ep, link->buf, 64, desc, 0, NULL), 0);
	link_close(link);
}

Test(rdma_post, who_sleeps_is_woken)
{
	struct link *link = opened(16, 100, 0);
	struct fi_cq_data_entry entry;
	struct fid *fid = &link->cq->fid;

	cr_assert_eq(fi_trywait(link->fabric, &fid, 1), 0);
	cr_assert_eq(fi_cq_sread(link->cq, &entry, 1, NULL, 0), -FI_EAGAIN);
	cr_assert_eq(link_write(link, 8, 0, CONTEXT(1)), 0);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	cr_assert_eq(fi_trywait(link->fabric, &fid, 1), -FI_EAGAIN);
	cr_assert_eq(fi_cq_sread(link->cq, &entry, 1, NULL, -1), 1);
	cr_assert_eq(fi_cq_signal(link->cq), 0);
	cr_assert_eq(fi_cq_sread(link->cq, &entry, 1, NULL, -1), -FI_EAGAIN);
	/* A close tells of what it cancels. */
	cr_assert_eq(link_write(link, 8, 0, CONTEXT(2)), 0);
	cr_assert_eq(fi_trywait(link->fabric, &fid, 1), 0);
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	link->ep = NULL;
	cr_assert_eq(fi_cq_sread(link->cq, &entry, 1, NULL, -1), -FI_EAVAIL);
	link_close(link);
}

Test(rdma_post, what_a_device_refuses_takes_no_room)
{
	struct link *link = opened(64, 14, FI_SELECTIVE_COMPLETION);

	/* Of the room for 64 sends and 8 receives: more than there is, in the end. */
	for (int i = 0; i < 100; i++) {
		fake.fail_at = fake.calls + 1;
		cr_assert_eq(link_write(link, 8, 0, NULL), -FI_EINVAL);
	}
	cr_assert_eq(link_write(link, 8, 0, NULL), 0);
	end_all(link);
	link_close(link);
}

Test(rdma_post, a_refusal_is_an_error_whatever_its_sign)
{
	static const struct {
		int refusal;
		ssize_t told;
	} cases[] = {{EINVAL, -FI_EINVAL},
		     {-EINVAL, -FI_EINVAL},
		     {ENOMEM, -FI_EAGAIN},
		     {-ENOMEM, -FI_EAGAIN},
		     {-1, -FI_EIO}};
	struct link *link = opened(16, 100, FI_SELECTIVE_COMPLETION);
	const struct pmemrdma_post_ops *ops = link_lists(link);
	void *desc = fi_mr_desc(link->mr);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.refusal = cases[i].refusal;
		fake.fail_at = fake.calls + 1;
		cr_expect_eq(link_write(link, 8, 0, NULL), cases[i].told);
		fake.fail_at = fake.calls + 1;
		cr_expect_eq(ops->post(link->ep, link_pair(link), 2), cases[i].told);
		fake.fail_at = fake.calls + 1;
		cr_expect_eq(fi_recv(link->ep, link->buf, 8, desc, 0, NULL), cases[i].told);
	}
	cr_assert_eq(fake_waiting(fake.qp), 0U);
	link_close(link);
}

Test(rdma_post, another_endpoint_opens_while_one_is_busy)
{
	struct link *link = opened(64, 80, FI_SELECTIVE_COMPLETION);
	struct fid_ep *second;

	cr_assert_geq(fill(link, FI_COMPLETION), 64U);
	link->info->rx_attr->size = link->info->tx_attr->size = 8;
	cr_assert_eq(fi_endpoint(link->domain, link->info, &second, NULL), 0);
	cr_assert_eq(fi_ep_bind(second, &link->eq->fid, 0), 0);
	cr_assert_eq(fi_ep_bind(second, &link->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	cr_assert_eq(fi_enable(second), 0);
	cr_assert_eq(fi_close(&second->fid), 0);
	link_close(link);
}

/* idle_takes_lists -- an endpoint on which nothing is under way, whatever was before */
static void idle_takes_lists(size_t tx_size, size_t cq_size)
{
	struct link *link = opened(tx_size, cq_size, FI_SELECTIVE_COMPLETION);
	const struct pmemrdma_post_ops *ops = link_lists(link);
	struct pmemrdma_request list[PMEMRDMA_MAX_LIST];

	for (size_t i = 0; i < PMEMRDMA_MAX_LIST; i++)
		list[i] = link_pair(link)[0];
	for (int before = 0; before < 20; before++) {
		for (int i = 0; i < before; i++) {
			cr_assert_eq(link_write(link, 8, 0, NULL), 0);
			end_all(link);
		}
		cr_expect_eq(ops->post(link->ep, list, PMEMRDMA_MAX_LIST), PMEMRDMA_MAX_LIST,
			     "of %zu and %zu, behind %d", tx_size, cq_size, before);
		end_all(link);
	}
	link_close(link);
}

Test(rdma_post, a_list_fits_however_small_the_queues_are)
{
	for (size_t tx_size = 1; tx_size < 12; tx_size++)
		idle_takes_lists(tx_size, 100);
	/* Eight receives have theirs. */
	for (size_t cq_size = 1; cq_size < 24; cq_size++)
		idle_takes_lists(16, cq_size);
}

/* error_of -- a write's error, by an application of that version, whose entry was all ones */
static struct fi_cq_err_entry error_of(struct link *link, uint32_t version)
{
	struct fi_cq_err_entry entry;

	memset(&entry, 0xff, sizeof(entry));
	entry.err_data = link->buf;
	pmr_to_fabric(link->fabric)->fabric_fid.api_version = version;
	cr_assert_eq(link_write(link, 8, 0, CONTEXT(1)), 0);
	fake_end(fake.qp, IBV_WC_REM_ACCESS_ERR);
	pmr_cq_drain(pmr_to_cq(&link->cq->fid));
	cr_assert_eq(link->cq->ops->readerr(link->cq, &entry, 0), 1);
	cr_expect_eq(entry.op_context, CONTEXT(1));
	cr_expect_eq(entry.prov_errno, IBV_WC_REM_ACCESS_ERR);
	return entry;
}

Test(rdma_post, an_error_entry_is_as_long_as_the_applications)
{
	struct link *link = opened(16, 100, 0);
	struct fi_cq_err_entry entry = error_of(link, FI_VERSION(1, 17));

	cr_expect_eq(entry.err_data, link->buf);
	cr_expect_eq(entry.err_data_size, 0U);
	for (size_t at = offsetof(struct fi_cq_err_entry, err_data_size) + sizeof(size_t);
	     at < sizeof(entry); at++)
		cr_expect_eq(((uint8_t *) &entry)[at], 0xff, "byte %zu", at);
	entry = error_of(link, FI_VERSION(1, 4));
	cr_expect_null(entry.err_data);
	cr_expect_eq(entry.err_data_size, SIZE_MAX);
	link_close(link);
}

/* As libfabric's hooks do: another endpoint, with this one's table. */
Test(rdma_post, a_list_for_another_providers_endpoint_is_refused)
{
	struct link *link = opened(16, 100, FI_SELECTIVE_COMPLETION);
	const struct pmemrdma_post_ops *ops = link_lists(link);
	struct fi_ops others = *link->ep->fid.ops;
	struct fid_ep hook = *link->ep;

	hook.fid.ops = &others;
	cr_assert_eq(ops->post(&hook, link_pair(link), 2), -FI_EOPNOTSUPP);
	cr_assert_eq(ops->post(&hook, NULL, 0), -FI_EOPNOTSUPP);
	cr_assert_eq(ops->post(link->ep, NULL, 0), -FI_EINVAL);
	cr_assert_eq(fake.doorbells, 0);
	link_close(link);
}

Test(rdma_post, endpoints_that_come_and_go_leave_the_completion_queue_its_room)
{
	struct link *link = opened(16, 100, 0);
	int size = pmr_to_cq(&link->cq->fid)->size;

	for (int i = 0; i < 2 * FAKE_MAX_CQE / 8; i++) {
		struct fi_cq_err_entry entry;

		cr_assert_eq(fi_close(&link->ep->fid), 0);
		while (fi_cq_readerr(link->cq, &entry, 0) == 1)
			;
		cr_assert_eq(fi_endpoint(link->domain, link->info, &link->ep, NULL), 0);
		cr_assert_eq(fi_ep_bind(link->ep, &link->eq->fid, 0), 0);
		cr_assert_eq(fi_ep_bind(link->ep, &link->cq->fid, FI_TRANSMIT | FI_RECV), 0);
		cr_assert_eq(fi_enable(link->ep), 0);
		cr_assert_eq(link_write(link, 8, 0, CONTEXT(i)), 0);
	}
	cr_expect_eq(pmr_to_cq(&link->cq->fid)->size, size, "it has grown");
	link_close(link);
}

static void expect_message(struct link *link, void *context)
{
	fake_arrive(fake.qp, IBV_WC_RECV, 8, 0);
	expect_entry(link, context, FI_RECV | FI_MSG);
}

/* share -- an endpoint in the other's place, with so many shared receives */
static struct fid_ep *share(struct link *link, size_t size)
{
	struct fi_rx_attr attr = {.size = size};
	struct fid_ep *srx;

	cr_assert_eq(fi_srx_context(link->domain, &attr, &srx, NULL), 0);
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	cr_assert_eq(fi_endpoint(link->domain, link->info, &link->ep, NULL), 0);
	cr_assert_eq(fi_ep_bind(link->ep, &link->eq->fid, 0), 0);
	cr_assert_eq(fi_ep_bind(link->ep, &link->cq->fid,
				FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION),
		     0);
	cr_assert_eq(fi_ep_bind(link->ep, &srx->fid, 0), 0);
	cr_assert_eq(fi_enable(link->ep), 0);
	return srx;
}

Test(rdma_post, shared_receives_are_taken_again)
{
	struct link *link = opened(16, 100, 0);
	void *desc = fi_mr_desc(link->mr);
	struct fid_ep *srx = share(link, 4);

	cr_assert_eq(fi_recv(link->ep, link->buf, 8, desc, 0, NULL), -FI_EOPBADSTATE);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			cr_assert_eq(fi_recv(srx, link->buf, 8, desc, 0, CONTEXT(i)), 0);
		cr_assert_eq(fi_recv(srx, link->buf, 8, desc, 0, NULL), -FI_EAGAIN);
		for (int i = 0; i < 4; i++)
			expect_message(link, CONTEXT(i));
	}
	cr_assert_eq(fi_close(&srx->fid), -FI_EBUSY);
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	link->ep = NULL;
	cr_assert_eq(fi_close(&srx->fid), 0);
	link_close(link);
}

Test(rdma_post, shared_receives_have_their_room_beside_requests)
{
	struct link *link = opened(16, 70, FI_SELECTIVE_COMPLETION);
	struct fid_ep *srx = share(link, 64);

	for (int i = 0; i < 64; i++)
		cr_assert_eq(fi_recv(srx, link->buf, 8, fi_mr_desc(link->mr), 0, NULL), 0);
	cr_assert_geq(fill(link, 0), 4U);
	for (int i = 0; i < 64; i++)
		fake_arrive(fake.qp, IBV_WC_RECV, 8, 0);
	fake_end(fake.qp, IBV_WC_REM_ACCESS_ERR);
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	link->ep = NULL;
	cr_assert_eq(fi_close(&srx->fid), 0);
	link_close(link);
}
