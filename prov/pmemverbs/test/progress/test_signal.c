/* SPDX-License-Identifier: BSD-2-Clause */
/* test_signal.c -- what a core's queue wakes sleepers by is masked only while nobody sleeps */
#include <string.h>
#include <sys/eventfd.h>

#include <rdma/fabric.h>

#include "engine/core.h"
#include "objects/cq.h"
#include "progress/signal.h"
#include "test/support/rig.h"
#include "test/support/signal_pair.h"

static struct signal_pair pair;
static struct pmv_signal mask;

static void begin(void)
{
	signal_pair_open(&pair);
	pmv_signal_find(&mask, pair.epoll_fd);
	signal_pair_raise(&pair);
}

/* find_entries -- so often that the pair is masked, unless somebody may sleep */
static void find_entries(void)
{
	for (unsigned int i = 0; i < PMV_SIGNAL_FINDS; i++)
		pmv_signal_found(&mask);
}

static void *arm(void *arg)
{
	(void) arg;
	accepted(pmv_signal_arm(&mask));
	return NULL;
}

static void *arm_and_read(void *arg)
{
	accepted(pmv_signal_arm(&mask));
	pmv_signal_read(&mask);
	return arg;
}

/* in_a_thread -- in another one than the test's */
static void in_a_thread(void *(*run)(void *arg))
{
	pthread_t thread;

	accepted(pthread_create(&thread, NULL, run, NULL));
	accepted(pthread_join(thread, NULL));
}

Test(signal, is_found_as_the_core_has_made_it)
{
	begin();
	cr_expect_eq(mask.fd, pair.fds[0]);
	cr_expect_eq(mask.data, SIGNAL_DATA);
	cr_expect(mask.events & EPOLLIN);
	signal_pair_close(&pair);
}

