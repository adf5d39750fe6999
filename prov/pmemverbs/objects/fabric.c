/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.c -- a fabric of the core, wrapped; waiting on several objects */
#include "objects/fabric.h"

#include <stddef.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "objects/handshake.h"
#include "base/log.h"
#include "base/signals.h"
#include "engine/info.h"
#include "objects/cq.h"
#include "objects/eq.h"
#include "objects/unwrap.h"

static int fabric_close(struct fid *fid)
{
	struct pmv_fabric *fabric = pmv_container_of(fid, struct pmv_fabric, fabric_fid.fid);
	int ret = pmv_rdm_fabric_close(&fabric->rdm);

	if (!ret)
		ret = fi_close(&fabric->core_fid->fid);
	if (ret)
		return ret;
	pmv_rdm_fabric_free(&fabric->rdm);
	pmv_handshake_forget_all(fabric);
	pthread_mutex_destroy(&fabric->handshakes_lock);
	pthread_mutex_destroy(&fabric->domains_lock);
	free(fabric);
	return 0;
}

struct fi_ops pmv_fabric_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.control = pmv_unwrap_control,
};

static struct pmv_cq *cq_of(struct fid *fid)
{
	return pmv_unwrap_fid(fid) && fid->fclass == FI_CLASS_CQ
		       ? pmv_container_of(fid, struct pmv_cq, cq_fid.fid)
		       : NULL;
}

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	struct pmv_fabric *fabric = pmv_to_fabric(fid);

	for (int i = 0; i < count; i++) {
		struct fid *core_fid = pmv_unwrap_fid(fids[i]);
		int ret;

		if (!core_fid)
			ret = pmv_rdm_trywait(&fabric->rdm, fids[i]);
		else if (cq_of(fids[i]))
			ret = pmv_cq_trywait(cq_of(fids[i]));
		else if (fids[i]->fclass == FI_CLASS_EQ)
			ret = pmv_eq_trywait(pmv_container_of(fids[i], struct pmv_eq, eq_fid.fid));
		else
			ret = fi_trywait(fabric->core_fid, &core_fid, 1);
		if (ret)
			return ret;
	}
	for (int i = 0; i < count; i++) {
		if (cq_of(fids[i]))
			pmv_queue_lets_sleep(&cq_of(fids[i])->queue);
	}
	return 0;
}

/* Queues of FI_EP_MSG take no wait set, those of FI_EP_RDM do. */
static int fabric_wait_open(struct fid_fabric *fid, struct fi_wait_attr *attr,
			    struct fid_wait **waitset)
{
	return pmv_rdm_wait_open(&pmv_to_fabric(fid)->rdm, attr, waitset);
}

static struct fi_ops_fabric fabric_ops = {
	.size = offsetof(struct fi_ops_fabric, domain2),
	.domain = pmv_domain_open,
	.passive_ep = pmv_pep_open,
	.eq_open = pmv_eq_open,
	.wait_open = fabric_wait_open,
	.trywait = fabric_trywait,
};

int pmv_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_fid, void *context)
{
	const struct pmv_core *core = pmv_getinfo_core_of(attr->name);
	struct fi_fabric_attr core_attr = *attr;
	struct pmv_fabric *fabric;
	int ret;

	if (!core) {
		PMV_WARN(FABRIC, "fabric %s was not offered by fi_getinfo\n", attr->name);
		return -FI_ENODATA;
	}
	fabric = calloc(1, sizeof(*fabric));
	ret = fabric ? pmv_rdm_fabric_init(&fabric->rdm, attr) : -FI_ENOMEM;
	if (ret)
		goto free;
	fabric->core = core;
	core_attr.prov_name = (char *) core->name;
	/* Our version says nothing about the core's; 0 is never too new for it. */
	core_attr.prov_version = 0;
	core_attr.api_version = pmv_info_api_version(attr->api_version);
	core_attr.fabric = NULL;
	ret = fi_fabric(&core_attr, &fabric->core_fid, fabric);
	if (ret) {
		pmv_rdm_fabric_free(&fabric->rdm);
		goto free;
	}
	/* Not earlier: installing the provider changes nothing for other programs. */
	pmv_signals_restore();
	pthread_mutex_init(&fabric->handshakes_lock, NULL);
	pthread_mutex_init(&fabric->domains_lock, NULL);
	fabric->fabric_fid = (struct fid_fabric){
		.fid = {.fclass = FI_CLASS_FABRIC, .context = context, .ops = &pmv_fabric_fi_ops},
		.ops = &fabric_ops,
	};
	*fabric_fid = &fabric->fabric_fid;
	return 0;

free:
	free(fabric);
	return ret;
}
