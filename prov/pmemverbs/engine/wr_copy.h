/* SPDX-License-Identifier: BSD-2-Clause */
/* wr_copy.h -- a copy of a work request, which outlives the application's call */
#ifndef PMV_WR_COPY_H
#define PMV_WR_COPY_H

#include "engine/engine.h"

/*
 * pmv_wr_copy -- in one block, to be freed: the request and all its lists; with data_too
 * (FI_INJECT) also what it writes or sends.  NULL: no memory.
 */
struct pmv_wr *pmv_wr_copy(const struct pmv_wr *wr, bool data_too);

#endif /* PMV_WR_COPY_H */
