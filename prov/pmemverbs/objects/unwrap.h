/* SPDX-License-Identifier: BSD-2-Clause */
/* unwrap.h -- from an application's object to the core's behind it */
#ifndef PMV_UNWRAP_H
#define PMV_UNWRAP_H

#include <rdma/fabric.h>

struct pmv_core;

/* pmv_unwrap_fid -- the core's fid; NULL: this provider binds no such object */
struct fid *pmv_unwrap_fid(struct fid *fid);

/*
 * pmv_unwrap_info -- a copy that the core's open calls accept, and that names the core's
 * objects; NULL: no memory
 */
struct fi_info *pmv_unwrap_info(const struct pmv_core *core, const struct fi_info *info);

#endif /* PMV_UNWRAP_H */
