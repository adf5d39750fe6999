/* SPDX-License-Identifier: BSD-2-Clause */
/* rma.c -- reads and writes: the calls become one, which needs no care or is submitted */
#include "objects/ep.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "base/log.h"
#include "commit/quick.h"
#include "commit/submit.h"
#include "engine/length.h"

/* An injected write has no completion that could tell of durability: op_flags do not concern it. */
#define POST_SLOW (PMV_SLOW_GONE | PMV_SLOW_CLOSED | PMV_SLOW_COUNT_TX)
#define INJECT_SLOW (POST_SLOW | PMV_SLOW_FENCE_NEXT | PMV_SLOW_ALL)
#define WRITE_SLOW (INJECT_SLOW | PMV_SLOW_COMMIT)
#define READ_SLOW (POST_SLOW | PMV_SLOW_READS)

/* Flags that the core alone can't do. */
#define OWN_FLAGS (FI_COMMIT | FI_IMMED | FI_FENCE)

static ssize_t submit(struct pmv_ep *ep, const struct fi_msg_rma *msg, uint64_t what,
		      uint64_t flags, bool no_completion)
{
	struct pmv_initiator *ini = &ep->initiator;
	struct pmv_engine *engine = &ep->domain->engine;
	struct fi_rma_iov to[PMV_MAX_RMA];
	struct fi_msg_rma core = *msg;
	struct iovec nothing;
	struct pmv_submission submission = {
		.what = what,
		.to = msg->rma_iov,
		.num_to = msg->rma_iov_count,
		.context = msg->context,
		.data = msg->data,
		.flags = flags,
		.no_completion = no_completion,
		.wr = {.kind = what & FI_READ ? PMV_WR_READ : PMV_WR_WRITE, .rma = &core},
	};

	for (size_t i = 0; i < msg->rma_iov_count; i++) {
		to[i] = msg->rma_iov[i];
		to[i].key = pmv_initiator_core_key(to[i].key);
	}
	core.rma_iov = to;
	/* verbs can't post a request without any local buffer. */
	if (!msg->iov_count && (what & FI_WRITE)) {
		nothing = (struct iovec){.iov_base = engine->scratch};
		core.msg_iov = &nothing;
		core.desc = engine->scratch_desc ? &engine->scratch_desc : NULL;
		core.iov_count = 1;
	}
	if (ini->hooks && msg->rma_iov_count && (what & FI_WRITE))
		submission.changed = ini->hooks->changed(msg->rma_iov);
	return pmv_submit(ini, &submission);
}

/* Reads */

static ssize_t read_msg(struct pmv_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct fi_rma_iov from;
	struct fi_msg_rma core;
	struct pmv_wr wr = {
		.kind = PMV_WR_READ, .context = msg->context, .flags = flags, .rma = &core};
	ssize_t ret;

	if ((flags & FI_FENCE) || msg->rma_iov_count != 1 ||
	    !pmv_initiator_is_fast(&ep->initiator, READ_SLOW))
		return submit(ep, msg, FI_RMA | FI_READ, flags, false);
	from = *msg->rma_iov;
	from.key = pmv_initiator_core_key(from.key);
	core = *msg;
	core.rma_iov = &from;
	ret = pmv_engine_post_one(&ep->engine, &wr);
	if (!ret)
		pmv_ordering_read(&ep->initiator);
	return ret;
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct fi_rma_iov from = {addr, pmv_iov_len(iov, count), key};
	struct fi_msg_rma msg = {iov, desc, count, src_addr, &from, 1, context, 0};

	return read_msg(ep, &msg, ep->tx_op_flags & ~FI_COMMIT);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			uint64_t addr, uint64_t key, void *context)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return rma_readv(fid, &iov, &desc, 1, src_addr, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmv_rma_msg copy;

	if (flags & (FI_COMMIT | FI_IMMED)) {
		PMV_WARN(EP_DATA, "a read can't be committed\n");
		return -FI_EINVAL;
	}
	msg = pmv_write_lengths(msg, &copy);
	return msg ? read_msg(pmv_to_ep(fid), msg, flags) : -FI_EINVAL;
}

/* Writes */

