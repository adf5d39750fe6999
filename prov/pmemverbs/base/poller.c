/* SPDX-License-Identifier: BSD-2-Clause */
/* poller.c -- a thread that moves descriptors; poller.h says for whom */
#include "base/poller.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork_lock.h"
#include "base/spawn.h"

/* Around lock; the thread does not take it. */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int users;
static pthread_t thread;

static struct pmv_fork_lock lock = PMV_FORK_LOCK_INITIALIZER;
static bool stops;
static int epoll_fd = -1, wake_fd = -1;
static LIST_HEAD(, pmv_watched) all = LIST_HEAD_INITIALIZER(all);

void pmv_poller_lock(void)
{
	pmv_fork_lock(&lock);
}

void pmv_poller_unlock(void)
{
	pmv_fork_unlock(&lock);
}

/* control -- 0 or an errno */
static int control(int op, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return epoll_ctl(epoll_fd, op, fd, &event) ? errno : 0;
}

int pmv_poller_add(struct pmv_watched *watched, uint32_t events)
{
	int ret = watched->fd < 0 ? 0 : control(EPOLL_CTL_ADD, watched->fd, events);

	if (ret)
		return ret;
	LIST_INSERT_HEAD(&all, watched, next);
	watched->process = lock.process;
	/* It may have to look at the clock earlier than it would. */
	eventfd_write(wake_fd, 1);
	return 0;
}

int pmv_poller_fd(struct pmv_watched *watched, int fd, uint32_t events)
{
	int op = watched->fd == fd ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	watched->fd = fd;
	return control(op, fd, events);
}

void pmv_poller_remove(struct pmv_watched *watched)
{
	/* In a child, what was its parent's. */
	if (watched->process != lock.process)
		return;
	LIST_REMOVE(watched, next);
	watched->process = 0;
	if (watched->fd < 0)
		return;
	/* A child may have it, too, and it would be watched on. */
	control(EPOLL_CTL_DEL, watched->fd, 0);
	close(watched->fd);
	watched->fd = -1;
}

/* find_late -- one whose time has come; or NULL, and when that of the next one comes */
static struct pmv_watched *find_late(int64_t now, int64_t *next)
{
	struct pmv_watched *watched;

	*next = INT64_MAX;
	LIST_FOREACH(watched, &all, next)
	{
		if (!watched->until_ms)
			continue;
		if (watched->until_ms <= now)
			return watched;
		*next = watched->until_ms < *next ? watched->until_ms : *next;
	}
	return NULL;
}

/* look_at_clock -- returns for how many ms nothing is late; -1: for ever */
static int look_at_clock(void)
{
	int64_t now = pmv_clock_ms(), next;
	struct pmv_watched *watched;

	while ((watched = find_late(now, &next)))
		watched->late(watched);
	return next == INT64_MAX ? -1 : next - now < INT_MAX ? (int) (next - now) : INT_MAX;
}

/* handle -- whose it is: it may have been closed meanwhile, and another may have its number */
static void handle(int fd)
{
	struct pmv_watched *watched;
	eventfd_t value;

	if (fd == wake_fd) {
		eventfd_read(wake_fd, &value);
		return;
	}
	LIST_FOREACH(watched, &all, next)
	{
		if (watched->fd == fd) {
			watched->ready(watched);
			return;
		}
	}
}

static void *run(void *arg)
{
	(void) arg;
	for (;;) {
		struct epoll_event event;
		int timeout;
		bool ends;

		pmv_fork_lock(&lock);
		timeout = look_at_clock();
		ends = stops;
		pmv_fork_unlock(&lock);
		if (ends)
			return NULL;
		if (epoll_wait(epoll_fd, &event, 1, timeout) != 1)
			continue;
		pmv_fork_lock(&lock);
		handle(event.data.fd);
		pmv_fork_unlock(&lock);
	}
}

/* start -- 0 or an errno */
static int start(void)
{
	int ret;

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	wake_fd = epoll_fd < 0 ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	stops = false;
	ret = wake_fd < 0 ? errno : control(EPOLL_CTL_ADD, wake_fd, EPOLLIN);
	return ret ? ret : pmv_spawn(&thread, "pmv-poller", run, NULL, 0);
}

static void close_descriptors(void)
{
	if (wake_fd >= 0)
		close(wake_fd);
	if (epoll_fd >= 0)
		close(epoll_fd);
	wake_fd = epoll_fd = -1;
}

/* forget -- in a child: the thread is the parent's, and so is whatever it watches */
static void forget(void)
{
	bool whole = pmv_fork_child(&lock);
	struct pmv_watched *watched;

	pthread_mutex_init(&users_lock, NULL);
	users = 0;
	for (watched = whole ? LIST_FIRST(&all) : NULL; watched;
	     watched = LIST_NEXT(watched, next)) {
		if (watched->fd >= 0)
			close(watched->fd);
		watched->fd = -1;
	}
	LIST_INIT(&all);
	close_descriptors();
}

static void forget_in_children(void)
{
	pthread_atfork(pmv_poller_lock, pmv_poller_unlock, forget);
}

int pmv_poller_enter(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int ret = 0;

	pthread_once(&once, forget_in_children);
	pthread_mutex_lock(&users_lock);
	if (!users)
		ret = start();
	if (!ret)
		users++;
	else
		close_descriptors();
	pthread_mutex_unlock(&users_lock);
	return ret;
}

void pmv_poller_leave(void)
{
	pthread_mutex_lock(&users_lock);
	/* A child leaves nothing that it has not entered. */
	if (users && !--users) {
		pmv_fork_lock(&lock);
		stops = true;
		eventfd_write(wake_fd, 1);
		pmv_fork_unlock(&lock);
		pthread_join(thread, NULL);
		close_descriptors();
	}
	pthread_mutex_unlock(&users_lock);
}
