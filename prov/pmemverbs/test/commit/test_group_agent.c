/* SPDX-License-Identifier: BSD-2-Clause */
/* test_group_agent.c -- FI_PMEMVERBS_COMMIT=all: by the agent, of files and over RxM */
#include "test_group.h"

#include <rdma/fi_errno.h>

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "commit/hooks.h"
#include "commit/submit.h"
#include "objects/ep.h"
#include "memory/key.h"
#include "objects/cq.h"

/* By the agent */

static void put_some(struct pair *pair, enum pair_memory memory, int from, int to)
{
	for (int i = from; i < to; i++)
		accepted(pair_put(pair, memory, (size_t) i * 512, 64, CONTEXT(i), 0));
}

Test(cover, by_the_agent_is_one_request_for_what_is_written_during_another)
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

/* put_and_answer -- of two queues, so that the end of the flush is not read yet */
static struct pair *put_and_answer(void)
{
	struct pair *pair = open_pair(
		&(struct pair_options){.home = {.wait_obj = FI_WAIT_FD, .own_rx_cq = true}});

	put_some(pair, DMP, 1, 2);
	rig_expect_nothing(pair->home);
	expect_sent(pair, "W M");
	pair_deliver(pair);
	pair_serve(pair);
	return pair;
}

/* Whoever reads the first queue asks the agent again: its answer is to wake the other one, too. */
Test(cover, has_who_sleeps_on_the_other_queue_wait_for_an_answer)
{
	struct pair *pair = put_and_answer();
	struct pmv_queue *rx = &pmv_to_cq(pair->home->rx_cq)->queue;
	struct pollfd fd = {.fd = rx->epoll_fd, .events = POLLIN};
	struct fi_cq_tagged_entry entry;

	pmv_setting.agent = PMV_AGENT_OFF;
	refused(fi_cq_read(pair->home->rx_cq, &entry, 1), FI_EAGAIN);
	cr_expect_eq(pmv_queue_pending(rx), PMV_PENDING_FLUSH);
	accepted(pmv_cq_trywait(pmv_to_cq(pair->home->rx_cq)));
	put_some(pair, DMP, 2, 3);
	cr_expect_eq(poll(&fd, 1, 0), 0);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	cr_expect_eq(poll(&fd, 1, 0), 1);
	cr_expect_eq(pmv_queue_pending(rx), PMV_PENDING_ACKS);
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	pair_close(pair);
}

/* Whoever sleeps then waits for more than an acknowledgement. */
Test(cover, of_a_write_is_to_be_posted_also_while_the_agent_is_asked)
{
	struct pair *pair = open_pair(NULL);
	struct pmv_queue *queue = &pmv_to_cq(pair->home->cq)->queue;

	accepted(pair_put(pair, DMP, 512, 64, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(pmv_queue_pending(queue), PMV_PENDING_ACKS);
	put_some(pair, DMP, 2, 3);
	cr_expect_eq(pmv_queue_pending(queue), PMV_PENDING_POSTS);
	pmv_queue_progress(queue, false);
	cr_expect_eq(pmv_queue_pending(queue), PMV_PENDING_POSTS);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
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

/* A READ pushes nothing there but what it reads: all that the request names. */
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

/* More regions than a message names, none of which the agent knows. */
Test(cover, by_the_agent_of_many_regions_takes_several_messages)
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
	int fd = memfd_create("test_group", 0);
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
	struct iovec iov = {data, 0};
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &rma_iov, .rma_iov_count = 1};
	struct pmv_submission commit = {
		.what = FI_RMA | FI_WRITE,
		.to = &rma_iov,
		.num_to = 1,
		.context = CONTEXT(1),
		.flags = FI_COMMIT | FI_COMPLETION,
		.rma = &msg,
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

/* go_on -- the application looks at its counter, if there is one, or its queue */
static void go_on(struct pair *pair, struct fid_cntr *cntr)
{
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 6; i++) {
		if (cntr)
			fi_cntr_read(cntr);
		else
			cr_expect_eq(fi_cq_read(pair->home->cq, &entry, 1), -FI_EAGAIN);
		pair_round(pair);
	}
}

/* tells_once -- an earlier operation failed, of which there is no entry: one fence is refused */
static void tells_once(struct pair *pair)
{
	cr_expect_eq(pair_put(pair, DMP, 4096, 64, CONTEXT(2), FI_COMMIT | FI_FENCE),
		     -FI_ECANCELED);
	cr_expect_not(pair_survives(pair, DMP, 4096, 64));
	accepted(pair_put(pair, DMP, 4096, 64, CONTEXT(2), FI_COMMIT | FI_FENCE));
}

Test(cover, that_fails_of_what_was_injected_is_told_by_the_next_fence)
{
	struct pair *pair = open_pair(NULL);

	pair->sync_fails = true;
	pair_inject(pair, PAGE, 0, 64);
	go_on(pair, NULL);
	tells_once(pair);
	pair_close(pair);
}

Test(fence, tells_of_a_failure_where_there_are_counters_only)
{
	struct pair *pair =
		pair_open(&(struct pair_options){.home = {.not_enabled = true, .no_cq = true}});
	struct fid_cntr *cntr = rig_count(pair->home, FI_WRITE);

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(1), FI_COMMIT));
	go_on(pair, cntr);
	tells_once(pair);
	go_on(pair, cntr);
	rig_close_ep(pair->home);
	accepted(fi_close(&cntr->fid));
	pair_close(pair);
}

/* With FI_EP_RDM: long before the application hears of it. */
Test(fence, behind_a_failure_that_a_layer_above_has_read_is_refused_once)
{
	static const struct pmv_hooks hooks;
	struct pair *pair = pair_open(NULL);
	struct pmv_initiator *ini = &pair->from->initiator;

	pair->sync_fails = true;
	accepted(pair_put(pair, PAGE, 0, 64, CONTEXT(1), FI_COMMIT));
	ini->hooks = &hooks;
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	ini->hooks = NULL;
	tells_once(pair);
	pair_close(pair);
}

/* Nothing is to be answered: who sleeps on the other queue, without an agent's thread, may sleep.
 */
Test(cover, lets_who_reads_the_other_queue_sleep_without_an_agents_thread)
{
	struct pair *pair = put_and_answer();
	struct fi_cq_tagged_entry entry;

	pmv_setting.agent = PMV_AGENT_OFF;
	refused(fi_cq_read(pair->home->rx_cq, &entry, 1), FI_EAGAIN);
	cr_expect_not(atomic_load(&pair->from->mailbox.sender.unacked));
	accepted(pmv_cq_trywait(pmv_to_cq(pair->home->rx_cq)));
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}
