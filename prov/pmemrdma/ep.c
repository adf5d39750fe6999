/* SPDX-License-Identifier: BSD-2-Clause */
/* ep.c -- endpoints: a queue pair, and the id of its connection */
#include "ep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "post.h"
#include "post_ops.h"
#include "provider.h"

/* The end */

/* drain -- what has completed is not to be lost with the queue pair: 0 or a negative fi_errno */
static int drain(struct pmr_ep *ep)
{
	int ret = ep->tx_cq ? pmr_cq_drain(ep->tx_cq) : 0;

	if (!ret && ep->rx_cq && ep->rx_cq != ep->tx_cq)
		ret = pmr_cq_drain(ep->rx_cq);
	return ret;
}

/* destroy_qp -- as rdma_destroy_qp, which does not tell: 0 or a negative fi_errno */
static int destroy_qp(struct pmr_ep *ep)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int ret;

	ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE);
	ret = drain(ep);
	if (!ret)
		ret = pmr_device_freed(ep->domain->device, ibv_destroy_qp(ep->qp));
	if (!ret) {
		ep->qp = ep->id->qp = ep->owner.held = NULL;
		ep->extended = NULL;
	}
	return ret;
}

/*
 * stop -- nothing is under way any more, and what was is told: 0, or a negative fi_errno, and it
 * can be called again.  Slots stay as long as the device may still tell of them.
 */
static int stop(struct pmr_ep *ep)
{
	int ret;

	/* Others may read the queue meanwhile. */
	pmr_drop_batch(ep);
	ret = ep->qp ? destroy_qp(ep) : 0;
	if (!ret && (ep->sends || ep->receives))
		ret = drain(ep);
	if (ret)
		return ret;
	if (ep->sends)
		pmr_cq_cancel(ep->tx_cq, ep->sends, true);
	if (ep->receives && !ep->srx)
		pmr_cq_cancel(ep->rx_cq, ep->receives, false);
	return 0;
}

static void drop_users(struct pmr_ep *ep)
{
	if (ep->tx_cq)
		atomic_fetch_sub(&ep->tx_cq->users, 1);
	if (ep->rx_cq)
		atomic_fetch_sub(&ep->rx_cq->users, 1);
	if (ep->srx)
		atomic_fetch_sub(&ep->srx->users, 1);
	if (ep->eq)
		atomic_fetch_sub(&ep->eq->users, 1);
	atomic_fetch_sub(&ep->domain->users, 1);
}

static int ep_close(struct fid *fid)
{
	struct pmr_ep *ep = pmr_to_ep(fid);
	int ret;

	if (ep->eq)
		pthread_mutex_lock(&ep->eq->lock);
	ret = stop(ep);
	if (!ret && ep->id)
		ret = rdma_destroy_id(ep->id) ? -errno : 0;
	if (ep->eq) {
		if (!ret)
			pmr_eq_forget(ep->eq, fid);
		pthread_mutex_unlock(&ep->eq->lock);
	}
	/* It is still there, and can be closed again. */
	if (ret)
		return ret;
	pmr_ep_drop_queues(ep);
	drop_users(ep);
	pthread_mutex_destroy(&ep->send_lock);
	pthread_mutex_destroy(&ep->recv_lock);
	fi_freeinfo(ep->info);
	free(ep);
	return 0;
}

/* What it is bound to */

static int bind_cq(struct pmr_ep *ep, struct pmr_cq *cq, uint64_t flags)
{
	if (!(flags & (FI_TRANSMIT | FI_RECV)) ||
	    (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) ||
	    ((flags & FI_TRANSMIT) && ep->tx_cq) || ((flags & FI_RECV) && ep->rx_cq))
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->always = !(flags & FI_SELECTIVE_COMPLETION);
		ep->plain_wanted = ep->always || (ep->plain_flags & FI_COMPLETION);
		atomic_fetch_add(&cq->users, 1);
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		atomic_fetch_add(&cq->users, 1);
	}
	return 0;
}

