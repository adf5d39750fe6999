/* SPDX-License-Identifier: BSD-2-Clause */
/* test_cntr.c -- counters: what they count and when */
#include <time.h>

#include "commit/ordering.h"
#include "objects/ep.h"
#include "test/support/rig.h"

#define ALL (FI_SEND | FI_RECV | FI_READ | FI_WRITE)

static char data[8];

/* A rig whose endpoint has a counter bound. */
static struct rig *open_counted(struct rig_options options, uint64_t what, struct fid_cntr **cntr)
{
	struct rig *rig;

	options.not_enabled = true;
	rig = rig_open(&options);
	*cntr = rig_count(rig, what);
	return rig;
}

static void close_counted(struct rig *rig, struct fid_cntr *cntr)
{
	if (rig->ep)
		rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

static void expect_count(struct fid_cntr *cntr, uint64_t value, uint64_t errors)
{
	cr_assert_eq(fi_cntr_read(cntr), value, "%llu", (unsigned long long) fi_cntr_read(cntr));
	cr_assert_eq(fi_cntr_readerr(cntr), errors, "%llu errors",
		     (unsigned long long) fi_cntr_readerr(cntr));
}

Test(cntr, count_a_commit_once_and_when_it_is_durable)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, FI_WRITE, &cntr);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	for (int part = 0; part < 3; part++) {
		expect_count(cntr, 0, 0);
		fake_complete(&rig->fake, 1);
	}
	expect_count(cntr, 1, 0);
	expect_count(cntr, 1, 0);
	/* The CQ tells of it as well. */
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(rig);
	expect_count(cntr, 1, 0);
	close_counted(rig, cntr);
}

Test(cntr, count_a_commit_that_fails_once_as_an_error)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, FI_WRITE, &cntr);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	fake_complete(&rig->fake, 1);
	fake_fail_all(&rig->fake, FI_EIO, 5);
	expect_count(cntr, 0, 1);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	expect_count(cntr, 0, 1);
	close_counted(rig, cntr);
}

Test(cntr, also_count_what_the_application_reads_from_the_cq_itself)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, FI_WRITE, &cntr);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	fake_complete(&rig->fake, 3);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	expect_count(cntr, 2, 0);
	close_counted(rig, cntr);
}

Test(cntr, post_what_waits_for_room_when_they_are_read)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, FI_WRITE, &cntr);

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	fake_complete(&rig->fake, 1);
	expect_count(cntr, 0, 0);
	rig->fake.room = -1;
	expect_count(cntr, 0, 0);
	expect_posted(rig, "W R");
	fake_complete(&rig->fake, 1);
	expect_count(cntr, 1, 0);
	close_counted(rig, cntr);
}

/* Each kind of operation, by the calls of its kind. */
static int post_each(struct rig *rig, uint64_t kind)
{
	struct iovec iov = {data, 8};
	void *desc = NULL;
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = CONTEXT(3)};
	uint64_t operand = 1;

	switch (kind) {
	case FI_SEND:
		accepted(rig_send(rig, CONTEXT(0)));
		accepted(fi_sendv(rig->ep, &iov, &desc, 1, 0, CONTEXT(1)));
		accepted(fi_senddata(rig->ep, data, 8, NULL, DATA, 0, CONTEXT(2)));
		accepted(rig_sendmsg(rig, CONTEXT(3), 0));
		accepted(fi_inject(rig->ep, data, 8, 0));
		accepted(fi_injectdata(rig->ep, data, 8, DATA, 0));
		return 6;
	case FI_RECV:
		accepted(fi_recv(rig->ep, data, 8, NULL, 0, CONTEXT(0)));
		accepted(fi_recvv(rig->ep, &iov, &desc, 1, 0, CONTEXT(1)));
		accepted(fi_recvmsg(rig->ep, &msg, 0));
		/* It is for the sender to commit. */
		accepted(fi_recvmsg(rig->ep, &msg, FI_COMMIT));
		return 4;
	case FI_READ:
		accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
		accepted(fi_readv(rig->ep, &iov, &desc, 1, 0, ADDR, KEY_MHP, CONTEXT(1)));
		accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(2), 0));
		accepted(rig_fetch(rig, KEY_MHP, CONTEXT(3), 0));
		return 4;
	default:
		accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
		accepted(fi_writev(rig->ep, &iov, &desc, 1, 0, ADDR, KEY_MHP, CONTEXT(1)));
		accepted(fi_writedata(rig->ep, data, 8, NULL, DATA, 0, ADDR, KEY_MHP, CONTEXT(2)));
		accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(3), 0));
		accepted(fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_MHP));
		accepted(fi_inject_writedata(rig->ep, data, 8, DATA, 0, ADDR, KEY_MHP));
		accepted(fi_atomic(rig->ep, &operand, 1, NULL, 0, ADDR, KEY_MHP, FI_UINT64,
				   FI_ATOMIC_WRITE, CONTEXT(4)));
		return 7;
	}
}

