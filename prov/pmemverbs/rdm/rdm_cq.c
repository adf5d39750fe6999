/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_cq.c -- RxM's completion queues; rdm_cq.h says what is done with them */
#include "rdm/rdm_cq.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/setting.h"
#include "memory/guard.h"
#include "progress/queue.h"
#include "base/table.h"

/* While something waits for room in the core, nothing sleeps for longer than this. */
#define RETRY_MS 1

STAILQ_HEAD(deferred_list, pmv_deferred);

struct rdm_cq {
	PMV_TABLE(fi_ops) fid_ops;
	PMV_TABLE(fi_ops_cq) ops;
	struct fi_ops *rxm_fid_ops;
	struct fi_ops_cq *rxm_ops;
	size_t entry_size;
	bool has_flags;
	bool waits;  /* it has a wait object; RxM looks for none, and needs it */
	bool defers; /* else nothing below is used */
	struct pmv_op_pool pool;
	pthread_mutex_t lock;          /* also while one is committed: its endpoint stays open */
	struct deferred_list unposted; /* the core had no room to commit them */
	struct deferred_list failed;   /* their commit was refused */
};

static struct rdm_cq *to_rdm_cq(const struct fid_cq *fid)
{
	return pmv_container_of(fid->ops, struct rdm_cq, ops);
}

/* deferred_of -- NULL: the context is the application's */
static struct pmv_deferred *deferred_of(struct rdm_cq *cq, void *context)
{
	return pmv_is_op(&cq->pool, context) ? context : NULL;
}

/* commit -- false: there is no room in the core now; holds the lock */
static bool commit(struct rdm_cq *cq, struct pmv_deferred *deferred)
{
	ssize_t ret = deferred->op.owner ? deferred->commit(deferred) : -FI_ECANCELED;

	if (ret == -FI_EAGAIN) {
		STAILQ_INSERT_TAIL(&cq->unposted, deferred, next);
	} else if (ret) {
		pmv_op_fail(&deferred->op, (int) -ret, 0);
		STAILQ_INSERT_TAIL(&cq->failed, deferred, next);
	}
	return ret != -FI_EAGAIN;
}

/* push -- try each of the unposted once more, as long as there is room */
static void push(struct rdm_cq *cq)
{
	struct pmv_deferred *deferred;
	bool room = true;

	pthread_mutex_lock(&cq->lock);
	while (room && (deferred = STAILQ_FIRST(&cq->unposted))) {
		STAILQ_REMOVE_HEAD(&cq->unposted, next);
		room = commit(cq, deferred);
	}
	pthread_mutex_unlock(&cq->lock);
}

static bool is_empty(struct rdm_cq *cq, const struct deferred_list *list)
{
	bool empty;

	pthread_mutex_lock(&cq->lock);
	empty = STAILQ_EMPTY(list);
	pthread_mutex_unlock(&cq->lock);
	return empty;
}

/* take -- true: the entry is one for the application, and says what it should */
static bool take(struct rdm_cq *cq, void *entry)
{
	struct fi_cq_msg_entry *msg = entry; /* all formats begin like this one */
	struct pmv_deferred *deferred = deferred_of(cq, msg->op_context);
	bool report;

	if (!deferred)
		return true;
	if (!deferred->executed) {
		deferred->executed = true;
		if (cq->has_flags)
			deferred->op.flags = msg->flags;
		pthread_mutex_lock(&cq->lock);
		commit(cq, deferred);
		pthread_mutex_unlock(&cq->lock);
		return false;
	}
	msg->op_context = deferred->op.context;
	if (cq->has_flags)
		msg->flags = deferred->op.flags;
	report = deferred->op.audience == PMV_TELL_ALL;
	pmv_op_put(&cq->pool, &deferred->op);
	return report;
}

/* sift -- move the application's entries to the beginning; returns how many these are */
static ssize_t sift(struct rdm_cq *cq, void *buf, fi_addr_t *src_addr, ssize_t count)
{
	char *entries = buf;
	ssize_t kept = 0;

	for (ssize_t i = 0; i < count; i++) {
		char *entry = entries + (size_t) i * cq->entry_size;

		if (!take(cq, entry))
			continue;
		if (kept != i) {
			memcpy(entries + (size_t) kept * cq->entry_size, entry, cq->entry_size);
			if (src_addr)
				src_addr[kept] = src_addr[i];
		}
		kept++;
	}
	return kept;
}

static ssize_t read_rxm(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	ssize_t ret;

	pmv_guard_enter();
	/* RxM's read does the same, but through a table: it would come back here. */
	ret = to_rdm_cq(fid)->rxm_ops->readfrom(fid, buf, count, src_addr);
	pmv_guard_leave();
	return ret;
}

