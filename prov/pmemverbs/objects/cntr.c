/* SPDX-License-Identifier: BSD-2-Clause */
/* cntr.c -- counters; cntr.h says what they count */
#include "objects/cntr.h"

#include <stdlib.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "progress/queue.h"

/* How long a waiting thread sleeps between two looks at the queues. */
#define WAIT_STEP_NS 50000

void pmv_cntr_add(struct pmv_cntr *cntr, struct pmv_cntr_source *source)
{
	pthread_mutex_lock(&cntr->lock);
	LIST_INSERT_HEAD(&cntr->sources, source, next);
	pthread_mutex_unlock(&cntr->lock);
}

void pmv_cntr_drop(struct pmv_cntr *cntr, struct pmv_cntr_source *source)
{
	pthread_mutex_lock(&cntr->lock);
	LIST_REMOVE(source, next);
	pthread_mutex_unlock(&cntr->lock);
}

static void progress(struct pmv_cntr *cntr)
{
	struct pmv_cntr_source *source;

	pmv_agent_progress(&cntr->domain->agent);
	pthread_mutex_lock(&cntr->lock);
	LIST_FOREACH(source, &cntr->sources, next)
	pmv_queue_progress(source->queue, true);
	pthread_mutex_unlock(&cntr->lock);
	pmv_agent_nudge(&cntr->domain->agent);
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct pmv_cntr *cntr = pmv_to_cntr(fid);

	progress(cntr);
	return atomic_load(&cntr->count.value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	struct pmv_cntr *cntr = pmv_to_cntr(fid);

	progress(cntr);
	return atomic_load(&cntr->count.errors);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&pmv_to_cntr(fid)->count.value, value);
	return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&pmv_to_cntr(fid)->count.value, value);
	return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&pmv_to_cntr(fid)->count.errors, value);
	return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&pmv_to_cntr(fid)->count.errors, value);
	return 0;
}

static int wait_for(struct pmv_cntr *cntr, uint64_t threshold, int timeout, int cancel)
{
	const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
	uint64_t errors = atomic_load(&cntr->count.errors);
	int64_t end = pmv_clock_ns() + timeout * INT64_C(1000000);

	for (;;) {
		progress(cntr);
		if (atomic_load(&cntr->count.value) >= threshold)
			return 0;
		if (atomic_load(&cntr->count.errors) != errors)
			return -FI_EAVAIL;
		if (timeout >= 0 && pmv_clock_ns() >= end)
			return -FI_ETIMEDOUT;
		pmv_cancel_restore(cancel);
		nanosleep(&step, NULL);
		pmv_cancel_off();
	}
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	int cancel = pmv_cancel_off();
	int ret = wait_for(pmv_to_cntr(fid), threshold, timeout, cancel);

	pmv_cancel_restore(cancel);
	return ret;
}

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

static int cntr_close(struct fid *fid)
{
	struct pmv_cntr *cntr = pmv_container_of(fid, struct pmv_cntr, cntr_fid.fid);

	if (atomic_load(&cntr->users))
		return -FI_EBUSY;
	atomic_fetch_sub(&cntr->domain->users, 1);
	pthread_mutex_destroy(&cntr->lock);
	free(cntr);
	return 0;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
	(void) fid;
	if (command != FI_GETWAITOBJ)
		return -FI_ENOSYS;
	*(enum fi_wait_obj *) arg = FI_WAIT_NONE;
	return 0;
}

struct fi_ops pmv_cntr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.control = cntr_control,
};

int pmv_cntr_open(struct fid_domain *domain_fid, struct fi_cntr_attr *attr,
		  struct fid_cntr **cntr_fid, void *context)
{
	struct pmv_cntr *cntr;

	if (attr && ((attr->events != FI_CNTR_EVENTS_COMP) || attr->flags))
		return -FI_ENOSYS;
	if (attr && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC)
		return -FI_ENOSYS;

	cntr = calloc(1, sizeof(*cntr));
	if (!cntr)
		return -FI_ENOMEM;
	cntr->domain = pmv_to_domain(domain_fid);
	pthread_mutex_init(&cntr->lock, NULL);
	cntr->cntr_fid = (struct fid_cntr){
		.fid = {.fclass = FI_CLASS_CNTR, .context = context, .ops = &pmv_cntr_fi_ops},
		.ops = &cntr_ops,
	};
	atomic_fetch_add(&cntr->domain->users, 1);
	*cntr_fid = &cntr->cntr_fid;
	return 0;
}
