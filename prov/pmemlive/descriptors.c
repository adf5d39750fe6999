/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * descriptors.c -- the calls of descriptors, for the simulated ones; descriptors.h says which
 *
 * Their numbers are above those that the kernel gives, whose calls go through.  Edges are counted:
 * an edge-triggered member of an epoll is reported once for each, if it is ready then.
 */
#include "descriptors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "scheduler.h"
#include "wraps.h"

#define FIRST_FD (1 << 20)
#define MOST_FDS 192
#define MOST_MEMBERS 32

enum kind {
	FREE,
	EVENT,
	TIMER,
	EPOLL,
	PAIR, /* one end of a socketpair */
	CORE,
};

struct member {
	int fd;
	struct epoll_event event;
	uint64_t seen; /* its edges */
};

struct descriptor {
	enum kind kind;
	const struct sched_process *owner;
	uint64_t count; /* EVENT; PAIR: bytes to be read */
	int other;      /* PAIR */
	uint64_t edges;
	int64_t expires_ns; /* TIMER; or SCHED_NEVER */
	const struct descriptor_core *core;
	unsigned int num_members; /* EPOLL */
	struct member members[MOST_MEMBERS];
};

static struct descriptor all[MOST_FDS];
static int num_used; /* none behind these was ever open */

static struct descriptor *find(int fd)
{
	struct descriptor *one = &all[fd - FIRST_FD];

	if (fd < FIRST_FD)
		return NULL;
	if (fd >= FIRST_FD + MOST_FDS || one->kind == FREE)
		sched_fail("descriptor %d is not open", fd);
	return one;
}

static int add(enum kind kind)
{
	for (int i = 0; i < MOST_FDS; i++) {
		if (all[i].kind != FREE)
			continue;
		all[i] = (struct descriptor){.kind = kind,
					     .owner = sched_current ? sched_process() : NULL,
					     .expires_ns = SCHED_NEVER};
		if (i >= num_used)
			num_used = i + 1;
		return FIRST_FD + i;
	}
	sched_fail("there are too many descriptors");
}

int descriptors_add(const struct descriptor_core *core)
{
	int fd = add(CORE);

	find(fd)->core = core;
	return fd;
}

unsigned int descriptors_open(void)
{
	unsigned int open = 0;

	for (int i = 0; i < MOST_FDS; i++)
		open += all[i].kind != FREE;
	return open;
}

bool descriptors_is(int fd)
{
	return fd >= FIRST_FD;
}

int descriptors_next(int fd)
{
	for (int i = fd < FIRST_FD ? 0 : fd - FIRST_FD; i < num_used; i++) {
		if (all[i].kind != FREE)
			return FIRST_FD + i;
	}
	return -1;
}

/* Are they ready? */

static bool is_ready(int fd);

static uint64_t edges_of(const struct descriptor *one)
{
	return one->kind == CORE ? one->core->edges(one->core->arg) : one->edges;
}

static bool is_reported(const struct member *member)
{
	if (!(member->event.events & EPOLLIN) || !is_ready(member->fd))
		return false;
	return !(member->event.events & EPOLLET) || edges_of(find(member->fd)) != member->seen;
}

static bool has_reported(const struct descriptor *epoll)
{
	for (unsigned int i = 0; i < epoll->num_members; i++) {
		if (is_reported(&epoll->members[i]))
			return true;
	}
	return false;
}

static bool is_ready(int fd)
{
	const struct descriptor *one = find(fd);

	switch (one->kind) {
	case EVENT:
	case PAIR:
		return one->count;
	case TIMER:
		return one->expires_ns <= sched_now_ns;
	case EPOLL:
		return has_reported(one);
	default:
		return one->core->ready(one->core->arg);
	}
}

/* Waiting */

struct polled {
	struct pollfd *fds;
	nfds_t count;
};

static int look(const struct polled *polled)
{
	int ready = 0;

	for (nfds_t i = 0; i < polled->count; i++) {
		struct pollfd *one = &polled->fds[i];

		one->revents = one->fd >= 0 && is_ready(one->fd) ? POLLIN : 0;
		ready += one->revents != 0;
	}
	return ready;
}

static bool any_is_ready(void *arg)
{
	return look(arg) > 0;
}

static int wait_for(const char *why, struct polled *polled, int64_t ns)
{
	int ready;

	sched_step();
	ready = look(polled);
	if (ready || !ns)
		return ready;
	sched_trace("%s", why);
	sched_block(why, any_is_ready, polled, ns < 0 ? SCHED_NEVER : sched_now_ns + ns);
	ready = look(polled);
	sched_trace("%s: %d ready", why, ready);
	return ready;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (!sched_current)
		return wraps_libc()->poll(fds, count, timeout_ms);
	return wait_for("poll", &(struct polled){fds, count}, timeout_ms * INT64_C(1000000));
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	if (!sched_current)
		return __real_ppoll(fds, count, timeout, mask);
	return wait_for("ppoll", &(struct polled){fds, count},
			timeout ? timeout->tv_sec * INT64_C(1000000000) + timeout->tv_nsec : -1);
}

/* epoll */

int __wrap_epoll_create1(int flags)
{
	(void) flags;
	return add(EPOLL);
}

