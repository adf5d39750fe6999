/* SPDX-License-Identifier: BSD-2-Clause */
/* domain.h -- a domain of the core, wrapped, with what commits need of it */
#ifndef PMV_DOMAIN_H
#define PMV_DOMAIN_H

#include <pthread.h>
#include <stddef.h>

#include <rdma/fi_domain.h>

#include "agent/agent.h"
#include "commit/hooks.h"
#include "engine/engine.h"
#include "objects/fabric.h"
#include "objects/zombie.h"
#include "progress/op.h"

struct pmv_domain {
	struct fid_domain domain_fid;
	struct pmv_engine engine;
	struct pmv_fabric *fabric;
	bool pmem;                     /* opened with FI_RMA_PMEM, or as if */
	bool keyed;                    /* keys carry attributes */
	bool cpu_placed;               /* software places what comes in */
	const struct pmv_hooks *hooks; /* NULL: the application opened it itself */
	atomic_int users;              /* objects opened in it, closed before it */
	struct pmv_op_pool ops;
	struct pmv_agent agent;
	struct pmv_zombies zombies;
};

static inline struct pmv_domain *pmv_to_domain(struct fid_domain *fid)
{
	return pmv_container_of(fid, struct pmv_domain, domain_fid);
}

extern struct fi_ops_mr pmv_mr_ops;

int pmv_cq_open(struct fid_domain *domain_fid, struct fi_cq_attr *attr, struct fid_cq **cq_fid,
		void *context);
int pmv_cntr_open(struct fid_domain *domain_fid, struct fi_cntr_attr *attr,
		  struct fid_cntr **cntr_fid, void *context);
int pmv_ep_open(struct fid_domain *domain_fid, struct fi_info *info, struct fid_ep **ep_fid,
		void *context);
int pmv_srx_open(struct fid_domain *domain_fid, struct fi_rx_attr *attr, struct fid_ep **srx_fid,
		 void *context);

#endif /* PMV_DOMAIN_H */
