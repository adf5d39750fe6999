/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm.h -- FI_EP_RDM: libfabric's RxM (ofi_rxm) over our own FI_EP_MSG
 *
 * RxM opens this provider's MSG endpoints, one for each peer, and hands flags,
 * keys and registrations on to them.  So the application is given RxM's own
 * objects; of their tables of functions those are replaced that RxM would answer
 * otherwise than was promised: see rdm_ep.c.
 */
#ifndef PMV_RDM_H
#define PMV_RDM_H

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "commit/hooks.h"
#include "objects/fabric.h"

/* pmv_rdm_tune -- once, before there are endpoints of RxM */
void pmv_rdm_tune(void);

/* pmv_rdm_ask -- what is offered as FI_EP_RDM; hints are an application's, complete */
struct fi_info *pmv_rdm_ask(uint32_t version, const char *node, const char *service, uint64_t flags,
			    const struct fi_info *hints);

/*
 * pmv_rdm_calls_rxm -- is it RxM that calls, because it was called from here?
 * pmv_rdm_wants_pmem -- and on behalf of somebody who wants FI_RMA_PMEM?
 */
bool pmv_rdm_calls_rxm(void);
bool pmv_rdm_wants_pmem(void);

/* pmv_rdm_hooks -- for a domain that is being opened; NULL: the application opens it itself */
const struct pmv_hooks *pmv_rdm_hooks(void);

/* What a fabric does for FI_EP_RDM. */
int pmv_rdm_domain_open(struct pmv_fabric *fabric, struct fi_info *info,
			struct fid_domain **domain_fid, void *context);
int pmv_rdm_wait_open(struct pmv_fabric *fabric, struct fi_wait_attr *attr,
		      struct fid_wait **waitset);
int pmv_rdm_trywait(struct pmv_fabric *fabric, struct fid *fid);
int pmv_rdm_fabric_close(struct pmv_fabric *fabric);

#endif /* PMV_RDM_H */