static struct member *find_member(struct descriptor *epoll, int fd)
{
	for (unsigned int i = 0; i < epoll->num_members; i++) {
		if (epoll->members[i].fd == fd)
			return &epoll->members[i];
	}
	return NULL;
}

static void forget_member(struct descriptor *epoll, int fd)
{
	struct member *member = find_member(epoll, fd);

	if (member)
		*member = epoll->members[--epoll->num_members];
}

int __wrap_epoll_ctl(int fd, int op, int member_fd, struct epoll_event *event)
{
	struct descriptor *epoll = find(fd);
	struct member *member = find_member(epoll, member_fd);

	sched_step();
	if (op == EPOLL_CTL_DEL) {
		forget_member(epoll, member_fd);
		return 0;
	}
	if (!member && epoll->num_members < MOST_MEMBERS)
		member = &epoll->members[epoll->num_members++];
	if (!member)
		sched_fail("there are too many descriptors in an epoll");
	/* What is ready is reported, whenever it has become that. */
	*member = (struct member){member_fd, *event, edges_of(find(member_fd)) - 1};
	return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	struct pollfd self = {.fd = fd, .events = POLLIN};
	struct descriptor *epoll = find(fd);
	int count = 0;

	wait_for("epoll_wait", &(struct polled){&self, 1}, timeout_ms * INT64_C(1000000));
	for (unsigned int i = 0; i < epoll->num_members && count < max; i++) {
		struct member *member = &epoll->members[i];

		if (!is_reported(member))
			continue;
		member->seen = edges_of(find(member->fd));
		events[count++] =
			(struct epoll_event){.events = EPOLLIN, .data = member->event.data};
	}
	return count;
}

/* eventfd, socketpair, timerfd */

int __wrap_eventfd(unsigned int count, int flags)
{
	int fd = add(EVENT);

	(void) flags;
	find(fd)->count = count;
	return fd;
}

int descriptors_pair(int fds[2])
{
	fds[0] = add(PAIR);
	fds[1] = add(PAIR);
	find(fds[0])->other = fds[1];
	find(fds[1])->other = fds[0];
	return 0;
}

int __wrap_timerfd_create(int clock, int flags)
{
	(void) clock, (void) flags;
	return add(TIMER);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	int64_t ns = when->it_value.tv_sec * INT64_C(1000000000) + when->it_value.tv_nsec;

	(void) flags, (void) old;
	find(fd)->expires_ns = ns ? sched_now_ns + ns : SCHED_NEVER;
	find(fd)->edges++;
	sched_step();
	return 0;
}

/* A timer's descriptor is read by who sleeps until it expires. */
static uint64_t take(int fd)
{
	struct descriptor *one = find(fd);
	struct pollfd self = {.fd = fd, .events = POLLIN};
	uint64_t count = 1;

	if (one->kind == TIMER) {
		while (!wait_for("read of a timer", &(struct polled){&self, 1}, -1))
			;
		one->expires_ns = SCHED_NEVER;
	} else {
		count = one->count;
		one->count = 0;
	}
	return count;
}

/* read_pair -- what the bytes are nobody asks */
static ssize_t read_pair(struct descriptor *one, size_t len)
{
	size_t got = one->count < len ? one->count : len;

	one->count -= got;
	if (got)
		return (ssize_t) got;
	errno = EAGAIN;
	return -1;
}

ssize_t __wrap_read(int fd, void *buf, size_t len)
{
	if (fd < FIRST_FD)
		return wraps_libc()->read(fd, buf, len);
	sched_step();
	if (find(fd)->kind == PAIR)
		return read_pair(find(fd), len);
	*(uint64_t *) buf = take(fd);
	if (*(uint64_t *) buf)
		return sizeof(uint64_t);
	errno = EAGAIN;
	return -1;
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	struct descriptor *one;

	if (fd < FIRST_FD)
		return wraps_libc()->write(fd, buf, len);
	one = find(fd);
	if (one->kind == PAIR) {
		one = find(one->other);
		one->count += len;
	} else {
		one->count += *(const uint64_t *) buf;
	}
	one->edges++;
	sched_step();
	return (ssize_t) len;
}

int __wrap_close(int fd)
{
	struct descriptor *one;

	if (fd < FIRST_FD)
		return wraps_libc()->close(fd);
	one = find(fd);
	for (int i = 0; i < MOST_FDS; i++)
		forget_member(&all[i], fd);
	one->kind = FREE;
	if (one->core && one->core->closed)
		one->core->closed(one->core->arg);
	return 0;
}

void descriptors_kill(const struct sched_process *owner)
{
	for (int i = 0; i < MOST_FDS; i++) {
		if (all[i].kind != FREE && all[i].owner == owner)
			__wrap_close(FIRST_FD + i);
	}
}

/* When timers expire */

static int64_t next_ns(void)
{
	int64_t next = SCHED_NEVER;

	for (int i = 0; i < num_used; i++) {
		if (all[i].kind == TIMER && all[i].expires_ns > sched_now_ns &&
		    all[i].expires_ns < next)
			next = all[i].expires_ns;
	}
	return next;
}

static void advance(void)
{
}

void descriptors_start(void)
{
	static struct sched_clockwork timers = {.next_ns = next_ns, .advance = advance};

	sched_add(&timers);
}
