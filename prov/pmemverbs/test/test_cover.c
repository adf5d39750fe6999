/* SPDX-License-Identifier: BSD-2-Clause */
/* test_cover.c -- FI_PMEMVERBS_COMMIT=all: writes that do not ask for it are durable, for few
 * flushes */
#include <rdma/fi_errno.h>

#include <sys/mman.h>
#include <unistd.h>

#include "commit/submit.h"
#include "objects/ep.h"
#include "memory/key.h"
#include "objects/cq.h"
#include "pair.h"

static char data[LEN];

static struct rig *open_all(const struct rig_options *options)
{
	pmv_setting.commit_all = true;
	return rig_open(options);
}

static struct pair *open_pair(const struct pair_options *options)
{
	pmv_setting.commit_all = true;
	return pair_open(options);
}

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
	pmv_queue_progress(&cq->queue);
	expect_posted(rig, "W W");
	rig_expect_nothing(rig);
	expect_posted(rig, "R");
	fake_complete(&rig->fake, 100);
	rig_expect_each(rig, 1, 2, RIG_WRITTEN);
	/* Who sleeps has looked. */
	cr_assert_eq(pmv_cq_trywait(cq), 0);
	write_some(rig, 3, 4);
	cr_assert_eq(pmv_cq_trywait(cq), -FI_EAGAIN);
	pmv_queue_progress(&cq->queue);
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

/* By the agent */

static void put_some(struct pair *pair, enum pair_memory memory, int from, int to)
{
	for (int i = from; i < to; i++)
		accepted(pair_put(pair, memory, (size_t) i * 512, 64, CONTEXT(i), 0));
}

Test(cover, by_the_agent_is_one_letter_for_what_is_written_during_another)
{
	struct pair *pair = open_pair(NULL);

	put_some(pair, DMP, 1, 2);
	expect_sent(pair, "W");
	rig_expect_nothing(pair->home);
	expect_sent(pair, "M");
	put_some(pair, DMP, 2, 5);
	expect_sent(pair, "W W W");
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pair_serve(pair);
	cr_expect(pair_survives(pair, DMP, 512, 64));
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "M");
	cr_expect_not(pair_survives(pair, DMP, 1024, 64));
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pair_serve(pair);
	for (int i = 2; i < 5; i++) {
		cr_expect(pair_survives(pair, DMP, (size_t) i * 512, 64));
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	}
	rig_expect_nothing(pair->home);
	expect_sent(pair, "");
	pair_close(pair);
}

