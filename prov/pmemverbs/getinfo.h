/* SPDX-License-Identifier: BSD-2-Clause */
/* getinfo.h -- what fi_getinfo offered */
#ifndef PMV_GETINFO_H
#define PMV_GETINFO_H

#include "core.h"

/* pmv_getinfo_core_of -- the core whose fabric of that name was offered; NULL: none */
const struct pmv_core *pmv_getinfo_core_of(const char *fabric_name);

#endif /* PMV_GETINFO_H */
