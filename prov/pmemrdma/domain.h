/* SPDX-License-Identifier: BSD-2-Clause */
/* domain.h -- a device that an application has opened */
#ifndef PMR_DOMAIN_H
#define PMR_DOMAIN_H

#include <stdatomic.h>

#include <rdma/fi_domain.h>

#include "base/container.h"
#include "device.h"

struct pmr_fabric;

struct pmr_domain {
	struct fid_domain domain_fid;
	struct pmr_fabric *fabric;
	const struct pmr_device *device;
	struct ibv_pd *pd;
	atomic_uint users; /* what was opened on it */
};

static inline struct pmr_domain *pmr_to_domain(struct fid_domain *fid)
{
	return pmv_container_of(fid, struct pmr_domain, domain_fid);
}

/* mr.c */
extern struct fi_ops_mr pmr_mr_ops;

#endif /* PMR_DOMAIN_H */