static int bind_eq(struct pmr_ep *ep, struct pmr_eq *eq)
{
	int ret;

	if (ep->eq)
		return -FI_EINVAL;
	pthread_mutex_lock(&eq->lock);
	ret = ep->id ? pmr_eq_adopt(eq, ep->id) : 0;
	/* From here on its events are this endpoint's, which does not go without this queue. */
	if (!ret && ep->id)
		ep->id->context = &ep->owner;
	pthread_mutex_unlock(&eq->lock);
	if (ret)
		return ret;
	ep->eq = eq;
	atomic_fetch_add(&eq->users, 1);
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pmr_ep *ep = pmr_to_ep(fid);

	if (ep->qp)
		return -FI_EOPBADSTATE;
	switch (bfid->fclass) {
	case FI_CLASS_CQ:
		return bind_cq(ep, pmr_to_cq(bfid), flags);
	case FI_CLASS_EQ:
		return bind_eq(ep, pmr_to_eq(bfid));
	case FI_CLASS_SRX_CTX:
		if (ep->srx)
			return -FI_EINVAL;
		ep->srx = pmv_container_of(bfid, struct pmr_srx, ep_fid.fid);
		atomic_fetch_add(&ep->srx->users, 1);
		return 0;
	default:
		return -FI_EINVAL;
	}
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	(void) arg;
	return command == FI_ENABLE ? pmr_ep_enable(pmr_to_ep(fid)) : -FI_ENOSYS;
}

static int ep_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void) fid;
	(void) context;
	if (flags || strcmp(name, PMEMRDMA_POST_OPS_V3) != 0)
		return -FI_ENOSYS;
	*ops = (void *) &pmr_post_ops;
	return 0;
}

struct fi_ops pmr_ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = ep_ops_open,
};

static ssize_t ep_tx_size_left(struct fid_ep *fid)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	ssize_t room;

	if (!ep->qp || !ep->sends)
		return -FI_EOPBADSTATE;
	pthread_mutex_lock(&ep->send_lock);
	room = pmr_queue_room(ep->sends);
	pthread_mutex_unlock(&ep->send_lock);
	return room;
}

static ssize_t ep_rx_size_left(struct fid_ep *fid)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	ssize_t room;

	if (!ep->qp || !ep->receives || ep->srx)
		return -FI_EOPBADSTATE;
	pthread_mutex_lock(&ep->recv_lock);
	room = pmr_queue_room(ep->receives);
	pthread_mutex_unlock(&ep->recv_lock);
	return room;
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = pmr_no_cancel,
	.getopt = pmr_cm_data_getopt,
	.setopt = pmr_no_setopt,
	.tx_ctx = pmr_no_tx_ctx,
	.rx_ctx = pmr_no_rx_ctx,
	.rx_size_left = ep_rx_size_left,
	.tx_size_left = ep_tx_size_left,
};

/* Opening */

/* take_request -- the id of whoever asks for the connection */
static int take_request(struct pmr_ep *ep, struct fid *handle)
{
	struct pmr_connreq *request = pmv_container_of(handle, struct pmr_connreq, handle);

	if (handle->fclass != FI_CLASS_CONNREQ || request->id->verbs != ep->domain->device->verbs)
		return -FI_EINVAL;
	ep->id = request->id;
	free(request);
	return 0;
}

static bool is_complete(const struct fi_info *info)
{
	return info->ep_attr && info->tx_attr && info->rx_attr &&
	       info->ep_attr->type == FI_EP_MSG && info->tx_attr->size && info->rx_attr->size;
}

int pmr_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **fid, void *context)
{
	struct pmr_ep *ep;
	int ret = 0;

	if (!is_complete(info))
		return -FI_EINVAL;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ep->domain = pmr_to_domain(domain);
	atomic_fetch_add(&ep->domain->users, 1);
	pthread_mutex_init(&ep->send_lock, NULL);
	pthread_mutex_init(&ep->recv_lock, NULL);
	ep->inject_size = info->tx_attr->inject_size;
	ep->plain_flags = info->tx_attr->op_flags;
	ep->owner.fid = &ep->ep_fid.fid;
	ep->ep_fid.fid = (struct fid){FI_CLASS_EP, context, &pmr_ep_fi_ops};
	ep->ep_fid.ops = &ep_ops;
	ep->ep_fid.cm = &pmr_cm_ops;
	ep->ep_fid.msg = &pmr_msg_ops;
	ep->ep_fid.rma = &pmr_rma_ops;
	ep->ep_fid.atomic = &pmr_atomic_ops;
	ep->info = fi_dupinfo(info);
	if (!ep->info)
		ret = -FI_ENOMEM;
	else if (info->handle)
		ret = take_request(ep, info->handle);
	else if (info->dest_addr)
		ret = pmr_ep_resolve(ep, info->dest_addr, info->dest_addrlen);
	if (ret) {
		ep_close(&ep->ep_fid.fid);
		return ret;
	}
	*fid = &ep->ep_fid;
	return 0;
}
