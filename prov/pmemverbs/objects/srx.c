/* SPDX-License-Identifier: BSD-2-Clause */
/* srx.c -- shared receive contexts: endpoints that only receive, of the core's contexts */
#include "objects/ep.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "objects/unwrap.h"

static int srx_close(struct fid *fid)
{
	struct pmv_ep *srx = pmv_container_of(fid, struct pmv_ep, ep_fid.fid);
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

	return core_fid ? fi_ep_bind(pmv_container_of(fid, struct pmv_ep, ep_fid.fid)->engine.fid,
				     core_fid, flags)
			: -FI_EINVAL;
}

struct fi_ops pmv_srx_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = srx_close,
	.bind = srx_bind,
	.control = pmv_unwrap_control,
};

int pmv_srx_open(struct fid_domain *domain_fid, struct fi_rx_attr *attr, struct fid_ep **srx_fid,
		 void *context)
{
	struct pmv_domain *domain = pmv_to_domain(domain_fid);
	struct pmv_ep *srx = calloc(1, sizeof(*srx));
	int ret;

	if (!srx)
		return -FI_ENOMEM;
	ret = fi_srx_context(domain->engine.domain_fid, attr, &srx->engine.fid, srx);
	if (ret) {
		free(srx);
		return ret;
	}
	srx->domain = domain;
	srx->engine.engine = &domain->engine;
	srx->engine.ops = domain->engine.core->ops;
	/* Receives are submitted as an endpoint's are. */
	srx->initiator.engine = &srx->engine;
	srx->srx = true;
	srx->ep_fid = (struct fid_ep){
		.fid = {.fclass = FI_CLASS_SRX_CTX, .context = context, .ops = &pmv_srx_fi_ops},
		.ops = &pmv_ep_ops,
		.msg = &pmv_msg_ops,
	};
	atomic_fetch_add(&domain->users, 1);
	*srx_fid = &srx->ep_fid;
	return 0;
}
