/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_tracked.c -- calls of an endpoint that has FI_FENCE: each is posted when its turn has come,
 * and is counted until it has ended
 *
 * All become calls with flags, which can ask for a completion.  Nobody would hear of the end of
 * what is injected without one.
 */
#include "rdm/rdm_tracked.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "engine/length.h"
#include "rdm/rdm_track.h"

/* The arguments that calls begin with. */
#define INTO struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t peer
#define FROM struct fid_ep *fid, const void *buf, size_t len, void *desc
#define VECTOR struct fid_ep *fid, const struct iovec *iov, void **desc, size_t n, fi_addr_t peer
#define INJECTED struct fid_ep *fid, const void *buf, size_t len

/* All of it, if that is one piece. */
#define PIECE (&(const struct iovec){(void *) buf, len})

/* The flags of a call that has none. */
#define OP_FLAGS(table) (PMV_RDM_OF(fid, table)->tx_op_flags)

/* is_too_long -- RxM does not look */
static bool is_too_long(const struct pmv_rdm_ep *rdm, const struct iovec *iov, size_t count,
			uint64_t flags)
{
	return (flags & FI_INJECT) && pmv_iov_len(iov, count) > rdm->inject_size;
}

static ssize_t posted(struct pmv_rdm_op *op, ssize_t ret)
{
	if (ret)
		pmv_rdm_untrack(op);
	return ret;
}

/* Messages */

static ssize_t send(struct fid_ep *fid, struct fi_msg msg, uint64_t flags, bool reports)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, msg);
	struct pmv_rdm_op *op;
	ssize_t ret;

	if (is_too_long(rdm, msg.msg_iov, msg.iov_count, flags))
		return -FI_EINVAL;
	ret = pmv_rdm_track(fid, msg.addr, PMV_RDM_OTHER, flags, msg.context, reports, &op);
	if (ret)
		return ret;
	msg.context = pmv_rdm_op_context(op);
	return posted(op, rdm->plain_msg.sendmsg(fid, &msg, flags | FI_COMPLETION));
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return send(fid, *msg, flags, true);
}

static ssize_t msg_sendv(VECTOR, void *context)
{
	return send(fid, (struct fi_msg){iov, desc, n, peer, context, 0}, OP_FLAGS(msg), true);
}

static ssize_t msg_send(FROM, fi_addr_t peer, void *context)
{
	return msg_sendv(fid, PIECE, &desc, 1, peer, context);
}

static ssize_t msg_senddata(FROM, uint64_t data, fi_addr_t peer, void *context)
{
	return send(fid, (struct fi_msg){PIECE, &desc, 1, peer, context, data},
		    OP_FLAGS(msg) | FI_REMOTE_CQ_DATA, true);
}

static ssize_t msg_inject(INJECTED, fi_addr_t peer)
{
	return send(fid, (struct fi_msg){PIECE, NULL, 1, peer, NULL, 0}, FI_INJECT, false);
}

static ssize_t msg_injectdata(INJECTED, uint64_t data, fi_addr_t peer)
{
	return send(fid, (struct fi_msg){PIECE, NULL, 1, peer, NULL, data},
		    FI_INJECT | FI_REMOTE_CQ_DATA, false);
}

/* Tagged messages */

static ssize_t tsend(struct fid_ep *fid, struct fi_msg_tagged msg, uint64_t flags, bool reports)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, tagged);
	struct pmv_rdm_op *op;
	ssize_t ret;

	if (is_too_long(rdm, msg.msg_iov, msg.iov_count, flags))
		return -FI_EINVAL;
	ret = pmv_rdm_track(fid, msg.addr, PMV_RDM_OTHER, flags, msg.context, reports, &op);
	if (ret)
		return ret;
	msg.context = pmv_rdm_op_context(op);
	return posted(op, rdm->plain_tagged.sendmsg(fid, &msg, flags | FI_COMPLETION));
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return tsend(fid, *msg, flags, true);
}

static ssize_t tagged_sendv(VECTOR, uint64_t tag, void *context)
{
	return tsend(fid, (struct fi_msg_tagged){iov, desc, n, peer, tag, 0, context, 0},
		     OP_FLAGS(tagged), true);
}

static ssize_t tagged_send(FROM, fi_addr_t peer, uint64_t tag, void *context)
{
	return tagged_sendv(fid, PIECE, &desc, 1, peer, tag, context);
}

static ssize_t tagged_senddata(FROM, uint64_t data, fi_addr_t peer, uint64_t tag, void *context)
{
	return tsend(fid, (struct fi_msg_tagged){PIECE, &desc, 1, peer, tag, 0, context, data},
		     OP_FLAGS(tagged) | FI_REMOTE_CQ_DATA, true);
}

static ssize_t tagged_inject(INJECTED, fi_addr_t peer, uint64_t tag)
{
	return tsend(fid, (struct fi_msg_tagged){PIECE, NULL, 1, peer, tag, 0, NULL, 0}, FI_INJECT,
		     false);
}

