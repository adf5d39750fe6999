/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.c -- completion queues; cq.h says why they can't overrun */
#include "cq.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "fabric.h"
#include "post.h"
#include "provider.h"

#define DEFAULT_SIZE 1024

/* So many completions are taken from the device at a time. */
#define BATCH 16

/* Events are acknowledged many at a time, as each time takes a lock. */
#define MOST_UNACKED 64

/* note_receive -- what only a completion tells */
static void note_receive(struct pmr_slot *slot, const struct ibv_wc *wc)
{
	slot->flags = FI_RECV | FI_MSG;
	slot->len = wc->byte_len;
	slot->data = 0;
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		slot->flags = FI_RMA | FI_REMOTE_WRITE;
	if (wc->wc_flags & IBV_WC_WITH_IMM) {
		slot->flags |= FI_REMOTE_CQ_DATA;
		slot->data = ntohl(wc->imm_data);
	}
}

/* list -- a completion to be read.  Holds the lock. */
static void list(struct pmr_cq *cq, struct pmr_slot *slot)
{
	pmr_queue_hold(slot);
	STAILQ_INSERT_TAIL(&cq->ready, slot, next);
}

/* take -- what the device tells of a request.  Holds the lock. */
static void take(struct pmr_cq *cq, const struct ibv_wc *wc)
{
	struct pmr_slot *slot = (struct pmr_slot *) (uintptr_t) wc->wr_id;
	bool receives = slot->flags & FI_RECV;
	unsigned count = pmr_queue_reap(slot);

	slot->status = wc->status;
	if (receives)
		pmr_cq_give_receives(cq, (int) count);
	else
		pmr_cq_give(cq, (int) count);
	if (receives && wc->status == IBV_WC_SUCCESS)
		note_receive(slot, wc);
	if (slot->wanted || wc->status != IBV_WC_SUCCESS)
		list(cq, slot);
	else
		pmr_queue_forget(slot);
}

/* take_some -- returns how many, or a negative fi_errno.  Holds the lock. */
static int take_some(struct pmr_cq *cq, size_t most)
{
	struct ibv_wc wc[BATCH];
	int count = -1;

	if (!cq->lost)
		count = ibv_poll_cq(cq->cq, most < BATCH ? (int) most : BATCH, wc);
	if (count < 0) {
		PMR_WARN(CQ, "the device's completion queue can't be read\n");
		return -FI_EIO;
	}
	for (int i = 0; i < count; i++)
		take(cq, &wc[i]);
	return count;
}

static void write_entry(const struct pmr_cq *cq, const struct pmr_slot *slot, void *to)
{
	struct fi_cq_tagged_entry entry = {
		.op_context = slot->context,
		.flags = slot->flags,
		.len = slot->len,
		.data = slot->data,
	};

	/* Each format is the beginning of the next one. */
	memcpy(to, &entry, cq->entry_size);
}

static ssize_t read_locked(struct pmr_cq *cq, char *buf, size_t count)
{
	struct pmr_slot *slot;
	size_t n = 0;
	int ret = 1;

	while (n < count && ret > 0) {
		slot = STAILQ_FIRST(&cq->ready);
		if (!slot) {
			ret = take_some(cq, count - n);
			continue;
		}
		if (slot->status != IBV_WC_SUCCESS)
			return n ? (ssize_t) n : -FI_EAVAIL;
		STAILQ_REMOVE_HEAD(&cq->ready, next);
		write_entry(cq, slot, buf + n++ * cq->entry_size);
		pmr_queue_release(slot);
	}
	if (n)
		return (ssize_t) n;
	/* Whoever asks for no entries may want to know whether there is an error. */
	if (!count && (slot = STAILQ_FIRST(&cq->ready)) && slot->status != IBV_WC_SUCCESS)
		return -FI_EAVAIL;
	return ret < 0 ? ret : count ? -FI_EAGAIN : 0;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct pmr_cq *cq = pmr_to_cq(&fid->fid);
	ssize_t ret;

	pthread_mutex_lock(&cq->lock);
	pmr_post_batches(cq);
	ret = read_locked(cq, buf, count);
	pthread_mutex_unlock(&cq->lock);
	return ret;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	ssize_t ret = cq_read(fid, buf, count);

	for (ssize_t i = 0; src && i < ret; i++)
		src[i] = FI_ADDR_NOTAVAIL;
	return ret;
}

/*
 * write_error -- without data of ours.  Since libfabric 1.20 there is a source address behind, for
 * which older applications have no room; fi_cq_readerr sets it for the others.  Before 1.5 the
 * entry ended with err_data, which was not the application's.
 */
