/* SPDX-License-Identifier: BSD-2-Clause */
/* signal_pair.h -- what libfabric's tcp wakes sleepers by: a pair of sockets in an epoll */
#ifndef SIGNAL_PAIR_H
#define SIGNAL_PAIR_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIGNAL_DATA UINT64_C(0x7f0123456789abcd)

struct signal_pair {
	int epoll_fd;
	int fds[2];
};

/* signal_pair_need -- fuzzers have it, too, and no assertions of Criterion */
static inline void signal_pair_need(bool fine)
{
	if (!fine)
		abort();
}

/* signal_pair_add -- a descriptor to the epoll */
static inline void signal_pair_add(struct signal_pair *pair, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = SIGNAL_DATA};

	signal_pair_need(!epoll_ctl(pair->epoll_fd, EPOLL_CTL_ADD, fd, &event));
}

static inline void signal_pair_open(struct signal_pair *pair)
{
	pair->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	signal_pair_need(pair->epoll_fd >= 0);
	signal_pair_need(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair->fds));
	signal_pair_add(pair, pair->fds[0]);
}

/* signal_pair_raise -- an entry has come */
static inline void signal_pair_raise(struct signal_pair *pair)
{
	signal_pair_need(write(pair->fds[1], "", 1) == 1);
}

/* signal_pair_wakes -- who sleeps on the epoll */
static inline bool signal_pair_wakes(const struct signal_pair *pair)
{
	struct pollfd fd = {.fd = pair->epoll_fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static inline void signal_pair_close(struct signal_pair *pair)
{
	close(pair->epoll_fd);
	close(pair->fds[0]);
	close(pair->fds[1]);
}

#endif /* SIGNAL_PAIR_H */
