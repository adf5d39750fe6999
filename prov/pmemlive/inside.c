/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inside.c -- what libfabric calls while the simulation runs: its RxM is the real one
 *
 * The names of this program come before those of the C library, also for libraries.  So libfabric's
 * locks, threads, descriptors and clocks are simulated, too, and what it asks other providers for
 * comes to rxm.c.
 */
#include "inside.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "descriptors.h"
#include "scheduler.h"
#include "wraps.h"

static void *find(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	return found;
}

#define FIND(name) .name = (__typeof__(name) *) find(#name)

const struct wraps_libc *wraps_libc(void)
{
	static struct wraps_libc libc;

	if (libc.pthread_mutex_lock)
		return &libc;
	libc = (struct wraps_libc){
		FIND(pthread_mutex_trylock),
		FIND(pthread_mutex_unlock),
		FIND(pthread_spin_lock),
		FIND(pthread_spin_trylock),
		FIND(pthread_spin_unlock),
		FIND(pthread_create),
		FIND(pthread_join),
		FIND(clock_gettime),
		FIND(epoll_create),
		FIND(epoll_ctl),
		FIND(epoll_wait),
		FIND(poll),
		FIND(read),
		FIND(write),
		FIND(close),
		FIND(fcntl),
		FIND(socketpair),
		FIND(getpid),
		FIND(pthread_mutex_lock),
	};
	return &libc;
}

void inside_start(void)
{
	wraps_libc();
}

/* INSIDE -- a function of the C library: the simulated one, if a simulated thread calls it */
#define INSIDE(type, name, params, simulated, ...)                                                 \
	type name params                                                                           \
	{                                                                                          \
		return sched_current ? (simulated) : wraps_libc()->name(__VA_ARGS__);              \
	}

INSIDE(int, pthread_mutex_lock, (pthread_mutex_t * mutex), __wrap_pthread_mutex_lock(mutex), mutex)
INSIDE(int, pthread_mutex_unlock, (pthread_mutex_t * mutex), __wrap_pthread_mutex_unlock(mutex),
       mutex)
INSIDE(int, pthread_create,
       (pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*run)(void *),
	void *restrict arg),
       __wrap_pthread_create(thread, attr, run, arg), thread, attr, run, arg)
INSIDE(int, pthread_join, (pthread_t thread, void **result), __wrap_pthread_join(thread, result),
       thread, result)
INSIDE(int, clock_gettime, (clockid_t clock, struct timespec *ts), __wrap_clock_gettime(clock, ts),
       clock, ts)
INSIDE(int, epoll_create, (int size), __wrap_epoll_create1(0), size)
INSIDE(int, epoll_ctl, (int fd, int op, int member, struct epoll_event *event),
       __wrap_epoll_ctl(fd, op, member, event), fd, op, member, event)
INSIDE(int, epoll_wait, (int fd, struct epoll_event *events, int max, int timeout_ms),
       __wrap_epoll_wait(fd, events, max, timeout_ms), fd, events, max, timeout_ms)
INSIDE(int, poll, (struct pollfd * fds, nfds_t count, int timeout_ms),
       __wrap_poll(fds, count, timeout_ms), fds, count, timeout_ms)
INSIDE(ssize_t, read, (int fd, void *buf, size_t len), __wrap_read(fd, buf, len), fd, buf, len)
INSIDE(ssize_t, write, (int fd, const void *buf, size_t len), __wrap_write(fd, buf, len), fd, buf,
       len)
INSIDE(int, close, (int fd), __wrap_close(fd), fd)
INSIDE(int, socketpair, (int family, int type, int protocol, int fds[2]), descriptors_pair(fds),
       family, type, protocol, fds)
/* A process of its own has a number of its own: RxM tells lives of its peers apart by it. */
INSIDE(pid_t, getpid, (void), sched_process()->pid)

static bool is_unlocked(void *lock)
{
	if (wraps_libc()->pthread_spin_trylock(lock))
		return false;
	wraps_libc()->pthread_spin_unlock(lock);
	return true;
}

int pthread_spin_lock(pthread_spinlock_t *lock)
{
	if (!sched_current)
		return wraps_libc()->pthread_spin_lock(lock);
	sched_step();
	while (wraps_libc()->pthread_spin_trylock(lock))
		sched_block("waits for a lock", is_unlocked, (void *) lock, SCHED_NEVER);
	return 0;
}

int pthread_spin_unlock(pthread_spinlock_t *lock)
{
	int ret = wraps_libc()->pthread_spin_unlock(lock);

	sched_step();
	return ret;
}

int fcntl(int fd, int command, ...)
{
	va_list args;
	void *arg;

	if (descriptors_is(fd))
		return 0;
	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	return wraps_libc()->fcntl(fd, command, arg);
}
