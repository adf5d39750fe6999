/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_ep.c -- endpoints of FI_EP_RDM, and their writes
 *
 * RxM keeps what a commit relies on: all writes to a peer go through one MSG endpoint, in
 * order, with the application's flags and 64-bit keys, and complete when they complete
 * there.  What RxM does not do is done in functions that replace RxM's: those for messages
 * are in rdm_calls.c, and rdm_posting.h tells what follows a lost connection.
 *
 * RxM refuses FI_COMMIT_COMPLETE in op_flags.  So calls without flags become calls with flags.
 * An injected write without a completion loses its flags in RxM, unless RxM has to copy the
 * data.  It copies the data of two pieces.
 */
#include "rdm/rdm_ep.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "base/log.h"
#include "engine/length.h"
#include "rdm/rdm_atomic.h"
#include "rdm/rdm_calls.h"
#include "rdm/rdm_cq.h"
#include "rdm/rdm_posting.h"
#include "rdm/rdm_track.h"

/* Writes */

/* inject_in_pieces -- add an empty piece: see the top of this file */
static ssize_t inject_in_pieces(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	struct iovec iov[2] = {{0}};
	void *desc[2] = {NULL};
	struct fi_msg_rma pieces = *msg;

	for (size_t i = 0; i < msg->iov_count; i++) {
		iov[i] = msg->msg_iov[i];
		desc[i] = msg->desc ? msg->desc[i] : NULL;
	}
	if (iov[0].iov_len > rdm->inject_size)
		return -FI_EINVAL;
	pieces.msg_iov = iov;
	pieces.desc = desc;
	pieces.iov_count = 2;
	return rdm->rxm_rma->writemsg(fid, &pieces, flags);
}

static ssize_t rdm_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	struct pmv_rma_msg copy;
	ssize_t ret = pmv_rdm_posting_reach(rdm, msg->addr);

	if (ret)
		return ret;
	/* RxM passes it on through one of several calls; all must see the same lengths. */
	msg = pmv_write_lengths(msg, &copy);
	if (!msg)
		return -FI_EINVAL;
	pmv_rdm_posting_begin(rdm, msg->addr, msg->rma_iov, msg->msg_iov, msg->iov_count);
	if ((flags & FI_INJECT) &&
	    (flags & (FI_COMMIT | FI_IMMED | FI_FENCE | FI_DELIVERY_COMPLETE)) &&
	    msg->iov_count <= 1)
		ret = pmv_rdm_posting_end(inject_in_pieces(fid, msg, flags));
	else
		ret = pmv_rdm_posting_end(rdm->rxm_rma->writemsg(fid, msg, flags));
	return pmv_rdm_posting_reached(rdm, msg->addr, ret);
}

/* by_writemsg -- as the endpoint writes: if it has FI_FENCE, that is not rdm_writemsg (rdm_track.h)
 */
static ssize_t by_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	const struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);

	return rdm->rma.fn.writemsg(fid, msg, rdm->tx_op_flags | flags);
}

static ssize_t rdm_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	const struct fi_rma_iov to = {addr, pmv_iov_len(iov, count), key};
	const struct fi_msg_rma msg = {iov, desc, count, dest_addr, &to, 1, context, 0};

	return by_writemsg(fid, &msg, 0);
}

static ssize_t rdm_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};

	return rdm_writev(fid, &iov, &desc, 1, dest_addr, addr, key, context);
}

static ssize_t rdm_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	const struct fi_rma_iov to = {addr, len, key};
	const struct fi_msg_rma msg = {&iov, &desc, 1, dest_addr, &to, 1, context, data};

	return by_writemsg(fid, &msg, FI_REMOTE_CQ_DATA);
}

static ssize_t rdm_inject_write(struct fid_ep *fid, const void *buf, size_t len,
				fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	const struct iovec iov = {(void *) buf, len};
	const struct fi_rma_iov to = {addr, len, key};
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	ssize_t ret = pmv_rdm_posting_reach(rdm, dest_addr);

	if (ret)
		return ret;
	pmv_rdm_posting_begin(rdm, dest_addr, &to, &iov, 1);
	ret = pmv_rdm_posting_end(rdm->rxm_rma->inject(fid, buf, len, dest_addr, addr, key));
	return pmv_rdm_posting_reached(rdm, dest_addr, ret);
}

static ssize_t rdm_inject_writedata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				    fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	const struct iovec iov = {(void *) buf, len};
	const struct fi_rma_iov to = {addr, len, key};
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	ssize_t ret = pmv_rdm_posting_reach(rdm, dest_addr);

	if (ret)
		return ret;
	pmv_rdm_posting_begin(rdm, dest_addr, &to, &iov, 1);
	ret = pmv_rdm_posting_end(
		rdm->rxm_rma->injectdata(fid, buf, len, data, dest_addr, addr, key));
	return pmv_rdm_posting_reached(rdm, dest_addr, ret);
}

/* The endpoint itself */

