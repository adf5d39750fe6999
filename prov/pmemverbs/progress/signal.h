/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signal.h -- by what a core's queue wakes whoever sleeps, and that it does not while nobody does
 *
 * A queue of libfabric's tcp has a pair of sockets in its descriptor, which is an epoll.  An entry
 * writes a byte into the pair, unless one is there.  Before 1.18 the next call that reads the queue
 * takes the byte out again (1.17: tcpx_progress).  So each entry costs two system calls, even if
 * all that read the queue look at it without pause.  The first one takes longer than the rest of
 * what the entry costs, and whoever looks gets the entry only behind it.  Since 1.18 the byte stays
 * until somebody calls fi_trywait.
 *
 * Here that is so before 1.18, too: while the application finds entries, and nobody sleeps, the
 * pair's events are masked in the core's epoll.  So the byte stays, and no other one is written.
 * What arrives by the network makes the core's descriptor ready nevertheless.
 *
 * Why no wake-up is lost.  Nobody sleeps on the core's descriptor, or on one around it, while the
 * pair is masked:
 *
 *   - A thread of the application arms the queue first.  That ends the mask, and fi_trywait, which
 *     follows, takes the byte out.  From then on until it reads the queue, no other thread masks
 *     the pair; and its own reads show that it does not sleep.  If several threads were about to
 *     sleep at a time, the pair is not masked any more.
 *   - The agent's thread holds the pair before it asks the core whether it may sleep, and as long
 *     as it gets the queue's events.
 *
 * The thread that has armed the queue is the one that sleeps: an application that has another one
 * sleep in its place, and reads meanwhile, hears only of what the network brings.
 *
 * The kernel tells which sockets are in an epoll (/proc/self/fdinfo).  A new queue has nothing else
 * there; if there is anything else, or nothing is told, all stays as libfabric has it.
 *
 * The caller holds the queue's lock.
 */
#ifndef PMV_SIGNAL_H
#define PMV_SIGNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Entries are found so often since the last sleep began before the pair is masked. */
#define PMV_SIGNAL_FINDS 16

struct pmv_signal {
	int epoll_fd;
	int fd; /* the end that is read; -1: nothing can be masked */
	uint32_t events;
	uint64_t data; /* the core's */
	bool masked;
	bool held;         /* by the agent's thread */
	bool shared;       /* several threads have slept at a time */
	bool sleeps;       /* this thread of the application may: */
	pthread_t sleeper; /* it has armed the queue, and not read it since */
	unsigned int finds;
};

/* pmv_signal_find -- in the descriptor of a new queue of the core */
void pmv_signal_find(struct pmv_signal *signal, int epoll_fd);

/* pmv_signal_arm -- this thread of the application is about to sleep; 0 or a negative errno */
int pmv_signal_arm(struct pmv_signal *signal);

/* pmv_signal_hold -- the agent's thread may sleep, until it lets go; both as pmv_signal_arm */
int pmv_signal_hold(struct pmv_signal *signal);
int pmv_signal_let_go(struct pmv_signal *signal);

/* pmv_signal_read -- this thread of the application reads, so it does not sleep */
static inline void pmv_signal_read(struct pmv_signal *signal)
{
	if (signal->sleeps && pthread_equal(signal->sleeper, pthread_self()))
		signal->sleeps = false;
}

/* pmv_signal_found -- it has found entries of the core.  Only if there is a pair. */
void pmv_signal_found(struct pmv_signal *signal);

#endif /* PMV_SIGNAL_H */
