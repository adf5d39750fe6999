/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_flush.c -- RDMA FLUSH on bare verbs; verbs_flush.h says what is here */
#include "verbs_flush.h"

#include <errno.h>

int flush_create_qp(struct link *link, struct ibv_qp_init_attr *attr, bool append)
{
	struct ibv_qp_init_attr_ex extended = {
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = link->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH |
				  (append ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0),
	};

	if (rdma_create_qp_ex(link->id, &extended))
		return -1;
	link->extended = ibv_qp_to_qp_ex(link->id->qp);
	return 0;
}

int flush_access(void)
{
	return IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
}

static void add_flush(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, size_t len)
{
	ibv_wr_flush(qp, key, addr, len, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
}

int flush_post(struct link *link, const struct ibv_send_wr *write, uint32_t slot, bool append)
{
	static const uint64_t tail = UINT64_C(0x0102030405060708);
	const struct ibv_sge *from = write->sg_list;
	uint64_t tail_at = (link->peer.addr + from->length + 7) & ~(uint64_t) 7;
	struct ibv_qp_ex *qp = link->extended;
	uint32_t key = link->peer.rkey;

	ibv_wr_start(qp);
	qp->wr_id = write->wr_id;
	qp->wr_flags = write->send_flags;
	ibv_wr_rdma_write(qp, key, link->peer.addr);
	if (write->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, (void *) (uintptr_t) from->addr, from->length);
	else
		ibv_wr_set_sge(qp, from->lkey, from->addr, from->length);
	if (append) {
		qp->wr_flags = 0;
		add_flush(qp, key, link->peer.addr, from->length);
		ibv_wr_atomic_write(qp, key, tail_at, &tail);
	}
	qp->wr_id = slot;
	qp->wr_flags = IBV_SEND_SIGNALED;
	if (append)
		add_flush(qp, key, tail_at, sizeof(tail));
	else
		add_flush(qp, key, link->peer.addr, from->length);
	errno = ibv_wr_complete(qp);
	return errno ? link_complain("ibv_wr_complete") : 0;
}
