/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c -- work requests on their way to the device */
#include "flush.h"

#include <stdlib.h>

#include "pmemrdma_post.h"
#include "provider.h"

/*
 * negative -- as ibv_post_* fail: no room is no error.  Some drivers return a negative errno, and
 * some say no more than -1, so the sign tells nothing.
 */
static ssize_t negative(int err)
{
	if (err == -1)
		return -FI_EIO;
	if (err < 0)
		err = -err;
	return err == ENOMEM ? -FI_EAGAIN : -err;
}

/* is_kept -- by the peer: struct pmr_queue */
static bool is_kept(const struct pmr_request *request)
{
	enum ibv_wr_opcode opcode = request->wr.opcode;

	return pmr_is_extended(request) || opcode == IBV_WR_RDMA_READ ||
	       opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/*
 * check_kept -- where one is a FLUSH, the peer has to keep them all.  Fewer than were refused, and
 * READs and atomics, leave room for those, or a stream of them would keep them out for ever.  Holds
 * the lock.
 */
static int check_kept(struct pmr_ep *ep, const struct pmr_request *requests, unsigned count)
{
	struct pmr_queue *queue = ep->sends;
	unsigned kept = 0, flushes = 0, depth, under_way;
	bool first;

	if (!ep->extended)
		return 0;
	for (unsigned i = 0; i < count; i++) {
		kept += is_kept(&requests[i]);
		flushes += requests[i].flush != 0;
	}
	under_way = atomic_load(&queue->kept);
	if (!under_way)
		queue->flush_waits = 0;
	if (!kept || !(flushes || queue->flush_waits || atomic_load(&queue->flushes)))
		return 0;
	first = flushes && kept >= queue->flush_waits;
	depth = pmr_ep_depth(ep);
	if (kept > depth)
		return -FI_EINVAL;
	if (under_way + kept + (first ? 0 : queue->flush_waits) > depth) {
		if (first)
			queue->flush_waits = kept;
		return -FI_EAGAIN;
	}
	if (first)
		queue->flush_waits = 0;
	return 0;
}

/* note_kept -- those that are going to be posted, or (change -1) were not.  Holds the lock. */
static void note_kept(struct pmr_queue *queue, unsigned from, unsigned count, int change)
{
	for (unsigned i = from; i < count; i++) {
		const struct pmr_slot *slot = pmr_queue_slot(queue, i);

		atomic_fetch_add(&queue->kept, (unsigned) (change * slot->kept));
		atomic_fetch_add(&queue->flushes, (unsigned) (change * slot->flushes));
	}
}

/*
 * is_told_by_next -- the completion of the next one says that the peer need not keep this one: both
 * are posted by one call, or neither is
 */
static bool is_told_by_next(const struct pmr_request *requests, unsigned count, unsigned i)
{
	return i + 1 < count && pmr_is_extended(&requests[i]) && pmr_is_extended(&requests[i + 1]);
}

/* prepare -- chain them, and choose which are signalled.  Holds the lock. */
static void prepare(struct pmr_ep *ep, struct pmr_request *requests, unsigned count)
{
	struct pmr_queue *queue = ep->sends;
	bool low = pmr_cq_is_low(ep->tx_cq);
	unsigned before = 0, kept = 0, flushes = 0;

	for (unsigned i = 0; i < count; i++) {
		struct pmr_request *request = &requests[i];
		struct pmr_slot *slot = pmr_queue_slot(queue, i);
		bool next = is_told_by_next(requests, count, i);

		slot->context = request->context;
		slot->flags = request->flags;
		slot->wanted = request->wanted;
		slot->len = 0;
		slot->data = 0;
		kept += ep->extended && is_kept(request);
		flushes += request->flush != 0;
		slot->kept = next ? 0 : kept;
		slot->flushes = next ? 0 : flushes;
		kept -= slot->kept;
		flushes -= slot->flushes;
		request->wr.wr_id = (uintptr_t) slot;
		request->wr.next = i + 1 < count ? &requests[i + 1].wr : NULL;
		before++;
		if (request->wanted || low || slot->kept ||
		    pmr_queue_must_signal(queue, before - 1)) {
			request->wr.send_flags |= IBV_SEND_SIGNALED;
			before = 0;
		}
	}
}

/* count_unsignalled -- of those that were posted.  Holds the lock. */
static void count_unsignalled(struct pmr_queue *queue, const struct pmr_request *requests,
			      unsigned posted)
{
	for (unsigned i = 0; i < posted; i++) {
		if (requests[i].wr.send_flags & IBV_SEND_SIGNALED)
			queue->unsignalled = 0;
		else
			queue->unsignalled++;
	}
}

/* post_chain -- those that one call can post; returns how many were, and what the device says */
static unsigned post_chain(struct pmr_ep *ep, struct pmr_request *requests, unsigned count,
			   bool flushes, int *err)
{
	struct ibv_send_wr *bad = NULL;
	unsigned posted = 0;

	if (flushes) {
		*err = pmr_flush_post(ep, requests, count);
		return *err ? 0 : count;
	}
	requests[count - 1].wr.next = NULL;
	*err = ibv_post_send(ep->qp, &requests[0].wr, &bad);
	if (!*err)
		return count;
	while (posted < count && &requests[posted].wr != bad)
		posted++;
	return posted == count ? 0 : posted;
}

/* is_with_flush -- is there a FLUSH or an ATOMIC WRITE, and can all be posted with it? */
static bool is_with_flush(const struct pmr_request *requests, unsigned count)
{
	bool flushes = false;

	for (unsigned i = 0; i < count; i++) {
		if (!pmr_flush_takes(&requests[i]))
			return false;
		flushes |= pmr_is_extended(&requests[i]);
	}
	return flushes;
}

/* post_all -- by one call, or, where that can't be, by one for all neighbours of a kind */
static unsigned post_all(struct pmr_ep *ep, struct pmr_request *requests, unsigned count, int *err)
{
	unsigned posted = 0;

	*err = 0;
	if (!ep->extended)
		return post_chain(ep, requests, count, false, err);
	if (is_with_flush(requests, count))
		return post_chain(ep, requests, count, true, err);
	while (posted < count && !*err) {
		bool flush = pmr_is_extended(&requests[posted]);
		unsigned n = 1;

		while (posted + n < count && pmr_is_extended(&requests[posted + n]) == flush)
			n++;
		posted += post_chain(ep, &requests[posted], n, flush, err);
	}
	return posted;
}

/* take_room -- for these: 0 or a negative fi_errno.  Holds the lock. */
static int take_room(struct pmr_ep *ep, const struct pmr_request *requests, unsigned count)
{
	int err = check_kept(ep, requests, count);

	if (err)
		return err;
	return pmr_queue_room(ep->sends) >= count && pmr_cq_take(ep->tx_cq, (int) count)
		       ? 0
		       : -FI_EAGAIN;
}

/* Requests that wait for the next one */

/*
 * join -- what waits, and these behind it.  What waits was accepted: if the device refuses it the
 * connection ends, so that it completes with an error in its turn.  If the device does not even
 * take it then, nothing is posted behind it any more, and it completes when the endpoint is closed.
 */
static unsigned join(struct pmr_ep *ep, const struct pmr_request *requests, unsigned count,
		     int *err)
{
	struct pmr_request all[2 * PMEMRDMA_MAX_LIST];
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	unsigned waited = ep->batched, posted;
	int ignored;

	memcpy(all, ep->batch, waited * sizeof(all[0]));
	for (unsigned i = 0; i < count; i++)
		all[waited + i] = requests[i];
	for (unsigned i = 0; i < waited + count; i++) {
		all[i].wr.sg_list = all[i].sge;
		all[i].wr.next = i + 1 < waited + count ? &all[i + 1].wr : NULL;
	}
	ep->batched = 0;
	posted = post_all(ep, all, waited + count, err);
	if (posted >= waited)
		return posted - waited;
	PMR_WARN(EP_DATA,
		 "the device refuses a request that was accepted with FI_MORE (%s): the "
		 "connection ends\n",
		 fi_strerror((int) -negative(*err)));
	ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE);
	ep->stuck = post_all(ep, &all[posted], waited - posted, &ignored) < waited - posted;
	return 0;
}

