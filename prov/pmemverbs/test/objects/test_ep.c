/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ep.c -- endpoints: enabled once more, and closed with commits under way */
#include "objects/cq.h"
#include "test/support/rig.h"

static char data[8];

/* next_cancelled -- the context of the operation of that kind whose cancellation is read next */
static void *next_cancelled(struct rig *rig, uint64_t flags)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};

	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL, "an error is missing");
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_assert_eq(error.err, FI_ECANCELED);
	cr_assert_eq(error.flags, flags);
	return error.op_context;
}

/* Whatever order they come in: each of these contexts fails, once, as cancelled. */
static void expect_cancelled(struct rig *rig, int count)
{
	bool seen[64] = {false};

	for (int i = 0; i < count; i++) {
		void *context = next_cancelled(rig, RIG_WRITTEN);
		ptrdiff_t n = ((char *) context - (char *) CONTEXT(0)) / 16;

		cr_assert(n >= 0 && n < count, "%p is none of them", context);
		cr_assert(!seen[n], "%p failed twice", context);
		seen[n] = true;
	}
	rig_expect_nothing(rig);
}

/* Three commits in different states: nothing done, half done, and not all posted. */
static void leave_three(struct rig *rig)
{
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
	accepted(rig_commit(rig, KEY_WSP, CONTEXT(1), FI_IMMED));
	fake_complete(&rig->fake, 1);
	rig->fake.room = 2;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_IMMED));
	expect_posted(rig, "W R Wi W R");
}

Test(close, with_a_core_that_cancels_is_one_error_for_each_commit)
{
	struct rig *rig = rig_open(NULL);

	leave_three(rig);
	rig_close_ep(rig);
	expect_cancelled(rig, 3);
	rig_close(rig);
}

Test(close, with_a_core_that_says_nothing_is_one_error_for_each_commit)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.on_close = FAKE_CLOSE_FORGETS;
	leave_three(rig);
	rig_close_ep(rig);
	expect_cancelled(rig, 3);
	rig_close(rig);
}

/* Late news of what the application has been told already, good and bad. */
Test(close, swallows_what_the_core_completes_later)
{
	for (int read_first = 0; read_first < 2; read_first++) {
		struct rig *rig = rig_open(NULL);

		rig->fake.on_close = FAKE_CLOSE_FORGETS;
		leave_three(rig);
		rig_close_ep(rig);
		if (read_first)
			expect_cancelled(rig, 3);
		for (size_t n = 1; n < 5; n++)
			fake_report(&rig->fake, n, n % 2 ? 0 : FI_EIO);
		if (!read_first)
			expect_cancelled(rig, 3);
		rig_expect_nothing(rig);
		rig_close(rig);
	}
}

Test(close, does_not_tell_again_what_is_told_but_not_read)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	fake_complete(&rig->fake, 2);
	fake_fail(&rig->fake, FI_EIO, 5);
	fake_fail(&rig->fake, FI_ECANCELED, 5);
	/* A fence or a counter takes entries before the application reads them. */
	pmv_queue_progress(&pmv_to_cq(rig->cq)->queue, false);
	rig_close_ep(rig);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_error(rig, CONTEXT(2), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(close, finds_entries_that_wait_in_the_core)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	fake_complete(&rig->fake, 4);
	rig_close_ep(rig);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect_error(rig, CONTEXT(2), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* The queue is short: what the core flushes is more than may be kept here. */
Test(close, with_more_under_way_than_the_cq_keeps_loses_nothing)
{
	struct rig *rig = rig_open(&(struct rig_options){.cq_size = 8});

	for (int i = 0; i < 50; i++)
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(i), 0));
	rig_close_ep(rig);
	expect_cancelled(rig, 50);
	rig_close(rig);
}

Test(close, says_nothing_of_operations_that_never_complete)
{
	static const enum fake_on_close ways[] = {FAKE_CLOSE_CANCELS, FAKE_CLOSE_FORGETS};

	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = rig_open(NULL);

		rig->fake.on_close = ways[i];
		/* A fence makes requests of injected ones; the flush in front is ours alone. */
		accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
		accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
		accepted(fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_DMP));
		fake_complete(&rig->fake, 2);
		rig_expect(rig, CONTEXT(0), FI_RMA | FI_READ);
		rig_expect(rig, CONTEXT(1), FI_RMA | FI_READ);
		accepted(rig_commit(rig, KEY_DMP, CONTEXT(0), FI_FENCE));
		expect_posted(rig, "R fR fW R fW R");
		rig_close_ep(rig);
		expect_cancelled(rig, 1);
		rig_close(rig);
	}
}

Test(close, that_fails_changes_nothing)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 2;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), FI_IMMED));
	expect_posted(rig, "W R");
	rig->fake.on_close = FAKE_CLOSE_IS_BUSY;
	refused(fi_close(&rig->ep->fid), FI_EBUSY);
	rig_expect_nothing(rig);
	rig->fake.room = -1;
	rig_expect_nothing(rig);
	expect_posted(rig, "fW0i");
	fake_complete(&rig->fake, 3);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	rig->fake.on_close = FAKE_CLOSE_CANCELS;
	rig_close(rig);
}

