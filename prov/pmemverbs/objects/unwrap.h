/* SPDX-License-Identifier: BSD-2-Clause */
/* unwrap.h -- from an application's object to the core's behind it */
#ifndef PMV_UNWRAP_H
#define PMV_UNWRAP_H

#include <rdma/fabric.h>

struct pmv_core;

/* pmv_unwrap_fid -- the core's fid; NULL: it is none of this provider's with one behind it */
struct fid *pmv_unwrap_fid(struct fid *fid);

/* Calls that the core serves alone; but of its CM data, the application gets what is left. */
int pmv_unwrap_control(struct fid *fid, int command, void *arg);
int pmv_unwrap_getopt(struct fid *fid, int level, int optname, void *optval, size_t *optlen);
int pmv_unwrap_setopt(struct fid *fid, int level, int optname, const void *optval, size_t optlen);
int pmv_unwrap_setname(struct fid *fid, void *addr, size_t addrlen);
int pmv_unwrap_getname(struct fid *fid, void *addr, size_t *addrlen);

/*
 * pmv_unwrap_info -- a copy that the core's open calls accept, and that names the core's
 * objects; NULL: no memory
 */
struct fi_info *pmv_unwrap_info(const struct pmv_core *core, const struct fi_info *info);

#endif /* PMV_UNWRAP_H */
