/* SPDX-License-Identifier: BSD-2-Clause */
/* getinfo.h -- what fi_getinfo offered */
#ifndef PMV_GETINFO_H
#define PMV_GETINFO_H

#include "engine/core.h"

/* libfabric's OFI_GETINFO_HIDDEN: the same bit in all versions since 1.10. */
#define PMV_GETINFO_HIDDEN (1ULL << 60)
/* And OFI_CORE_PROV_ONLY: another provider looks for one to stand on. */
#define PMV_CORE_PROV_ONLY (1ULL << 59)

/* pmv_getinfo_core_of -- the core whose fabric of that name was offered; NULL: none */
const struct pmv_core *pmv_getinfo_core_of(const char *fabric_name);

/* pmv_is_named -- is that what was asked for, or was nothing? */
bool pmv_is_named(const char *wanted, const char *name);

#endif /* PMV_GETINFO_H */
