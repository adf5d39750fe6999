/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm.h -- FI_EP_RDM: libfabric's RxM (ofi_rxm) over this provider's FI_EP_MSG
 *
 * RxM opens this provider's MSG endpoints, one for each peer, and passes flags, keys and
 * registrations on to them.  The application is given RxM's own objects.  In their tables,
 * those functions are replaced that would not keep what was promised: see rdm_ep.c.
 *
 * RxM calls a MSG endpoint after it has closed it: it reads the endpoint's queue until that is
 * empty, and posts the receives again that it finds.  It holds its endpoint's lock from before
 * the close until the queue is empty (rxm_close_conn), and takes it before it closes another MSG
 * endpoint of that queue.  objects/ep_close.c relies on that.  But it keeps a long message that
 * nobody has received yet.  Whoever receives it after the close makes RxM use the endpoint once
 * more, and crash.
 *
 * RxM handles events in calls that post, if it has to connect, or has put something off.  It does
 * not see there that it has closed the connection on which it is about to post.  So it is told of
 * an end after such a call (hooks.h: posts).
 */
#ifndef PMV_RDM_H
#define PMV_RDM_H

#include <rdma/fi_domain.h>

#include "commit/hooks.h"

/* pmv_rdm_start -- prepare libfabric for FI_EP_RDM; once, before anything is offered */
void pmv_rdm_start(void);

/* pmv_rdm_ask -- what is offered as FI_EP_RDM; hints are an application's, complete */
struct fi_info *pmv_rdm_ask(uint32_t version, const char *node, const char *service, uint64_t flags,
			    const struct fi_info *hints);

/* pmv_rdm_may_layer -- may the provider that asks stand on this one?  No: after an alert. */
bool pmv_rdm_may_layer(void);

/* pmv_rdm_wants_pmem -- does RxM ask because somebody wants FI_EP_RDM with FI_RMA_PMEM? */
bool pmv_rdm_wants_pmem(void);

/* pmv_rdm_hooks -- for a domain that is being opened; NULL: the application opens it itself */
const struct pmv_hooks *pmv_rdm_hooks(struct fid_domain *domain);

/* What a fabric needs for FI_EP_RDM. */
struct pmv_rdm_fabric {
	char *name;
	uint32_t api_version;
	struct fid_fabric *fid; /* RxM's, once something needs it */
};

int pmv_rdm_fabric_init(struct pmv_rdm_fabric *fabric, const struct fi_fabric_attr *attr);
/* pmv_rdm_fabric_close -- close RxM's fabric; if that succeeds, pmv_rdm_fabric_free follows */
int pmv_rdm_fabric_close(struct pmv_rdm_fabric *fabric);
void pmv_rdm_fabric_free(struct pmv_rdm_fabric *fabric);

int pmv_rdm_domain_open(struct pmv_rdm_fabric *fabric, struct fi_info *info,
			struct fid_domain **domain_fid, void *context);
int pmv_rdm_wait_open(struct pmv_rdm_fabric *fabric, struct fi_wait_attr *attr,
		      struct fid_wait **waitset);
int pmv_rdm_trywait(struct pmv_rdm_fabric *fabric, struct fid *fid);

#endif /* PMV_RDM_H */
