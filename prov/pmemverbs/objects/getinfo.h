/* SPDX-License-Identifier: BSD-2-Clause */
/* getinfo.h -- fi_getinfo, and what it has offered */
#ifndef PMV_GETINFO_H
#define PMV_GETINFO_H

#include <stdint.h>

#include <rdma/fabric.h>

struct pmv_core;

/* pmv_getinfo -- libfabric's fi_getinfo */
int pmv_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info);

/* pmv_getinfo_core_of -- the core whose fabric with this name was offered; NULL: none */
const struct pmv_core *pmv_getinfo_core_of(const char *fabric_name);

#endif /* PMV_GETINFO_H */
