/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request.c -- the calls of RMA and of messages, each made one request
 *
 * As in libfabric, a message form has exactly the flags that it was called with,
 * and the shorter forms have those of the endpoint.
 */
#include "testcore/request.h"

#include "testcore/fid.h"

static uint64_t op_flags(struct fid_ep *fid)
{
	return testcore_of(fid, struct testcore_ep, fid)->op_flags;
}

/* RMA */

static ssize_t post_rma(struct fid_ep *fid, enum testcore_call call, uint64_t what,
			const struct fi_msg_rma *msg, uint64_t flags)
{
	struct testcore_request request = {
		.call = call,
		.what = FI_RMA | what,
		.flags = flags,
		.context = msg->context,
		.iov_count = msg->iov_count,
		.rma_count = msg->rma_iov_count,
		.data = msg->data,
		.dest = msg->addr,
	};

	if (msg->rma_iov_count) {
		request.addr = msg->rma_iov[0].addr;
		request.key = msg->rma_iov[0].key;
	}
	for (size_t i = 0; i < msg->rma_iov_count; i++)
		request.rma_len += msg->rma_iov[i].len;
	return testcore_ep_post(fid, &request, msg->msg_iov, msg->desc);
}

static ssize_t rma_vector(struct fid_ep *fid, enum testcore_call call, uint64_t what,
			  const struct iovec *iov, void **desc, size_t count, uint64_t addr,
			  uint64_t key, uint64_t data, void *context, uint64_t flags)
{
	struct fi_rma_iov rma_iov = {addr, 0, key};
	struct fi_msg_rma msg = {iov, desc, count, 0, &rma_iov, 1, context, data};

	for (size_t i = 0; i < count; i++)
		rma_iov.len += iov[i].iov_len;
	return post_rma(fid, call, what, &msg, flags);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			uint64_t addr, uint64_t key, void *context)
{
	(void) src;
	return rma_vector(fid, TESTCORE_READ, FI_READ, &(struct iovec){buf, len}, &desc, 1, addr,
			  key, 0, context, op_flags(fid));
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	(void) src;
	return rma_vector(fid, TESTCORE_READV, FI_READ, iov, desc, count, addr, key, 0, context,
			  op_flags(fid));
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return post_rma(fid, TESTCORE_READMSG, FI_READ, msg, flags);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	(void) dest;
	return rma_vector(fid, TESTCORE_WRITE, FI_WRITE, &(struct iovec){(void *) buf, len}, &desc,
			  1, addr, key, 0, context, op_flags(fid));
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	(void) dest;
	return rma_vector(fid, TESTCORE_WRITEV, FI_WRITE, iov, desc, count, addr, key, 0, context,
			  op_flags(fid));
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return post_rma(fid, TESTCORE_WRITEMSG, FI_WRITE, msg, flags);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			     void *context)
{
	(void) dest;
	return rma_vector(fid, TESTCORE_WRITEDATA, FI_WRITE, &(struct iovec){(void *) buf, len},
			  &desc, 1, addr, key, data, context, op_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			  uint64_t addr, uint64_t key)
{
	(void) dest;
	return rma_vector(fid, TESTCORE_INJECT_WRITE, FI_WRITE, &(struct iovec){(void *) buf, len},
			  NULL, 1, addr, key, 0, NULL, 0);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest, uint64_t addr, uint64_t key)
{
	(void) dest;
	return rma_vector(fid, TESTCORE_INJECT_WRITEDATA, FI_WRITE,
			  &(struct iovec){(void *) buf, len}, NULL, 1, addr, key, data, NULL,
			  FI_REMOTE_CQ_DATA);
}

struct fi_ops_rma testcore_rma_ops = {
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

/* Messages */

static ssize_t post_msg(struct fid_ep *fid, enum testcore_call call, uint64_t what,
			const struct fi_msg *msg, uint64_t flags)
{
	struct testcore_request request = {
		.call = call,
		.what = FI_MSG | what,
		.flags = flags,
		.context = msg->context,
		.iov_count = msg->iov_count,
		.data = msg->data,
		.dest = msg->addr,
	};

	return testcore_ep_post(fid, &request, msg->msg_iov, msg->desc);
}

static ssize_t send_vector(struct fid_ep *fid, enum testcore_call call, const struct iovec *iov,
			   void **desc, size_t count, uint64_t data, void *context, uint64_t flags)
{
	struct fi_msg msg = {iov, desc, count, 0, context, data};

	return post_msg(fid, call, FI_SEND, &msg, flags);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			void *context)
{
	struct iovec iov = {buf, len};
	struct fi_msg msg = {&iov, &desc, 1, src, context, 0};

	return post_msg(fid, TESTCORE_RECV, FI_RECV, &msg, 0);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, void *context)
{
	struct fi_msg msg = {iov, desc, count, src, context, 0};

	return post_msg(fid, TESTCORE_RECVV, FI_RECV, &msg, 0);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return post_msg(fid, TESTCORE_RECVMSG, FI_RECV, msg, flags);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
			void *context)
{
	(void) dest;
	return send_vector(fid, TESTCORE_SEND, &(struct iovec){(void *) buf, len}, &desc, 1, 0,
			   context, op_flags(fid));
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest, void *context)
{
	(void) dest;
	return send_vector(fid, TESTCORE_SENDV, iov, desc, count, 0, context, op_flags(fid));
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return post_msg(fid, TESTCORE_SENDMSG, FI_SEND, msg, flags);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	(void) dest;
	return send_vector(fid, TESTCORE_INJECT, &(struct iovec){(void *) buf, len}, NULL, 1, 0,
			   NULL, 0);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, void *context)
{
	(void) dest;
	return send_vector(fid, TESTCORE_SENDDATA, &(struct iovec){(void *) buf, len}, &desc, 1,
			   data, context, op_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest)
{
	(void) dest;
	return send_vector(fid, TESTCORE_INJECTDATA, &(struct iovec){(void *) buf, len}, NULL, 1,
			   data, NULL, FI_REMOTE_CQ_DATA);
}

struct fi_ops_msg testcore_msg_ops = {
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
