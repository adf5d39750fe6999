/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_calls.c -- calls over FI_EP_RDM that are RxM's, under guard; rdm_calls.h says why */
#include "rdm/rdm_calls.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "base/container.h"
#include "base/log.h"
#include "base/table.h"
#include "memory/guard.h"
#include "rdm/rdm_cq.h"
#include "rdm/rdm_ep.h"
#include "rdm/rdm_posting.h"

/* Endpoints */

/* refuse -- RxM drops the flags, so a message with one can't keep what it promises */
static ssize_t refuse(uint64_t flags)
{
	PMV_WARN(EP_DATA, "a message of FI_EP_RDM can't be committed; write the data instead\n");
	return flags & FI_COMMIT ? -FI_EOPNOTSUPP : -FI_EINVAL;
}

/*
 * GUARDED -- a function for that place of a table, which calls RxM's
 * GUARDED_TO -- the same, and RxM has to be connected to this peer
 * GUARDED_SENDING -- the same, and it sends those pieces
 * GUARDED_MESSAGE -- the same with these flags
 */
#define GUARDED_MESSAGE(table, name, params, to, flags, pieces, count, ...)                        \
	static ssize_t table##_##name params                                                       \
	{                                                                                          \
		struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, table);                                   \
		ssize_t ret;                                                                       \
                                                                                                   \
		if ((flags) & (FI_COMMIT | FI_IMMED))                                              \
			return refuse(flags);                                                      \
		ret = pmv_rdm_posting_reach(rdm, to);                                              \
		if (ret)                                                                           \
			return ret;                                                                \
		pmv_rdm_posting_enter(pieces, count);                                              \
		ret = rdm->rxm_##table->name(__VA_ARGS__);                                         \
		pmv_rdm_posting_leave();                                                           \
		return pmv_rdm_posting_reached(rdm, to, ret);                                      \
	}
#define GUARDED_SENDING(table, name, params, to, pieces, count, ...)                               \
	GUARDED_MESSAGE(table, name, params, to, 0, pieces, count, __VA_ARGS__)
#define GUARDED_TO(table, name, params, to, ...)                                                   \
	GUARDED_SENDING(table, name, params, to, NULL, 0, __VA_ARGS__)
#define GUARDED(table, name, params, ...)                                                          \
	static ssize_t table##_##name params                                                       \
	{                                                                                          \
		ssize_t ret;                                                                       \
                                                                                                   \
		pmv_guard_enter();                                                                 \
		ret = PMV_RDM_OF(fid, table)->rxm_##table->name(__VA_ARGS__);                      \
		pmv_guard_leave();                                                                 \
		return ret;                                                                        \
	}

/* The flags of a call that has none. */
#define OP_FLAGS(table) (PMV_RDM_OF(fid, table)->tx_op_flags & FI_COMMIT)

/* The arguments that they begin with. */
#define INTO struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src
#define FROM struct fid_ep *fid, const void *buf, size_t len, void *desc
#define VECTOR struct fid_ep *fid, const struct iovec *iov, void **desc, size_t n, fi_addr_t peer
#define INJECTED struct fid_ep *fid, const void *buf, size_t len

/* What of them is sent, if it is one piece. */
#define PIECE (&(const struct iovec){(void *) buf, len})

GUARDED(msg, recv, (INTO, void *context), fid, buf, len, desc, src, context)
GUARDED(msg, recvv, (VECTOR, void *context), fid, iov, desc, n, peer, context)
GUARDED(msg, recvmsg, (struct fid_ep * fid, const struct fi_msg *msg, uint64_t flags), fid, msg,
	flags)
GUARDED_MESSAGE(msg, send, (FROM, fi_addr_t to, void *context), to, OP_FLAGS(msg), PIECE, 1, fid,
		buf, len, desc, to, context)
GUARDED_MESSAGE(msg, sendv, (VECTOR, void *context), peer, OP_FLAGS(msg), iov, n, fid, iov, desc, n,
		peer, context)
GUARDED_MESSAGE(msg, sendmsg, (struct fid_ep * fid, const struct fi_msg *msg, uint64_t flags),
		msg->addr, flags, msg->msg_iov, msg->iov_count, fid, msg, flags)
GUARDED_SENDING(msg, inject, (INJECTED, fi_addr_t to), to, PIECE, 1, fid, buf, len, to)
GUARDED_MESSAGE(msg, senddata, (FROM, uint64_t data, fi_addr_t to, void *context), to,
		OP_FLAGS(msg), PIECE, 1, fid, buf, len, desc, data, to, context)
GUARDED_SENDING(msg, injectdata, (INJECTED, uint64_t data, fi_addr_t to), to, PIECE, 1, fid, buf,
		len, data, to)

GUARDED(tagged, recv, (INTO, uint64_t tag, uint64_t ignore, void *context), fid, buf, len, desc,
	src, tag, ignore, context)
GUARDED(tagged, recvv, (VECTOR, uint64_t tag, uint64_t ignore, void *context), fid, iov, desc, n,
	peer, tag, ignore, context)
GUARDED(tagged, recvmsg, (struct fid_ep * fid, const struct fi_msg_tagged *msg, uint64_t flags),
	fid, msg, flags)
