/* SPDX-License-Identifier: BSD-2-Clause */
/* pep.h -- a passive endpoint of the core, wrapped */
#ifndef PMV_PEP_H
#define PMV_PEP_H

#include <rdma/fi_endpoint.h>

struct pmv_eq;
struct pmv_fabric;

struct pmv_pep {
	struct fid_pep pep_fid;
	struct fid_pep *core_fid;
	struct pmv_fabric *fabric;
	struct pmv_eq *eq;
	struct fi_info *info; /* what the application asked for, for its connection requests */
};

extern struct fi_ops pmv_pep_fi_ops;

#endif /* PMV_PEP_H */