/* bind_tx -- to the queue of its sends, which may have operations of ours */
static int bind_tx(struct pmv_rdm_ep *rdm, struct fid *bfid, uint64_t flags)
{
	int ret = rdm->fences || rdm->ends_atomics ? pmv_rdm_cq_track(bfid) : 0;

	/* In a wait set, atomics end as RxM has them end. */
	if (ret == -FI_ENOSYS && !rdm->fences)
		ret = 0;
	if (ret == -FI_ENOSYS)
		PMV_WARN(EP_CTRL, "an endpoint of FI_EP_RDM with FI_FENCE can't be bound to a "
				  "completion queue that is in a wait set\n");
	if (ret || !pmv_rdm_cq_pool(bfid))
		return ret;
	ret = pmv_op_owner_open(&rdm->tracked, pmv_rdm_cq_pool(bfid));
	if (ret)
		return ret;
	rdm->tx_cq = pmv_container_of(bfid, struct fid_cq, fid);
	rdm->selective = flags & FI_SELECTIVE_COMPLETION;
	return 0;
}

static int rdm_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, ops);
	int ret = 0;

	/* RxM raises no events for an endpoint, and could not read our event queue. */
	if (bfid->fclass == FI_CLASS_EQ)
		return 0;
	if (pmv_rdm_calls_is_foreign(bfid)) {
		PMV_WARN(EP_CTRL, "another provider's object, or one of FI_EP_MSG, can't be bound "
				  "to an endpoint of FI_EP_RDM\n");
		return -FI_EINVAL;
	}
	if (bfid->fclass == FI_CLASS_AV)
		rdm->av = pmv_container_of(bfid, struct fid_av, fid);
	if (bfid->fclass == FI_CLASS_CNTR && (flags & (FI_READ | FI_WRITE)))
		rdm->counts = true;
	if (pmv_rdm_cq_is(bfid) && (flags & FI_TRANSMIT) && !rdm->tx_cq)
		ret = bind_tx(rdm, bfid, flags);
	return ret ? ret : rdm->rxm_ops->bind(fid, bfid, flags);
}

static int rdm_ep_close(struct fid *fid)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, ops);
	int ret;

	/* A thread that reads the CQ must not post to an endpoint that is being closed. */
	if (rdm->tx_cq)
		pmv_rdm_cq_drop(rdm->tx_cq, &rdm->tracked, &rdm->dropped);
	ret = rdm->rxm_ops->close(fid);
	if (ret) {
		pmv_rdm_fence_lose(&rdm->fence);
		return ret;
	}
	if (rdm->tx_cq) {
		pmv_rdm_cq_leave(rdm->tx_cq, &rdm->dropped);
		pmv_op_owner_close(&rdm->tracked);
	}
	pmv_rdm_fence_destroy(&rdm->fence);
	pmv_lost_writes_list_destroy(&rdm->lost_writes);
	free(rdm);
	return 0;
}

/* replace_tables -- replace the functions of RxM's that would not keep what is promised */
static void replace_tables(struct fid_ep *ep, struct pmv_rdm_ep *rdm)
{
	PMV_TABLE_REPLACE(ep->fid.ops, rdm->rxm_ops, rdm->ops);
	rdm->ops.fn.close = rdm_ep_close;
	rdm->ops.fn.bind = rdm_ep_bind;

	PMV_TABLE_REPLACE(ep->msg, rdm->rxm_msg, rdm->msg);
	PMV_TABLE_REPLACE(ep->tagged, rdm->rxm_tagged, rdm->tagged);
	PMV_TABLE_REPLACE(ep->rma, rdm->rxm_rma, rdm->rma);
	pmv_rdm_calls_guard(rdm);
	rdm->rma.fn.writemsg = rdm_writemsg;
	rdm->rma.fn.write = rdm_write;
	rdm->rma.fn.writev = rdm_writev;
	rdm->rma.fn.writedata = rdm_writedata;
	rdm->rma.fn.inject = rdm_inject_write;
	rdm->rma.fn.injectdata = rdm_inject_writedata;

	if (rdm->fences)
		pmv_rdm_track_calls(rdm);

	/* Only if atomics were asked for. */
	if (ep->atomic)
		pmv_rdm_atomic_replace(ep, rdm);
}

int pmv_rdm_ep_wrap(struct fid_ep *ep, size_t inject_size, uint64_t op_flags, bool fences,
		    bool pmem)
{
	struct pmv_rdm_ep *rdm = calloc(1, sizeof(*rdm));

	if (!rdm)
		return -FI_ENOMEM;
	rdm->inject_size = inject_size;
	rdm->tx_op_flags = op_flags;
	rdm->fences = fences;
	rdm->ends_atomics = pmem && ep->atomic;
	STAILQ_INIT(&rdm->dropped);
	pmv_rdm_fence_init(&rdm->fence);
	pmv_lost_writes_list_init(&rdm->lost_writes);
	replace_tables(ep, rdm);
	return 0;
}