/* What is counted is one request, as it is without a counter: its flags tell the rest. */
Test(cntr, of_an_atomic_with_immediate_data_adds_no_request)
{
	struct rig *rig = rig_open(&(struct rig_options){.not_enabled = true});
	struct fid_cntr *cntr = rig_count(rig, FI_WRITE);
	struct fi_ioc operand = {.addr = &(uint64_t){1}, .count = 1};
	const struct fi_rma_ioc to = {.addr = ADDR, .count = 1, .key = KEY_MHP};
	const struct fi_msg_atomic msg = {
		.msg_iov = &operand,
		.iov_count = 1,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = CONTEXT(1),
	};
	size_t before = rig->fake.num_posts;

	accepted(fi_atomicmsg(rig->ep, &msg, FI_REMOTE_CQ_DATA));
	cr_expect_eq(rig->fake.num_posts, before + 1);
	fake_complete(&rig->fake, SIZE_MAX);
	cr_expect_eq(fi_cntr_read(cntr), 1);
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

/* Its address need not be one: a flush must not read there. */
Test(cntr, of_a_write_without_data_says_nothing_of_where_a_flush_may_read)
{
	struct rig *rig = rig_open(&(struct rig_options){.not_enabled = true});
	struct fid_cntr *cntr = rig_count(rig, FI_WRITE);

	accepted(fi_write(rig->ep, NULL, 0, NULL, 0, 0, KEY_MHP, CONTEXT(1)));
	fake_complete(&rig->fake, SIZE_MAX);
	cr_expect_eq(pmv_ordering_place(&pmv_to_ep(rig->ep)->initiator, KEY_MHP, ADDR), ADDR);
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

static const uint64_t kinds[] = {FI_SEND, FI_RECV, FI_READ, FI_WRITE};

static void complete_all(struct rig *rig)
{
	fake_complete(&rig->fake, SIZE_MAX);
	while (fake_receive(&rig->fake, 0))
		;
}

Test(cntr, count_their_kind_of_operation_and_no_other)
{
	for (size_t i = 0; i < 4; i++) {
		struct fid_cntr *cntr;
		struct rig *rig = open_counted((struct rig_options){0}, kinds[i], &cntr);
		int expected = 0;

		for (size_t n = 0; n < 4; n++) {
			int posted = post_each(rig, kinds[n]);

			if (n == i)
				expected = posted;
		}
		expect_count(cntr, 0, 0);
		complete_all(rig);
		expect_count(cntr, expected, 0);
		close_counted(rig, cntr);
	}
}

Test(cntr, of_all_kinds_at_once_count_all)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){.no_fence = true}, ALL, &cntr);
	int expected = 0;

	for (size_t n = 0; n < 4; n++)
		expected += post_each(rig, kinds[n]);
	complete_all(rig);
	expect_count(cntr, expected, 0);
	close_counted(rig, cntr);
}

Test(cntr, leave_the_entries_of_what_they_count_alone)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, ALL, &cntr);
	struct fi_cq_tagged_entry entry;
	int entries = 0;

	for (size_t n = 0; n < 4; n++)
		entries += post_each(rig, kinds[n]);
	complete_all(rig);
	/* Injected ones have no entries: four of them. */
	for (int i = 0; i < entries - 4; i++) {
		cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), 1);
		cr_expect(entry.op_context >= CONTEXT(0) && entry.op_context <= CONTEXT(4));
		cr_expect_eq(entry.buf, FAKE_BUF);
		cr_expect_eq(entry.data, FAKE_DATA);
		cr_expect_eq(entry.tag, FAKE_TAG);
		cr_expect_gt(entry.len, FAKE_LEN(0));
	}
	rig_expect_nothing(rig);
	close_counted(rig, cntr);
}

Test(cntr, on_a_selective_cq_make_no_entries)
{
	struct fid_cntr *cntr;
	struct rig *rig =
		open_counted((struct rig_options){.selective = true, .no_fence = true}, ALL, &cntr);
	int expected = 0;

	for (size_t n = 0; n < 4; n++)
		expected += post_each(rig, kinds[n]);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(2), FI_COMPLETION));
	complete_all(rig);
	expect_count(cntr, expected + 2, 0);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_expect_nothing(rig);
	close_counted(rig, cntr);
}

/* verbs reports all receives, as any may have been used up by remote CQ data. */
Test(cntr, on_a_selective_cq_of_verbs_keep_receives)
{
	struct rig_options options = {.selective = true, .imm_receives = true};
	struct fid_cntr *cntr;
	struct rig *rig = open_counted(options, ALL, &cntr);

	accepted(fi_recv(rig->ep, data, 8, NULL, 0, CONTEXT(3)));
	fake_receive(&rig->fake, 0);
	rig_expect(rig, CONTEXT(3), RIG_RECEIVED);
	expect_count(cntr, 1, 0);
	close_counted(rig, cntr);
}

