/* SPDX-License-Identifier: BSD-2-Clause */
/* deferred.c -- a CQ of RxM's that defers atomics until they are durable; deferred.h says how */
#include "rdm/deferred.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/container.h"
#include "progress/queue.h"
#include "rdm/rdm_ep.h"
#include "rdm/table.h"

/* This reserves addresses; memory is used for as many as were ever under way at once. */
#define MAX_DEFERRED ((size_t) 1 << 16)
#define DEFERRED_BYTES (MAX_DEFERRED * sizeof(struct pmv_deferred))

/* While something waits for room in the core, nothing sleeps for longer than this. */
#define RETRY_MS 1

STAILQ_HEAD(deferred_list, pmv_deferred);

struct deferred_cq {
	TABLE(fi_ops) fid_ops;
	TABLE(fi_ops_cq) ops;
	struct fi_ops *rxm_fid_ops;
	struct fi_ops_cq *rxm_ops;
	size_t entry_size;
	bool has_flags;
	struct pmv_deferred *base;
	pthread_mutex_t commit_lock; /* taken while one is committed: its endpoint stays open */
	pthread_mutex_t lock;        /* for everything below */
	size_t used;                 /* how many were ever handed out */
	struct deferred_list free;
	struct deferred_list unposted; /* the core had no room to commit them */
	struct deferred_list failed;   /* their commit was refused */
};

static struct deferred_cq *to_deferred_cq(const struct fid_cq *fid)
{
	return pmv_container_of(fid->ops, struct deferred_cq, ops);
}

/* deferred_of -- NULL: the context is the application's */
static struct pmv_deferred *deferred_of(struct deferred_cq *cq, const void *context)
{
	return (uintptr_t) context - (uintptr_t) cq->base < DEFERRED_BYTES
		       ? (struct pmv_deferred *) (uintptr_t) context
		       : NULL;
}

static struct pmv_deferred *take_first(struct deferred_list *list)
{
	struct pmv_deferred *deferred = STAILQ_FIRST(list);

	if (deferred)
		STAILQ_REMOVE_HEAD(list, next);
	return deferred;
}

struct pmv_deferred *pmv_deferred_get(struct fid_cq *fid, struct fid_ep *ep)
{
	struct deferred_cq *cq = to_deferred_cq(fid);
	struct pmv_deferred *deferred;

	pthread_mutex_lock(&cq->lock);
	deferred = take_first(&cq->free);
	if (!deferred && cq->used < MAX_DEFERRED)
		deferred = &cq->base[cq->used++];
	if (deferred)
		*deferred = (struct pmv_deferred){.ep = ep};
	pthread_mutex_unlock(&cq->lock);
	return deferred;
}

static void put(struct deferred_cq *cq, struct pmv_deferred *deferred)
{
	pthread_mutex_lock(&cq->lock);
	deferred->ep = NULL;
	STAILQ_INSERT_HEAD(&cq->free, deferred, next);
	pthread_mutex_unlock(&cq->lock);
}

void pmv_deferred_put(struct fid_cq *fid, struct pmv_deferred *deferred)
{
	put(to_deferred_cq(fid), deferred);
}

/* commit -- false: there is no room in the core now */
static bool commit(struct deferred_cq *cq, struct pmv_deferred *deferred)
{
	ssize_t ret;

	pthread_mutex_lock(&cq->commit_lock);
	ret = deferred->ep ? pmv_rdm_ep_commit(deferred) : -FI_ECANCELED;
	pthread_mutex_unlock(&cq->commit_lock);
	if (!ret)
		return true;
	pthread_mutex_lock(&cq->lock);
	if (ret == -FI_EAGAIN) {
		STAILQ_INSERT_TAIL(&cq->unposted, deferred, next);
	} else {
		deferred->err = (int) -ret;
		STAILQ_INSERT_TAIL(&cq->failed, deferred, next);
	}
	pthread_mutex_unlock(&cq->lock);
	return ret != -FI_EAGAIN;
}

/* push -- try each of the unposted once more, as long as there is room */
static void push(struct deferred_cq *cq)
{
	struct pmv_deferred *deferred;
	bool room = true;

	while (room) {
		pthread_mutex_lock(&cq->lock);
		deferred = take_first(&cq->unposted);
		pthread_mutex_unlock(&cq->lock);
		room = deferred && commit(cq, deferred);
	}
}

static bool is_empty(struct deferred_cq *cq, const struct deferred_list *list)
{
	bool empty;

	pthread_mutex_lock(&cq->lock);
	empty = STAILQ_EMPTY(list);
	pthread_mutex_unlock(&cq->lock);
	return empty;
}

/* take -- true: the entry is one for the application, and says what it should */
static bool take(struct deferred_cq *cq, void *entry)
{
	struct fi_cq_msg_entry *msg = entry; /* all formats begin like this one */
	struct pmv_deferred *deferred = deferred_of(cq, msg->op_context);
	bool report;

	if (!deferred)
		return true;
	if (!deferred->executed) {
		deferred->executed = true;
		if (cq->has_flags)
			deferred->flags = msg->flags;
		commit(cq, deferred);
		return false;
	}
	msg->op_context = deferred->context;
	if (cq->has_flags)
		msg->flags = deferred->flags;
	report = deferred->report;
	put(cq, deferred);
	return report;
}

