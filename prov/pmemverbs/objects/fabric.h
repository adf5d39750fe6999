/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.h -- a fabric of a core provider, wrapped */
#ifndef PMV_FABRIC_H
#define PMV_FABRIC_H

#include <pthread.h>
#include <stddef.h>
#include <sys/queue.h>

#include <rdma/fabric.h>

#include "engine/core.h"

#define pmv_container_of(ptr, type, member) ((type *) ((char *) (ptr) -offsetof(type, member)))

struct pmv_fabric {
	struct fid_fabric fabric_fid;
	struct fid_fabric *core_fid;
	const struct pmv_core *core;
	pthread_mutex_t handshakes_lock;
	/* of connection requests that are not answered yet */
	LIST_HEAD(, pmv_handshake_kept) handshakes;
	char *name;
	pthread_mutex_t rxm_lock;
	struct fid_fabric *rxm_fid; /* RxM's fabric over this provider, once FI_EP_RDM needs it */
};

static inline struct pmv_fabric *pmv_to_fabric(struct fid_fabric *fid)
{
	return pmv_container_of(fid, struct pmv_fabric, fabric_fid);
}

/* Objects that a fabric opens. */
int pmv_domain_open(struct fid_fabric *fabric_fid, struct fi_info *info,
		    struct fid_domain **domain_fid, void *context);
int pmv_pep_open(struct fid_fabric *fabric_fid, struct fi_info *info, struct fid_pep **pep_fid,
		 void *context);
int pmv_eq_open(struct fid_fabric *fabric_fid, struct fi_eq_attr *attr, struct fid_eq **eq_fid,
		void *context);

/* pmv_fid_core -- the core's fid behind one of ours; NULL: it is none that can be bound */
struct fid *pmv_fid_core(struct fid *fid);

#endif /* PMV_FABRIC_H */
