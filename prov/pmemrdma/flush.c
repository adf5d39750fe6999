/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flush.c -- RDMA FLUSH and ATOMIC WRITE; flush_none.c is in its place where libibverbs has no
 * FLUSH
 *
 * Only the calls ibv_wr_* post them.  Others go with it if these calls are sure to do the same with
 * them as ibv_post_send: Soft-RoCE's library (rdma-core 56) miscounts the bytes of several buffers,
 * whether they are inline or not, and sends inline data only with IBV_SEND_INLINE, which other
 * libraries ignore.
 */
#include "flush.h"

#include <errno.h>

#include <rdma/ib_user_verbs.h>

#include "pmemrdma_post.h"

unsigned pmr_flush_ways(const struct ibv_device_attr_ex *attr)
{
	unsigned ways = 0;

	if (attr->device_cap_flags_ex & IB_UVERBS_DEVICE_FLUSH_GLOBAL)
		ways |= PMEMRDMA_FLUSH_GLOBAL;
	if (attr->device_cap_flags_ex & IB_UVERBS_DEVICE_FLUSH_PERSISTENT)
		ways |= PMEMRDMA_FLUSH_PERSISTENT;
	/* Alone it is of no use here. */
	if (ways && (attr->device_cap_flags_ex & IB_UVERBS_DEVICE_ATOMIC_WRITE))
		ways |= PMEMRDMA_ATOMIC_WRITES;
	return ways;
}

int pmr_flush_access(unsigned ways)
{
	return (ways & PMEMRDMA_FLUSH_GLOBAL ? IBV_ACCESS_FLUSH_GLOBAL : 0) |
	       (ways & PMEMRDMA_FLUSH_PERSISTENT ? IBV_ACCESS_FLUSH_PERSISTENT : 0);
}

/* has_none -- as libraries say that a queue pair can't have these calls */
static bool has_none(int err)
{
	return err == EOPNOTSUPP || err == ENOSYS || err == EINVAL;
}

int pmr_flush_make_qp(struct pmr_ep *ep, const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex extended = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = ep->domain->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH,
	};

	if (ep->domain->device->flush_ways & PMEMRDMA_ATOMIC_WRITES)
		extended.send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_WRITE;
	if (rdma_create_qp_ex(ep->id, &extended))
		return has_none(errno) ? -FI_EOPNOTSUPP : -errno;
	ep->extended = ibv_qp_to_qp_ex(ep->id->qp);
	return 0;
}

bool pmr_flush_takes(const struct pmr_request *request)
{
	return pmr_is_extended(request) ||
	       (request->wr.opcode == IBV_WR_RDMA_WRITE && request->wr.num_sge <= 1);
}

static void add_flush(struct ibv_qp_ex *qp, const struct pmr_request *request)
{
	ibv_wr_flush(qp, request->wr.wr.rdma.rkey, request->wr.wr.rdma.remote_addr,
		     request->flush_len,
		     request->flush & PMEMRDMA_FLUSH_PERSISTENT ? IBV_FLUSH_PERSISTENT
								: IBV_FLUSH_GLOBAL,
		     request->flush_whole ? IBV_FLUSH_MR : IBV_FLUSH_RANGE);
}

static void add_write(struct ibv_qp_ex *qp, const struct pmr_request *request)
{
	const struct ibv_sge *from = request->sge;

	ibv_wr_rdma_write(qp, request->wr.wr.rdma.rkey, request->wr.wr.rdma.remote_addr);
	if (!request->wr.num_sge)
		ibv_wr_set_sge_list(qp, 0, from);
	else if (request->wr.send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, (void *) (uintptr_t) from->addr, from->length);
	else
		ibv_wr_set_sge(qp, from->lkey, from->addr, from->length);
}

int pmr_flush_post(struct pmr_ep *ep, struct pmr_request *requests, unsigned count)
{
	struct ibv_qp_ex *qp = ep->extended;

	ibv_wr_start(qp);
	for (unsigned i = 0; i < count; i++) {
		const struct pmr_request *request = &requests[i];

		qp->wr_id = request->wr.wr_id;
		qp->wr_flags = request->wr.send_flags;
		if (request->flush)
			add_flush(qp, request);
		else if (pmr_is_extended(request))
			ibv_wr_atomic_write(qp, request->wr.wr.rdma.rkey,
					    request->wr.wr.rdma.remote_addr,
					    (const void *) (uintptr_t) request->sge->addr);
		else
			add_write(qp, request);
	}
	return ibv_wr_complete(qp);
}