static ssize_t tagged_injectdata(INJECTED, uint64_t data, fi_addr_t peer, uint64_t tag)
{
	return tsend(fid, (struct fi_msg_tagged){PIECE, NULL, 1, peer, tag, 0, NULL, data},
		     FI_INJECT | FI_REMOTE_CQ_DATA, false);
}

/* Reads and writes: the connection gets the fence, too, for those before it */

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *read, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	struct fi_msg_rma msg = *read;
	struct pmv_rdm_op *op;
	ssize_t ret;

	ret = pmv_rdm_track(fid, msg.addr, PMV_RDM_RMA, flags, msg.context, true, &op);
	if (ret)
		return ret;
	msg.context = pmv_rdm_op_context(op);
	return posted(op, rdm->plain_rma.readmsg(fid, &msg, flags | FI_COMPLETION));
}

static ssize_t rma_readv(VECTOR, uint64_t addr, uint64_t key, void *context)
{
	const struct fi_rma_iov from = {addr, pmv_iov_len(iov, n), key};
	const struct fi_msg_rma msg = {iov, desc, n, peer, &from, 1, context, 0};

	return rma_readmsg(fid, &msg, OP_FLAGS(rma) & ~(FI_COMMIT | FI_DELIVERY_COMPLETE));
}

static ssize_t rma_read(INTO, uint64_t addr, uint64_t key, void *context)
{
	return rma_readv(fid, PIECE, &desc, 1, peer, addr, key, context);
}

static ssize_t write(struct fid_ep *fid, struct fi_msg_rma msg, uint64_t flags, bool reports)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	struct pmv_rdm_op *op;
	ssize_t ret;

	if (is_too_long(rdm, msg.msg_iov, msg.iov_count, flags))
		return -FI_EINVAL;
	ret = pmv_rdm_track(fid, msg.addr, PMV_RDM_RMA, flags, msg.context, reports, &op);
	if (ret)
		return ret;
	msg.context = pmv_rdm_op_context(op);
	return posted(op, rdm->plain_rma.writemsg(fid, &msg, flags | FI_COMPLETION));
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return write(fid, *msg, flags, true);
}

static ssize_t rma_writev(VECTOR, uint64_t addr, uint64_t key, void *context)
{
	const struct fi_rma_iov to = {addr, pmv_iov_len(iov, n), key};

	return write(fid, (struct fi_msg_rma){iov, desc, n, peer, &to, 1, context, 0},
		     OP_FLAGS(rma), true);
}

static ssize_t rma_write(FROM, fi_addr_t peer, uint64_t addr, uint64_t key, void *context)
{
	return rma_writev(fid, PIECE, &desc, 1, peer, addr, key, context);
}

static ssize_t rma_writedata(FROM, uint64_t data, fi_addr_t peer, uint64_t addr, uint64_t key,
			     void *context)
{
	const struct fi_rma_iov to = {addr, len, key};

	return write(fid, (struct fi_msg_rma){PIECE, &desc, 1, peer, &to, 1, context, data},
		     OP_FLAGS(rma) | FI_REMOTE_CQ_DATA, true);
}

static ssize_t rma_inject(INJECTED, fi_addr_t peer, uint64_t addr, uint64_t key)
{
	const struct fi_rma_iov to = {addr, len, key};

	return write(fid, (struct fi_msg_rma){PIECE, NULL, 1, peer, &to, 1, NULL, 0}, FI_INJECT,
		     false);
}

static ssize_t rma_injectdata(INJECTED, uint64_t data, fi_addr_t peer, uint64_t addr, uint64_t key)
{
	const struct fi_rma_iov to = {addr, len, key};

	return write(fid, (struct fi_msg_rma){PIECE, NULL, 1, peer, &to, 1, NULL, data},
		     FI_INJECT | FI_REMOTE_CQ_DATA, false);
}

void pmv_rdm_tracked_replace(struct pmv_rdm_ep *rdm)
{
	struct fi_ops_msg *msg = &rdm->msg.fn;
	struct fi_ops_tagged *tagged = &rdm->tagged.fn;
	struct fi_ops_rma *rma = &rdm->rma.fn;

	rdm->plain_msg = *msg;
	rdm->plain_tagged = *tagged;
	rdm->plain_rma = *rma;
	msg->send = msg_send;
	msg->sendv = msg_sendv;
	msg->sendmsg = msg_sendmsg;
	msg->inject = msg_inject;
	msg->senddata = msg_senddata;
	msg->injectdata = msg_injectdata;
	tagged->send = tagged_send;
	tagged->sendv = tagged_sendv;
	tagged->sendmsg = tagged_sendmsg;
	tagged->inject = tagged_inject;
	tagged->senddata = tagged_senddata;
	tagged->injectdata = tagged_injectdata;
	rma->read = rma_read;
	rma->readv = rma_readv;
	rma->readmsg = rma_readmsg;
	rma->write = rma_write;
	rma->writev = rma_writev;
	rma->writemsg = rma_writemsg;
	rma->inject = rma_inject;
	rma->writedata = rma_writedata;
	rma->injectdata = rma_injectdata;
}
