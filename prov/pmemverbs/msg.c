/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * msg.c -- messages: the core's, but for fences, counters and stalled commits
 *
 * A message has no persistence yet: an explicit FI_COMMIT_COMPLETE is refused
 * rather than ignored.  As a default in op_flags it concerns only operations
 * that target persistent memory regions (fi_cq(3)), so it changes nothing here.
 */
#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "commit.h"
#include "prov.h"

#define TX_CARE (PMV_CARE_CLOSED | PMV_CARE_COUNT_TX | PMV_CARE_FENCE_NEXT)

static uint64_t tx_flags(const struct pmv_ep *ep)
{
	return ep->tx_op_flags & ~FI_COMMIT_COMPLETE;
}

static ssize_t send_carefully(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags,
			      bool quiet)
{
	const uint64_t what = FI_MSG | FI_SEND;
	struct fi_msg core_msg = *msg;
	struct pmv_post post;
	ssize_t ret = pmv_post_begin(ep, &post, what, msg->context, flags, quiet);

	if (ret)
		return ret;
	core_msg.context = post.context;
	return pmv_post_end(ep, &post, fi_sendmsg(ep->core_fid, &core_msg, post.flags));
}

static ssize_t recv_carefully(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	const uint64_t what = FI_MSG | FI_RECV;
	struct fi_msg core_msg = *msg;
	struct pmv_post post;
	ssize_t ret = pmv_post_begin(ep, &post, what, msg->context, flags, false);

	if (ret)
		return ret;
	core_msg.context = post.context;
	return pmv_post_end(ep, &post, fi_recvmsg(ep->core_fid, &core_msg, post.flags));
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct fi_msg msg = {&iov, &desc, 1, src_addr, context, 0};

	if (pmv_ep_direct(ep, PMV_CARE_COUNT_RX))
		return fi_recv(ep->core_fid, buf, len, desc, src_addr, context);
	return recv_carefully(ep, &msg, ep->rx_op_flags);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct fi_msg msg = {iov, desc, count, src_addr, context, 0};

	if (pmv_ep_direct(ep, PMV_CARE_COUNT_RX))
		return fi_recvv(ep->core_fid, iov, desc, count, src_addr, context);
	return recv_carefully(ep, &msg, ep->rx_op_flags);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct pmv_ep *ep = pmv_to_ep(fid);

	if (pmv_ep_direct(ep, PMV_CARE_COUNT_RX))
		return fi_recvmsg(ep->core_fid, msg, flags);
	return recv_carefully(ep, msg, flags);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			fi_addr_t dest_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_msg msg = {&iov, desc ? &desc : NULL, 1, dest_addr, context, 0};

	if (pmv_ep_direct(ep, TX_CARE))
		return fi_send(ep->core_fid, buf, len, desc, dest_addr, context);
	return send_carefully(ep, &msg, tx_flags(ep), false);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct fi_msg msg = {iov, desc, count, dest_addr, context, 0};

	if (pmv_ep_direct(ep, TX_CARE))
		return fi_sendv(ep->core_fid, iov, desc, count, dest_addr, context);
	return send_carefully(ep, &msg, tx_flags(ep), false);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct pmv_ep *ep = pmv_to_ep(fid);

	if (flags & (FI_COMMIT | FI_IMMED)) {
		PMV_WARN(EP_DATA, "a message can't be committed; write the data instead\n");
		return flags & FI_COMMIT ? -FI_EOPNOTSUPP : -FI_EINVAL;
	}
	if (!(flags & FI_FENCE) && pmv_ep_direct(ep, TX_CARE))
		return fi_sendmsg(ep->core_fid, msg, flags);
	return send_carefully(ep, msg, flags, false);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_msg msg = {&iov, NULL, 1, dest_addr, NULL, 0};

	if (pmv_ep_direct(ep, TX_CARE))
		return fi_inject(ep->core_fid, buf, len, dest_addr);
	return send_carefully(ep, &msg, FI_INJECT, true);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_msg msg = {&iov, desc ? &desc : NULL, 1, dest_addr, context, data};

	if (pmv_ep_direct(ep, TX_CARE))
		return fi_senddata(ep->core_fid, buf, len, desc, data, dest_addr, context);
	return send_carefully(ep, &msg, tx_flags(ep) | FI_REMOTE_CQ_DATA, false);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_msg msg = {&iov, NULL, 1, dest_addr, NULL, data};

	if (pmv_ep_direct(ep, TX_CARE))
		return fi_injectdata(ep->core_fid, buf, len, data, dest_addr);
	return send_carefully(ep, &msg, FI_INJECT | FI_REMOTE_CQ_DATA, true);
}

struct fi_ops_msg pmv_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};
