/* SPDX-License-Identifier: BSD-2-Clause */
/* info.h -- between the fi_info of an application and that of the core */
#ifndef PMV_INFO_H
#define PMV_INFO_H

#include "engine/engine.h"

/* Capabilities that are ours, not the core's. */
#define PMV_OWN_CAPS (FI_RMA_PMEM | FI_FENCE)

/* pmv_info_complete -- a copy with all attributes there; of NULL, an empty one */
struct fi_info *pmv_info_complete(const struct fi_info *info);

/* pmv_info_strip -- leave what the core knows, and ask it for what commits need */
void pmv_info_strip(struct fi_info *info);
/* pmv_info_strip_own -- the same for a layer between the application and us */
void pmv_info_strip_own(struct fi_info *info);

/* pmv_info_to_core -- a copy of ours that the core's open calls accept; NULL: no memory */
struct fi_info *pmv_info_to_core(const struct pmv_core *core, const struct fi_info *info);

/* pmv_info_from_core -- turn the core's info into ours, for what was asked for */
void pmv_info_from_core(struct fi_info *info, const struct fi_info *asked);

/* pmv_info_from_rxm -- the same with what RxM offers over us; it can't keep FI_FENCE's promise */
void pmv_info_from_rxm(struct fi_info *info, const struct fi_info *asked);

/* pmv_info_keyed -- are keys the provider's to choose, so that they carry attributes? */
bool pmv_info_keyed(int mr_mode);

/* pmv_info_is_pmem -- does the application want FI_RMA_PMEM? */
bool pmv_info_is_pmem(const struct fi_info *info);

#endif /* PMV_INFO_H */