Test(cntr, count_errors_apart)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, ALL, &cntr);

	accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(1)));
	accepted(rig_send(rig, CONTEXT(2)));
	accepted(fi_recv(rig->ep, data, 8, NULL, 0, CONTEXT(3)));
	accepted(fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_MHP));
	fake_fail_all(&rig->fake, FI_EIO, 5);
	fake_receive(&rig->fake, FI_ECANCELED);
	expect_count(cntr, 0, 5);
	rig_expect_error(rig, CONTEXT(0), RIG_WRITTEN, FI_EIO);
	rig_expect_error(rig, CONTEXT(1), FI_RMA | FI_READ, FI_ECANCELED);
	rig_expect_error(rig, CONTEXT(2), RIG_SENT, FI_ECANCELED);
	rig_expect_error(rig, CONTEXT(3), RIG_RECEIVED, FI_ECANCELED);
	rig_expect_nothing(rig);
	close_counted(rig, cntr);
}

Test(cntr, do_not_count_what_was_refused)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, ALL, &cntr);

	rig->fake.room = 0;
	refused(rig_write(rig, KEY_MHP, CONTEXT(0)), FI_EAGAIN);
	refused(rig_commit(rig, KEY_MHP, CONTEXT(0), 0), FI_EAGAIN);
	refused(rig_commit(rig, KEY_PAGE, CONTEXT(0), 0), FI_EOPNOTSUPP);
	refused(rig_send(rig, CONTEXT(0)), FI_EAGAIN);
	expect_count(cntr, 0, 0);
	close_counted(rig, cntr);
}

/* An application may do without a CQ. */

Test(cntr, count_without_a_cq)
{
	struct rig_options options = {.no_cq = true};
	struct fid_cntr *cntr;
	struct rig *rig = open_counted(options, ALL, &cntr);
	int expected = 1;

	for (size_t n = 0; n < 4; n++)
		expected += post_each(rig, kinds[n]);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	complete_all(rig);
	expect_count(cntr, expected, 0);
	close_counted(rig, cntr);
}

/* More than any queue holds that nobody reads. */
Test(cntr, without_a_cq_count_for_ever)
{
	enum { OPERATIONS = 5000 };

	for (int fail = 0; fail < 2; fail++) {
		struct rig_options options = {.no_cq = true};
		struct fid_cntr *cntr;
		struct rig *rig = open_counted(options, FI_WRITE, &cntr);

		for (int i = 0; i < OPERATIONS; i++) {
			accepted(rig_commit(rig, KEY_WSP, CONTEXT(i), FI_COMPLETION));
			if (fail)
				fake_fail(&rig->fake, FI_EIO, 5);
			else
				fake_complete(&rig->fake, 1);
		}
		expect_count(cntr, fail ? 0 : OPERATIONS, fail ? OPERATIONS : 0);
		close_counted(rig, cntr);
	}
}

/* Waiting */

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static void *complete_later(void *arg)
{
	const struct timespec pause = {.tv_nsec = 20000000};

	for (int i = 0; i < 6; i++) {
		nanosleep(&pause, NULL);
		fake_complete(arg, 1);
	}
	return NULL;
}

Test(cntr, wake_who_waits_for_a_number, .timeout = 20)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, FI_WRITE, &cntr);
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(i), 0));
	cr_assert_eq(pthread_create(&thread, NULL, complete_later, &rig->fake), 0);
	cr_expect_eq(fi_cntr_wait(cntr, 3, -1), 0);
	expect_count(cntr, 3, 0);
	pthread_join(thread, NULL);
	close_counted(rig, cntr);
}

Test(cntr, give_up_waiting_in_time_and_on_errors, .timeout = 20)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, FI_WRITE, &cntr);
	int64_t start = now_ms();

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	cr_expect_eq(fi_cntr_wait(cntr, 1, 50), -FI_ETIMEDOUT);
	cr_expect_geq(now_ms() - start, 49);
	cr_expect_eq(fi_cntr_wait(cntr, 1, 0), -FI_ETIMEDOUT);
	cr_expect_eq(fi_cntr_wait(cntr, 0, -1), 0);
	fake_fail_all(&rig->fake, FI_EIO, 5);
	cr_expect_eq(fi_cntr_wait(cntr, 1, -1), -FI_EAVAIL);
	close_counted(rig, cntr);
}

