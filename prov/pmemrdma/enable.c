/* SPDX-License-Identifier: BSD-2-Clause */
/* enable.c -- what an endpoint needs of the device: the way to the peer, and a queue pair */
#include "ep.h"

#include <errno.h>

#include <rdma/fi_errno.h>

#include "address.h"
#include "flush.h"
#include "pmemrdma_post.h"

/* How long the way to a peer is looked for. */
#define RESOLVE_MS 2000

int pmr_ep_resolve(struct pmr_ep *ep, const void *addr, size_t len)
{
	union pmr_address src, dest;
	bool has_src = pmr_address_take(&src, ep->info->src_addr, ep->info->src_addrlen);
	int ret;

	if (ep->id)
		return 0;
	if (!pmr_address_take(&dest, addr, len))
		return -FI_EINVAL;
	if (rdma_create_id(NULL, &ep->id, &ep->owner, RDMA_PS_TCP))
		return -errno;
	ret = rdma_resolve_addr(ep->id, has_src ? &src.any : NULL, &dest.any, RESOLVE_MS) ? -errno
											  : 0;
	if (!ret && ep->id->verbs != ep->domain->device->verbs)
		ret = -FI_EINVAL;
	if (!ret && ep->eq)
		ret = pmr_eq_adopt(ep->eq, ep->id);
	if (ret) {
		rdma_destroy_id(ep->id);
		ep->id = NULL;
	}
	return ret;
}

void pmr_ep_drop_queues(struct pmr_ep *ep)
{
	if (ep->promised_rx)
		pmr_cq_unpromise(ep->rx_cq, ep->receives);
	if (ep->sends)
		pmr_queue_put(ep->sends);
	if (ep->receives)
		pmr_queue_put(ep->receives);
	ep->sends = ep->receives = NULL;
	ep->promised_rx = false;
}

static int check_bound(const struct pmr_ep *ep)
{
	if (!ep->eq)
		return -FI_ENOEQ;
	if (!ep->tx_cq && !ep->rx_cq)
		return -FI_ENOCQ;
	if (!ep->tx_cq && (ep->info->caps & (FI_SEND | FI_READ | FI_WRITE)))
		return -FI_ENOCQ;
	if (!ep->rx_cq && (ep->info->caps & FI_RECV))
		return -FI_ENOCQ;
	return 0;
}

static int open_queues(struct pmr_ep *ep)
{
	const struct fi_info *info = ep->info;
	size_t size;

	if (ep->tx_cq) {
		size = info->tx_attr->size;
		/* However few are asked for, a list is posted as a whole. */
		if (size < PMEMRDMA_MAX_LIST)
			size = PMEMRDMA_MAX_LIST;
		ep->sends = pmr_queue_open((unsigned) size, false);
		if (!ep->sends)
			return -FI_ENOMEM;
	}
	if (!ep->rx_cq)
		return 0;
	if (ep->srx) {
		ep->receives = ep->srx->receives;
		atomic_fetch_add(&ep->receives->refs, 1);
		return 0;
	}
	ep->receives = pmr_queue_open((unsigned) info->rx_attr->size, false);
	return ep->receives ? 0 : -FI_ENOMEM;
}

static int promise(struct pmr_ep *ep)
{
	unsigned sends = ep->sends ? ep->sends->size : 0;
	int ret = 0;

	if (ep->tx_cq && ep->tx_cq != ep->rx_cq)
		ret = pmr_cq_promise(ep->tx_cq, NULL, sends);
	if (!ret && ep->rx_cq) {
		ret = pmr_cq_promise(ep->rx_cq, ep->receives, ep->tx_cq == ep->rx_cq ? sends : 0);
		ep->promised_rx = !ret;
	}
	return ret;
}

static int make_qp(struct pmr_ep *ep)
{
	struct pmr_cq *tx_cq = ep->tx_cq ? ep->tx_cq : ep->rx_cq;
	struct pmr_cq *rx_cq = ep->rx_cq ? ep->rx_cq : ep->tx_cq;
	struct ibv_qp_init_attr attr = {
		.qp_context = ep,
		.send_cq = tx_cq->cq,
		.recv_cq = rx_cq->cq,
		.srq = ep->srx ? ep->srx->srq : NULL,
		.cap = {.max_send_wr = ep->sends ? ep->sends->size : 1,
			.max_recv_wr = ep->receives && !ep->srx ? ep->receives->size : 1,
			.max_send_sge = (uint32_t) ep->info->tx_attr->iov_limit,
			.max_recv_sge = (uint32_t) ep->info->rx_attr->iov_limit,
			.max_inline_data = (uint32_t) ep->inject_size},
		.qp_type = IBV_QPT_RC,
	};

	bool flushes = ep->domain->device->flush_ways && ep->sends;
	int ret = flushes ? pmr_flush_make_qp(ep, &attr) : -FI_EOPNOTSUPP;

	if (ret == -FI_EOPNOTSUPP)
		ret = rdma_create_qp(ep->id, ep->domain->pd, &attr) ? -errno : 0;
	ep->qp = ret ? NULL : ep->id->qp;
	return ret;
}

unsigned pmr_ep_depth(struct pmr_ep *ep)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {0};
	unsigned depth = atomic_load_explicit(&ep->depth, memory_order_relaxed);

	if (depth || ibv_query_qp(ep->qp, &attr, IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC, &init) ||
	    attr.qp_state != IBV_QPS_RTS)
		return depth;
	/* Both ends have agreed on it by now. */
	atomic_store_explicit(&ep->depth, attr.max_rd_atomic, memory_order_relaxed);
	return attr.max_rd_atomic;
}

int pmr_ep_enable(struct pmr_ep *ep)
{
	int ret = check_bound(ep);

	if (ret || ep->qp)
		return ret;
	/* The peer's address comes with fi_connect. */
	if (!ep->id || !ep->id->verbs)
		return 0;
	ret = open_queues(ep);
	if (!ret)
		ret = promise(ep);
	if (!ret)
		ret = make_qp(ep);
	if (ret)
		pmr_ep_drop_queues(ep);
	return ret;
}
