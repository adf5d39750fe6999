/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_wake.c -- who sleeps on a completion queue of RxM looks again when a connection is lost */
#include "rdm/rdm_wake.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, pmv_rdm_wake) all = LIST_HEAD_INITIALIZER(all);

void pmv_rdm_wake_add(struct pmv_rdm_wake *wake, struct fid_cq *fid,
		      int (*signal)(struct fid_cq *fid))
{
	pthread_mutex_lock(&lock);
	if (!wake->fid)
		LIST_INSERT_HEAD(&all, wake, next);
	wake->fid = fid;
	wake->signal = signal;
	pthread_mutex_unlock(&lock);
}

void pmv_rdm_wake_remove(struct pmv_rdm_wake *wake)
{
	pthread_mutex_lock(&lock);
	if (wake->fid)
		LIST_REMOVE(wake, next);
	wake->fid = NULL;
	pthread_mutex_unlock(&lock);
}

void pmv_rdm_wake_all(const struct fid_domain *under)
{
	struct pmv_rdm_wake *wake;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(wake, &all, next)
	{
		if (wake->under == under)
			wake->signal(wake->fid);
	}
	pthread_mutex_unlock(&lock);
}
