/* SPDX-License-Identifier: BSD-2-Clause */
/* domain.h -- a domain of the core and its memory regions, wrapped, for commits */
#ifndef PMV_DOMAIN_H
#define PMV_DOMAIN_H

#include <pthread.h>
#include <stdio.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "agent/agent.h"
#include "base/container.h"
#include "commit/hooks.h"
#include "engine/engine.h"
#include "objects/fabric.h"
#include "progress/op.h"

struct pmv_ep;

struct pmv_domain {
	struct fid_domain domain_fid;
	LIST_ENTRY(pmv_domain) next;        /* of its fabric */
	LIST_ENTRY(pmv_domain) next_of_all; /* of this process: metrics.c */
	struct pmv_engine engine;
	struct pmv_fabric *fabric;
	bool pmem;                     /* opened with FI_RMA_PMEM, or as if */
	bool keyed;                    /* keys carry attributes */
	bool events;                   /* opened with FI_RMA_EVENT */
	bool cpu_placed;               /* software places what comes in */
	uint16_t life;                 /* its number: memory/key.h */
	const struct pmv_hooks *hooks; /* NULL: the application opened it itself */
	atomic_int users;              /* objects opened in it, closed before it */
	struct pmv_op_pool ops;
	struct pmv_agent agent;
	struct {
		pthread_mutex_t lock;
		LIST_HEAD(, pmv_ep) eps;             /* open, to add up what they count */
		struct fi_pmemverbs_counters closed; /* what closed ones have counted */
	} tally;
};

static inline struct pmv_domain *pmv_to_domain(struct fid_domain *fid)
{
	return pmv_container_of(fid, struct pmv_domain, domain_fid);
}

struct pmv_mr {
	struct fid_mr mr_fid;
	struct fid_mr *core_fid;
	struct pmv_domain *domain;
	struct pmv_region *region; /* as the agent knows it; NULL: it does not */
	struct pmv_files *files;   /* behind it, opened anew; or NULL */
	struct pmv_direct *direct; /* the file that it is memory of, held; or NULL */
	struct pmv_watch *watch;   /* of what the agent and the core touch; or NULL */
	struct pmv_cntr *cntr;     /* of peers' writes; or NULL */
	bool writable;             /* peers may write ... */
	struct iovec memory;       /* ... this, if it is one piece */
};

/*
 * pmv_mr_kind -- what a region is that messages to endpoints of the domain can be
 * committed in; false: it is none
 */
bool pmv_mr_kind(const struct pmv_domain *domain, struct fid_mr *mr_fid, struct pmv_attr *attr);

extern struct fi_ops pmv_domain_fi_ops;
extern struct fi_ops pmv_mr_fi_ops;
extern struct fi_ops_mr pmv_mr_ops;

extern struct fi_pmemverbs_counters_ops pmv_tally_ops;
extern struct fi_pmemverbs_file_ops pmv_file_ops;

/* pmv_chain_ops_open -- FI_PMEMVERBS_CHAIN_OPS of the domain, or of an endpoint in it */
int pmv_chain_ops_open(const struct pmv_domain *domain, uint64_t flags, void **ops);

/* pmv_tally_leave -- an endpoint counts nothing more */
void pmv_tally_leave(struct pmv_ep *ep);

/* pmv_tally_read -- add what a domain has counted */
void pmv_tally_read(struct pmv_domain *domain, struct fi_pmemverbs_counters *sum);

/*
 * pmv_metrics_join -- a domain was opened; the first one opens the socket, if there is to be one
 * pmv_metrics_leave -- it is about to be closed, and has no endpoint any more
 */
void pmv_metrics_join(struct pmv_domain *domain);
void pmv_metrics_leave(struct pmv_domain *domain);

/* pmv_metrics_write -- all of them */
void pmv_metrics_write(FILE *text);

int pmv_cq_open(struct fid_domain *domain_fid, struct fi_cq_attr *attr, struct fid_cq **cq_fid,
		void *context);
int pmv_cntr_open(struct fid_domain *domain_fid, struct fi_cntr_attr *attr,
		  struct fid_cntr **cntr_fid, void *context);
int pmv_ep_open(struct fid_domain *domain_fid, struct fi_info *info, struct fid_ep **ep_fid,
		void *context);
int pmv_srx_open(struct fid_domain *domain_fid, struct fi_rx_attr *attr, struct fid_ep **srx_fid,
		 void *context);

#endif /* PMV_DOMAIN_H */
