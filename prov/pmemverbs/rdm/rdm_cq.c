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
#include "rdm/rdm_forgotten.h"
#include "rdm/rdm_kept.h"
#include "rdm/rdm_wake.h"
#include "base/table.h"

/* While something waits for room in the core, nothing sleeps for longer than this. */
#define RETRY_MS 1

/*
 * Nor for longer than this: RxM wakes nobody when another thread's call has seen a loss, and may
 * sleep in spite of a signal.
 */
#define LOOK_MS 1000

/* At most so many entries are read at a time for somebody who waits. */
#define MOST_PULLED 256

struct rdm_cq {
	PMV_TABLE(fi_ops) fid_ops;
	PMV_TABLE(fi_ops_cq) ops;
	struct fi_ops *rxm_fid_ops;
	struct fi_ops_cq *rxm_ops;
	size_t entry_size;
	bool has_flags;
	bool waits;         /* it has a wait object; RxM looks for none, and needs it */
	bool has_set;       /* it is part of a wait set */
	atomic_bool tracks; /* else RxM keeps no context of the provider's */
	struct pmv_op_pool pool;
	pthread_mutex_t reading; /* RxM's entries go in order to the application or to those kept */
	struct pmv_rdm_kept_list kept; /* `reading` */
	struct pmv_rdm_wake wake;
	pthread_mutex_t lock;            /* also while one is committed: its endpoint stays open */
	struct pmv_rdm_op_list unposted; /* the core had no room to commit them */
	struct pmv_rdm_op_list failed;   /* their commit was refused, or they are forgotten */
	struct pmv_rdm_forgotten forgotten;
};

static struct rdm_cq *to_rdm_cq(const struct fid_cq *fid)
{
	return pmv_container_of(fid->ops, struct rdm_cq, ops);
}

/* op_of -- NULL: the context is the application's; late: that of one that was given up */
static struct pmv_rdm_op *op_of(struct rdm_cq *cq, void *context, bool *late)
{
	struct pmv_rdm_op *op;
	size_t at;

	*late = false;
	if (!pmv_is_op(&cq->pool, context))
		return NULL;
	at = (size_t) ((char *) context - cq->pool.base);
	op = (struct pmv_rdm_op *) (cq->pool.base + at - at % cq->pool.size);
	*late = context != pmv_rdm_op_context(op);
	return op;
}

/* end -- it is not under way any more; holds the lock: the endpoint is open, or has none left */
static void end(struct pmv_rdm_op *op)
{
	if (op->op.owner)
		pmv_rdm_fence_end(&op->ticket);
}

/* put -- nobody needs it any more */
static void put(struct rdm_cq *cq, struct pmv_rdm_op *op)
{
	pthread_mutex_lock(&cq->lock);
	end(op);
	/* RxM may tell of an atomic twice: its answer, and then the error of what it had sent. */
	op->op.lives++;
	if (!op->left)
		pmv_op_put(&cq->pool, &op->op);
	pthread_mutex_unlock(&cq->lock);
}

/* commit -- false: there is no room in the core now; holds the lock */
static bool commit(struct rdm_cq *cq, struct pmv_rdm_op *deferred)
{
	ssize_t ret = deferred->op.owner ? deferred->commit(deferred) : -FI_ECANCELED;

	if (ret == -FI_EAGAIN) {
		STAILQ_INSERT_TAIL(&cq->unposted, deferred, next);
	} else if (ret) {
		pmv_op_fail(&deferred->op, (int) -ret, 0);
		end(deferred);
		STAILQ_INSERT_TAIL(&cq->failed, deferred, next);
	}
	return ret != -FI_EAGAIN;
}

/* push -- try each of the unposted once more, as long as there is room */
static void push(struct rdm_cq *cq)
{
	struct pmv_rdm_op *deferred;
	bool room = true;

	pthread_mutex_lock(&cq->lock);
	while (room && (deferred = STAILQ_FIRST(&cq->unposted))) {
		STAILQ_REMOVE_HEAD(&cq->unposted, next);
		room = commit(cq, deferred);
	}
	pthread_mutex_unlock(&cq->lock);
}

static bool is_empty(struct rdm_cq *cq, const struct pmv_rdm_op_list *list)
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
	bool report, late;
	struct pmv_rdm_op *op = op_of(cq, msg->op_context, &late);

	if (!op || late)
		return !op;
	if (op->commit && !op->executed) {
		op->executed = true;
		if (cq->has_flags)
			op->op.flags = msg->flags;
		pthread_mutex_lock(&cq->lock);
		commit(cq, op);
		pthread_mutex_unlock(&cq->lock);
		return false;
	}
	msg->op_context = op->op.context;
	if (op->commit && cq->has_flags)
		msg->flags = op->op.flags;
	report = op->op.told.audience == PMV_TELL_ALL;
	put(cq, op);
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