static void write_error(const struct pmr_cq *cq, const struct pmr_slot *slot,
			struct fi_cq_err_entry *to)
{
	const struct fi_cq_err_entry entry = {
		.op_context = slot->context,
		.flags = slot->flags,
		.err = slot->status == IBV_WC_WR_FLUSH_ERR ? FI_ECANCELED : FI_EIO,
		.prov_errno = (int) slot->status,
	};
	uint32_t version = cq->domain->fabric->fabric_fid.api_version;

	memcpy(to, &entry, offsetof(struct fi_cq_err_entry, err_data));
	if (FI_VERSION_LT(version, FI_VERSION(1, 5)) || !to->err_data_size)
		to->err_data = NULL;
	if (FI_VERSION_GE(version, FI_VERSION(1, 5)))
		to->err_data_size = 0;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct pmr_cq *cq = pmr_to_cq(&fid->fid);
	struct pmr_slot *slot;
	ssize_t ret = -FI_EAGAIN;

	(void) flags;
	pthread_mutex_lock(&cq->lock);
	slot = STAILQ_FIRST(&cq->ready);
	if (slot && slot->status != IBV_WC_SUCCESS) {
		STAILQ_REMOVE_HEAD(&cq->ready, next);
		write_error(cq, slot, entry);
		pmr_queue_release(slot);
		ret = 1;
	}
	pthread_mutex_unlock(&cq->lock);
	return ret;
}

/* ack_events -- of the channel, without which the device's queue can't be destroyed */
static void ack_events(struct pmr_cq *cq, unsigned most)
{
	if (cq->unacked <= most)
		return;
	ibv_ack_cq_events(cq->cq, cq->unacked);
	cq->unacked = 0;
}

/* arm -- the device tells the next completion by an event.  Holds the lock. */
static int arm(struct pmr_cq *cq)
{
	struct ibv_cq *from;
	void *context;
	int ret;

	while (!ibv_get_cq_event(cq->channel, &from, &context))
		cq->unacked++;
	ack_events(cq, MOST_UNACKED);
	pmr_wait_reset(&cq->wait);
	ret = ibv_req_notify_cq(cq->cq, 0);
	if (ret)
		return -ret;
	/* One that came before is not told. */
	do {
		ret = take_some(cq, BATCH);
	} while (ret > 0 && STAILQ_EMPTY(&cq->ready));
	return ret < 0 ? ret : STAILQ_EMPTY(&cq->ready) ? 0 : -FI_EAGAIN;
}

