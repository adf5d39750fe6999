/* SPDX-License-Identifier: BSD-2-Clause */
/* domain.c -- a device that an application has opened */
#include "domain.h"

#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "cq.h"
#include "ep.h"
#include "fabric.h"
#include "provider.h"

static int domain_close(struct fid *fid)
{
	struct pmr_domain *domain = pmv_container_of(fid, struct pmr_domain, domain_fid.fid);
	int ret;

	if (atomic_load(&domain->users))
		return -FI_EBUSY;
	ret = pmr_device_freed(domain->device, ibv_dealloc_pd(domain->pd));
	if (ret)
		return ret;
	atomic_fetch_sub(&domain->fabric->users, 1);
	free(domain);
	return 0;
}

static struct fi_ops domain_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = pmr_no_bind,
	.control = pmr_no_control,
	.ops_open = pmr_no_ops_open,
};

static int no_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
		      void *context)
{
	(void) domain;
	(void) attr;
	(void) av;
	(void) context;
	return -FI_ENOSYS;
}

static int no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
			  void *context)
{
	(void) domain;
	(void) info;
	(void) sep;
	(void) context;
	return -FI_ENOSYS;
}

static int no_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
			struct fid_cntr **cntr, void *context)
{
	(void) domain;
	(void) attr;
	(void) cntr;
	(void) context;
	return -FI_ENOSYS;
}

static int no_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
			struct fid_poll **pollset)
{
	(void) domain;
	(void) attr;
	(void) pollset;
	return -FI_ENOSYS;
}

static int no_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
		      void *context)
{
	(void) domain;
	(void) attr;
	(void) stx;
	(void) context;
	return -FI_ENOSYS;
}

static struct fi_ops_domain domain_ops = {
	.size = offsetof(struct fi_ops_domain, query_atomic) + sizeof(domain_ops.query_atomic),
	.av_open = no_av_open,
	.cq_open = pmr_cq_open,
	.endpoint = pmr_ep_open,
	.scalable_ep = no_scalable_ep,
	.cntr_open = no_cntr_open,
	.poll_open = no_poll_open,
	.stx_ctx = no_stx_ctx,
	.srx_ctx = pmr_srx_open,
	.query_atomic = pmr_query_atomic,
};

int pmr_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **fid,
		    void *context)
{
	const struct pmr_device *device = NULL;
	struct pmr_domain *domain;

	if (info->domain_attr && info->domain_attr->name)
		device = pmr_device_named(info->domain_attr->name);
	if (!device)
		return -FI_EINVAL;
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return -FI_ENOMEM;
	domain->pd = ibv_alloc_pd(device->verbs);
	if (!domain->pd) {
		int ret = errno ? -errno : -FI_ENOMEM;

		free(domain);
		return ret;
	}
	domain->device = device;
	domain->fabric = pmr_to_fabric(fabric);
	atomic_fetch_add(&domain->fabric->users, 1);
	domain->domain_fid.fid = (struct fid){FI_CLASS_DOMAIN, context, &domain_fi_ops};
	domain->domain_fid.ops = &domain_ops;
	domain->domain_fid.mr = &pmr_mr_ops;
	*fid = &domain->domain_fid;
	return 0;
}
