/* SPDX-License-Identifier: BSD-2-Clause */
/* test_held.c -- with FI_PMEMVERBS_KEYS: receives, and chains, until the peer is known */
#include "objects/held.h"
#include "test/support/key_dirs.h"
#include "test/support/rig.h"

static char buf[8];

TestSuite(held, .init = key_dirs_make, .fini = key_dirs_remove);

/* open_one -- an endpoint that has not connected */
static struct rig *open_one(struct rig_options options)
{
	key_dirs_be(CLIENT);
	return rig_open(&options);
}

static ssize_t receive(struct rig *rig, int n)
{
	return fi_recv(rig->ep, buf + n, 1, NULL, 0, CONTEXT(n));
}

static void expect_received(struct rig *rig, size_t post, int n)
{
	cr_expect_eq(rig_post(rig, post)->op.context, CONTEXT(n));
	cr_expect_eq(rig_post(rig, post)->op.buf, buf + n);
}

Test(held, receives_go_on_in_order)
{
	struct rig *rig = open_one((struct rig_options){0});

	for (int i = 0; i < 4; i++)
		accepted(receive(rig, i));
	expect_posted(rig, "");
	pmv_held_release(pmv_to_ep(rig->ep));
	expect_posted(rig, "X X X X");
	accepted(receive(rig, 4));
	expect_posted(rig, "X");
	for (int i = 0; i < 5; i++)
		expect_received(rig, i, i);
	for (int i = 0; i < 5; i++) {
		cr_assert(fake_receive(&rig->fake, 0));
		rig_expect(rig, CONTEXT(i), RIG_RECEIVED);
	}
	rig_close(rig);
}

/* An application may use these arrays otherwise when the call has returned. */
Test(held, receives_have_their_own_arrays)
{
	struct iovec iov[] = {{buf, 2}, {buf + 4, 3}};
	void *desc[] = {buf + 1, buf + 2};
	struct fi_msg msg = {iov, desc, 2, 0, CONTEXT(1), 0};
	struct rig *rig = open_one((struct rig_options){0});
	const struct testcore_request *op;

	accepted(fi_recvmsg(rig->ep, &msg, FI_COMPLETION | FI_MULTI_RECV));
	accepted(fi_recvv(rig->ep, iov, NULL, 2, 0, CONTEXT(2)));
	for (int i = 0; i < 2; i++) {
		iov[i] = (struct iovec){0};
		desc[i] = NULL;
	}
	pmv_held_release(pmv_to_ep(rig->ep));
	for (int i = 0; i < 2; i++) {
		op = &rig_post(rig, i)->op;
		cr_assert_eq(op->iov_count, 2);
		cr_expect_eq(op->iov[0].iov_base, buf);
		cr_expect_eq(op->iov[0].iov_len, 2);
		cr_expect_eq(op->iov[1].iov_base, buf + 4);
		cr_expect_eq(op->iov[1].iov_len, 3);
		cr_expect_eq(op->desc, i ? NULL : buf + 1);
		cr_expect_eq(op->context, CONTEXT(i + 1));
		cr_expect_eq(!!(op->flags & FI_MULTI_RECV), !i);
	}
	rig_close(rig);
}

Test(held, receives_are_as_many_as_the_core_takes)
{
	struct rig *rig = open_one((struct rig_options){.rx_size = 3});

	for (int i = 0; i < 3; i++)
		accepted(receive(rig, i));
	refused(receive(rig, 3), FI_EAGAIN);
	accepted(fi_cancel(&rig->ep->fid, CONTEXT(1)));
	rig_expect_error(rig, CONTEXT(1), RIG_RECEIVED, FI_ECANCELED);
	accepted(receive(rig, 3));
	refused(receive(rig, 4), FI_EAGAIN);
	pmv_held_release(pmv_to_ep(rig->ep));
	expect_posted(rig, "X X X");
	expect_received(rig, 0, 0);
	expect_received(rig, 1, 2);
	expect_received(rig, 2, 3);
	rig_close(rig);
}

