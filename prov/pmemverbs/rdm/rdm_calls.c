/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_calls.c -- the calls of FI_EP_RDM that are RxM's, under guard
 *
 * RxM moves data also in calls that post, if there is no room or no connection yet: it executes
 * peers' atomics, and copies messages.  A page of that memory may be gone (memory/guard.h).
 */
#include "rdm/rdm_ep.h"

#include "memory/guard.h"

/* GUARDED -- a function for that place of a table, which calls RxM's */
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

/* The arguments that they begin with. */
#define INTO struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src
#define FROM struct fid_ep *fid, const void *buf, size_t len, void *desc
#define VECTOR struct fid_ep *fid, const struct iovec *iov, void **desc, size_t n, fi_addr_t peer
#define INJECTED struct fid_ep *fid, const void *buf, size_t len

GUARDED(msg, recv, (INTO, void *context), fid, buf, len, desc, src, context)
GUARDED(msg, recvv, (VECTOR, void *context), fid, iov, desc, n, peer, context)
GUARDED(msg, recvmsg, (struct fid_ep * fid, const struct fi_msg *msg, uint64_t flags), fid, msg,
	flags)
GUARDED(msg, send, (FROM, fi_addr_t to, void *context), fid, buf, len, desc, to, context)
GUARDED(msg, sendv, (VECTOR, void *context), fid, iov, desc, n, peer, context)
GUARDED(msg, inject, (INJECTED, fi_addr_t to), fid, buf, len, to)
GUARDED(msg, senddata, (FROM, uint64_t data, fi_addr_t to, void *context), fid, buf, len, desc,
	data, to, context)
GUARDED(msg, injectdata, (INJECTED, uint64_t data, fi_addr_t to), fid, buf, len, data, to)

GUARDED(tagged, recv, (INTO, uint64_t tag, uint64_t ignore, void *context), fid, buf, len, desc,
	src, tag, ignore, context)
GUARDED(tagged, recvv, (VECTOR, uint64_t tag, uint64_t ignore, void *context), fid, iov, desc, n,
	peer, tag, ignore, context)
GUARDED(tagged, recvmsg, (struct fid_ep * fid, const struct fi_msg_tagged *msg, uint64_t flags),
	fid, msg, flags)
GUARDED(tagged, send, (FROM, fi_addr_t to, uint64_t tag, void *context), fid, buf, len, desc, to,
	tag, context)
GUARDED(tagged, sendv, (VECTOR, uint64_t tag, void *context), fid, iov, desc, n, peer, tag, context)
GUARDED(tagged, inject, (INJECTED, fi_addr_t to, uint64_t tag), fid, buf, len, to, tag)
GUARDED(tagged, senddata, (FROM, uint64_t data, fi_addr_t to, uint64_t tag, void *context), fid,
	buf, len, desc, data, to, tag, context)
GUARDED(tagged, injectdata, (INJECTED, uint64_t data, fi_addr_t to, uint64_t tag), fid, buf, len,
	data, to, tag)

GUARDED(rma, read, (INTO, uint64_t addr, uint64_t key, void *context), fid, buf, len, desc, src,
	addr, key, context)
GUARDED(rma, readv, (VECTOR, uint64_t addr, uint64_t key, void *context), fid, iov, desc, n, peer,
	addr, key, context)
GUARDED(rma, readmsg, (struct fid_ep * fid, const struct fi_msg_rma *msg, uint64_t flags), fid, msg,
	flags)

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
	msg->inject = msg_inject;
	msg->senddata = msg_senddata;
	msg->injectdata = msg_injectdata;
	tagged->recv = tagged_recv;
	tagged->recvv = tagged_recvv;
	tagged->recvmsg = tagged_recvmsg;
	tagged->send = tagged_send;
	tagged->sendv = tagged_sendv;
	tagged->inject = tagged_inject;
	tagged->senddata = tagged_senddata;
	tagged->injectdata = tagged_injectdata;
	rma->read = rma_read;
	rma->readv = rma_readv;
	rma->readmsg = rma_readmsg;
}
