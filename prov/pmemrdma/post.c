/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c -- work requests on their way to the device */
#include "post.h"

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

/* prepare -- chain them, and choose which are signalled.  Holds the lock. */
static void prepare(struct pmr_ep *ep, struct pmr_request *requests, unsigned count)
{
	struct pmr_queue *queue = ep->sends;
	bool low = pmr_cq_is_low(ep->tx_cq);
	unsigned before = 0;

	for (unsigned i = 0; i < count; i++) {
		struct pmr_request *request = &requests[i];
		struct pmr_slot *slot = pmr_queue_slot(queue, i);

		slot->context = request->context;
		slot->flags = request->flags;
		slot->wanted = request->wanted;
		slot->len = 0;
		slot->data = 0;
		request->wr.wr_id = (uintptr_t) slot;
		request->wr.next = i + 1 < count ? &requests[i + 1].wr : NULL;
		before++;
		if (request->wanted || low || pmr_queue_must_signal(queue, before - 1)) {
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

static ssize_t post_locked(struct pmr_ep *ep, struct pmr_request *requests, unsigned count)
{
	struct pmr_queue *queue = ep->sends;
	struct ibv_send_wr *bad = NULL;
	unsigned posted = count;
	int err;

	if (pmr_queue_room(queue) < count || !pmr_cq_take(ep->tx_cq, (int) count))
		return -FI_EAGAIN;
	prepare(ep, requests, count);
	/* They may complete before this returns, and be read by another thread. */
	err = ibv_post_send(ep->qp, &requests[0].wr, &bad);
	if (err) {
		for (posted = 0; posted < count && &requests[posted].wr != bad;)
			posted++;
		if (posted == count)
			posted = 0;
		pmr_cq_give(ep->tx_cq, (int) (count - posted));
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
	if (!pmr_queue_room(ep->receives)) {
		pthread_mutex_unlock(&ep->recv_lock);
		return -FI_EAGAIN;
	}
	slot = pmr_queue_slot(ep->receives, 0);
	set_receive(slot, msg->context);
	wr.wr_id = (uintptr_t) slot;
	ret = ibv_post_recv(ep->qp, &wr, &bad);
	if (!ret)
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
