/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.c -- descriptors of queues, and what makes them ready; queue.h says what each call is for */
#include "progress/queue.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/engine.h"
#include "memory/guard.h"

bool pmv_queue_is_armed(struct pmv_queue *queue)
{
	return queue && atomic_load(&queue->armed);
}

/* change_signal -- if there is one; 0 or a negative errno */
static int change_signal(struct pmv_queue *queue, int (*change)(struct pmv_signal *signal))
{
	int ret;

	if (queue->signal.fd < 0)
		return 0;
	pthread_mutex_lock(&queue->lock);
	ret = change(&queue->signal);
	pthread_mutex_unlock(&queue->lock);
	return ret;
}

int pmv_queue_hold(struct pmv_queue *queue)
{
	return change_signal(queue, pmv_signal_hold);
}

void pmv_queue_let_go(struct pmv_queue *queue)
{
	change_signal(queue, pmv_signal_let_go);
}

int pmv_queue_arm(struct pmv_queue *queue)
{
	uint64_t raised;
	unsigned int arm;
	ssize_t len;
	int ret;

	ret = change_signal(queue, pmv_signal_arm);
	if (ret)
		return ret;
	/* Before the caller looks at the list: an entry that comes later raises it again. */
	len = read(queue->wake_fd, &raised, sizeof(raised));
	if (len < 0 && errno != EAGAIN)
		return -errno;
	arm = atomic_fetch_add(&queue->arms, 1) + 1;
	atomic_store(&queue->armed, arm ? arm : 1);
	return len > 0;
}

void pmv_queue_disarm(struct pmv_queue *queue, unsigned int armed)
{
	atomic_compare_exchange_strong(&queue->armed, &armed, 0);
}

static int set_core_events(struct pmv_queue *queue, uint32_t events)
{
	struct epoll_event event = {.events = events};

	return epoll_ctl(queue->epoll_fd, EPOLL_CTL_MOD, queue->core_fd, &event) ? -errno : 0;
}

int pmv_queue_ignore(struct pmv_queue *queue)
{
	return set_core_events(queue, 0);
}

int pmv_queue_listen(struct pmv_queue *queue)
{
	return set_core_events(queue, EPOLLIN);
}

int pmv_queue_await_news(struct pmv_queue *queue, int timeout_ms)
{
	struct pollfd fds[] = {
		{.fd = queue->wake_fd, .events = POLLIN},
		{.fd = queue->news_fd, .events = POLLIN},
	};
	struct epoll_event event;
	int ret = poll(fds, 2, timeout_ms);

	if (ret > 0 && fds[1].revents)
		epoll_wait(queue->news_fd, &event, 1, 0);
	return ret;
}

int pmv_queue_trywait(struct pmv_queue *queue)
{
	struct fid *fid = &queue->core_fid->fid;
	int ret;

	/* Some cores move data here, too. */
	pmv_guard_enter();
	ret = fi_trywait(queue->engine->fabric_fid, &fid, 1);
	pmv_guard_leave();
	return ret;
}

/* Room */

void pmv_queue_refuse(struct pmv_queue *queue)
{
	atomic_store(&queue->refused, (unsigned long) pthread_self());
	atomic_store(&queue->refused_slept, false);
}

bool pmv_queue_is_refused(const struct pmv_queue *queue)
{
	return atomic_load(&queue->refused) == (unsigned long) pthread_self() &&
	       !atomic_load(&queue->refused_slept);
}

void pmv_queue_lets_sleep(struct pmv_queue *queue)
{
	if (pmv_queue_is_refused(queue))
		atomic_store(&queue->refused_slept, true);
}

bool pmv_queue_may_have_room(struct pmv_queue *queue)
{
	return atomic_load(&queue->made_room) && atomic_exchange(&queue->made_room, false);
}
