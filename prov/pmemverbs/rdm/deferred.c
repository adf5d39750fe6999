/* SPDX-License-Identifier: BSD-2-Clause */
/* deferred.c -- a CQ of RxM's that keeps atomics back until they are durable; held.h says how */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "objects/cq.h"
#include "rdm/deferred.h"
#include "rdm/rdm_ep.h"
#include "rdm/table.h"

/* Address space: memory is used for as many as were ever under way at once. */
#define MAX_HELD ((size_t) 1 << 16)
#define HELD_BYTES (MAX_HELD * sizeof(struct pmv_deferred))

/* So long the core is waited for while something waits for room in it. */
#define RETRY_MS 1

struct held_cq {
	TABLE(fi_ops) fid_ops;
	TABLE(fi_ops_cq) ops;
	struct fi_ops *rxm_fid_ops;
	struct fi_ops_cq *rxm_ops;
	size_t entry_size;
	bool has_flags;
	struct pmv_deferred *base;
	pthread_mutex_t commit_lock; /* held while one is committed: its endpoint stays open */
	pthread_mutex_t lock;        /* of all below */
	size_t used;                 /* so many were ever handed out */
	struct pmv_deferred *free;
	struct pmv_deferred *unposted; /* the core had no room to commit them */
	struct pmv_deferred **unposted_tail;
	struct pmv_deferred *failed; /* what commits them was refused */
	struct pmv_deferred **failed_tail;
};

static struct held_cq *to_held_cq(const struct fid_cq *fid)
{
	return pmv_container_of(fid->ops, struct held_cq, ops);
}

/* held_of -- NULL: the application's own */
static struct pmv_deferred *held_of(struct held_cq *cq, const void *context)
{
	return (uintptr_t) context - (uintptr_t) cq->base < HELD_BYTES
		       ? (struct pmv_deferred *) (uintptr_t) context
		       : NULL;
}

struct pmv_deferred *pmv_deferred_get(struct fid_cq *fid, struct fid_ep *ep)
{
	struct held_cq *cq = to_held_cq(fid);
	struct pmv_deferred *held;

	pthread_mutex_lock(&cq->lock);
	held = cq->free;
	if (held)
		cq->free = held->next;
	else if (cq->used < MAX_HELD)
		held = &cq->base[cq->used++];
	if (held)
		*held = (struct pmv_deferred){.ep = ep};
	pthread_mutex_unlock(&cq->lock);
	return held;
}

static void put(struct held_cq *cq, struct pmv_deferred *held)
{
	pthread_mutex_lock(&cq->lock);
	held->ep = NULL;
	held->next = cq->free;
	cq->free = held;
	pthread_mutex_unlock(&cq->lock);
}

void pmv_deferred_put(struct fid_cq *fid, struct pmv_deferred *held)
{
	put(to_held_cq(fid), held);
}

static void append(struct pmv_deferred ***tail, struct pmv_deferred *held)
{
	held->next = NULL;
	**tail = held;
	*tail = &held->next;
}

static struct pmv_deferred *take_first(struct pmv_deferred **list, struct pmv_deferred ***tail)
{
	struct pmv_deferred *held = *list;

	if (!held)
		return NULL;
	*list = held->next;
	if (!*list)
		*tail = list;
	return held;
}

/* commit -- false: there is no room now */
static bool commit(struct held_cq *cq, struct pmv_deferred *held)
{
	ssize_t ret;

	pthread_mutex_lock(&cq->commit_lock);
	ret = held->ep ? pmv_rdm_commit_held(held) : -FI_ECANCELED;
	pthread_mutex_unlock(&cq->commit_lock);
	if (!ret)
		return true;
	pthread_mutex_lock(&cq->lock);
	if (ret == -FI_EAGAIN) {
		append(&cq->unposted_tail, held);
	} else {
		held->err = (int) -ret;
		append(&cq->failed_tail, held);
	}
	pthread_mutex_unlock(&cq->lock);
	return ret != -FI_EAGAIN;
}

/* push -- try again, each of them once */
static void push(struct held_cq *cq)
{
	struct pmv_deferred *held;
	bool room = true;

	while (room) {
		pthread_mutex_lock(&cq->lock);
		held = take_first(&cq->unposted, &cq->unposted_tail);
		pthread_mutex_unlock(&cq->lock);
		room = held && commit(cq, held);
	}
}

static bool is_empty(struct held_cq *cq, struct pmv_deferred *const *list)
{
	bool empty;

	pthread_mutex_lock(&cq->lock);
	empty = !*list;
	pthread_mutex_unlock(&cq->lock);
	return empty;
}

