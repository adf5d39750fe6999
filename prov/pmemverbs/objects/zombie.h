/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zombie.h -- endpoints that were closed, and may still be called
 *
 * A layer between the application and this domain may close an endpoint, and only then
 * read from the CQ what had arrived there: it posts those receives again, and answers, on
 * the closed endpoint.  So the last endpoints that were closed stay in memory for a while.
 * Every call to them fails.
 */
#ifndef PMV_ZOMBIE_H
#define PMV_ZOMBIE_H

#include <pthread.h>
#include <stddef.h>

struct pmv_ep;

/* The layer is done with an endpoint before it has closed this many more, in all threads. */
#define PMV_ZOMBIES 16

struct pmv_zombies {
	pthread_mutex_t lock;
	struct pmv_ep *eps[PMV_ZOMBIES];
	size_t count; /* of all that there were */
};

void pmv_zombies_init(struct pmv_zombies *zombies);
void pmv_zombies_destroy(struct pmv_zombies *zombies);

/* pmv_zombies_add -- a closed endpoint, which is freed some time later */
void pmv_zombies_add(struct pmv_zombies *zombies, struct pmv_ep *ep);

#endif /* PMV_ZOMBIE_H */