/* Whoever waits without end for a commit of a connection that is gone would wait for ever. */
Test(cntr, count_what_a_close_leaves_behind_as_errors)
{
	static const enum fake_on_close ways[] = {FAKE_CLOSE_CANCELS, FAKE_CLOSE_FORGETS};

	for (size_t i = 0; i < 2; i++) {
		struct fid_cntr *cntr;
		struct rig *rig = open_counted((struct rig_options){0}, FI_WRITE, &cntr);

		rig->fake.on_close = ways[i];
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
		accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
		rig_close_ep(rig);
		cr_expect_eq(fi_cntr_readerr(cntr), 2, "close %zu: %llu", i,
			     (unsigned long long) fi_cntr_readerr(cntr));
		cr_expect_eq(fi_cntr_read(cntr), 0);
		close_counted(rig, cntr);
	}
}

/* The application knows its receive by its context, whatever the core was given. */
Test(cntr, do_not_hide_receives_from_cancel)
{
	for (int counted = 0; counted < 2; counted++) {
		struct fid_cntr *cntr;
		struct rig *rig =
			open_counted((struct rig_options){0}, counted ? FI_RECV : FI_WRITE, &cntr);

		accepted(fi_recv(rig->ep, data, 8, NULL, 0, CONTEXT(1)));
		cr_assert_eq(fi_cancel(&rig->ep->fid, CONTEXT(1)), 0, "counted %d", counted);
		rig_expect_error(rig, CONTEXT(1), RIG_RECEIVED, FI_ECANCELED);
		close_counted(rig, cntr);
	}
}

/* The rest of the interface */

Test(cntr, are_set_and_added_to)
{
	struct rig *rig = rig_open(NULL);
	struct fid_cntr *cntr = rig_cntr(rig);

	accepted(fi_cntr_set(cntr, 5));
	accepted(fi_cntr_add(cntr, 2));
	accepted(fi_cntr_seterr(cntr, 1));
	accepted(fi_cntr_adderr(cntr, 3));
	expect_count(cntr, 7, 4);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

Test(cntr, in_use_can_not_be_closed)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, FI_WRITE, &cntr);

	refused(fi_close(&cntr->fid), FI_EBUSY);
	close_counted(rig, cntr);
}

Test(cntr, refuse_what_they_can_not_count)
{
	struct rig *rig = rig_open(&(struct rig_options){.not_enabled = true});
	struct fi_cntr_attr bytes = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
	struct fid_cntr *cntr = rig_cntr(rig), *other;
	struct fid_mr *mr;

	refused(fi_ep_bind(rig->ep, &cntr->fid, FI_REMOTE_WRITE), FI_ENOSYS);
	refused(fi_ep_bind(rig->ep, &cntr->fid, FI_WRITE | FI_REMOTE_READ), FI_ENOSYS);
	accepted(fi_ep_bind(rig->ep, &cntr->fid, FI_WRITE));
	refused(fi_ep_bind(rig->ep, &cntr->fid, FI_WRITE), FI_EINVAL);
	refused(fi_cntr_open(rig->domain, &bytes, &other, NULL), FI_ENOSYS);
	accepted(fi_mr_reg(rig->domain, data, sizeof(data), FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	refused(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), FI_ENOSYS);
	accepted(fi_close(&mr->fid));
	close_counted(rig, cntr);
}

Test(cntr, have_no_object_to_wait_on)
{
	struct fi_cntr_attr flags = {.events = FI_CNTR_EVENTS_COMP, .flags = 1};
	struct fi_cntr_attr unknown = {.events = FI_CNTR_EVENTS_COMP + 1};
	struct rig *rig = rig_open(NULL);
	struct fid_cntr *cntr = rig_cntr(rig), *other;
	enum fi_wait_obj wait = FI_WAIT_FD;

	accepted(fi_control(&cntr->fid, FI_GETWAITOBJ, &wait));
	cr_expect_eq(wait, FI_WAIT_NONE);
	refused(fi_control(&cntr->fid, FI_GETWAIT, &wait), FI_ENOSYS);
	refused(fi_cntr_open(rig->domain, &flags, &other, NULL), FI_ENOSYS);
	refused(fi_cntr_open(rig->domain, &unknown, &other, NULL), FI_ENOSYS);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

Test(cntr, are_shared_by_endpoints)
{
	struct fid_cntr *cntr;
	struct rig *rig = open_counted((struct rig_options){0}, FI_WRITE, &cntr);
	struct fid_ep *first = rig->ep, *second;

	second = rig_ep(rig, rig->cq);
	accepted(fi_ep_bind(second, &cntr->fid, FI_WRITE));
	accepted(fi_enable(second));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
	rig->ep = second;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	fake_complete(&rig->fake, 4);
	expect_count(cntr, 2, 0);
	accepted(fi_close(&first->fid));
	expect_count(cntr, 2, 0);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	fake_complete(&rig->fake, 2);
	expect_count(cntr, 3, 0);
	close_counted(rig, cntr);
}