Test(cover, asks_whom_each_region_needs)
{
	struct pair *pair = open_pair(NULL);

	put_some(pair, MHP, 1, 2);
	put_some(pair, DMP, 2, 3);
	put_some(pair, READ_DMP, 3, 4);
	put_some(pair, PAGE, 4, 5);
	put_some(pair, PAGE, 5, 6);
	expect_sent(pair, "W W W W W");
	rig_expect_nothing(pair->home);
	expect_sent(pair, "R fM");
	pair_deliver(pair);
	rig_expect_nothing(pair->home);
	pair_serve(pair);
	for (int i = 1; i < 6; i++)
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	cr_expect(pair_survives(pair, DMP, 2 * 512, 64));
	cr_expect(pair_survives(pair, PAGE, 4 * 512, 64));
	cr_expect(pair_survives(pair, PAGE, 5 * 512, 64));
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* A READ pushes nothing there but what it reads: all that the letter is about. */
Test(cover, without_an_order_among_writes_reads_back_what_was_written)
{
	struct pair *pair;

	pmv_setting.relaxed = true;
	pair = open_pair(NULL);
	put_some(pair, DMP, 1, 2);
	put_some(pair, MHP, 2, 3);
	expect_sent(pair, "W W");
	rig_expect_nothing(pair->home);
	expect_sent(pair, "R R fM");
	for (unsigned int i = 1; i <= 2; i++) {
		const struct fake_post *read = pair_post(pair, i);
		bool is_mhp = read->op.key == (uint32_t) pair_key(pair, MHP);

		cr_expect_eq(read->op.len, 64);
		cr_expect_eq(read->op.addr,
			     pair_addr(pair, is_mhp ? MHP : DMP, is_mhp ? 2 * 512 : 512));
	}
	cr_expect_neq(pair_post(pair, 1)->op.key, pair_post(pair, 2)->op.key);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* More regions than a letter names, none of which the agent knows. */
Test(cover, by_the_agent_of_many_regions_takes_several_letters)
{
	struct pair *pair = open_pair(NULL);
	bool told[10] = {false};

	for (int i = 0; i < 10; i++)
		accepted(rig_write(pair->home, rig_key(0x70 + (uint32_t) i, PMV_DMP, true),
				   CONTEXT(i)));
	expect_sent(pair, "W W W W W W W W W W");
	for (int i = 0; i < 10; i++) {
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry error = {0};
		int tries = 0;
		ssize_t n;

		while (fi_cq_read(pair->home->cq, &entry, 1) != -FI_EAVAIL) {
			cr_assert_lt(tries++, 10, "%d are told", i);
			pair_round(pair);
		}
		cr_assert_eq(fi_cq_readerr(pair->home->cq, &error, 0), 1);
		n = ((char *) error.op_context - (char *) CONTEXT(0)) / 16;
		cr_assert(n >= 0 && n < 10 && !told[n]);
		told[n] = true;
		cr_expect_eq(error.err, FI_EACCES);
	}
	rig_expect_nothing(pair->home);
	expect_sent(pair, "M M");
	pair_close(pair);
}

Test(cover, by_an_agent_that_fails_is_an_error)
{
	struct pair *pair = open_pair(NULL);

	pair->sync_fails = true;
	put_some(pair, PAGE, 1, 2);
	rig_expect_nothing(pair->home);
	pair_deliver(pair);
	pair_serve(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

/* What memory is found to be persistent */

static bool is_pmem_key(struct rig *rig, void *addr, size_t len, uint64_t flags)
{
	struct pmv_attr attr;
	struct fid_mr *mr;

	accepted(fi_mr_reg(rig->domain, addr, len, FI_REMOTE_WRITE, 0, 0, flags, &mr, NULL));
	cr_assert(pmv_key_unpack(fi_mr_key(mr), &attr));
	cr_expect_eq(attr.persist, attr.pmem ? PMV_MHP : PMV_NONE);
	cr_expect(attr.readable);
	accepted(fi_close(&mr->fid));
	return attr.pmem;
}

Test(cover, finds_shared_files_and_nothing_else)
{
	size_t len = (size_t) sysconf(_SC_PAGESIZE);
	int fd = memfd_create("test_cover", 0);
	struct rig *rig;
	void *file, *copy, *anonymous;

	cr_assert_eq(ftruncate(fd, (off_t) len), 0);
	file = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	anonymous = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* A file in memory is only what it is declared to be. */
	rig = open_all(NULL);
	cr_expect_not(is_pmem_key(rig, file, len, 0));
	rig_close(rig);

	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_MHP;
	rig = open_all(NULL);
	cr_expect(is_pmem_key(rig, file, len, 0));
	cr_expect_not(is_pmem_key(rig, copy, len, 0));
	cr_expect_not(is_pmem_key(rig, anonymous, len, 0));
	cr_expect(is_pmem_key(rig, anonymous, len, FI_PMEM), "who says so is believed");
	rig_close(rig);

	pmv_setting.commit_all = false;
	rig = rig_open(NULL);
	cr_expect_not(is_pmem_key(rig, file, len, 0));
	rig_close(rig);
}

/* Atomics over RxM, whose commit writes nothing: rdm_ep.c */

static void commit_changed(struct pair *pair, enum pair_memory memory, size_t offset, size_t len)
{
	const struct fi_rma_iov rma_iov = {
		.addr = pair_addr(pair, memory, offset),
		.key = pair_key(pair, memory),
	};
	const struct fi_rma_iov core_rma_iov = {
		.addr = rma_iov.addr,
		.key = pmv_key_core(rma_iov.key),
	};
	struct iovec iov = {data, 0};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &core_rma_iov, .rma_iov_count = 1};
	const struct pmv_submission commit = {
		.what = FI_RMA | FI_WRITE,
		.to = &rma_iov,
		.num_to = 1,
		.context = CONTEXT(1),
		.flags = FI_COMMIT | FI_COMPLETION,
		.wr = {.kind = PMV_WR_WRITE, .rma = &msg},
		.changed = len,
	};

	accepted(pmv_submit(&pair->from->initiator, &commit));
}

/* Whatever a NIC's writes there need: these were the processor's. */
Test(cover, has_the_agent_flush_what_the_processor_there_has_changed)
{
	static const struct {
		enum pair_memory memory;
		char what;
	} cases[] = {{DMP, 'F'}, {READ_DMP, 'F'}, {PAGE, 'Y'}};
	struct pair *pair = open_pair(NULL);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		commit_changed(pair, cases[i].memory, 4096, 8);
		expect_sent(pair, "W0 M");
		rig_expect_nothing(pair->home);
		pair_round(pair);
		cr_assert_not_null(pair_event(pair, cases[i].what, i == 1));
		cr_expect(pair_is(pair, pair_event(pair, cases[i].what, i == 1), cases[i].memory,
				  4096, 8));
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect_nothing(pair->home);
	}
	pair_close(pair);
}