/* unlist -- holds both locks */
static void unlist(struct pmr_ep *ep)
{
	if (ep->listed)
		LIST_REMOVE(ep, next_batch);
	ep->listed = false;
}

static void post_batch(struct pmr_ep *ep)
{
	int err;

	if (ep->batched)
		join(ep, NULL, 0, &err);
}

void pmr_post_batch(struct pmr_ep *ep)
{
	pthread_mutex_lock(&ep->send_lock);
	post_batch(ep);
	pthread_mutex_unlock(&ep->send_lock);
}

void pmr_drop_batch(struct pmr_ep *ep)
{
	if (!ep->batch)
		return;
	pthread_mutex_lock(&ep->send_lock);
	pthread_mutex_lock(&ep->tx_cq->lock);
	unlist(ep);
	pthread_mutex_unlock(&ep->tx_cq->lock);
	ep->batched = 0;
	pthread_mutex_unlock(&ep->send_lock);
	free(ep->batch);
	ep->batch = NULL;
}

/* An endpoint that somebody posts to right now is left out: he posts what waits, or adds to it. */
void pmr_post_batches(struct pmr_cq *cq)
{
	struct pmr_ep *ep, *next;

	for (ep = LIST_FIRST(&cq->batches); ep; ep = next) {
		next = LIST_NEXT(ep, next_batch);
		if (pthread_mutex_trylock(&ep->send_lock))
			continue;
		post_batch(ep);
		unlist(ep);
		pthread_mutex_unlock(&ep->send_lock);
	}
}

