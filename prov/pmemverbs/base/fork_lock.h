/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork_lock.h -- a lock that fork() takes, too: in a child it is free
 *
 * Its user has pthread_atfork take it, release it, and call pmv_fork_child.  A fork waits for
 * another thread that holds the lock.  The thread itself may hold it already: a signal's handler
 * may fork, and so may a handler of pthread_atfork.  So a thread may take it several times.  In the
 * child of such a fork what the lock protects may be half changed, and must be made anew without a
 * look at it.  What is in a list tells by `process` that it is the parent's.
 *
 * A signal's handler must not fork in the few instructions in which the C library takes or releases
 * the lock: it would wait for its own thread.
 */
#ifndef PMV_FORK_LOCK_H
#define PMV_FORK_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct pmv_fork_lock {
	pthread_mutex_t mutex;
	unsigned int again;   /* so many times more than once its thread holds it */
	unsigned int process; /* one more in each child; never 0 */
};

#define PMV_FORK_LOCK_INITIALIZER                                                                  \
	{                                                                                          \
		PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, 0, 1                                      \
	}

/* pmv_fork_trylock -- false: somebody has it, also if that is this thread */
void pmv_fork_lock(struct pmv_fork_lock *lock);
bool pmv_fork_trylock(struct pmv_fork_lock *lock);
void pmv_fork_unlock(struct pmv_fork_lock *lock);

/* pmv_fork_child -- in a child; false: what the lock protects may be half changed */
bool pmv_fork_child(struct pmv_fork_lock *lock);

#endif /* PMV_FORK_LOCK_H */
