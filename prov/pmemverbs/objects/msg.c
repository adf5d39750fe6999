/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * msg.c -- messages: the core's, but for commits, fences, counters and stalled commits
 *
 * Where the peer may be asked to commit messages, those that are sent are counted;
 * where a peer may ask for it here, the buffers of receives are kept: receives.h.
 */
#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "commit/commit.h"
#include "memory/guard.h"
#include "base/log.h"
#include "base/setting.h"

/* An injected message has no completion that could tell of durability: it never commits. */
#define INJECT_SLOW (PMV_SLOW_CLOSED | PMV_SLOW_COUNT_TX | PMV_SLOW_FENCE_NEXT)
#define SEND_SLOW (INJECT_SLOW | PMV_SLOW_COMMIT)

/* Receiving, under guard: a core may copy what has waited for a receive, and all behind it */

static ssize_t recv_carefully(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	const uint64_t what = FI_MSG | FI_RECV;
	struct fi_msg core_msg = *msg;
	struct pmv_post post;
	ssize_t ret = pmv_post_begin(ep, &post, what, msg->context, flags, false);

	if (ret)
		return ret;
	core_msg.context = post.context;
	return pmv_post_end(ep, &post, fi_recvmsg(ep->engine.fid, &core_msg, post.flags));
}

/*
 * keep_begin, keep_end -- around posting a receive: its number is the core's.  The
 * peer may know, and rely on it, what receives are in.
 */
static ssize_t keep_begin(struct pmv_ep *ep, const struct iovec *iov, size_t count, bool *kept)
{
	*kept = atomic_load_explicit(&ep->receives.on, memory_order_relaxed);
	if (!*kept)
		return 0;
	/* From now on a peer may commit something, and be it to volatile memory. */
	if (!atomic_exchange(&ep->wants_agent, true)) {
		int ret = pmv_agent_want(&ep->domain->agent);

		if (ret) {
			atomic_store(&ep->wants_agent, false);
			return ret;
		}
	}
	pthread_mutex_lock(&ep->receives.lock);
	if (!ep->receives.one_kind ||
	    pmv_receive_tracker_fit(&ep->receives, &ep->domain->agent.regions, iov, count))
		return 0;
	pthread_mutex_unlock(&ep->receives.lock);
	PMV_WARN(EP_DATA,
		 "receive refused: not all of its buffer is registered with FI_RMA_PMEM and is "
		 "memory like that of FI_OPT_PMEMVERBS_RECV_MR (%s)\n",
		 pmv_persist_name(ep->receives.kind.persist));
	return -FI_EINVAL;
}

static ssize_t keep_end(struct pmv_ep *ep, bool kept, const struct iovec *iov, size_t count,
			ssize_t ret)
{
	if (!kept)
		return ret;
	/* Nobody asks for them then. */
	if (pmv_setting.agent == PMV_AGENT_OFF)
		count = 0;
	if (!ret)
		pmv_receive_tracker_add(&ep->receives, &ep->domain->agent.regions, iov, count);
	pthread_mutex_unlock(&ep->receives.lock);
	return ret;
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct fi_msg msg = {&iov, &desc, 1, src_addr, context, 0};
	bool kept;
	ssize_t ret = keep_begin(ep, &iov, 1, &kept);

	if (ret)
		return ret;
	pmv_guard_enter();
	if (pmv_ep_direct(ep, PMV_SLOW_COUNT_RX))
		ret = fi_recv(ep->engine.fid, buf, len, desc, src_addr, context);
	else
		ret = recv_carefully(ep, &msg, ep->rx_op_flags);
	pmv_guard_leave();
	return keep_end(ep, kept, &iov, 1, ret);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct fi_msg msg = {iov, desc, count, src_addr, context, 0};
	bool kept;
	ssize_t ret = keep_begin(ep, iov, count, &kept);

	if (ret)
		return ret;
	pmv_guard_enter();
	if (pmv_ep_direct(ep, PMV_SLOW_COUNT_RX))
		ret = fi_recvv(ep->engine.fid, iov, desc, count, src_addr, context);
	else
		ret = recv_carefully(ep, &msg, ep->rx_op_flags);
	pmv_guard_leave();
	return keep_end(ep, kept, iov, count, ret);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	bool kept;
	ssize_t ret = keep_begin(ep, msg->msg_iov, msg->iov_count, &kept);

	if (ret)
		return ret;
	pmv_guard_enter();
	if (pmv_ep_direct(ep, PMV_SLOW_COUNT_RX))
		ret = fi_recvmsg(ep->engine.fid, msg, flags);
	else
		ret = recv_carefully(ep, msg, flags);
	pmv_guard_leave();
	return keep_end(ep, kept, msg->msg_iov, msg->iov_count, ret);
}

/* Sending */

/* may_send -- the RDM layer sends atomics as messages, by fi_send and fi_inject */
static inline ssize_t may_send(struct pmv_ep *ep)
{
	return ep->domain->hooks ? ep->domain->hooks->may_send(ep->peer) : 0;
}

