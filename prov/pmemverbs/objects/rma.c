/* SPDX-License-Identifier: BSD-2-Clause */
/* rma.c -- reads and writes: the calls become one, which needs no care or is submitted */
#include "objects/ep.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "base/inline.h"
#include "base/log.h"
#include "commit/ordering.h"
#include "commit/submit.h"
#include "engine/length.h"

/* Flags that the core alone can't do. */
#define OWN_FLAGS (FI_COMMIT | FI_IMMED | FI_FENCE | FI_DELIVERY_COMPLETE)

PMV_ALWAYS_INLINE ssize_t submit(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t what,
				 uint64_t flags, bool no_completion)
{
	struct pmv_initiator *ini = &pmv_to_ep(fid)->initiator;
	struct pmv_submission submission = {
		.what = FI_RMA | what,
		.to = msg->rma_iov,
		.num_to = msg->rma_iov_count,
		.context = msg->context,
		.data = msg->data,
		.flags = flags,
		.rma = msg,
		.no_completion = no_completion,
	};

	return pmv_submit(ini, &submission);
}

/* Reads */

/* submit_read -- whether keys fit is known of writes only */
static ssize_t submit_read(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	const struct pmv_initiator *ini = &pmv_to_ep(fid)->initiator;
	ssize_t ret = pmv_ordering_check_keys(ini, msg->rma_iov, msg->rma_iov_count);

	/* When it has completed the data are here. */
	return ret ? ret : submit(fid, msg, FI_READ, flags & ~FI_DELIVERY_COMPLETE, false);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	struct fi_rma_iov from = {addr, pmv_iov_len(iov, count), key};
	struct fi_msg_rma msg = {iov, desc, count, src_addr, &from, 1, context, 0};

	return submit_read(fid, &msg, pmv_to_ep(fid)->tx_op_flags & ~FI_COMMIT);
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
	return msg ? submit_read(fid, msg, flags) : -FI_EINVAL;
}

/* Writes */

#define QUIET_SLOW                                                                                 \
	(PMV_SLOW_NOWHERE | PMV_SLOW_CLOSED | PMV_SLOW_COUNT_TX | PMV_SLOW_FENCE_NEXT |            \
	 PMV_SLOW_ALL | PMV_SLOW_SHARES)

/* is_quiet -- can the core do it alone, and nothing is remembered of it? */
static inline bool is_quiet(const struct pmv_ep *ep, uint64_t key, uint64_t flags)
{
	return !(flags & (OWN_FLAGS | FI_REMOTE_CQ_DATA)) &&
	       pmv_ordering_is_quiet(&ep->initiator, key) &&
	       pmv_initiator_is_fast(&ep->initiator, QUIET_SLOW);
}

/* write_quiet -- of one buffer; keys of ours have the core's in the low half */
static inline ssize_t write_quiet(const struct pmv_ep *ep, const struct iovec *iov, void **desc,
				  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context,
				  uint64_t flags)
{
	const struct fi_rma_iov to = {addr, iov->iov_len, (uint32_t) key};
	const struct fi_msg_rma msg = {iov, desc, 1, dest_addr, &to, 1, context, 0};

	ssize_t ret = ep->engine.ops->write(&ep->engine, &msg, flags | ep->initiator.tx_always);

	return ret ? pmv_initiator_lack_room(&ep->initiator, ret) : 0;
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct fi_rma_iov to = {addr, pmv_iov_len(iov, count), key};
	struct fi_msg_rma msg = {iov, desc, count, dest_addr, &to, 1, context, 0};

	return submit(fid, &msg, FI_WRITE, pmv_to_ep(fid)->tx_op_flags, false);
}

/* write_one -- of one buffer */
static ssize_t write_one(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context,
			 uint64_t flags, bool no_completion)
{
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_rma_iov to = {addr, len, key};
	struct fi_msg_rma msg = {&iov, desc ? &desc : NULL, 1, dest_addr, &to, 1, context, data};

	return submit(fid, &msg, FI_WRITE, flags, no_completion);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	const struct iovec iov = {(void *) buf, len};
	void **descs = desc ? &desc : NULL;

	if (is_quiet(ep, key, ep->tx_op_flags))
		return write_quiet(ep, &iov, descs, dest_addr, addr, key, context, ep->tx_op_flags);
	return rma_writev(fid, &iov, descs, 1, dest_addr, addr, key, context);
}

/* is_probe -- the write only finds out which endpoint is the peer's: hooks.h */
static bool is_probe(struct pmv_initiator *ini, const struct fi_rma_iov *to)
{
	struct pmv_lost_writes *peer =
		ini->hooks && !to->len ? pmv_ordering_tracker(ini, to) : NULL;

	return peer && ini->hooks->probes(to, peer);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct pmv_rma_msg copy;

	if (msg->iov_count == 1 && msg->rma_iov_count == 1 &&
	    msg->rma_iov->len == msg->msg_iov->iov_len) {
		const struct fi_rma_iov *to = msg->rma_iov;

		if (!to->len && is_probe(&ep->initiator, to)) {
			ssize_t ret = pmv_ordering_check_keys(&ep->initiator, to, 1);

			return ret ? ret : PMV_HOOKS_PROBED;
		}
		if (is_quiet(ep, to->key, flags))
			return write_quiet(ep, msg->msg_iov, msg->desc, msg->addr, to->addr,
					   to->key, msg->context, flags);
	} else {
		msg = pmv_write_lengths(msg, &copy);
		if (!msg)
			return -FI_EINVAL;
	}
	return submit(fid, msg, FI_WRITE, flags, false);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	return write_one(fid, buf, len, desc, data, dest_addr, addr, key, context,
			 pmv_to_ep(fid)->tx_op_flags | FI_REMOTE_CQ_DATA, false);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr,
			  uint64_t addr, uint64_t key)
{
	struct pmv_initiator *ini = &pmv_to_ep(fid)->initiator;
	const struct fi_rma_iov to = {addr, len, key};

	if (is_probe(ini, &to))
		return pmv_ordering_check_keys(ini, &to, 1);
	return write_one(fid, buf, len, NULL, 0, dest_addr, addr, key, NULL, FI_INJECT, true);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	return write_one(fid, buf, len, NULL, data, dest_addr, addr, key, NULL,
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
