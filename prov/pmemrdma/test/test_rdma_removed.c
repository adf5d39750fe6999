/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rdma_removed.c -- a device is removed: all of the process's goes, but nothing while the
 * device may still use it
 */
#include "link.h"

#include <fcntl.h>
#include <unistd.h>

static struct link *opened(void)
{
	static struct link link;

	fake_plug_in();
	cr_assert_eq(link_open(&link, 16, 100, FI_SELECTIVE_COMPLETION), 0);
	cr_assert_eq(fi_recv(link.ep, link.buf, 64, fi_mr_desc(link.mr), 0, CONTEXT(50)), 0);
	cr_assert_eq(link_write(&link, 8, FI_COMPLETION, CONTEXT(1)), 0);
	return &link;
}

/* close_all -- each of them has to go: in this order, as each uses those behind it */
static void close_all(struct link *link, struct fid_ep *srx)
{
	if (srx)
		cr_expect_eq(fi_close(&srx->fid), 0);
	cr_expect_eq(fi_close(&link->mr->fid), 0);
	cr_expect_eq(fi_close(&link->cq->fid), 0);
	cr_expect_eq(fi_close(&link->eq->fid), 0);
	cr_expect_eq(fi_close(&link->domain->fid), 0);
	cr_expect_eq(fi_close(&link->fabric->fid), 0);
	fi_freeinfo(link->info);
	/* libibverbs keeps the channel of a queue that it could not destroy. */
	cr_expect_eq(fake.live, 1);
}

static void expect_canceled(struct link *link, void *context)
{
	struct fi_cq_err_entry entry = {0};

	cr_assert_eq(fi_cq_readerr(link->cq, &entry, 0), 1);
	cr_expect_eq(entry.op_context, context);
	cr_expect_eq(entry.err, FI_ECANCELED);
}

/* goes -- with this errno */
static void goes(int err, bool another)
{
	struct link *link = opened();
	struct fi_rx_attr attr = {.size = 4};
	struct fid_ep *srx;
	int fd;

	cr_assert_eq(fi_srx_context(link->domain, &attr, &srx, NULL), 0);
	fd = pmr_to_cq(&link->cq->fid)->channel->fd;
	fake.removed = true;
	fake.removed_errno = err;
	/* The kernel is not through yet. */
	cr_expect_eq(fi_close(&link->ep->fid), -err);
	cr_expect_eq(fi_close(&link->mr->fid), -err);
	cr_expect_eq(fi_close(&srx->fid), -err);
	fake_take_out(another);
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	expect_canceled(link, CONTEXT(1));
	expect_canceled(link, CONTEXT(50));
	close_all(link, srx);
	cr_expect_lt(fcntl(fd, F_GETFD), 0, "a descriptor is left");
	if (another)
		fake_take_out(false);
}

Test(rdma_removed, all_goes_when_the_kernel_is_through)
{
	goes(EIO, false);
}

Test(rdma_removed, all_goes_whatever_comes_in_its_place)
{
	goes(ENODEV, true);
}

Test(rdma_removed, another_failure_keeps_what_the_device_may_use)
{
	struct link *link = opened();

	fake.removed = true;
	fake.removed_errno = EBUSY;
	fake_take_out(false);
	cr_expect_eq(fi_close(&link->mr->fid), -FI_EBUSY);
	cr_expect_eq(fi_close(&link->ep->fid), -FI_EBUSY);
}

Test(rdma_removed, a_device_without_an_entry_is_never_gone)
{
	static struct link link;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	fake.removed = true;
	cr_expect_eq(fi_close(&link.ep->fid), -FI_EIO);
	/* Nor is it if there is one later. */
	fake_plug_in();
	cr_expect_eq(fi_close(&link.mr->fid), -FI_EIO);
	fake_take_out(false);
}

/* What the device had told of a request has that request's slot, which goes with the endpoint. */
Test(rdma_removed, a_queue_that_can_not_be_read_any_more_says_nothing_later)
{
	struct link *link = opened();
	struct fi_cq_data_entry entry;

	fake_end(fake.qp, IBV_WC_SUCCESS);
	fake.removed = true;
	/* Behind ibv_modify_qp. */
	fake.fail_at = fake.calls + 2;
	cr_expect_eq(fi_close(&link->ep->fid), -FI_EIO);
	cr_expect_str_eq(fake.failed, "ibv_poll_cq");
	fake_take_out(false);
	fake.fail_at = fake.calls + 2;
	cr_assert_eq(fi_close(&link->ep->fid), 0);
	expect_canceled(link, CONTEXT(1));
	expect_canceled(link, CONTEXT(50));
	cr_expect_eq(fi_cq_read(link->cq, &entry, 1), -FI_EIO);
	close_all(link, NULL);
}
