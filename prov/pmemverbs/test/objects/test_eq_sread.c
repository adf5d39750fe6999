/* SPDX-License-Identifier: BSD-2-Clause */
/* test_eq_sread.c -- who waits for an event, and is interrupted */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "commit/hooks.h"
#include "objects/domain.h"
#include "objects/eq.h"
#include "objects/unwrap.h"
#include "test/support/rig.h"

/* A queue of which the core has a descriptor, that nothing is written to. */
struct waiting {
	struct rig *rig;
	struct fid_eq *eq;
	int pipe[2];
};

static atomic_int caught;

static void count(int signal)
{
	(void) signal;
	atomic_fetch_add(&caught, 1);
}

static ssize_t wait_in_the_core(struct fid_eq *fid, uint32_t *event, void *buf, size_t len,
				int timeout, uint64_t flags)
{
	(void) fid, (void) event, (void) buf, (void) len, (void) timeout, (void) flags;
	cr_assert_fail("verbs is interrupted there when the process was stopped");
	return -FI_EOTHER;
}

static void begin(struct waiting *waiting, enum fi_wait_obj wait_obj)
{
	struct fi_eq_attr attr = {.size = 8, .wait_obj = wait_obj};

	waiting->rig = rig_open(NULL);
	cr_assert_eq(pipe(waiting->pipe), 0);
	waiting->rig->fake.eq_fd = waiting->pipe[0];
	accepted(pmv_eq_open(&waiting->rig->fabric.fabric_fid, &attr, &waiting->eq, NULL));
	pmv_to_eq(waiting->eq)->core_fid->ops->sread = wait_in_the_core;
}

static void end(struct waiting *waiting)
{
	accepted(fi_close(&waiting->eq->fid));
	rig_close(waiting->rig);
	close(waiting->pipe[0]);
	close(waiting->pipe[1]);
}