/* No message uses them up, so the numbers of those behind them are others at the core. */
Test(held, receives_that_the_core_does_not_take_have_failed)
{
	struct rig *rig = open_one((struct rig_options){0});
	struct pmv_ep *ep = pmv_to_ep(rig->ep);

	atomic_store(&ep->receives.on, true);
	for (int i = 0; i < 3; i++)
		accepted(receive(rig, i));
	cr_expect_eq(ep->receives.posted, 3);
	rig->fake.receive_in = 2;
	pmv_held_release(ep);
	expect_posted(rig, "X X");
	expect_received(rig, 0, 0);
	expect_received(rig, 1, 2);
	rig_expect_error(rig, CONTEXT(1), RIG_RECEIVED, FI_ECANCELED);
	rig_expect_nothing(rig);
	cr_expect_eq(ep->receives.cancelled, 1);
	accepted(receive(rig, 3));
	rig_close(rig);
}

Test(held, receives_are_cancelled_one_by_one_or_all)
{
	struct iovec iov = {buf, sizeof(buf)};
	struct fi_msg msg = {&iov, NULL, 1, 0, CONTEXT(2), 0};
	struct rig *rig = open_one((struct rig_options){0});
	struct pmv_ep *ep = pmv_to_ep(rig->ep);

	atomic_store(&ep->receives.on, true);
	accepted(receive(rig, 1));
	accepted(fi_recvmsg(rig->ep, &msg, FI_MULTI_RECV));
	accepted(receive(rig, 1));
	accepted(fi_cancel(&rig->ep->fid, CONTEXT(1)));
	rig_expect_error(rig, CONTEXT(1), RIG_RECEIVED, FI_ECANCELED);
	rig_expect_nothing(rig);
	cr_expect_eq(ep->receives.cancelled, 1);
	rig_close_ep(rig);
	rig_expect_error(rig, CONTEXT(2), RIG_RECEIVED | FI_MULTI_RECV, FI_ECANCELED);
	rig_expect_error(rig, CONTEXT(1), RIG_RECEIVED, FI_ECANCELED);
	rig_expect_nothing(rig);
	cr_expect_eq(rig->fake.num_posts, 0);
	rig_close(rig);
}

Test(held, receives_are_counted_when_they_fail)
{
	struct rig *rig = open_one((struct rig_options){.not_enabled = true, .selective = true});
	struct fid_cntr *cntr = rig_count(rig, FI_RECV);

	accepted(receive(rig, 1));
	accepted(receive(rig, 2));
	accepted(fi_cancel(&rig->ep->fid, CONTEXT(2)));
	/* An error is told of, whatever the flags. */
	rig_expect_error(rig, CONTEXT(2), RIG_RECEIVED, FI_ECANCELED);
	cr_expect_eq(fi_cntr_readerr(cntr), 1);
	pmv_held_release(pmv_to_ep(rig->ep));
	cr_assert(fake_receive(&rig->fake, 0));
	cr_expect_eq(fi_cntr_read(cntr), 1);
	cr_expect_eq(fi_cntr_readerr(cntr), 1);
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

/* Those of a shared context would be handed on for another peer. */
Test(held, receives_are_not_shared_by_an_endpoint_that_connects)
{
	/* Of what the fake core knows an event queue is bound as simply. */
	struct fid_ep core = {.fid = {.fclass = FI_CLASS_EQ}};
	struct pmv_ep srx = {
		.ep_fid = {.fid = {.fclass = FI_CLASS_SRX_CTX, .ops = &pmv_srx_fi_ops}},
		.engine = {.fid = &core},
	};
	struct rig *rig = open_one((struct rig_options){0});

	refused(fi_ep_bind(rig->ep, &srx.ep_fid.fid, 0), FI_EOPNOTSUPP);
	cr_expect_not(pmv_to_ep(rig->ep)->srx);
	/* Whoever accepts knows the peer by then. */
	pmv_held_release(pmv_to_ep(rig->ep));
	accepted(fi_ep_bind(rig->ep, &srx.ep_fid.fid, 0));
	rig_close(rig);
}

Test(held, chains_are_not_posted)
{
	struct fi_pmemverbs_step step = {.kind = FI_PMEMVERBS_STEP_WRITE,
					 .operand = buf,
					 .len = sizeof(buf),
					 .key = KEY_MHP};
	struct rig *rig = open_one((struct rig_options){0});
	struct fi_pmemverbs_chain_ops *ops;

	accepted(fi_open_ops(&rig->ep->fid, FI_PMEMVERBS_CHAIN_OPS, 0, (void **) &ops, NULL));
	refused(ops->post(rig->ep, &step, 1, CONTEXT(1), FI_COMPLETION), FI_ENOTCONN);
	expect_posted(rig, "");
	rig_close(rig);
}
