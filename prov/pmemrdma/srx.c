/* SPDX-License-Identifier: BSD-2-Clause */
/* srx.c -- receives that endpoints share */
#include "post.h"

#include <stdlib.h>

#include "provider.h"

static struct pmr_srx *to_srx(struct fid *fid)
{
	return pmv_container_of(fid, struct pmr_srx, ep_fid.fid);
}

static int srx_close(struct fid *fid)
{
	struct pmr_srx *srx = to_srx(fid);
	int ret;

	if (atomic_load(&srx->users))
		return -FI_EBUSY;
	ret = pmr_device_freed(srx->domain->device, ibv_destroy_srq(srx->srq));
	if (ret)
		return ret;
	pmr_queue_put(srx->receives);
	atomic_fetch_sub(&srx->domain->users, 1);
	free(srx);
	return 0;
}

static struct fi_ops srx_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = srx_close,
	.bind = pmr_no_bind,
	.control = pmr_no_control,
	.ops_open = pmr_no_ops_open,
};

static ssize_t srx_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	(void) flags;
	return pmr_post_shared(to_srx(&fid->fid), msg);
}

static ssize_t no_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
		       void *context)
{
	(void) ep;
	(void) buf;
	(void) len;
	(void) desc;
	(void) dest;
	(void) context;
	return -FI_ENOSYS;
}

static ssize_t no_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			fi_addr_t dest, void *context)
{
	(void) ep;
	(void) iov;
	(void) desc;
	(void) count;
	(void) dest;
	(void) context;
	return -FI_ENOSYS;
}

static ssize_t no_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	(void) ep;
	(void) msg;
	(void) flags;
	return -FI_ENOSYS;
}

static ssize_t no_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest)
{
	(void) ep;
	(void) buf;
	(void) len;
	(void) dest;
	return -FI_ENOSYS;
}

static ssize_t no_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			   uint64_t data, fi_addr_t dest, void *context)
{
	(void) ep;
	(void) buf;
	(void) len;
	(void) desc;
	(void) data;
	(void) dest;
	(void) context;
	return -FI_ENOSYS;
}

static ssize_t no_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			     fi_addr_t dest)
{
	(void) ep;
	(void) buf;
	(void) len;
	(void) data;
	(void) dest;
	return -FI_ENOSYS;
}

static struct fi_ops_msg srx_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = pmr_recv,
	.recvv = pmr_recvv,
	.recvmsg = srx_recvmsg,
	.send = no_send,
	.sendv = no_sendv,
	.sendmsg = no_sendmsg,
	.inject = no_inject,
	.senddata = no_senddata,
	.injectdata = no_injectdata,
};

static struct fi_ops_ep srx_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = pmr_no_cancel,
	.getopt = pmr_no_getopt,
	.setopt = pmr_no_setopt,
	.tx_ctx = pmr_no_tx_ctx,
	.rx_ctx = pmr_no_rx_ctx,
	.rx_size_left = pmr_no_size_left,
	.tx_size_left = pmr_no_size_left,
};

static int make_srq(struct pmr_srx *srx, size_t size)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = srx,
		.attr = {.max_wr = (uint32_t) size, .max_sge = (uint32_t) srx->iov_limit},
	};

	srx->receives = pmr_queue_open((unsigned) size, true);
	if (!srx->receives)
		return -FI_ENOMEM;
	srx->srq = ibv_create_srq(srx->domain->pd, &attr);
	if (srx->srq)
		return 0;
	pmr_queue_put(srx->receives);
	return errno ? -errno : -FI_ENOMEM;
}

int pmr_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **fid,
		 void *context)
{
	size_t size = attr && attr->size ? attr->size : PMR_DEFAULT_SIZE;
	struct pmr_srx *srx = calloc(1, sizeof(*srx));
	int ret;

	if (!srx)
		return -FI_ENOMEM;
	srx->domain = pmr_to_domain(domain);
	srx->iov_limit = attr && attr->iov_limit ? attr->iov_limit : srx->domain->device->max_iov;
	ret = make_srq(srx, size);
	if (ret) {
		free(srx);
		return ret;
	}
	atomic_fetch_add(&srx->domain->users, 1);
	srx->ep_fid.fid = (struct fid){FI_CLASS_SRX_CTX, context, &srx_fi_ops};
	srx->ep_fid.ops = &srx_ops;
	srx->ep_fid.msg = &srx_msg_ops;
	*fid = &srx->ep_fid;
	return 0;
}
