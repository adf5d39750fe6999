/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.h -- the machines that a device reaches */
#ifndef PMR_FABRIC_H
#define PMR_FABRIC_H

#include <stdatomic.h>

#include <rdma/fabric.h>

#include "base/container.h"

struct pmr_fabric {
	struct fid_fabric fabric_fid;
	atomic_uint users; /* what was opened on it */
};

static inline struct pmr_fabric *pmr_to_fabric(struct fid_fabric *fid)
{
	return pmv_container_of(fid, struct pmr_fabric, fabric_fid);
}

/* fabric.c; the others are in the file of the object */
int pmr_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int pmr_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		    void *context);
int pmr_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
		 void *context);

#endif /* PMR_FABRIC_H */
