/* SPDX-License-Identifier: BSD-2-Clause */
/* srx.h -- a shared receive context of the core, wrapped */
#ifndef PMV_SRX_H
#define PMV_SRX_H

#include <rdma/fi_endpoint.h>

#include "engine/engine.h"
#include "objects/domain.h"

struct pmv_srx {
	struct fid_ep srx_fid;
	struct pmv_engine_ep engine;
	struct pmv_domain *domain;
};

extern struct fi_ops pmv_srx_fi_ops;

#endif /* PMV_SRX_H */
