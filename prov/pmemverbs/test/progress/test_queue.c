/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_queue.c -- errors in a queue: where they stand, and what their entries say; and what happens
 * if nobody reads
 */
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "objects/cq.h"
#include "test/support/rig.h"

Test(errors, keep_their_place_between_successes)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_write(rig, KEY_MHP, CONTEXT(2)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(3), 0));
	rig_end_part(rig, 0);
	rig_end_part(rig, 0);
	rig_end_part(rig, FI_EIO);
	fake_complete(&rig->fake, 3);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_each(rig, 2, 3, RIG_WRITTEN);
	rig_close(rig);
}

Test(errors, behind_successes_wait_until_those_are_read)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entries[8];

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	fake_complete(&rig->fake, 3);
	rig_end_part(rig, FI_EIO);
	fake_complete(&rig->fake, 2);
	cr_assert_eq(fi_cq_read(rig->cq, entries, 8), 1);
	cr_expect_eq(entries[0].op_context, CONTEXT(0));
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_close(rig);
}

Test(errors, of_plain_operations_are_those_of_the_core)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	int vendor = 0;

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	fake_fail(&rig->fake, FI_EIO, 4711);
	error.err_data = &vendor;
	error.err_data_size = sizeof(vendor);
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_expect_eq(error.op_context, CONTEXT(1));
	cr_expect_eq(error.flags, RIG_WRITTEN);
	cr_expect_eq(error.err, FI_EIO);
	cr_expect_eq(error.prov_errno, 4711);
	cr_expect_eq(error.len, FAKE_LEN(LEN));
	cr_expect_eq(error.buf, FAKE_BUF);
	cr_expect_eq(error.data, FAKE_DATA);
	cr_expect_eq(error.tag, FAKE_TAG);
	cr_expect_eq(error.err_data, &vendor);
	cr_expect_eq(error.err_data_size, sizeof(vendor));
	cr_expect_eq(vendor, 4711);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* RxM would look at the operation that such an error names. */
Test(errors, of_injected_writes_are_kept_from_rxm)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_MHP, NULL));
	fake_fail(&rig->fake, FI_ENOTCONN, 0);
	rig_expect_error(rig, NULL, RIG_WRITTEN, FI_ENOTCONN);
	pmv_to_cq(rig->cq)->queue.contexts = true;
	accepted(rig_write(rig, KEY_MHP, NULL));
	fake_fail(&rig->fake, FI_ENOTCONN, 0);
	rig_expect_nothing(rig);
	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	fake_fail(&rig->fake, FI_ENOTCONN, 0);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_ENOTCONN);
	rig_close(rig);
}

Test(errors, fill_no_more_err_data_than_there_is_room_for)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	unsigned char data[4] = {0xa5, 0xa5, 0xa5, 0xa5};

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	fake_fail(&rig->fake, FI_EIO, 4711);
	error.err_data = data;
	error.err_data_size = 2;
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_expect_leq(error.err_data_size, 2);
	cr_expect_eq(data[2], 0xa5);
	cr_expect_eq(data[3], 0xa5);
	rig_close(rig);
}

Test(errors, are_not_longer_than_an_old_application_knows)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {.err_data_size = 0xa5a5};

	rig->fabric.fabric_fid.api_version = FI_VERSION(1, 4);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	fake_fail_all(&rig->fake, FI_EIO, 5);
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_expect_eq(error.op_context, CONTEXT(1));
	cr_expect_eq(error.err, FI_EIO);
	cr_expect_eq(error.err_data_size, 0xa5a5);
	rig_close(rig);
}

/* What comes behind err_data_size is since 1.20. */
Test(errors, leave_what_is_behind_the_entry_of_1_17_alone)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entry;
	union {
		struct fi_cq_err_entry entry;
		unsigned char bytes[sizeof(struct fi_cq_err_entry)];
	} error;

	memset(&error, 0xa5, sizeof(error));
	error.entry.err_data_size = 0;
	rig->fabric.fabric_fid.api_version = FI_VERSION(1, 17);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	fake_fail_all(&rig->fake, FI_EIO, 5);
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	/* Not fi_cq_readerr: newer headers write to it before they call. */
	cr_assert_eq(rig->cq->ops->readerr(rig->cq, &error.entry, 0), 1);
	cr_expect_eq(error.entry.err, FI_EIO);
	cr_expect_eq(error.entry.err_data_size, 0);
	for (size_t i = offsetof(struct fi_cq_err_entry, err_data_size) + sizeof(size_t);
	     i < sizeof(error.bytes); i++)
		cr_expect_eq(error.bytes[i], 0xa5, "byte %zu", i);
	rig_close(rig);
}

