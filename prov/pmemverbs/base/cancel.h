/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cancel.h -- a thread that waits may be cancelled while it sleeps, and nowhere else
 *
 * Cores make system calls where pthread_cancel takes effect, and locks are held there.  So a call
 * that waits lets itself be cancelled only where it sleeps, and holds nothing.
 */
#ifndef PMV_CANCEL_H
#define PMV_CANCEL_H

#include <pthread.h>

/* pmv_cancel_off -- returns what the thread had, for pmv_cancel_restore */
static inline int pmv_cancel_off(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void pmv_cancel_restore(int state)
{
	pthread_setcancelstate(state, NULL);
}

#endif /* PMV_CANCEL_H */
