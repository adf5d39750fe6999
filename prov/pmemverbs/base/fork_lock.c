/* SPDX-License-Identifier: BSD-2-Clause */
/* fork_lock.c -- a lock that fork() takes, too; fork_lock.h has the rules */
#include "base/fork_lock.h"

#include <errno.h>

void pmv_fork_lock(struct pmv_fork_lock *lock)
{
	if (pthread_mutex_lock(&lock->mutex) == EDEADLK)
		lock->again++;
}

bool pmv_fork_trylock(struct pmv_fork_lock *lock)
{
	return !pthread_mutex_trylock(&lock->mutex);
}

void pmv_fork_unlock(struct pmv_fork_lock *lock)
{
	/* In the child of a fork by the holder the lock is free: then this fails, and does nothing.
	 */
	if (lock->again)
		lock->again--;
	else
		pthread_mutex_unlock(&lock->mutex);
}

bool pmv_fork_child(struct pmv_fork_lock *lock)
{
	const pthread_mutex_t free_mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	bool whole = !lock->again;

	*lock = (struct pmv_fork_lock){free_mutex, 0, lock->process + 1};
	return whole;
}