Test(errors, there_are_none_to_read_if_there_are_none)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_err_entry error = {0};

	cr_expect_eq(fi_cq_readerr(rig->cq, &error, 0), -FI_EAGAIN);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	cr_expect_eq(fi_cq_readerr(rig->cq, &error, 0), -FI_EAGAIN);
	fake_complete(&rig->fake, 2);
	cr_expect_eq(fi_cq_readerr(rig->cq, &error, 0), -FI_EAGAIN);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* A queue that is not read */

static struct pmv_queue *queue_of(struct rig *rig)
{
	return &pmv_to_cq(rig->cq)->queue;
}

/* written -- writes from CONTEXT(first) on, that have ended, and were taken from the core */
static void written(struct rig *rig, int first, int count)
{
	for (int i = 0; i < count; i++)
		accepted(rig_write(rig, KEY_MHP, CONTEXT(first + i)));
	cr_assert_eq(fake_complete(&rig->fake, count), count);
	pmv_queue_progress(queue_of(rig), false);
}

Test(unread, entries_are_taken_from_the_core_all_the_same)
{
	const int many = 3 * 1024 + 500;
	struct rig *rig = rig_open(&(struct rig_options){.cq_size = 64});

	written(rig, 0, many);
	cr_expect_eq(atomic_load(&queue_of(rig)->num_ready), many);
	rig_expect_each(rig, 0, many - 1, RIG_WRITTEN);
	rig_close(rig);
}

Test(unread, entries_are_in_every_format)
{
	for (int format = FI_CQ_FORMAT_CONTEXT; format <= FI_CQ_FORMAT_TAGGED; format++) {
		struct rig *rig = rig_open(&(struct rig_options){.format = format});
		char entries[3 * sizeof(struct fi_cq_tagged_entry)];

		written(rig, 1, 3);
		cr_assert_eq(fi_cq_read(rig->cq, entries, 3), 3);
		for (int i = 0; i < 3; i++)
			cr_expect_eq(*(void **) (entries + i * queue_of(rig)->entry_size),
				     CONTEXT(1 + i));
		rig_close(rig);
	}
}

Test(unread, entries_in_one_go_are_limited)
{
	const int many = 10000;
	struct rig *rig = rig_open(NULL);
	size_t taken;

	written(rig, 0, many);
	taken = atomic_load(&queue_of(rig)->num_ready);
	cr_expect_lt(taken, many);
	for (int i = 0; i < 3 && taken < (size_t) many; i++) {
		pmv_queue_progress(queue_of(rig), false);
		taken = atomic_load(&queue_of(rig)->num_ready);
	}
	cr_expect_eq(taken, many);
	rig_expect_each(rig, 0, many - 1, RIG_WRITTEN);
	rig_close(rig);
}

/* unasked -- entries of what the application has not posted: they have no context */
static void unasked(struct rig *rig, int count)
{
	for (int i = 0; i < count; i++)
		accepted(rig_write(rig, KEY_MHP, NULL));
	cr_assert_eq(fake_complete(&rig->fake, count), count);
	pmv_queue_progress(queue_of(rig), false);
}

static void expect_overrun(struct rig *rig)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};

	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_expect_eq(error.err, FI_EOVERRUN);
	cr_expect_null(error.op_context);
}

