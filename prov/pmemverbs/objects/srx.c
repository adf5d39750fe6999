/* SPDX-License-Identifier: BSD-2-Clause */
/* srx.c -- shared receive contexts: the core's calls */
#include "objects/srx.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "memory/guard.h"
#include "objects/unwrap.h"

static struct pmv_srx *to_srx(struct fid *fid)
{
	return pmv_container_of(fid, struct pmv_srx, srx_fid.fid);
}

/* As in msg.c, under guard. */

static ssize_t srx_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	const struct pmv_wr wr = {
		.kind = PMV_WR_RECV,
		.context = msg->context,
		.flags = flags,
		.msg = (struct fi_msg *) msg, /* has the context */
	};
	ssize_t ret;

	pmv_guard_enter();
	ret = pmv_engine_post_one(&to_srx(&fid->fid)->engine, &wr);
	pmv_guard_leave();
	return ret;
}

static ssize_t srx_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, void *context)
{
	const struct fi_msg msg = {iov, desc, count, src_addr, context, 0};

	return srx_recvmsg(fid, &msg, 0);
}

static ssize_t srx_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			void *context)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = len};

	return srx_recvv(fid, &iov, &desc, 1, src_addr, context);
}

static struct fi_ops_msg srx_msg_ops = {
	.size = offsetof(struct fi_ops_msg, send),
	.recv = srx_recv,
	.recvv = srx_recvv,
	.recvmsg = srx_recvmsg,
};

static ssize_t srx_cancel(struct fid *fid, void *context)
{
	return fi_cancel(&to_srx(fid)->engine.fid->fid, context);
}

static int srx_getopt(struct fid *fid, int level, int optname, void *optval, size_t *optlen)
{
	return fi_getopt(&to_srx(fid)->engine.fid->fid, level, optname, optval, optlen);
}

static int srx_setopt(struct fid *fid, int level, int optname, const void *optval, size_t optlen)
{
	return fi_setopt(&to_srx(fid)->engine.fid->fid, level, optname, optval, optlen);
}

static struct fi_ops_ep srx_ops = {
	.size = offsetof(struct fi_ops_ep, tx_ctx),
	.cancel = srx_cancel,
	.getopt = srx_getopt,
	.setopt = srx_setopt,
};

static int srx_close(struct fid *fid)
{
	struct pmv_srx *srx = to_srx(fid);
	int ret = fi_close(&srx->engine.fid->fid);

	if (ret)
		return ret;
	atomic_fetch_sub(&srx->domain->users, 1);
	free(srx);
	return 0;
}

static int srx_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct fid *core_fid = pmv_unwrap_fid(bfid);

	return core_fid ? fi_ep_bind(to_srx(fid)->engine.fid, core_fid, flags) : -FI_EINVAL;
}

static int srx_control(struct fid *fid, int command, void *arg)
{
	return fi_control(&to_srx(fid)->engine.fid->fid, command, arg);
}

struct fi_ops pmv_srx_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = srx_close,
	.bind = srx_bind,
	.control = srx_control,
};

int pmv_srx_open(struct fid_domain *domain_fid, struct fi_rx_attr *attr, struct fid_ep **srx_fid,
		 void *context)
{
	struct pmv_srx *srx = calloc(1, sizeof(*srx));
	int ret;

	if (!srx)
		return -FI_ENOMEM;
	srx->domain = pmv_to_domain(domain_fid);
	srx->engine.engine = &srx->domain->engine;
	srx->engine.ops = srx->domain->engine.core->ops;
	ret = fi_srx_context(srx->domain->engine.domain_fid, attr, &srx->engine.fid, srx);
	if (ret) {
		free(srx);
		return ret;
	}
	srx->srx_fid = (struct fid_ep){
		.fid = {.fclass = FI_CLASS_SRX_CTX, .context = context, .ops = &pmv_srx_fi_ops},
		.ops = &srx_ops,
		.msg = &srx_msg_ops,
	};
	atomic_fetch_add(&srx->domain->users, 1);
	*srx_fid = &srx->srx_fid;
	return 0;
}
