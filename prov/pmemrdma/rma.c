/* SPDX-License-Identifier: BSD-2-Clause */
/* rma.c -- reads and writes of a peer's memory */
#include "post.h"

static ssize_t post_read(struct pmr_ep *ep, const struct fi_msg_rma *msg, uint64_t flags,
			 bool wanted)
{
	struct pmr_request request = {
		.context = msg->context,
		.flags = FI_RMA | FI_READ,
		.wanted = wanted,
	};
	int ret = pmr_fill(ep, &request, IBV_WR_RDMA_READ, msg->msg_iov, msg->desc, msg->iov_count,
			   flags);

	if (ret)
		return ret;
	if (msg->rma_iov_count != 1)
		return -FI_EINVAL;
	pmr_fill_place(&request, msg->rma_iov->addr, msg->rma_iov->key);
	return pmr_post_one(ep, &request);
}

static ssize_t post_write(struct pmr_ep *ep, const struct fi_msg_rma *msg, uint64_t flags,
			  bool wanted)
{
	struct pmr_request request = {
		.context = msg->context,
		.flags = FI_RMA | FI_WRITE,
		.wanted = wanted,
	};
	bool immediate = flags & FI_REMOTE_CQ_DATA;
	int ret = pmr_fill(ep, &request, immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
			   msg->msg_iov, msg->desc, msg->iov_count, flags);

	if (ret)
		return ret;
	if (msg->rma_iov_count != 1)
		return -FI_EINVAL;
	if (immediate)
		request.wr.imm_data = pmr_immediate(msg->data);
	pmr_fill_place(&request, msg->rma_iov->addr, msg->rma_iov->key);
	return pmr_post_write(ep, &request, flags);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);

	return post_read(ep, msg, flags, ep->always || (flags & FI_COMPLETION));
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	const struct fi_rma_iov from = {.addr = addr, .key = key};
	const struct fi_msg_rma msg = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = count,
		.addr = src,
		.rma_iov = &from,
		.rma_iov_count = 1,
		.context = context,
	};

	return post_read(ep, &msg, ep->plain_flags, ep->plain_wanted);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = len};

	return rma_readv(fid, &iov, &desc, 1, src, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);

	return post_write(ep, msg, flags, ep->always || (flags & FI_COMPLETION));
}

/* write_to -- the message, to one place */
static ssize_t write_to(struct pmr_ep *ep, struct fi_msg_rma msg, uint64_t addr, uint64_t key,
			uint64_t flags, bool wanted)
{
	const struct fi_rma_iov to = {.addr = addr, .key = key};

	msg.rma_iov = &to;
	msg.rma_iov_count = 1;
	return post_write(ep, &msg, flags, wanted);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	const struct fi_msg_rma msg = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = count,
		.addr = dest,
		.context = context,
	};

	return write_to(ep, msg, addr, key, ep->plain_flags, ep->plain_wanted);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};

	return rma_writev(fid, &iov, &desc, 1, dest, addr, key, context);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			     void *context)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = dest,
		.context = context,
		.data = data,
	};

	return write_to(ep, msg, addr, key, ep->plain_flags | FI_REMOTE_CQ_DATA, ep->plain_wanted);
}

static ssize_t inject(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, uint64_t addr,
		      uint64_t key, uint64_t flags)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	const struct fi_msg_rma msg = {.msg_iov = &iov, .iov_count = 1, .data = data};

	return write_to(pmr_to_ep(&fid->fid), msg, addr, key, flags | FI_INJECT, false);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			  uint64_t addr, uint64_t key)
{
	(void) dest;
	return inject(fid, buf, len, 0, addr, key, 0);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest, uint64_t addr, uint64_t key)
{
	(void) dest;
	return inject(fid, buf, len, data, addr, key, FI_REMOTE_CQ_DATA);
}

struct fi_ops_rma pmr_rma_ops = {
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