/* sift -- move the application's entries to the beginning; returns how many these are */
static ssize_t sift(struct deferred_cq *cq, void *buf, fi_addr_t *src_addr, ssize_t count)
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

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	struct deferred_cq *cq = to_deferred_cq(fid);
	ssize_t ret;

	push(cq);
	do {
		if (!is_empty(cq, &cq->failed))
			return -FI_EAVAIL;
		/* RxM's read does the same, but through a table: it would come back here. */
		ret = cq->rxm_ops->readfrom(fid, buf, count, src_addr);
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
	struct deferred_cq *cq = to_deferred_cq(fid);
	int64_t end = pmv_clock_ms() + timeout;

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
		ret = cq->rxm_ops->sreadfrom(fid, buf, count, src_addr, cond, (int) left);
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

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct deferred_cq *cq = to_deferred_cq(fid);
	struct pmv_deferred *deferred;
	ssize_t ret = 1;

	pthread_mutex_lock(&cq->lock);
	deferred = take_first(&cq->failed);
	pthread_mutex_unlock(&cq->lock);
	if (deferred) {
		entry->err = deferred->err;
		entry->prov_errno = 0;
		entry->len = 0;
		entry->olen = 0;
		entry->buf = NULL;
		entry->data = 0;
		entry->tag = 0;
		/* Not every caller's structure is new enough to have the field for its size. */
		entry->err_data = NULL;
	} else {
		ret = cq->rxm_ops->readerr(fid, entry, flags);
		deferred = ret > 0 ? deferred_of(cq, entry->op_context) : NULL;
	}
	if (deferred) {
		entry->op_context = deferred->context;
		if (deferred->executed)
			entry->flags = deferred->flags ? deferred->flags : FI_ATOMIC;
		put(cq, deferred);
	}
	return ret;
}

int pmv_deferred_trywait(struct fid_cq *fid)
{
	struct deferred_cq *cq = to_deferred_cq(fid);

	push(cq);
	return is_empty(cq, &cq->unposted) && is_empty(cq, &cq->failed) ? 0 : -FI_EAGAIN;
}

void pmv_deferred_drop(struct fid_cq *fid, struct fid_ep *ep)
{
	struct deferred_cq *cq = to_deferred_cq(fid);

	pthread_mutex_lock(&cq->commit_lock);
	pthread_mutex_lock(&cq->lock);
	for (size_t i = 0; i < cq->used; i++) {
		if (cq->base[i].ep == ep)
			cq->base[i].ep = NULL;
	}
	pthread_mutex_unlock(&cq->lock);
	pthread_mutex_unlock(&cq->commit_lock);
}

static int cq_close(struct fid *fid)
{
	struct deferred_cq *cq = pmv_container_of(fid->ops, struct deferred_cq, fid_ops);
	int ret = cq->rxm_fid_ops->close(fid);

	if (ret)
		return ret;
	pthread_mutex_destroy(&cq->lock);
	pthread_mutex_destroy(&cq->commit_lock);
	munmap(cq->base, DEFERRED_BYTES);
	free(cq);
	return 0;
}

bool pmv_deferred_is_cq(const struct fid *fid)
{
	return fid->fclass == FI_CLASS_CQ && fid->ops->close == cq_close;
}

int pmv_deferred_wrap(struct fid_cq *fid, const struct fi_cq_attr *attr)
{
	struct deferred_cq *cq = calloc(1, sizeof(*cq));
	void *base = mmap(NULL, DEFERRED_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!cq || base == MAP_FAILED) {
		if (base != MAP_FAILED)
			munmap(base, DEFERRED_BYTES);
		free(cq);
		return -FI_ENOMEM;
	}
	cq->base = base;
	/* RxM takes an unspecified format for the shortest. */
	cq->entry_size = pmv_queue_entry_size(
		attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format);
	cq->has_flags = cq->entry_size >= sizeof(struct fi_cq_msg_entry);
	STAILQ_INIT(&cq->free);
	STAILQ_INIT(&cq->unposted);
	STAILQ_INIT(&cq->failed);
	pthread_mutex_init(&cq->lock, NULL);
	pthread_mutex_init(&cq->commit_lock, NULL);
	cq->rxm_fid_ops = fid->fid.ops;
	COPY_TABLE(cq->fid_ops, fid->fid.ops);
	cq->fid_ops.fn.close = cq_close;
	fid->fid.ops = &cq->fid_ops.fn;
	cq->rxm_ops = fid->ops;
	COPY_TABLE(cq->ops, fid->ops);
	cq->ops.fn.read = cq_read;
	cq->ops.fn.readfrom = cq_readfrom;
	cq->ops.fn.readerr = cq_readerr;
	cq->ops.fn.sread = cq_sread;
	cq->ops.fn.sreadfrom = cq_sreadfrom;
	fid->ops = &cq->ops.fn;
	return 0;
}