Test(close, of_one_endpoint_leaves_others_alone)
{
	static const enum fake_on_close ways[] = {FAKE_CLOSE_CANCELS, FAKE_CLOSE_FORGETS};

	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = rig_open(NULL);
		struct fid_ep *first = rig->ep, *second = rig_ep(rig, rig->cq);

		rig->fake.on_close = ways[i];
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
		rig->ep = second;
		rig->fake.room = 1;
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
		accepted(fi_close(&first->fid));
		rig->fake.room = -1;
		expect_cancelled(rig, 1);
		rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
		rig_close(rig);
	}
}

Test(close, with_two_endpoints_waiting_for_room_keeps_the_other)
{
	struct rig *rig = rig_open(NULL);
	struct fid_ep *first = rig->ep, *second = rig_ep(rig, rig->cq);

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
	rig->ep = second;
	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(fi_close(&first->fid));
	expect_cancelled(rig, 1);
	rig->fake.room = -1;
	rig_expect_nothing(rig);
	expect_posted(rig, "W W R");
	rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* Requests that a closed endpoint left behind come back when the core reports them. */
Test(close, loses_no_requests)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.on_close = FAKE_CLOSE_FORGETS;
	for (int round = 0; round < 400; round++) {
		size_t first = rig->fake.num_posts;

		for (int i = 0; i < 50; i++)
			accepted(rig_commit(rig, KEY_MHP, CONTEXT(i), 0));
		rig_close_ep(rig);
		expect_cancelled(rig, 50);
		for (size_t n = first; n < rig->fake.num_posts; n++)
			fake_report(&rig->fake, n, FI_ECANCELED);
		rig_expect_nothing(rig);
		rig->ep = rig_ep(rig, rig->cq);
	}
	cr_expect_leq(pmv_to_domain(rig->domain)->ops.used,
		      50 * pmv_to_domain(rig->domain)->ops.size);
	rig_close(rig);
}

/* An application may be told that it is too early, and go on. */
Test(close, of_a_domain_that_is_busy_leaves_it_usable)
{
	struct rig *rig = rig_open(&(struct rig_options){.mr_local = true});

	rig->fake.domain_is_busy = true;
	refused(fi_close(&rig->domain->fid), FI_EBUSY);
	rig->fake.domain_is_busy = false;
	/* The domain itself, the CQ, the endpoint, and the region that flushes read into. */
	cr_expect_eq(rig->fake.open_objects, 4);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
	rig_expect_parts(rig, 2, CONTEXT(0), RIG_WRITTEN);
	rig_close(rig);
}

/* close_ep_of_layer -- a layer above has opened an endpoint on the queue, and closes it */
static struct fid_ep *close_ep_of_layer(struct rig *rig)
{
	static const struct pmv_hooks hooks;
	struct fid_ep *ep;

	pmv_to_domain(rig->domain)->hooks = &hooks;
	ep = rig_ep(rig, rig->cq);
	accepted(fi_close(&ep->fid));
	return ep;
}

/*
 * Such a layer reads what has arrived at an endpoint after it has closed it.  If an answer failed,
 * RxM would read the rest too late, and crash.
 */
Test(close, by_a_layer_cancels_what_it_answers_later)
{
	struct rig *rig = rig_open(NULL);
	struct fid_ep *ep = close_ep_of_layer(rig);
	size_t posts = rig->fake.num_posts;
	char buf[8] = {0};

	accepted(fi_inject(ep, buf, sizeof(buf), 0));
	accepted(fi_inject_write(ep, buf, sizeof(buf), 0, 0, KEY_MHP));
	rig_expect_nothing(rig);
	accepted(fi_send(ep, buf, sizeof(buf), NULL, 0, CONTEXT(0)));
	accepted(fi_read(ep, buf, sizeof(buf), NULL, 0, 0, KEY_MHP, CONTEXT(1)));
	accepted(fi_write(ep, buf, sizeof(buf), NULL, 0, 0, KEY_MHP, CONTEXT(2)));
	accepted(fi_recv(ep, buf, sizeof(buf), NULL, 0, CONTEXT(3)));
	cr_expect_eq(next_cancelled(rig, FI_MSG | FI_SEND), CONTEXT(0));
	cr_expect_eq(next_cancelled(rig, FI_RMA | FI_READ), CONTEXT(1));
	cr_expect_eq(next_cancelled(rig, FI_RMA | FI_WRITE), CONTEXT(2));
	cr_expect_eq(next_cancelled(rig, FI_MSG | FI_RECV), CONTEXT(3));
	rig_expect_nothing(rig);
	cr_expect_eq(rig->fake.num_posts, posts);
	rig_close(rig);
}