/* take -- is the entry one for the application?  It is made so. */
static bool take(struct held_cq *cq, void *entry)
{
	struct fi_cq_msg_entry *msg = entry; /* all formats begin like that one */
	struct pmv_deferred *held = held_of(cq, msg->op_context);
	bool report;

	if (!held)
		return true;
	if (!held->executed) {
		held->executed = true;
		if (cq->has_flags)
			held->flags = msg->flags;
		commit(cq, held);
		return false;
	}
	msg->op_context = held->context;
	if (cq->has_flags)
		msg->flags = held->flags;
	report = held->report;
	put(cq, held);
	return report;
}

/* sift -- of count entries those for the application, at the beginning */
static ssize_t sift(struct held_cq *cq, void *buf, fi_addr_t *src_addr, ssize_t count)
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
	struct held_cq *cq = to_held_cq(fid);
	ssize_t ret;

	push(cq);
	do {
		if (!is_empty(cq, &cq->failed))
			return -FI_EAVAIL;
		/* Their read is this, too, but for the table that it is called from. */
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
	struct held_cq *cq = to_held_cq(fid);
	int64_t end = pmv_now_ms() + timeout;

	for (;;) {
		ssize_t ret = cq_readfrom(fid, buf, count, src_addr);
		int64_t left = timeout < 0 ? -1 : end - pmv_now_ms();
		bool retry = !is_empty(cq, &cq->unposted);
		int64_t start = pmv_now_ns();

		if (ret != -FI_EAGAIN || (timeout >= 0 && left <= 0))
			return ret;
		if (retry)
			left = RETRY_MS;
		/* It reads through here; what was sifted before comes through as it is. */
		ret = cq->rxm_ops->sreadfrom(fid, buf, count, src_addr, cond, (int) left);
		if (ret > 0)
			ret = sift(cq, buf, src_addr, ret);
		/* In less time it is fi_cq_signal that has ended it. */
		if (ret && !(retry && ret == -FI_EAGAIN &&
			     pmv_now_ns() - start >= RETRY_MS * INT64_C(1000000)))
			return ret;
	}
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct held_cq *cq = to_held_cq(fid);
	struct pmv_deferred *held;
	ssize_t ret = 1;

	pthread_mutex_lock(&cq->lock);
	held = take_first(&cq->failed, &cq->failed_tail);
	pthread_mutex_unlock(&cq->lock);
	if (held) {
		entry->err = held->err;
		entry->prov_errno = 0;
		entry->len = 0;
		entry->olen = 0;
		entry->buf = NULL;
		entry->data = 0;
		entry->tag = 0;
		/* The field for its size is younger: not all that call have it. */
		entry->err_data = NULL;
	} else {
		ret = cq->rxm_ops->readerr(fid, entry, flags);
		held = ret > 0 ? held_of(cq, entry->op_context) : NULL;
	}
	if (held) {
		entry->op_context = held->context;
		if (held->executed)
			entry->flags = held->flags ? held->flags : FI_ATOMIC;
		put(cq, held);
	}
	return ret;
}

int pmv_deferred_trywait(struct fid_cq *fid)
{
	struct held_cq *cq = to_held_cq(fid);

	push(cq);
	return is_empty(cq, &cq->unposted) && is_empty(cq, &cq->failed) ? 0 : -FI_EAGAIN;
}

void pmv_deferred_drop(struct fid_cq *fid, struct fid_ep *ep)
{
	struct held_cq *cq = to_held_cq(fid);

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
	struct held_cq *cq = pmv_container_of(fid->ops, struct held_cq, fid_ops);
	int ret = cq->rxm_fid_ops->close(fid);

	if (ret)
		return ret;
	pthread_mutex_destroy(&cq->lock);
	pthread_mutex_destroy(&cq->commit_lock);
	munmap(cq->base, HELD_BYTES);
	free(cq);
	return 0;
}

bool pmv_deferred_is_cq(const struct fid *fid)
{
	return fid->fclass == FI_CLASS_CQ && fid->ops->close == cq_close;
}

int pmv_deferred_wrap(struct fid_cq *fid, const struct fi_cq_attr *attr)
{
	struct held_cq *cq = calloc(1, sizeof(*cq));
	void *base = mmap(NULL, HELD_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!cq || base == MAP_FAILED) {
		if (base != MAP_FAILED)
			munmap(base, HELD_BYTES);
		free(cq);
		return -FI_ENOMEM;
	}
	cq->base = base;
	/* Which RxM takes for the shortest. */
	cq->entry_size = pmv_queue_entry_size(
		attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format);
	cq->has_flags = cq->entry_size >= sizeof(struct fi_cq_msg_entry);
	cq->unposted_tail = &cq->unposted;
	cq->failed_tail = &cq->failed;
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