static ssize_t sread_rxm(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr,
			 const void *cond, int timeout)
{
	ssize_t ret;

	pmv_guard_enter();
	ret = to_rdm_cq(fid)->rxm_ops->sreadfrom(fid, buf, count, src_addr, cond, timeout);
	pmv_guard_leave();
	return ret;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	struct rdm_cq *cq = to_rdm_cq(fid);
	ssize_t ret;

	if (!cq->defers)
		return read_rxm(fid, buf, count, src_addr);
	push(cq);
	do {
		if (!is_empty(cq, &cq->failed))
			return -FI_EAVAIL;
		ret = read_rxm(fid, buf, count, src_addr);
		if (ret <= 0)
			return ret;
		ret = sift(cq, buf, src_addr, ret);
	} while (!ret);
	return ret;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr,
			    const void *cond, int timeout)
{
	struct rdm_cq *cq = to_rdm_cq(fid);
	int64_t end = pmv_clock_ms() + timeout;

	if (!cq->waits)
		return -FI_ENOSYS;
	if (!cq->defers)
		return sread_rxm(fid, buf, count, src_addr, cond, timeout);
	for (;;) {
		ssize_t ret = cq_readfrom(fid, buf, count, src_addr);
		int64_t left = timeout < 0 ? -1 : end - pmv_clock_ms();
		bool retry = !is_empty(cq, &cq->unposted);
		int64_t start = pmv_clock_ns();

		if (ret != -FI_EAGAIN || (timeout >= 0 && left <= 0))
			return ret;
		if (retry)
			left = RETRY_MS;
		/* RxM reads through the functions here.  What was sifted already stays as it is. */
		ret = sread_rxm(fid, buf, count, src_addr, cond, (int) left);
		if (ret > 0)
			ret = sift(cq, buf, src_addr, ret);
		/* If it returned earlier, fi_cq_signal has ended it. */
		if (ret && !(retry && ret == -FI_EAGAIN &&
			     pmv_clock_ns() - start >= RETRY_MS * INT64_C(1000000)))
			return ret;
	}
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct rdm_cq *cq = to_rdm_cq(fid);

	return cq->waits ? cq->rxm_ops->signal(fid) : -FI_ENOSYS;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct rdm_cq *cq = to_rdm_cq(fid);
	struct pmv_deferred *deferred;
	ssize_t ret = 1;

	pthread_mutex_lock(&cq->lock);
	deferred = STAILQ_FIRST(&cq->failed);
	if (deferred)
		STAILQ_REMOVE_HEAD(&cq->failed, next);
	pthread_mutex_unlock(&cq->lock);
	if (deferred) {
		/* Not every caller's structure is new enough to have what is behind err_data. */
		memset(entry, 0, offsetof(struct fi_cq_err_entry, err_data_size));
		entry->err = deferred->op.error;
	} else {
		pmv_guard_enter();
		ret = cq->rxm_ops->readerr(fid, entry, flags);
		pmv_guard_leave();
		deferred = ret > 0 ? deferred_of(cq, entry->op_context) : NULL;
	}
	if (deferred) {
		entry->op_context = deferred->op.context;
		if (deferred->executed)
			entry->flags = deferred->op.flags ? deferred->op.flags : FI_ATOMIC;
		pmv_op_put(&cq->pool, &deferred->op);
	}
	return ret;
}

void pmv_rdm_cq_drop(struct fid_cq *fid, struct pmv_op_owner *owner)
{
	struct rdm_cq *cq = to_rdm_cq(fid);

	pthread_mutex_lock(&cq->lock);
	pmv_op_abandon(owner);
	pthread_mutex_unlock(&cq->lock);
}

static int cq_close(struct fid *fid)
{
	struct rdm_cq *cq = pmv_container_of(fid->ops, struct rdm_cq, fid_ops);
	int ret = cq->rxm_fid_ops->close(fid);

	if (ret)
		return ret;
	pthread_mutex_destroy(&cq->lock);
	if (cq->defers)
		pmv_op_pool_destroy(&cq->pool);
	free(cq);
	return 0;
}

bool pmv_rdm_cq_is(const struct fid *fid)
{
	return fid->fclass == FI_CLASS_CQ && fid->ops->close == cq_close;
}

struct pmv_op_pool *pmv_rdm_cq_pool(const struct fid *fid)
{
	struct rdm_cq *cq;

	if (!pmv_rdm_cq_is(fid))
		return NULL;
	cq = pmv_container_of(fid->ops, struct rdm_cq, fid_ops);
	return cq->defers ? &cq->pool : NULL;
}

int pmv_rdm_cq_trywait(struct fid *fid)
{
	struct rdm_cq *cq;

	if (!pmv_rdm_cq_pool(fid))
		return 0;
	cq = pmv_container_of(fid->ops, struct rdm_cq, fid_ops);
	push(cq);
	return is_empty(cq, &cq->unposted) && is_empty(cq, &cq->failed) ? 0 : -FI_EAGAIN;
}

int pmv_rdm_cq_wrap(struct fid_cq *fid, const struct fi_cq_attr *attr)
{
	struct rdm_cq *cq = calloc(1, sizeof(*cq));
	int ret = cq ? 0 : -FI_ENOMEM;

	if (cq && pmv_setting.commit_all)
		ret = pmv_op_pool_init(&cq->pool, sizeof(struct pmv_deferred));
	if (ret) {
		free(cq);
		return ret;
	}
	cq->defers = pmv_setting.commit_all;
	cq->waits = attr->wait_obj != FI_WAIT_NONE;
	/* RxM takes an unspecified format for the shortest. */
	cq->entry_size = pmv_queue_entry_size(
		attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format);
	cq->has_flags = cq->entry_size >= sizeof(struct fi_cq_msg_entry);
	STAILQ_INIT(&cq->unposted);
	STAILQ_INIT(&cq->failed);
	pthread_mutex_init(&cq->lock, NULL);
	PMV_TABLE_REPLACE(fid->fid.ops, cq->rxm_fid_ops, cq->fid_ops);
	cq->fid_ops.fn.close = cq_close;
	PMV_TABLE_REPLACE(fid->ops, cq->rxm_ops, cq->ops);
	cq->ops.fn.read = cq_read;
	cq->ops.fn.readfrom = cq_readfrom;
	cq->ops.fn.readerr = cq_readerr;
	cq->ops.fn.sread = cq_sread;
	cq->ops.fn.sreadfrom = cq_sreadfrom;
	cq->ops.fn.signal = cq_signal;
	return 0;
}
