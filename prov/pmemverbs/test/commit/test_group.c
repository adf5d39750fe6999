/* SPDX-License-Identifier: BSD-2-Clause */
/* test_group.c -- FI_PMEMVERBS_COMMIT=all: writes that do not ask for it are durable, for few
 * flushes */
#include "test_group.h"

#include <rdma/fi_errno.h>

#include <unistd.h>

#include "commit/submit.h"
#include "objects/ep.h"
#include "objects/cq.h"

/* The reader of the CQ posts the flush. */
static void expect_flushed(struct rig *rig, const char *written, const char *flush)
{
	expect_posted(rig, written);
	rig_expect_nothing(rig);
	expect_posted(rig, flush);
}

/* More than there are requests: what is held back must not keep the flush from coming. */
Test(cover, goes_on_when_no_request_is_left)
{
	struct rig *rig = open_all(NULL);
	struct fi_cq_tagged_entry entry;
	size_t full = 0;

	rig->fake.automatic = true;
	for (size_t i = 0; i < 140000; i++) {
		ssize_t ret = fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_MHP);

		for (int tries = 0; ret == -FI_EAGAIN && tries < 10; tries++) {
			cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAGAIN);
			full++;
			ret = fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_MHP);
		}
		accepted(ret);
	}
	cr_expect_geq(full, 2);
	rig_close(rig);
}

/* One write */

Test(cover, completes_a_write_when_a_flush_behind_it_has)
{
	struct rig *rig = open_all(NULL);

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	expect_flushed(rig, "W", "R");
	cr_expect_eq(rig_post(rig, 1)->op.key, CORE_KEY_MHP);
	cr_expect(rig_post(rig, 1)->op.addr >= ADDR && rig_post(rig, 1)->op.addr < ADDR + LEN);
	rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
	expect_posted(rig, "");
	rig_close(rig);
}

Test(cover, concerns_every_call_that_writes)
{
	static const struct {
		enum testcore_call call;
		const char *written;
		uint64_t flags;
	} cases[] = {
		{TESTCORE_WRITE, "W", RIG_WRITTEN},
		{TESTCORE_WRITEV, "W", RIG_WRITTEN},
		{TESTCORE_WRITEMSG, "W", RIG_WRITTEN},
		{TESTCORE_ATOMICMSG, "A", FI_ATOMIC | FI_WRITE},
		{TESTCORE_FETCH_ATOMICMSG, "A", FI_ATOMIC | FI_READ},
	};
	struct rig *rig = open_all(NULL);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(rig_call(rig, cases[i].call, data, KEY_DMP, CONTEXT(i)), 0, "case %zu",
			     i);
		cr_assert_str_eq(rig_posted(rig), cases[i].written, "case %zu", i);
		rig_expect_nothing(rig);
		cr_assert_str_eq(rig_posted(rig), "R", "case %zu is not flushed", i);
		rig_expect_parts(rig, 2, CONTEXT(i), cases[i].flags);
	}
	rig_close(rig);
}

Test(cover, tells_the_target_only_when_it_is_durable)
{
	struct rig *rig = open_all(NULL);

	accepted(fi_writedata(rig->ep, data, LEN, NULL, DATA, 0, ADDR, KEY_MHP, CONTEXT(1)));
	expect_posted(rig, "W R fW0i");
	accepted(fi_inject_writedata(rig->ep, data, LEN, DATA, 0, ADDR, KEY_MHP));
	expect_posted(rig, "W R fW0i");
	fake_complete(&rig->fake, 6);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(cover, leaves_alone_what_is_not_persistent)
{
	struct rig *rig = open_all(NULL);

	accepted(rig_write(rig, KEY_NONE, CONTEXT(1)));
	accepted(rig_write(rig, KEY_PLAIN, CONTEXT(2)));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(3)));
	accepted(rig_send(rig, CONTEXT(4)));
	expect_posted(rig, "W W R S");
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(rig_post(rig, i)->op.context, CONTEXT(i + 1));
	rig->fake.on_close = FAKE_CLOSE_FORGETS;
	rig_close(rig);
}

