/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wraps.h -- the calls that the linker sends here, and what they would have come to
 *
 * Those of wraps_libc() come here from libfabric as well (inside.c), so that the linker's name for
 * the C library's would lead back.  They are looked up when the program runs.
 */
#ifndef WRAPS_H
#define WRAPS_H

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define WRAP(type, name, ...)                                                                      \
	type __real_##name(__VA_ARGS__);                                                           \
	type __wrap_##name(__VA_ARGS__)

/* What the C library has, by the same names. */
struct wraps_libc {
	__typeof__(pthread_mutex_lock) *pthread_mutex_lock;
	__typeof__(pthread_mutex_trylock) *pthread_mutex_trylock;
	__typeof__(pthread_mutex_unlock) *pthread_mutex_unlock;
	__typeof__(pthread_spin_lock) *pthread_spin_lock;
	__typeof__(pthread_spin_trylock) *pthread_spin_trylock;
	__typeof__(pthread_spin_unlock) *pthread_spin_unlock;
	__typeof__(pthread_create) *pthread_create;
	__typeof__(pthread_join) *pthread_join;
	__typeof__(clock_gettime) *clock_gettime;
	__typeof__(epoll_create) *epoll_create;
	__typeof__(epoll_ctl) *epoll_ctl;
	__typeof__(epoll_wait) *epoll_wait;
	__typeof__(poll) *poll;
	__typeof__(read) *read;
	__typeof__(write) *write;
	__typeof__(close) *close;
	__typeof__(fcntl) *fcntl;
	__typeof__(socketpair) *socketpair;
	__typeof__(getpid) *getpid;
};

const struct wraps_libc *wraps_libc(void);

/* threads.c */
WRAP(int, pthread_mutex_lock, pthread_mutex_t *mutex);
WRAP(int, pthread_mutex_trylock, pthread_mutex_t *mutex);
WRAP(int, pthread_mutex_unlock, pthread_mutex_t *mutex);
WRAP(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *mutex);
WRAP(int, pthread_cond_clockwait, pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
     const struct timespec *until);
WRAP(int, pthread_cond_signal, pthread_cond_t *cond);
WRAP(pthread_t, pthread_self, void);
WRAP(int, pthread_cond_broadcast, pthread_cond_t *cond);
WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
     void *arg);
WRAP(int, pthread_setname_np, pthread_t thread, const char *name);
WRAP(int, pthread_join, pthread_t thread, void **result);
WRAP(int, pthread_detach, pthread_t thread);
WRAP(int, clock_gettime, clockid_t clock, struct timespec *ts);
WRAP(int, nanosleep, const struct timespec *ts, struct timespec *left);
WRAP(ssize_t, getrandom, void *buf, size_t len, unsigned int flags);

/* descriptors.c */
WRAP(int, eventfd, unsigned int count, int flags);
WRAP(int, epoll_create1, int flags);
WRAP(int, epoll_ctl, int epoll, int op, int fd, struct epoll_event *event);
WRAP(int, epoll_wait, int epoll, struct epoll_event *events, int max, int timeout_ms);
WRAP(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms);
WRAP(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *timeout,
     const sigset_t *mask);
WRAP(int, timerfd_create, int clock, int flags);
WRAP(int, timerfd_settime, int fd, int flags, const struct itimerspec *when,
     struct itimerspec *old);
WRAP(ssize_t, read, int fd, void *buf, size_t len);
WRAP(ssize_t, write, int fd, const void *buf, size_t len);
WRAP(int, close, int fd);
int descriptors_pair(int fds[2]);

/* sockets.c */
WRAP(int, socket, int family, int type, int protocol);
WRAP(int, setsockopt, int fd, int level, int name, const void *value, socklen_t len);
WRAP(int, bind, int fd, const struct sockaddr *addr, socklen_t len);
WRAP(int, getsockname, int fd, struct sockaddr *addr, socklen_t *len);
WRAP(ssize_t, sendto, int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
     socklen_t addr_len);
WRAP(ssize_t, recv, int fd, void *buf, size_t len, int flags);

/* tcp.c */
WRAP(int, getsockopt, int fd, int level, int name, void *value, socklen_t *len);
WRAP(int, shutdown, int fd, int how);
WRAP(int, connect, int fd, const struct sockaddr *addr, socklen_t len);
WRAP(DIR *, opendir, const char *path);
WRAP(struct dirent *, readdir, DIR *dir);
WRAP(int, closedir, DIR *dir);

#endif /* WRAPS_H */