/* may_wait -- there is a connection, and memory.  Holds the lock. */
static bool may_wait(struct pmr_ep *ep)
{
	if (ep->batched == PMEMRDMA_MAX_LIST || ep->stuck || !pmr_ep_depth(ep))
		return false;
	if (!ep->batch)
		ep->batch = calloc(PMEMRDMA_MAX_LIST, sizeof(*ep->batch));
	return ep->batch;
}

/* add -- to what waits; it has its slot and its room from here on.  Holds the lock. */
static void add(struct pmr_ep *ep, struct pmr_request *request)
{
	prepare(ep, request, 1);
	count_unsignalled(ep->sends, request, 1);
	pmr_queue_posted(ep->sends, 1);
	ep->batch[ep->batched++] = *request;
	if (ep->listed)
		return;
	pthread_mutex_lock(&ep->tx_cq->lock);
	LIST_INSERT_HEAD(&ep->tx_cq->batches, ep, next_batch);
	pthread_mutex_unlock(&ep->tx_cq->lock);
	ep->listed = true;
}

static ssize_t post_locked(struct pmr_ep *ep, struct pmr_request *requests, unsigned count)
{
	struct pmr_queue *queue = ep->sends;
	unsigned posted;
	int err = ep->stuck ? -FI_EOPBADSTATE : take_room(ep, requests, count);

	if (err) {
		post_batch(ep);
		return err;
	}
	prepare(ep, requests, count);
	if (ep->extended)
		note_kept(queue, 0, count, 1);
	/* They may complete before this returns, and be read by another thread. */
	posted =
		ep->batched ? join(ep, requests, count, &err) : post_all(ep, requests, count, &err);
	if (posted < count) {
		pmr_cq_give(ep->tx_cq, (int) (count - posted));
		note_kept(queue, posted, count, -1);
	}
	count_unsignalled(queue, requests, posted);
	pmr_queue_posted(queue, posted);
	return posted ? (ssize_t) posted : negative(err);
}

