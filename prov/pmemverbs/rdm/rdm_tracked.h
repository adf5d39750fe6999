/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_tracked.h -- calls of an endpoint of FI_EP_RDM that has FI_FENCE, without its atomics */
#ifndef PMV_RDM_TRACKED_H
#define PMV_RDM_TRACKED_H

#include "rdm/rdm_ep.h"

/* pmv_rdm_tracked_replace -- all calls that post; what they were is what they become */
void pmv_rdm_tracked_replace(struct pmv_rdm_ep *rdm);

#endif /* PMV_RDM_TRACKED_H */