/* One signal may come before the call waits; so they come until it has ended. */
static timer_t interrupt_again_and_again(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	const struct itimerspec often = {{0, 1000000}, {0, 1000000}};
	timer_t timer;

	signal(SIGUSR1, count);
	cr_assert_eq(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	cr_assert_eq(timer_settime(timer, 0, &often, NULL), 0);
	return timer;
}

Test(eq_sread, ends_when_a_signal_was_handled, .timeout = 60)
{
	/* verbs has a descriptor whatever is asked for. */
	static const enum fi_wait_obj objs[] = {FI_WAIT_FD, FI_WAIT_UNSPEC, FI_WAIT_NONE,
						FI_WAIT_POLLFD};

	for (int i = 0; i < 4; i++) {
		struct fi_eq_cm_entry entry;
		struct waiting waiting;
		uint32_t event;
		timer_t timer;

		begin(&waiting, objs[i]);
		timer = interrupt_again_and_again();
		cr_expect_eq(fi_eq_sread(waiting.eq, &event, &entry, sizeof(entry), -1, 0),
			     -FI_EINTR, "%d", objs[i]);
		timer_delete(timer);
		end(&waiting);
	}
}

Test(eq_sread, goes_on_if_its_caller_only_peeks)
{
	struct fi_eq_cm_entry entry;
	struct waiting waiting;
	uint32_t event;
	timer_t timer;

	begin(&waiting, FI_WAIT_FD);
	timer = interrupt_again_and_again();
	while (!atomic_load(&caught))
		cr_expect_eq(fi_eq_sread(waiting.eq, &event, &entry, sizeof(entry), 50, FI_PEEK),
			     -FI_EAGAIN);
	timer_delete(timer);
	end(&waiting);
}

Test(eq_sread, ends_when_the_time_is_over)
{
	struct fi_eq_cm_entry entry;
	struct waiting waiting;
	uint32_t event;

	begin(&waiting, FI_WAIT_FD);
	cr_expect_eq(fi_eq_sread(waiting.eq, &event, &entry, sizeof(entry), 10, 0), -FI_EAGAIN);
	end(&waiting);
}

static bool posting;

static bool posts(void)
{
	return posting;
}

/* RxM reads events while it posts, and would post on the connection that it has closed. */
Test(events, of_an_end_is_put_off_while_a_layer_above_posts)
{
	static const struct pmv_hooks hooks = {.posts = posts};
	static const char text[] = "bytes of the application's, no object";
	struct rig *rig = rig_open(&(struct rig_options){.not_enabled = true});
	struct fi_eq_attr attr = {.size = 8, .flags = FI_WRITE};
	struct fi_eq_cm_entry entry = {.fid = pmv_unwrap_fid(&rig->ep->fid)};
	struct fid_eq *eq, *core_eq;
	char buf[64];
	uint32_t event;

	pmv_to_domain(rig->domain)->hooks = &hooks;
	accepted(pmv_eq_open(&rig->fabric.fabric_fid, &attr, &eq, NULL));
	accepted(fi_ep_bind(rig->ep, &eq->fid, 0));
	core_eq = pmv_to_eq(eq)->core_fid;
	fake_raise(core_eq, FI_SHUTDOWN, &entry, sizeof(entry));
	fake_raise(core_eq, FI_NOTIFY, text, sizeof(text));
	posting = true;
	cr_assert_eq(fi_eq_read(eq, &event, buf, sizeof(buf), 0), (ssize_t) sizeof(text));
	cr_expect_eq(event, FI_NOTIFY);
	cr_expect_str_eq(buf, text);
	refused(fi_eq_read(eq, &event, buf, sizeof(buf), 0), FI_EAGAIN);
	refused(fi_eq_read(eq, &event, buf, sizeof(buf), 0), FI_EAGAIN);
	/* Whoever sleeps there is woken; this thread does not take that for itself. */
	cr_expect_gt(fi_eq_read(core_eq, &event, buf, sizeof(buf), 0), 0);
	refused(fi_eq_read(core_eq, &event, buf, sizeof(buf), 0), FI_EAGAIN);
	refused(pmv_eq_trywait(pmv_to_eq(eq)), FI_EAGAIN);
	/* A peer that calls again waits for it. */
	fake_raise(core_eq, FI_CONNREQ, &(struct fi_eq_cm_entry){0}, sizeof(entry));
	for (int i = 0; i < 3; i++)
		refused(fi_eq_read(eq, &event, buf, sizeof(buf), 0), FI_EAGAIN);
	cr_expect_gt(fi_eq_read(core_eq, &event, buf, sizeof(buf), 0), 0);
	refused(fi_eq_read(core_eq, &event, buf, sizeof(buf), 0), FI_EAGAIN);
	posting = false;
	cr_assert_eq(fi_eq_read(eq, &event, buf, sizeof(buf), FI_PEEK), (ssize_t) sizeof(entry));
	/* Another thread has seen it, and this one posts. */
	posting = true;
	refused(fi_eq_read(eq, &event, buf, sizeof(buf), 0), FI_EAGAIN);
	posting = false;
	cr_assert_eq(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), (ssize_t) sizeof(entry));
	cr_expect_eq(event, FI_SHUTDOWN);
	cr_expect_eq(entry.fid, &rig->ep->fid);
	cr_assert_eq(fi_eq_read(eq, &event, buf, sizeof(buf), 0), (ssize_t) sizeof(entry));
	cr_expect_eq(event, FI_CONNREQ);
	fake_raise(core_eq, FI_SHUTDOWN,
		   &(struct fi_eq_cm_entry){.fid = pmv_unwrap_fid(&rig->ep->fid)}, sizeof(entry));
	posting = true;
	refused(fi_eq_read(eq, &event, buf, sizeof(buf), 0), FI_EAGAIN);
	rig_close_ep(rig);
	posting = false;
	refused(fi_eq_read(eq, &event, buf, sizeof(buf), 0), FI_EAGAIN);
	accepted(fi_close(&eq->fid));
	rig_close(rig);
}
