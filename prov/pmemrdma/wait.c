/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.c -- sleeping until there is something to read */
#include "wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

static int add(int to, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(to, EPOLL_CTL_ADD, fd, &event);
}

int pmr_wait_open(struct pmr_wait *wait, int source)
{
	int flags = fcntl(source, F_GETFL), ret;

	wait->fd = epoll_create1(EPOLL_CLOEXEC);
	wait->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	atomic_init(&wait->signalled, false);
	if (flags >= 0 && wait->fd >= 0 && wait->event_fd >= 0 &&
	    !fcntl(source, F_SETFL, flags | O_NONBLOCK) && !add(wait->fd, source) &&
	    !add(wait->fd, wait->event_fd))
		return 0;
	ret = -errno;
	pmr_wait_close(wait);
	return ret;
}

void pmr_wait_close(struct pmr_wait *wait)
{
	if (wait->fd >= 0)
		close(wait->fd);
	if (wait->event_fd >= 0)
		close(wait->event_fd);
	wait->fd = wait->event_fd = -1;
}

/* get_pollfd -- as verbs has it */
static int get_pollfd(const struct pmr_wait *wait, struct fi_wait_pollfd *to)
{
	int ret = to->nfds ? 0 : -FI_ETOOSMALL;

	if (!ret)
		to->fd[0] = (struct pollfd){.fd = wait->fd, .events = POLLIN};
	to->change_index = 1;
	to->nfds = 1;
	return ret;
}

int pmr_wait_control(const struct pmr_wait *wait, enum fi_wait_obj wait_obj, int command, void *arg)
{
	switch (command) {
	case FI_GETWAIT:
		if (wait_obj == FI_WAIT_POLLFD)
			return get_pollfd(wait, arg);
		if (wait_obj != FI_WAIT_FD)
			return -FI_ENODATA;
		*(int *) arg = wait->fd;
		return 0;
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *) arg = wait_obj;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

void pmr_wait_wake(struct pmr_wait *wait)
{
	if (wait->event_fd >= 0)
		eventfd_write(wait->event_fd, 1);
}

void pmr_wait_reset(struct pmr_wait *wait)
{
	eventfd_t count;

	if (wait->event_fd >= 0)
		eventfd_read(wait->event_fd, &count);
}

void pmr_wait_signal(struct pmr_wait *wait)
{
	atomic_store(&wait->signalled, true);
	pmr_wait_wake(wait);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

int64_t pmr_wait_deadline(int timeout)
{
	return timeout < 0 ? -1 : now_ms() + timeout;
}

int pmr_wait_sleep(struct pmr_wait *wait, int64_t deadline)
{
	struct pollfd fd = {.fd = wait->fd, .events = POLLIN};
	int64_t left = deadline < 0 ? -1 : deadline - now_ms();

	if (deadline >= 0 && left <= 0)
		return -FI_EAGAIN;
	if (poll(&fd, 1, (int) left) < 0)
		return -errno;
	return 0;
}
