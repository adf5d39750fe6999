/* SPDX-License-Identifier: BSD-2-Clause */
/* msg.c -- messages */
#include "post.h"

static ssize_t post_send(struct pmr_ep *ep, const struct fi_msg *msg, uint64_t flags, bool wanted)
{
	struct pmr_request request = {
		.context = msg->context,
		.flags = FI_SEND | FI_MSG,
		.wanted = wanted,
	};
	bool immediate = flags & FI_REMOTE_CQ_DATA;
	int ret = pmr_fill(ep, &request, immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
			   msg->msg_iov, msg->desc, msg->iov_count, flags);

	if (ret)
		return ret;
	if (immediate)
		request.wr.imm_data = pmr_immediate(msg->data);
	return pmr_post_write(ep, &request, flags);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);

	return post_send(ep, msg, flags, ep->always || (flags & FI_COMPLETION));
}

/* plain -- a call without flags, to which `more` are added */
static ssize_t plain(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
		     uint64_t data, void *context, uint64_t more)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	const struct fi_msg msg = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = count,
		.context = context,
		.data = data,
	};

	return post_send(ep, &msg, ep->plain_flags | more, ep->plain_wanted);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest, void *context)
{
	(void) dest;
	return plain(fid, iov, desc, count, 0, context, 0);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
			void *context)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};

	return msg_sendv(fid, &iov, &desc, 1, dest, context);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, void *context)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};

	(void) dest;
	return plain(fid, &iov, &desc, 1, data, context, FI_REMOTE_CQ_DATA);
}

static ssize_t inject(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
		      uint64_t flags)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	const struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .data = data};

	return post_send(pmr_to_ep(&fid->fid), &msg, flags | FI_INJECT, false);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	(void) dest;
	return inject(fid, buf, len, 0, 0);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest)
{
	(void) dest;
	return inject(fid, buf, len, data, FI_REMOTE_CQ_DATA);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	(void) flags;
	return pmr_post_receive(pmr_to_ep(&fid->fid), msg);
}

struct fi_ops_msg pmr_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = pmr_recv,
	.recvv = pmr_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};