Test(unread, entries_that_are_too_many_are_dropped_and_that_is_told)
{
	struct rig *rig = rig_open(NULL);

	queue_of(rig)->most = 100;
	for (int round = 0; round < 3; round++) {
		written(rig, 0, 100);
		unasked(rig, 50);
		for (int i = 0; i < 10; i++)
			rig_expect(rig, CONTEXT(i), RIG_WRITTEN);
		/* There is room again, behind those that were dropped. */
		written(rig, 200, 5);
		for (int i = 10; i < 100; i++)
			rig_expect(rig, CONTEXT(i), RIG_WRITTEN);
		expect_overrun(rig);
		rig_expect_each(rig, 200, 204, RIG_WRITTEN);
		rig_expect_nothing(rig);
	}
	rig_close(rig);
}

Test(unread, entries_of_operations_are_kept)
{
	struct rig *rig = rig_open(NULL);

	queue_of(rig)->most = 2;
	unasked(rig, 3);
	written(rig, 0, 2);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(4), 0));
	fake_fail_all(&rig->fake, FI_EIO, 5);
	pmv_queue_progress(queue_of(rig), false);
	rig_expect(rig, NULL, RIG_WRITTEN);
	rig_expect(rig, NULL, RIG_WRITTEN);
	expect_overrun(rig);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect_error(rig, CONTEXT(4), RIG_WRITTEN, FI_EIO);
	rig_close(rig);
}

/* A peer that sends immediate data without end costs nobody the end of a commit. */
Test(unread, entries_of_what_was_posted_are_kept_of_receives_if_they_were_not_cancelled)
{
	struct rig *rig = rig_open(NULL);
	static char buf[8];

	queue_of(rig)->most = 1;
	unasked(rig, 2);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	cr_assert_eq(fake_complete(&rig->fake, 2), 2);
	pmv_queue_progress(queue_of(rig), false);
	for (int i = 2; i < 4; i++) {
		accepted(fi_recv(rig->ep, buf, 8, NULL, 0, CONTEXT(i)));
		cr_assert(fake_receive(&rig->fake, i == 2 ? FI_ECANCELED : FI_ETRUNC));
		pmv_queue_progress(queue_of(rig), false);
	}
	rig_expect(rig, NULL, RIG_WRITTEN);
	expect_overrun(rig);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect_error(rig, CONTEXT(3), RIG_RECEIVED, FI_ETRUNC);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* RxM would take FI_EOVERRUN for the error of an operation, and counts on all that it has posted.
 */
Test(unread, entries_of_rxm_are_kept)
{
	struct rig *rig = rig_open(NULL);

	queue_of(rig)->contexts = true;
	queue_of(rig)->most = 2;
	written(rig, 0, 5);
	accepted(rig_write(rig, KEY_MHP, NULL));
	fake_complete(&rig->fake, 1);
	pmv_queue_progress(queue_of(rig), false);
	rig_expect_each(rig, 0, 4, RIG_WRITTEN);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(unread, entries_of_a_queue_that_nobody_can_read_are_not_kept)
{
	struct rig *rig = rig_open(NULL);

	queue_of(rig)->discards = true;
	written(rig, 0, 5);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(unread, entries_go_with_the_queue)
{
	struct rig *rig = rig_open(NULL);

	queue_of(rig)->most = 5;
	written(rig, 0, 10);
	rig_close(rig);
}

/* A message without a receive leaves it so. */
Test(news, are_told_once_also_if_the_descriptor_stays_ready)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	struct pollfd fd = {.events = POLLIN};
	struct pmv_queue *queue;
	struct fid_cq *cq;

	rig->core.manual_progress = true;
	cq = rig_cq(rig);
	queue = &pmv_to_cq(cq)->queue;
	fd.fd = queue->epoll_fd;
	for (int i = 0; i < 3; i++) {
		accepted(eventfd_write(queue->core_fd, 1));
		cr_expect_eq(pmv_queue_await_news(queue, 0), 1);
		cr_expect_eq(pmv_queue_await_news(queue, 0), 0);
		cr_expect_eq(poll(&fd, 1, 0), 1, "it stays ready");
	}
	pmv_queue_wake(queue);
	cr_expect_eq(pmv_queue_await_news(queue, 0), 1);
	cr_expect_eq(pmv_queue_arm(queue), 1);
	cr_expect_eq(pmv_queue_await_news(queue, 0), 0);
	accepted(fi_close(&cq->fid));
	rig->core.manual_progress = false;
	rig_close(rig);
}
