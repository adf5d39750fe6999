/* SPDX-License-Identifier: BSD-2-Clause */
/* test_cancel.c -- threads that wait are cancelled in their sleep, and leave nothing held */
#include <poll.h>
#include <semaphore.h>
#include <unistd.h>

#include "objects/cntr.h"
#include "objects/cq.h"
#include "objects/eq.h"
#include "test/support/rig.h"

static sem_t inside, cancelled;
static bool lets_pass;

/* be_cancelled -- inside a core's call, where locks are held: the first time only */
static void be_cancelled(void)
{
	if (lets_pass)
		return;
	lets_pass = true;
	sem_post(&inside);
	while (sem_trywait(&cancelled))
		sched_yield();
	pthread_testcancel();
}

static ssize_t poll_nothing(struct fid_cq *fid, void *buf, size_t count)
{
	(void) fid, (void) buf, (void) count;
	be_cancelled();
	return -FI_EAGAIN;
}

static ssize_t read_nothing(struct fid_eq *fid, uint32_t *event, void *buf, size_t len,
			    uint64_t flags)
{
	(void) fid, (void) event, (void) buf, (void) len, (void) flags;
	be_cancelled();
	return -FI_EAGAIN;
}

static ssize_t sleep_in_core(struct fid_eq *fid, uint32_t *event, void *buf, size_t len,
			     int timeout, uint64_t flags)
{
	(void) fid, (void) event, (void) buf, (void) len, (void) flags;
	poll(NULL, 0, timeout);
	return -FI_EAGAIN;
}

static void *wait_for_entry(void *cq)
{
	struct fi_cq_tagged_entry entry;

	fi_cq_sread(cq, &entry, 1, NULL, -1);
	return NULL;
}

static void *wait_for_count(void *cntr)
{
	fi_cntr_wait(cntr, 1, -1);
	return NULL;
}

static void *wait_for_event(void *eq)
{
	struct fi_eq_cm_entry entry;
	uint32_t event;

	fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0);
	return NULL;
}

/* cancel -- a thread that waits, while it is inside the core */
static void cancel(void *(*wait)(void *), void *arg)
{
	pthread_t thread;
	void *result;

	lets_pass = false;
	cr_assert_eq(pthread_create(&thread, NULL, wait, arg), 0);
	sem_wait(&inside);
	pthread_cancel(thread);
	sem_post(&cancelled);
	cr_assert_eq(pthread_join(thread, &result), 0);
	cr_expect_eq(result, PTHREAD_CANCELED);
}

static struct rig *open_rig(struct fid_cntr **cntr)
{
	static struct pmv_engine_ops ops;
	struct rig *rig;

	ops = pmv_engine_libfabric;
	ops.poll = poll_nothing;
	lets_pass = true;
	sem_init(&inside, 0, 0);
	sem_init(&cancelled, 0, 0);
	rig = rig_open(
		&(struct rig_options){.engine = &ops, .wait_obj = FI_WAIT_FD, .not_enabled = true});
	*cntr = rig_count(rig, FI_WRITE);
	return rig;
}

static void close_rig(struct rig *rig, struct fid_cntr *cntr)
{
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

Test(cancel, of_who_waits_for_an_entry_or_a_count, .timeout = 60)
{
	struct fi_cq_tagged_entry entry;
	struct fid_cntr *cntr;
	struct rig *rig = open_rig(&cntr);
	int state;

	cancel(wait_for_entry, rig->cq);
	/* Nobody is believed to sleep there still. */
	cr_expect_eq(atomic_load(&pmv_to_cq(rig->cq)->queue.sleepers), 0);
	cancel(wait_for_count, cntr);
	/* Others go on: no lock is held. */
	refused(fi_cq_read(rig->cq, &entry, 1), FI_EAGAIN);
	refused(fi_cq_sread(rig->cq, &entry, 1, NULL, 1), FI_EAGAIN);
	refused(fi_cntr_wait(cntr, 1, 1), FI_ETIMEDOUT);
	/* And who was not cancelled may be later. */
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	cr_expect_eq(state, PTHREAD_CANCEL_ENABLE);
	close_rig(rig, cntr);
}

/* In the core's queue, or at its descriptor. */
Test(cancel, of_who_waits_for_an_event, .timeout = 60)
{
	for (int has_fd = 0; has_fd < 2; has_fd++) {
		struct fi_eq_attr attr = {.size = 8, .wait_obj = FI_WAIT_FD};
		struct fid_cntr *cntr;
		struct rig *rig = open_rig(&cntr);
		struct fi_eq_cm_entry entry;
		struct fid_eq *eq;
		uint32_t event;
		int fds[2];

		cr_assert_eq(pipe(fds), 0);
		rig->fake.eq_fd = has_fd ? fds[0] : 0;
		accepted(pmv_eq_open(&rig->fabric.fabric_fid, &attr, &eq, NULL));
		pmv_to_eq(eq)->core_fid->ops->read = read_nothing;
		pmv_to_eq(eq)->core_fid->ops->sread = sleep_in_core;
		cancel(wait_for_event, eq);
		refused(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), FI_EAGAIN);
		refused(fi_eq_sread(eq, &event, &entry, sizeof(entry), 1, 0), FI_EAGAIN);
		accepted(fi_close(&eq->fid));
		close_rig(rig, cntr);
	}
}
