/* SPDX-License-Identifier: BSD-2-Clause */
/* spawn.h -- threads of the provider's own */
#ifndef PMV_SPAWN_H
#define PMV_SPAWN_H

#include <pthread.h>

/*
 * pmv_spawn -- start a thread with this name.  It takes none of the application's signals, whatever
 * the caller takes, but this one if it is not 0.  0 or a positive errno.
 */
int pmv_spawn(pthread_t *thread, const char *name, void *(*run)(void *), void *arg, int signal);

#endif /* PMV_SPAWN_H */
