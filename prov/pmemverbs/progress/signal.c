/* SPDX-License-Identifier: BSD-2-Clause */
/* signal.c -- by what a core's queue wakes who sleeps; signal.h says why that is masked */
#include "progress/signal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* is_pair -- an end of a pair of sockets */
static bool is_pair(int fd)
{
	socklen_t len = sizeof(int);
	int domain = -1;

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX;
}

void pmv_signal_find(struct pmv_signal *signal, int epoll_fd)
{
	char path[64], line[256];
	unsigned int members = 0;
	FILE *file;

	*signal = (struct pmv_signal){.epoll_fd = epoll_fd, .fd = -1};
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll_fd);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file))
		members += sscanf(line, "tfd: %d events: %" SCNx32 " data: %" SCNx64, &signal->fd,
				  &signal->events, &signal->data) == 3;
	fclose(file);
	if (members != 1 || !is_pair(signal->fd))
		signal->fd = -1;
}

/* set_events -- of the pair; this takes no memory */
static int set_events(struct pmv_signal *signal, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = signal->data};

	return epoll_ctl(signal->epoll_fd, EPOLL_CTL_MOD, signal->fd, &event) ? -errno : 0;
}

static int unmask(struct pmv_signal *signal)
{
	int ret = signal->masked ? set_events(signal, signal->events) : 0;

	if (!ret)
		signal->masked = false;
	signal->finds = 0;
	return ret;
}

int pmv_signal_arm(struct pmv_signal *signal)
{
	pthread_t self = pthread_self();

	signal->shared |= signal->sleeps && !pthread_equal(signal->sleeper, self);
	signal->sleeps = true;
	signal->sleeper = self;
	return unmask(signal);
}

int pmv_signal_hold(struct pmv_signal *signal)
{
	signal->held = true;
	return unmask(signal);
}

int pmv_signal_let_go(struct pmv_signal *signal)
{
	signal->held = false;
	return 0;
}

void pmv_signal_found(struct pmv_signal *signal)
{
	pmv_signal_read(signal);
	if (signal->masked || ++signal->finds < PMV_SIGNAL_FINDS)
		return;
	if (!signal->held && !signal->shared && !signal->sleeps)
		signal->masked = !set_events(signal, 0);
}
