/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.h -- a fabric of a core provider, wrapped */
#ifndef PMV_FABRIC_H
#define PMV_FABRIC_H

#include <pthread.h>

#include <sys/queue.h>

#include <rdma/fabric.h>

#include "base/container.h"
#include "engine/core.h"
#include "rdm/rdm.h"

struct pmv_fabric {
	struct fid_fabric fabric_fid;
	struct fid_fabric *core_fid;
	const struct pmv_core *core;
	pthread_mutex_t handshakes_lock;
	/* of connection requests that are not answered yet */
	LIST_HEAD(, pmv_handshake_kept) handshakes;
	struct pmv_rdm_fabric rdm; /* for FI_EP_RDM */
	pthread_mutex_t domains_lock;
	LIST_HEAD(, pmv_domain) domains; /* all that are open */
};

static inline struct pmv_fabric *pmv_to_fabric(struct fid_fabric *fid)
{
	return pmv_container_of(fid, struct pmv_fabric, fabric_fid);
}

extern struct fi_ops pmv_fabric_fi_ops;

/* Objects that a fabric opens. */
int pmv_domain_open(struct fid_fabric *fabric_fid, struct fi_info *info,
		    struct fid_domain **domain_fid, void *context);
int pmv_pep_open(struct fid_fabric *fabric_fid, struct fi_info *info, struct fid_pep **pep_fid,
		 void *context);
int pmv_eq_open(struct fid_fabric *fabric_fid, struct fi_eq_attr *attr, struct fid_eq **eq_fid,
		void *context);

/* pmv_getinfo -- libfabric's fi_getinfo */
int pmv_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info);

/* pmv_getinfo_core_of -- the core whose fabric with this name was offered; NULL: none */
const struct pmv_core *pmv_getinfo_core_of(const char *fabric_name);

/* pmv_fabric_open -- libfabric's fi_fabric; fi_getinfo has offered the fabric before */
int pmv_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_fid, void *context);

#endif /* PMV_FABRIC_H */