/* libfabric's, before 1.18; the name of later ones' sockets does not matter. */
Test(signal, is_found_in_a_queue_of_tcp)
{
	struct fi_cq_attr attr = {.wait_obj = FI_WAIT_FD, .format = FI_CQ_FORMAT_DATA};
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	int fd;

	hints->ep_attr->type = FI_EP_MSG;
	hints->fabric_attr->prov_name = strdup("tcp");
	accepted(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	accepted(fi_fabric(info->fabric_attr, &fabric, NULL));
	accepted(fi_domain(fabric, info, &domain, NULL));
	accepted(fi_cq_open(domain, &attr, &cq, NULL));
	accepted(fi_control(&cq->fid, FI_GETWAIT, &fd));
	pmv_signal_find(&mask, fd);
	cr_expect(mask.fd >= 0 || FI_VERSION_GE(fi_version(), FI_VERSION(1, 18)));
	accepted(fi_close(&cq->fid));
	accepted(fi_close(&domain->fid));
	accepted(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

Test(signal, is_none_if_there_is_anything_else)
{
	struct signal_pair other;
	int event_fd = eventfd(0, 0);

	begin();
	signal_pair_open(&other);
	signal_pair_add(&pair, other.fds[0]);
	pmv_signal_find(&mask, pair.epoll_fd);
	cr_expect_eq(mask.fd, -1, "there are two");
	cr_assert_eq(epoll_ctl(other.epoll_fd, EPOLL_CTL_DEL, other.fds[0], NULL), 0);
	pmv_signal_find(&mask, other.epoll_fd);
	cr_expect_eq(mask.fd, -1, "there is nothing");
	signal_pair_add(&other, event_fd);
	pmv_signal_find(&mask, other.epoll_fd);
	cr_expect_eq(mask.fd, -1, "it is no socket");
	pmv_signal_find(&mask, event_fd);
	cr_expect_eq(mask.fd, -1, "it is no epoll");
	find_entries();
	cr_expect_not(mask.masked);
	close(event_fd);
	signal_pair_close(&other);
	signal_pair_close(&pair);
}

Test(signal, is_masked_until_somebody_is_about_to_sleep)
{
	struct epoll_event event;

	begin();
	cr_expect(signal_pair_wakes(&pair));
	for (unsigned int i = 1; i < PMV_SIGNAL_FINDS; i++)
		pmv_signal_found(&mask);
	cr_expect(signal_pair_wakes(&pair));
	pmv_signal_found(&mask);
	cr_expect_not(signal_pair_wakes(&pair));
	accepted(pmv_signal_arm(&mask));
	/* What the core looks for in the entry is there. */
	cr_assert_eq(epoll_wait(pair.epoll_fd, &event, 1, 0), 1);
	cr_expect_eq(event.data.u64, SIGNAL_DATA);
	signal_pair_close(&pair);
}

Test(signal, is_masked_again_when_the_same_thread_has_read)
{
	begin();
	accepted(pmv_signal_arm(&mask));
	accepted(pmv_signal_arm(&mask));
	find_entries();
	cr_expect_not(signal_pair_wakes(&pair));
	signal_pair_close(&pair);
}

/* A wait that ends with each entry needs the byte each time. */
Test(signal, is_masked_only_if_entries_are_found_without_a_sleep)
{
	begin();
	for (unsigned int i = 0; i < 4 * PMV_SIGNAL_FINDS; i++) {
		accepted(pmv_signal_arm(&mask));
		pmv_signal_found(&mask);
		cr_assert(signal_pair_wakes(&pair));
	}
	signal_pair_close(&pair);
}

Test(signal, is_not_masked_while_another_thread_may_sleep)
{
	begin();
	in_a_thread(arm);
	find_entries();
	cr_expect(signal_pair_wakes(&pair));
	signal_pair_close(&pair);
}

/* The listener of a server hears who a client is, and hands it over to a worker. */
Test(signal, is_masked_by_one_thread_when_another_one_has_read)
{
	begin();
	in_a_thread(arm_and_read);
	find_entries();
	cr_expect_not(signal_pair_wakes(&pair));
	signal_pair_close(&pair);
}

/* One of them has read: nobody knows of the other one. */
Test(signal, is_not_masked_any_more_when_two_threads_may_have_slept)
{
	begin();
	in_a_thread(arm);
	accepted(pmv_signal_arm(&mask));
	find_entries();
	cr_expect(signal_pair_wakes(&pair));
	signal_pair_close(&pair);
}

Test(signal, is_not_masked_while_the_thread_of_the_agent_may_sleep)
{
	begin();
	find_entries();
	accepted(pmv_signal_hold(&mask));
	cr_expect(signal_pair_wakes(&pair));
	find_entries();
	cr_expect(signal_pair_wakes(&pair));
	accepted(pmv_signal_let_go(&mask));
	find_entries();
	cr_expect_not(signal_pair_wakes(&pair));
	signal_pair_close(&pair);
}

/* ---- a queue of the provider ---- */

/* read_entry -- of a write; by the application */
static void read_entry(struct rig *rig)
{
	accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
	fake_complete(&rig->fake, 1);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
}

Test(signal, of_a_queue_is_masked_while_it_is_read_and_back_before_a_sleep)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	struct fi_cq_tagged_entry entry;

	begin();
	pmv_to_cq(rig->cq)->queue.signal = mask;
	for (unsigned int i = 0; i < PMV_SIGNAL_FINDS; i++)
		read_entry(rig);
	cr_expect_not(signal_pair_wakes(&pair));
	accepted(pmv_cq_trywait(pmv_to_cq(rig->cq)));
	cr_expect(signal_pair_wakes(&pair));
	/* It has not slept. */
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAGAIN);
	for (unsigned int i = 0; i < PMV_SIGNAL_FINDS; i++)
		read_entry(rig);
	cr_expect_not(signal_pair_wakes(&pair));
	/* On a busy machine a wait may be over before it is a sleep. */
	for (int i = 0; i < 1000 && !signal_pair_wakes(&pair); i++)
		cr_assert_eq(fi_cq_sread(rig->cq, &entry, 1, NULL, 10), -FI_EAGAIN);
	cr_expect(signal_pair_wakes(&pair));
	signal_pair_close(&pair);
	rig_close(rig);
}

/* read_other -- this thread was about to sleep, and gets an entry that the core knows nothing of */
static void *read_other(void *arg)
{
	struct pmv_cq *cq = arg;
	struct fi_cq_tagged_entry entry = {0};

	accepted(pmv_cq_trywait(cq));
	pmv_queue_add(&cq->queue, pmv_comp_success(&cq->queue, &entry));
	cr_assert_eq(fi_cq_read(&cq->cq_fid, &entry, 1), 1);
	return NULL;
}

Test(signal, of_a_queue_is_masked_when_another_thread_has_read_what_was_ready)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	pthread_t thread;

	begin();
	pmv_to_cq(rig->cq)->queue.signal = mask;
	accepted(pthread_create(&thread, NULL, read_other, pmv_to_cq(rig->cq)));
	accepted(pthread_join(thread, NULL));
	for (unsigned int i = 0; i < PMV_SIGNAL_FINDS; i++)
		read_entry(rig);
	cr_expect_not(signal_pair_wakes(&pair));
	signal_pair_close(&pair);
	rig_close(rig);
}

/* opens_with -- a core whose calls end what wakes others, up to this version of libfabric */
static bool opens_with(uint32_t version)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});
	struct fid_cq *cq;
	bool found;

	rig->fake.paired = true;
	rig->core.signals_until = version;
	cq = rig_cq(rig);
	found = pmv_to_cq(cq)->queue.signal.fd >= 0;
	accepted(fi_close(&cq->fid));
	rig_close(rig);
	return found;
}

Test(signal, is_sought_where_each_read_would_end_it)
{
	cr_expect(opens_with(FI_VERSION(99, 0)));
	cr_expect_not(opens_with(fi_version()));
	cr_expect_not(opens_with(0));
}
