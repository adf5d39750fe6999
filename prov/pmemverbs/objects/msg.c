/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * msg.c -- messages: the calls become one, which needs no care or is submitted
 *
 * Where the peer may be asked to commit messages, those that are sent are counted.  Where
 * a peer may ask for it here, the buffers of receives are kept: receive_tracker.h.
 */
#include "objects/ep.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "agent/agent.h"
#include "base/inline.h"
#include "base/log.h"
#include "base/setting.h"
#include "commit/submit.h"
#include "memory/guard.h"

PMV_ALWAYS_INLINE ssize_t submit(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t what,
				 uint64_t flags, bool no_completion)
{
	struct pmv_submission submission = {
		.what = what,
		.context = msg->context,
		.flags = flags,
		.msg = msg,
		.no_completion = no_completion,
	};

	return pmv_submit(&ep->initiator, &submission);
}

/* Receiving */

/* Under guard: a core may copy what has waited for a receive, and all behind it. */
ssize_t pmv_msg_post_recv(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	ssize_t ret;

	pmv_guard_enter();
	ret = submit(ep, msg, FI_MSG | FI_RECV, flags, false);
	pmv_guard_leave();
	return ret;
}

/* post_recv -- as soon as the peer is known */
static ssize_t post_recv(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	ssize_t ret;

	return pmv_held_add(ep, msg, flags, &ret) ? ret : pmv_msg_post_recv(ep, msg, flags);
}

static int want_agent(struct pmv_ep *ep)
{
	int ret;

	if (atomic_exchange(&ep->wants_agent, true))
		return 0;
	ret = pmv_agent_want(&ep->domain->agent);
	if (ret)
		atomic_store(&ep->wants_agent, false);
	return ret;
}

/* track_recv -- where peers may commit messages */
static ssize_t track_recv(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct pmv_receive_tracker *receives = &ep->receives;
	struct pmv_regions *regions = &ep->domain->agent.regions;
	ssize_t ret;

	/* From now on a peer may commit something, and be it to volatile memory. */
	ret = want_agent(ep);
	if (ret)
		return ret;
	/* Its number is the core's.  The peer may know, and rely on it, what receives are in. */
	pthread_mutex_lock(&receives->lock);
	if (receives->one_kind &&
	    !pmv_receive_tracker_fit(receives, regions, msg->msg_iov, msg->iov_count)) {
		pthread_mutex_unlock(&receives->lock);
		PMV_WARN(EP_DATA,
			 "receive refused: not all of its buffer is registered with FI_RMA_PMEM "
			 "and is memory like that of FI_OPT_PMEMVERBS_RECV_MR (%s)\n",
			 pmv_setting_domain_name(receives->kind.persist));
		return -FI_EINVAL;
	}
	ret = post_recv(ep, msg, flags);
	/* Without an agent nobody asks where they are. */
	if (!ret)
		pmv_receive_tracker_add(receives, regions, msg->msg_iov,
					pmv_setting.agent == PMV_AGENT_OFF ? 0 : msg->iov_count);
	pthread_mutex_unlock(&receives->lock);
	return ret;
}

/*
 * recv_msg -- tcp 2.1 takes a message that has waited for a receive, and all behind it: requests,
 * too, and the receive may have no entry that somebody wakes up for
 */
static ssize_t recv_msg(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	bool tracks = atomic_load_explicit(&ep->receives.on, memory_order_relaxed);
	ssize_t ret = tracks ? track_recv(ep, msg, flags) : post_recv(ep, msg, flags);

	pmv_agent_nudge(&ep->domain->agent);
	return ret;
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return recv_msg(pmv_to_ep(fid), msg, flags);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	const struct fi_msg msg = {iov, desc, count, src_addr, context, 0};

	return recv_msg(ep, &msg, ep->rx_op_flags);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			void *context)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = len};

	return msg_recvv(fid, &iov, &desc, 1, src_addr, context);
}

/* Sending */

/* send_msg -- no_completion: it never completes (fi_inject) */
static inline ssize_t send_msg(struct pmv_ep *ep, const struct fi_msg *msg, uint64_t flags,
			       bool no_completion)
{
	struct pmv_initiator *ini = &ep->initiator;
	/* A layer above may have to be asked. */
	ssize_t ret = ini->hooks ? ini->hooks->may_send(ini->tracker) : 0;

	return ret ? ret : submit(ep, msg, FI_MSG | FI_SEND, flags, no_completion);
}

static inline ssize_t send_one(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			       uint64_t data, fi_addr_t dest_addr, void *context, uint64_t flags,
			       bool no_completion)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	const struct fi_msg msg = {&iov, desc ? &desc : NULL, 1, dest_addr, context, data};

	return send_msg(pmv_to_ep(fid), &msg, flags, no_completion);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			fi_addr_t dest_addr, void *context)
{
	return send_one(fid, buf, len, desc, 0, dest_addr, context, pmv_to_ep(fid)->tx_op_flags,
			false);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest_addr, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	const struct fi_msg msg = {iov, desc, count, dest_addr, context, 0};

	return send_msg(ep, &msg, ep->tx_op_flags, false);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return send_msg(pmv_to_ep(fid), msg, flags, false);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr)
{
	return send_one(fid, buf, len, NULL, 0, dest_addr, NULL, FI_INJECT, true);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest_addr, void *context)
{
	return send_one(fid, buf, len, desc, data, dest_addr, context,
			pmv_to_ep(fid)->tx_op_flags | FI_REMOTE_CQ_DATA, false);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr)
{
	return send_one(fid, buf, len, NULL, data, dest_addr, NULL, FI_INJECT | FI_REMOTE_CQ_DATA,
			true);
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