int pmr_cq_trywait(struct pmr_cq *cq)
{
	int ret;

	if (!cq->channel)
		return -FI_EINVAL;
	pthread_mutex_lock(&cq->lock);
	pmr_post_batches(cq);
	ret = STAILQ_EMPTY(&cq->ready) ? arm(cq) : -FI_EAGAIN;
	pthread_mutex_unlock(&cq->lock);
	/* A signal that came meanwhile may have been taken for one of before. */
	if (!ret && atomic_load(&cq->wait.signalled))
		pmr_wait_wake(&cq->wait);
	return ret;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
			    const void *cond, int timeout)
{
	struct pmr_cq *cq = pmr_to_cq(&fid->fid);
	int64_t deadline = pmr_wait_deadline(timeout);
	ssize_t ret;

	(void) cond;
	if (!cq->channel)
		return -FI_ENOSYS;
	for (;;) {
		ret = cq_readfrom(fid, buf, count, src);
		if (ret != -FI_EAGAIN || pmr_wait_take_signal(&cq->wait))
			return ret;
		ret = pmr_cq_trywait(cq);
		if (!ret)
			ret = pmr_wait_sleep(&cq->wait, deadline);
		else if (ret == -FI_EAGAIN)
			continue;
		if (ret)
			return ret;
	}
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct pmr_cq *cq = pmr_to_cq(&fid->fid);

	if (!cq->channel)
		return -FI_ENOSYS;
	pmr_wait_signal(&cq->wait);
	return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *data, char *buf,
			       size_t len)
{
	const char *text = ibv_wc_status_str((enum ibv_wc_status) prov_errno);

	(void) fid;
	(void) data;
	if (buf && len) {
		strncpy(buf, text, len - 1);
		buf[len - 1] = '\0';
	}
	return text;
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

/* Room */

/* grow -- to so much, or as much as the device allows.  Holds the lock. */
static int grow(struct pmr_cq *cq, int size)
{
	int most = cq->domain->device->attr.max_cqe, before = cq->size, ret;

	ret = ibv_resize_cq(cq->cq, size < most ? size : most);
	if (ret)
		return -ret;
	atomic_store(&cq->size, cq->cq->cqe);
	pmr_cq_give(cq, cq->cq->cqe - before);
	return 0;
}

/* make_room -- beside what is promised, and what is under way now.  Holds the lock. */
static void make_room(struct pmr_cq *cq, int receives, int sends)
{
	int spare = pmr_cq_spare(cq);
	int least = receives + (sends ? PMEMRDMA_MAX_LIST : 0);

	if (spare >= least || cq->size >= cq->domain->device->attr.max_cqe)
		return;
	if (grow(cq, cq->size - spare + receives + sends))
		PMR_INFO(CQ, "the completion queue can't grow\n");
}

static struct pmr_shared *find_shared(struct pmr_cq *cq, const struct pmr_queue *queue)
{
	struct pmr_shared *shared;

	SLIST_FOREACH(shared, &cq->shared, next) {
		if (shared->queue == queue)
			return shared;
	}
	return NULL;
}

/* share -- receives that have their room here once, whatever endpoints there are.  Holds the lock.
 */
static int share(struct pmr_cq *cq, const struct pmr_queue *queue)
{
	struct pmr_shared *shared = malloc(sizeof(*shared));

	if (!shared)
		return -FI_ENOMEM;
	if (!pmr_cq_take_receives(cq, (int) queue->size)) {
		free(shared);
		return -FI_ENOSPC;
	}
	*shared = (struct pmr_shared){.queue = queue};
	SLIST_INSERT_HEAD(&cq->shared, shared, next);
	cq->num_shared += (int) queue->size;
	return 0;
}

/* promise -- `count` receives that are not promised yet.  Holds the lock. */
static int promise(struct pmr_cq *cq, const struct pmr_queue *receives, int count)
{
	bool shared = receives && receives->shared;
	int kept = atomic_load(&cq->kept);
	int ret = 0;

	/*
	 * What is posted now goes; but all receives of an endpoint alone have to find room.  The
	 * first one that sends finds receives that have left none.
	 */
	if (cq->size - cq->num_shared < kept + (shared ? 0 : count) ||
	    cq->size - atomic_load(&cq->receives) < kept)
		ret = -FI_ENOSPC;
	else if (shared && count)
		ret = share(cq, receives);
	if (ret == -FI_ENOSPC)
		PMR_WARN(CQ,
			 "the completion queue has no room for %d more receives: it has %d "
			 "entries, and the device allows %d\n",
			 count, cq->size, cq->domain->device->attr.max_cqe);
	return ret;
}

/* tell_of_room -- once: callers only see that there is none */
static void tell_of_room(struct pmr_cq *cq)
{
	if (cq->told || pmr_cq_fits(cq))
		return;
	cq->told = true;
	PMR_WARN(CQ,
		 "a completion queue of %d entries, as large as the device has them, has less room "
		 "than the receives of its endpoints take together, %d: when it is full fi_recv "
		 "returns -FI_EAGAIN; use several queues, shared receives, or a smaller "
		 "rx_attr->size\n",
		 atomic_load(&cq->size), atomic_load(&cq->promised));
}

int pmr_cq_promise(struct pmr_cq *cq, const struct pmr_queue *receives, unsigned sends)
{
	struct pmr_shared *shared;
	int count, ret;

	pthread_mutex_lock(&cq->lock);
	shared = receives ? find_shared(cq, receives) : NULL;
	count = receives && !shared ? (int) receives->size : 0;
	if (sends)
		atomic_store(&cq->kept, PMEMRDMA_MAX_LIST);
	make_room(cq, count, (int) sends);
	ret = promise(cq, receives, count);
	if (!ret)
		cq->promised += count;
	tell_of_room(cq);
	if (!ret && receives && receives->shared)
		find_shared(cq, receives)->users++;
	pthread_mutex_unlock(&cq->lock);
	return ret;
}

void pmr_cq_unpromise(struct pmr_cq *cq, const struct pmr_queue *receives)
{
	struct pmr_shared *shared;
	int size = (int) receives->size;

	pthread_mutex_lock(&cq->lock);
	shared = find_shared(cq, receives);
	if (!receives->shared) {
		cq->promised -= size;
	} else if (shared && !--shared->users) {
		/*
		 * Those that have completed without being read keep no room: they are in the list,
		 * or were taken out of it.
		 */
		SLIST_REMOVE(&cq->shared, shared, pmr_shared, next);
		free(shared);
		cq->num_shared -= size;
		cq->promised -= size;
		pmr_cq_give_receives(cq, size);
	}
	pthread_mutex_unlock(&cq->lock);
}

/* The end of an endpoint */

int pmr_cq_drain(struct pmr_cq *cq)
{
	int ret;

	pthread_mutex_lock(&cq->lock);
	do {
		ret = take_some(cq, BATCH);
	} while (ret > 0);
	/* Slots that it may still tell of, to who reads it later, are about to go. */
	if (ret < 0 && !pmr_device_freed(cq->domain->device, -ret)) {
		cq->lost = true;
		ret = 0;
	}
	pthread_mutex_unlock(&cq->lock);
	return ret;
}

void pmr_cq_cancel(struct pmr_cq *cq, struct pmr_queue *queue, bool sends)
{
	struct pmr_slot *slot;
	bool any;

	pthread_mutex_lock(&cq->lock);
	if (sends)
		pmr_cq_give(cq, (int) (queue->posted - queue->reaped));
	else
		pmr_cq_give_receives(cq, (int) (queue->posted - queue->reaped));
	for (uint64_t seq = queue->reaped; seq < queue->posted; seq++) {
		slot = &queue->slots[seq % queue->size];
		slot->status = IBV_WC_WR_FLUSH_ERR;
		if (slot->wanted)
			list(cq, slot);
	}
	queue->reaped = queue->posted;
	any = !STAILQ_EMPTY(&cq->ready);
	pthread_mutex_unlock(&cq->lock);
	if (any)
		pmr_wait_wake(&cq->wait);
}

/* Opening and closing */

/*
 * close_channel -- libibverbs keeps the channel of a queue that it could not destroy, as the device
 * is gone; but the descriptor is the process's.
 */
static void close_channel(struct ibv_comp_channel *channel)
{
	if (channel && ibv_destroy_comp_channel(channel))
		close(channel->fd);
}

static int cq_close(struct fid *fid)
{
	struct pmr_cq *cq = pmr_to_cq(fid);
	struct pmr_slot *slot;
	int ret;

	if (atomic_load(&cq->users))
		return -FI_EBUSY;
	if (cq->cq) {
		ack_events(cq, 0);
		ret = pmr_device_freed(cq->domain->device, ibv_destroy_cq(cq->cq));
		if (ret)
			return ret;
	}
	while ((slot = STAILQ_FIRST(&cq->ready))) {
		STAILQ_REMOVE_HEAD(&cq->ready, next);
		pmr_queue_release(slot);
	}
	pmr_wait_close(&cq->wait);
	close_channel(cq->channel);
	pthread_mutex_destroy(&cq->lock);
	atomic_fetch_sub(&cq->domain->users, 1);
	free(cq);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct pmr_cq *cq = pmr_to_cq(fid);

	return pmr_wait_control(&cq->wait, cq->wait_obj, command, arg);
}

static struct fi_ops cq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = pmr_no_bind,
	.control = cq_control,
	.ops_open = pmr_no_ops_open,
};

