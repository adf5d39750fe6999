/* SPDX-License-Identifier: BSD-2-Clause */
/* core_srx.c -- shared receive contexts: endpoints without a connection, whose receives others take
 */
#include "core.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "testcore/fid.h"

static int srx_close(struct fid *fid)
{
	struct core_ep *srx = core_to_ep(fid);

	core_drop_posts(&srx->receives);
	srx->domain->open_objects--;
	free(srx);
	return 0;
}

static int srx_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void) fid, (void) bfid, (void) flags;
	return 0;
}

static struct fi_ops srx_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = srx_close,
	.bind = srx_bind,
	.control = testcore_ep_control,
};

int core_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **fid,
		  void *context)
{
	struct fi_tx_attr none = {0};
	struct core_ep *srx = testcore_need(calloc(1, sizeof(*srx)));

	(void) attr;
	testcore_ep_init(&srx->core, &(struct fi_info){.tx_attr = &none}, &srx_fi_ops, context,
			 core_post);
	srx->core.fid.fid.fclass = FI_CLASS_SRX_CTX;
	srx->domain = testcore_of(domain, struct core_domain, domain);
	srx->domain->open_objects++;
	STAILQ_INIT(&srx->receives);
	*fid = &srx->core.fid;
	return 0;
}