static void note_forgotten(struct rdm_cq *cq)
{
	if (pmv_rdm_forgotten_is_noted(&cq->forgotten))
		return;
	pthread_mutex_lock(&cq->lock);
	pmv_rdm_forgotten_note(&cq->forgotten);
	pthread_mutex_unlock(&cq->lock);
}

/*
 * end_forgotten -- a read has found nothing; true: some have failed.  What is left is not put back
 * while it may be in another list.
 */
static bool end_forgotten(struct rdm_cq *cq)
{
	bool any;

	if (pmv_rdm_forgotten_is_over(&cq->forgotten))
		return false;
	pthread_mutex_lock(&cq->lock);
	any = pmv_rdm_forgotten_end(&cq->forgotten, &cq->failed);
	if (STAILQ_EMPTY(&cq->unposted) && STAILQ_EMPTY(&cq->failed))
		pmv_rdm_forgotten_put(&cq->forgotten);
	pthread_mutex_unlock(&cq->lock);
	return any;
}

/* read_all -- the same as read_rxm, and what RxM never tells; holds `reading` */
static ssize_t read_all(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	struct rdm_cq *cq = to_rdm_cq(fid);
	ssize_t ret;

	do {
		note_forgotten(cq);
		ret = read_rxm(fid, buf, count, src_addr);
		/* It may have lost connections. */
	} while (ret == -FI_EAGAIN && !pmv_rdm_forgotten_is_noted(&cq->forgotten));
	return ret == -FI_EAGAIN && end_forgotten(cq) ? -FI_EAVAIL : ret;
}

