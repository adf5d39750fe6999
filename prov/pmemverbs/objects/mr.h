/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.h -- a memory region of the core, wrapped */
#ifndef PMV_MR_H
#define PMV_MR_H

#include "objects/domain.h"

struct pmv_mr {
	struct fid_mr mr_fid;
	struct fid_mr *core_fid;
	struct pmv_domain *domain;
	struct pmv_region *region; /* as the agent knows it; NULL: it does not */
	struct pmv_files *files;   /* behind it, opened anew; or NULL */
	struct pmv_watch *watch;   /* of what the agent and the core touch; or NULL */
};

/*
 * pmv_mr_kind -- what a region is that messages to endpoints of the domain can be
 * committed in; false: it is none
 */
bool pmv_mr_kind(const struct pmv_domain *domain, struct fid_mr *mr_fid, struct pmv_attr *attr);

#endif /* PMV_MR_H */
