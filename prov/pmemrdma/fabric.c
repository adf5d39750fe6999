/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.c -- the machines that a device reaches; waiting on several queues */
#include "fabric.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "cq.h"
#include "device.h"
#include "eq.h"
#include "provider.h"

static int fabric_close(struct fid *fid)
{
	struct pmr_fabric *fabric = pmv_container_of(fid, struct pmr_fabric, fabric_fid.fid);

	if (atomic_load(&fabric->users))
		return -FI_EBUSY;
	free(fabric);
	return 0;
}

static struct fi_ops fabric_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = pmr_no_bind,
	.control = pmr_no_control,
	.ops_open = pmr_no_ops_open,
};

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	(void) fid;
	for (int i = 0; i < count; i++) {
		int ret = -FI_EINVAL;

		if (fids[i]->fclass == FI_CLASS_CQ)
			ret = pmr_cq_trywait(pmr_to_cq(fids[i]));
		else if (fids[i]->fclass == FI_CLASS_EQ)
			ret = pmr_eq_trywait(pmr_to_eq(fids[i]));
		if (ret)
			return ret;
	}
	return 0;
}

static int no_wait_open(struct fid_fabric *fid, struct fi_wait_attr *attr, struct fid_wait **wait)
{
	(void) fid;
	(void) attr;
	(void) wait;
	return -FI_ENOSYS;
}

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = pmr_domain_open,
	.passive_ep = pmr_pep_open,
	.eq_open = pmr_eq_open,
	.wait_open = no_wait_open,
	.trywait = fabric_trywait,
};

int pmr_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fid, void *context)
{
	const struct pmr_device *device = pmr_devices();
	struct pmr_fabric *fabric;

	while (device && attr->name && strcmp(device->fabric, attr->name) != 0)
		device = device->next;
	if (!device)
		return -FI_ENODATA;
	fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return -FI_ENOMEM;
	fabric->fabric_fid.fid = (struct fid){FI_CLASS_FABRIC, context, &fabric_fi_ops};
	fabric->fabric_fid.ops = &fabric_ops;
	fabric->fabric_fid.api_version = attr->api_version;
	*fid = &fabric->fabric_fid;
	return 0;
}