static int take_attr(struct pmr_cq *cq, const struct fi_cq_attr *attr)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_UNSPEC] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};

	if ((size_t) attr->format >= sizeof(sizes) / sizeof(sizes[0]))
		return -FI_ENOSYS;
	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
	    attr->wait_obj != FI_WAIT_FD)
		return -FI_ENOSYS;
	cq->entry_size = sizes[attr->format];
	cq->wait_obj = attr->wait_obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : attr->wait_obj;
	return 0;
}

static int open_wait(struct pmr_cq *cq)
{
	if (cq->wait_obj == FI_WAIT_NONE)
		return 0;
	cq->channel = ibv_create_comp_channel(cq->domain->device->verbs);
	return cq->channel ? pmr_wait_open(&cq->wait, cq->channel->fd) : -errno;
}

static int open_device_queue(struct pmr_cq *cq, const struct fi_cq_attr *attr)
{
	size_t most = (size_t) cq->domain->device->attr.max_cqe;
	size_t size = attr->size ? attr->size : DEFAULT_SIZE;
	int vector = attr->flags & FI_AFFINITY ? attr->signaling_vector : 0;

	cq->cq = ibv_create_cq(cq->domain->device->verbs, (int) (size < most ? size : most), cq,
			       cq->channel, vector);
	if (!cq->cq)
		return errno ? -errno : -FI_ENOMEM;
	cq->size = cq->cq->cqe;
	atomic_init(&cq->room, cq->size);
	return 0;
}

int pmr_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq_fid,
		void *context)
{
	static const struct fi_cq_attr none;
	struct pmr_cq *cq = calloc(1, sizeof(*cq));
	int ret;

	if (!cq)
		return -FI_ENOMEM;
	cq->domain = pmr_to_domain(domain);
	cq->wait.fd = cq->wait.event_fd = -1;
	cq->cq_fid.fid = (struct fid){FI_CLASS_CQ, context, &cq_fi_ops};
	cq->cq_fid.ops = &cq_ops;
	pthread_mutex_init(&cq->lock, NULL);
	STAILQ_INIT(&cq->ready);
	SLIST_INIT(&cq->shared);
	atomic_fetch_add(&cq->domain->users, 1);
	ret = take_attr(cq, attr ? attr : &none);
	if (!ret)
		ret = open_wait(cq);
	if (!ret)
		ret = open_device_queue(cq, attr ? attr : &none);
	if (ret) {
		cq_close(&cq->cq_fid.fid);
		return ret;
	}
	*cq_fid = &cq->cq_fid;
	return 0;
}
