/* SPDX-License-Identifier: BSD-2-Clause */
/* unwrap.c -- from an application's object to the core's behind it */
#include "objects/unwrap.h"

#include "auth/ticket.h"
#include "base/container.h"
#include "engine/info.h"
#include "objects/cq.h"
#include "objects/domain.h"
#include "objects/ep.h"
#include "objects/eq.h"

struct fid *pmv_unwrap_fid(struct fid *fid)
{
	if (fid->ops == &pmv_ep_fi_ops || fid->ops == &pmv_srx_fi_ops)
		return &pmv_container_of(fid, struct pmv_ep, ep_fid.fid)->engine.fid->fid;
	if (fid->ops == &pmv_pep_fi_ops)
		return &pmv_container_of(fid, struct pmv_pep, pep_fid.fid)->core_fid->fid;
	if (fid->ops == &pmv_cq_fi_ops)
		return &pmv_container_of(fid, struct pmv_cq, cq_fid.fid)->queue.core_fid->fid;
	if (fid->ops == &pmv_eq_fi_ops)
		return &pmv_container_of(fid, struct pmv_eq, eq_fid.fid)->core_fid->fid;
	if (fid->ops == &pmv_mr_fi_ops)
		return &pmv_container_of(fid, struct pmv_mr, mr_fid.fid)->core_fid->fid;
	if (fid->ops == &pmv_domain_fi_ops)
		return &pmv_container_of(fid, struct pmv_domain, domain_fid.fid)
				->engine.domain_fid->fid;
	if (fid->ops == &pmv_fabric_fi_ops)
		return &pmv_container_of(fid, struct pmv_fabric, fabric_fid.fid)->core_fid->fid;
	return NULL;
}

int pmv_unwrap_control(struct fid *fid, int command, void *arg)
{
	return fi_control(pmv_unwrap_fid(fid), command, arg);
}

/*
 * room_taken -- so many bytes of the core's CM data are not the application's.  With tickets a
 * request would have room for more, but there is one figure for both directions.
 */
static size_t room_taken(struct fid *fid)
{
	const struct pmv_core *core;

	if (!pmv_admission_is_on())
		return PMV_HANDSHAKE_SIZE;
	core = fid->ops == &pmv_pep_fi_ops
		       ? pmv_container_of(fid, struct pmv_pep, pep_fid.fid)->fabric->core
		       : pmv_container_of(fid, struct pmv_ep, ep_fid.fid)->domain->engine.core;
	return PMV_HANDSHAKE_SIZE + (core->proves ? PMV_ADMISSION_REQUEST : PMV_TICKET_PROOF);
}

int pmv_unwrap_getopt(struct fid *fid, int level, int optname, void *optval, size_t *optlen)
{
	int ret = fi_getopt(pmv_unwrap_fid(fid), level, optname, optval, optlen);
	size_t *size = optval, ours;

	if (ret || level != FI_OPT_ENDPOINT || optname != FI_OPT_CM_DATA_SIZE)
		return ret;
	ours = room_taken(fid);
	*size = *size > ours ? *size - ours : 0;
	return 0;
}

int pmv_unwrap_setopt(struct fid *fid, int level, int optname, const void *optval, size_t optlen)
{
	return fi_setopt(pmv_unwrap_fid(fid), level, optname, optval, optlen);
}

int pmv_unwrap_setname(struct fid *fid, void *addr, size_t addrlen)
{
	return fi_setname(pmv_unwrap_fid(fid), addr, addrlen);
}

int pmv_unwrap_getname(struct fid *fid, void *addr, size_t *addrlen)
{
	return fi_getname(pmv_unwrap_fid(fid), addr, addrlen);
}

struct fi_info *pmv_unwrap_info(const struct pmv_core *core, const struct fi_info *info)
{
	struct fi_info *copy = pmv_info_to_core(core, info);

	if (!copy)
		return NULL;
	if (info->fabric_attr && info->fabric_attr->fabric)
		copy->fabric_attr->fabric = pmv_to_fabric(info->fabric_attr->fabric)->core_fid;
	if (info->domain_attr && info->domain_attr->domain)
		copy->domain_attr->domain =
			pmv_to_domain(info->domain_attr->domain)->engine.domain_fid;
	/* The handle is a connection request of the core's, or a passive endpoint of ours. */
	if (info->handle) {
		struct fid *core_fid = pmv_unwrap_fid(info->handle);

		copy->handle = core_fid ? core_fid : info->handle;
	}
	return copy;
}
