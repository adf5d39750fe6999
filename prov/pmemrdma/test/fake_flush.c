/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_flush.c -- the calls that post RDMA FLUSH, without a device: fake_verbs.h */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "fake_impl.h"

static struct fake_qp *to_fake(struct ibv_qp_ex *qp)
{
	return (struct fake_qp *) &qp->qp_base;
}

/* take -- it waits until ibv_wr_complete */
static struct ibv_send_wr *take(struct ibv_qp_ex *fid, enum ibv_wr_opcode opcode, uint32_t key,
				uint64_t addr)
{
	struct ibv_send_wr wr = {
		.wr_id = fid->wr_id, .send_flags = fid->wr_flags, .opcode = opcode};
	struct fake_qp *qp = to_fake(fid);

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = key;
	fake_take(qp, &wr);
	return &qp->sends[(qp->posted - 1) % FAKE_QUEUE];
}

static void wr_start(struct ibv_qp_ex *fid)
{
	to_fake(fid)->started = to_fake(fid)->posted;
}

static int wr_complete(struct ibv_qp_ex *fid)
{
	struct fake_qp *qp = to_fake(fid);

	fake.doorbells++;
	if (!fake_fails("ibv_wr_complete"))
		return 0;
	qp->posted = qp->started;
	return fake_refusal();
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr)
{
	take(qp, IBV_WR_RDMA_WRITE, key, addr);
}

static void wr_flush(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, size_t len, uint8_t type,
		     uint8_t level)
{
	take(qp, IBV_WR_FLUSH, key, addr);
	fake.flush = (struct fake_flush){
		.addr = addr, .len = len, .key = key, .type = type, .level = level};
}

static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, const void *data)
{
	struct ibv_send_wr *wr = take(qp, IBV_WR_ATOMIC_WRITE, key, addr);

	cr_assert_not(wr->send_flags & IBV_SEND_INLINE);
	memcpy(&fake.atomic_write, data, sizeof(fake.atomic_write));
}

/* note_buffer -- of the request before, which is the latest one */
static void note_buffer(struct ibv_qp_ex *fid, bool in_line, int buffers)
{
	struct fake_qp *qp = to_fake(fid);
	struct ibv_send_wr *wr = &qp->sends[(qp->posted - 1) % FAKE_QUEUE];

	cr_assert_gt(qp->posted, qp->started);
	cr_assert_eq(!!(wr->send_flags & IBV_SEND_INLINE), in_line);
	wr->num_sge = buffers;
	fake.last = *wr;
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, uint32_t len)
{
	(void) addr;
	cr_assert(len && key);
	note_buffer(qp, false, 1);
}

/* Soft-RoCE's counts no bytes of several. */
static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
	(void) list;
	cr_assert_eq(count, 0U);
	note_buffer(qp, fake.last.send_flags & IBV_SEND_INLINE, 0);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t len)
{
	cr_assert(addr && len <= FAKE_MAX_INLINE);
	note_buffer(qp, true, 1);
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return &((struct fake_qp *) qp)->extended;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr plain = {
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
	};
	struct ibv_qp_ex *qp;

	cr_assert(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
	cr_assert(attr->send_ops_flags & IBV_QP_EX_WITH_FLUSH);
	if (fake.no_flush_qp) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (fake_fails(__func__) || rdma_create_qp(id, attr->pd, &plain))
		return -1;
	qp = ibv_qp_to_qp_ex(id->qp);
	qp->wr_start = wr_start;
	qp->wr_complete = wr_complete;
	qp->wr_rdma_write = wr_rdma_write;
	qp->wr_flush = wr_flush;
	if (attr->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE)
		qp->wr_atomic_write = wr_atomic_write;
	qp->wr_set_sge = wr_set_sge;
	qp->wr_set_sge_list = wr_set_sge_list;
	qp->wr_set_inline_data = wr_set_inline_data;
	return 0;
}