ssize_t pmr_post(struct pmr_ep *ep, struct pmr_request *requests, unsigned count)
{
	ssize_t ret;

	if (!ep->qp || !ep->sends)
		return -FI_EOPBADSTATE;
	pthread_mutex_lock(&ep->send_lock);
	ret = post_locked(ep, requests, count);
	pthread_mutex_unlock(&ep->send_lock);
	return ret;
}

ssize_t pmr_post_write(struct pmr_ep *ep, struct pmr_request *request, uint64_t flags)
{
	ssize_t ret;

	if (!(flags & FI_MORE) || (flags & FI_INJECT) || !ep->qp || !ep->sends)
		return pmr_post_one(ep, request);
	pthread_mutex_lock(&ep->send_lock);
	if (!may_wait(ep))
		ret = post_locked(ep, request, 1);
	else if (!(ret = take_room(ep, request, 1)))
		add(ep, request);
	else
		post_batch(ep);
	pthread_mutex_unlock(&ep->send_lock);
	return ret < 0 ? ret : 0;
}

static void set_receive(struct pmr_slot *slot, void *context)
{
	slot->context = context;
	slot->flags = FI_RECV | FI_MSG;
	slot->wanted = true;
	slot->len = 0;
	slot->data = 0;
}

static int fill_receive(struct ibv_recv_wr *wr, struct ibv_sge *sge, const struct fi_msg *msg,
			size_t iov_limit)
{
	size_t len;

	*wr = (struct ibv_recv_wr){.sg_list = sge};
	if (msg->iov_count > iov_limit)
		return -FI_EINVAL;
	wr->num_sge = pmr_fill_sge(sge, msg->msg_iov, msg->desc, msg->iov_count, &len);
	return wr->num_sge < 0 ? wr->num_sge : 0;
}

ssize_t pmr_post_receive(struct pmr_ep *ep, const struct fi_msg *msg)
{
	struct ibv_sge sge[PMR_MAX_IOV];
	struct ibv_recv_wr wr, *bad;
	struct pmr_slot *slot;
	int ret;

	if (!ep->qp || !ep->receives || ep->srx)
		return -FI_EOPBADSTATE;
	ret = fill_receive(&wr, sge, msg, ep->info->rx_attr->iov_limit);
	if (ret)
		return ret;
	pthread_mutex_lock(&ep->recv_lock);
	if (!pmr_queue_room(ep->receives) || !pmr_cq_take_receives(ep->rx_cq, 1)) {
		pthread_mutex_unlock(&ep->recv_lock);
		return -FI_EAGAIN;
	}
	slot = pmr_queue_slot(ep->receives, 0);
	set_receive(slot, msg->context);
	wr.wr_id = (uintptr_t) slot;
	ret = ibv_post_recv(ep->qp, &wr, &bad);
	if (ret)
		pmr_cq_give_receives(ep->rx_cq, 1);
	else
		pmr_queue_posted(ep->receives, 1);
	pthread_mutex_unlock(&ep->recv_lock);
	return ret ? negative(ret) : 0;
}

ssize_t pmr_post_shared(struct pmr_srx *srx, const struct fi_msg *msg)
{
	struct ibv_sge sge[PMR_MAX_IOV];
	struct ibv_recv_wr wr, *bad;
	struct pmr_slot *slot;
	int ret = fill_receive(&wr, sge, msg, srx->iov_limit);

	if (ret)
		return ret;
	slot = pmr_queue_take_shared(srx->receives);
	if (!slot)
		return -FI_EAGAIN;
	set_receive(slot, msg->context);
	wr.wr_id = (uintptr_t) slot;
	ret = ibv_post_srq_recv(srx->srq, &wr, &bad);
	if (ret)
		pmr_queue_return_shared(slot);
	return ret ? negative(ret) : 0;
}

ssize_t pmr_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
		  fi_addr_t src, void *context)
{
	const struct fi_msg msg = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = count,
		.addr = src,
		.context = context,
	};

	return fi_recvmsg(fid, &msg, 0);
}

ssize_t pmr_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
		 void *context)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = len};

	return pmr_recvv(fid, &iov, &desc, 1, src, context);
}
