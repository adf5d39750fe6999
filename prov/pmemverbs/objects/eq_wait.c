/* SPDX-License-Identifier: BSD-2-Clause */
/* eq_wait.c -- how a thread of the application waits for an event; see eq.h */
#include "objects/eq.h"

#include <errno.h>
#include <poll.h>

#include <rdma/fi_errno.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "memory/guard.h"
#include "objects/ep.h"
#include "objects/strangers.h"
#include "progress/queue.h"

int pmv_eq_trywait(struct pmv_eq *eq)
{
	bool kept, full;

	pthread_mutex_lock(&eq->lock);
	kept = eq->kept.len || eq->refusals || eq->ends;
	full = !kept && pmv_strangers_fill(eq);
	pthread_mutex_unlock(&eq->lock);
	if (kept)
		return -FI_EAGAIN;
	if (full)
		pmv_strangers_pause();
	return fi_trywait(eq->fabric->core_fid, (struct fid *[]){&eq->core_fid->fid}, 1);
}

/*
 * wait_for_descriptor -- of the core's queue.  tcp would tell nobody what it moves while it waits;
 * and verbs, which waits in epoll_wait, would end when the process was stopped and goes on
 * (signal(7)).  A signal that the process handles ends the call, as fi_eq(3) has it.
 */
static ssize_t wait_for_descriptor(struct pmv_eq *eq, int64_t left, int cancel)
{
	struct pollfd fd = {.fd = eq->core_fd, .events = POLLIN};
	int ret = pmv_eq_trywait(eq);

	if (ret)
		return ret == -FI_EAGAIN ? 0 : ret;
	pmv_cancel_restore(cancel);
	ret = poll(&fd, 1, (int) left) < 0 ? -errno : 0;
	pmv_cancel_off();
	return ret;
}

/*
 * wait_in_core -- for at most so many ms (-1: any time), perhaps less: 0, or an error; cancel:
 * whether the thread may be cancelled meanwhile
 */
static ssize_t wait_in_core(struct pmv_eq *eq, int64_t left, int cancel)
{
	struct pmv_event peeked;
	ssize_t ret;

	if (eq->fabric->core->manual_progress && !pmv_strangers_leave_room(eq)) {
		pmv_cancel_restore(cancel);
		ret = pmv_strangers_pause();
		pmv_cancel_off();
		return ret;
	}
	if (left < 0 || left > PMV_STRANGERS_LOOK_MS)
		left = PMV_STRANGERS_LOOK_MS;
	if (eq->core_fd >= 0)
		return wait_for_descriptor(eq, left, cancel);
	/* The core may hold locks where it sleeps: the thread is cancelled behind that. */
	pmv_eq_enter_core();
	ret = fi_eq_sread(eq->core_fid, &peeked.event, peeked.room, sizeof(peeked.room), (int) left,
			  FI_PEEK);
	pmv_guard_leave();
	pmv_cancel_restore(cancel);
	pthread_testcancel();
	pmv_cancel_off();
	return ret < 0 && ret != -FI_EAGAIN ? ret : 0;
}

/*
 * let_end -- tcp looks at a connection, and sees that it was given up, only where its completions
 * are read.  Whoever sleeps here may read none.
 */
static void let_end(struct pmv_eq *eq)
{
	struct pmv_ep *ep;

	pthread_mutex_lock(&eq->lock);
	LIST_FOREACH(ep, &eq->eps, next_of_eq)
	{
		const struct pmv_op_owner *owner = &ep->initiator.owner;
		struct pmv_queue *queue = owner->tx_queue ? owner->tx_queue : owner->rx_queue;

		if (queue && atomic_load(&ep->silence.given_up))
			pmv_queue_progress(queue, false);
	}
	pthread_mutex_unlock(&eq->lock);
}

/*
 * read_or_wait -- waits without reading the event, so that it is read under our lock.  A call that
 * peeks goes on after a signal: the thread of a layer above peeks, and would end at any error.
 */
static ssize_t read_or_wait(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			    uint64_t flags, int cancel)
{
	struct pmv_eq *eq = pmv_to_eq(fid);
	int64_t end = pmv_clock_ms() + timeout;

	for (;;) {
		ssize_t ret = pmv_eq_read(fid, event, buf, len, flags);
		int64_t left = timeout < 0 ? -1 : end - pmv_clock_ms();

		if (ret != -FI_EAGAIN || (timeout >= 0 && left <= 0))
			return ret;
		ret = wait_in_core(eq, left, cancel);
		if (ret && (ret != -FI_EINTR || !(flags & FI_PEEK)))
			return ret;
		let_end(eq);
	}
}

ssize_t pmv_eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
		     uint64_t flags)
{
	int cancel = pmv_cancel_off();
	ssize_t ret = read_or_wait(fid, event, buf, len, timeout, flags, cancel);

	pmv_cancel_restore(cancel);
	return ret;
}