/* The next close shows that it is done with the one before; the address sanitizer misses none. */
Test(close, by_a_layer_keeps_the_last_endpoint_of_a_queue)
{
	struct rig *rig = rig_open(NULL);
	struct pmv_cq *cq = pmv_to_cq(rig->cq);

	cr_expect_null(cq->closed_ep);
	for (int i = 0; i < 3; i++) {
		struct fid_ep *ep = close_ep_of_layer(rig);

		cr_expect_eq(cq->closed_ep, pmv_to_ep(ep));
	}
	rig_close(rig);
}

Test(close, by_the_application_keeps_no_endpoint)
{
	struct rig *rig = rig_open(NULL);

	rig_close_ep(rig);
	cr_expect_null(pmv_to_cq(rig->cq)->closed_ep);
	rig_close(rig);
}

static int fail_to_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void) fid, (void) bfid, (void) flags;
	return -FI_ENOMEM;
}

/* If there were two of them, the domain could not be closed. */
Test(enable, once_more_takes_the_same_cq_of_its_own)
{
	struct rig *rig = rig_open(&(struct rig_options){.no_cq = true, .not_enabled = true});
	struct fid *core_fid = &pmv_to_ep(rig->ep)->engine.fid->fid;
	struct fi_ops *ops = core_fid->ops, failing = *ops;
	struct fid_cntr *cntr = rig_cntr(rig);

	accepted(fi_ep_bind(rig->ep, &cntr->fid, FI_WRITE));
	failing.bind = fail_to_bind;
	core_fid->ops = &failing;
	refused(fi_enable(rig->ep), FI_ENOMEM);
	core_fid->ops = ops;
	accepted(fi_enable(rig->ep));
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

/* open_own -- an endpoint with three regions and a queue of its own, for counters */
static struct rig *open_own(struct fid_cntr **cntr)
{
	struct rig *rig = rig_open(
		&(struct rig_options){.no_cq = true, .not_enabled = true, .mr_local = true});

	*cntr = rig_count(rig, FI_WRITE);
	return rig;
}

static void close_all(struct rig *rig, struct fid_cntr *cntr)
{
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

/* Else the core's domain would be busy for ever. */
Test(close, that_can_not_free_its_own_is_told_and_made_again)
{
	struct fid_cntr *cntr;
	int n = 0, left;

	do {
		struct rig *rig = open_own(&cntr);

		accepted(pmv_mailbox_open(&pmv_to_ep(rig->ep)->mailbox));
		accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
		rig->fake.close_fails_in = ++n;
		if (n <= 4) {
			refused(fi_close(&rig->ep->fid), FI_EIO);
			/* And once more. */
			rig->fake.close_fails_in = 1;
			refused(fi_close(&rig->ep->fid), FI_EIO);
			refused(fi_close(&rig->domain->fid), FI_EBUSY);
		}
		left = rig->fake.close_fails_in;
		rig->fake.close_fails_in = 0;
		close_all(rig, cntr);
	} while (!left);
	/* Three regions, and a queue. */
	cr_expect_eq(n, 5);
}

/* RxM looks at no result of it, and posts to what it has closed. */
Test(close, that_fails_leaves_nothing_that_can_be_posted_to)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_own(&cntr);

	accepted(pmv_mailbox_open(&pmv_to_ep(rig->ep)->mailbox));
	rig->fake.close_fails_in = 1;
	refused(fi_close(&rig->ep->fid), FI_EIO);
	refused(rig_write(rig, KEY_MHP, CONTEXT(0)), FI_ESHUTDOWN);
	close_all(rig, cntr);
}

static int openings;

static int third_fails(const struct fake *fake)
{
	(void) fake;
	return ++openings == 3 ? -FI_ENOMEM : 0;
}

/* Two regions were registered, one of which can't be closed again. */
Test(close, frees_what_is_left_of_an_attempt_to_connect)
{
	for (int again = 0; again < 2; again++) {
		struct fid_cntr *cntr;
		struct rig *rig = open_own(&cntr);
		struct pmv_mailbox *mailbox = &pmv_to_ep(rig->ep)->mailbox;

		openings = 0;
		rig->fake.on_open = third_fails;
		rig->fake.close_fails_in = 2;
		refused(pmv_mailbox_open(mailbox), FI_ENOMEM);
		cr_expect_eq(rig->fake.close_fails_in, 0);
		if (again) {
			accepted(pmv_mailbox_open(mailbox));
			cr_expect(mailbox->link.mr && mailbox->link.flush_mr &&
				  mailbox->link.out_mr);
		}
		close_all(rig, cntr);
	}
}

/* A client that only commits to its peer's memory opens its domain so, and needs no agent. */
Test(enable, of_one_that_commits_works_in_a_domain_for_no_persistent_memory)
{
	struct rig *rig = rig_open(&(struct rig_options){.volatile_only = true, .tx_size = 8});
	struct fid_ep *ep;

	rig->info->caps |= FI_PMEM;
	ep = rig_ep(rig, rig->cq);
	accepted(fi_close(&ep->fid));
	rig_close(rig);
}