static ssize_t read_sifted(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	struct rdm_cq *cq = to_rdm_cq(fid);
	ssize_t ret;

	push(cq);
	do {
		if (!is_empty(cq, &cq->failed))
			return -FI_EAVAIL;
		ret = read_all(fid, buf, count, src_addr);
		if (ret <= 0)
			return ret;
		ret = sift(cq, buf, src_addr, ret);
	} while (!ret);
	return ret;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	struct rdm_cq *cq = to_rdm_cq(fid);
	ssize_t ret;

	if (!atomic_load(&cq->tracks))
		return read_rxm(fid, buf, count, src_addr);
	pthread_mutex_lock(&cq->reading);
	if (STAILQ_EMPTY(&cq->kept))
		ret = read_sifted(fid, buf, count, src_addr);
	else
		ret = pmv_rdm_kept_read(&cq->kept, buf, count, cq->entry_size, src_addr);
	pthread_mutex_unlock(&cq->reading);
	return ret;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

/* is_over -- RxM sleeps no more; the first one: for a signal, in versions before 1.17 */
static bool is_over(ssize_t ret)
{
	return ret == -FI_ECANCELED || ret == -FI_EAGAIN;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr,
			    const void *cond, int timeout)
{
	struct rdm_cq *cq = to_rdm_cq(fid);
	int64_t end = pmv_clock_ms() + timeout;

	if (!cq->waits)
		return -FI_ENOSYS;
	/*
	 * RxM looks for a signal, and then resets its descriptor.  One that comes between the two
	 * ends no sleep.  And RxM says the same when its time is over, which it counts in whole
	 * milliseconds: a nap of one may end at once.  So what it says tells of no signal.
	 */
	for (;;) {
		ssize_t ret = cq_readfrom(fid, buf, count, src_addr);
		int64_t left = timeout < 0 ? -1 : end - pmv_clock_ms();
		int64_t nap = is_empty(cq, &cq->unposted) ? LOOK_MS : RETRY_MS;
		bool again = left < 0 || left > nap;

		if (ret != -FI_EAGAIN || (timeout >= 0 && left <= 0))
			return ret;
		/* RxM reads through the functions here.  What was sifted already stays as it is. */
		ret = sread_rxm(fid, buf, count, src_addr, cond, (int) (again ? nap : left));
		if (ret > 0 && atomic_load(&cq->tracks))
			ret = sift(cq, buf, src_addr, ret);
		if (ret && (!is_over(ret) || atomic_exchange(&cq->wake.signalled, false)))
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

	atomic_store(&cq->wake.signalled, true);
	return cq->waits ? cq->rxm_ops->signal(fid) : -FI_ENOSYS;
}

/* read_failed -- an atomic whose commit was refused, or that is forgotten; false: there is none */
static bool read_failed(struct rdm_cq *cq, struct fi_cq_err_entry *entry)
{
	struct pmv_rdm_op *deferred;

	pthread_mutex_lock(&cq->lock);
	deferred = STAILQ_FIRST(&cq->failed);
	if (deferred)
		STAILQ_REMOVE_HEAD(&cq->failed, next);
	pthread_mutex_unlock(&cq->lock);
	if (!deferred)
		return false;
	/* Not every caller's structure is new enough to have what is behind err_data. */
	memset(entry, 0, offsetof(struct fi_cq_err_entry, err_data_size));
	entry->err = deferred->op.error;
	entry->op_context = deferred->op.context;
	entry->flags = deferred->op.flags ? deferred->op.flags : FI_ATOMIC;
	put(cq, deferred);
	return true;
}

static ssize_t readerr_rxm(struct rdm_cq *cq, struct fid_cq *fid, struct fi_cq_err_entry *entry,
			   uint64_t flags)
{
	struct pmv_rdm_op *op;
	bool late = false;
	ssize_t ret;

	pmv_guard_enter();
	ret = cq->rxm_ops->readerr(fid, entry, flags);
	pmv_guard_leave();
	op = ret > 0 ? op_of(cq, entry->op_context, &late) : NULL;
	if (late)
		return -FI_EAGAIN;
	if (op) {
		entry->op_context = op->op.context;
		if (op->executed)
			entry->flags = op->op.flags ? op->op.flags : FI_ATOMIC;
		put(cq, op);
	}
	return ret;
}

static ssize_t read_any_error(struct rdm_cq *cq, struct fid_cq *fid, struct fi_cq_err_entry *entry,
			      uint64_t flags)
{
	if (!STAILQ_EMPTY(&cq->kept))
		return pmv_rdm_kept_read_error(&cq->kept, entry);
	return read_failed(cq, entry) ? 1 : readerr_rxm(cq, fid, entry, flags);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct rdm_cq *cq = to_rdm_cq(fid);
	ssize_t ret;

	pthread_mutex_lock(&cq->reading);
	ret = read_any_error(cq, fid, entry, flags);
	pthread_mutex_unlock(&cq->reading);
	return ret;
}

/* pull -- one entry into this; false: there was none */
static bool pull(struct rdm_cq *cq, struct fid_cq *fid, struct pmv_rdm_kept *kept, bool *keep)
{
	ssize_t ret = read_all(fid, &kept->ok, 1, &kept->src_addr);

	if (ret == 1) {
		*keep = take(cq, &kept->ok);
	} else if (ret == -FI_EAVAIL) {
		kept->err = (struct fi_cq_err_entry){0};
		ret = readerr_rxm(cq, fid, &kept->err, 0);
		/* It is RxM's, and only until the next one. */
		kept->err.err_data = NULL;
		kept->is_error = *keep = ret == 1;
	}
	return ret == 1;
}

void pmv_rdm_cq_pull(struct fid_cq *fid)
{
	struct rdm_cq *cq = to_rdm_cq(fid);
	bool more = true;

	push(cq);
	pthread_mutex_lock(&cq->reading);
	for (int i = 0; i < MOST_PULLED && more; i++) {
		struct pmv_rdm_kept *kept = calloc(1, sizeof(*kept));
		bool keep = false;

		if (kept)
			kept->src_addr = FI_ADDR_NOTAVAIL;
		more = kept && pull(cq, fid, kept, &keep);
		if (keep)
			STAILQ_INSERT_TAIL(&cq->kept, kept, next);
		else
			free(kept);
	}
	pthread_mutex_unlock(&cq->reading);
}

void pmv_rdm_cq_lock(struct fid_cq *fid)
{
	pthread_mutex_lock(&to_rdm_cq(fid)->lock);
}

void pmv_rdm_cq_unlock(struct fid_cq *fid)
{
	pthread_mutex_unlock(&to_rdm_cq(fid)->lock);
}

void pmv_rdm_cq_drop(struct fid_cq *fid, struct pmv_op_owner *owner, struct pmv_op_list *ops)
{
	struct pmv_op_list dropped;
	struct pmv_op *op;

	pmv_rdm_cq_lock(fid);
	dropped = pmv_op_abandon(owner);
	STAILQ_FOREACH(op, &dropped, next)
		((struct pmv_rdm_op *) op)->left = true;
	STAILQ_CONCAT(ops, &dropped);
	pmv_rdm_cq_unlock(fid);
}

void pmv_rdm_cq_leave(struct fid_cq *fid, struct pmv_op_list *ops)
{
	pmv_rdm_cq_lock(fid);
	pmv_rdm_forgotten_leave(&to_rdm_cq(fid)->forgotten, ops);
	pmv_rdm_cq_unlock(fid);
}

/* wake_for_losses -- whoever sleeps there, if it tracks what may be forgotten */
static void wake_for_losses(struct rdm_cq *cq, struct fid_cq *fid)
{
	if (cq->waits && atomic_load(&cq->tracks))
		pmv_rdm_wake_add(&cq->wake, fid, cq->rxm_ops->signal);
}

static int cq_close(struct fid *fid)
{
	struct rdm_cq *cq = pmv_container_of(fid->ops, struct rdm_cq, fid_ops);
	int ret;

	pmv_rdm_wake_remove(&cq->wake);
	ret = cq->rxm_fid_ops->close(fid);
	if (ret) {
		wake_for_losses(cq, pmv_container_of(fid, struct fid_cq, fid));
		return ret;
	}
	pmv_rdm_kept_drop(&cq->kept);
	pthread_mutex_destroy(&cq->lock);
	pthread_mutex_destroy(&cq->reading);
	if (cq->tracks)
		pmv_op_pool_destroy(&cq->pool);
	free(cq);
	return 0;
}

bool pmv_rdm_cq_is(const struct fid *fid)
{
	return fid->fclass == FI_CLASS_CQ && fid->ops->close == cq_close;
}

static struct rdm_cq *cq_of(const struct fid *fid)
{
	return pmv_rdm_cq_is(fid) ? pmv_container_of(fid->ops, struct rdm_cq, fid_ops) : NULL;
}

struct pmv_op_pool *pmv_rdm_cq_pool(const struct fid *fid)
{
	struct rdm_cq *cq = cq_of(fid);

	return cq && atomic_load(&cq->tracks) ? &cq->pool : NULL;
}

static int track(struct rdm_cq *cq)
{
	int ret = cq->tracks ? 0 : pmv_op_pool_init(&cq->pool, sizeof(struct pmv_rdm_op));

	if (!ret)
		atomic_store(&cq->tracks, true);
	return ret;
}

int pmv_rdm_cq_track(const struct fid *fid)
{
	struct rdm_cq *cq = cq_of(fid);
	int ret;

	if (!cq || cq->has_set)
		return -FI_ENOSYS;
	pthread_mutex_lock(&cq->reading);
	ret = track(cq);
	pthread_mutex_unlock(&cq->reading);
	if (!ret)
		wake_for_losses(cq, pmv_container_of((char *) fid, struct fid_cq, fid));
	return ret;
}

/* has_more -- for who reads, of what RxM does not know; a call that posts may have seen a loss */
static bool has_more(struct rdm_cq *cq)
{
	bool has;

	pthread_mutex_lock(&cq->reading);
	has = !STAILQ_EMPTY(&cq->kept) || !pmv_rdm_forgotten_is_noted(&cq->forgotten) ||
	      !pmv_rdm_forgotten_is_over(&cq->forgotten);
	pthread_mutex_unlock(&cq->reading);
	return has;
}

int pmv_rdm_cq_trywait(struct fid *fid)
{
	struct rdm_cq *cq = cq_of(fid);

	if (!cq || !atomic_load(&cq->tracks))
		return 0;
	push(cq);
	return is_empty(cq, &cq->unposted) && is_empty(cq, &cq->failed) && !has_more(cq)
		       ? 0
		       : -FI_EAGAIN;
}

int pmv_rdm_cq_wrap(struct fid_cq *fid, const struct fi_cq_attr *attr,
		    const struct fid_domain *under)
{
	struct rdm_cq *cq = calloc(1, sizeof(*cq));
	int ret = cq ? 0 : -FI_ENOMEM;

	if (cq && pmv_setting.commit_all)
		ret = track(cq);
	if (ret) {
		free(cq);
		return ret;
	}
	cq->wake.under = under;
	cq->waits = attr->wait_obj != FI_WAIT_NONE;
	cq->has_set = attr->wait_obj == FI_WAIT_SET;
	/* RxM takes an unspecified format for the shortest. */
	cq->entry_size = pmv_queue_entry_size(
		attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format);
	cq->has_flags = cq->entry_size >= sizeof(struct fi_cq_msg_entry);
	STAILQ_INIT(&cq->kept);
	STAILQ_INIT(&cq->unposted);
	STAILQ_INIT(&cq->failed);
	pmv_rdm_forgotten_init(&cq->forgotten, &cq->pool);
	pthread_mutex_init(&cq->reading, NULL);
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
	wake_for_losses(cq, fid);
	return 0;
}