GUARDED_MESSAGE(tagged, send, (FROM, fi_addr_t to, uint64_t tag, void *context), to,
		OP_FLAGS(tagged), PIECE, 1, fid, buf, len, desc, to, tag, context)
GUARDED_MESSAGE(tagged, sendv, (VECTOR, uint64_t tag, void *context), peer, OP_FLAGS(tagged), iov,
		n, fid, iov, desc, n, peer, tag, context)
GUARDED_MESSAGE(tagged, sendmsg,
		(struct fid_ep * fid, const struct fi_msg_tagged *msg, uint64_t flags), msg->addr,
		flags, msg->msg_iov, msg->iov_count, fid, msg, flags)
GUARDED_SENDING(tagged, inject, (INJECTED, fi_addr_t to, uint64_t tag), to, PIECE, 1, fid, buf, len,
		to, tag)
GUARDED_MESSAGE(tagged, senddata, (FROM, uint64_t data, fi_addr_t to, uint64_t tag, void *context),
		to, OP_FLAGS(tagged), PIECE, 1, fid, buf, len, desc, data, to, tag, context)
GUARDED_SENDING(tagged, injectdata, (INJECTED, uint64_t data, fi_addr_t to, uint64_t tag), to,
		PIECE, 1, fid, buf, len, data, to, tag)

GUARDED_TO(rma, read, (INTO, uint64_t addr, uint64_t key, void *context), src, fid, buf, len, desc,
	   src, addr, key, context)
GUARDED_TO(rma, readv, (VECTOR, uint64_t addr, uint64_t key, void *context), peer, fid, iov, desc,
	   n, peer, addr, key, context)
GUARDED_TO(rma, readmsg, (struct fid_ep * fid, const struct fi_msg_rma *msg, uint64_t flags),
	   msg->addr, fid, msg, flags)

void pmv_rdm_calls_guard(struct pmv_rdm_ep *rdm)
{
	struct fi_ops_msg *msg = &rdm->msg.fn;
	struct fi_ops_tagged *tagged = &rdm->tagged.fn;
	struct fi_ops_rma *rma = &rdm->rma.fn;

	msg->recv = msg_recv;
	msg->recvv = msg_recvv;
	msg->recvmsg = msg_recvmsg;
	msg->send = msg_send;
	msg->sendv = msg_sendv;
	msg->sendmsg = msg_sendmsg;
	msg->inject = msg_inject;
	msg->senddata = msg_senddata;
	msg->injectdata = msg_injectdata;
	tagged->recv = tagged_recv;
	tagged->recvv = tagged_recvv;
	tagged->recvmsg = tagged_recvmsg;
	tagged->send = tagged_send;
	tagged->sendv = tagged_sendv;
	tagged->sendmsg = tagged_sendmsg;
	tagged->inject = tagged_inject;
	tagged->senddata = tagged_senddata;
	tagged->injectdata = tagged_injectdata;
	rma->read = rma_read;
	rma->readv = rma_readv;
	rma->readmsg = rma_readmsg;
}

/* Counters */

struct rdm_cntr {
	PMV_TABLE(fi_ops) fid_ops;
	PMV_TABLE(fi_ops_cntr) ops;
	struct fi_ops *rxm_fid_ops;
	struct fi_ops_cntr *rxm_ops;
};

#define GUARDED_CNTR(type, name, params, ...)                                                      \
	static type cntr_##name params                                                             \
	{                                                                                          \
		type ret;                                                                          \
                                                                                                   \
		pmv_guard_enter();                                                                 \
		ret = pmv_container_of(cntr->ops, struct rdm_cntr, ops)                            \
			      ->rxm_ops->name(__VA_ARGS__);                                        \
		pmv_guard_leave();                                                                 \
		return ret;                                                                        \
	}

GUARDED_CNTR(uint64_t, read, (struct fid_cntr * cntr), cntr)
GUARDED_CNTR(uint64_t, readerr, (struct fid_cntr * cntr), cntr)
GUARDED_CNTR(int, wait, (struct fid_cntr * cntr, uint64_t threshold, int timeout), cntr, threshold,
	     timeout)

static int cntr_close(struct fid *fid)
{
	struct rdm_cntr *cntr = pmv_container_of(fid->ops, struct rdm_cntr, fid_ops);
	int ret = cntr->rxm_fid_ops->close(fid);

	if (!ret)
		free(cntr);
	return ret;
}

int pmv_rdm_calls_guard_cntr(struct fid_cntr *fid)
{
	struct rdm_cntr *cntr = calloc(1, sizeof(*cntr));

	if (!cntr)
		return -FI_ENOMEM;
	PMV_TABLE_REPLACE(fid->fid.ops, cntr->rxm_fid_ops, cntr->fid_ops);
	cntr->fid_ops.fn.close = cntr_close;
	PMV_TABLE_REPLACE(fid->ops, cntr->rxm_ops, cntr->ops);
	cntr->ops.fn.read = cntr_read;
	cntr->ops.fn.readerr = cntr_readerr;
	cntr->ops.fn.wait = cntr_wait;
	return 0;
}

bool pmv_rdm_calls_is_foreign(const struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return !pmv_rdm_cq_is(fid);
	case FI_CLASS_CNTR:
		return pmv_container_of(fid, struct fid_cntr, fid)->ops->read != cntr_read;
	default:
		return false;
	}
}