/* write_msg -- no_completion: it never completes (fi_inject_write) */
static ssize_t write_msg(struct pmv_ep *ep, const struct fi_msg_rma *msg, uint64_t flags,
			 bool no_completion)
{
	const struct fi_rma_iov *at = msg->rma_iov;
	struct pmv_initiator *ini = &ep->initiator;
	struct fi_rma_iov to;
	struct fi_msg_rma core;
	struct pmv_wr wr = {.kind = PMV_WR_WRITE,
			    .inject = no_completion,
			    .context = msg->context,
			    .flags = flags,
			    .rma = &core};
	bool counted = false;
	struct pmv_noted noted;
	ssize_t ret;

	if ((flags & OWN_FLAGS) || msg->rma_iov_count != 1 || !msg->iov_count ||
	    !pmv_initiator_is_fast(ini, no_completion ? INJECT_SLOW : WRITE_SLOW))
		return submit(ep, msg, FI_RMA | FI_WRITE, flags, no_completion);
	noted.notes = pmv_ordering_note_key(ini, at->key);
	if (noted.notes & PMV_NOTE_EVENT)
		return submit(ep, msg, FI_RMA | FI_WRITE, flags, no_completion);
	to = *at;
	to.key = pmv_initiator_core_key(at->key);
	core = *msg;
	core.rma_iov = &to;
	pmv_ordering_begin(ini, &noted, at);
	if (flags & FI_REMOTE_CQ_DATA)
		counted = pmv_ordering_send_begin(ini, PMV_SLOW_IMMEDIATES);
	ret = pmv_engine_post_one(&ep->engine, &wr);
	pmv_ordering_send_end(ini, counted, !ret, false);
	pmv_ordering_end(ini, &noted, at, !ret, false);
	if (!ret && ini->hooks)
		pmv_ordering_lost_write(ini, at, 1, no_completion);
	return ret;
}

/* is_quick -- can the core do it alone, and nothing is remembered of it? */
static inline bool is_quick(const struct pmv_ep *ep, uint64_t key, uint64_t flags)
{
	return !(flags & (OWN_FLAGS | FI_REMOTE_CQ_DATA)) &&
	       pmv_ordering_is_quiet(&ep->initiator, key) &&
	       pmv_initiator_is_fast(&ep->initiator, WRITE_SLOW);
}

/* write_quick -- of one buffer; keys of ours have the core's in the low half */
static inline ssize_t write_quick(const struct pmv_ep *ep, const struct iovec *iov, void **desc,
				  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context,
				  uint64_t flags)
{
	const struct fi_rma_iov to = {addr, iov->iov_len, (uint32_t) key};
	const struct fi_msg_rma msg = {iov, desc, 1, dest_addr, &to, 1, context, 0};

	return ep->engine.ops->write(&ep->engine, &msg, flags);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct fi_rma_iov to = {addr, pmv_iov_len(iov, count), key};
	struct fi_msg_rma msg = {iov, desc, count, dest_addr, &to, 1, context, 0};

	return write_msg(ep, &msg, ep->tx_op_flags, false);
}

/* write_one -- of one buffer */
static ssize_t write_one(struct pmv_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context,
			 uint64_t flags, bool no_completion)
{
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_rma_iov to = {addr, len, key};
	struct fi_msg_rma msg = {&iov, desc ? &desc : NULL, 1, dest_addr, &to, 1, context, data};

	return write_msg(ep, &msg, flags, no_completion);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	const struct iovec iov = {(void *) buf, len};

	if (is_quick(ep, key, ep->tx_op_flags))
		return write_quick(ep, &iov, desc ? &desc : NULL, dest_addr, addr, key, context,
				   ep->tx_op_flags);
	return write_one(ep, buf, len, desc, 0, dest_addr, addr, key, context, ep->tx_op_flags,
			 false);
}

__attribute__((noinline)) static ssize_t write_any(struct fid_ep *fid, const struct fi_msg_rma *msg,
						   uint64_t flags)
{
	struct pmv_rma_msg copy;

	msg = pmv_write_lengths(msg, &copy);
	return msg ? write_msg(pmv_to_ep(fid), msg, flags, false) : -FI_EINVAL;
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{

	if (msg->iov_count == 1 && msg->rma_iov_count == 1 &&
	    msg->rma_iov->len == msg->msg_iov->iov_len) {
		struct pmv_ep *ep = pmv_to_ep(fid);
		const struct fi_rma_iov *to = msg->rma_iov;

		if (is_quick(ep, to->key, flags))
			return write_quick(ep, msg->msg_iov, msg->desc, msg->addr, to->addr,
					   to->key, msg->context, flags);
		if (to->len && pmv_quick_may_commit(&ep->initiator, to->key, flags))
			return pmv_quick_commit(&ep->initiator, msg, flags);
	}
	return write_any(fid, msg, flags);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);

	return write_one(ep, buf, len, desc, data, dest_addr, addr, key, context,
			 ep->tx_op_flags | FI_REMOTE_CQ_DATA, false);
}

/* is_probe -- the write only finds out which endpoint is the peer's: hooks.h */
static bool is_probe(struct pmv_initiator *ini, uint64_t addr, size_t len, uint64_t key)
{
	const struct fi_rma_iov to = {addr, len, key};
	struct pmv_lost_writes *peer = ini->hooks ? pmv_ordering_tracker(ini, &to) : NULL;

	return peer && ini->hooks->probes(&to, peer);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr,
			  uint64_t addr, uint64_t key)
{
	struct pmv_ep *ep = pmv_to_ep(fid);

	if (is_probe(&ep->initiator, addr, len, key))
		return 0;
	return write_one(ep, buf, len, NULL, 0, dest_addr, addr, key, NULL, FI_INJECT, true);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	return write_one(pmv_to_ep(fid), buf, len, NULL, data, dest_addr, addr, key, NULL,
			 FI_INJECT | FI_REMOTE_CQ_DATA, true);
}

struct fi_ops_rma pmv_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
