/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cntr.h -- counters of our own
 *
 * The core's would count the parts of a commit; these count operations, when
 * they have reached the completion level that was asked for.  verbs has none.
 */
#ifndef PMV_CNTR_H
#define PMV_CNTR_H

#include "objects/cq.h"

struct pmv_cntr {
	struct fid_cntr cntr_fid;
	struct pmv_domain *domain;
	atomic_uint_fast64_t value;
	atomic_uint_fast64_t errors;
	atomic_int users; /* endpoints bound */
	pthread_mutex_t lock;
	struct pmv_cq **cqs; /* where the counted operations complete */
	size_t num_cqs;
};

static inline struct pmv_cntr *pmv_to_cntr(struct fid_cntr *fid)
{
	return pmv_container_of(fid, struct pmv_cntr, cntr_fid);
}

extern struct fi_ops pmv_cntr_fi_ops;

int pmv_cntr_add_cq(struct pmv_cntr *cntr, struct pmv_cq *cq);
void pmv_cntr_drop_cq(struct pmv_cntr *cntr, struct pmv_cq *cq);

static inline void pmv_cntr_count(struct pmv_cntr *cntr, bool ok)
{
	atomic_fetch_add(ok ? &cntr->value : &cntr->errors, 1);
}

#endif /* PMV_CNTR_H */
