/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.c -- a fabric of the core, wrapped; waiting on several objects */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "objects/cntr.h"
#include "objects/cq.h"
#include "objects/eq.h"
#include "objects/ep.h"
#include "objects/getinfo.h"
#include "objects/handshake.h"
#include "objects/pep.h"
#include "base/setting.h"
#include "rdm/rdm.h"
#include "base/signals.h"
#include "objects/srx.h"

struct fid *pmv_fid_core(struct fid *fid)
{
	if (fid->ops == &pmv_ep_fi_ops)
		return &pmv_container_of(fid, struct pmv_ep, ep_fid.fid)->engine.fid->fid;
	if (fid->ops == &pmv_pep_fi_ops)
		return &pmv_container_of(fid, struct pmv_pep, pep_fid.fid)->core_fid->fid;
	if (fid->ops == &pmv_srx_fi_ops)
		return &pmv_container_of(fid, struct pmv_srx, srx_fid.fid)->core_fid->fid;
	if (fid->ops == &pmv_cq_fi_ops)
		return &pmv_container_of(fid, struct pmv_cq, cq_fid.fid)->queue.core_fid->fid;
	if (fid->ops == &pmv_eq_fi_ops)
		return &pmv_container_of(fid, struct pmv_eq, eq_fid.fid)->core_fid->fid;
	return NULL;
}

static int fabric_close(struct fid *fid)
{
	struct pmv_fabric *fabric = pmv_container_of(fid, struct pmv_fabric, fabric_fid.fid);
	int ret = pmv_rdm_fabric_close(fabric);

	if (!ret)
		ret = fi_close(&fabric->core_fid->fid);
	if (ret)
		return ret;
	pmv_handshake_forget_all(fabric);
	pthread_mutex_destroy(&fabric->handshakes_lock);
	pthread_mutex_destroy(&fabric->rxm_lock);
	free(fabric->name);
	free(fabric);
	return 0;
}

static int fabric_control(struct fid *fid, int command, void *arg)
{
	struct pmv_fabric *fabric = pmv_container_of(fid, struct pmv_fabric, fabric_fid.fid);

	return fi_control(&fabric->core_fid->fid, command, arg);
}

static struct fi_ops fabric_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.control = fabric_control,
};

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	struct pmv_fabric *fabric = pmv_to_fabric(fid);

	for (int i = 0; i < count; i++) {
		struct fid *core_fid = pmv_fid_core(fids[i]);
		int ret;

		if (!core_fid)
			ret = pmv_rdm_trywait(fabric, fids[i]);
		else if (fids[i]->fclass == FI_CLASS_CQ)
			ret = pmv_cq_trywait(pmv_container_of(fids[i], struct pmv_cq, cq_fid.fid));
		else if (fids[i]->fclass == FI_CLASS_EQ)
			ret = pmv_eq_trywait(pmv_container_of(fids[i], struct pmv_eq, eq_fid.fid));
		else
			ret = fi_trywait(fabric->core_fid, &core_fid, 1);
		if (ret)
			return ret;
	}
	return 0;
}

/* Queues of FI_EP_MSG take no wait set, those of FI_EP_RDM do. */
static int fabric_wait_open(struct fid_fabric *fid, struct fi_wait_attr *attr,
			    struct fid_wait **waitset)
{
	return pmv_rdm_wait_open(pmv_to_fabric(fid), attr, waitset);
}

static struct fi_ops_fabric fabric_ops = {
	.size = offsetof(struct fi_ops_fabric, domain2),
	.domain = pmv_domain_open,
	.passive_ep = pmv_pep_open,
	.eq_open = pmv_eq_open,
	.wait_open = fabric_wait_open,
	.trywait = fabric_trywait,
};

int pmv_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric_fid, void *context)
{
	struct fi_fabric_attr core_attr = *attr;
	struct pmv_fabric *fabric;
	int ret;

	fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return -FI_ENOMEM;
	fabric->core = pmv_getinfo_core_of(attr->name);
	if (!fabric->core) {
		PMV_WARN(FABRIC, "fabric %s was not offered by fi_getinfo\n", attr->name);
		free(fabric);
		return -FI_ENODATA;
	}
	core_attr.prov_name = (char *) fabric->core->name;
	/* Ours says nothing of the core's; 0 is never too new for it. */
	core_attr.prov_version = 0;
	core_attr.api_version = pmv_core_version(attr->api_version);
	core_attr.fabric = NULL;
	fabric->name = strdup(attr->name);
	ret = fabric->name ? fi_fabric(&core_attr, &fabric->core_fid, fabric) : -FI_ENOMEM;
	if (ret) {
		free(fabric->name);
		free(fabric);
		return ret;
	}
	/* Now that it is used: to be installed changes nothing for other programs. */
	pmv_signals_restore();
	pthread_mutex_init(&fabric->handshakes_lock, NULL);
	pthread_mutex_init(&fabric->rxm_lock, NULL);
	fabric->fabric_fid = (struct fid_fabric){
		.fid = {.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fi_ops},
		.ops = &fabric_ops,
	};
	*fabric_fid = &fabric->fabric_fid;
	return 0;
}
