/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poller.h -- one thread of the process that moves descriptors and waits for none of them
 *
 * It is there while somebody has entered.  It calls ready() when a descriptor is, and late() when
 * its time has come, both with the poller's lock.  They may add and remove what they like, also
 * what they were called for, and take only locks of a core.
 */
#ifndef PMV_POLLER_H
#define PMV_POLLER_H

#include <stdint.h>
#include <sys/epoll.h>
#include <sys/queue.h>

struct pmv_watched {
	LIST_ENTRY(pmv_watched) next;
	unsigned int process; /* fork_lock.h; 0: it was not added, or was removed */
	int fd;               /* -1: none yet, only the time */
	int64_t until_ms;     /* 0: never; late() has to set another one, or to remove it */
	void (*ready)(struct pmv_watched *watched);
	void (*late)(struct pmv_watched *watched);
};

/* pmv_poller_enter -- one more needs the thread: 0 or an errno.  Without the lock, as _leave. */
int pmv_poller_enter(void);
void pmv_poller_leave(void);

void pmv_poller_lock(void);
void pmv_poller_unlock(void);

/* The rest is for those who have entered and hold the lock. */

/* pmv_poller_add -- with the events of epoll; without a descriptor, 0.  0 or an errno. */
int pmv_poller_add(struct pmv_watched *watched, uint32_t events);
/* pmv_poller_fd -- it has a descriptor from now on; or other events, if it is the same */
int pmv_poller_fd(struct pmv_watched *watched, int fd, uint32_t events);
/* pmv_poller_remove -- its descriptor is closed */
void pmv_poller_remove(struct pmv_watched *watched);

#endif /* PMV_POLLER_H */