Test(cover, of_wsp_is_the_write_alone)
{
	struct rig *rig = open_all(NULL);

	accepted(rig_write(rig, KEY_WSP, CONTEXT(1)));
	expect_posted(rig, "W");
	rig_expect_parts(rig, 1, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* Peers without an agent can have such memory, too. */
Test(cover, of_wsp_asks_no_agent_without_an_order_among_writes)
{
	struct rig *rig;

	pmv_setting.relaxed = true;
	rig = open_all(NULL);
	accepted(fi_inject_atomic(rig->ep, data, 1, 0, ADDR, KEY_WSP, FI_UINT64, FI_SUM));
	rig_expect_nothing(rig);
	expect_posted(rig, "A R");
	fake_complete(&rig->fake, 2);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(cover, refuses_what_nothing_makes_durable)
{
	struct rig *rig = open_all(NULL);

	refused(rig_write(rig, KEY_PAGE, CONTEXT(1)), FI_EOPNOTSUPP);
	refused(fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_DMP_DDIO), FI_EOPNOTSUPP);
	refused(rig_fetch(rig, KEY_PAGE, CONTEXT(1), 0), FI_EOPNOTSUPP);
	expect_posted(rig, "");
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(cover, is_not_there_by_default)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	expect_posted(rig, "W");
	rig_expect_parts(rig, 1, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

Test(cover, leaves_commits_what_they_are)
{
	struct rig *rig = open_all(NULL);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_posted(rig, "W R W R");
	fake_complete(&rig->fake, 4);
	rig_expect_each(rig, 1, 2, RIG_WRITTEN);
	rig_close(rig);
}

/* Many of them */

static void write_some(struct rig *rig, int from, int to)
{
	for (int i = from; i < to; i++)
		accepted(rig_write(rig, i % 2 ? KEY_MHP : KEY_DMP, CONTEXT(i)));
}

Test(cover, pays_one_flush_for_what_is_written_until_somebody_looks)
{
	struct rig *rig = open_all(NULL);

	write_some(rig, 1, 4);
	expect_flushed(rig, "W W W", "R");
	write_some(rig, 4, 9);
	expect_flushed(rig, "W W W W W", "");
	fake_complete(&rig->fake, 3);
	rig_expect_nothing(rig);
	fake_complete(&rig->fake, 1);
	rig_expect_each(rig, 1, 3, RIG_WRITTEN);
	/* Nobody posts anything more. */
	expect_posted(rig, "R");
	fake_complete(&rig->fake, 5);
	rig_expect_nothing(rig);
	fake_complete(&rig->fake, 1);
	rig_expect_each(rig, 4, 8, RIG_WRITTEN);
	expect_posted(rig, "");
	/* And begins anew. */
	write_some(rig, 9, 11);
	expect_flushed(rig, "W W", "R");
	fake_complete(&rig->fake, 3);
	rig_expect_each(rig, 9, 10, RIG_WRITTEN);
	rig_close(rig);
}

/* The agent's thread reads queues as well, but waits for nothing there. */
Test(cover, waits_until_the_application_looks)
{
	struct rig *rig = open_all(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	struct pmv_cq *cq = pmv_to_cq(rig->cq);

	write_some(rig, 1, 3);
	pmv_queue_progress(&cq->queue, false);
	expect_posted(rig, "W W");
	rig_expect_nothing(rig);
	expect_posted(rig, "R");
	fake_complete(&rig->fake, 100);
	rig_expect_each(rig, 1, 2, RIG_WRITTEN);
	/* Whoever sleeps has looked. */
	cr_assert_eq(pmv_cq_trywait(cq), 0);
	write_some(rig, 3, 4);
	cr_assert_eq(pmv_cq_trywait(cq), -FI_EAGAIN);
	pmv_queue_progress(&cq->queue, false);
	expect_posted(rig, "W R");
	rig_expect_parts(rig, 2, CONTEXT(3), RIG_WRITTEN);
	rig_close(rig);
}

Test(cover, never_takes_a_write_that_came_after_the_flush)
{
	struct rig *rig = open_all(NULL);

	write_some(rig, 1, 2);
	expect_flushed(rig, "W", "R");
	write_some(rig, 2, 3);
	/* All three are done; the flush says nothing of the second write. */
	fake_complete(&rig->fake, 3);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(rig);
	expect_posted(rig, "W R");
	fake_complete(&rig->fake, 1);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_close(rig);
}

Test(cover, waits_for_a_write_that_completes_after_its_flush)
{
	struct rig *rig = open_all(NULL);

	write_some(rig, 1, 2);
	expect_flushed(rig, "W", "R");
	fake_report(&rig->fake, 1, 0);
	rig_expect_nothing(rig);
	fake_report(&rig->fake, 0, 0);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* One call reads them all: those of a flush have no place among the core's entries. */
Test(cover, keeps_the_order_of_completions)
{
	struct fi_cq_tagged_entry entries[16];
	struct rig *rig = open_all(NULL);
	int told = 0;
	ssize_t got;

	write_some(rig, 1, 4);
	expect_flushed(rig, "W W W", "R");
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(4), 0));
	accepted(rig_send(rig, CONTEXT(5)));
	fake_complete(&rig->fake, 100);
	while ((got = fi_cq_read(rig->cq, entries, 16)) > 0) {
		for (ssize_t i = 0; i < got; i++)
			cr_assert_eq(entries[i].op_context, CONTEXT(1 + told++), "%d", told);
	}
	cr_expect_eq(got, -FI_EAGAIN);
	cr_expect_eq(told, 5);
	rig_close(rig);
}

/* A fence waits for completions, so it must not complete before them. */
Test(cover, holds_back_a_fence)
{
	static const uint64_t flags[] = {FI_FENCE, FI_FENCE | FI_COMMIT};

	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = open_all(NULL);

		accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
		refused(rig_writemsg(rig, KEY_MHP, CONTEXT(2), flags[i]), FI_EAGAIN);
		expect_posted(rig, "W R");
		refused(rig_sendmsg(rig, CONTEXT(2), FI_FENCE), FI_EAGAIN);
		fake_complete(&rig->fake, 2);
		accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(2), flags[i]));
		rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
		fake_complete(&rig->fake, 100);
		rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
		rig_close(rig);
	}
}

Test(cover, waits_for_room_for_the_flush)
{
	struct rig *rig = open_all(NULL);

	rig->fake.room = 1;
	write_some(rig, 1, 2);
	expect_posted(rig, "W");
	fake_complete(&rig->fake, 1);
	rig_expect_nothing(rig);
	refused(rig_write(rig, KEY_MHP, CONTEXT(2)), FI_EAGAIN);
	rig->fake.room = -1;
	rig_expect_nothing(rig);
	expect_posted(rig, "R");
	fake_complete(&rig->fake, 1);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* A flush reads a byte of what it is for. */
Test(cover, takes_nothing_injected_without_a_byte)
{
	struct rig *rig = open_all(NULL);

	accepted(fi_inject_atomic(rig->ep, data, 0, 0, ADDR, KEY_MHP, FI_UINT64, FI_SUM));
	expect_posted(rig, "A0");
	rig_expect_nothing(rig);
	expect_posted(rig, "");
	fake_complete(&rig->fake, 1);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(cover, counts_and_injects)
{
	struct rig *rig = open_all(&(struct rig_options){.not_enabled = true});
	struct fid_cntr *cntr = rig_count(rig, FI_WRITE);

	accepted(fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_MHP));
	expect_posted(rig, "W");
	cr_expect(rig_post(rig, 0)->op.flags & FI_INJECT);
	cr_expect_eq(fi_cntr_read(cntr), 0);
	expect_posted(rig, "R");
	accepted(fi_inject_write(rig->ep, data, 8, 0, ADDR, KEY_MHP));
	expect_posted(rig, "W");
	fake_complete(&rig->fake, 1);
	cr_expect_eq(fi_cntr_read(cntr), 0);
	fake_complete(&rig->fake, 2);
	cr_expect_eq(fi_cntr_read(cntr), 1, "the second one is not flushed yet");
	expect_posted(rig, "R");
	fake_complete(&rig->fake, 1);
	cr_expect_eq(fi_cntr_read(cntr), 2);
	accepted(fi_inject_atomic(rig->ep, data, 1, 0, ADDR, KEY_MHP, FI_UINT64, FI_SUM));
	expect_posted(rig, "A");
	cr_expect_eq(fi_cntr_read(cntr), 2);
	expect_posted(rig, "R");
	fake_complete(&rig->fake, 2);
	cr_expect_eq(fi_cntr_read(cntr), 3);
	rig_expect_nothing(rig);
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

Test(cover, reports_nothing_that_was_not_asked_for)
{
	struct rig *rig = open_all(&(struct rig_options){.selective = true});

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(2), FI_COMPLETION));
	expect_flushed(rig, "W W", "R");
	fake_complete(&rig->fake, 3);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* What goes wrong */

Test(cover, fails_each_write_once_with_its_flush)
{
	struct rig *rig = open_all(NULL);

	write_some(rig, 1, 2);
	expect_flushed(rig, "W", "R");
	write_some(rig, 2, 4);
	expect_posted(rig, "W W");
	fake_report(&rig->fake, 0, 0);
	cr_assert_eq(fake_fail_all(&rig->fake, FI_EIO, 7), 3);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	/* Their own failure is known, and the next flush fails as well. */
	rig_expect_nothing(rig);
	expect_posted(rig, "R");
	fake_fail_all(&rig->fake, FI_ECANCELED, 0);
	rig_expect_error(rig, CONTEXT(2), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_error(rig, CONTEXT(3), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(cover, fails_with_the_write_itself)
{
	struct rig *rig = open_all(NULL);

	write_some(rig, 1, 2);
	expect_flushed(rig, "W", "R");
	fake_report(&rig->fake, 0, FI_EIO);
	fake_report(&rig->fake, 1, 0);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_nothing(rig);
	rig_close(rig);
}

static void close_early(enum fake_on_close on_close)
{
	struct rig *rig = open_all(NULL);

	write_some(rig, 1, 2);
	rig_expect_nothing(rig);
	write_some(rig, 2, 4);
	rig->fake.on_close = on_close;
	rig_close_ep(rig);
	for (int told = 0; told < 3; told++) {
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry error = {0};

		cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL, "%d told", told);
		cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
		cr_expect_eq(error.err, FI_ECANCELED);
	}
	rig_expect_nothing(rig);
	/* Late answers are nobody's. */
	for (size_t i = 0; on_close == FAKE_CLOSE_FORGETS && i < 4; i++)
		fake_report(&rig->fake, i, 0);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(cover, of_a_closed_endpoint_is_one_error_for_each_write)
{
	close_early(FAKE_CLOSE_CANCELS);
	close_early(FAKE_CLOSE_FORGETS);
}

Test(cover, of_closed_endpoints_loses_no_requests)
{
	struct rig *rig = open_all(NULL);
	struct pmv_op_pool *pool = &pmv_to_domain(rig->domain)->ops;
	size_t used = 0;

	for (int round = 0; round < 10; round++) {
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry error = {0};

		write_some(rig, 1, 4);
		rig_close_ep(rig);
		while (fi_cq_read(rig->cq, &entry, 1) == -FI_EAVAIL)
			cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
		if (!round)
			used = pool->used;
		cr_assert_eq(pool->used, used, "round %d", round);
		rig->ep = rig_ep(rig, rig->cq);
	}
	rig_close(rig);
}
