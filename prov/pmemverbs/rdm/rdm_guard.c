/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_guard.c -- RxM's queues and counters are read under guard; rdm_guard.h says why */
#include "rdm/rdm_guard.h"

#include <pthread.h>

#include "memory/guard.h"
#include "rdm/table.h"

/* All of RxM's objects of a kind share one table, so one copy is enough. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fi_ops_cq *rxm_cq;
static TABLE(fi_ops_cq) guarded_cq;
static struct fi_ops_cntr *rxm_cntr;
static TABLE(fi_ops_cntr) guarded_cntr;

static ssize_t cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	ssize_t ret;

	pmv_guard_enter();
	ret = rxm_cq->read(cq, buf, count);
	pmv_guard_leave();
	return ret;
}

static ssize_t cq_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
	ssize_t ret;

	pmv_guard_enter();
	ret = rxm_cq->readfrom(cq, buf, count, src_addr);
	pmv_guard_leave();
	return ret;
}

static ssize_t cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout)
{
	ssize_t ret;

	pmv_guard_enter();
	ret = rxm_cq->sread(cq, buf, count, cond, timeout);
	pmv_guard_leave();
	return ret;
}

static ssize_t cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
			    const void *cond, int timeout)
{
	ssize_t ret;

	pmv_guard_enter();
	ret = rxm_cq->sreadfrom(cq, buf, count, src_addr, cond, timeout);
	pmv_guard_leave();
	return ret;
}

void pmv_rdm_guard_cq(struct fid_cq *cq)
{
	pthread_mutex_lock(&lock);
	if (!rxm_cq) {
		rxm_cq = cq->ops;
		COPY_TABLE(guarded_cq, rxm_cq);
		guarded_cq.fn.read = cq_read;
		guarded_cq.fn.readfrom = cq_readfrom;
		guarded_cq.fn.sread = cq_sread;
		guarded_cq.fn.sreadfrom = cq_sreadfrom;
	}
	if (cq->ops == rxm_cq)
		cq->ops = &guarded_cq.fn;
	pthread_mutex_unlock(&lock);
}

static uint64_t cntr_read(struct fid_cntr *cntr)
{
	uint64_t ret;

	pmv_guard_enter();
	ret = rxm_cntr->read(cntr);
	pmv_guard_leave();
	return ret;
}

static uint64_t cntr_readerr(struct fid_cntr *cntr)
{
	uint64_t ret;

	pmv_guard_enter();
	ret = rxm_cntr->readerr(cntr);
	pmv_guard_leave();
	return ret;
}

static int cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
	int ret;

	pmv_guard_enter();
	ret = rxm_cntr->wait(cntr, threshold, timeout);
	pmv_guard_leave();
	return ret;
}

void pmv_rdm_guard_cntr(struct fid_cntr *cntr)
{
	pthread_mutex_lock(&lock);
	if (!rxm_cntr) {
		rxm_cntr = cntr->ops;
		COPY_TABLE(guarded_cntr, rxm_cntr);
		guarded_cntr.fn.read = cntr_read;
		guarded_cntr.fn.readerr = cntr_readerr;
		guarded_cntr.fn.wait = cntr_wait;
	}
	if (cntr->ops == rxm_cntr)
		cntr->ops = &guarded_cntr.fn;
	pthread_mutex_unlock(&lock);
}
