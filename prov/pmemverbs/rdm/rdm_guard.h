/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_guard.h -- RxM's queues and counters, read under guard (memory/guard.h)
 *
 * When the application reads one of them, RxM executes what has arrived: it copies
 * messages and executes atomics, in memory that may have lost its file.
 */
#ifndef PMV_RDM_GUARD_H
#define PMV_RDM_GUARD_H

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

/* pmv_rdm_guard_cq, pmv_rdm_guard_cntr -- one that RxM has just opened */
void pmv_rdm_guard_cq(struct fid_cq *cq);
void pmv_rdm_guard_cntr(struct fid_cntr *cntr);

#endif /* PMV_RDM_GUARD_H */