static ssize_t post_send(struct pmv_ep *ep, const void *op, void *context, uint64_t flags)
{
	struct fi_msg msg = *(const struct fi_msg *) op;

	msg.context = context;
	return fi_sendmsg(ep->engine.fid, &msg, flags);
}

static void *copy_send(const void *op, bool data_too)
{
	struct fi_msg msg = *(const struct fi_msg *) op;
	struct fi_msg *copy =
		pmv_copy_buffers(sizeof(*copy), &msg.msg_iov, &msg.desc, msg.iov_count, data_too);

	if (copy)
		*copy = msg;
	return copy;
}

static ssize_t commit_send(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return pmv_commit(ep, &(struct pmv_commit){
				      .what = FI_MSG | FI_SEND,
				      .context = msg->context,
				      .flags = flags,
				      .post = post_send,
				      .op = msg,
				      .copy = copy_send,
			      });
}

static ssize_t send_carefully(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags,
			      bool quiet)
{
	const uint64_t what = FI_MSG | FI_SEND;
	struct fi_msg core_msg = *msg;
	struct pmv_post post;
	bool counted;
	ssize_t ret;

	if (flags & FI_IMMED) {
		PMV_WARN(EP_DATA, "FI_IMMED is of writes: a message's completion at the target "
				  "comes with the message\n");
		return -FI_EINVAL;
	}
	if (flags & FI_COMMIT)
		return commit_send(ep, msg, flags);
	ret = pmv_post_begin(ep, &post, what, msg->context, flags, quiet);
	if (ret)
		return ret;
	core_msg.context = post.context;
	counted = pmv_count_begin(ep, PMV_SLOW_SENDS);
	ret = fi_sendmsg(ep->engine.fid, &core_msg, post.flags);
	return pmv_post_end(ep, &post, pmv_count_end(ep, counted, ret));
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			fi_addr_t dest_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_msg msg = {&iov, desc ? &desc : NULL, 1, dest_addr, context, 0};
	bool counted;
	ssize_t ret;

	ret = may_send(ep);
	if (ret)
		return ret;
	if (!pmv_ep_direct(ep, SEND_SLOW))
		return send_carefully(ep, &msg, ep->tx_op_flags, false);
	counted = pmv_count_begin(ep, PMV_SLOW_SENDS);
	ret = fi_send(ep->engine.fid, buf, len, desc, dest_addr, context);
	return pmv_count_end(ep, counted, ret);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct fi_msg msg = {iov, desc, count, dest_addr, context, 0};
	bool counted;
	ssize_t ret;

	if (!pmv_ep_direct(ep, SEND_SLOW))
		return send_carefully(ep, &msg, ep->tx_op_flags, false);
	counted = pmv_count_begin(ep, PMV_SLOW_SENDS);
	ret = fi_sendv(ep->engine.fid, iov, desc, count, dest_addr, context);
	return pmv_count_end(ep, counted, ret);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	bool counted;
	ssize_t ret;

	if ((flags & (FI_FENCE | FI_COMMIT | FI_IMMED)) || !pmv_ep_direct(ep, INJECT_SLOW))
		return send_carefully(ep, msg, flags, false);
	counted = pmv_count_begin(ep, PMV_SLOW_SENDS);
	ret = fi_sendmsg(ep->engine.fid, msg, flags);
	return pmv_count_end(ep, counted, ret);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_msg msg = {&iov, NULL, 1, dest_addr, NULL, 0};
	bool counted;
	ssize_t ret;

	ret = may_send(ep);
	if (ret)
		return ret;
	if (!pmv_ep_direct(ep, INJECT_SLOW))
		return send_carefully(ep, &msg, FI_INJECT, true);
	counted = pmv_count_begin(ep, PMV_SLOW_SENDS);
	ret = fi_inject(ep->engine.fid, buf, len, dest_addr);
	return pmv_count_end(ep, counted, ret);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_msg msg = {&iov, desc ? &desc : NULL, 1, dest_addr, context, data};
	bool counted;
	ssize_t ret;

	if (!pmv_ep_direct(ep, SEND_SLOW))
		return send_carefully(ep, &msg, ep->tx_op_flags | FI_REMOTE_CQ_DATA, false);
	counted = pmv_count_begin(ep, PMV_SLOW_SENDS);
	ret = fi_senddata(ep->engine.fid, buf, len, desc, data, dest_addr, context);
	return pmv_count_end(ep, counted, ret);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_msg msg = {&iov, NULL, 1, dest_addr, NULL, data};
	bool counted;
	ssize_t ret;

	if (!pmv_ep_direct(ep, INJECT_SLOW))
		return send_carefully(ep, &msg, FI_INJECT | FI_REMOTE_CQ_DATA, true);
	counted = pmv_count_begin(ep, PMV_SLOW_SENDS);
	ret = fi_injectdata(ep->engine.fid, buf, len, data, dest_addr);
	return pmv_count_end(ep, counted, ret);
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
